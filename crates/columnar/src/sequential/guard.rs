//! Turns a panic over the bytes of an object into an error that names the object.

use stylobate_storage::OpenObject;

use crate::{Error, Result, parallel::guarded::guarded};

/// Reads an object. Returns [`Error::Corrupt`] if a reader of another crate panics over its bytes.
pub(super) fn guard_object<T>(object: &OpenObject, read: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded(read).unwrap_or_else(|reason| Err(Error::corrupt(object.name(), reason)))
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;
    use stylobate_storage::{ByteSize, CacheOptions};

    use super::*;
    use crate::Cache;

    #[tokio::test]
    async fn a_panic_is_an_error_that_names_the_object() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.csv"), "a\n1\n").unwrap();
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(8))).await.unwrap();
        let store = cache.store(folder.path().to_str().unwrap(), &[]).unwrap();
        let object = store.open_object(&Path::from("a.csv")).await.unwrap();

        assert_eq!(guard_object(&object, || Ok(7)).unwrap(), 7);
        let error = guard_object(&object, || -> Result<u8> { panic!("no such code") }).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { object, .. } if object.ends_with("a.csv")), "{error}");
        assert!(error.to_string().contains("no such code"), "{error}");
    }
}
