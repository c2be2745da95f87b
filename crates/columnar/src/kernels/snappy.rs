//! Decompression of snappy blocks, tuned for columns of strings: alternating short literals and short copies.
//!
//! The bytes of a tag are copied in blocks of a fixed size; the next tag overwrites the excess, so the buffer is a
//! little longer than the output. The speed depends on how soon the processor knows the position of the next tag: a
//! copy and the literal after it are decoded together as long as most tags come in such pairs.

use stylobate_storage::{ByteReader, Corrupt};

/// Bytes of the buffer after the output.
pub(crate) const SLACK: usize = PAIR;
/// Bytes copied at once: the longest copy of a tag, and the longest literal whose length is in the tag.
const BLOCK: usize = 64;
const HALF: usize = 16;
/// Bytes written, and at most read, by a copy and the literal after it that are decoded together.
const PAIR: usize = HALF + BLOCK;
/// Failed attempts to find pairs before a piece is decoded tag by tag.
const MAX_FAILURES: usize = 32;
/// Number of pairs that outweigh one failed attempt.
const PAIRS_PER_FAILURE: usize = 3;
/// Bytes of output between two callbacks: few enough to still be in the CPU cache.
const PIECE: usize = 128 << 10;
/// Maximum bytes of a decompressed block.
const MAX_BYTES: u64 = u32::MAX as u64;
/// Maximum bytes of the length before a block.
const MAX_LENGTH: usize = 5;

const LONGER: &str = "a snappy block that is longer than it says";
const EARLY: &str = "a snappy block ends early";

/// Decoded tag of a copy. It is looked up, since the processor cannot predict the form of a copy.
#[derive(Clone, Copy, Default)]
struct SnappyCopy {
    /// Bits of the offset among the four bytes after the tag.
    mask: u32,
    /// For literals, a value larger than the length of any copy.
    length: u8,
    /// The higher bits of the offset.
    high: u8,
}

static COPIES: [SnappyCopy; 256] = copies();

#[expect(clippy::indexing_slicing, reason = "computed by the compiler")]
const fn copies() -> [SnappyCopy; 256] {
    let mut copies = [SnappyCopy { mask: 0, length: 0, high: 0 }; 256];
    let mut tag = 0;
    while tag < 256 {
        copies[tag] = match tag & 3 {
            0 => SnappyCopy { mask: 0, length: u8::MAX, high: 0 },
            1 => SnappyCopy { mask: 0xff, length: 4 + (tag >> 2 & 7) as u8, high: (tag >> 5) as u8 },
            2 => SnappyCopy { mask: 0xffff, length: 1 + (tag >> 2) as u8, high: 0 },
            _ => SnappyCopy { mask: u32::MAX, length: 1 + (tag >> 2) as u8, high: 0 },
        };
        tag += 1;
    }

    copies
}

/// Returns the decompressed length of a block.
pub(crate) fn length(from: &[u8]) -> Result<usize, Corrupt> {
    Ok(header(from)?.0)
}

/// Returns the output of a block that is a single literal, as incompressible blocks are: a slice of the block itself.
pub(crate) fn stored(from: &[u8]) -> Option<&[u8]> {
    let (length, tags) = header(from).ok()?;
    let (tag, behind) = tags.split_first()?;
    let (literal, rest) = long_literal(usize::from(tag >> 2), behind).filter(|_| tag & 3 == 0)?;
    (literal.len() == length && rest.is_empty()).then_some(literal)
}

/// Returns the decompressed length, and the tags after it.
fn header(from: &[u8]) -> Result<(usize, &[u8]), Corrupt> {
    let mut block = ByteReader::new(from);
    let length = block.varint()?.filter(|length| *length <= MAX_BYTES && block.offset() <= MAX_LENGTH);
    let length = length.and_then(|length| usize::try_from(length).ok());
    Ok((length.ok_or("a snappy block without a length")?, block.rest()))
}

