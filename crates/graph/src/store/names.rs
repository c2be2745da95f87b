//! Names of types and properties, which become parts of paths, and unique names of files.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{NoContext, Timestamp, Uuid};

use crate::{Error, Result};

/// Name of the column with vertex indexes in results and batches.
pub(super) const INDEX: &str = "_index";
/// Maximum length of a type or property name, in bytes.
const MAX_NAME: usize = 128;

/// Returns a unique name for a file or commit: a version 7 UUID, so that later names sort after earlier ones.
pub(crate) fn uuid7() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Not `Uuid::now_v7`, which takes a lock: a forked child may inherit it locked.
    let time = Timestamp::from_unix(NoContext, since.as_secs(), since.subsec_nanos());
    Uuid::new_v7(time).to_string()
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Rejects a type name that cannot be a part of a path.
pub(super) fn check_type(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(plain) {
        Ok(())
    } else {
        Err(Error::Schema {
            of: format!("type {name:?}"),
            reason: "a name has 1 to 128 letters, digits, _ and -".to_owned(),
        })
    }
}

/// Rejects a property name that is empty or that the store reserves.
pub(super) fn check_property(of: &str, name: &str) -> Result<()> {
    let reason = match name {
        "" => "is empty",
        _ if name.len() > MAX_NAME => "is longer than 128 bytes",
        INDEX => "is that of the index in answers",
        _ if name.starts_with("_graphAr") || name.starts_with("_store") => "is kept for the store itself",
        _ if name.chars().any(char::is_control) => "has control characters",
        _ => return Ok(()),
    };
    Err(Error::Schema { of: of.to_owned(), reason: format!("the property name {name:?} {reason}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_names_sort_behind_earlier_ones_and_none_comes_twice() {
        let first = uuid7();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = uuid7();
        assert!(first < second, "{first} {second}");
        assert_eq!((first.len(), first.as_bytes()[14]), (36, b'7'));
        let many: std::collections::HashSet<String> = (0..1_000).map(|_| uuid7()).collect();
        assert_eq!(many.len(), 1_000);
    }
}
