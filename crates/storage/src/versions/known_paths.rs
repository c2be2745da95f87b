//! The descriptions that a bucket remembers, by path: bounded in number and in bytes.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use object_store::{Attribute, path::Path};
use tokio::time::Instant;

use super::ObjectInfo;

/// Maximum paths remembered per bucket.
pub(super) const MAX_PATHS: usize = 65_536;
/// Maximum bytes that the descriptions of a bucket take. One with few headers takes about 1 KB.
const MAX_BYTES: usize = 64 << 20;

/// Descriptions by path.
#[derive(Debug, Default)]
pub(super) struct KnownPaths {
    by_path: HashMap<String, Arc<ObjectInfo>>,
    /// The sum of [`ObjectInfo::held_bytes`].
    bytes: usize,
}

impl KnownPaths {
    pub(super) fn get(&self, path: impl AsRef<str>) -> Option<&Arc<ObjectInfo>> {
        self.by_path.get(path.as_ref())
    }

    /// Returns the description of a path. Changes must preserve its size in memory.
    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut Arc<ObjectInfo>> {
        self.by_path.get_mut(path.as_ref())
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    pub(super) fn len(&self) -> usize {
        self.by_path.len()
    }

    /// Replaces the description of a path. Returns the previous one.
    pub(super) fn insert(&mut self, known: Arc<ObjectInfo>) -> Option<Arc<ObjectInfo>> {
        self.bytes += known.held_bytes();
        let before = match self.by_path.entry(known.path.to_string()) {
            Entry::Occupied(mut entry) => Some(entry.insert(known)),
            Entry::Vacant(entry) => {
                entry.insert(known);
                None
            }
        };
        self.bytes -= before.as_ref().map_or(0, |before| before.held_bytes());
        before
    }

    pub(super) fn remove(&mut self, path: &Path) -> Option<Arc<ObjectInfo>> {
        let removed = self.by_path.remove(path.as_ref())?;
        self.bytes -= removed.held_bytes();
        Some(removed)
    }

    /// Removes the descriptions for which `keeps` returns false; it may modify them, but must preserve their size
    /// in memory.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&str, &mut Arc<ObjectInfo>) -> bool) {
        let bytes = &mut self.bytes;
        self.by_path.retain(|path, known| {
            let is_kept = keeps(path, known);
            if !is_kept {
                *bytes -= known.held_bytes();
            }
            is_kept
        });
    }

    /// Removes the least recently checked descriptions, an eighth at a time, until the bounds hold; the last one stays.
    /// Returns the removed descriptions.
    pub(super) fn shrink(&mut self) -> Vec<Arc<ObjectInfo>> {
        let mut removed = Vec::new();
        while self.len() > 1 && (self.len() > MAX_PATHS || self.bytes > MAX_BYTES) {
            let mut ages: Vec<Instant> = self.by_path.values().map(|known| known.checked).collect();
            let eighth = ages.len() / 8;
            let (_, limit, _) = ages.select_nth_unstable(eighth);
            let limit = *limit;
            let oldest = self.by_path.extract_if(|_, known| known.checked <= limit);
            removed.extend(oldest.map(|(_, known)| known).inspect(|known| self.bytes -= known.held_bytes()));
        }
        removed
    }
}

impl ObjectInfo {
    /// Returns about how much memory a remembered description takes, in bytes.
    fn held_bytes(&self) -> usize {
        let tags = [&self.meta.e_tag, &self.meta.version].into_iter().flatten();
        let tags: usize = tags.map(String::len).sum();
        let name_len = |name: &Attribute| match name {
            Attribute::Metadata(name) => name.len(),
            _ => 0,
        };
        let attributes = self.attributes.iter();
        let attributes: usize =
            attributes.map(|(name, value)| size_of::<(Path, Path)>() + name_len(name) + value.len()).sum();
        let headers = self.headers.as_ref().map_or(0, |headers| headers.held_bytes());
        // The path is also the key, and in the metadata.
        size_of::<Self>()
            + size_of::<(String, usize)>()
            + 3 * self.path.as_ref().len()
            + tags
            + attributes
            + headers
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::known, *};

    fn long(number: usize, bytes: usize) -> Arc<ObjectInfo> {
        let known = known(&number.to_string(), "x");
        let meta = object_store::ObjectMeta { e_tag: Some("x".repeat(bytes)), ..known.meta.clone() };
        Arc::new(ObjectInfo { meta, ..known })
    }

    #[test]
    fn long_descriptions_leave_room_for_fewer_paths() {
        const TAG: usize = 100_000;
        let mut paths = KnownPaths::default();
        let mut removed = 0;
        for number in 0..2 * MAX_BYTES / TAG {
            let known = long(number, TAG);
            assert!(paths.insert(known).is_none());
            removed += paths.shrink().len();
            assert!(paths.bytes <= MAX_BYTES);
        }
        assert!(removed > 0 && paths.len() * TAG > MAX_BYTES / 2);

        // Descriptions that replace others are counted, too.
        let last = long(2 * MAX_BYTES / TAG - 1, MAX_BYTES);
        assert!(paths.insert(last.clone()).is_some());
        assert!(!paths.shrink().is_empty() && paths.len() == 1, "the newest stays, however long it is");
        assert!(paths.insert(long(2 * MAX_BYTES / TAG - 1, 5)).is_some() && paths.shrink().is_empty());
        assert!(paths.remove(&last.path).is_some() && paths.remove(&last.path).is_none());
        assert_eq!((paths.len(), paths.bytes), (0, 0));

        assert!(paths.insert(last).is_none());
        paths.retain(|_, _| false);
        assert_eq!((paths.len(), paths.bytes), (0, 0));
    }
}
