//! Builds the footer: row groups, page indexes, the Arrow schema.

use std::io::{self, Write};

use parquet::{
    errors::ParquetError,
    file::{
        metadata::{
            FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter,
            RowGroupMetaData, SortingColumn,
        },
        page_index::{column_index::ColumnIndexMetaData, offset_index::OffsetIndexMetaData},
        writer::TrackedWrite,
    },
    schema::types::SchemaDescPtr,
};

use super::chunk::EncodedChunk;

const CREATED_BY: &str = concat!("stylobate version ", env!("CARGO_PKG_VERSION"));
/// Bytes skipped at a time: enough that the parquet crate does not copy them.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Builder of the footer, from the row groups written so far.
pub(super) struct ParquetFooterBuilder {
    schema: SchemaDescPtr,
    sorting: Option<Vec<SortingColumn>>,
    version: i32,
    groups: Vec<RowGroupMetaData>,
    column_indexes: Vec<Vec<ColumnIndexMetaData>>,
    offset_indexes: Vec<Vec<OffsetIndexMetaData>>,
    rows: i64,
}

impl ParquetFooterBuilder {
    pub(super) fn new(schema: SchemaDescPtr, sorting: Option<Vec<SortingColumn>>, version: i32) -> Self {
        let groups = Vec::new();
        let column_indexes = Vec::new();
        let offset_indexes = Vec::new();
        Self { schema, sorting, version, groups, column_indexes, offset_indexes, rows: 0 }
    }

    /// Adds a row group that begins at `start`, with the chunks at their offsets.
    pub(super) fn push(
        &mut self,
        chunks: Vec<EncodedChunk>,
        rows: u64,
        start: u64,
    ) -> Result<(), ParquetError> {
        if let Some(chunk) = chunks.iter().find(|chunk| chunk.rows != rows) {
            return Err(ParquetError::General(format!(
                "a chunk of {} rows in a row group of {rows}",
                chunk.rows
            )));
        }

        let uncompressed = chunks.iter().map(|chunk| chunk.metadata.uncompressed_size()).sum();
        let ordinal = i16::try_from(self.groups.len())
            .map_err(|_| ParquetError::General("more than 32,767 row groups: make them larger".to_owned()))?;
        let mut columns = Vec::new();
        let mut column_index = Vec::new();
        let mut offset_index = Vec::new();

        for chunk in chunks {
            columns.push(chunk.metadata);
            column_index.push(chunk.column_index.unwrap_or(ColumnIndexMetaData::NONE));
            offset_index.extend(chunk.offset_index);
        }

        let group = RowGroupMetaData::builder(self.schema.clone())
            .set_num_rows(rows as i64)
            .set_total_byte_size(uncompressed)
            .set_sorting_columns(self.sorting.clone())
            .set_column_metadata(columns)
            .set_ordinal(ordinal)
            .set_file_offset(start as i64)
            .build()?;

        self.groups.push(group);
        self.column_indexes.push(column_index);
        self.offset_indexes.push(offset_index);
        self.rows += rows as i64;

        Ok(())
    }

    /// Returns the bytes from `start` to the end of the file.
    pub(super) fn bytes(self, start: u64, metadata: Vec<KeyValue>) -> Result<Vec<u8>, ParquetError> {
        let created_by = Some(CREATED_BY.to_owned());
        let file =
            FileMetaData::new(self.version, self.rows, created_by, Some(metadata), self.schema.clone(), None);
        let leaves = self.schema.num_columns();
        let mut builder = ParquetMetaDataBuilder::new(file).set_row_groups(self.groups);
        builder = builder.set_column_index(Some(self.column_indexes));
        // All chunks or none: readers assume that all have one.
        if self.offset_indexes.iter().all(|group| group.len() == leaves) {
            builder = builder.set_offset_index(Some(self.offset_indexes));
        }
        let metadata: ParquetMetaData = builder.build();
        let mut behind = SkipPrefixWriter { skip: start, bytes: Vec::new() };
        let mut tracked = TrackedWrite::new(&mut behind);
        let mut left = start;

        while left > 0 {
            let zeros = left.min(ZEROS.len() as u64);
            tracked.write_all(ZEROS.get(..zeros as usize).unwrap_or_default())?;
            left -= zeros;
        }

        ParquetMetaDataWriter::new_with_tracked(tracked, &metadata).finish()?;
        Ok(behind.bytes)
    }
}

/// Writer that skips the bytes that are already in the file, and keeps those after them.
struct SkipPrefixWriter {
    skip: u64,
    bytes: Vec<u8>,
}

impl Write for SkipPrefixWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        self.bytes.extend_from_slice(bytes.get(skipped as usize..).unwrap_or_default());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
