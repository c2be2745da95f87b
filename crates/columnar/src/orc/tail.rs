//! Parses the tail of an ORC file: postscript, footer and stripe statistics.
//!
//! ```text
//! "ORC" | stripe … | statistics of stripes | footer | postscript | length of the postscript, 1 byte
//! ```

use std::{collections::HashMap, ops::Range};

use arrow::datatypes::TimeUnit;
use bytes::Bytes;
use orc_rust::proto::{ColumnStatistics, Footer, PostScript, StripeInformation, UserMetadataItem};
use prost::Message;
use stylobate_storage::OpenObject;

use super::{
    calendar::{Calendar, EarlyOffsets},
    compression::OrcCodec,
    fault::OrcReadError,
    stream::{OrcStreamReader, max_message_bytes},
    stripe_statistics::StripeStatistics,
    tree::OrcType,
};
use crate::Result;

/// Magic at the end of the postscript.
const MAGIC: &[u8] = b"ORC";
/// Bytes read first: most tails are shorter.
pub(super) const FIRST_READ: u64 = 64 << 10;
/// Version of files that were trials of the next format version.
const NEXT_VERSION: [u32; 2] = [1, 9999];
/// Largest number of milliseconds that 64-bit nanoseconds can express, minus a second.
const NANOSECONDS_END: i64 = i64::MAX / 1_000_000 - 1_000;

/// Returns whether these last bytes are those of an ORC file.
pub(super) fn is_orc_tail(tail: &[u8]) -> bool {
    tail.split_last().is_some_and(|(&len, before)| usize::from(len) >= MAGIC.len() && before.ends_with(MAGIC))
}

/// Returns whether the object is an ORC file; `tail` has its last bytes. Files of the first writers (Hive 0.11) begin
/// with the magic and do not repeat it in the postscript: their first bytes are read too.
pub(crate) async fn is_orc(object: &OpenObject, tail: &[u8]) -> Result<bool> {
    if is_orc_tail(tail) {
        return Ok(true);
    }
    if !may_be_postscript(tail) {
        return Ok(false);
    }

    let head = 0..MAGIC.len() as u64;
    let head = object.read(std::slice::from_ref(&head)).await?.pop().unwrap_or_default();
    Ok(head.as_ref() == MAGIC)
}

/// Returns whether the last bytes are a postscript without magic.
pub(super) fn may_be_postscript(tail: &[u8]) -> bool {
    let Some((&len, before)) = tail.split_last() else { return false };
    let start = before.len().checked_sub(usize::from(len));
    let postscript = start.and_then(|start| PostScript::decode(before.get(start..)?).ok());
    postscript.is_some_and(|it| it.magic.is_none() && it.footer_length.is_some_and(|footer| footer > 0))
}

/// Parsed tail, without the names of the schema.
#[derive(Debug)]
pub(super) struct OrcTail {
    pub(super) codec: Option<OrcCodec>,
    pub(super) root: OrcType,
    /// Number of types.
    pub(super) columns: usize,
    pub(super) stripes: Vec<StripeLocation>,
    pub(super) statistics: StripeStatistics,
    /// Rows of a row group within a stripe; 0 if there is no row index.
    pub(super) stride: u64,
    /// Offsets of time zones before 1900 that the writer used.
    pub(super) early: EarlyOffsets,
    /// User metadata of the file.
    pub(super) metadata: HashMap<String, String>,
}

/// Location of a stripe.
#[derive(Clone, Debug)]
pub(super) struct StripeLocation {
    pub(super) rows: u64,
    /// Index streams, then data streams.
    pub(super) streams: Range<u64>,
    pub(super) footer: Range<u64>,
}

/// Result of parsing the bytes read so far.
pub(super) enum TailParseOutcome {
    Tail(Box<OrcTail>),
    /// This many bytes at the end of the file are needed.
    Needs(u64),
}

