//! Sample of a social network, written by other programs in ORC and in Parquet: both have the same rows.

use std::path::{Path, PathBuf};

use arrow::{array::RecordBatch, compute::concat_batches};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{cast, read_all};
use crate::orc::tail::is_orc_tail;

/// Returns the folder beside the repository; `None` if absent, which is an error only in CI.
fn sample() -> Option<PathBuf> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphar/ldbc_sample");
    if sample.is_dir() {
        return Some(sample);
    }
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!must, "{} is missing", sample.display());
    eprintln!("{} is missing: nothing tested", sample.display());
    None
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn each_file_of_the_sample_is_what_its_twin_in_parquet_is() {
    let Some(sample) = sample() else { return };
    let mut found = Vec::new();
    files(&sample.join("orc"), &mut found);
    let mut files = 0;
    let mut rows = 0;

    for path in found {
        let file = Bytes::from(std::fs::read(&path).unwrap());
        if !is_orc_tail(&file) {
            continue;
        }

        let read = read_all(&file, 100).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let twin = sample.join("parquet").join(path.strip_prefix(sample.join("orc")).unwrap());
        if let Ok(twin) = std::fs::File::open(&twin) {
            let reader = ParquetRecordBatchReaderBuilder::try_new(twin).unwrap();
            let schema = reader.schema().clone();
            let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
            let expected = concat_batches(&schema, &batches).unwrap();
            assert_eq!(read, cast(&expected, &read.schema()), "{}", path.display());
            files += 1;
            rows += read.num_rows();
        }
    }

    assert!(files > 50 && rows > 10_000, "{files} files with {rows} rows");
}
