//! Bytes from outside that become an array of strings.

#![expect(unsafe_code, reason = "what is ASCII, or in order, need not be looked at a second time")]

use arrow::{
    array::StringArray,
    buffer::{Buffer, NullBuffer, OffsetBuffer},
};

/// Where strings begin, and where the last ends. What is added is looked at while it is near the processor.
pub(crate) struct Utf8Offsets {
    /// Invariant: the first is 0, and none is less than the one before.
    offsets: Vec<i32>,
}

impl Default for Utf8Offsets {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Utf8Offsets {
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

    /// Adds bytes, of as many strings as one likes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.is_ascii = self.is_ascii && bytes.is_ascii();
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds the first bytes of blocks, and says in `ends` where those of each end, until that is full or there is none
    /// more; returns how many there were. A block is copied whole: what is too much, the next one overwrites. So there
    /// should be room for as many whole blocks, lest all be moved.
    #[inline(always)]
    pub(crate) fn extend_blocks<'b, const BLOCK: usize>(
        &mut self,
        ends: &mut [i32],
        mut next: impl FnMut() -> Result<Option<(&'b [u8; BLOCK], usize)>, String>,
    ) -> Result<usize, String> {
        let start = self.bytes.len();
        self.bytes.reserve(ends.len() * BLOCK);
        let mut length = start;
        let mut blocks = 0;
        let to = self.bytes.as_mut_ptr();
        for end in ends {
            let Some((block, bytes)) = next()? else { break };
            // SAFETY: there is room for as many whole blocks, none of which adds more than a block has.
            unsafe { to.add(length).copy_from_nonoverlapping(block.as_ptr(), BLOCK) };
            length += bytes.min(BLOCK);
            *end = length as i32;
            blocks += 1;
        }
        // SAFETY: there is a block at each place up to the length.
        unsafe { self.bytes.set_len(length) };
        self.is_ascii = self.is_ascii && self.bytes.get(start..).is_some_and(<[u8]>::is_ascii);
        Ok(blocks)
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
        assert!(text.extend_blocks::<4>(&mut ends, || Err("no more".to_owned())).is_err());
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
