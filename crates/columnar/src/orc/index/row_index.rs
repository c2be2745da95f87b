//! Row index and bloom filters of a column in a stripe: statistics and positions of each row group.
//!
//! An index that cannot be read is treated as absent: indexes make scans cheaper, but never decide whether they
//! succeed.

use std::ops::Range;

use ::bytes::Bytes;
use orc_rust::proto::{BloomFilter, ColumnStatistics, RowIndexEntry};
use prost::Message;
use stylobate_storage::OpenObject;

use crate::{
    Error, Result,
    file::schema::ProjectedColumn,
    orc::{
        OrcFile, bytes,
        compression::OrcCodec,
        stream::{OrcStreamReader, max_message_bytes},
        stripe::{StreamKind, StripeFooter},
        stripe_statistics::entries,
        tree::{OrcType, OrcTypeKind},
    },
    predicate::Column,
};

/// Maximum bytes of an index that are read.
const MAX_BYTES: u64 = 16 << 20;

/// Row index of one column, kept encoded and parsed on request.
#[derive(Debug, Default)]
pub(crate) struct OrcColumnIndex {
    /// Row index entry of each row group, or none.
    groups: Vec<Bytes>,
    /// Bloom filter of each row group, or none.
    filters: Vec<Bytes>,
    bytes: usize,
}

impl OrcColumnIndex {
    /// Parses the raw streams.
    pub(crate) fn parse(
        row_index: Option<Bytes>,
        filters: Option<Bytes>,
        codec: Option<OrcCodec>,
        groups: u64,
    ) -> Self {
        let mut bytes = 0;
        let mut each = |stream: Option<Bytes>| -> Option<Vec<Bytes>> {
            let stream = stream?;
            let max_bytes = max_message_bytes(stream.len());
            let message = OrcStreamReader::new(stream, codec).read_all(max_bytes).ok()?;
            // Copied, so that the much larger buffer of the combined read is not retained.
            let message = Bytes::copy_from_slice(&message);
            let each = entries(&message).collect::<Option<Vec<_>>>()?;

            if each.len() as u64 != groups {
                return None;
            }

            bytes += message.len() + each.len() * size_of::<Bytes>();
            Some(each)
        };

        let groups = each(row_index).unwrap_or_default();
        let filters = each(filters).unwrap_or_default();
        Self { groups, filters, bytes }
    }

    /// Returns an estimate of the bytes in memory.
    pub(crate) fn weight(&self) -> u64 {
        (self.bytes + size_of::<Self>()) as u64
    }

    /// Returns whether there are neither statistics nor filters.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.filters.is_empty()
    }

    /// Returns the statistics of a row group.
    pub(crate) fn statistics(&self, group: usize) -> Option<ColumnStatistics> {
        RowIndexEntry::decode(self.groups.get(group)?.clone()).ok()?.statistics
    }

    /// Returns whether there are bloom filters.
    pub(crate) fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Returns the bloom filter of a row group.
    pub(crate) fn filter(&self, group: usize) -> Option<BloomFilter> {
        BloomFilter::decode(self.filters.get(group)?.clone()).ok()
    }

    /// Returns the positions of each row group in the column's streams; `None` unless all are known.
    pub(crate) fn positions(&self) -> Option<Vec<Vec<u64>>> {
        let positions =
            self.groups.iter().map(|group| Some(RowIndexEntry::decode(group.clone()).ok()?.positions));
        positions.collect::<Option<Vec<_>>>().filter(|positions| !positions.is_empty())
    }
}

impl OrcFile {
    /// Returns the number of row groups of a stripe; 0 if there is no row index.
    pub(crate) fn groups(&self, stripe: usize) -> u64 {
        let rows = self.stripe_rows(stripe);
        if self.tail.stride == 0 { 0 } else { rows.div_ceil(self.tail.stride) }
    }

    /// Returns the columns whose index may help a filter over these columns, and for each whether its bloom filter may
    /// help: that is, whether the filter compares the column for equality.
    pub(crate) fn indexed_columns<'a>(
        &self,
        stripe: usize,
        columns: impl Iterator<Item = (&'a Column, bool)>,
    ) -> Vec<(usize, bool)> {
        let groups = self.groups(stripe);
        let trust = self.tail.statistics.trust;
        let indexed = |(column, equality): (&Column, bool)| {
            let column = self.tail.root.find(column.name())?;
            let is_leaf = !matches!(
                column.kind,
                OrcTypeKind::List
                    | OrcTypeKind::Map
                    | OrcTypeKind::Struct
                    | OrcTypeKind::Union
                    | OrcTypeKind::Unknown(_)
            );

            let filter = equality && trust.bloom_filters;
            // The statistics of a stripe's only row group are those of the stripe.
            (is_leaf && (groups > 1 || groups == 1 && filter)).then_some((column.id as usize, filter))
        };

        if trust.bounds { columns.filter_map(indexed).collect() } else { Vec::new() }
    }

