//! Byte ranges of a request, and the range headers that S3 ignores.

use std::ops::Range;

use object_store::GetRange;
use s3s::{S3Result, dto, s3_error};

/// Bytes requested by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    /// The whole object; no range was requested.
    All,
    /// The whole object as its first and only part.
    OnlyPart,
    /// A range of its bytes.
    Bytes(GetRange),
    /// The last zero bytes: a suffix range that no object can satisfy.
    Nothing,
}

impl RequestedRange {
    /// Interprets a Range header or a part number.
    ///
    /// Origins do not report the part boundaries of an object, so every object counts as a single part.
    pub(crate) fn new(range: Option<dto::Range>, part: Option<i32>) -> S3Result<Self> {
        match (range, part) {
            (None, None) => Ok(Self::All),
            (Some(_), Some(_)) => Err(s3_error!(
                InvalidRequest,
                "Cannot specify both Range header and partNumber query parameter"
            )),
            (None, Some(1)) => Ok(Self::OnlyPart),
            (None, Some(part)) if part < 1 => Err(s3_error!(InvalidArgument, "partNumber begins with 1")),
            (None, Some(_)) => Err(s3_error!(InvalidRange, "The requested partnumber is not satisfiable")),
            (Some(dto::Range::Suffix { length: 0 }), None) => Ok(Self::Nothing),
            (Some(dto::Range::Suffix { length }), None) => Ok(Self::Bytes(GetRange::Suffix(length))),
            (Some(dto::Range::Int { first, last: None }), None) => Ok(Self::Bytes(GetRange::Offset(first))),
            (Some(dto::Range::Int { first, last: Some(last) }), None) => {
                Ok(Self::Bytes(GetRange::Bounded(first..last.saturating_add(1))))
            }
        }
    }

    /// Interprets the header x-amz-copy-source-range: `bytes=first-last`.
    pub(crate) fn of_copy(header: Option<&str>) -> S3Result<Self> {
        match header.map(dto::Range::parse) {
            None => Ok(Self::All),
            Some(Ok(range @ dto::Range::Int { last: Some(_), .. })) => Self::new(Some(range), None),
            Some(_) => Err(s3_error!(InvalidArgument, "x-amz-copy-source-range is bytes=first-last")),
        }
    }

