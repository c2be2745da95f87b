//! Tests of data sets: split by size and by values, in little memory, published together or not at all.

use std::{path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, DictionaryArray, Int64Array, RecordBatch, StringArray, UInt8Array},
    compute::concat_batches,
    datatypes::Int64Type,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use stylobate_storage::{ByteSize, Destination, SinkOptions, Sinks};

use super::*;
use crate::{
    Error, FileOptions, Result, WriteFormat,
    orc::OrcOptions,
    parquet::{ColumnOptions, ParquetOptions},
};

async fn new(
    folder: &Path,
    batch: &RecordBatch,
    files: impl Into<FileOptions>,
    dataset: &DatasetOptions,
) -> Result<DatasetWriter> {
    let sinks = Sinks::new(SinkOptions::default());
    let base = Destination::File(folder.to_owned());
    DatasetWriter::create(sinks, base, "out".to_owned(), batch.schema(), files.into(), dataset).await
}

async fn write(
    folder: &Path,
    batch: &RecordBatch,
    files: impl Into<FileOptions>,
    dataset: &DatasetOptions,
) -> Result<Vec<String>> {
    let mut writer = new(folder, batch, files, dataset).await?;
    writer.write(batch).await?;
    Ok(writer.finish().await?.files)
}

fn rows_of(folder: &Path, file: &str) -> RecordBatch {
    let file = std::fs::File::open(folder.join(file)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(|batch| batch.unwrap()).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path();
                names.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    names.sort();
    names
}

fn of(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

/// Creates a batch of keys and numbers.
fn keyed(keys: &[&str]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
    let keys: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
    RecordBatch::try_from_iter([("k", keys), ("n", numbers)]).unwrap()
}

fn by_key(mode: DatasetMode) -> DatasetOptions {
    DatasetOptions::default().with_partition_by(["k"]).with_mode(mode)
}

/// Writes files of other writers and invalid files, under names that a write gives and other names.
fn put_foreign(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let foreign = ["k=a/part-00000.parquet", "k=a/part-00000.orc", "part-00007.parquet", "k=z/notes.txt"];
    let put = foreign.map(|name| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, name).unwrap();
        (name.to_owned(), name.as_bytes().to_vec())
    });
    put.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_to_the_folders_of_their_values_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..5).map(|at| format!("value {at}"))));
    let codes = (0..10_000_u32).map(|row| (row % 10 != 0).then_some((row * 7 % 5) as u8));
    let keys = DictionaryArray::new(UInt8Array::from_iter(codes), values);
    let columns: [(&str, ArrayRef); 2] =
        [("k", Arc::new(keys)), ("n", Arc::new(Int64Array::from_iter_values(0..10_000)))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let batch = batch.unwrap();
    let by = DatasetOptions::default().with_partition_by(["k"]);
    // The memory suffices for one open file at a time.
    let options =
        ParquetOptions::default().with_memory(ByteSize::mib(1)).with_column("k", ColumnOptions::default());

    let mut dataset = new(folder.path(), &batch, options, &by).await.unwrap();
    for part in 0..3 {
        dataset.write(&batch.slice(part * 3_000, 3_000)).await.unwrap();
        let visible = std::fs::read_dir(folder.path()).unwrap();
        assert_eq!(visible.count(), 1, "the staged files and nothing else");
    }
    dataset.write(&batch.slice(9_000, 1_000)).await.unwrap();
    let written = dataset.finish().await.unwrap();
    assert_eq!(written.written.rows, 10_000);
    let count = written.files.len();
    assert!((20..=24).contains(&count), "each is ended by the next, in each of four batches: {count}");

    let mut rows = 0;
    for file in &written.files {
        let found = rows_of(folder.path(), file);
        assert_eq!(found.num_columns(), 1);
        let numbers = found.column(0).as_primitive::<Int64Type>();
        assert!(numbers.values().is_sorted());
        rows += found.num_rows();
    }

    assert_eq!(rows, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_fails_or_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let batch = of("n", Arc::new(Int64Array::from_iter_values(0..100_000)));
    let small = DatasetOptions::default().with_max_file_size(ByteSize::kib(64));
    let mut dataset = new(&path, &batch, ParquetOptions::default(), &small).await.unwrap();
    dataset.write(&batch).await.unwrap();
    drop(dataset);
    assert!(!path.exists());
    let mut dataset = new(&path, &batch, ParquetOptions::default(), &small).await.unwrap();
    dataset.write(&batch).await.unwrap();
    assert!(dataset.write(&of("n", Arc::new(StringArray::from(vec!["a"])))).await.is_err());
    assert!(dataset.finish().await.unwrap_err().to_string().contains("given up"));
    assert!(!path.exists());
    let mut dataset = new(&path, &batch, ParquetOptions::default(), &small).await.unwrap();
    dataset.write(&batch).await.unwrap();
    let written = dataset.finish().await.unwrap();
    let numbers: Vec<i64> = written
        .files
        .iter()
        .flat_map(|file| rows_of(&path, file).column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert!(written.files.len() > 3 && numbers.into_iter().eq(0..100_000), "{:?}", written.files);
    let late = new(&path, &batch, ParquetOptions::default(), &small).await.unwrap_err();
    assert!(matches!(late, Error::Storage(stylobate_storage::Error::Exists { .. })), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_writers_survive_every_mode() {
    for is_orc in [false, true] {
        let files = || -> FileOptions {
            if is_orc { OrcOptions::default().into() } else { ParquetOptions::default().into() }
        };
        let folder = tempfile::tempdir().unwrap();
        let foreign = put_foreign(folder.path());
        let refused = write(folder.path(), &keyed(&["a"]), files(), &by_key(DatasetMode::Error)).await;
        assert!(matches!(refused.unwrap_err(), Error::Storage(stylobate_storage::Error::Exists { .. })));

        for mode in [DatasetMode::Append, DatasetMode::Overwrite, DatasetMode::OverwritePartitions] {
            for _ in 0..2 {
                let written =
                    write(folder.path(), &keyed(&["a", "b"]), files(), &by_key(mode)).await.unwrap();
                assert_eq!(written.len(), 2);
            }
            for (name, bytes) in &foreign {
                assert_eq!(&std::fs::read(folder.path().join(name)).unwrap(), bytes, "{name}, {mode}");
            }
        }

        assert_eq!(names(folder.path()).len(), foreign.len() + 2, "only the last write's files are left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_keep_or_replace_the_files_of_earlier_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let parquet = ParquetOptions::default;
    let first = write(&path, &keyed(&["a", "b"]), parquet(), &by_key(DatasetMode::Error)).await.unwrap();
    assert_eq!(first, ["k=a/part-00000.parquet", "k=b/part-00000.parquet"]);
    let second = write(&path, &keyed(&["b", "c"]), parquet(), &by_key(DatasetMode::Append)).await.unwrap();
    assert_eq!(names(&path).len(), 4);
    assert!(second.iter().all(|name| name.len() == "k=b/part-00000-0123456789abcdef.parquet".len()));

    // ORC files are read by this library.
    let orc = OrcOptions::default();
    let mode = by_key(DatasetMode::OverwritePartitions);
    let third = write(&path, &keyed(&["b"]), orc, &mode).await.unwrap();
    let mut expected = vec![first[0].clone(), second[1].clone(), third[0].clone()];
    expected.sort();
    assert_eq!(names(&path), expected);

    let fourth = write(&path, &keyed(&["d"]), parquet(), &by_key(DatasetMode::Overwrite)).await.unwrap();
    assert_eq!(names(&path), fourth);
    let none = keyed(&["d"]).slice(0, 0);
    assert!(write(&path, &none, parquet(), &by_key(DatasetMode::Overwrite)).await.unwrap().is_empty());
    assert!(names(&path).is_empty());

    let all = DatasetOptions::default().with_mode(DatasetMode::OverwritePartitions);
    let unclear = new(&path, &keyed(&["d"]), parquet(), &all).await.unwrap_err();
    assert!(matches!(unclear, Error::Option { .. }), "{unclear}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_single_write_is_no_part_of_a_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let batch = keyed(&["a"]);
    let sinks = Sinks::new(SinkOptions::default());
    let name = folder.path().join("k=a/part-00000.parquet");
    let schema = Arc::new(
        batch.schema().as_ref().clone().with_metadata(
            [(
                crate::file::dataset_mark::DATASET_KEY.to_owned(),
                crate::file::dataset_mark::DATASET_VALUE.to_owned(),
            )]
            .into(),
        ),
    );

    let sink = sinks.file(&name, stylobate_storage::Overwrite::Refuse).await.unwrap();
    // The schema of rows from a data set carries its mark.
    let mut single =
        crate::parquet::ParquetWriter::new(sink, "x", schema, ParquetOptions::default()).unwrap();
    single.write(&batch).await.unwrap();
    single.finish().await.unwrap();
    let files = ParquetOptions::default();
    let written = write(folder.path(), &batch, files, &by_key(DatasetMode::Overwrite)).await.unwrap();
    assert_eq!(names(folder.path()).len(), 2, "{written:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_at_the_same_time_do_not_collide() {
    let folder = tempfile::tempdir().unwrap();
    let batch = keyed(&["a", "b"]);
    let mode = by_key(DatasetMode::Append);

    let mut writers = Vec::new();
    for _ in 0..4 {
        let mut writer = new(folder.path(), &batch, ParquetOptions::default(), &mode).await.unwrap();
        writer.write(&batch).await.unwrap();
        writers.push(writer.finish());
    }
    for written in futures::future::join_all(writers).await {
        assert_eq!(written.unwrap().files.len(), 2);
    }
    assert_eq!(names(folder.path()).len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_in_every_mode() {
    let store = Arc::new(object_store::memory::InMemory::new());
    let origin = stylobate_storage::Origin::new("memory", store.clone());
    let base = Destination::Object { origin, path: "lake/t".into() };
    object_store::ObjectStoreExt::put(&*store, &"lake/t/k=a/part-00000.parquet".into(), "foreign".into())
        .await
        .unwrap();
    let count = async || {
        let listed = object_store::ObjectStore::list(&*store, None);
        futures::TryStreamExt::try_collect::<Vec<_>>(listed).await.unwrap().len()
    };
    let batch = keyed(&["a", "b"]);

    let mut found = Vec::new();
    for mode in [DatasetMode::Append, DatasetMode::OverwritePartitions, DatasetMode::Overwrite] {
        let mut writer = DatasetWriter::create(
            Sinks::new(SinkOptions::default()),
            base.clone(),
            "t".to_owned(),
            batch.schema(),
            ParquetOptions::default().into(),
            &by_key(mode),
        )
        .await
        .unwrap();

        writer.write(&batch).await.unwrap();
        writer.finish().await.unwrap();
        found.push(count().await);
    }

    assert_eq!(found, [3, 3, 3]);
}

#[tokio::test]
async fn formats_without_a_mark_of_their_writer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");

    for format in [WriteFormat::Csv, WriteFormat::Json, WriteFormat::ArrowFile, WriteFormat::ArrowStream] {
        let refused = new(&path, &keyed(&["a"]), format, &DatasetOptions::default()).await.unwrap_err();
        assert!(refused.to_string().ends_with(&format!("not {format}")), "{refused}");
    }
    assert!(!path.exists());
}
