//! Parses the footer of a stripe: its streams, their ranges, and the encodings of columns.

use std::{collections::HashSet, ops::Range};

use arrow::array::timezone::Tz;
use bytes::Bytes;
use chrono::{NaiveDate, TimeZone};
use orc_rust::proto::{self, column_encoding::Kind as Encodings, stream::Kind as Streams};
use prost::Message;

use super::{
    calendar::EarlyOffsets,
    compression::OrcCodec,
    fault::OrcReadError,
    stream::{OrcStreamReader, max_message_bytes},
    tail::StripeLocation,
};

/// Value of `bloomEncoding` for filters that hash timestamps in UTC.
const FILTERS_IN_UTC: u32 = 1;

/// Contents of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StreamKind {
    Present,
    Data,
    Length,
    DictionaryData,
    Secondary,
    RowIndex,
    BloomFilter,
}

/// Stream of a column.
#[derive(Clone, Debug)]
pub(super) struct OrcStreamLocation {
    pub(super) column: u32,
    pub(super) kind: StreamKind,
    /// Range in the object.
    pub(super) range: Range<u64>,
}

/// Encoding of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrcColumnEncoding {
    /// True if numbers use version 2 of run-length encoding.
    pub(super) is_rle_v2: bool,
    /// Number of values in the dictionary, if there is one.
    pub(super) dictionary: Option<u32>,
    /// True if bloom filters have timestamps in UTC.
    pub(super) filters_in_utc: bool,
}

/// Parsed stripe footer.
#[derive(Debug)]
pub(super) struct StripeFooter {
    /// Data streams.
    pub(super) streams: Vec<OrcStreamLocation>,
    /// Index streams: row indexes, and bloom filters that hash text as UTF-8.
    pub(super) index: Vec<OrcStreamLocation>,
    /// By column; `None` if unknown.
    pub(super) encodings: Vec<Option<OrcColumnEncoding>>,
    pub(super) zone: WriterTimeZone,
}

/// Writer's time zone, for timestamps without one.
#[derive(Clone, Debug)]
pub(super) enum WriterTimeZone {
    Utc,
    Other(TimeZoneClock),
    /// A name that is not in the time zone database.
    Unknown(String),
}

/// Time zone with the writer's epoch and early offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeZoneClock {
    pub(super) zone: Tz,
    /// Seconds since 1970 in UTC at which the zone's clocks showed the beginning of 2015.
    pub(super) epoch: i64,
    /// Seconds that the clocks are ahead of UTC before 1900, unless the time zone database has them.
    pub(super) before_1900: Option<i32>,
}

impl StripeFooter {
    pub(super) fn parse(
        stripe: &StripeLocation,
        codec: Option<OrcCodec>,
        columns: usize,
        early: EarlyOffsets,
        bytes: Bytes,
    ) -> Result<Self, OrcReadError> {
        let at = |fault: OrcReadError| fault.prefixed("stripe footer").at(Some(stripe.footer.start));
        let max_bytes = max_message_bytes(bytes.len());
        let bytes = OrcStreamReader::new(bytes, codec).read_all(max_bytes).map_err(at)?;
        let footer = proto::StripeFooter::decode(bytes)
            .map_err(|error| at(OrcReadError::corrupt(error.to_string())))?;

        if !footer.encryption.is_empty() {
            return Err(OrcReadError::encrypted());
        }

        let mut offset = stripe.streams.start;
        let mut streams = Vec::with_capacity(footer.streams.len());
        let mut index = Vec::new();
        let mut seen = HashSet::new();

        for stream in &footer.streams {
            let end = offset.checked_add(stream.length()).filter(|end| *end <= stripe.streams.end);
            let range = offset
                ..end.ok_or_else(|| at(OrcReadError::corrupt("its streams are longer than the stripe")))?;
            offset = range.end;
            let column = stream.column();

            if column as usize >= columns {
                return Err(at(OrcReadError::corrupt(format!(
                    "a stream of column {column}, which does not exist"
                ))));
            }

            let kind = match Streams::try_from(stream.kind.unwrap_or_default()) {
                Ok(Streams::Present) => StreamKind::Present,
                Ok(Streams::Data) => StreamKind::Data,
                Ok(Streams::Length) => StreamKind::Length,
                Ok(Streams::DictionaryData) => StreamKind::DictionaryData,
                Ok(Streams::Secondary) => StreamKind::Secondary,
                Ok(Streams::RowIndex) => StreamKind::RowIndex,
                Ok(Streams::BloomFilterUtf8) => StreamKind::BloomFilter,
                _ => continue,
            };

            if matches!(kind, StreamKind::RowIndex | StreamKind::BloomFilter) {
                index.push(OrcStreamLocation { column, kind, range });
                continue;
            }
            if !seen.insert((column, kind)) {
                return Err(at(OrcReadError::corrupt(format!("two {kind:?} streams of column {column}"))));
            }

            streams.push(OrcStreamLocation { column, kind, range });
        }

        let encodings = footer.columns.iter().map(OrcColumnEncoding::of).collect();
        let zone = WriterTimeZone::of(footer.writer_timezone.as_deref().unwrap_or_default(), early);
        Ok(Self { streams, index, encodings, zone })
    }