    /// Refuses a range to copy that ends beyond an object of `size` bytes.
    pub(crate) fn check_copy(&self, size: u64) -> S3Result<()> {
        match self {
            Self::Bytes(GetRange::Bounded(range)) if range.end > size => Err(s3_error!(
                InvalidArgument,
                "Range specified is not valid for source object of size: {size}"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the range in the object_store crate's form; `None` for whole objects and for the empty range.
    pub(crate) fn to_store(&self) -> Option<GetRange> {
        match self {
            Self::Bytes(range) => Some(range.clone()),
            Self::All | Self::OnlyPart | Self::Nothing => None,
        }
    }

    /// Resolves the range for an object of `size` bytes; `None` if the object has no such bytes.
    pub(crate) fn within(&self, size: u64) -> Option<Range<u64>> {
        match self {
            Self::All | Self::OnlyPart => Some(0..size),
            Self::Nothing => None,
            Self::Bytes(_) if size == 0 => None,
            Self::Bytes(range) => range.as_range(size).ok(),
        }
    }

    /// Returns true if the answer has status 206.
    pub(crate) fn is_partial(&self) -> bool {
        !matches!(self, Self::All)
    }
}

/// Formats the value of a Content-Range header.
pub(crate) fn content_range(range: &Range<u64>, size: u64) -> String {
    match range.end.checked_sub(1) {
        Some(last) if range.start < range.end => format!("bytes {}-{last}/{size}", range.start),
        _ => format!("bytes */{size}"),
    }
}

/// Action for a Range header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeHeaderAction {
    /// A single valid range.
    Use,
    /// Several ranges, or an invalid one. The answer is the whole object, as in S3.
    Ignore,
    /// One range whose numbers exceed the parser's limits; the header in the variant is equivalent.
    Replace(String),
}

/// Returns the action for the text of a Range header.
pub(crate) fn classify_range_header(header: &str) -> RangeHeaderAction {
    // The parser would read a suffix without digits as a suffix of zero bytes.
    if header != "bytes=-" && dto::Range::parse(header).is_ok() {
        return RangeHeaderAction::Use;
    }
    let Some((first, last)) = header.strip_prefix("bytes=").and_then(|spec| spec.split_once('-')) else {
        return RangeHeaderAction::Ignore;
    };

    // Positions past the end of any object may have any number of digits.
    let position = |text: &str| {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            Some(text.parse().unwrap_or(u64::MAX).min(i64::MAX as u64))
        } else {
            None
        }
    };

    match (first, last) {
        ("", "") => RangeHeaderAction::Ignore,
        ("", _) => position(last)
            .map_or(RangeHeaderAction::Ignore, |n| RangeHeaderAction::Replace(format!("bytes=-{n}"))),
        (_, "") => position(first)
            .map_or(RangeHeaderAction::Ignore, |n| RangeHeaderAction::Replace(format!("bytes={n}-"))),
        _ => match (position(first), position(last)) {
            (Some(first), Some(last)) if first <= last => {
                RangeHeaderAction::Replace(format!("bytes={first}-{last}"))
            }
            _ => RangeHeaderAction::Ignore,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(header: &str, size: u64) -> Option<Range<u64>> {
        RequestedRange::new(Some(dto::Range::parse(header).unwrap()), None).unwrap().within(size)
    }

    #[test]
    fn every_form_of_a_range_names_the_bytes_it_should() {
        assert_eq!(within("bytes=0-3", 10), Some(0..4));
        assert_eq!(within("bytes=8-100", 10), Some(8..10));
        assert_eq!(within("bytes=4-", 10), Some(4..10));
        assert_eq!(within("bytes=-3", 10), Some(7..10));
        assert_eq!(within("bytes=-100", 10), Some(0..10));
    }

    #[test]
    fn a_range_without_bytes_is_not_satisfiable() {
        for (header, size) in
            [("bytes=10-", 10), ("bytes=10-12", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)]
        {
            assert_eq!(within(header, size), None, "{header} of {size}");
        }
    }

    #[test]
    fn a_header_with_several_ranges_or_none_is_ignored() {
        let ignored = [
            "bytes=0-1,3-4",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=-",
            "bytes",
            "lines=1-2",
            "",
            "bytes=1-2-3",
            "bytes=--1",
        ];

        for header in ignored {
            assert_eq!(classify_range_header(header), RangeHeaderAction::Ignore, "{header}");
        }
        for header in ["bytes=0-1", "bytes=7-", "bytes=-7"] {
            assert_eq!(classify_range_header(header), RangeHeaderAction::Use, "{header}");
        }
    }

    #[test]
    fn a_position_of_many_digits_lies_beyond_any_object() {
        let far = "9".repeat(30);
        assert_eq!(
            classify_range_header(&format!("bytes={far}-")),
            RangeHeaderAction::Replace(format!("bytes={}-", i64::MAX))
        );
        assert_eq!(
            classify_range_header(&format!("bytes=3-{far}")),
            RangeHeaderAction::Replace(format!("bytes=3-{}", i64::MAX))
        );
        assert_eq!(within(&format!("bytes={}-", i64::MAX), 10), None);
    }

    #[test]
    fn every_object_is_one_part() {
        assert_eq!(RequestedRange::new(None, Some(1)).unwrap(), RequestedRange::OnlyPart);
        assert!(RequestedRange::new(None, Some(2)).is_err());
        assert!(RequestedRange::new(None, Some(0)).is_err());
    }

    #[test]
    fn content_range_counts_from_zero_and_includes_the_last_byte() {
        assert_eq!(content_range(&(0..4), 10), "bytes 0-3/10");
        assert_eq!(content_range(&(0..0), 0), "bytes */0");
    }
}
