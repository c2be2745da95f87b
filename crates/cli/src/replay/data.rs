//! Generates the data of a trace: Parquet files of random numbers, which no encoding compresses.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use indicatif::ProgressBar;
use parquet::{
    arrow::ArrowWriter,
    basic::Compression,
    file::properties::{EnabledStatistics, WriterProperties},
};

use super::random::ReplayRng;

const COLUMNS: usize = 20;
/// Rows per row group, which are held in memory: about 10 MB of encoded data.
const ROW_GROUP_ROWS: usize = 65_536;
const BATCH_ROWS: u64 = 8_192;

/// The two sizes of the Parpulse benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceFileSize {
    /// About 1 MB.
    Small,
    /// About 100 MB.
    Large,
}

impl TraceFileSize {
    /// Returns the number of rows of [`COLUMNS`] doubles.
    pub(super) fn rows(self) -> u64 {
        match self {
            Self::Small => 5_500,
            Self::Large => 550_000,
        }
    }

    /// Returns the prefix of the file names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// Writes a Parquet file of `rows` rows under a temporary name, renames it, and returns its size in bytes.
pub(super) fn write_file(file: &Path, rows: u64, random: ReplayRng, progress: &ProgressBar) -> Result<u64> {
    let temporary = temporary(file);
    let written = write_rows(&temporary, rows, random, progress).and_then(|bytes| {
        fs::rename(&temporary, file)?;
        Ok(bytes)
    });

    if written.is_err() {
        // A failure to remove the file is ignored in favour of the first error.
        let _ = fs::remove_file(&temporary);
    }

    written.with_context(|| file.display().to_string())
}

/// Writes a small file under a temporary name, then renames it.
pub(super) fn replace(file: &Path, content: &[u8]) -> Result<()> {
    let temporary = temporary(file);
    let written = File::create(&temporary).and_then(|mut file| file.write_all(content));
    written.and_then(|()| fs::rename(&temporary, file)).with_context(|| file.display().to_string())
}

fn temporary(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    file.with_file_name(name)
}

fn write_rows(file: &Path, rows: u64, mut random: ReplayRng, progress: &ProgressBar) -> Result<u64> {
    let field = |index| Field::new(format!("c{index:02}"), DataType::Float64, false);
    let schema = Arc::new(Schema::new((0..COLUMNS).map(field).collect::<Vec<_>>()));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();

    let mut writer = ArrowWriter::try_new(File::create(file)?, schema.clone(), Some(properties))?;
    let mut left = rows;
    while left > 0 {
        let batch_rows = left.min(BATCH_ROWS);
        let mut column = || -> ArrayRef {
            Arc::new(Float64Array::from_iter_values((0..batch_rows).map(|_| random.unit())))
        };
        let columns = (0..COLUMNS).map(|_| column()).collect();
        writer.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
        left -= batch_rows;
        progress.inc(batch_rows);
    }

    writer.close()?;
    Ok(fs::metadata(file)?.len())
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn write(file: &Path, rows: u64, seed: u64) -> u64 {
        write_file(file, rows, ReplayRng::new(seed), &ProgressBar::hidden()).unwrap()
    }

    #[test]
    fn a_small_file_has_20_columns_and_about_1_mb() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("small.parquet");
        let bytes = write(&file, TraceFileSize::Small.rows(), 7);
        assert!((850_000..1_050_000).contains(&bytes), "{bytes}");
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap();
        assert_eq!(reader.schema().fields().len(), 20);
        assert_eq!(reader.metadata().file_metadata().num_rows(), 5_500);
    }

    #[test]
    fn a_file_is_written_row_group_by_row_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large.parquet");
        write(&file, 150_000, 7);
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap();
        let groups: Vec<_> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(groups, [65_536, 65_536, 18_928]);
    }

    #[test]
    fn equal_seeds_write_equal_files_and_leave_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b", "c"].map(|name| folder.path().join(name));

        for (file, seed) in files.iter().zip([1, 1, 2]) {
            write(file, 100, seed);
        }

        let [a, b, c] = files.map(|file| fs::read(file).unwrap());
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
