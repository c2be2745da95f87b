//! Reads untrusted bytes front to back, checking each read against the remaining length.

use crate::Corrupt;

/// Cursor over bytes in memory. A read returns `None`, and consumes nothing, if too few bytes remain.
#[derive(Clone, Debug)]
pub struct ByteReader<'b> {
    rest: &'b [u8],
    len: usize,
}

impl<'b> ByteReader<'b> {
    /// Creates a reader over `bytes`.
    #[inline]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, len: bytes.len() }
    }

    /// Returns the unread bytes.
    #[inline]
    pub const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Returns the number of bytes read.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Returns whether all bytes have been read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// Reads a byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// Reads a little-endian 32-bit number.
    #[inline]
    pub fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a big-endian 32-bit number.
    #[inline]
    pub fn u32_be(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a little-endian 64-bit number.
    #[inline]
    pub fn u64_le(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a varint: seven bits per byte, least significant group first. Returns `None` if the input ends within
    /// the number; the partial number is then consumed.
    ///
    /// # Errors
    ///
    /// The number has more than ten bytes.
    #[inline]
    pub fn varint(&mut self) -> Result<Option<u64>, Corrupt> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let Some(byte) = self.byte() else { return Ok(None) };
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(Some(value));
            }
        }

        Err(Corrupt::new("a number that is too long"))
    }
}

/// Decodes a zigzag-encoded signed number.
#[inline]
pub const fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_fit_are_consumed_and_others_are_not() {
        let mut bytes = ByteReader::new(&[1, 2, 0, 0, 0, 0, 0, 0, 3, 9, 4]);
        assert_eq!(bytes.byte(), Some(1));
        assert_eq!(bytes.u32_le(), Some(2));
        assert_eq!(bytes.u32_be(), Some(3));
        assert_eq!((bytes.u32_le(), bytes.u64_le(), bytes.take(3)), (None, None, None));
        assert_eq!((bytes.offset(), bytes.rest()), (9, &[9, 4][..]));
        assert_eq!(bytes.take(2), Some(&[9, 4][..]));
        assert!(bytes.is_empty() && bytes.byte().is_none() && bytes.take(0).is_some());
        assert_eq!(bytes.take(usize::MAX), None);
    }

    #[test]
    fn varints_of_up_to_ten_bytes_are_read() {
        let varint = |bytes: &[u8]| ByteReader::new(bytes).varint();
        assert_eq!(varint(&[0xac, 0x02, 7]), Ok(Some(300)));
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Ok(Some(u64::MAX)));
        assert_eq!(varint(&[0x80; 9]), Ok(None));
        assert_eq!(varint(&[]), Ok(None));
        assert!(varint(&[0x80; 10]).is_err());
        assert_eq!([0, 1, 2, 3, u64::MAX].map(unzigzag), [0, -1, 1, -2, i64::MIN]);
    }
}
