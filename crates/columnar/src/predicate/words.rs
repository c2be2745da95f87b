//! Rows as bits, 64 to a word: a filter begins with all rows set and clears those that fail.
//!
//! Zero words are skipped, so rows that a first condition rules out cost a second one almost nothing.

use arrow::buffer::NullBuffer;

/// Sets all rows; bits beyond the last row are clear.
pub(super) fn all(rows: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; rows.div_ceil(64)];
    if let Some(last) = words.last_mut()
        && !rows.is_multiple_of(64)
    {
        *last = (1 << (rows % 64)) - 1;
    }
    words
}

pub(super) fn is_empty(words: &[u64]) -> bool {
    words.iter().all(|word| *word == 0)
}

/// Packs 64 bytes, each 0 or 1, into bits.
fn pack(bytes: &[u8; 64]) -> u64 {
    // The product puts bit 0 of byte i at bit 56 + i; no two of its terms share a bit, so nothing carries.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut word = 0;
    for (index, group) in bytes.as_chunks::<8>().0.iter().enumerate() {
        word |= (u64::from_le_bytes(*group).wrapping_mul(GATHER) >> 56) << (8 * index);
    }
    word
}

/// Maximum rows of a word that are tested one by one.
const MAX_SINGLE_ROWS: u32 = 16;

/// Clears the rows whose value fails.
#[inline(always)]
pub(super) fn keep_values<T: Copy>(words: &mut [u64], values: &[T], passes: impl Fn(T) -> bool) {
    for (word, values) in words.iter_mut().zip(values.chunks(64)) {
        if word.count_ones() <= MAX_SINGLE_ROWS {
            keep_bits(word, |row| values.get(row).is_some_and(|value| passes(*value)));
            continue;
        }

        let mut bytes = [0; 64];
        if let Ok(values) = <&[T; 64]>::try_from(values) {
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = u8::from(passes(*value));
            }
        } else {
            for (byte, value) in bytes.iter_mut().zip(values) {
                *byte = u8::from(passes(*value));
            }
        }

        *word &= pack(&bytes);
    }
}

/// Clears the rows that fail. Only set rows are tested, one by one.
#[inline(always)]
pub(super) fn keep_rows(words: &mut [u64], mut passes: impl FnMut(usize) -> bool) {
    for (index, word) in words.iter_mut().enumerate() {
        keep_bits(word, |bit| passes(64 * index + bit));
    }
}

/// Clears the set bits that fail.
#[inline(always)]
fn keep_bits(word: &mut u64, mut passes: impl FnMut(usize) -> bool) {
    let mut rest = *word;
    while rest != 0 {
        let bit = rest.trailing_zeros();
        rest &= rest - 1;
        *word &= !(u64::from(!passes(bit as usize)) << bit);
    }
}

/// Clears the rows that are null.
pub(super) fn keep_valid(words: &mut [u64], nulls: Option<&NullBuffer>) {
    if let Some(nulls) = nulls {
        for (word, valid) in words.iter_mut().zip(nulls.inner().bit_chunks().iter_padded()) {
            *word &= valid;
        }
    }
}

/// Clears the rows that are not null.
pub(super) fn keep_null(words: &mut [u64], nulls: Option<&NullBuffer>) {
    match nulls {
        Some(nulls) => {
            for (word, valid) in words.iter_mut().zip(nulls.inner().bit_chunks().iter_padded()) {
                *word &= !valid;
            }
        }
        None => words.fill(0),
    }
}

/// Clears the rows that fail all of several conditions. A row that passed one is not tested by the next.
pub(super) fn keep_any<T, E>(
    words: &mut [u64],
    conditions: impl IntoIterator<Item = T>,
    mut keep: impl FnMut(T, &mut [u64]) -> Result<(), E>,
) -> Result<(), E> {
    let mut open = words.to_vec();
    let mut passing = vec![0; words.len()];
    for condition in conditions {
        if is_empty(&open) {
            break;
        }
        passing.copy_from_slice(&open);
        keep(condition, &mut passing)?;
        for (open, passed) in open.iter_mut().zip(&passing) {
            *open &= !passed;
        }
    }

    for (word, failed) in words.iter_mut().zip(&open) {
        *word &= !failed;
    }

    Ok(())
}
