//! Encodes record batches as Arrow IPC messages, one at a time as the client consumes them.
//!
//! A dictionary is sent at its first use, and again only when it changes: the tracker compares by pointer, then by
//! value. Large batches are sent in pieces, so that messages stay below the default limit of clients (4 MiB).

use std::{collections::VecDeque, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, FixedSizeListArray, RecordBatch},
    datatypes::{DataType, Schema},
    error::ArrowError,
    ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions},
};
use arrow_flight::FlightData;

/// Target bytes of a message, which may be exceeded by a single row.
const TARGET: usize = 2 << 20;
/// Maximum bytes of a message. A piece that exceeds it, because some of its rows are much larger, is split again.
const MAX_MESSAGE_BYTES: usize = (4 << 20) - (64 << 10);

/// Returns the options for writing schemas and batches.
pub(super) fn ipc_options() -> IpcWriteOptions {
    IpcWriteOptions::default()
}

/// A message and its number of rows.
pub(super) struct FlightMessage {
    pub(super) data: FlightData,
    pub(super) rows: u64,
}

/// Encodes the messages of one stream.
pub(super) struct FlightStreamEncoder {
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    context: IpcWriteContext,
    options: IpcWriteOptions,
    /// Encoded messages that are not consumed yet.
    messages: VecDeque<FlightMessage>,
    /// Pieces that are not encoded yet.
    pieces: VecDeque<RecordBatch>,
}

impl FlightStreamEncoder {
    /// Creates a stream that begins with the schema.
    pub(super) fn new(schema: &Schema) -> Self {
        let generator = IpcDataGenerator::default();
        let options = ipc_options();
        let mut dictionaries = DictionaryTracker::new(false);
        let schema = generator.schema_to_bytes_with_dictionary_tracker(schema, &mut dictionaries, &options);
        Self {
            generator,
            dictionaries,
            context: IpcWriteContext::default(),
            options,
            messages: [FlightMessage { data: schema.into(), rows: 0 }].into(),
            pieces: VecDeque::new(),
        }
    }

    /// Adds a batch of the stream's schema.
    pub(super) fn push(&mut self, batch: RecordBatch) {
        split(batch, TARGET, &mut self.pieces);
    }

    /// Returns the next message; `None` until another batch is pushed.
    pub(super) fn next(&mut self) -> Result<Option<FlightMessage>, ArrowError> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(Some(message));
        }
        let Some(piece) = self.pieces.pop_front() else { return Ok(None) };
        let piece = compacted(piece)?;
        let (dictionaries, batch) =
            self.generator.encode(&piece, &mut self.dictionaries, &self.options, &mut self.context)?;
        let dictionaries = dictionaries.into_iter().map(|data| FlightMessage { data: data.into(), rows: 0 });
        self.messages.extend(dictionaries);
        self.messages.push_back(FlightMessage { data: batch.into(), rows: piece.num_rows() as u64 });

        Ok(self.messages.pop_front())
    }
}

/// Splits a batch into pieces of about `target` bytes, at least one row each.
fn split(batch: RecordBatch, target: usize, pieces: &mut VecDeque<RecordBatch>) {
    let rows = batch.num_rows();
    let bytes: usize = batch.columns().iter().map(|column| bytes(column.as_ref())).sum();
    let parts = bytes.div_ceil(target).min(rows);
    if parts <= 1 {
        pieces.push_back(batch);
        return;
    }

    let step = rows.div_ceil(parts);
    for start in (0..rows).step_by(step) {
        split(batch.slice(start, step.min(rows - start)), MAX_MESSAGE_BYTES, pieces);
    }
}