impl OrcTail {
    /// Parses the last bytes of a file of `size` bytes.
    pub(super) fn parse(size: u64, end: &Bytes) -> Result<TailParseOutcome, OrcReadError> {
        let short = || OrcReadError::corrupt("the file ends before its postscript begins");
        let (&len, before) = end.split_last().ok_or_else(short)?;
        let before_postscript = before.len().checked_sub(usize::from(len)).ok_or_else(short)?;
        let postscript = before.get(before_postscript..).unwrap_or_default();
        let postscript = PostScript::decode(postscript).map_err(|error| {
            OrcReadError::corrupt(format!("postscript: {error}")).at(Some(size - 1 - u64::from(len)))
        })?;
        let codec = OrcCodec::of(&postscript)?;

        let sections = [postscript.metadata_length(), postscript.footer_length()];
        let needed = sections.iter().try_fold(1 + u64::from(len), |sum, section| sum.checked_add(*section));
        let needed = needed.filter(|needed| *needed <= size).ok_or_else(|| {
            OrcReadError::corrupt(format!("footer and statistics of {sections:?} bytes in a file of {size}"))
        })?;
        if needed > end.len() as u64 {
            return Ok(TailParseOutcome::Needs(needed));
        }
        // Both sections are within `end`: their lengths sum up to at most its own.

        let [metadata, footer] = sections.map(|section| section as usize);
        let footer_start = before_postscript - footer;
        let section = |name, range: Range<usize>| {
            let offset = size - end.len() as u64 + range.start as u64;
            let max_bytes = max_message_bytes(range.len());
            let bytes = OrcStreamReader::new(end.slice(range), codec).read_all(max_bytes);
            bytes.map_err(|fault| fault.prefixed(name).at(Some(offset)))
        };
        let metadata = section("statistics", footer_start - metadata..footer_start)?;
        let footer = section("footer", footer_start..before_postscript)?;
        let footer = Footer::decode(footer)
            .map_err(|error| OrcReadError::corrupt(format!("footer: {error}")).at(Some(size - needed)))?;

        Self::of(size - needed, codec, &postscript, &footer, metadata)
            .map(|tail| TailParseOutcome::Tail(Box::new(tail)))
    }

    fn of(
        content: u64,
        codec: Option<OrcCodec>,
        postscript: &PostScript,
        footer: &Footer,
        metadata: Bytes,
    ) -> Result<Self, OrcReadError> {
        if footer.encryption.is_some() {
            return Err(OrcReadError::encrypted());
        }

        let unit = |id| timestamp_unit(footer.statistics.get(id as usize));
        let root =
            OrcType::root(&footer.types, unit, postscript.version == NEXT_VERSION, Calendar::of(footer))?;
        let stripes = footer.stripes.iter().enumerate();
        let stripes: Vec<StripeLocation> = stripes
            .map(|(stripe, info)| {
                StripeLocation::of(info, content)
                    .ok_or_else(|| OrcReadError::corrupt(format!("stripe {stripe} lies outside of the file")))
            })
            .collect::<Result<_, _>>()?;
        let rows = stripes.iter().try_fold(0_u64, |sum, stripe| sum.checked_add(stripe.rows));

        if footer.number_of_rows.is_some() && footer.number_of_rows != rows {
            return Err(OrcReadError::corrupt("the stripes have not as many rows as the footer says"));
        }

        let statistics = StripeStatistics::new(metadata, postscript, footer);
        let stride = u64::from(footer.row_index_stride.unwrap_or_default());
        let columns = footer.types.len();
        let early = EarlyOffsets::of(footer);
        let pair = |item: &UserMetadataItem| {
            Some((item.name.clone()?, String::from_utf8(item.value.clone()?).ok()?))
        };
        let metadata = footer.metadata.iter().filter_map(pair).collect();

        Ok(Self { codec, root, columns, stripes, statistics, stride, early, metadata })
    }
}

impl StripeLocation {
    fn of(info: &StripeInformation, content: u64) -> Option<Self> {
        let start = info.offset();
        let streams_end = start.checked_add(info.index_length())?.checked_add(info.data_length())?;
        let footer_end = streams_end.checked_add(info.footer_length())?;
        let within = footer_end <= content;
        within.then(|| Self {
            rows: info.number_of_rows(),
            streams: start..streams_end,
            footer: streams_end..footer_end,
        })
    }
}

/// Returns nanoseconds, unless the file's statistics have values that 64-bit nanoseconds cannot express.
fn timestamp_unit(statistics: Option<&ColumnStatistics>) -> TimeUnit {
    let Some(times) = statistics.and_then(|it| it.timestamp_statistics.as_ref()) else {
        return TimeUnit::Nanosecond;
    };
    let bounds = [times.minimum, times.maximum, times.minimum_utc, times.maximum_utc];
    let fits = |bound: &i64| (-NANOSECONDS_END..=NANOSECONDS_END).contains(bound);
    if bounds.iter().flatten().all(fits) { TimeUnit::Nanosecond } else { TimeUnit::Microsecond }
}