    /// Reads the indexes of these columns, each with its bloom filters if requested, if they exist.
    pub(crate) async fn read_indexes(
        &self,
        object: &OpenObject,
        stripe: usize,
        columns: &[(usize, bool)],
    ) -> Result<Vec<OrcColumnIndex>> {
        let nothing = || columns.iter().map(|_| OrcColumnIndex::default()).collect();
        let footer = match self.footer(object, stripe).await {
            Ok(footer) => footer,
            // Errors will surface when the stripe is read.
            Err(Error::Corrupt { .. } | Error::Unsupported { .. } | Error::Encrypted { .. }) => {
                return Ok(nothing());
            }
            Err(error) => return Err(error),
        };

        let streams: Vec<_> = columns.iter().map(|column| index_streams(&footer, *column)).collect();
        let mut ranges: Vec<Range<u64>> =
            streams.iter().flat_map(|(index, filters)| [index, filters]).flatten().cloned().collect();
        if ranges.is_empty() {
            return Ok(nothing());
        }

        ranges.sort_unstable_by_key(|range| range.start);
        let ranges = bytes::merged(ranges);
        let read = object.read(&ranges).await?;
        let bytes = |range: Option<Range<u64>>| bytes::cut(&ranges, &read, &range?);
        let parse = |(index, filters)| {
            OrcColumnIndex::parse(bytes(index), bytes(filters), self.tail.codec, self.groups(stripe))
        };

        Ok(streams.into_iter().map(parse).collect())
    }

    /// Returns the columns whose row indexes locate the row groups of these fields: the fields themselves, and all
    /// their descendants.
    pub(crate) fn columns_of(&self, fields: &[ProjectedColumn]) -> Vec<usize> {
        let mut ids = vec![0];
        let mut add = |column: &OrcType| ids.push(column.id as usize);
        self.wanted_columns(fields).unwrap_or_default().iter().for_each(|column| column.visit(&mut add));
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Returns the range of a column's row index, and of its bloom filters if requested.
fn index_streams(
    footer: &StripeFooter,
    (column, filter): (usize, bool),
) -> (Option<Range<u64>>, Option<Range<u64>>) {
    let find = |kind| {
        let range = footer.index(u32::try_from(column).ok()?, kind)?;
        (range.start < range.end && range.end - range.start <= MAX_BYTES).then(|| range.clone())
    };
    (find(StreamKind::RowIndex), if filter { find(StreamKind::BloomFilter) } else { None })
}

#[cfg(test)]
mod tests {
    use orc_rust::proto::{RowIndex, RowIndexEntry};

    use super::*;

    fn index(positions: &[&[u64]]) -> Bytes {
        let entry = |positions: &&[u64]| RowIndexEntry {
            positions: positions.to_vec(),
            statistics: Some(ColumnStatistics { number_of_values: Some(7), ..Default::default() }),
        };
        RowIndex { entry: positions.iter().map(entry).collect() }.encode_to_vec().into()
    }

    #[test]
    fn an_index_of_another_number_of_row_groups_is_none() {
        let bytes = index(&[&[0, 0], &[8, 2]]);
        let parse = |groups| OrcColumnIndex::parse(Some(bytes.clone()), None, None, groups);
        let parsed = parse(2);
        assert_eq!(parsed.positions(), Some(vec![vec![0, 0], vec![8, 2]]));
        assert_eq!(parsed.statistics(1).unwrap().number_of_values, Some(7));
        assert!(parsed.statistics(2).is_none() && parsed.filter(0).is_none() && !parsed.is_empty());

        for groups in [0, 1, 3, u64::MAX] {
            assert!(parse(groups).is_empty(), "{groups}");
            assert_eq!(parse(groups).positions(), None);
        }
    }

    #[test]
    fn an_index_that_is_cut_off_says_nothing_or_what_it_said() {
        let bytes = index(&[&[0, 0], &[8, 2]]);
        for len in 0..bytes.len() {
            assert!(OrcColumnIndex::parse(Some(bytes.slice(..len)), None, None, 2).is_empty(), "{len} bytes");
        }
    }
}
