//! Chunks that are no dictionary, and the values of those that are: decoded by the parquet crate.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BinaryArray, StringArray, new_empty_array},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Fields},
    error::ArrowError,
};
use parquet::{
    arrow::{
        ProjectionMask, array_reader::RowGroups, arrow_reader::ParquetRecordBatchReader,
        parquet_to_arrow_field_levels,
    },
    basic::{Encoding, Repetition, Type as PhysicalType},
    column::page::{Page, PageIterator},
    errors::ParquetError,
    file::metadata::{ParquetMetaData, RowGroupMetaData},
    schema::types::{ColumnDescPtr, SchemaDescriptor, Type},
};

use super::{
    ParquetBytes, ParquetFile,
    bytes::{OneChunk, ReadyPages},
    dictionary::{Flat, PlainValues},
};
use crate::{
    Result,
    chunk::{Chunk, SEGMENT_ROWS},
    chunk_cache::Representation,
    schema::Projected,
};

/// All rows of a column, in segments.
pub(super) fn decode(
    file: &ParquetFile,
    unit: usize,
    column: &Projected,
    bytes: &ParquetBytes,
    representation: Representation,
) -> Result<Chunk> {
    let wrong = |error: &dyn ToString| file.corrupt(unit, column, error.to_string());
    let rows = file.unit_rows(unit) as usize;
    let reader = reader(file, unit, std::slice::from_ref(column), bytes, SEGMENT_ROWS)
        .map_err(|error| wrong(&error))?;
    let mut segments: Vec<ArrayRef> = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| wrong(&error))?;
        segments.push(batch.columns().first().cloned().ok_or_else(|| wrong(&"a batch without a column"))?);
    }
    if segments.iter().map(|segment| segment.len()).sum::<usize>() != rows {
        return Err(wrong(&"its pages have fewer rows than the row group"));
    }
    if representation == Representation::Dictionary {
        return as_dictionary(&segments).map_err(|error| wrong(&error));
    }
    Ok(Chunk::Dense(segments.into()))
}

/// The slow way to a dictionary, for encodings that only a general reader knows.
fn as_dictionary(segments: &[ArrayRef]) -> Result<Chunk, ArrowError> {
    let Some(first) = segments.first() else { return Ok(Chunk::Dense(Arc::new([]))) };
    let whole = arrow::compute::concat(&segments.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?;
    let dictionary = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(first.data_type().clone()));
    match arrow::compute::cast(&whole, &dictionary) {
        Ok(array) => Ok(Chunk::Dictionary(array)),
        // Types without a dictionary stay what they are.
        Err(_) => Ok(Chunk::Dense(segments.to_vec().into())),
    }
}

/// Batches of some columns, in the order of the file's columns.
pub(super) fn reader(
    file: &ParquetFile,
    unit: usize,
    columns: &[Projected],
    bytes: &ParquetBytes,
    batch_rows: usize,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let leaves: Vec<usize> = columns.iter().flat_map(|column| file.wanted(column)).collect();
    let descriptor = file.metadata().file_metadata().schema_descr();
    let mask = ProjectionMask::leaves(descriptor, leaves);
    let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(file.schema().fields()))?;
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, &Group { file, unit, bytes }, batch_rows, None)
}

struct Group<'a> {
    file: &'a ParquetFile,
    unit: usize,
    bytes: &'a ParquetBytes,
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        self.file.unit_rows(self.unit) as usize
    }

    fn column_chunks(&self, leaf: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        let chunk = self.file.column_chunk(self.unit, leaf);
        let chunk = chunk.map_err(|error| ParquetError::General(error.to_string()))?;
        let pages = self.bytes.pages(leaf, chunk, self.num_rows())?;
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.file.metadata().row_groups().get(self.unit).into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.file.metadata()
    }
}

