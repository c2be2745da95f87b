//! Bytes from outside that become an array of strings.

#![expect(unsafe_code, reason = "what is ASCII, or in order, need not be looked at a second time")]

use arrow::{
    array::StringArray,
    buffer::{Buffer, NullBuffer, OffsetBuffer},
};

/// Where strings begin, and where the last ends. What is added is looked at while it is near the processor.
pub(crate) struct Offsets {
    /// Invariant: the first is 0, and none is less than the one before.
    offsets: Vec<i32>,
}

impl Default for Offsets {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Offsets {
    /// Of no strings, with room for those of so many.
    pub(crate) fn with_capacity(strings: usize) -> Self {
        let mut offsets = Vec::with_capacity(strings + 1);
        offsets.push(0);
        Self { offsets }
    }

    /// How many strings there are.
    pub(crate) fn strings(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Adds where strings end.
    ///
    /// # Errors
    ///
    /// Where one ends before it begins; nothing is added then.
    pub(crate) fn extend(&mut self, ends: &[i32]) -> Result<(), String> {
        let last = self.offsets.last().copied().unwrap_or_default();
        let later = ends.get(1..).unwrap_or_default();
        let ascend = ends.iter().zip(later).fold(true, |all, (before, end)| all & (before <= end));
        if !ascend || ends.first().is_some_and(|first| *first < last) {
            return Err("a string that ends before it begins".to_owned());
        }
        self.offsets.extend_from_slice(ends);
        Ok(())
    }

    pub(crate) fn into_buffer(self) -> OffsetBuffer<i32> {
        // SAFETY: there is at least one, none is negative, and they ascend, by the invariant.
        unsafe { OffsetBuffer::new_unchecked(self.offsets.into()) }
    }
}

/// Strings, one behind the other. What is added is looked at while it is near the processor.
pub(crate) struct Text {
    bytes: Vec<u8>,
    /// Invariant: if it is set, all bytes are ASCII.
    is_ascii: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: Vec::new(), is_ascii: true }
    }
}

impl Text {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds bytes, of as many strings as one likes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.is_ascii = self.is_ascii && bytes.is_ascii();
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes, whether they are strings or not, in hardly more memory than they need.
    pub(crate) fn into_bytes(mut self) -> Buffer {
        if self.bytes.capacity() > self.bytes.len() / 8 * 9 + 64 {
            self.bytes.shrink_to_fit();
        }
        Buffer::from_vec(self.bytes)
    }

    /// The strings between the offsets; an error if the bytes are not UTF-8, or an offset is not between two characters.
    pub(crate) fn into_strings(
        self,
        offsets: OffsetBuffer<i32>,
        nulls: Option<NullBuffer>,
    ) -> Result<StringArray, String> {
        let end = offsets.last().map(|end| usize::try_from(*end));
        let within = end.is_some_and(|end| end.is_ok_and(|end| end <= self.bytes.len()));
        let nulls_fit = nulls.as_ref().is_none_or(|nulls| nulls.len() + 1 == offsets.len());
        if within && nulls_fit && self.is_ascii {
            // SAFETY: ASCII is UTF-8, and every place in it is between two characters; offsets ascend by their type,
            // and the last is within the bytes.
            return Ok(unsafe { StringArray::new_unchecked(offsets, self.into_bytes(), nulls) });
        }
        StringArray::try_new(offsets, self.into_bytes(), nulls).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(offsets: &[i32], parts: &[&[u8]], nulls: Option<NullBuffer>) -> Result<StringArray, String> {
        let mut text = Text::default();
        parts.iter().for_each(|part| text.extend(part));
        text.into_strings(OffsetBuffer::new(offsets.to_vec().into()), nulls)
    }

    #[test]
    fn only_strings_that_end_behind_their_beginning_are_added() {
        let mut offsets = Offsets::default();
        assert!(offsets.extend(&[-1]).is_err() && offsets.extend(&[3, 2]).is_err());
        offsets.extend(&[0, 2, 2]).unwrap();
        assert!(offsets.extend(&[1]).is_err());
        offsets.extend(&[]).unwrap();
        offsets.extend(&[7]).unwrap();
        assert_eq!(offsets.strings(), 4);
        assert_eq!(&*offsets.into_buffer(), [0, 0, 2, 2, 7]);
    }

    #[test]
    fn only_whole_characters_are_strings() {
        assert_eq!(strings(&[0, 1, 3], &[b"ab", b"c"], None).unwrap(), StringArray::from(vec!["a", "bc"]));
        let accent = "\u{e9}".as_bytes();
        assert_eq!(
            strings(&[0, 2, 3], &[accent, b"c"], None).unwrap(),
            StringArray::from(vec!["\u{e9}", "c"])
        );
        assert!(strings(&[0, 1, 3], &[accent, b"c"], None).is_err());
        assert!(strings(&[0, 1, 3], &[b"c", accent], None).is_ok());
        assert!(strings(&[0, 1, 4], &[b"abc"], None).is_err());
        assert!(strings(&[0, 1, 2], &[&[0xff], b"a"], None).is_err());
        assert!(strings(&[0, 1], &[b"a"], Some(NullBuffer::new_null(2))).is_err());
    }
}
