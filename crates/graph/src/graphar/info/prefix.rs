//! Path prefixes: their normal form, and rejection of those that lead out of the graph.

/// Normalizes a prefix: each part followed by a slash, no `.`, and empty for the folder itself.
pub(super) fn normal(prefix: &str) -> String {
    prefix.split('/').filter(|part| !part.is_empty() && *part != ".").map(|part| format!("{part}/")).collect()
}

/// Returns true if a path is absolute rather than within the graph: `/data/`, `s3://bucket/`, `C:\`.
pub(super) fn is_absolute(path: &str) -> bool {
    let drive = matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    path.starts_with(['/', '\\']) || path.contains("://") || drive
}

/// Rejects absolute paths and paths that lead upwards.
pub(super) fn leads_out(path: &str) -> Result<(), &'static str> {
    if is_absolute(path) {
        return Err("is absolute: paths are relative to the graph");
    }
    leads_up(path)
}

/// Rejects paths that lead upwards, absolute or not.
pub(super) fn leads_up(path: &str) -> Result<(), &'static str> {
    if path.split(['/', '\\']).any(|part| part == "..") {
        return Err("leads out of its folder by `..`");
    }
    if path.chars().any(char::is_control) {
        return Err("has control characters");
    }
    Ok(())
}

/// Rejects prefixes that cannot be used in paths unchanged.
pub(super) fn usable(prefix: &str) -> Result<(), &'static str> {
    leads_out(prefix)?;
    if normal(prefix) == prefix { Ok(()) } else { Err("is not of parts with one slash behind each") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_one_spelling() {
        for (written, is) in [
            ("vertex/person/", "vertex/person/"),
            ("vertex/person", "vertex/person/"),
            ("./vertex//person/./", "vertex/person/"),
            ("./", ""),
            (".", ""),
            ("...", ".../"),
        ] {
            assert_eq!(normal(written), is, "{written}");
            assert_eq!(usable(is), Ok(()));
        }

        assert!(usable("vertex").is_err());
        assert!(usable("./vertex/").is_err());
    }

    #[test]
    fn no_path_leads_out_of_the_graph() {
        for path in ["..", "../x/", "a/../b/", "a/..", "a\\..\\b", "a\n/"] {
            assert!(leads_up(path).is_err(), "{path:?}");
        }
        for path in ["/", "/a/", "\\a", "s3://a/b/", "file:///a", "C:\\a", "c:/a"] {
            assert!(leads_out(path).is_err(), "{path:?}");
            assert!(is_absolute(path), "{path:?}");
        }
        for path in ["a..b/", "..a/", ".hidden/", "a:b/"] {
            assert_eq!(leads_up(path), Ok(()), "{path:?}");
        }
    }
}
