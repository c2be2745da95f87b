//! Parses the positions of row groups in the streams of a column, as its row index lists them.
//!
//! A list has, for each stream in a fixed order: the start of its chunk and the bytes of the chunk before the position,
//! or the offset if nothing is compressed; for runs, the values of the run before it; for bits, the bits of the byte
//! before it. Streams of dictionary values are not listed, nor is the validity stream if all rows have a value.

use std::ops::Range;

use crate::orc::{
    compression::OrcCodec,
    stream::{HEADER, RowIndexPosition, RunSkip},
    stripe::{OrcColumnEncoding, StreamKind},
    tree::{OrcType, OrcTypeKind},
};

/// Maximum bytes of a run: 512 numbers of 64 bits, with its header and patches.
const MAX_RUN_BYTES: u64 = 5 << 10;

/// Layout of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrcStreamLayout {
    Bytes,
    /// Varints.
    Varints,
    Runs,
    Bits,
}

/// Returns the streams that a column's positions refer to, in their order, except the validity stream.
fn streams(
    kind: OrcTypeKind,
    encoding: OrcColumnEncoding,
) -> Option<&'static [(StreamKind, OrcStreamLayout)]> {
    use OrcStreamLayout::{Bits, Bytes, Runs, Varints};
    use StreamKind::{Data, Length, Secondary};
    Some(match kind {
        OrcTypeKind::Boolean => &[(Data, Bits)],
        OrcTypeKind::Union
        | OrcTypeKind::Byte
        | OrcTypeKind::Short
        | OrcTypeKind::Int
        | OrcTypeKind::Long
        | OrcTypeKind::Date
        | OrcTypeKind::ShortDecimal(..) => &[(Data, Runs)],
        OrcTypeKind::Float | OrcTypeKind::Double => &[(Data, Bytes)],
        OrcTypeKind::String | OrcTypeKind::Char if encoding.dictionary.is_some() => &[(Data, Runs)],
        OrcTypeKind::String | OrcTypeKind::Char | OrcTypeKind::Binary => &[(Data, Bytes), (Length, Runs)],
        OrcTypeKind::Decimal(..) => &[(Data, Varints), (Secondary, Runs)],
        OrcTypeKind::Timestamp(_) | OrcTypeKind::Instant(_) => &[(Data, Runs), (Secondary, Runs)],
        OrcTypeKind::List | OrcTypeKind::Map => &[(Length, Runs)],
        OrcTypeKind::Struct => &[],
        OrcTypeKind::Unknown(_) => return None,
    })
}

/// Returns the positions of row groups in each stream of a column; `None` if the lists are invalid. `lists` has one per
/// row group; the first begins at the start of the streams.
pub(crate) fn of_column(
    column: &OrcType,
    encoding: OrcColumnEncoding,
    has_presence: bool,
    is_compressed: bool,
    lists: &[Vec<u64>],
) -> Option<Vec<(StreamKind, OrcStreamLayout, Vec<RowIndexPosition>)>> {
    let presence = has_presence.then_some((StreamKind::Present, OrcStreamLayout::Bits));
    let streams = presence.into_iter().chain(streams(column.kind, encoding)?.iter().copied());
    let mut positions: Vec<(StreamKind, OrcStreamLayout, Vec<RowIndexPosition>)> =
        streams.map(|(kind, shape)| (kind, shape, Vec::with_capacity(lists.len()))).collect();

    for (group, list) in lists.iter().enumerate() {
        let mut list = list.iter().copied();
        for (_, shape, positions) in &mut positions {
            let position = position(*shape, is_compressed, &mut list)?;
            let position = if group == 0 { RowIndexPosition::default() } else { position };
            let order_key = |position: &RowIndexPosition| (position.chunk, position.offset);
            if positions.last().is_some_and(|last| order_key(last) > order_key(&position)) {
                return None;
            }
            positions.push(position);
        }

        if list.next().is_some() {
            return None;
        }
    }

    Some(positions)
}

fn position(
    shape: OrcStreamLayout,
    is_compressed: bool,
    list: &mut impl Iterator<Item = u64>,
) -> Option<RowIndexPosition> {
    let chunk = list.next()?;
    let offset = if is_compressed { list.next()? } else { 0 };
    let values =
        if matches!(shape, OrcStreamLayout::Runs | OrcStreamLayout::Bits) { list.next()? } else { 0 };
    let bits = if shape == OrcStreamLayout::Bits { list.next()? } else { 0 };
    Some(RowIndexPosition { chunk, offset, before: RunSkip { values, bits } })
}

