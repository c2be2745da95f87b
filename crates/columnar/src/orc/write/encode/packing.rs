//! Packs numbers into bits, and encodes varints.

/// Appends the lowest `width` bits of each number, highest bit first, and pads the last byte.
pub(crate) fn pack(numbers: &[u64], width: u32, out: &mut Vec<u8>) {
    match width {
        1 => pack_in_bytes::<1, 8>(numbers, out),
        2 => pack_in_bytes::<2, 4>(numbers, out),
        4 => pack_in_bytes::<4, 2>(numbers, out),
        8 => out.extend(numbers.iter().map(|number| *number as u8)),
        16 => pack_bytes::<2>(numbers, out),
        24 => pack_bytes::<3>(numbers, out),
        32 => pack_bytes::<4>(numbers, out),
        40 => pack_bytes::<5>(numbers, out),
        48 => pack_bytes::<6>(numbers, out),
        56 => pack_bytes::<7>(numbers, out),
        64 => pack_bytes::<8>(numbers, out),
        _ => pack_any(numbers, width, out),
    }
}

/// Packs several numbers into each byte.
fn pack_in_bytes<const WIDTH: u32, const EACH: usize>(numbers: &[u64], out: &mut Vec<u8>) {
    let (bytes, rest) = numbers.as_chunks::<EACH>();
    out.extend(bytes.iter().map(|byte| byte.iter().fold(0, |byte, number| byte << WIDTH | *number as u8)));
    pack_any(rest, WIDTH, out);
}

/// Packs each number into several bytes.
fn pack_bytes<const BYTES: usize>(numbers: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + numbers.len() * BYTES, 0);
    let (slots, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<BYTES>();
    for (slot, number) in slots.iter_mut().zip(numbers) {
        if let Some(bytes) = number.to_be_bytes().last_chunk() {
            *slot = *bytes;
        }
    }
}

fn pack_any(numbers: &[u64], width: u32, out: &mut Vec<u8>) {
    // The highest bits of the word are filled first; `free` bits are still unused.
    let mut word = 0_u64;
    let mut free = u64::BITS;
    out.reserve((numbers.len() * width as usize).div_ceil(8));

    for &number in numbers {
        if width < free {
            free -= width;
            word |= number << free;
        } else {
            let over = width - free;
            word |= number >> over;
            out.extend_from_slice(&word.to_be_bytes());
            free = u64::BITS - over;
            word = if over == 0 { 0 } else { number << free };
        }
    }

    let taken = (u64::BITS - free).div_ceil(8) as usize;
    out.extend_from_slice(word.to_be_bytes().get(..taken).unwrap_or_default());
}

/// Returns the size in bytes of `numbers` packed numbers.
pub(crate) fn bytes_of(numbers: usize, width: u32) -> usize {
    (numbers * width as usize).div_ceil(8)
}

/// Returns the bits that a number needs.
pub(crate) fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

pub(crate) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Appends a varint, lowest bits first.
pub(crate) fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Numbers whose bytes are assembled in the CPU cache.
const BLOCK: usize = 128;
/// Maximum bits of a varint of eight bytes.
const SHORT_BITS: u32 = 56;

/// Appends many varints. Unless all have one byte or all have two, eight bytes are built for each at once,
/// regardless of its length.
pub(crate) fn push_varints(numbers: &[u64], out: &mut Vec<u8>) {
    for piece in numbers.chunks(BLOCK) {
        let any = piece.iter().fold(0, |any, number| any | number);
        if any < 1 << 7 {
            out.extend(piece.iter().map(|number| *number as u8));
            continue;
        }
        if any < 1 << 14 && piece.iter().fold(true, |all, number| all & (*number >= 1 << 7)) {
            out.extend(piece.iter().flat_map(|number| [*number as u8 | 0x80, (*number >> 7) as u8]));
            continue;
        }

        let mut block = [0; 8 * (BLOCK + 1)];
        let mut len = 0;
        for &number in piece {
            if number >> SHORT_BITS != 0 {
                out.extend_from_slice(block.get(..len).unwrap_or_default());
                len = 0;
                push_varint(number, out);
                continue;
            }

            let bytes = varint_bytes(number);
            if let Some(to) = block.get_mut(len..).and_then(|to| to.first_chunk_mut::<8>()) {
                let goes_on = 0x8080_8080_8080_8080 & ((1 << (8 * (bytes - 1))) - 1);
                *to = (spread_bits(number) | goes_on).to_le_bytes();
            }
            len += bytes;
        }

        out.extend_from_slice(block.get(..len).unwrap_or_default());
    }
}

/// Spreads a 56-bit number to 7 bits per byte.
fn spread_bits(number: u64) -> u64 {
    let word = number & 0x0000_0000_0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1
}

/// Appends a varint of more bits.
pub(crate) fn push_wide_varint(mut number: u128, out: &mut Vec<u8>) {
    while number > u128::from(u64::MAX) {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    push_varint(number as u64, out);
}

/// Returns the length in bytes of a varint.
pub(crate) fn varint_bytes(number: u64) -> usize {
    bits(number).max(1).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_lie_one_behind_the_other() {
        for width in 1..=64_u32 {
            let mask = u64::MAX >> (64 - width);
            let numbers: Vec<u64> =
                (1..=77_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let mut packed = Vec::new();
            pack(&numbers, width, &mut packed);
            let text: String =
                numbers.iter().map(|it| format!("{it:0width$b}", width = width as usize)).collect();
            let made: String = packed.iter().map(|byte| format!("{byte:08b}")).collect();
            assert_eq!(made.len(), text.len().next_multiple_of(8), "{width} bits");
            assert_eq!(made[..text.len()], text, "{width} bits");
            assert!(made[text.len()..].bytes().all(|bit| bit == b'0'));
        }
    }

    #[test]
    fn many_varints_are_those_of_each() {
        let numbers: Vec<u64> = (0..2000_u64)
            .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at * 7 % 64))
            .chain((0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1]))
            .collect();
        for count in [0, 1, 127, 128, 129, numbers.len()] {
            let mut one_by_one = Vec::new();
            let mut together = Vec::new();
            numbers[..count].iter().for_each(|number| push_varint(*number, &mut one_by_one));
            push_varints(&numbers[..count], &mut together);
            assert_eq!(together, one_by_one);
        }
    }

    #[test]
    fn varints_are_as_long_as_said() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            let mut wide = Vec::new();
            push_varint(number, &mut out);
            push_wide_varint(u128::from(number), &mut wide);
            assert_eq!((out.len(), &out), (varint_bytes(number), &wide), "{number}");
        }
    }
}
