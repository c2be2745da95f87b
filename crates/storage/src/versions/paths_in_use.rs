//! Paths that the process uses: by a lookup or a fetch in flight, a description, or bytes in memory.
//!
//! Bytes may be requested before the version of a path is known only if the path is not in use. Otherwise its bytes
//! may be in memory or in flight under a version that such a request cannot name.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Weak},
};

use object_store::path::Path;
use parking_lot::Mutex;

/// The paths of one origin that are in use.
#[derive(Debug, Default)]
pub(crate) struct PathsInUse {
    hasher: RandomState,
    /// By hash of the path: a collision costs a HEAD.
    live: Mutex<HashMap<u64, Weak<PathInUse>>>,
}

/// A path in use, until the last reference to this is dropped.
#[derive(Debug)]
pub(crate) struct PathInUse {
    paths: Arc<PathsInUse>,
    hash: u64,
}

impl PathsInUse {
    /// Begins to use a path, or joins its other users.
    pub(crate) fn begin(self: &Arc<Self>, path: &Path) -> Arc<PathInUse> {
        let hash = self.hasher.hash_one(path.as_ref());
        let mut live = self.live.lock();
        let in_use = live.get(&hash).and_then(Weak::upgrade);
        in_use.unwrap_or_else(|| self.insert(&mut live, hash))
    }

    /// Begins to use a path that is not in use; `None` if it is in use.
    pub(crate) fn begin_alone(self: &Arc<Self>, path: &Path) -> Option<Arc<PathInUse>> {
        let hash = self.hasher.hash_one(path.as_ref());
        let mut live = self.live.lock();
        let is_in_use = live.get(&hash).is_some_and(|path| path.strong_count() > 0);
        (!is_in_use).then(|| self.insert(&mut live, hash))
    }

    /// Ends the use of a path that was written: the bytes in use belong to a version that will not be requested
    /// again.
    pub(crate) fn end(&self, path: &Path) {
        self.live.lock().remove(&self.hasher.hash_one(path.as_ref()));
    }

    fn insert(self: &Arc<Self>, live: &mut HashMap<u64, Weak<PathInUse>>, hash: u64) -> Arc<PathInUse> {
        let path = Arc::new(PathInUse { paths: self.clone(), hash });
        live.insert(hash, Arc::downgrade(&path));
        path
    }
}

#[cfg(test)]
impl PathInUse {
    /// Returns a standalone path in use.
    pub(crate) fn sole() -> Arc<Self> {
        Arc::<PathsInUse>::default().begin(&Path::from("a"))
    }
}

impl Drop for PathInUse {
    fn drop(&mut self) {
        let mut live = self.paths.live.lock();
        // The path may be in use again.
        if live.get(&self.hash).is_some_and(|path| path.strong_count() == 0) {
            live.remove(&self.hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_use_until_the_last_user_has_gone_or_it_is_written() {
        let paths = Arc::<PathsInUse>::default();
        let path = Path::from("a");
        let users = [paths.begin_alone(&path).unwrap(), paths.begin(&path)];
        assert!(paths.begin_alone(&path).is_none() && paths.begin_alone(&Path::from("b")).is_some());
        let [first, second] = users;
        drop(first);
        assert!(paths.begin_alone(&path).is_none());

        paths.end(&path);
        let after_write = paths.begin_alone(&path).unwrap();
        drop(second);
        assert!(paths.begin_alone(&path).is_none(), "the user of the old version does not end the new one");
        drop(after_write);
        assert!(paths.live.lock().is_empty());
    }
}
