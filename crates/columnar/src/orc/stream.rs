//! Reads the bytes of one stream, decompressing chunk by chunk on demand.
//!
//! It holds no more than the requested bytes and one chunk: a length that a corrupt file claims costs nothing before
//! the bytes themselves arrive.

use bytes::{Buf, Bytes};

use super::{
    compression::{OrcCodec, space},
    fault::OrcReadError,
    varints::{self, unzigzag_wide},
};

/// Bytes of a chunk's flag and length.
pub(super) const HEADER: usize = 3;

/// Returns the maximum bytes of a message of `len` compressed bytes: no valid one is compressed better.
pub(super) fn max_message_bytes(len: usize) -> usize {
    len.saturating_mul(64).saturating_add(4 << 20).min(512 << 20)
}

/// Stream and its read position.
#[derive(Clone, Debug)]
pub(super) struct OrcStreamReader {
    /// Remaining raw chunks.
    rest: Bytes,
    codec: Option<OrcCodec>,
    /// Available bytes, between `at` and `end`: of the stream itself if nothing is compressed, else of the buffer that
    /// chunks are decompressed into.
    plain: Bytes,
    room: Vec<u8>,
    at: usize,
    end: usize,
    /// Start of the chunk whose end is available, and its bytes.
    chunk: u64,
    chunk_len: usize,
    /// Start of the bytes that are neither in `rest` nor available yet.
    next: u64,
    before: RunSkip,
    /// Previous byte, if known.
    last: Option<u8>,
}

/// Position of a row group in a stream, from the row index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowIndexPosition {
    /// Start of its chunk in the stream; its offset if nothing is compressed.
    pub(super) chunk: u64,
    /// Decompressed bytes of the chunk before it.
    pub(super) offset: u64,
    pub(super) before: RunSkip,
}

/// Part of a run before the first requested value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunSkip {
    /// Values, or bytes if a value is a bit.
    pub(super) values: u64,
    /// Bits of the next byte.
    pub(super) bits: u64,
}

/// Position reached in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrcStreamCursor {
    chunk: u64,
    offset: usize,
    /// True at the end of the stream.
    pub(super) is_end: bool,
}

impl OrcStreamReader {
    pub(super) fn new(bytes: Bytes, codec: Option<OrcCodec>) -> Self {
        let len = bytes.len();
        let is_plain = codec.is_none();
        let (plain, rest) = if is_plain { (bytes, Bytes::new()) } else { (Bytes::new(), bytes) };
        let ready = if is_plain { len } else { 0 };

        Self {
            rest,
            codec,
            plain,
            room: Vec::new(),
            at: 0,
            end: ready,
            chunk: 0,
            chunk_len: ready,
            next: ready as u64,
            before: RunSkip::default(),
            last: None,
        }
    }

    /// Creates a reader at a position; `bytes` are those of the stream starting at `start`. Skipping values of the
    /// run is left to run decoders.
    pub(super) fn at(
        bytes: &Bytes,
        start: u64,
        codec: Option<OrcCodec>,
        position: &RowIndexPosition,
    ) -> Result<Self, OrcReadError> {
        let outside = || OrcReadError::corrupt("a row index that points past the end of a stream");
        let skip = position.chunk.checked_sub(start).and_then(|skip| usize::try_from(skip).ok());
        let skip = skip.filter(|skip| *skip <= bytes.len()).ok_or_else(outside)?;
        let mut stream = Self::new(bytes.slice(skip..), codec);
        stream.chunk = position.chunk;
        stream.next += position.chunk;
        stream.before = position.before;
        let last = |bytes: &[u8], at: usize| bytes.get(at.checked_sub(1)?).copied();
        stream.last = last(bytes, skip).filter(|_| codec.is_none());

        if position.offset > 0 {
            let offset = usize::try_from(position.offset).map_err(|_| outside())?;
            if !stream.advance()? || offset > stream.ready().len() {
                return Err(outside());
            }
            stream.last = last(stream.ready(), offset);
            stream.at += offset;
        }

        Ok(stream)
    }

