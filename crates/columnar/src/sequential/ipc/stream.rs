//! Reads the messages of an Arrow IPC stream front to back.

use std::{
    io::{self, Read},
    slice,
};

use arrow::{
    array::RecordBatch,
    buffer::{Buffer, MutableBuffer},
    datatypes::SchemaRef,
    ipc::Message,
};
use stylobate_storage::Corrupt;

use super::{
    check::parse_message,
    decoder::IpcDecoder,
    input::{invalid, invalid_message, read_exactly},
};
use crate::sequential::format::ARROW_STREAM;

/// Bytes that are allocated before any have arrived; after that, each allocation at most doubles the bytes that
/// have arrived.
const FIRST_BYTES: usize = 16 << 20;

/// Reader of the batches of an Arrow IPC stream from an untrusted source.
///
/// Unlike arrow's own reader, it checks lengths before it allocates memory for them, returns errors where that
/// reader panics, and ends at the first error. Malformed bytes are an error of kind [`io::ErrorKind::InvalidData`]
/// whose source is a [`Corrupt`] with the offset in the stream.
pub struct IpcStreamReader<R> {
    input: MessageInput<R>,
    decoder: IpcDecoder,
    is_finished: bool,
}

impl<R: Read> IpcStreamReader<R> {
    /// Reads the schema.
    ///
    /// # Errors
    ///
    /// If the input does not begin with the schema of a stream, or cannot be read.
    pub fn new(input: R) -> io::Result<Self> {
        let mut input = MessageInput { input, offset: 0 };
        let metadata = input.metadata()?.ok_or_else(|| invalid("it has no schema"))?;
        let message = parse_message(&metadata).map_err(invalid)?;
        let schema = message.header_as_schema().ok_or_else(|| invalid("it does not begin with a schema"))?;
        let decoder = IpcDecoder::new(schema).map_err(invalid)?;
        input.body(&message)?;

        Ok(Self { input, decoder, is_finished: false })
    }

    /// Selects columns by their positions. Default: all.
    #[must_use]
    pub fn with_projection(mut self, columns: Vec<usize>) -> Self {
        self.decoder.set_projection(columns);
        self
    }

    /// Returns all columns of the stream.
    pub fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    fn next_batch(&mut self) -> io::Result<Option<RecordBatch>> {
        loop {
            let start = self.input.offset;
            let Some(metadata) = self.input.metadata()? else { return Ok(None) };

            let message = parse_message(&metadata).map_err(|corrupt| invalid(corrupt.at(start)))?;
            let body_start = self.input.offset;
            let body = self.input.body(&message)?;

            let decoded = self.decoder.decode(&message, &body);
            let decoded = decoded.map_err(|corrupt| invalid_message(corrupt, start, body_start))?;
            if decoded.is_some() {
                return Ok(decoded);
            }
        }
    }
}

impl<R: Read> Iterator for IpcStreamReader<R> {
    type Item = io::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }

        let batch = self.next_batch().transpose();
        self.is_finished = !matches!(batch, Some(Ok(_)));
        batch
    }
}

/// Input of messages, with the offset of the next read.
struct MessageInput<R> {
    input: R,
    offset: u64,
}

impl<R: Read> MessageInput<R> {
    /// Reads the metadata of the next message; `None` at the end of the stream.
    fn metadata(&mut self) -> io::Result<Option<MutableBuffer>> {
        let start = self.offset;
        let mut word = [0; 4];
        if !self.word_or_end(&mut word)? {
            return Ok(None);
        }

        // Streams of early versions have no marker before the length.
        if word == ARROW_STREAM {
            read_exactly(&mut self.input, &mut word)?;
            self.offset += word.len() as u64;
        }

        match i32::from_le_bytes(word) {
            0 => Ok(None),
            len => {
                let len = u64::try_from(len).map_err(|_| {
                    invalid(Corrupt::new("the metadata of a message has a negative length").at(start))
                })?;
                self.read(len).map(Some)
            }
        }
    }

    /// Reads the body of a message.
    fn body(&mut self, message: &Message<'_>) -> io::Result<Buffer> {
        let len = u64::try_from(message.bodyLength()).map_err(|_| {
            invalid(Corrupt::new("the body of a message has a negative length").at(self.offset))
        })?;
        self.read(len).map(Buffer::from)
    }

    /// Reads four bytes. Returns `false` if the input has ended.
    fn word_or_end(&mut self, word: &mut [u8; 4]) -> io::Result<bool> {
        let [first, rest @ ..] = word;
        loop {
            match self.input.read(slice::from_mut(first)) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }

        read_exactly(&mut self.input, rest)?;
        self.offset += word.len() as u64;
        Ok(true)
    }

    /// Reads bytes of an untrusted length: allocates no more than twice what arrives.
    fn read(&mut self, len: u64) -> io::Result<MutableBuffer> {
        let count = usize::try_from(len).map_err(|_| invalid("a message exceeds the memory"))?;
        let mut bytes = MutableBuffer::with_capacity(count.min(FIRST_BYTES));
        while bytes.len() < count {
            let start = bytes.len();
            let end = count.min(start.saturating_mul(2).max(FIRST_BYTES));
            bytes.resize(end, 0);
            read_exactly(&mut self.input, bytes.get_mut(start..).unwrap_or_default())?;
        }

        bytes.shrink_to_fit();
        self.offset += len;
        Ok(bytes)
    }
}
