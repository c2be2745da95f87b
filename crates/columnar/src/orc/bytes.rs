//! Plans the byte ranges of a stripe that the projected columns need, and holds their bytes once they are read.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;

use super::{
    compression::OrcCodec,
    fault::OrcReadError,
    stream::OrcStreamReader,
    stripe::{OrcColumnEncoding, OrcStreamLocation, StreamKind, StripeFooter, WriterTimeZone},
    tree::OrcType,
};

/// Maximum gap between streams that are read as one range.
const MERGE_GAP: u64 = 4 << 10;

/// Raw streams of a stripe's projected columns. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OrcBytes {
    footer: Arc<StripeFooter>,
    /// Offset in the object, and bytes, of each.
    streams: Arc<HashMap<(u32, StreamKind), (u64, Bytes)>>,
}

/// Streams to read, in the order of the file, and the ranges that hold them.
pub(super) struct StripeReadPlan {
    streams: Vec<OrcStreamLocation>,
    pub(super) ranges: Vec<Range<u64>>,
}

impl StripeReadPlan {
    /// Plans the streams of the root and of the columns.
    pub(super) fn of(footer: &StripeFooter, columns: &[OrcType]) -> Self {
        let mut ids = HashSet::from([0]);
        columns.iter().for_each(|column| column.visit(&mut |column| ids.extend([column.id])));
        // The footer lists the streams in the order of the file.
        let streams: Vec<OrcStreamLocation> =
            footer.streams.iter().filter(|stream| ids.contains(&stream.column)).cloned().collect();
        let ranges = merged(streams.iter().map(|stream| stream.range.clone()));
        Self { streams, ranges }
    }

    /// Slices the bytes of the ranges into streams.
    pub(super) fn cut(self, footer: Arc<StripeFooter>, read: &[Bytes]) -> Result<OrcBytes, OrcReadError> {
        let mut streams = HashMap::with_capacity(self.streams.len());
        for OrcStreamLocation { column, kind, range } in self.streams {
            let bytes = cut(&self.ranges, read, &range);
            let bytes = bytes.ok_or_else(|| OrcReadError::corrupt("fewer bytes were read than asked for"))?;
            streams.insert((column, kind), (range.start, bytes));
        }
        Ok(OrcBytes { footer, streams: Arc::new(streams) })
    }
}

/// Merges ranges, sorted by start, that are close to each other.
pub(super) fn merged(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MERGE_GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }

    merged
}

/// Returns the bytes of a range, as a slice of the ranges that were read.
pub(super) fn cut(ranges: &[Range<u64>], read: &[Bytes], range: &Range<u64>) -> Option<Bytes> {
    let at = ranges.partition_point(|it| it.start <= range.start).saturating_sub(1);
    let from = ranges.get(at)?;
    let bytes = read.get(at)?;
    let start = range.start.checked_sub(from.start)?;
    let end = range.end.checked_sub(from.start)?;
    (start <= end && end <= bytes.len() as u64).then(|| bytes.slice(start as usize..end as usize))
}

/// Streams of a stripe as decoders take them.
pub(super) struct StripeStreams {
    footer: Arc<StripeFooter>,
    /// Offset in the object, and reader, of each.
    streams: HashMap<(u32, StreamKind), (u64, OrcStreamReader)>,
}

impl StripeStreams {
    /// Creates readers of all streams that were read.
    pub(super) fn new(bytes: &OrcBytes, codec: Option<OrcCodec>) -> Self {
        let streams = bytes.streams.iter();
        let streams =
            streams.map(|(key, (at, bytes))| (*key, (*at, OrcStreamReader::new(bytes.clone(), codec))));
        Self { footer: bytes.footer.clone(), streams: streams.collect() }
    }

    /// Takes readers that begin in the middle of their streams.
    pub(super) fn within(
        footer: Arc<StripeFooter>,
        streams: HashMap<(u32, StreamKind), (u64, OrcStreamReader)>,
    ) -> Self {
        Self { footer, streams }
    }

    /// Returns the stream; an empty one if the stripe omits it, as it does if no row has a value.
    pub(super) fn get(&self, column: u32, kind: StreamKind) -> OrcStreamReader {
        self.find(column, kind).unwrap_or_else(|| OrcStreamReader::new(Bytes::new(), None))
    }

    pub(super) fn find(&self, column: u32, kind: StreamKind) -> Option<OrcStreamReader> {
        self.streams.get(&(column, kind)).map(|(_, stream)| stream.clone())
    }

    /// Returns the offset of the column's first stream in the object.
    pub(super) fn offset(&self, column: u32) -> Option<u64> {
        let streams = self.streams.iter().filter(|((id, _), _)| *id == column);
        streams.map(|(_, (offset, _))| *offset).min()
    }

    pub(super) fn encoding(&self, column: u32) -> Result<OrcColumnEncoding, OrcReadError> {
        match self.footer.encodings.get(column as usize) {
            Some(Some(encoding)) => Ok(*encoding),
            Some(None) => Err(OrcReadError::unsupported("its encoding is not known here")),
            None => Err(OrcReadError::corrupt("the stripe's footer has no encoding for it")),
        }
    }

    pub(super) fn zone(&self) -> &WriterTimeZone {
        &self.footer.zone
    }
}
