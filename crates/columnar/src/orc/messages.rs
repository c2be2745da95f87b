//! Raw messages of a file, for display: postscript, footer, statistics and the footers of all stripes.

use std::ops::Range;

use ::bytes::Bytes;
use orc_rust::proto;
use prost::Message;
use stylobate_storage::OpenObject;

use super::{
    compression::OrcCodec,
    fault::OrcReadError,
    stream::OrcStreamReader,
    tail::{FIRST_READ, OrcTail, TailParseOutcome},
};
use crate::Result;

/// Maximum bytes of a message that is read.
const MAX_MESSAGE: usize = 256 << 20;

/// Tail of a file and footers of its stripes. The types are a tree, and the stripes lie within the file.
#[derive(Debug)]
pub(crate) struct OrcMessages {
    pub(crate) postscript: proto::PostScript,
    pub(crate) footer: proto::Footer,
    pub(crate) statistics: proto::Metadata,
    /// One per stripe.
    pub(crate) stripes: Vec<proto::StripeFooter>,
    /// Bytes of postscript, footer and statistics.
    pub(crate) size: u64,
}

impl OrcMessages {
    /// Reads all of them.
    pub(crate) async fn read(object: &OpenObject) -> Result<Self> {
        let name = object.name();
        let size = object.meta().size;
        let mut len = size.min(FIRST_READ);
        let (tail, end) = loop {
            let range = size - len..size;
            let end = object.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
            match OrcTail::parse(size, &end).map_err(|fault| fault.into_error(&name, None))? {
                TailParseOutcome::Tail(tail) => break (tail, end),
                TailParseOutcome::Needs(needed) => len = needed,
            }
        };

        let mut messages = Self::of(&tail, &end).map_err(|fault| fault.into_error(&name, None))?;
        let ranges: Vec<_> = tail.stripes.iter().map(|stripe| stripe.footer.clone()).collect();
        for (stripe, bytes) in object.read(&ranges).await?.into_iter().enumerate() {
            let parsed = message(bytes, tail.codec).map_err(|fault| fault.prefixed("stripe footer"));
            messages.stripes.push(parsed.map_err(|fault| fault.into_error(&name, Some(stripe)))?);
        }

        Ok(messages)
    }

    fn of(tail: &OrcTail, end: &Bytes) -> Result<Self, OrcReadError> {
        let last = end.last().map_or(0, |last| usize::from(*last));
        let cut = |range: Range<Option<usize>>| match (range.start, range.end) {
            (Some(start), Some(end_at)) if start <= end_at && end_at <= end.len() => {
                Ok(end.slice(start..end_at))
            }
            _ => Err(OrcReadError::corrupt("the file ends before its footer begins")),
        };
        let before_length = end.len().checked_sub(1);
        let before_postscript = before_length.and_then(|at| at.checked_sub(last));
        let postscript: proto::PostScript = message(cut(before_postscript..before_length)?, None)?;
        let back = |at: Option<usize>, len: u64| at?.checked_sub(usize::try_from(len).ok()?);
        let before_footer = back(before_postscript, postscript.footer_length());
        let before_statistics = back(before_footer, postscript.metadata_length());
        let footer = message(cut(before_footer..before_postscript)?, tail.codec)?;
        let statistics = message(cut(before_statistics..before_footer)?, tail.codec)?;
        let size = before_statistics.map_or(0, |start| end.len() - start) as u64;

        Ok(Self { postscript, footer, statistics, stripes: Vec::new(), size })
    }
}

fn message<M: Message + Default>(bytes: Bytes, codec: Option<OrcCodec>) -> Result<M, OrcReadError> {
    let bytes = OrcStreamReader::new(bytes, codec).read_all(MAX_MESSAGE)?;
    M::decode(bytes).map_err(|error| OrcReadError::corrupt(error.to_string()))
}