/// Decompresses a block and returns the length of the output. `into` has [`SLACK`] bytes more. From time to time,
/// `made` is called with all output so far, which is valid only once this function returns `Ok`.
pub(crate) fn decompress(
    from: &[u8],
    into: &mut [u8],
    mut made: impl FnMut(&[u8]) -> Result<(), Corrupt>,
) -> Result<usize, Corrupt> {
    let (length, tags) = header(from)?;
    if into.len() < length.saturating_add(SLACK) {
        return Err(LONGER.into());
    }

    let mut at = SnappyCursor { tags, done: 0 };
    while !at.tags.is_empty() {
        // Every copy may write a whole block: this keeps the next one within the buffer.
        let piece = take(at, into, length.min(at.done + PIECE));
        at = piece.map_err(|corrupt| corrupt.within((from.len() - at.tags.len()) as u64))?;
        let done = into.get(..at.done).filter(|done| done.len() <= length);
        made(done.ok_or(LONGER)?)?;
    }

    if at.done == length { Ok(length) } else { Err("a snappy block that is shorter than it says".into()) }
}

/// Position in a block.
#[derive(Clone, Copy)]
struct SnappyCursor<'f> {
    /// Remaining tags.
    tags: &'f [u8],
    /// Bytes of output so far.
    done: usize,
}

/// Decodes tags until the output exceeds `until` bytes or no tag is left. The offset of an error is counted from the
/// first of them.
fn take<'f>(mut at: SnappyCursor<'f>, into: &mut [u8], until: usize) -> Result<SnappyCursor<'f>, Corrupt> {
    let start = at.tags.len();
    let located = |at: SnappyCursor<'_>| {
        let offset = (start - at.tags.len()) as u64;
        move |reason: &'static str| Corrupt::new(reason).at(offset)
    };
    let mut tries = MAX_FAILURES * PAIRS_PER_FAILURE;
    while tries > 0 && at.done <= until && !at.tags.is_empty() {
        let taken;
        (at, taken) = pairs(at, into, until);
        tries = (tries + taken).min(MAX_FAILURES * PAIRS_PER_FAILURE).saturating_sub(PAIRS_PER_FAILURE);
        if at.done <= until {
            at = tag(at, into).map_err(located(at))?;
        }
    }

    while at.done <= until && !at.tags.is_empty() {
        at = tag(at, into).map_err(located(at))?;
    }

    Ok(at)
}

/// Decodes short copies followed by short literals while they come in such pairs. Returns the number of pairs.
fn pairs<'f>(at: SnappyCursor<'f>, into: &mut [u8], until: usize) -> (SnappyCursor<'f>, usize) {
    let SnappyCursor { mut tags, mut done } = at;
    let mut pairs = 0;
    while done <= until
        && let Some(ahead) = tags.first_chunk::<PAIR>()
        && let Some((before, to)) = into.split_at_mut_checked(done)
        && let Some(to) = to.first_chunk_mut::<PAIR>()
    {
        let word = ahead.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let kind = (word & 3) as usize;
        let copy = COPIES.get(usize::from(word as u8)).copied().unwrap_or_default();
        let offset = (word >> 8) as u32 & copy.mask | u32::from(copy.high) << 8;
        let offset = offset as usize;
        let copied = usize::from(copy.length);
        // Each pair depends on the tag of the previous one, so finding the next tag takes as few steps as possible.
        let skip = word << 3 & 0b1_1000;
        let bits = (word >> 10 >> skip & 0x3f) as usize;
        let is_literal = word >> 8 >> skip & 3 == 0 && bits < 60;
        if kind == 3 || copied > HALF || offset < HALF || !is_literal {
            break;
        }

        let source = done.checked_sub(offset).and_then(|at| before.get(at..)?.first_chunk::<HALF>());
        let literal = ahead.get(kind + 2..).and_then(|literal| literal.first_chunk::<BLOCK>());
        let (Some(source), Some(literal)) = (source, literal) else { break };
        if let Some(to) = to.first_chunk_mut() {
            *to = *source;
        }
        if let Some(to) = to.get_mut(copied..).and_then(|to| to.first_chunk_mut()) {
            *to = *literal;
        }

        done += copied + bits + 1;
        tags = tags.get(kind + 3..).and_then(|behind| behind.get(bits..)).unwrap_or_default();
        pairs += 1;
    }

    (SnappyCursor { tags, done }, pairs)
}

