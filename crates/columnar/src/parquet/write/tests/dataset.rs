//! Folders of files: by size and by values, in little memory, together or not at all.

use stylobate_storage::{Destination, FileSet};

use super::*;

async fn new(
    folder: &std::path::Path,
    batch: &RecordBatch,
    options: ParquetOptions,
    dataset: &DatasetOptions,
) -> Result<ParquetDataset> {
    let sinks = Sinks::new(SinkOptions::default());
    let set = FileSet::create(sinks, Destination::File(folder.to_owned()), Overwrite::Refuse).await?;
    ParquetDataset::new(set, "out", batch.schema(), options, dataset)
}

fn rows_of(folder: &std::path::Path, file: &str) -> RecordBatch {
    read(&std::fs::read(folder.join(file)).unwrap().into())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_to_the_folders_of_their_values_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let columns: [(&str, ArrayRef); 2] = [
        ("k", dictionary::<UInt8Type>(strings(5), 10_000, 0.1, 1)),
        ("n", Arc::new(Int64Array::from_iter_values(0..10_000))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let batch = batch.unwrap();
    let by = DatasetOptions::default().with_partition_by(["k"]);
    // So little memory that one file is open at a time.
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
    assert!(dataset.write(&of("n", strings(3))).await.is_err());
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
