//! Decodes PLAIN-encoded values, such as dictionaries, into arrays.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, new_empty_array},
    datatypes::{DataType, Field, Fields},
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask, array_reader::RowGroups, arrow_reader::ParquetRecordBatchReader,
        parquet_to_arrow_field_levels,
    },
    basic::{ConvertedType, Encoding, Repetition, Type as PhysicalType},
    column::page::{Page, PageIterator},
    errors::ParquetError,
    file::metadata::{ParquetMetaData, RowGroupMetaData},
    schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor, Type},
};
use stylobate_storage::Corrupt;

use super::{
    DictionaryPage,
    chunk_bytes::{OneChunk, ReadyPages},
};
use crate::{
    file::schema::ProjectedColumn,
    kernels::byte_segment::{ByteSegment, split_plain},
    parquet::{ParquetFile, intervals::restored},
};

/// Decodes PLAIN-encoded values into an array of the column's type: they are read as the only page of a column without
/// nulls, so that a dictionary's values equal those of a dense column.
pub(crate) fn values(
    file: &ParquetFile,
    column: &ProjectedColumn,
    descriptor: &ColumnDescPtr,
    plain: &[u8],
    count: usize,
) -> Result<ArrayRef, Corrupt> {
    if let Some(mut strings) = PlainStringDecoder::of(file, column, descriptor) {
        strings.take(&DictionaryPage {
            values: plain,
            count,
            length: plain.len(),
            ..DictionaryPage::default()
        })?;
        return strings.finish();
    }

    let wrong = |error: &dyn ToString| Corrupt::new(format!("its dictionary: {}", error.to_string()));
    let field = file.schema().fields().get(column.root).ok_or_else(|| wrong(&"no such column"))?;
    if count == 0 {
        return Ok(new_empty_array(field.data_type()));
    }

    let values = read(file, descriptor, plain, count, field.data_type()).map_err(|error| wrong(&error))?;
    if values.len() != count {
        return Err(wrong(&"it ends early"));
    }
    if values.data_type() == field.data_type() {
        return Ok(values);
    }

    match field.data_type() {
        DataType::Interval(_) => restored(&values, field.data_type()).map_err(|error| wrong(&error)),
        other => arrow::compute::cast(&values, other).map_err(|error| wrong(&error)),
    }
}

/// Incremental decoder of length-prefixed strings or bytes.
pub(crate) struct PlainStringDecoder {
    segment: ByteSegment,
    data_type: DataType,
    /// Remaining values.
    left: usize,
    /// Bytes consumed.
    taken: usize,
}

impl PlainStringDecoder {
    /// Returns the decoder for a column's dictionary, if its values are strings or bytes.
    pub(crate) fn of(
        file: &ParquetFile,
        column: &ProjectedColumn,
        descriptor: &ColumnDescPtr,
    ) -> Option<Self> {
        let data_type = file.schema().fields().get(column.root)?.data_type().clone();
        let fits = matches!(data_type, DataType::Utf8 | DataType::Binary)
            && descriptor.physical_type() == PhysicalType::BYTE_ARRAY;
        fits.then(|| Self { segment: ByteSegment::default(), data_type, left: 0, taken: 0 })
    }

    /// Consumes the values that are complete; `page` begins as it did before.
    pub(crate) fn take(&mut self, page: &DictionaryPage<'_>) -> Result<(), Corrupt> {
        if self.taken == 0 {
            // A dictionary has no more values than its bytes allow lengths.
            let rows = page.count.min(page.length / 4);
            self.segment = ByteSegment::with_capacity(rows, page.length - rows * 4);
            self.left = page.count;
        }
        let new = page.values.get(self.taken..).unwrap_or_default();
        let mut rest = new;
        self.left -= self.segment.append(self.left, || Ok(split_plain(&mut rest)))?;
        self.taken += new.len() - rest.len();

        Ok(())
    }

    /// Returns the array, once everything was consumed. Values are validated as UTF-8 all at once.
    pub(crate) fn finish(self) -> Result<ArrayRef, Corrupt> {
        let whole = if self.left == 0 {
            self.segment.into_array(&self.data_type)
        } else {
            Err("it ends early".into())
        };
        whole.map_err(|corrupt| Corrupt::new(format!("its dictionary: {corrupt}")))
    }
}

fn read(
    file: &ParquetFile,
    descriptor: &ColumnDescPtr,
    plain: &[u8],
    count: usize,
    data_type: &DataType,
) -> Result<ArrayRef, ParquetError> {
    let schema = required_column(descriptor)?;
    let hint = Fields::from(vec![Field::new("v", data_type.clone(), false)]);
    let levels = parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&hint))?;
    let page = Page::DataPage {
        buf: Bytes::copy_from_slice(plain),
        num_values: count as u32,
        encoding: Encoding::PLAIN,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };

    let group = PlainValuesRowGroup { file, page, count };
    let mut reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, count, None)?;
    let batch = reader.next().ok_or_else(|| ParquetError::EOF("no values".to_owned()))??;
    let values = batch.columns().first().cloned();
    values.ok_or_else(|| ParquetError::General("no column of values".to_owned()))
}

/// Returns a schema of one column, of the same type and without nulls.
pub(crate) fn required_column(descriptor: &ColumnDescriptor) -> Result<SchemaDescriptor, ParquetError> {
    let leaf = Type::primitive_type_builder("v", descriptor.physical_type())
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(descriptor.logical_type_ref().cloned())
        .with_converted_type(match descriptor.converted_type() {
            ConvertedType::INTERVAL => ConvertedType::NONE,
            other => other,
        })
        .with_length(descriptor.type_length())
        .with_precision(descriptor.type_precision())
        .with_scale(descriptor.type_scale())
        .build()?;

    let root = Type::group_type_builder("schema").with_fields(vec![Arc::new(leaf)]).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

struct PlainValuesRowGroup<'a> {
    file: &'a ParquetFile,
    page: Page,
    count: usize,
}

impl RowGroups for PlainValuesRowGroup<'_> {
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
