//! Reads the blocks of an Arrow IPC file that its footer lists.

use std::{
    io::{self, Read, Seek, SeekFrom},
    vec,
};

use arrow::{
    array::RecordBatch,
    buffer::{Buffer, MutableBuffer},
    datatypes::SchemaRef,
    ipc::{Block, MetadataVersion, reader::read_footer_length, root_as_footer},
};
use stylobate_storage::Corrupt;

use super::{
    check::{malformed, parse_message, probe_allocation},
    decoder::IpcDecoder,
    input::{invalid, invalid_message, read_exactly},
};
use crate::sequential::format::ARROW_STREAM;

/// Bytes after the footer: its length and the magic number.
const TRAILER: usize = 10;

/// Reader of the batches of a file, each with one read. It ends at the first error.
///
/// Malformed bytes are an error of kind [`io::ErrorKind::InvalidData`] whose source is a [`Corrupt`].
pub(super) struct IpcFileReader<R> {
    file: R,
    decoder: IpcDecoder,
    version: MetadataVersion,
    /// Dictionaries that were not read yet.
    dictionaries: vec::IntoIter<MessageBlock>,
    batches: vec::IntoIter<MessageBlock>,
}

impl<R: Read + Seek> IpcFileReader<R> {
    /// Reads the footer of a file of `size` bytes.
    pub(super) fn open(mut file: R, size: u64) -> io::Result<Self> {
        let trailer_start = size.checked_sub(TRAILER as u64).ok_or_else(|| invalid("it is too short"))?;
        let mut trailer = [0; TRAILER];
        file.seek(SeekFrom::Start(trailer_start))?;
        read_exactly(&mut file, &mut trailer)?;

        let footer_len = read_footer_length(trailer).map_err(|error| invalid(error.to_string()))?;
        let footer_start = trailer_start.checked_sub(footer_len as u64);
        let footer_start = footer_start.ok_or_else(|| invalid("its footer is longer than the file"))?;
        let mut footer = vec![0; footer_len];
        file.seek(SeekFrom::Start(footer_start))?;
        read_exactly(&mut file, &mut footer)?;

        let corrupt = |reason: String| invalid(Corrupt::new(reason).at(footer_start));
        let footer = root_as_footer(&footer)
            .map_err(|error| invalid(malformed("the footer", &error).at(footer_start)))?;
        let schema = footer.schema().ok_or_else(|| corrupt("the footer has no schema".to_owned()))?;
        let decoder = IpcDecoder::new(schema).map_err(|error| invalid(error.at(footer_start)))?;

        let batches = footer.recordBatches();
        let batches = batches.ok_or_else(|| corrupt("the footer lists no batches".to_owned()))?;
        let batches = message_blocks(batches).map_err(invalid)?;
        let dictionaries = footer.dictionaries().into_iter().flatten();
        let dictionaries = message_blocks(dictionaries).map_err(invalid)?;
        check_disjoint(&dictionaries, &batches, footer_start).map_err(invalid)?;

        let version = footer.version();
        let (dictionaries, batches) = (dictionaries.into_iter(), batches.into_iter());
        Ok(Self { file, decoder, version, dictionaries, batches })
    }

    /// Selects columns by their positions. Default: all.
    #[must_use]
    pub(super) fn with_projection(mut self, columns: Vec<usize>) -> Self {
        self.decoder.set_projection(columns);
        self
    }

    /// Returns all columns of the file.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    fn next_batch(&mut self) -> io::Result<Option<RecordBatch>> {
        let Some(block) = self.batches.next() else { return Ok(None) };

        while let Some(dictionary) = self.dictionaries.next() {
            if self.read_block(dictionary)?.is_some() {
                let reason = "a batch where the footer lists a dictionary";
                return Err(invalid(Corrupt::new(reason).at(dictionary.offset)));
            }
        }

        let batch = self.read_block(block)?;
        let reason = "a dictionary where the footer lists a batch";
        batch.map(Some).ok_or_else(|| invalid(Corrupt::new(reason).at(block.offset)))
    }

    fn read_block(&mut self, block: MessageBlock) -> io::Result<Option<RecordBatch>> {
        let at = |corrupt: Corrupt| invalid(corrupt.at(block.offset));
        let len = block.metadata_len.saturating_add(block.body_len);
        probe_allocation(len).map_err(at)?;
        let len = usize::try_from(len).map_err(|_| at("a message exceeds the memory".into()))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.file.seek(SeekFrom::Start(block.offset))?;
        read_exactly(&mut self.file, &mut bytes)?;

        let bytes = Buffer::from(bytes);
        let metadata_len = usize::try_from(block.metadata_len).unwrap_or(usize::MAX);
        let metadata = bytes.get(..metadata_len).and_then(without_length);
        let metadata = metadata.ok_or_else(|| at("the metadata of a message is too short".into()))?;
        let message = parse_message(metadata).map_err(at)?;
        // Footers of some early writers have no version.
        if self.version != MetadataVersion::V1 && message.version() != self.version {
            return Err(at("a message has another version than the footer".into()));
        }

        let body_start = block.offset.saturating_add(block.metadata_len);
        let decoded = self.decoder.decode(&message, &bytes.slice(metadata_len));
        decoded.map_err(|corrupt| invalid_message(corrupt, block.offset, body_start))
    }
}

impl<R: Read + Seek> Iterator for IpcFileReader<R> {
    type Item = io::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch().transpose();
        if matches!(batch, Some(Err(_))) {
            self.batches = Vec::new().into_iter();
        }
        batch
    }
}

/// Location of a message in the file.
#[derive(Clone, Copy)]
struct MessageBlock {
    offset: u64,
    metadata_len: u64,
    body_len: u64,
}

/// Returns the locations of messages. Fails if an offset or length is negative.
fn message_blocks<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Result<Vec<MessageBlock>, Corrupt> {
    let valid = |block: &Block| {
        Some(MessageBlock {
            offset: u64::try_from(block.offset()).ok()?,
            metadata_len: u64::try_from(block.metaDataLength()).ok()?,
            body_len: u64::try_from(block.bodyLength()).ok()?,
        })
    };
    let blocks: Option<Vec<_>> = blocks.into_iter().map(valid).collect();
    blocks.ok_or_else(|| "the footer lists a message at a negative offset or of a negative length".into())
}

/// Fails if blocks overlap, or reach into the footer: a damaged length would allocate bytes that belong to another
/// block.
fn check_disjoint(
    dictionaries: &[MessageBlock],
    batches: &[MessageBlock],
    footer_start: u64,
) -> Result<(), Corrupt> {
    let mut blocks: Vec<MessageBlock> = dictionaries.iter().chain(batches).copied().collect();
    blocks.sort_by_key(|block| block.offset);

    let starts = blocks.iter().skip(1).map(|block| block.offset).chain([footer_start]);
    for (block, next) in blocks.iter().zip(starts) {
        let end = block.offset.saturating_add(block.metadata_len).saturating_add(block.body_len);
        if end > next {
            let reason = "a message is longer than the space before what follows it";
            return Err(Corrupt::new(reason).at(block.offset));
        }
    }

    Ok(())
}

/// Returns the flatbuffer of a message without its length, which follows a marker except in early versions.
fn without_length(metadata: &[u8]) -> Option<&[u8]> {
    metadata.strip_prefix(ARROW_STREAM).unwrap_or(metadata).get(4..)
}
