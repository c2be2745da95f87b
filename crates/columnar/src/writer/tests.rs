//! Files of each format have the bytes of their encoder, and a writer that lost rows makes no file.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::SchemaRef,
};
use async_trait::async_trait;
use object_store::{ObjectStoreExt, memory::InMemory};
use stylobate_storage::{ByteSize, Error as StorageError, Overwrite, Sealed, Sink, SinkOptions, Sinks};

use super::*;
use crate::{CsvEncoder, Error, Result, Written};

const BY_ROWS: [WriteFormat; 4] =
    [WriteFormat::Csv, WriteFormat::Json, WriteFormat::ArrowFile, WriteFormat::ArrowStream];

fn batch(from: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(from), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a|b"), Some("")]));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("text", texts, true)]).unwrap()
}

/// Opens a writer of an object `x`.
fn writer(store: &Arc<InMemory>, options: FileOptions) -> TableWriter {
    let sinks = Sinks::new(SinkOptions::default());
    let sink = sinks.object(store.clone(), "x".into(), Overwrite::Replace);
    TableWriter::new(sink, "x", batch(0).schema(), options).unwrap()
}

async fn bytes(store: &Arc<InMemory>) -> Vec<u8> {
    store.get(&"x".into()).await.unwrap().bytes().await.unwrap().to_vec()
}

fn encoded(options: &FileOptions, schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut encoder = RowEncoder::new(options, schema, Vec::new()).unwrap();
    batches.iter().for_each(|batch| encoder.write(batch).unwrap());
    encoder.finish().unwrap();
    encoder.out().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_the_bytes_of_its_encoder() {
    for format in BY_ROWS {
        for batches in [vec![], vec![batch(1), batch(2)]] {
            let store = Arc::new(InMemory::new());
            let mut writer = writer(&store, format.into());
            for batch in &batches {
                writer.write(batch).await.unwrap();
            }

            let rows = 2 * batches.len() as u64;
            assert_eq!(writer.rows(), rows);
            let written = writer.finish().await.unwrap();
            let found = bytes(&store).await;
            assert_eq!(written, Written { rows, bytes: found.len() as u64, row_groups: 0 }, "{format}");
            assert_eq!(found, encoded(&format.into(), &batch(0).schema(), &batches), "{format}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columnar_files_are_those_of_their_own_writers() {
    for (format, magic) in [(WriteFormat::Parquet, &b"PAR1"[..]), (WriteFormat::Orc, &b"ORC"[..])] {
        let store = Arc::new(InMemory::new());
        let options = FileOptions::from(format).with_memory(ByteSize::mib(1)).with_threads(1);
        let mut writer = writer(&store, options);
        writer.write(&batch(1)).await.unwrap();
        let written = writer.finish().await.unwrap();
        assert_eq!((written.rows, written.row_groups), (2, 1));
        assert!(bytes(&store).await.starts_with(magic));
        assert!(RowEncoder::new(&format.into(), &batch(0).schema(), Vec::new()).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_other_threads_encoded_follow_the_header() {
    let store = Arc::new(InMemory::new());
    let mut piped = writer(&store, FileOptions::Csv { delimiter: b'|' });
    let mut encoder = CsvEncoder::without_header(Vec::new(), b'|');
    encoder.write(&batch(1)).unwrap();
    piped.write_encoded(&encoder.into_inner(), 2).await.unwrap();
    piped.write(&batch(2)).await.unwrap();
    assert_eq!(piped.finish().await.unwrap().rows, 4);
    let text = String::from_utf8(bytes(&store).await).unwrap();
    assert_eq!(text, "n|text\n1|\"a|b\"\n|\"\"\n2|\"a|b\"\n|\"\"\n");

    for format in [WriteFormat::Parquet, WriteFormat::Orc, WriteFormat::ArrowFile, WriteFormat::ArrowStream] {
        let mut other = writer(&store, format.into());
        let error = other.write_encoded(b"x", 1).await.unwrap_err();
        assert!(matches!(error, Error::Unwritable { .. }), "{format}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_is_taken_back_has_all_bytes_and_no_name() {
    for format in BY_ROWS {
        let store = Arc::new(InMemory::new());
        let mut writer = writer(&store, format.into());
        writer.write(&batch(1)).await.unwrap();
        let (written, sink) = writer.into_sink().await.unwrap();
        assert_eq!(written.bytes, sink.position());
        assert!(store.head(&"x".into()).await.is_err());
        sink.finish().await.unwrap();
        assert_eq!(bytes(&store).await.len() as u64, written.bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_other_columns_changes_nothing() {
    for format in BY_ROWS {
        let store = Arc::new(InMemory::new());
        let mut writer = writer(&store, format.into());
        let error = writer.write(&batch(1).project(&[1, 0]).unwrap()).await.unwrap_err();
        assert!(error.to_string().starts_with("x: column n"), "{error}");
        writer.write(&batch(1)).await.unwrap();
        assert_eq!(writer.finish().await.unwrap().rows, 2);
    }
}

/// A sink that takes no bytes.
struct FullSink;

#[async_trait]
impl Sink for FullSink {
    async fn write(&mut self, _: &[u8]) -> stylobate_storage::Result<()> {
        Err(StorageError::NotFound { path: "full".to_owned() })
    }

    fn position(&self) -> u64 {
        0
    }

    fn memory(&self) -> usize {
        0
    }

    async fn seal(self: Box<Self>) -> stylobate_storage::Result<Sealed> {
        Err(StorageError::NotFound { path: "full".to_owned() })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_write_there_is_no_file() {
    for format in BY_ROWS {
        let mut writer = TableWriter::new(Box::new(FullSink), "x", batch(0).schema(), format.into()).unwrap();
        assert!(matches!(writer.write(&batch(1)).await, Err(Error::Storage(_))), "{format}");
        let error: Result<Written> = writer.finish().await;
        assert!(error.unwrap_err().to_string().contains("given up"), "{format}");
    }
}

#[test]
fn codecs_are_those_of_the_format() {
    let with = |format: WriteFormat, codec: &str| FileOptions::from(format).with_compression(codec);
    assert!(with(WriteFormat::Parquet, "brotli(4)").is_ok() && with(WriteFormat::Orc, "zlib(6)").is_ok());
    let unknown = with(WriteFormat::Parquet, "zlib(6)").unwrap_err().to_string();
    assert!(unknown.starts_with("there is no compression \"zlib(6)\""), "{unknown}");
    for format in BY_ROWS {
        assert!(with(format, "zstd(3)").is_err(), "{format}");
    }
}
