//! Sorted rows in an unnamed file on disk, which never outlives the process.

use std::{
    error::Error as StdError,
    fs::File,
    io::{BufReader, BufWriter, Seek, Write},
    path::Path,
};

use arrow::{
    array::RecordBatch,
    datatypes::Schema,
    error::ArrowError,
    ipc::{reader::StreamReader, writer::StreamWriter},
};

use crate::{Error, Result};

/// Bytes written and read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Batches of sorted rows, none of them empty.
#[derive(Debug)]
pub(super) struct SortRun {
    file: File,
    /// Number of rows.
    pub(super) rows: u64,
}

/// Reader of the batches of a run.
pub(super) type SortRunReader = StreamReader<BufReader<File>>;

impl SortRun {
    /// Writes batches of `of`, such as `edges`, to a file in this folder.
    pub(super) fn write(
        of: &str,
        folder: &Path,
        schema: &Schema,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Self> {
        let failed = |error: ArrowError| unsorted(of, folder, &error);
        let file = tempfile::tempfile_in(folder).map_err(|error| unsorted(of, folder, &error))?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);

        let mut writer = StreamWriter::try_new(out, schema).map_err(failed)?;
        let mut rows = 0;
        for batch in batches {
            let batch = batch?;
            if batch.num_rows() > 0 {
                writer.write(&batch).map_err(failed)?;
                rows += batch.num_rows() as u64;
            }
        }

        let mut out = writer.into_inner().map_err(failed)?;
        out.flush().map_err(|error| unsorted(of, folder, &error))?;
        let mut file = out.into_inner().map_err(|error| unsorted(of, folder, error.error()))?;
        file.rewind().map_err(|error| unsorted(of, folder, &error))?;
        Ok(Self { file, rows })
    }

    /// Opens the run for reading.
    pub(super) fn read(self, of: &str) -> Result<SortRunReader> {
        let input = BufReader::with_capacity(BUFFER_BYTES, self.file);
        StreamReader::try_new(input, None).map_err(|error| unread(of, error))
    }
}

/// Returns the error of reading a run.
pub(super) fn unread(of: &str, error: impl std::fmt::Display) -> Error {
    let reason = format!("what was sorted on disk cannot be read again: {error}");
    Error::Unwritable { of: of.to_owned(), reason }
}

fn unsorted(of: &str, folder: &Path, error: &dyn StdError) -> Error {
    let reason = format!("{of} that do not fit into memory cannot be sorted there: {error}");
    Error::Unwritable { of: folder.display().to_string(), reason }
}
