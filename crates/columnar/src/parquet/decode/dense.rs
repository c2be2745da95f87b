//! Decodes chunks without a dictionary through the parquet crate.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::DataType,
    error::ArrowError,
};
use parquet::{
    arrow::{
        ProjectionMask, array_reader::RowGroups, arrow_reader::ParquetRecordBatchReader,
        parquet_to_arrow_field_levels,
    },
    column::page::PageIterator,
    errors::ParquetError,
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};

use crate::{
    Result,
    chunk::{Chunk, ChunkRepresentation, PassingRows, SEGMENT_ROWS, SegmentCollector, collector_reason},
    file::schema::ProjectedColumn,
    parquet::{ParquetBytes, ParquetFile, pages::chunk_bytes::OneChunk},
};

/// Decodes a column in segments: all rows, or those that pass the filter.
pub(crate) fn decode(
    file: &ParquetFile,
    row_group: usize,
    column: &ProjectedColumn,
    bytes: &ParquetBytes,
    representation: ChunkRepresentation,
    passing: Option<&PassingRows>,
) -> Result<Chunk> {
    let wrong = |error: &dyn ToString| file.corrupt(row_group, column, error.to_string());
    let refused = |error: ArrowError| file.corrupt(row_group, column, collector_reason(&error));
    let rows = file.row_group_rows(row_group) as usize;
    // The reader reserves memory for the number of rows that are requested at a time.
    let segment = SEGMENT_ROWS.min(rows.max(1));
    let reader = reader(file, row_group, std::slice::from_ref(column), bytes, segment)
        .map_err(|error| wrong(&error))?;
    let mut segments = SegmentCollector::new(passing);
    let mut decoded_rows = 0;

    for batch in reader {
        let batch = batch.map_err(|error| wrong(&error))?;
        let decoded = batch.columns().first().ok_or_else(|| wrong(&"a batch without a column"))?;
        let decoded = if file.has_intervals() {
            file.restored(column, decoded).map_err(|error| wrong(&error))?
        } else {
            decoded.clone()
        };
        decoded_rows += decoded.len();
        segments.push(decoded).map_err(refused)?;
    }

    if decoded_rows != rows {
        return Err(wrong(&"its pages have fewer rows than the row group"));
    }
    let chunk = segments.finish().map_err(refused)?;
    match &chunk {
        Chunk::Dense(segments) if representation == ChunkRepresentation::Dictionary => {
            as_dictionary(segments).map_err(refused)
        }
        _ => Ok(chunk),
    }
}

/// Builds a dictionary from plain values: the slow path, for encodings that only the general reader supports.
fn as_dictionary(segments: &[ArrayRef]) -> Result<Chunk, ArrowError> {
    let Some(first) = segments.first() else { return Ok(Chunk::Dense(Arc::new([]))) };
    let whole = arrow::compute::concat(&segments.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?;
    let dictionary = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(first.data_type().clone()));
    match arrow::compute::cast(&whole, &dictionary) {
        Ok(array) => Ok(Chunk::Dictionary(array)),
        // Types without dictionaries are left as they are.
        Err(_) => Ok(Chunk::Dense(segments.to_vec().into())),
    }
}

/// Returns a reader of some columns, in the order of the file's columns.
pub(crate) fn reader(
    file: &ParquetFile,
    row_group: usize,
    columns: &[ProjectedColumn],
    bytes: &ParquetBytes,
    batch_rows: usize,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let leaves: Vec<usize> = columns.iter().flat_map(|column| file.wanted(column)).collect();
    let descriptor = &file.decoded;
    let mask = ProjectionMask::leaves(descriptor, leaves);
    let levels = parquet_to_arrow_field_levels(descriptor, mask, file.types())?;
    ParquetRecordBatchReader::try_new_with_row_groups(
        &levels,
        &BufferedRowGroup { file, row_group, bytes },
        batch_rows,
        None,
    )
}

struct BufferedRowGroup<'a> {
    file: &'a ParquetFile,
    row_group: usize,
    bytes: &'a ParquetBytes,
}

impl RowGroups for BufferedRowGroup<'_> {
    fn num_rows(&self) -> usize {
        self.file.row_group_rows(self.row_group) as usize
    }

    fn column_chunks(&self, leaf: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        let chunk = self.file.column_chunk(self.row_group, leaf);
        let chunk = chunk.map_err(|error| ParquetError::General(error.to_string()))?;
        let decryptor = self.file.decryptor_of(self.row_group, leaf, chunk)?;
        let pages = self.bytes.pages(leaf, chunk, decryptor)?;
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.file.metadata().row_groups().get(self.row_group).into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.file.metadata()
    }
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::metadata::FileMetaData,
        schema::{parser::parse_message_type, types::SchemaDescriptor},
    };

    use super::*;
    use crate::{Error, parquet::classified};

    #[test]
    fn rows_that_exceed_an_array_do_not_make_a_file_corrupt() {
        let reason = |error: ArrowError| classified(Error::corrupt("x.parquet", collector_reason(&error)));
        let overflow = reason(ArrowError::OffsetOverflowError(1 << 31));
        assert!(matches!(overflow, Error::BatchTooLong { .. }), "{overflow}");
        let other = reason(ArrowError::ComputeError("a segment without its mask".to_owned()));
        assert!(matches!(other, Error::Corrupt { .. }), "{other}");
    }

    #[test]
    fn a_leaf_without_a_type_leaves_others_with_the_types_that_were_chosen_for_them() {
        let message = "message m {
            optional int96 at;
            optional fixed_len_byte_array (40) number (DECIMAL(38, 2));
        }";
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(message).unwrap())));
        let metadata = ParquetMetaData::new(FileMetaData::new(1, 0, None, None, schema, None), Vec::new());
        let file = ParquetFile::new("x.parquet".to_owned(), metadata, 100).unwrap();
        assert!(file.unreadable(0).is_none() && file.unreadable(1).is_some());
        assert_eq!(file.types(), Some(file.schema().fields()));

        let mask = ProjectionMask::leaves(&file.decoded, [0]);
        parquet_to_arrow_field_levels(&file.decoded, mask, file.types()).unwrap();
    }
}
