//! Consistency rules by path prefix: how long descriptions of objects stay valid.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::timing::duration::{format_duration, parse_duration};

/// The required freshness of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Ask the origin before each open.
    Strict,
    /// Ask again once the last response is older than this.
    Ttl(Duration),
    /// Never ask again: for files that are written once, such as those of Iceberg, Delta and Hive tables.
    Immutable,
    /// Depends on the file's name in a table format.
    Table(TableFormat),
}

/// A table format whose file names show whether a file is ever rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableFormat {
    /// Apache Iceberg: data files, manifests and `*.metadata.json` are written once; `version-hint.text` is
    /// rewritten.
    Iceberg,
    /// Delta Lake: data files and `_delta_log/*.json` are written once; `_last_checkpoint` is rewritten.
    Delta,
    /// Folders of files, as written by Spark and Hive: files with a UUID in their names are written once.
    Hive,
}

impl TableFormat {
    /// Returns the consistency required for the file at `path`.
    pub fn for_path(self, path: &str) -> Consistency {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let is_data = ends(&[".parquet", ".orc", ".avro"]);
        let (is_final, is_pointer) = match self {
            Self::Iceberg => {
                (is_data || ends(&[".metadata.json", ".puffin", ".stats"]), name == "version-hint.text")
            }
            Self::Delta => {
                let in_log = folder == "_delta_log" || folder.ends_with("/_delta_log");
                let is_log = in_log && ends(&[".json", ".crc"]);
                (is_data || is_log || ends(&[".bin"]), in_log && name == "_last_checkpoint")
            }
            Self::Hive => (is_data && has_uuid(name), name == "_SUCCESS"),
        };

        match (is_final, is_pointer) {
            (_, true) => Consistency::Strict,
            (true, _) => Consistency::Immutable,
            (false, false) => Consistency::DEFAULT,
        }
    }
}

/// Returns whether a name contains a UUID: 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn has_uuid(name: &str) -> bool {
    name.as_bytes().windows(36).any(|window| {
        window.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    })
}

impl Consistency {
    /// Ask again after ten seconds.
    pub const DEFAULT: Self = Self::Ttl(Duration::from_secs(10));

    /// Returns whether a description of this age is still valid.
    pub fn allows(self, age: Duration) -> bool {
        match self {
            Self::Strict => false,
            Self::Ttl(ttl) => age < ttl,
            Self::Immutable => true,
            // Without a file name, the strictest rule of the format applies.
            Self::Table(_) => false,
        }
    }
}

impl Default for Consistency {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Ttl(ttl) => f.write_str(&format_duration(*ttl)),
            Self::Immutable => f.write_str("immutable"),
            Self::Table(TableFormat::Iceberg) => f.write_str("iceberg"),
            Self::Table(TableFormat::Delta) => f.write_str("delta"),
            Self::Table(TableFormat::Hive) => f.write_str("hive"),
        }
    }
}

/// The error for a text that is not a consistency rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a consistency rule: use strict, immutable, iceberg, delta, hive, or a time such as 10s, 500ms or 5m"
)]
pub struct ParseConsistencyError {
    text: String,
}

impl FromStr for Consistency {
    type Err = ParseConsistencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "strict" => return Ok(Self::Strict),
            "immutable" => return Ok(Self::Immutable),
            "iceberg" => return Ok(Self::Table(TableFormat::Iceberg)),
            "delta" => return Ok(Self::Table(TableFormat::Delta)),
            "hive" => return Ok(Self::Table(TableFormat::Hive)),
            _ => {}
        }
        parse_duration(text).map(Self::Ttl).map_err(|_| ParseConsistencyError { text: text.to_owned() })
    }
}

impl Serialize for Consistency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Consistency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The consistency rules of one bucket: the longest prefix that matches an object's path decides.
#[derive(Clone, Debug, Default)]
pub struct ConsistencyRules {
    default: Consistency,
    by_prefix: Vec<(String, Consistency)>,
}

impl ConsistencyRules {
    /// Creates rules with `default` for every object.
    pub fn new(default: Consistency) -> Self {
        Self { default, by_prefix: Vec::new() }
    }

    /// Adds a rule for paths with the prefix.
    pub fn with_rule(mut self, prefix: impl Into<String>, consistency: Consistency) -> Self {
        self.by_prefix.push((prefix.into(), consistency));
        self.by_prefix.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self
    }

    /// Returns the consistency required for the object at `path`.
    pub fn for_path(&self, path: &str) -> Consistency {
        let rule = self.by_prefix.iter().find(|(prefix, _)| path.starts_with(prefix.as_str()));
        match rule.map_or(self.default, |(_, consistency)| *consistency) {
            Consistency::Table(format) => format.for_path(path),
            consistency => consistency,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let rules = ConsistencyRules::new(Consistency::DEFAULT)
            .with_rule("warehouse/", Consistency::Immutable)
            .with_rule("warehouse/staging/", Consistency::Strict);
        assert_eq!(rules.for_path("logs/a"), Consistency::DEFAULT);
        assert_eq!(rules.for_path("warehouse/a"), Consistency::Immutable);
        assert_eq!(rules.for_path("warehouse/staging/a"), Consistency::Strict);
    }

    #[test]
    fn the_name_of_a_file_of_a_table_decides() {
        use Consistency::{Immutable, Strict};
        const DEFAULT: Consistency = Consistency::DEFAULT;
        let uuid = "part-00000-6f1ed002-ab5b-4c5c-9fa1-2c5f3a1a5b6d-c000.snappy.parquet";
        for (format, path, expected) in [
            ("iceberg", "w/t/data/a=1/f.parquet", Immutable),
            ("iceberg", "w/t/metadata/00001-x.metadata.json", Immutable),
            ("iceberg", "w/t/metadata/snap-1.avro", Immutable),
            ("iceberg", "w/t/metadata/version-hint.text", Strict),
            ("iceberg", "w/t/other.txt", DEFAULT),
            ("delta", "t/_delta_log/00000000000000000001.json", Immutable),
            ("delta", "_delta_log/_last_checkpoint", Strict),
            ("delta", "t/part.parquet", Immutable),
            ("delta", "t/config.json", DEFAULT),
            ("hive", uuid, Immutable),
            ("hive", "t/000000_0.orc", DEFAULT),
            ("hive", "t/_SUCCESS", Strict),
        ] {
            let rules = ConsistencyRules::new(format.parse().unwrap());
            assert_eq!(rules.for_path(path), expected, "{format} {path}");
        }
    }

    #[test]
    fn a_rule_prints_as_it_is_written() {
        for text in ["strict", "immutable", "10s", "500ms", "iceberg", "delta", "hive"] {
            assert_eq!(text.parse::<Consistency>().unwrap().to_string(), text);
        }
        assert_eq!("2m".parse(), Ok(Consistency::Ttl(Duration::from_secs(120))));
        for text in ["", "s", "10", "-1s", "ten", "99999999999999999999s"] {
            assert!(text.parse::<Consistency>().is_err(), "{text}");
        }
    }
}
