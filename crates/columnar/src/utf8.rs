//! Arrays of strings out of bytes from outside.

#![expect(unsafe_code, reason = "what is ASCII need not be looked at a second time")]

use arrow::{
    array::StringArray,
    buffer::{Buffer, NullBuffer, OffsetBuffer},
};

/// The strings between the offsets; an error if the bytes are not UTF-8, or an offset is not between two characters.
pub(crate) fn strings(
    offsets: OffsetBuffer<i32>,
    bytes: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<StringArray, String> {
    let within = offsets.last().is_some_and(|end| usize::try_from(*end).is_ok_and(|end| end <= bytes.len()));
    let nulls_fit = nulls.as_ref().is_none_or(|nulls| nulls.len() + 1 == offsets.len());
    if within && nulls_fit && bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8, and every place in it is between two characters; offsets ascend by their type, and
        // the last is within the bytes.
        return Ok(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) });
    }
    StringArray::try_new(offsets, bytes, nulls).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_characters_are_strings() {
        let of = |ends: &[i32], text: &str| {
            let offsets = OffsetBuffer::new([&[0], ends].concat().into());
            strings(offsets, Buffer::from(text.as_bytes()), None)
        };
        assert_eq!(of(&[1, 3], "abc").unwrap(), StringArray::from(vec!["a", "bc"]));
        assert_eq!(of(&[2, 3], "\u{e9}c").unwrap(), StringArray::from(vec!["\u{e9}", "c"]));
        assert!(of(&[1, 3], "\u{e9}c").is_err());
        assert!(of(&[1, 4], "abc").is_err());
        assert!(strings(OffsetBuffer::new(vec![0, 1].into()), Buffer::from([0xff]), None).is_err());
        assert!(
            strings(OffsetBuffer::new(vec![0, 1].into()), Buffer::from(b"a"), Some(NullBuffer::new_null(2)))
                .is_err()
        );
    }
}
