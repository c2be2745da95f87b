//! Reads Arrow IPC files back sequentially.

use std::io::{Cursor, Read};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef, TimeUnit},
};
use stylobate_columnar::IpcStreamReader;

/// Magic bytes of an Arrow IPC file, with the padding before the first message.
const MAGIC: &[u8; 8] = b"ARROW1\0\0";

/// Passes batches with the columns of `schema` to `each`. The file contains a stream, followed only by the footer.
pub(crate) fn read_arrow(
    input: &mut dyn Read,
    schema: &SchemaRef,
    mut each: impl FnMut(&RecordBatch) -> Result<(), String>,
) -> Result<(), String> {
    let mut word = [0; MAGIC.len()];
    input.read_exact(&mut word).map_err(|error| error.to_string())?;
    if &word != MAGIC {
        return Err("no Arrow file".to_owned());
    }
    word.fill(0);

    while word == [0; MAGIC.len()] {
        input.read_exact(&mut word).map_err(|error| error.to_string())?;
    }
    let batches = IpcStreamReader::new(Cursor::new(word).chain(input));
    for batch in batches.map_err(|error| error.to_string())? {
        let batch = batch.map_err(|error| error.to_string())?;
        check(&batch, schema)?;
        each(&batch)?;
    }

    Ok(())
}

/// Checks that a batch has the columns of a table, in any representation.
pub(crate) fn check(batch: &RecordBatch, schema: &SchemaRef) -> Result<(), String> {
    let given = batch.schema_ref().fields().iter();
    let alike = given.len() == schema.fields().len()
        && given.zip(schema.fields()).all(|(given, wanted)| {
            given.name() == wanted.name() && logical(given.data_type()) == logical(wanted.data_type())
        });
    if alike { Ok(()) } else { Err("other columns, or of other types".to_owned()) }
}

fn logical(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => logical(values),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        // Parquet does not support times in whole seconds.
        DataType::Time32(_) => DataType::Time32(TimeUnit::Millisecond),
        other => other.clone(),
    }
}