    /// Checks that the position is not within a varint, whose remainder would be decoded as another one.
    pub(super) fn at_a_varint(self) -> Result<Self, OrcReadError> {
        match self.last {
            Some(last) if last & 0x80 != 0 => {
                Err(OrcReadError::corrupt("a row index that points into a number"))
            }
            _ => Ok(self),
        }
    }

    /// Takes the values to skip before the first requested one; empty afterwards.
    pub(super) fn take_before(&mut self) -> RunSkip {
        std::mem::take(&mut self.before)
    }

    /// Returns the position reached; the end of a chunk is the beginning of the next.
    pub(super) fn cursor(&self) -> OrcStreamCursor {
        let left = self.ready().len();
        let is_end = left == 0 && self.rest.is_empty();
        match self.codec {
            None => OrcStreamCursor { chunk: self.next - left as u64, offset: 0, is_end },
            Some(_) if left == 0 => OrcStreamCursor { chunk: self.next, offset: 0, is_end },
            Some(_) => {
                OrcStreamCursor { chunk: self.chunk, offset: self.chunk_len.saturating_sub(left), is_end }
            }
        }
    }

    /// Reads the whole stream; an error if that is more than `max_bytes` bytes.
    pub(super) fn read_all(mut self, max_bytes: usize) -> Result<Bytes, OrcReadError> {
        loop {
            if self.ready().len() > max_bytes {
                return Err(OrcReadError::corrupt(format!("more than {max_bytes} bytes")));
            }
            if !self.advance()? {
                break;
            }
        }

        if self.codec.is_none() {
            return Ok(self.plain.slice(self.at..));
        }

        self.room.truncate(self.end);
        self.room.drain(..self.at);
        self.room.shrink_to_fit();

        Ok(self.room.into())
    }

