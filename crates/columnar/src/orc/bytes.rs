//! Which bytes of a stripe the wanted columns need, and those bytes once they are read.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;

use super::{
    compression::Codec,
    fault::Fault,
    stream::Stream,
    stripe::{Encoding, StreamAt, StreamKind, StripeFooter, Zone},
    tree::Type,
};

/// Streams so near to each other are read as one range.
const MERGE_GAP: u64 = 4 << 10;

/// The streams of the wanted columns of one stripe, as they are in the file. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OrcBytes {
    footer: Arc<StripeFooter>,
    /// Where each begins in the object, and its bytes.
    streams: Arc<HashMap<(u32, StreamKind), (u64, Bytes)>>,
}

/// What is to be read: streams in the order of the file, and the ranges that hold them.
pub(super) struct Wanted {
    streams: Vec<StreamAt>,
    pub(super) ranges: Vec<Range<u64>>,
}

impl Wanted {
    /// The streams of the root and of the columns.
    pub(super) fn of(footer: &StripeFooter, columns: &[Type]) -> Self {
        let mut ids = HashSet::from([0]);
        columns.iter().for_each(|column| column.visit(&mut |column| ids.extend([column.id])));
        // The footer lists the streams in the order of the file.
        let streams: Vec<StreamAt> =
            footer.streams.iter().filter(|stream| ids.contains(&stream.column)).cloned().collect();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for stream in &streams {
            match ranges.last_mut() {
                Some(last) if stream.range.start <= last.end + MERGE_GAP => last.end = stream.range.end,
                _ => ranges.push(stream.range.clone()),
            }
        }
        Self { streams, ranges }
    }

    /// Cuts the bytes of the ranges into streams.
    pub(super) fn cut(self, footer: Arc<StripeFooter>, read: &[Bytes]) -> Result<OrcBytes, Fault> {
        let mut streams = HashMap::with_capacity(self.streams.len());
        for StreamAt { column, kind, range } in self.streams {
            let at = self.ranges.partition_point(|it| it.start <= range.start).saturating_sub(1);
            let bytes = self.ranges.get(at).zip(read.get(at)).and_then(|(from, bytes)| {
                let (start, end) = (range.start.checked_sub(from.start)?, range.end.checked_sub(from.start)?);
                (end <= bytes.len() as u64).then(|| bytes.slice(start as usize..end as usize))
            });
            let bytes = bytes.ok_or_else(|| Fault::corrupt("fewer bytes were read than asked for"))?;
            streams.insert((column, kind), (range.start, bytes));
        }
        Ok(OrcBytes { footer, streams: Arc::new(streams) })
    }
}

/// The streams of a stripe as decoders take them.
pub(super) struct Streams {
    bytes: OrcBytes,
    codec: Option<Codec>,
}

impl Streams {
    pub(super) fn new(bytes: OrcBytes, codec: Option<Codec>) -> Self {
        Self { bytes, codec }
    }

    /// The stream; an empty one where the stripe has none, as it has where no row has a value.
    pub(super) fn get(&self, column: u32, kind: StreamKind) -> Stream {
        self.find(column, kind).unwrap_or_else(|| Stream::new(Bytes::new(), None))
    }

    pub(super) fn find(&self, column: u32, kind: StreamKind) -> Option<Stream> {
        let (_, bytes) = self.bytes.streams.get(&(column, kind))?;
        Some(Stream::new(bytes.clone(), self.codec))
    }

    /// Where the column's first stream lies in the object.
    pub(super) fn offset(&self, column: u32) -> Option<u64> {
        let streams = self.bytes.streams.iter().filter(|((id, _), _)| *id == column);
        streams.map(|(_, (offset, _))| *offset).min()
    }

    pub(super) fn encoding(&self, column: u32) -> Result<Encoding, Fault> {
        match self.bytes.footer.encodings.get(column as usize) {
            Some(Some(encoding)) => Ok(*encoding),
            Some(None) => Err(Fault::unsupported("its encoding is not known here")),
            None => Err(Fault::corrupt("the stripe's footer has no encoding for it")),
        }
    }

    pub(super) fn zone(&self) -> &Zone {
        &self.bytes.footer.zone
    }
}
