//! Writes YAML in the subset that every reader of GraphAr understands.
//!
//! The official reader is line-based. A `#` begins a comment, unless it is the only one and in double quotes. A
//! list entry with a colon is a mapping, unless it is the only colon and in double quotes. Escapes are never
//! decoded, and `""` is an error. Some strings therefore cannot be written.

use super::key_error::InfoKeyError;

/// Writer of YAML lines.
#[derive(Debug, Default)]
pub(super) struct InfoYamlWriter {
    text: String,
}

/// Position of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum YamlScalarPosition {
    Value,
    Entry,
}

impl InfoYamlWriter {
    /// Writes `key: value`, where the value is a number, a flag or a name of the format. `key` includes its
    /// indentation, and the dash of the list entry that it begins.
    pub(super) fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        self.text += &format!("{key}: {value}\n");
    }

    /// Writes `key: value`, where the value is any text.
    pub(super) fn value(&mut self, key: &str, value: &str) -> Result<(), InfoKeyError> {
        if value.is_empty() {
            self.opens(key);
            return Ok(());
        }
        let value = scalar(value, YamlScalarPosition::Value)
            .map_err(|reason| InfoKeyError::new(key.trim_start_matches([' ', '-']), reason))?;
        self.plain(key, value);
        Ok(())
    }

    /// Writes `key:`, which opens a nested block.
    pub(super) fn opens(&mut self, key: &str) {
        self.text += &format!("{key}:\n");
    }

    /// Writes a list of strings below `key`; nothing if it is empty.
    pub(super) fn list(&mut self, key: &str, entries: &[String]) -> Result<(), InfoKeyError> {
        if !entries.is_empty() {
            self.opens(key);
        }
        for (i, entry) in entries.iter().enumerate() {
            let entry = scalar(entry, YamlScalarPosition::Entry)
                .map_err(|reason| InfoKeyError::new(format!("{key}[{i}]"), reason))?;
            self.text += &format!("  - {entry}\n");
        }
        Ok(())
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Returns `text`, quoted if necessary.
fn scalar(text: &str, position: YamlScalarPosition) -> Result<String, String> {
    if is_plain(text) {
        return Ok(text.to_owned());
    }
    if text.chars().any(|c| {
        c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    }) {
        return Err(format!("{text:?} has characters that YAML cannot hold as they are"));
    }

    let hashes = text.matches('#').count();
    let colons = if position == YamlScalarPosition::Entry { text.matches(':').count() } else { 0 };
    if !text.contains(['"', '\\']) && hashes <= 1 && colons <= 1 {
        return Ok(format!("\"{text}\""));
    }
    if !text.contains('\'') && !text.ends_with('\\') && hashes == 0 && colons == 0 {
        return Ok(format!("'{text}'"));
    }

    Err(format!("{text:?} cannot be written so that the official readers read it"))
}

/// Returns true if readers of every YAML version parse the unquoted text as a string.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_little_as_possible() {
        for (text, written) in [
            ("person", "person"),
            ("vertex/person_2/", "vertex/person_2/"),
            ("knows-date", "knows-date"),
            ("yes", "\"yes\""),
            ("1.10", "\"1.10\""),
            ("./", "\"./\""),
            ("a b", "\"a b\""),
            ("it's", "\"it's\""),
            ("say \"a\"", "'say \"a\"'"),
            ("a\\b", "'a\\b'"),
            ("a#b", "\"a#b\""),
            ("größe", "\"größe\""),
        ] {
            assert_eq!(scalar(text, YamlScalarPosition::Entry).as_deref(), Ok(written), "{text}");
        }

        assert_eq!(scalar("s3://a:1/b", YamlScalarPosition::Value).as_deref(), Ok("\"s3://a:1/b\""));
        assert_eq!(scalar("{\"a\": 1}", YamlScalarPosition::Value).as_deref(), Ok("'{\"a\": 1}'"));
    }

    #[test]
    fn what_an_official_reader_would_take_for_something_else_is_not_written() {
        for text in ["a\nb", "a#b#c", "\"'", "'\\", "\\", "\"#", "\u{feff}a", "a:b:c", "\":"] {
            assert!(scalar(text, YamlScalarPosition::Entry).is_err(), "{text:?}");
        }
    }
}
