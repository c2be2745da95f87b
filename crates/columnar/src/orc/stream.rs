//! The bytes of one stream, decompressed chunk by chunk as far as they are asked for.
//!
//! No more is held than what was asked for and one chunk: a length that a corrupt file claims costs nothing
//! before the bytes themselves turn up.

use bytes::{Buf, Bytes};

use super::{
    compression::{OrcCodec, space},
    fault::OrcReadError,
    varints::{self, unzigzag_wide},
};

/// Flag and length of a chunk.
pub(super) const HEADER: usize = 3;

/// Most bytes of a message that takes so many in the file: no honest one is compressed better.
pub(super) fn most_of_message(len: usize) -> usize {
    len.saturating_mul(64).saturating_add(4 << 20).min(512 << 20)
}

/// A stream and how far it has been read.
#[derive(Clone, Debug)]
pub(super) struct OrcStreamReader {
    /// Chunks as they are in the file, not yet decompressed.
    rest: Bytes,
    codec: Option<OrcCodec>,
    /// What is ready to be read lies between `at` and `end`: of the stream itself where nothing is compressed, else of
    /// memory that one chunk after the other is decompressed into.
    plain: Bytes,
    room: Vec<u8>,
    at: usize,
    end: usize,
    /// Where the chunk begins whose end is ready, and the bytes that it has.
    chunk: u64,
    chunk_len: usize,
    /// Where that begins which is neither in `rest` nor ready yet.
    next: u64,
    before: RunSkip,
    /// The byte before, where that is known.
    last: Option<u8>,
}

/// Where a row group begins in a stream, as a row index says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowIndexPosition {
    /// Where its chunk begins in the stream; where nothing is compressed, where its bytes do.
    pub(super) chunk: u64,
    /// Bytes of the chunk, once it is decompressed, that lie before.
    pub(super) offset: u64,
    pub(super) before: RunSkip,
}

/// What of a run lies before the first value that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunSkip {
    /// Values, or bytes where a value is a bit.
    pub(super) values: u64,
    /// Bits of the byte after these.
    pub(super) bits: u64,
}

/// How far a stream has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrcStreamCursor {
    chunk: u64,
    offset: usize,
    /// Whether there is nothing more.
    pub(super) is_end: bool,
}

impl OrcStreamReader {
    pub(super) fn new(bytes: Bytes, codec: Option<OrcCodec>) -> Self {
        let (len, is_plain) = (bytes.len(), codec.is_none());
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

    /// What follows a position; `bytes` are those of the stream from `start` on. What lies before within the run is
    /// left to whoever reads runs.
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

    /// The same, unless that is within a number of 7 bits a byte: what is left of one would be taken for another.
    pub(super) fn at_a_varint(self) -> Result<Self, OrcReadError> {
        match self.last {
            Some(last) if last & 0x80 != 0 => {
                Err(OrcReadError::corrupt("a row index that points into a number"))
            }
            _ => Ok(self),
        }
    }

    /// What lies before the first value that is wanted, told once.
    pub(super) fn take_before(&mut self) -> RunSkip {
        std::mem::take(&mut self.before)
    }

    /// How far it has been read; the end of a chunk is the beginning of the next.
    pub(super) fn place(&self) -> OrcStreamCursor {
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

    /// All of it; an error if that is more than `most` bytes.
    pub(super) fn read_all(mut self, most: usize) -> Result<Bytes, OrcReadError> {
        loop {
            if self.ready().len() > most {
                return Err(OrcReadError::corrupt(format!("more than {most} bytes")));
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

    /// What was decompressed and not yet read.
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

    /// The next `len` bytes, in one piece.
    pub(super) fn take(&mut self, len: usize) -> Result<&[u8], OrcReadError> {
        Ok(self.take_ahead(len)?.get(..len).unwrap_or_default())
    }

    /// The next `len` bytes, in one piece with those behind them that are there already and not taken by this.
    pub(super) fn take_ahead(&mut self, len: usize) -> Result<&[u8], OrcReadError> {
        while self.ready().len() < len {
            self.more()?;
        }
        let from = self.at;
        self.at += len;
        let all: &[u8] = if self.codec.is_none() { &self.plain } else { &self.room };
        Ok(all.get(from..self.end).unwrap_or_default())
    }

    /// Hands out the next `len` bytes, in as few pieces as they are in.
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

    /// A number of 7 bits a byte, lowest first; bits above the 64th are dropped.
    pub(super) fn varint(&mut self) -> Result<u64, OrcReadError> {
        let (mut value, mut shift) = (0_u64, 0_u32);
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

    /// The same for numbers of up to 128 bits.
    fn wide_varint(&mut self) -> Result<u128, OrcReadError> {
        let (mut value, mut shift) = (0_u128, 0_u32);
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

    /// Appends the next `count` numbers of up to 128 bits, whose sign is their lowest bit. Returns the bits that any of
    /// them has as it is stored.
    pub(super) fn wide_zigzags(&mut self, count: usize, out: &mut Vec<i128>) -> Result<u128, OrcReadError> {
        let (mut left, mut any) = (count, 0);
        while left > 0 {
            let before = out.len();
            let (bytes, short) = varints::append_zigzags(self.ready(), left, out);
            self.at += bytes;
            left -= out.len() - before;
            any |= u128::from(short);
            // One that is long, or begins near the end of what is ready.
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

    /// Makes the next chunk ready, behind what is ready already; false at the end.
    fn advance(&mut self) -> Result<bool, OrcReadError> {
        let Some(codec) = self.codec.filter(|_| !self.rest.is_empty()) else { return Ok(false) };
        let cut = || OrcReadError::corrupt("the stream ends within a compressed chunk");
        let header: [u8; HEADER] =
            self.rest.get(..HEADER).and_then(|it| it.try_into().ok()).ok_or_else(cut)?;
        self.rest.advance(HEADER);
        let [low, middle, high] = header;
        let header = u32::from_le_bytes([low, middle, high, 0]);
        let (is_original, len) = (header & 1 == 1, (header >> 1) as usize);
        if len > self.rest.len() {
            return Err(cut());
        }
        let chunk = self.rest.split_to(len);
        // What of the chunk before is still to be read goes before the new one.
        let kept = self.ready().len();
        if self.at > 0 && kept > 0 {
            self.room.copy_within(self.at..self.end, 0);
        }
        (self.at, self.end) = (0, kept);
        let made = match is_original {
            true => {
                space(&mut self.room, kept, len).copy_from_slice(&chunk);
                len
            }
            false => codec.decompress(&chunk, &mut self.room, kept)?,
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
        // Three chunks stored as they are: 3, 0 and 4 bytes.
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