    /// Returns the range of a column's stream, if there is one.
    pub(super) fn stream(&self, column: u32, kind: StreamKind) -> Option<&Range<u64>> {
        let mut found = self.streams.iter().filter(|it| it.column == column && it.kind == kind);
        found.next().map(|it| &it.range)
    }

    /// Returns the range of a column's index stream, if there is exactly one.
    pub(super) fn index(&self, column: u32, kind: StreamKind) -> Option<&Range<u64>> {
        let mut found = self.index.iter().filter(|it| it.column == column && it.kind == kind);
        found.next().filter(|_| found.next().is_none()).map(|it| &it.range)
    }
}

impl OrcColumnEncoding {
    fn of(encoding: &proto::ColumnEncoding) -> Option<Self> {
        let kind = Encodings::try_from(encoding.kind.unwrap_or_default()).ok()?;
        Some(Self {
            is_rle_v2: matches!(kind, Encodings::DirectV2 | Encodings::DictionaryV2),
            dictionary: matches!(kind, Encodings::Dictionary | Encodings::DictionaryV2)
                .then(|| encoding.dictionary_size()),
            filters_in_utc: encoding.bloom_encoding == Some(FILTERS_IN_UTC),
        })
    }
}

impl WriterTimeZone {
    fn of(name: &str, early: EarlyOffsets) -> Self {
        let offset = ["GMT", "UTC", "UT"].iter().find_map(|utc| name.strip_prefix(utc)).unwrap_or(name);
        if matches!(offset, "" | "Z" | "0" | "+0" | "-0") || matches!(name, "Etc/UTC" | "Etc/GMT" | "Zulu") {
            return Self::Utc;
        }

        let Some(zone) = [offset, name].iter().find_map(|name| name.parse::<Tz>().ok()) else {
            return Self::Unknown(name.to_owned());
        };

        let epoch = NaiveDate::from_ymd_opt(2015, 1, 1).and_then(|day| day.and_hms_opt(0, 0, 0));
        match epoch.and_then(|epoch| zone.from_local_datetime(&epoch).earliest()) {
            Some(epoch) => {
                let before_1900 = early.offset_of(&zone);
                Self::Other(TimeZoneClock { zone, epoch: epoch.timestamp(), before_1900 })
            }
            None => Self::Unknown(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_name_and_by_offset() {
        for utc in ["", "UTC", "GMT", "Etc/UTC", "Z"] {
            assert!(matches!(WriterTimeZone::of(utc, EarlyOffsets::Standard), WriterTimeZone::Utc), "{utc}");
        }
        for (name, hours) in [("Europe/Berlin", 1), ("GMT+08:00", 8), ("US/Pacific", -8), ("-03:00", -3)] {
            let WriterTimeZone::Other(clock) = WriterTimeZone::of(name, EarlyOffsets::Standard) else {
                panic!("{name}")
            };
            assert_eq!(clock.epoch, 1_420_070_400 - hours * 3600, "{name}");
        }

        assert!(matches!(
            WriterTimeZone::of("Mars/Olympus", EarlyOffsets::Standard),
            WriterTimeZone::Unknown(_)
        ));
    }
}