    /// Returns the bytes decompressed and not yet read.
    fn ready(&self) -> &[u8] {
        let all: &[u8] = if self.codec.is_none() { &self.plain } else { &self.room };
        all.get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn byte(&mut self) -> Result<u8, OrcReadError> {
        loop {
            if let Some(byte) = self.ready().first().copied() {
                self.at += 1;
                return Ok(byte);
            }
            self.more()?;
        }
    }

    /// Reads the next `len` bytes, contiguously.
    pub(super) fn take(&mut self, len: usize) -> Result<&[u8], OrcReadError> {
        Ok(self.take_ahead(len)?.get(..len).unwrap_or_default())
    }

    /// Reads the next `len` bytes, contiguously with the available bytes after them, which are not consumed.
    pub(super) fn take_ahead(&mut self, len: usize) -> Result<&[u8], OrcReadError> {
        while self.ready().len() < len {
            self.more()?;
        }
        let from = self.at;
        self.at += len;
        let all: &[u8] = if self.codec.is_none() { &self.plain } else { &self.room };
        Ok(all.get(from..self.end).unwrap_or_default())
    }

    /// Emits the next `len` bytes, in as few pieces as possible.
    pub(super) fn each_piece(
        &mut self,
        mut len: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), OrcReadError> {
        while len > 0 {
            let ready = self.ready();
            let piece = ready.get(..len).unwrap_or(ready);
            take(piece);
            let taken = piece.len();
            self.at += taken;
            len -= taken;
            if len > 0 {
                self.more()?;
            }
        }

        Ok(())
    }

    /// Appends the next `len` bytes.
    pub(super) fn append_to(&mut self, out: &mut Vec<u8>, len: usize) -> Result<(), OrcReadError> {
        self.each_piece(len, |piece| out.extend_from_slice(piece))
    }

    /// Reads a varint, lowest bits first; bits above the 64th are dropped.
    pub(super) fn varint(&mut self) -> Result<u64, OrcReadError> {
        let mut value = 0_u64;
        let mut shift = 0_u32;
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }

            shift += 7;
            if shift > 63 {
                return Err(OrcReadError::corrupt("a number of more than 64 bits"));
            }
        }
    }

    /// Reads a varint of up to 128 bits.
    fn wide_varint(&mut self) -> Result<u128, OrcReadError> {
        let mut value = 0_u128;
        let mut shift = 0_u32;
        loop {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }

            shift += 7;
            if shift > 127 {
                return Err(OrcReadError::corrupt("a number of more than 128 bits"));
            }
        }
    }

    /// Appends the next `count` zigzag varints of up to 128 bits. Returns the union of their encoded bits.
    pub(super) fn wide_zigzags(&mut self, count: usize, out: &mut Vec<i128>) -> Result<u128, OrcReadError> {
        let mut left = count;
        let mut any = 0;
        while left > 0 {
            let before = out.len();
            let (bytes, short) = varints::append_zigzags(self.ready(), left, out);
            self.at += bytes;
            left -= out.len() - before;
            any |= u128::from(short);
            // A long varint, or one near the end of the available bytes.

            if left > 0 {
                let number = self.wide_varint()?;
                out.push(unzigzag_wide(number));
                left -= 1;
                any |= number;
            }
        }

        Ok(any)
    }

    fn more(&mut self) -> Result<(), OrcReadError> {
        if self.advance()? {
            Ok(())
        } else {
            Err(OrcReadError::corrupt("the stream ends before its values do"))
        }
    }

    /// Decompresses the next chunk, after the bytes available already; false at the end.
    fn advance(&mut self) -> Result<bool, OrcReadError> {
        let Some(codec) = self.codec.filter(|_| !self.rest.is_empty()) else { return Ok(false) };
        let cut = || OrcReadError::corrupt("the stream ends within a compressed chunk");
        let header: [u8; HEADER] =
            self.rest.get(..HEADER).and_then(|it| it.try_into().ok()).ok_or_else(cut)?;
        self.rest.advance(HEADER);
        let [low, middle, high] = header;
        let header = u32::from_le_bytes([low, middle, high, 0]);
        let is_original = header & 1 == 1;
        let len = (header >> 1) as usize;

        if len > self.rest.len() {
            return Err(cut());
        }

        let chunk = self.rest.split_to(len);
        // Unread bytes of the previous chunk go before the new one.
        let kept = self.ready().len();
        if self.at > 0 && kept > 0 {
            self.room.copy_within(self.at..self.end, 0);
        }
        (self.at, self.end) = (0, kept);
        let made = if is_original {
            space(&mut self.room, kept, len).copy_from_slice(&chunk);
            len
        } else {
            codec.decompress(&chunk, &mut self.room, kept)?
        };
        self.end += made;
        self.chunk = self.next;
        self.chunk_len = made;
        self.next += (HEADER + len) as u64;

        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_one_piece_wherever_chunks_end() {
        use orc_rust::proto::{CompressionKind, PostScript};
        let postscript =
            PostScript { compression: Some(CompressionKind::Zlib as i32), ..PostScript::default() };
        let codec = OrcCodec::of(&postscript).unwrap();
        // Three chunks stored uncompressed: 3, 0 and 4 bytes.
        let bytes = [7, 0, 0, 1, 2, 3, 1, 0, 0, 9, 0, 0, 4, 5, 6, 7];
        let stream = || OrcStreamReader::new(Bytes::copy_from_slice(&bytes), codec);
        let mut taken = stream();
        assert_eq!(taken.byte().unwrap(), 1);
        assert_eq!(taken.take(4).unwrap(), [2, 3, 4, 5]);
        let mut rest = Vec::new();
        taken.append_to(&mut rest, 2).unwrap();
        assert_eq!(rest, [6, 7]);
        assert!(taken.byte().is_err());
        assert_eq!(stream().read_all(7).unwrap(), [1, 2, 3, 4, 5, 6, 7][..]);
        assert!(stream().read_all(6).is_err());
        assert!(stream().take(8).is_err());
    }
}
