//! Deletions: sets of ordinals or indexes, as roaring bitmaps.

use std::{ops::Range, result::Result as StdResult, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use object_store::{ObjectStoreExt, PutPayload};
use roaring::RoaringTreemap;
use stylobate_storage::{Corrupt, Destination, Error as StorageError, Overwrite, Sinks};

use crate::{
    Result,
    store::{
        budgeted::{Budgeted, MemoryFootprint},
        names::uuid7,
    },
};

/// Bytes of a checksum.
const CHECKSUM: usize = 4;

/// Set of deleted edge ordinals or vertex indexes.
#[derive(Debug, Default)]
pub(crate) struct DeletionSet {
    all: RoaringTreemap,
    /// Range from the least to the greatest element, which decides most lookups.
    span: Range<u64>,
    /// Keeps the source sets open, for versions that add to them.
    _of: Vec<Arc<Budgeted<DeletionSet>>>,
}

impl DeletionSet {
    pub(crate) fn new(all: RoaringTreemap) -> Self {
        let span = match (all.min(), all.max()) {
            (Some(first), Some(last)) => first..last.saturating_add(1),
            _ => 0..0,
        };
        Self { all, span, _of: Vec::new() }
    }

    /// Returns the union of several sets.
    pub(crate) fn union(sets: Vec<Arc<Budgeted<Self>>>) -> Self {
        let mut all = RoaringTreemap::new();
        for set in &sets {
            all |= &set.all;
        }
        Self { _of: sets, ..Self::new(all) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.all.len()
    }

    pub(crate) fn set(&self) -> &RoaringTreemap {
        &self.all
    }

    #[inline]
    pub(crate) fn contains(&self, value: u64) -> bool {
        self.span.contains(&value) && self.all.contains(value)
    }

    /// Returns the number of elements in a range.
    #[inline]
    pub(crate) fn count(&self, range: &Range<u64>) -> u64 {
        let start = range.start.max(self.span.start);
        let end = range.end.min(self.span.end);
        if start < end { self.all.range_cardinality(start..end) } else { 0 }
    }

    /// Calls `each` with the live subranges of a range, in order.
    #[inline]
    pub(crate) fn left(&self, range: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        if self.count(&range) == 0 {
            return each(range);
        }

        let mut start = range.start;
        let mut deleted = self.all.iter();
        deleted.advance_to(start);
        for gone in deleted.take_while(|gone| *gone < range.end) {
            if gone > start {
                each(start..gone);
            }
            start = gone + 1;
        }

        if start < range.end {
            each(start..range.end);
        }
    }

    /// Serializes the set in the portable form of 64-bit roaring bitmaps, followed by its CRC-32.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.all.serialized_size() + CHECKSUM);
        // Writing to memory does not fail.
        let _ = self.all.serialize_into(&mut bytes);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> StdResult<Self, Corrupt> {
        let (bytes, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or("it ends too soon")?;
        if crc32fast::hash(bytes) != u32::from_le_bytes(*checksum) {
            return Err(Corrupt::new("its bytes do not have its checksum").at(bytes.len() as u64));
        }
        let read = RoaringTreemap::deserialize_from(bytes);
        read.map(Self::new).map_err(|error| Corrupt::new(format!("not a roaring bitmap: {error}")))
    }

    pub(crate) fn from_text(text: &str) -> StdResult<Self, Corrupt> {
        Self::from_bytes(&BASE64.decode(text).map_err(|error| error.to_string())?)
    }
}

impl MemoryFootprint for DeletionSet {
    fn bytes(&self) -> u64 {
        // The containers take about the same bytes in memory as in a file.
        self.all.serialized_size() as u64
    }
}

impl FromIterator<u64> for DeletionSet {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        Self::new(values.into_iter().collect())
    }
}

/// Writes the bytes of a set to a separate file. Returns its path within the store.
pub(crate) async fn write(sinks: &Sinks, root: &Destination, bytes: Vec<u8>) -> Result<String> {
    let path = format!("deleted/{}.roaring", uuid7());
    match root.join(&path)? {
        Destination::File(file) => {
            let mut sink = sinks.file(&file, Overwrite::Refuse).await?;
            sink.write(&bytes).await?;
            sink.finish().await?;
        }
        Destination::Object { origin, path } => {
            let put = origin.store().put(&path, PutPayload::from(bytes)).await;
            put.map_err(|error| StorageError::from_write(path.as_ref(), error))?;
        }
    }

    Ok(path)
}

#[cfg(test)]
mod tests {
    use stylobate_columnar::Cache;
    use stylobate_storage::{ByteSize, CacheOptions};

    use super::*;

    #[test]
    fn what_is_left_of_a_range_lies_between_what_was_deleted() {
        let deleted: DeletionSet = [3, 4, 9, 1 << 40].into_iter().collect();
        let left = |range: Range<u64>| {
            let mut parts = Vec::new();
            deleted.left(range, |part| parts.push(part));
            parts
        };
        assert_eq!(left(0..3), std::slice::from_ref(&(0..3)));
        assert_eq!(left(0..10), [0..3, 5..9]);
        assert_eq!(left(3..5), []);
        assert_eq!(left(4..12), [5..9, 10..12]);
        assert_eq!(left(7..7), []);
        assert_eq!(
            left((1 << 40) - 1..(1 << 40) + 2),
            [(1 << 40) - 1..1 << 40, (1 << 40) + 1..(1 << 40) + 2]
        );
        assert_eq!((deleted.count(&(0..10)), deleted.len()), (3, 4));
        assert!(deleted.contains(9) && !deleted.contains(10));
    }

    #[test]
    fn a_set_comes_back_from_bytes_and_other_bytes_are_an_error() {
        let deleted: DeletionSet = (0..1_000).step_by(7).chain([u64::MAX]).collect();
        assert_eq!(DeletionSet::from_bytes(&deleted.to_bytes()).unwrap().set(), deleted.set());
        let text = BASE64.encode(deleted.to_bytes());
        assert_eq!(DeletionSet::from_text(&text).unwrap().set(), deleted.set());
        DeletionSet::from_bytes(b"nothing of that kind").unwrap_err();

        let mut bytes = deleted.to_bytes();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            DeletionSet::from_bytes(&bytes).unwrap_err();
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        DeletionSet::from_text("%%").unwrap_err();
    }

    #[tokio::test]
    async fn several_sets_are_one_and_count_in_the_budget() {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(1))).await.unwrap();
        let held =
            |values: &[u64]| Arc::new(Budgeted::new(&cache, values.iter().copied().collect::<DeletionSet>()));
        let one = held(&[1]);
        let two = held(&[1, 2]);
        let union = DeletionSet::union(vec![one.clone(), two.clone()]);
        assert_eq!(union.set(), two.set());
        assert_eq!(cache.stats().held_bytes, one.bytes() + two.bytes());
        drop((one, two));
        assert!(cache.stats().held_bytes > 0, "they stay open with what was made of them");
        drop(union);
        assert_eq!(cache.stats().held_bytes, 0);
    }
}