/// Values in the encoding PLAIN as an array of the column's type: read as the one page of a column without nulls, so
/// that a dictionary's values are just what the same values in a dense column would be.
pub(super) fn plain_values(flat: &Flat<'_>, plain: PlainValues) -> Result<ArrayRef> {
    let wrong = |error: &dyn ToString| {
        flat.file.corrupt(flat.unit, flat.column, format!("its dictionary: {}", error.to_string()))
    };
    let field = flat.file.schema().fields().get(flat.column.root).ok_or_else(|| wrong(&"no such column"))?;
    let count = plain.count;
    if count == 0 {
        return Ok(new_empty_array(field.data_type()));
    }
    let values = match field.data_type() {
        DataType::Utf8 | DataType::Binary if flat.descriptor.physical_type() == PhysicalType::BYTE_ARRAY => {
            return plain_bytes(&plain, field.data_type()).map_err(|reason| wrong(&reason));
        }
        data_type => read_plain(flat, plain, data_type).map_err(|error| wrong(&error))?,
    };
    if values.len() != count {
        return Err(wrong(&"it ends early"));
    }
    if values.data_type() == field.data_type() {
        return Ok(values);
    }
    arrow::compute::cast(&values, field.data_type()).map_err(|error| wrong(&error))
}

/// Strings or bytes, each with its length before it. They are checked to be UTF-8 all at once.
fn plain_bytes(plain: &PlainValues, data_type: &DataType) -> Result<ArrayRef, String> {
    let mut rest = plain.bytes.as_ref();
    let mut bytes: Vec<u8> = Vec::with_capacity(rest.len().saturating_sub(plain.count.saturating_mul(4)));
    let mut offsets: Vec<i32> = Vec::with_capacity(plain.count.min(rest.len() / 4) + 1);
    offsets.push(0);
    for _ in 0..plain.count {
        let (length, behind) = rest.split_first_chunk::<4>().ok_or("it ends early")?;
        let value = behind.split_at_checked(u32::from_le_bytes(*length) as usize);
        let (value, behind) = value.ok_or("it ends early")?;
        bytes.extend_from_slice(value);
        offsets.push(i32::try_from(bytes.len()).map_err(|_| "more than 2 GiB of values")?);
        rest = behind;
    }
    let offsets = OffsetBuffer::new(offsets.into());
    match data_type {
        DataType::Utf8 => {
            let strings = StringArray::try_new(offsets, bytes.into(), None);
            Ok(Arc::new(strings.map_err(|error| error.to_string())?))
        }
        _ => Ok(Arc::new(
            BinaryArray::try_new(offsets, bytes.into(), None).map_err(|error| error.to_string())?,
        )),
    }
}

fn read_plain(flat: &Flat<'_>, plain: PlainValues, data_type: &DataType) -> Result<ArrayRef, ParquetError> {
    let schema = required_column(flat.descriptor)?;
    let hint = Fields::from(vec![Field::new("v", data_type.clone(), false)]);
    let levels = parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&hint))?;
    let page = Page::DataPage {
        buf: plain.bytes,
        num_values: plain.count as u32,
        encoding: Encoding::PLAIN,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let group = Values { file: flat.file, page, count: plain.count };
    let mut reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, plain.count, None)?;
    let batch = reader.next().ok_or_else(|| ParquetError::EOF("no values".to_owned()))??;
    let values = batch.columns().first().cloned();
    values.ok_or_else(|| ParquetError::General("no column of values".to_owned()))
}

/// A schema of one column, of the same type as another and without nulls.
fn required_column(descriptor: &ColumnDescPtr) -> Result<SchemaDescriptor, ParquetError> {
    let leaf = Type::primitive_type_builder("v", descriptor.physical_type())
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(descriptor.logical_type_ref().cloned())
        .with_converted_type(descriptor.converted_type())
        .with_length(descriptor.type_length())
        .with_precision(descriptor.type_precision())
        .with_scale(descriptor.type_scale())
        .build()?;
    let root = Type::group_type_builder("schema").with_fields(vec![Arc::new(leaf)]).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

struct Values<'a> {
    file: &'a ParquetFile,
    page: Page,
    count: usize,
}

impl RowGroups for Values<'_> {
    fn num_rows(&self) -> usize {
        self.count
    }

    fn column_chunks(&self, _: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        Ok(Box::new(OneChunk(Some(Box::new(ReadyPages(vec![self.page.clone()].into_iter()))))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::empty())
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.file.metadata()
    }
}
