//! Writes Arrow IPC files. A column of such a file has one dictionary, which may grow from batch to batch, while a scan
//! returns one dictionary per row group: their keys are remapped here.

use std::{io::Write, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, UInt32Array, new_empty_array},
    compute::{cast, concat, take},
    datatypes::{DataType, FieldRef, Int32Type, Schema, SchemaRef},
    error::ArrowError,
    ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions},
    row::{RowConverter, SortField},
};

use super::arrow_stream::{plain, unwritten_ipc, with_type};
use crate::{Error, Result, kernels::interner::ValueInterner};

/// Encoder of an Arrow IPC file.
pub(super) struct ArrowFileEncoder<W: Write> {
    writer: FileWriter<W>,
    schema: SchemaRef,
    /// The dictionary of each dictionary column of the file.
    dictionaries: Vec<Option<GrowingDictionary>>,
}

impl<W: Write> ArrowFileEncoder<W> {
    pub(super) fn new(out: W, schema: &SchemaRef) -> Result<Self> {
        let fields: Vec<FieldRef> = schema.fields().iter().map(written).collect();
        let growing = |field: &FieldRef| match field.data_type() {
            DataType::Dictionary(_, values) => GrowingDictionary::new(values).map(Some),
            _ => Ok(None),
        };

        let dictionaries = fields.iter().map(growing).collect::<Result<_, _>>().map_err(unwritten_ipc)?;
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let writer = FileWriter::try_new_with_options(out, &schema, options).map_err(unwritten_ipc)?;

        Ok(Self { writer, schema, dictionaries })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().zip(&mut self.dictionaries).zip(self.schema.fields());
        let columns = columns.map(|((column, dictionary), field)| {
            let written = match dictionary {
                Some(growing) => growing.number(column),
                None => cast(column, field.data_type()),
            };
            written.map_err(Error::arrow(format!("column {}", field.name())))
        });

        let columns = columns.collect::<Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(unwritten_ipc)?;
        self.writer.write(&batch).map_err(unwritten_ipc)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.writer.finish().map_err(unwritten_ipc)
    }

    pub(super) fn out(&mut self) -> &mut W {
        self.writer.get_mut()
    }
}

/// Returns the field of the file schema: dictionaries have keys that are wide enough for all values, and nested types
/// contain none.
fn written(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(plain(values)))
        }
        other => plain(other),
    };
    with_type(field, data_type)
}

/// A dictionary that only grows.
struct GrowingDictionary {
    values: ArrayRef,
    rows: RowConverter,
    /// The values as rows.
    interned: ValueInterner,
}

impl GrowingDictionary {
    fn new(values: &DataType) -> Result<Self, ArrowError> {
        let rows = RowConverter::new(vec![SortField::new(values.clone())])?;
        Ok(Self { values: new_empty_array(values), rows, interned: ValueInterner::default() })
    }

    /// Remaps the column to this dictionary, and adds its new values.
    fn number(&mut self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let too_many_values = || ArrowError::InvalidArgumentError("too many distinct values".to_owned());
        let too_many = |_| too_many_values();
        let no_dictionary = || ArrowError::InvalidArgumentError("a column without its dictionary".to_owned());
        let column = column.as_any_dictionary_opt().ok_or_else(no_dictionary)?;
        let values = cast(column.values(), self.values.data_type())?;
        let rows = self.rows.convert_columns(std::slice::from_ref(&values))?;
        let mut known = self.interned.values().len();
        let codes = self.interned.intern_all(rows.iter().map(|row| row.data()));
        let codes = codes.ok_or_else(too_many_values)?;
        let mut numbers = Vec::with_capacity(codes.len());
        let mut added = Vec::new();
        for (index, code) in codes.into_iter().enumerate() {
            if code as usize == known {
                added.push(u32::try_from(index).map_err(too_many)?);
                known += 1;
            }
            numbers.push(i32::try_from(code).map_err(too_many)?);
        }

        if !added.is_empty() {
            let added = take(&values, &UInt32Array::from(added), None)?;
            self.values = concat(&[self.values.as_ref(), added.as_ref()])?;
        }

        let keys = take(&Int32Array::from(numbers), column.keys(), None)?;
        let keys = keys.as_primitive::<Int32Type>().clone();

        Ok(Arc::new(DictionaryArray::try_new(keys, self.values.clone())?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Array, StringArray, StructArray},
        datatypes::{Field, UInt8Type},
        ipc::reader::FileReader,
    };

    use super::*;

    fn dictionary(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(values.iter().copied().collect::<DictionaryArray<UInt8Type>>())
    }

    fn read(file: Vec<u8>) -> Vec<RecordBatch> {
        FileReader::try_new(std::io::Cursor::new(file), None).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn batches_with_dictionaries_of_their_own_share_the_one_of_the_file() {
        let batches =
            [[Some("a"), None, Some("b")], [Some("c"), Some("b"), None], [Some("c"), Some("a"), Some("c")]];
        let batch = |rows: &[Option<&str>]| {
            RecordBatch::try_from_iter_with_nullable([("x", dictionary(rows), true)]).unwrap()
        };

        let mut file = Vec::new();
        let mut encoder = ArrowFileEncoder::new(&mut file, &batch(&[]).schema()).unwrap();
        for rows in &batches {
            encoder.write(&batch(rows)).unwrap();
        }

        encoder.finish().unwrap();
        drop(encoder);
        let read = read(file);
        assert_eq!(read.len(), 3);

        for (batch, rows) in read.iter().zip(batches) {
            let values = cast(batch.column(0), &DataType::Utf8).unwrap();
            assert_eq!(values.as_string::<i32>(), &StringArray::from(rows.to_vec()));
        }
    }

    #[test]
    fn a_dictionary_within_a_struct_is_written_as_its_values() {
        let inner = dictionary(&[Some("a"), None]);
        let field = Arc::new(Field::new("inner", inner.data_type().clone(), true));
        let column: ArrayRef = Arc::new(StructArray::from(vec![(field, inner)]));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let mut file = Vec::new();
        let mut encoder = ArrowFileEncoder::new(&mut file, &batch.schema()).unwrap();
        encoder.write(&batch).unwrap();
        encoder.finish().unwrap();
        drop(encoder);
        let read = read(file);
        let values = read[0].column(0).as_struct().column(0);
        assert_eq!(values.as_string::<i32>(), &StringArray::from(vec![Some("a"), None]));
    }
}
