//! Fixed-size prefix of a string; decides most comparisons at once.

/// Returns the first eight bytes as a big-endian number, zero-padded. Different numbers order as their strings do.
#[inline]
pub(crate) fn prefix_key(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let number = text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            number.checked_shl(64 - 8 * text.len() as u32).unwrap_or_default()
        }
    }
}
