//! First bytes of strings, which tell most of them apart in one comparison.

/// Returns the first eight bytes as a number, whose order never contradicts that of the strings.
#[inline]
pub(crate) fn first_bytes(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let number = text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            number.checked_shl(64 - 8 * text.len() as u32).unwrap_or_default()
        }
    }
}