/// Decodes one tag. The error is the reason alone, to keep the result small.
#[inline(always)]
fn tag<'f>(at: SnappyCursor<'f>, into: &mut [u8]) -> Result<SnappyCursor<'f>, &'static str> {
    let SnappyCursor { tags, done } = at;
    let Some((tag, behind)) = tags.split_first() else { return Ok(at) };

    let bits = usize::from(tag >> 2);
    let (tags, copied) = match tag & 3 {
        0 if bits < 60
            && let Some(block) = behind.first_chunk::<BLOCK>()
            && let Some(to) = into.get_mut(done..).and_then(|to| to.first_chunk_mut::<BLOCK>()) =>
        {
            *to = *block;
            (behind.get(bits + 1..).ok_or(EARLY)?, bits + 1)
        }
        0 => {
            let (literal, behind) = long_literal(bits, behind).ok_or(EARLY)?;
            let to = into.get_mut(done..).and_then(|to| to.get_mut(..literal.len()));
            to.ok_or(EARLY)?.copy_from_slice(literal);
            (behind, literal.len())
        }
        kind => {
            let copy = COPIES.get(usize::from(*tag)).copied().unwrap_or_default();
            let word = match behind.first_chunk::<4>() {
                Some(word) => u32::from_le_bytes(*word),
                None => behind.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)),
            };

            let behind = behind.get(1 << kind >> 1..).ok_or(EARLY)?;
            let offset = (word & copy.mask | u32::from(copy.high) << 8) as usize;
            let source = done.checked_sub(offset).filter(|_| offset > 0);
            let source = source.ok_or("a snappy block that copies what is not there")?;
            let copied = usize::from(copy.length);
            repeat(into, source, done, copied);

            (behind, copied)
        }
    };

    Ok(SnappyCursor { tags, done: done + copied })
}

/// Splits off a literal whose length follows the tag, or which is near the end of the block. Returns it and the rest.
fn long_literal(bits: usize, behind: &[u8]) -> Option<(&[u8], &[u8])> {
    let width = bits.saturating_sub(59);
    let (length, behind) = behind.split_at_checked(width)?;
    let length = match width {
        0 => bits,
        _ => length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte)),
    };
    behind.split_at_checked(length.checked_add(1)?)
}

/// Copies up to 64 bytes from `source` to `to`, which follows it and may overlap it. Overwrites the bytes up to the end
/// of the block.
#[inline(always)]
fn repeat(bytes: &mut [u8], source: usize, to: usize, length: usize) {
    let distance = to - source;
    if distance >= length {
        // The sizes are constant, so that neither is a call.
        if length <= HALF {
            block::<HALF>(bytes, source, to);
        } else {
            block::<BLOCK>(bytes, source, to);
        }
        return;
    }

    // Copies the copied bytes again, doubling them each time.
    let mut copied = 0;
    while copied < length {
        let step = (distance + copied).min(length - copied);
        bytes.copy_within(source..source + step, to + copied);
        copied += step;
    }
}