/// Returns the bytes of a stream of `len` bytes that hold some row groups, and of those needed to verify that they end
/// where the next one begins.
pub(crate) fn span(
    positions: &[RowIndexPosition],
    groups: &Range<usize>,
    shape: OrcStreamLayout,
    codec: Option<OrcCodec>,
    len: u64,
) -> Option<Range<u64>> {
    let start = positions.get(groups.start)?.chunk;
    // The previous byte shows whether a varint begins here; within a compressed chunk it is available anyway.
    let before = u64::from(shape == OrcStreamLayout::Varints && codec.is_none());
    let start = start.saturating_sub(before);
    let later = positions.get(groups.end..)?;
    let end = match later.first() {
        None => len,
        Some(next) => {
            let run = if next.before == RunSkip::default() { 0 } else { MAX_RUN_BYTES };
            let needed = next.offset.checked_add(run)?;
            match codec {
                None => next.chunk.checked_add(needed)?,
                Some(codec) => {
                    let chunks = needed.div_ceil(codec.block() as u64);
                    let max_bytes = chunks.checked_mul((HEADER + codec.block()) as u64)?;
                    // These `chunks` chunks end no later than the chunk after them begins.
                    let ends = chunk_start(later, usize::try_from(chunks).ok()?).unwrap_or(len);
                    next.chunk.checked_add(max_bytes)?.min(ends)
                }
            }
        }
    };

    let end = end.min(len);
    (start <= end).then_some(start..end)
}

/// Returns the start of the chunk `chunks` after the first, or of a later chunk if no position is in that one.
fn chunk_start(positions: &[RowIndexPosition], chunks: usize) -> Option<u64> {
    let mut starts = positions.iter().map(|position| position.chunk).collect::<Vec<_>>();
    starts.dedup();
    starts.get(chunks).copied()
}

#[cfg(test)]
mod tests {
    use orc_rust::proto::{CompressionKind, PostScript};

    use super::*;

    fn codec(block: u64) -> Option<OrcCodec> {
        let compression = Some(CompressionKind::Zstd as i32);
        let compression_block_size = Some(block);
        OrcCodec::of(&PostScript { compression, compression_block_size, ..PostScript::default() }).unwrap()
    }

    fn at(chunk: u64, offset: u64, values: u64) -> RowIndexPosition {
        RowIndexPosition { chunk, offset, before: RunSkip { values, bits: 0 } }
    }

    #[test]
    fn row_groups_are_read_up_to_the_end_of_the_run_that_the_next_begins_in() {
        let plain = [at(0, 0, 0), at(100, 0, 0), at(200, 0, 7), at(9_000, 0, 0)];
        let span = |groups| span(&plain, &groups, OrcStreamLayout::Runs, None, 10_000);
        assert_eq!(span(0..1), Some(0..100));
        assert_eq!(span(1..2), Some(100..200 + MAX_RUN_BYTES));
        assert_eq!(span(2..3), Some(200..9_000));
        assert_eq!(span(1..4), Some(100..10_000));
        assert_eq!(span(3..9), None);
    }

    #[test]
    fn chunks_are_read_whole_and_no_more_of_them_than_are_needed() {
        let block = 64 << 10;
        let positions = [at(0, 0, 0), at(0, 60_000, 3), at(1_000, 100, 0), at(2_500, 0, 0), at(90_000, 7, 7)];
        let span = |groups| span(&positions, &groups, OrcStreamLayout::Runs, codec(block), 1_000_000);
        assert_eq!(span(0..1), Some(0..1_000));
        assert_eq!(span(1..2), Some(0..2_500));
        assert_eq!(span(2..3), Some(1_000..2_500));
        assert_eq!(span(3..4), Some(2_500..90_000 + block + 3));
        assert_eq!(span(4..5), Some(90_000..1_000_000));
    }

    #[test]
    fn a_run_at_the_end_of_a_chunk_may_end_in_the_next() {
        let block = 64 << 10;
        let positions = [at(0, 0, 0), at(0, 63 << 10, 3), at(1_000, 0, 0), at(1_500, 9, 0)];
        assert_eq!(span(&positions, &(0..1), OrcStreamLayout::Runs, codec(block), 9_000), Some(0..1_500));
    }
}
