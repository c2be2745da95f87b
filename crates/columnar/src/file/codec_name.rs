//! Parses names of codecs with an optional level: `snappy`, `zstd(3)`.

/// Splits off the level of a name, and returns the name in lower case. `None` if a parenthesis is not closed or the
/// level is not a number.
pub(crate) fn split_level(text: &str) -> Option<(String, Option<u32>)> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.split_once('(') {
        Some((name, level)) => {
            let level = level.strip_suffix(')')?.trim().parse().ok()?;
            Some((name.trim().to_owned(), Some(level)))
        }
        None => Some((lower, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_stands_in_parentheses() {
        let parsed = |name: &str, level| Some((name.to_owned(), level));
        assert_eq!(split_level("snappy"), parsed("snappy", None));
        assert_eq!(split_level(" ZSTD ( 19 ) "), parsed("zstd", Some(19)));
        for text in ["zstd(", "zstd(x)", "zstd(-1)", "zstd(3)x"] {
            assert_eq!(split_level(text), None, "{text}");
        }
    }
}
