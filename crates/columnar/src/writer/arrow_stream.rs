//! Writes Arrow IPC streams with types that every reader supports. Few support string views, which would also carry the
//! strings of rows that were filtered out.

use std::{io::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef},
    error::ArrowError,
    ipc::writer::StreamWriter,
};

use crate::{Error, Result};

/// Encoder of an Arrow IPC stream.
pub(super) struct ArrowStreamEncoder<W: Write> {
    writer: StreamWriter<W>,
    schema: SchemaRef,
    /// The last dictionary of each dictionary column, and its conversion: batches share dictionaries.
    dictionaries: Vec<Option<(ArrayRef, ArrayRef)>>,
}

impl<W: Write> ArrowStreamEncoder<W> {
    pub(super) fn new(out: W, schema: &SchemaRef) -> Result<Self> {
        let fields = schema.fields().iter().map(|field| with_type(field, without_views(field.data_type())));
        let fields: Fields = fields.collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let dictionaries = vec![None; schema.fields().len()];
        let writer = StreamWriter::try_new(out, &schema).map_err(unwritten_ipc)?;
        Ok(Self { writer, schema, dictionaries })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().zip(self.schema.fields()).zip(&mut self.dictionaries);
        let columns = columns.map(|((column, field), dictionary)| {
            let converted = convert(column, field.data_type(), dictionary);
            converted.map_err(Error::arrow(format!("column {}", field.name())))
        });

        let columns = columns.collect::<Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(unwritten_ipc)?;
        let written = self.writer.write(&batch).and_then(|()| self.writer.flush());
        written.map_err(unwritten_ipc)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.writer.finish().map_err(unwritten_ipc)
    }

    pub(super) fn out(&mut self) -> &mut W {
        self.writer.get_mut()
    }
}

fn convert(
    column: &ArrayRef,
    to: &DataType,
    last: &mut Option<(ArrayRef, ArrayRef)>,
) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == to {
        return Ok(column.clone());
    }

    let (DataType::Dictionary(_, to_values), Some(dictionary)) = (to, column.as_any_dictionary_opt()) else {
        return cast(column, to);
    };
    let values = dictionary.values();
    let converted = match last {
        Some((known, converted)) if known.to_data().ptr_eq(&values.to_data()) => converted.clone(),
        _ => {
            let converted = cast(values, to_values)?;
            *last = Some((values.clone(), converted.clone()));
            converted
        }
    };

    Ok(dictionary.with_values(converted))
}

/// Replaces views with strings and bytes in the type.
fn without_views(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(keys, values) => DataType::Dictionary(keys.clone(), Box::new(plain(values))),
        other => mapped(other, &without_views),
    }
}

/// Replaces views and dictionaries in the type.
pub(super) fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        other => mapped(other, &plain),
    }
}

fn mapped(data_type: &DataType, map: &dyn Fn(&DataType) -> DataType) -> DataType {
    let inner = |field: &FieldRef| with_type(field, map(field.data_type()));
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(inner(item), *len),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    }
}

/// Adds the operation to an error of writing Arrow IPC.
pub(super) fn unwritten_ipc(error: ArrowError) -> Error {
    Error::arrow("writing Arrow IPC")(error)
}

/// Returns the field with another type.
pub(super) fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{DictionaryArray, Int8Array, StringArray, StringViewArray},
        datatypes::Int8Type,
        ipc::reader::StreamReader,
    };

    use super::*;

    #[test]
    fn views_become_strings_and_a_dictionary_is_sent_once() {
        let words = ["a word that is longer than a view holds", "b"];
        let views: ArrayRef = Arc::new(StringViewArray::from(words.to_vec()));
        let keys = Int8Array::from(vec![0, 1]);
        let dictionary = DictionaryArray::<Int8Type>::try_new(keys, views.clone()).unwrap();
        let batch =
            RecordBatch::try_from_iter([("x", views), ("y", Arc::new(dictionary) as ArrayRef)]).unwrap();
        let mut stream = Vec::new();
        let mut encoder = ArrowStreamEncoder::new(&mut stream, &batch.schema()).unwrap();
        encoder.write(&batch.slice(0, 1)).unwrap();
        encoder.write(&batch.slice(1, 1)).unwrap();
        encoder.finish().unwrap();
        drop(encoder);
        let read: Vec<_> = StreamReader::try_new(&stream[..], None).unwrap().map(Result::unwrap).collect();
        let read = arrow::compute::concat_batches(&read[0].schema(), &read).unwrap();
        assert_eq!(read.column(0).as_string::<i32>(), &StringArray::from(words.to_vec()));
        assert_eq!(cast(read.column(1), &DataType::Utf8).unwrap().as_ref(), read.column(0).as_ref());
        let text = String::from_utf8_lossy(&stream);
        assert_eq!(text.matches(words[0]).count(), 2, "once in a column, once in the dictionary");
    }
}
