//! Assembles untrusted bytes into an array of strings.

#![expect(unsafe_code, reason = "what is ASCII, or in order, need not be looked at a second time")]

use arrow::{
    array::StringArray,
    buffer::{Buffer, NullBuffer, OffsetBuffer},
};
use stylobate_storage::Corrupt;

/// Offsets of strings. Added offsets are checked at once, while they are in the CPU cache.
pub(crate) struct Utf8Offsets {
    /// Invariant: the first is 0, and they ascend.
    offsets: Vec<i32>,
}

impl Default for Utf8Offsets {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Utf8Offsets {
    /// Creates the offsets of no strings, with room for `strings` of them.
    pub(crate) fn with_capacity(strings: usize) -> Self {
        let mut offsets = Vec::with_capacity(strings + 1);
        offsets.push(0);
        Self { offsets }
    }

    /// Returns the number of strings.
    pub(crate) fn strings(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Appends the ends of strings.
    ///
    /// # Errors
    ///
    /// Fails, and appends nothing, if a string ends before it begins.
    pub(crate) fn extend(&mut self, ends: &[i32]) -> Result<(), Corrupt> {
        let last = self.offsets.last().copied().unwrap_or_default();
        let later = ends.get(1..).unwrap_or_default();
        let ascend = ends.iter().zip(later).fold(true, |all, (before, end)| all & (before <= end));
        if !ascend || ends.first().is_some_and(|first| *first < last) {
            return Err("a string that ends before it begins".into());
        }
        self.offsets.extend_from_slice(ends);
        Ok(())
    }

    pub(crate) fn into_buffer(self) -> OffsetBuffer<i32> {
        // SAFETY: by the invariant there is at least one, none is negative, and they ascend.
        unsafe { OffsetBuffer::new_unchecked(self.offsets.into()) }
    }
}

/// Concatenated strings. Added bytes are checked at once, while they are in the CPU cache.
pub(crate) struct Utf8Values {
    bytes: Vec<u8>,
    /// Invariant: if it is set, all bytes are ASCII.
    is_ascii: bool,
}

impl Default for Utf8Values {
    fn default() -> Self {
        Self { bytes: Vec::new(), is_ascii: true }
    }
}

impl Utf8Values {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes of any number of strings.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.is_ascii = self.is_ascii && bytes.is_ascii();
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the first bytes of each block, and writes their ends to `ends`, until that is full or `next` returns
    /// `None`. Returns the number of blocks. Whole blocks are copied, and the next one overwrites the excess: capacity
    /// for whole blocks avoids a reallocation.
    #[inline(always)]
    pub(crate) fn extend_blocks<'b, const BLOCK: usize>(
        &mut self,
        ends: &mut [i32],
        mut next: impl FnMut() -> Result<Option<(&'b [u8; BLOCK], usize)>, Corrupt>,
    ) -> Result<usize, Corrupt> {
        let start = self.bytes.len();
        self.bytes.reserve(ends.len() * BLOCK);
        let mut length = start;
        let mut blocks = 0;
        let to = self.bytes.as_mut_ptr();

        for end in ends {
            let Some((block, bytes)) = next()? else { break };
            // SAFETY: `reserve` made room for this many whole blocks, and none adds more than its size.
            unsafe { to.add(length).copy_from_nonoverlapping(block.as_ptr(), BLOCK) };
            length += bytes.min(BLOCK);
            *end = length as i32;
            blocks += 1;
        }

        // SAFETY: all bytes up to the length were written.
        unsafe { self.bytes.set_len(length) };
        self.is_ascii = self.is_ascii && self.bytes.get(start..).is_some_and(<[u8]>::is_ascii);
        Ok(blocks)
    }

    /// Returns the bytes, valid strings or not, in a buffer with little excess capacity.
    pub(crate) fn into_bytes(mut self) -> Buffer {
        if self.bytes.capacity() > self.bytes.len() / 8 * 9 + 64 {
            self.bytes.shrink_to_fit();
        }
        Buffer::from_vec(self.bytes)
    }

    /// Returns the strings between the offsets. Fails if the bytes are not UTF-8, or if an offset is not a character
    /// boundary.
    pub(crate) fn into_strings(
        self,
        offsets: OffsetBuffer<i32>,
        nulls: Option<NullBuffer>,
    ) -> Result<StringArray, Corrupt> {
        let end = offsets.last().map(|end| usize::try_from(*end));
        let within = end.is_some_and(|end| end.is_ok_and(|end| end <= self.bytes.len()));
        let nulls_fit = nulls.as_ref().is_none_or(|nulls| nulls.len() + 1 == offsets.len());
        if within && nulls_fit && self.is_ascii {
            // SAFETY: ASCII is UTF-8, and every offset in it is a character boundary; offsets ascend by their type, and
            // the last is within the bytes.
            return Ok(unsafe { StringArray::new_unchecked(offsets, self.into_bytes(), nulls) });
        }

        Ok(StringArray::try_new(offsets, self.into_bytes(), nulls).map_err(|error| error.to_string())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(offsets: &[i32], parts: &[&[u8]], nulls: Option<NullBuffer>) -> Result<StringArray, Corrupt> {
        let mut text = Utf8Values::default();
        parts.iter().for_each(|part| text.extend(part));
        text.into_strings(OffsetBuffer::new(offsets.to_vec().into()), nulls)
    }

    #[test]
    fn only_strings_that_end_behind_their_beginning_are_added() {
        let mut offsets = Utf8Offsets::default();
        assert!(offsets.extend(&[-1]).is_err() && offsets.extend(&[3, 2]).is_err());
        offsets.extend(&[0, 2, 2]).unwrap();
        assert!(offsets.extend(&[1]).is_err());
        offsets.extend(&[]).unwrap();
        offsets.extend(&[7]).unwrap();
        assert_eq!(offsets.strings(), 4);
        assert_eq!(&*offsets.into_buffer(), [0, 0, 2, 2, 7]);
    }

    #[test]
    fn blocks_are_added_with_their_first_bytes() {
        let mut text = Utf8Values::with_capacity(3);
        let blocks = [(b"abcd", 1), (b"efgh", 4), (b"ijkl", 0), (b"mnop", 9), (b"qrst", 2)];
        let mut some = blocks.iter().copied();
        let mut ends = [0; 3];
        assert_eq!(text.extend_blocks(&mut ends, || Ok(some.next())).unwrap(), 3);
        assert_eq!(ends, [1, 5, 5]);
        assert_eq!(text.extend_blocks(&mut ends, || Ok(some.next())).unwrap(), 2);
        assert_eq!(ends, [9, 11, 5]);
        assert!(
            text.extend_blocks(&mut ends, || Ok(None::<(&[u8; 4], usize)>)).is_ok_and(|blocks| blocks == 0)
        );
        assert!(text.extend_blocks::<4>(&mut ends, || Err("no more".into())).is_err());
        assert!(text.is_ascii);
        assert_eq!(text.extend_blocks(&mut ends, || Ok(Some((b"\xffbcd", 1)))).unwrap(), 3);
        assert!(!text.is_ascii);
        assert_eq!(&*text.into_bytes(), b"aefghmnopqr\xff\xff\xff");
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