/// Returns the encoded bytes of an array without its dictionary values. Counts only the rows of the array itself, not
/// the rest of the buffers that it is a slice of.
fn bytes(array: &dyn Array) -> usize {
    let nulls = array.nulls().map_or(0, |_| array.len().div_ceil(8));
    let own = match array.data_type() {
        DataType::Dictionary(codes, _) => array.len() * codes.primitive_width().unwrap_or(0),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| bytes(column.as_ref())).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (first, last) = ends(list.value_offsets());
            (array.len() + 1) * 4
                + bytes(list.values().slice(first as usize, (last - first) as usize).as_ref())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (first, last) = ends(list.value_offsets());
            (array.len() + 1) * 8
                + bytes(list.values().slice(first as usize, (last - first) as usize).as_ref())
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let (first, last) = ends(map.value_offsets());
            (array.len() + 1) * 4 + bytes(&map.entries().slice(first as usize, (last - first) as usize))
        }
        DataType::FixedSizeList(_, _) => array
            .as_any()
            .downcast_ref::<FixedSizeListArray>()
            .map_or(0, |list| bytes(list.values().as_ref())),
        DataType::Utf8View => array.len() * 16 + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.len() * 16 + array.as_binary_view().total_buffer_bytes_used(),
        _ => {
            let data = array.to_data();
            return data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
        }
    };

    own + nulls
}

fn ends<T: Copy + Default>(offsets: &[T]) -> (T, T) {
    (offsets.first().copied().unwrap_or_default(), offsets.last().copied().unwrap_or_default())
}

