//! A Parquet file of one column, and scans of it.

use std::{fs::File, path::PathBuf, sync::Arc};

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use divan::{Bencher, counter::ItemsCount};
use futures::TryStreamExt;
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use stylobate_columnar::{Cache, Dictionaries, ScanRequest};
use tempfile::TempDir;

use crate::{RUNTIME, cache, long_ago};

/// File with one row group of strings, in a folder that is removed with it.
pub(crate) struct ParquetSample {
    pub(crate) path: PathBuf,
    rows: usize,
    cache: Cache,
    _folder: TempDir,
}

impl ParquetSample {
    pub(crate) fn new(strings: StringArray, properties: WriterProperties) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.parquet");
        let rows = strings.len();
        let batch = RecordBatch::try_from_iter([("text", Arc::new(strings) as ArrayRef)]).unwrap();

        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(&file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file.set_modified(long_ago()).unwrap();

        Self { path, rows, cache: cache(), _folder: folder }
    }

    /// Measures scans of the whole file. Each scan decodes it again.
    pub(crate) fn bench_scans(&self, bencher: Bencher, dictionaries: &Dictionaries) {
        let scan = || RUNTIME.block_on(self.scan(dictionaries.clone()));
        assert_eq!(scan(), self.rows);

        let bencher = bencher.counter(ItemsCount::new(self.rows)).with_inputs(|| self.cache.clear());
        bencher.bench_local_values(|()| scan());
    }

    /// Scans the file, and returns the number of rows.
    async fn scan(&self, dictionaries: Dictionaries) -> usize {
        let request = ScanRequest::new(self.path.to_str().unwrap()).with_dictionary(dictionaries);
        let batches = request.with_threads(1).plan(&self.cache).await.unwrap().stream();
        let rows = batches.map_ok(|batch| batch.num_rows());
        rows.try_fold(0, |sum, rows| async move { Ok(sum + rows) }).await.unwrap()
    }
}
