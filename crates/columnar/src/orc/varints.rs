//! Decodes varints, lowest bits first, many at a time.
//!
//! Eight bytes are processed together: their highest bits mark the last byte of each number, and three shifts join the
//! other bits. The lengths are unpredictable, so the code does not branch on them.

use stylobate_storage::unzigzag;

/// Continuation bit of each byte.
const CONTINUATION_BITS: u64 = 0x8080_8080_8080_8080;

/// Appends up to `max_count` zigzag numbers, as long as each takes at most eight bytes and at least eight bytes are
/// left. Returns the bytes consumed, and the union of the encoded bits.
pub(super) fn append_zigzags(mut bytes: &[u8], max_count: usize, out: &mut Vec<i128>) -> (usize, u64) {
    let before = bytes.len();
    let mut left = max_count;
    let mut any = 0;

    while left > 0
        && let Some(window) = bytes.first_chunk::<8>()
    {
        let word = u64::from_le_bytes(*window);
        let ends = !word & CONTINUATION_BITS;
        if ends == CONTINUATION_BITS && left >= 8 {
            // Eight numbers of one byte each: the only case in columns of small numbers.
            out.extend(window.iter().map(|byte| i128::from(unzigzag(u64::from(*byte)))));
            any |= window.iter().fold(0, |any, byte| any | u64::from(*byte));
            left -= 8;
            bytes = bytes.get(8..).unwrap_or_default();
            continue;
        }
        if ends == 0 {
            break;
        }

        let bits = ends.trailing_zeros() + 1;
        let number = join_low_bits(word & u64::MAX >> (u64::BITS - bits));
        out.push(i128::from(unzigzag(number)));
        any |= number;
        left -= 1;
        bytes = bytes.get(bits as usize / 8..).unwrap_or_default();
    }

    (before - bytes.len(), any)
}

/// Joins the lower 7 bits of each byte.
fn join_low_bits(word: u64) -> u64 {
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    word & 0x0000_0000_0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// Decodes a zigzag number of 128 bits: the sign is its lowest bit.
pub(super) fn unzigzag_wide(number: u128) -> i128 {
    (number >> 1) as i128 ^ -((number & 1) as i128)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn push(mut number: u64, out: &mut Vec<u8>) {
        while number > 0x7f {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    #[test]
    fn numbers_of_every_length_come_out_as_they_went_in() {
        let mut random = StdRng::seed_from_u64(21);
        for spread in 1..=56 {
            let numbers: Vec<u64> = (0..500)
                .map(|_| random.random::<u64>() >> (64 - random.random_range(spread / 2 + 1..=spread)))
                .collect();
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| push(*number, &mut bytes));
            let needed = bytes.len();
            bytes.extend([0xff; 8]);
            let mut out = vec![7];
            let (taken, any) = append_zigzags(&bytes, numbers.len(), &mut out);
            assert_eq!((taken, out.len()), (needed, 501), "{spread} bits");
            assert_eq!(any, numbers.iter().fold(0, |any, number| any | number));
            let expected = numbers.iter().map(|number| i128::from(unzigzag(*number)));
            assert!(out.into_iter().skip(1).eq(expected), "{spread} bits");
        }
    }

    #[test]
    fn no_more_are_read_than_asked_for_and_none_near_the_end() {
        let bytes = [2; 20];
        for max_count in 0..30 {
            let mut out = Vec::new();
            let taken = append_zigzags(&bytes, max_count, &mut out).0;
            assert!(
                taken == out.len() && taken <= max_count && (taken == max_count || bytes.len() - taken < 8),
                "{max_count}"
            );
        }

        let mut out = Vec::new();
        assert_eq!(append_zigzags(&[0xff; 20], 3, &mut out), (0, 0));
        assert_eq!(append_zigzags(&[1; 7], 3, &mut out), (0, 0));
        assert!(out.is_empty());
    }

    #[test]
    fn signs_are_the_lowest_bits() {
        assert_eq!([0, 1, 2, 3, u128::MAX].map(unzigzag_wide), [0, -1, 1, -2, i128::MIN]);
    }
}
