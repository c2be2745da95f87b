//! The error for bytes that violate their format.

use std::borrow::Cow;

/// Untrusted bytes that violate their format. Decoders return it; a caller that knows the object converts it to its
/// crate's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Corrupt {
    /// Offset of the violation in the decoded bytes, or in the object once the caller has added their start; `None`
    /// if unknown, as within a compressed page.
    pub offset: Option<u64>,
    /// The violation.
    pub reason: Cow<'static, str>,
}

impl Corrupt {
    /// Creates an error at an unknown offset.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { offset: None, reason: reason.into() }
    }

    /// Sets the offset if it is unknown.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// Adds the offset at which the decoded bytes start.
    #[must_use]
    pub fn within(mut self, start: u64) -> Self {
        self.offset = Some(start.saturating_add(self.offset.unwrap_or(0)));
        self
    }
}

impl From<&'static str> for Corrupt {
    fn from(reason: &'static str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Corrupt {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_counted_from_the_start_of_the_object() {
        let unknown = Corrupt::from("cut");
        assert_eq!(unknown.clone().at(3).at(9).within(100).offset, Some(103));
        assert_eq!(unknown.clone().within(100).offset, Some(100));
        assert_eq!(unknown.within(u64::MAX).within(1).to_string(), "cut");
    }
}
