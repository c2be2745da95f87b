//! Decodes the messages that follow a schema: dictionaries and batches.

use std::collections::HashMap;

use arrow::{
    array::{ArrayRef, RecordBatch},
    buffer::Buffer,
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
    ipc::{
        self, Message,
        convert::fb_to_schema,
        reader::{read_dictionary, read_record_batch},
    },
};
use stylobate_storage::Corrupt;

use super::check::check_message;
use crate::parallel::guarded::guarded;

/// Decoder of the messages of a file or stream, in their order.
///
/// Bytes are checked before they are decoded, and decoded with arrow's full validation. A panic becomes an error.
pub(super) struct IpcDecoder {
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    /// By id, the dictionaries that later batches refer to.
    dictionaries: HashMap<i64, ArrayRef>,
}

impl IpcDecoder {
    pub(super) fn new(schema: ipc::Schema<'_>) -> Result<Self, Corrupt> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err("it was written in another byte order".into());
        }

        let schema = guarded(|| fb_to_schema(schema))?;
        for field in schema.fields() {
            check_type(field.data_type())?;
        }

        Ok(Self { schema: schema.into(), projection: None, dictionaries: HashMap::new() })
    }

    /// Selects columns by their positions. Default: all.
    pub(super) fn set_projection(&mut self, columns: Vec<usize>) {
        self.projection = Some(columns);
    }

    /// Returns all columns, regardless of the projection.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decodes a message. Returns `None` for a dictionary.
    ///
    /// The offset of an error is within the body.
    pub(super) fn decode(
        &mut self,
        message: &Message<'_>,
        body: &Buffer,
    ) -> Result<Option<RecordBatch>, Corrupt> {
        check_message(message, body)?;
        let decoded = guarded(|| self.decode_checked(message, body))?;
        decoded.map_err(|error| error.to_string().into())
    }

    fn decode_checked(
        &mut self,
        message: &Message<'_>,
        body: &Buffer,
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let version = message.version();
        if let Some(batch) = message.header_as_record_batch() {
            let projection = self.projection.as_deref();
            let schema = self.schema.clone();
            return read_record_batch(body, batch, schema, &self.dictionaries, projection, &version)
                .map(Some);
        }

        if let Some(dictionary) = message.header_as_dictionary_batch() {
            read_dictionary(body, dictionary, &self.schema, &mut self.dictionaries, &version)?;
            return Ok(None);
        }

        let found = message.header_type().variant_name().unwrap_or("an unknown message");
        Err(ArrowError::IpcError(format!("{found} where a batch or dictionary is expected")))
    }
}

/// Fails for types that no writer writes, and on which functions of arrow panic.
fn check_type(data_type: &DataType) -> Result<(), Corrupt> {
    let is_valid = match data_type {
        DataType::FixedSizeBinary(size) | DataType::FixedSizeList(_, size) => *size >= 0,
        DataType::Decimal32(precision, _) => (1..=9).contains(precision),
        DataType::Decimal64(precision, _) => (1..=18).contains(precision),
        DataType::Decimal128(precision, _) => (1..=38).contains(precision),
        DataType::Decimal256(precision, _) => (1..=76).contains(precision),
        // It terminates strings in the C interface.
        DataType::Timestamp(_, Some(zone)) => !zone.contains('\0'),
        DataType::Map(entries, _) => {
            matches!(entries.data_type(), DataType::Struct(fields) if fields.len() == 2)
        }
        DataType::RunEndEncoded(ends, _) => ends.data_type().is_run_ends_type(),
        _ => true,
    };
    if !is_valid {
        return Err(format!("a column has the impossible type {data_type}").into());
    }

    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => check_type(item.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check_type(field.data_type())),
        DataType::Union(fields, _) => fields.iter().try_for_each(|(_, field)| check_type(field.data_type())),
        DataType::Dictionary(_, values) => check_type(values),
        _ => Ok(()),
    }
}
