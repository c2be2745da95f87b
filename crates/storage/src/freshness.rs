//! How long what is known of an object may be believed: the rules, by prefix of its path.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Ask the origin before each open.
    Strict,
    /// Ask again once the last answer is older than this.
    Ttl(Duration),
    /// Never ask again: for files that are written once, such as those of Iceberg, Delta and Hive tables.
    Immutable,
}

impl Consistency {
    /// Ask again after ten seconds.
    pub const DEFAULT: Self = Self::Ttl(Duration::from_secs(10));

    /// Whether an answer of this age may still be used.
    pub fn allows(self, age: Duration) -> bool {
        match self {
            Self::Strict => false,
            Self::Ttl(ttl) => age < ttl,
            Self::Immutable => true,
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
            Self::Ttl(ttl) if ttl.subsec_millis() == 0 => write!(f, "{}s", ttl.as_secs()),
            Self::Ttl(ttl) => write!(f, "{}ms", ttl.as_millis()),
            Self::Immutable => f.write_str("immutable"),
        }
    }
}

/// The text names no consistency rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a consistency rule: use strict, immutable or a time such as 10s, 500ms or 5m")]
pub struct ParseConsistencyError {
    text: String,
}

impl FromStr for Consistency {
    type Err = ParseConsistencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "strict" => return Ok(Self::Strict),
            "immutable" => return Ok(Self::Immutable),
            _ => {}
        }
        parse_duration(text).map(Self::Ttl).ok_or_else(|| ParseConsistencyError { text: text.to_owned() })
    }
}

/// A time such as `500ms`, `10s`, `5m` or `1h`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let milliseconds_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(milliseconds_per_unit).map(Duration::from_millis)
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

/// The rules of one bucket: the longest prefix that an object's path begins with decides.
#[derive(Clone, Debug, Default)]
pub struct ConsistencyRules {
    default: Consistency,
    by_prefix: Vec<(String, Consistency)>,
}

impl ConsistencyRules {
    /// Rules by which every object is as fresh as `default` says.
    pub fn new(default: Consistency) -> Self {
        Self { default, by_prefix: Vec::new() }
    }

    /// Adds a rule for the paths that begin with `prefix`.
    pub fn with_rule(mut self, prefix: impl Into<String>, consistency: Consistency) -> Self {
        self.by_prefix.push((prefix.into(), consistency));
        self.by_prefix.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self
    }

    /// How fresh the object at `path` must be.
    pub fn for_path(&self, path: &str) -> Consistency {
        let rule = self.by_prefix.iter().find(|(prefix, _)| path.starts_with(prefix.as_str()));
        rule.map_or(self.default, |(_, consistency)| *consistency)
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
    fn a_rule_prints_as_it_is_written() {
        for text in ["strict", "immutable", "10s", "500ms"] {
            assert_eq!(text.parse::<Consistency>().unwrap().to_string(), text);
        }
        assert_eq!("2m".parse(), Ok(Consistency::Ttl(Duration::from_secs(120))));
        for text in ["", "s", "10", "-1s", "ten", "99999999999999999999s"] {
            assert!(text.parse::<Consistency>().is_err(), "{text}");
        }
    }
}
