//! Encodes codes in Parquet's RLE/bit-packed hybrid; [`crate::kernels::codes`] decodes it.

/// Values that are packed together, into as many 32-bit words as a value has bits.
const BLOCK: usize = 32;
/// Equal values in a row that are written as a run.
const RUN: usize = 8;

/// Returns the bit width of the largest code.
pub(crate) fn width(max_code: u32) -> u8 {
    (u32::BITS - max_code.leading_zeros()) as u8
}

/// Appends codes of at most `width` bits.
pub(crate) fn append(codes: &[u32], width: u8, out: &mut Vec<u8>) {
    let mut left = codes;
    // Codes before `left` that are yet to be packed, in whole groups of eight.
    let mut packed = 0;
    while let Some(first) = left.get(packed) {
        let at = left.get(packed..).unwrap_or_default();
        let is_run = at.first_chunk::<RUN>().is_some_and(|group| group.iter().all(|code| code == first));
        if !is_run {
            packed += RUN;
            continue;
        }

        let run = at.iter().take_while(|code| *code == first).count();
        append_packed(left.get(..packed).unwrap_or_default(), width, out);
        append_varint((run as u64) << 1, out);
        let bytes = usize::from(width).div_ceil(8);
        out.extend_from_slice(first.to_le_bytes().get(..bytes).unwrap_or_default());
        left = left.get(packed + run..).unwrap_or_default();
        packed = 0;
    }

    append_packed(left, width, out);
}

/// Appends the bits of a bitmap, lowest bit first, as levels.
pub(crate) fn append_bits(bits: &[u8], count: usize, out: &mut Vec<u8>) {
    let groups = count.div_ceil(8);
    append_varint((groups as u64) << 1 | 1, out);
    out.extend(bits.iter().copied().chain(std::iter::repeat(0)).take(groups));
}

/// Appends a run of one level.
pub(crate) fn append_level(level: u8, count: usize, out: &mut Vec<u8>) {
    append_varint((count as u64) << 1, out);
    out.push(level);
}

fn append_packed(codes: &[u32], width: u8, out: &mut Vec<u8>) {
    if codes.is_empty() {
        return;
    }

    append_varint((codes.len().div_ceil(8) as u64) << 1 | 1, out);
    let mut packed = [0; BLOCK];
    let pack = PACK.get(usize::from(width)).copied().unwrap_or(pack::<32>);
    let (blocks, rest) = codes.as_chunks::<BLOCK>();
    out.reserve((blocks.len() + 1) * usize::from(width) * 4);

    for block in blocks {
        pack(block, &mut packed);
        append_words(&packed, usize::from(width) * 4, out);
    }

    if !rest.is_empty() {
        let mut block = [0; BLOCK];
        block.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        pack(&block, &mut packed);
        append_words(&packed, rest.len().div_ceil(8) * usize::from(width), out);
    }
}

fn append_words(words: &[u32; BLOCK], bytes: usize, out: &mut Vec<u8>) {
    let mut all = [0; BLOCK * 4];
    for (to, word) in all.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    out.extend_from_slice(all.get(..bytes).unwrap_or_default());
}

type BitPackFn = fn(&[u32; BLOCK], &mut [u32; BLOCK]);

macro_rules! packs {
    ($($width:literal)*) => { [$(pack::<$width>,)*] };
}

/// One function per width.
static PACK: [BitPackFn; 33] =
    packs!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

/// Packs values of `WIDTH` bits, lowest bits first. The loop is unrolled, so that each shift is constant.
fn pack<const WIDTH: usize>(values: &[u32; BLOCK], words: &mut [u32; BLOCK]) {
    let mut held = 0_u64;
    let mut bits = 0;
    let mut words = words.iter_mut();

    for value in values {
        held |= u64::from(*value) << bits;
        bits += WIDTH;
        if bits >= 32 {
            if let Some(word) = words.next() {
                *word = held as u32;
            }
            held >>= 32;
            bits -= 32;
        }
    }
}

pub(crate) fn append_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::codes::{Codes, append_hybrid};

    fn read(bytes: &[u8], width: u8, count: usize) -> Vec<u32> {
        let mut codes: Codes<u32> = Codes::with_capacity(count);
        append_hybrid(bytes, width, count, usize::MAX, &mut codes).unwrap();
        codes.iter().copied().collect()
    }

    #[test]
    fn widths() {
        assert_eq!([0, 1, 2, 255, 256, u32::MAX].map(width), [0, 1, 2, 8, 9, 32]);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            bits in 0_u8..=32,
            runs in prop::collection::vec((any::<u32>(), prop_oneof![Just(1_usize), 1..20_usize, 60..200_usize]), 0..80),
        ) {
            let mask = ((1_u64 << bits) - 1) as u32;
            let codes: Vec<u32> =
                runs.iter().flat_map(|(code, times)| std::iter::repeat_n(code & mask, *times)).collect();
            let mut bytes = Vec::new();
            append(&codes, bits, &mut bytes);
            prop_assert_eq!(read(&bytes, bits, codes.len()), codes);
        }
    }
}
