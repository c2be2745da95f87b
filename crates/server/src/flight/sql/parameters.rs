//! Parameter values: received as a stream of batches, and kept in handles as an IPC stream.

use std::{io::Cursor, panic::AssertUnwindSafe};

use arrow::{
    array::RecordBatch,
    compute::concat_batches,
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use arrow_flight::{FlightData, decode::FlightRecordBatchStream, error::FlightError};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future};
use stylobate_columnar::check_ipc_message;
use tonic::{Code, Status};

use super::super::error::{invalid, status};

/// Maximum bytes of the bound values: tickets contain them.
const MAX_BYTES: usize = 1 << 20;

/// Reads the rows of a stream that begins with a schema; `None` if there are none.
pub(super) async fn received(
    messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
) -> Result<Option<RecordBatch>, Status> {
    let mut bytes = 0;
    let bounded = messages.map(move |message| {
        let message = message?;
        bytes += message.data_header.len() + message.data_body.len();
        if bytes > MAX_BYTES {
            let reason = format!("parameters: more than {MAX_BYTES} bytes: bind fewer rows at once");
            return Err(FlightError::from(invalid(reason)));
        }
        Ok(message)
    });
    // A message that only names the statement has no content.
    let bounded = bounded.try_filter(|message| future::ready(!message.data_header.is_empty()));
    // Check messages first: the decoder allocates as much as a length field claims, and may panic.
    let checked = bounded.and_then(|message| {
        let checked = check_ipc_message(&message.data_header, &message.data_body);
        let checked = checked.map_err(|error| FlightError::from(invalid(format!("parameters: {error}"))));
        future::ready(checked.map(|()| message))
    });
    let batches = FlightRecordBatchStream::new_from_flight_data(checked).try_collect();
    let batches: Result<Vec<RecordBatch>, FlightError> = AssertUnwindSafe(batches)
        .catch_unwind()
        .await
        .map_err(|_| invalid("parameters: not a stream of rows"))?;
    let batches = batches.map_err(|error| match error {
        FlightError::Tonic(status) => *status,
        other => invalid(format!("parameters: {other}")),
    })?;

    let Some(first) = batches.first() else { return Ok(None) };
    let rows =
        concat_batches(&first.schema(), &batches).map_err(|error| invalid(format!("parameters: {error}")))?;
    Ok((rows.num_rows() > 0).then_some(rows))
}

/// Encodes rows as an IPC stream.
pub(super) fn written(rows: &RecordBatch) -> Result<Vec<u8>, Status> {
    let mut bytes = Vec::new();
    let mut write = || {
        let mut writer = StreamWriter::try_new(&mut bytes, &rows.schema())?;
        writer.write(rows)?;
        writer.finish()
    };
    write().map_err(|error| status(Code::InvalidArgument, format!("parameters: {error}")))?;
    Ok(bytes)
}

/// Decodes rows that [`written`] encoded.
pub(super) fn read(bytes: &[u8]) -> Result<RecordBatch, Status> {
    let unreadable = || invalid("parameters: not readable: bind them again");
    let mut batches = StreamReader::try_new(Cursor::new(bytes), None).map_err(|_| unreadable())?;
    batches.next().ok_or_else(unreadable)?.map_err(|_| unreadable())
}
