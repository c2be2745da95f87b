//! Helpers of scan tests: folders of Parquet files, and scans as one batch.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "each test file uses some of it"
)]

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::DataType,
};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use stylobate_columnar::{Cache, Result, ScanRequest};
use stylobate_storage::{ByteSize, CacheOptions};

/// A folder that is removed after the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file with an old modification time: files that have just changed are not cached.
    pub fn parquet(&self, name: &str, batch: &RecordBatch, properties: WriterProperties) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(&file, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        path
    }
}

/// Opens a cache with this many bytes of memory.
pub async fn cache(memory: u64) -> Cache {
    Cache::open(CacheOptions::new(ByteSize::bytes(memory))).await.unwrap()
}

/// Collects all rows as one batch.
pub async fn collect(request: ScanRequest, cache: &Cache) -> Result<RecordBatch> {
    let scan = request.plan(cache).await?;
    let batches = scan.collect().await?;
    assert!(batches.iter().all(|batch| batch.schema() == *scan.schema()));
    let plain = batches.iter().map(expanded).collect::<Vec<_>>();
    let schema = plain.first().map_or_else(|| scan.schema().clone(), RecordBatch::schema);

    // Dictionaries of row groups differ, so their values are concatenated.
    match batches.len() {
        0 => Ok(RecordBatch::new_empty(scan.schema().clone())),
        _ => Ok(concat_batches(&schema, &plain).unwrap()).map(|batch| retyped(batch, &scan)),
    }
}

fn expanded(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Dictionary(_, values) => cast(column, values).unwrap(),
        _ => column.clone(),
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let fields = batch
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect::<Vec<_>>();

    RecordBatch::try_new(std::sync::Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap()
}

fn retyped(batch: RecordBatch, scan: &stylobate_columnar::Scan) -> RecordBatch {
    let columns =
        batch.columns().iter().zip(scan.schema().fields()).map(|(column, field)| match field.data_type() {
            DataType::Dictionary(_, values) => {
                let wide = DataType::Dictionary(Box::new(DataType::UInt32), values.clone());
                cast(column, &wide).unwrap()
            }
            _ => column.clone(),
        });
    let columns: Vec<ArrayRef> = columns.collect();
    let fields = scan
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect::<Vec<_>>();

    RecordBatch::try_new(std::sync::Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap()
}

/// Returns the strings of a column of any representation.
pub fn strings(column: &ArrayRef) -> Vec<Option<String>> {
    let column = cast(column, &DataType::Utf8).unwrap();
    column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}