/// Copies a block, which may overlap its destination.
#[inline(always)]
fn block<const SIZE: usize>(bytes: &mut [u8], source: usize, to: usize) {
    let Some(block) = bytes.get(source..).and_then(|from| from.first_chunk::<SIZE>()) else { return };
    let block = *block;
    let Some(target) = bytes.get_mut(to..).and_then(|to| to.first_chunk_mut::<SIZE>()) else { return };
    *target = block;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decompressed(from: &[u8], room: usize) -> Result<Vec<u8>, Corrupt> {
        let mut into = vec![0; room + SLACK];
        let made = decompress(from, &mut into, |_| Ok(()))?;
        into.truncate(made);
        Ok(into)
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    #[test]
    fn literals_and_copies_of_every_form() {
        // One of each: literals with the length in the tag, in one byte and in two; copies with offsets of one byte,
        // two and four; and an overlapping copy.
        let mut block = vec![0xc8, 0x02, 2 << 2, b'a', b'b', b'c'];
        block.extend([60 << 2, 69]);
        block.extend(0..70);
        block.extend([61 << 2, 99, 0]);
        block.extend(100..200);
        block.extend([1 << 2 | 1, 3]);
        block.extend([63 << 2 | 2, 173, 0]);
        block.extend([63 << 2 | 3, 1, 0, 0, 0]);
        block.extend([21 << 2 | 2, 2, 0]);
        let length = 3 + 70 + 100 + 5 + 64 + 64 + 22;
        assert_eq!(length, 328);
        let ours = decompressed(&block, length).unwrap();
        assert_eq!(ours, snap::raw::Decoder::new().decompress_vec(&block).unwrap());
    }

    #[test]
    fn what_does_not_get_smaller_is_there_already() {
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for length in [1, 59, 60, 61, 300, 40_000] {
            let bytes = &bytes[..length];
            let mut block = vec![];
            let mut rest = length;
            while rest >= 0x80 {
                block.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            block.push(rest as u8);
            match length - 1 {
                bits @ 0..60 => block.push((bits << 2) as u8),
                bits => {
                    block.push(61 << 2);
                    block.extend((bits as u16).to_le_bytes());
                }
            }

            block.extend(bytes);
            assert_eq!(stored(&block), Some(bytes));
            assert_eq!(decompressed(&block, length).unwrap(), bytes);
        }
    }

    #[test]
    fn blocks_that_are_wrong_are_errors() {
        for block in [
            &[][..],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            &[0xff, 0xff, 0xff, 0xff, 0x7f],
            &[3, 2 << 2, b'a'],
            &[1, 2 << 2, b'a', b'b', b'c'],
            &[9, 2 << 2, b'a', b'b', b'c'],
            &[4, 1, 1],
            &[8, 3 << 2, 1, 2, 3, 4, 1, 0],
            &[8, 3 << 2, 1, 2, 3, 4, 3 << 2 | 2, 1],
            &[8, 3 << 2, 1, 2, 3, 4, 3 << 2 | 3, 5, 0, 0, 0],
            &[8, 63 << 2, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert!(decompressed(block, 64).is_err(), "{block:?}");
            assert_eq!(stored(block), None, "{block:?}");
        }

        assert_eq!(decompressed(&[0], 0).unwrap(), b"");
        assert_eq!(decompressed(&[4, 1, 1], 64).unwrap_err().offset, Some(1));
        assert_eq!(decompressed(&[8, 3 << 2, 1, 2, 3, 4, 1, 0], 64).unwrap_err().offset, Some(6));
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(
            parts in prop::collection::vec((prop::collection::vec(0_u8..4, 1..90), 1_usize..40, any::<u16>()), 0..60),
        ) {
            let mut bytes = Vec::new();
            for (part, times, salt) in parts {
                (0..times).for_each(|_| bytes.extend(&part));
                bytes.extend(salt.to_le_bytes());
            }
            let block = compressed(&bytes);
            prop_assert_eq!(length(&block).unwrap(), bytes.len());
            prop_assert!(stored(&block).is_none_or(|stored| stored == bytes));
            prop_assert_eq!(decompressed(&block, bytes.len()).unwrap(), bytes);
        }

        #[test]
        fn damage_is_found_as_by_others(
            bytes in prop::collection::vec(0_u8..8, 0..3000),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut block = compressed(&bytes);
            for (at, byte) in damage {
                let at = at.index(block.len());
                block[at] = byte;
            }
            block.truncate(cut.index(block.len() * 4).max(1));
            let room = length(&block).unwrap_or(0).min(1 << 20);
            let theirs = snap::raw::Decoder::new().decompress_vec(&block).ok().filter(|made| made.len() <= room);
            prop_assert_eq!(decompressed(&block, room).ok(), theirs);
        }
    }
}