/// Compacts the view buffers of a batch: the encoder would write every buffer of a view array in full.
fn compacted(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let has_views =
        |column: &dyn Array| matches!(column.data_type(), DataType::Utf8View | DataType::BinaryView);
    if !batch.columns().iter().any(|column| has_views(column.as_ref())) {
        return Ok(batch);
    }
    let (schema, columns, _) = batch.into_parts();
    let columns = columns.into_iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => column,
        }
    });

    RecordBatch::try_new(schema, columns.collect())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            DictionaryArray, Int64Array, LargeListArray, ListArray, StringArray, StringViewArray, UInt16Array,
        },
        datatypes::{Field, Int64Type, UInt16Type},
        ipc::MessageHeader,
    };
    use arrow_flight::decode::FlightRecordBatchStream;
    use futures::{TryStreamExt, executor::block_on, stream};

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn dictionary(codes: Vec<u16>, values: &ArrayRef) -> ArrayRef {
        let codes = UInt16Array::from(codes);
        Arc::new(DictionaryArray::<UInt16Type>::new(codes, values.clone()))
    }

    /// Encodes a stream of these batches.
    fn encode(schema: &Schema, batches: impl IntoIterator<Item = RecordBatch>) -> Vec<FlightMessage> {
        let mut encoder = FlightStreamEncoder::new(schema);
        let mut messages = Vec::new();
        let mut take = |encoder: &mut FlightStreamEncoder| {
            while let Some(message) = encoder.next().unwrap() {
                messages.push(message);
            }
        };

        for batch in batches {
            take(&mut encoder);
            encoder.push(batch);
        }
        take(&mut encoder);
        messages
    }

    fn kinds(messages: &[FlightMessage]) -> Vec<MessageHeader> {
        let kind = |message: &FlightMessage| {
            arrow::ipc::root_as_message(&message.data.data_header).unwrap().header_type()
        };
        messages.iter().map(kind).collect()
    }

    fn decode(messages: Vec<FlightMessage>) -> RecordBatch {
        let data = stream::iter(messages.into_iter().map(|message| Ok(message.data)));
        let batches = FlightRecordBatchStream::new_from_flight_data(data).try_collect::<Vec<_>>();
        let batches = block_on(batches).unwrap();
        arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
    }

    #[test]
    fn a_dictionary_is_sent_once_while_it_stays_the_same() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["air", "mail"]));
        let equal: ArrayRef = Arc::new(StringArray::from(vec!["air", "mail"]));
        let other: ArrayRef = Arc::new(StringArray::from(vec!["rail", "mail"]));
        let batches = [&values, &values, &equal, &other, &other]
            .map(|values| batch(vec![("mode", dictionary(vec![0, 1, 1], values))]));
        let messages = encode(&batches[0].schema(), batches);
        let schema = MessageHeader::Schema;
        let dictionary = MessageHeader::DictionaryBatch;
        let rows = MessageHeader::RecordBatch;
        assert_eq!(kinds(&messages), [schema, dictionary, rows, rows, rows, dictionary, rows, rows]);
        assert_eq!(messages.iter().map(|message| message.rows).sum::<u64>(), 15);
    }

    #[test]
    fn pieces_of_one_batch_share_its_dictionary() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(5 << 20), "y".into()]));
        let whole = batch(vec![
            ("n", Arc::new(Int64Array::from_iter_values(0..1_000_000))),
            ("mode", dictionary((0..1_000_000u32).map(|n| (n % 2) as u16).collect(), &values)),
        ]);
        let messages = encode(&whole.schema(), [whole.clone()]);
        let kinds = kinds(&messages);
        assert_eq!(kinds.iter().filter(|kind| **kind == MessageHeader::DictionaryBatch).count(), 1);
        assert_eq!(kinds.len(), 2 + 5, "10 MB in pieces of about 2 MiB");
        let arrived = decode(messages);
        assert_eq!(&arrived["n"], &whole["n"]);
        let codes = |batch: &RecordBatch| batch["mode"].as_dictionary::<UInt16Type>().keys().clone();
        assert_eq!(codes(&arrived), codes(&whole));
    }

    #[test]
    fn a_slice_of_much_is_not_cut_for_what_it_is_a_slice_of() {
        let much = Int64Array::from_iter_values(0..4_000_000);
        let texts =
            StringArray::from_iter_values((0..500_000).map(|n| format!("a text of some length, {n}")));
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>((0..100_000).map(|n| Some(vec![Some(n); 20])));
        for array in [Arc::new(much) as ArrayRef, Arc::new(texts), Arc::new(lists)] {
            let slice = batch(vec![("a", array.slice(70_000, 1_000))]);
            let messages = encode(&slice.schema(), [slice.clone()]);
            assert_eq!(messages.len(), 2);
            assert!(messages[1].data.data_body.len() < 300_000);
            assert_eq!(decode(messages), slice);
        }
    }

    #[test]
    fn a_few_large_rows_are_sent_one_by_one() {
        let texts = (0..1_000).map(|n| if n % 100 == 0 { "x".repeat(3 << 20) } else { "y".to_owned() });
        let skewed = batch(vec![("a", Arc::new(StringArray::from_iter_values(texts)))]);
        let messages = encode(&skewed.schema(), [skewed.clone()]);
        let largest = messages.iter().map(|message| message.data.data_body.len()).max().unwrap();
        assert!(largest <= 4 << 20, "{largest}");
        assert_eq!(decode(messages), skewed);
    }

    #[test]
    fn views_take_along_only_what_they_point_to() {
        let texts = (0..50_000).map(|n| format!("a text that is longer than a view itself, {n}"));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let slice = batch(vec![("a", views.slice(10, 10))]);
        let messages = encode(&slice.schema(), [slice.clone()]);
        assert!(messages[1].data.data_body.len() < 2_000);
        assert_eq!(decode(messages), slice);
    }

    #[test]
    fn the_schema_arrives_as_it_is() {
        let lists = LargeListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)])]);
        let field = Field::new("a", lists.data_type().clone(), true)
            .with_metadata([("k".to_owned(), "v".to_owned())].into());
        let schema = Schema::new(vec![field]).with_metadata([("s".to_owned(), "m".to_owned())].into());
        let one = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(lists)]).unwrap();
        assert_eq!(decode(encode(&schema, [one])).schema().as_ref(), &schema);
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(7));
        let rows = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options).unwrap();
        let messages = encode(&Schema::empty(), [rows]);
        assert_eq!(messages.iter().map(|message| message.rows).sum::<u64>(), 7);
    }
}
