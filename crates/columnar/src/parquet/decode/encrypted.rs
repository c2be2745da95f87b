//! Reads encrypted column chunks. The parquet crate decrypts them, and only its general reader does: dictionaries, page
//! indexes and bloom filters of such chunks are not used.

use std::{io::Read, ops::Range};

use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
            ParquetRecordBatchReaderBuilder,
        },
    },
    errors::{ParquetError, Result as ParquetResult},
    file::{
        metadata::ColumnChunkMetaData,
        reader::{ChunkReader, Length},
    },
};

use crate::{
    file::schema::ProjectedColumn,
    parquet::{
        ParquetBytes, ParquetFile, footer,
        pages::{
            chunk_bytes::ChunkBytes,
            window::{ChunkWindow, ChunkWindowSource},
        },
    },
};

/// Bytes of some column chunks of one row group.
pub(crate) struct EncryptedChunks(Vec<(Range<u64>, EncryptedChunkSource)>);

enum EncryptedChunkSource {
    Held(ChunkBytes),
    Window(ChunkWindow),
}

impl ParquetFile {
    /// Returns whether the file is encrypted and was opened with keys.
    pub(crate) fn is_decrypted(&self) -> bool {
        self.decrypted
    }

    /// Returns whether a chunk of these columns is encrypted.
    pub(crate) fn has_encrypted(&self, unit: usize, columns: &[ProjectedColumn]) -> bool {
        let mut leaves = columns.iter().flat_map(|column| self.wanted(column));
        leaves.any(|leaf| self.column_chunk(unit, leaf).is_ok_and(footer::is_encrypted))
    }

    /// Returns batches of some columns of a row group, some of them encrypted, in the order of the file's columns.
    pub(crate) fn decrypting_reader(
        &self,
        unit: usize,
        columns: &[ProjectedColumn],
        chunks: EncryptedChunks,
        batch_rows: usize,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        if !self.decrypted {
            return Err(ParquetError::General("it is encrypted, and there are no keys".to_owned()));
        }

        let mask = ProjectionMask::leaves(
            self.metadata.file_metadata().schema_descr(),
            columns.iter().flat_map(|column| self.wanted(column)),
        );
        ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, self.reader_metadata()?)
            .with_row_groups(vec![unit])
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
    }

    /// Returns the metadata as the parquet crate's reader takes it, with the types of [`Self::schema`].
    fn reader_metadata(&self) -> ParquetResult<ArrowReaderMetadata> {
        let own = ArrowReaderMetadata::try_new(self.metadata.clone(), ArrowReaderOptions::new())?;
        if own.schema().fields() == self.schema.fields() {
            return Ok(own);
        }
        let options = ArrowReaderOptions::new().with_schema(self.schema.clone());
        ArrowReaderMetadata::try_new(self.metadata.clone(), options)
    }

    /// Returns the chunks of some columns, read a window at a time.
    pub(crate) fn windows(
        &self,
        unit: usize,
        columns: &[ProjectedColumn],
        source: &ChunkWindowSource,
    ) -> ParquetResult<EncryptedChunks> {
        self.chunks(unit, columns, |_, chunk| {
            Ok(EncryptedChunkSource::Window(ChunkWindow::new(source.clone(), footer::range(chunk))))
        })
    }

    /// Returns the chunks of some columns, either in memory or read as they are decoded.
    pub(crate) fn chunks_of(
        &self,
        unit: usize,
        columns: &[ProjectedColumn],
        bytes: &ParquetBytes,
    ) -> ParquetResult<EncryptedChunks> {
        match bytes {
            ParquetBytes::File { file, .. } => {
                self.windows(unit, columns, &ChunkWindowSource::File(file.clone()))
            }
            ParquetBytes::Held(_) => {
                self.chunks(unit, columns, |leaf, _| Ok(EncryptedChunkSource::Held(bytes.leaf(leaf)?)))
            }
        }
    }

    fn chunks(
        &self,
        unit: usize,
        columns: &[ProjectedColumn],
        source: impl Fn(usize, &ColumnChunkMetaData) -> ParquetResult<EncryptedChunkSource>,
    ) -> ParquetResult<EncryptedChunks> {
        let leaves = columns.iter().flat_map(|column| self.wanted(column));
        let chunks = leaves.map(|leaf| {
            let chunk = self.column_chunk(unit, leaf);
            let chunk = chunk.map_err(|error| ParquetError::General(error.to_string()))?;
            Ok((footer::range(chunk), source(leaf, chunk)?))
        });
        Ok(EncryptedChunks(chunks.collect::<ParquetResult<_>>()?))
    }
}

impl EncryptedChunks {
    fn at(&self, start: u64) -> ParquetResult<&EncryptedChunkSource> {
        let chunk = self.0.iter().find(|(range, _)| range.contains(&start));
        let chunk = chunk.ok_or_else(|| ParquetError::EOF("a page outside its column chunk".to_owned()))?;
        Ok(&chunk.1)
    }
}

impl Length for EncryptedChunks {
    fn len(&self) -> u64 {
        self.0.iter().map(|(range, _)| range.end).max().unwrap_or_default()
    }
}

impl ChunkReader for EncryptedChunks {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(match self.at(start)? {
            EncryptedChunkSource::Held(bytes) => Box::new(bytes.get_read(start)?),
            EncryptedChunkSource::Window(window) => Box::new(window.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        match self.at(start)? {
            EncryptedChunkSource::Held(bytes) => bytes.get_bytes(start, length),
            EncryptedChunkSource::Window(window) => window.get_bytes(start, length),
        }
    }
}
