//! Sorted edges in unnamed files on disk: nothing is left of them, however the process ends.

use std::{
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

use crate::{Error, Result, graphar::write::names::unwritable};

/// Bytes written and read at a time.
const AT_ONCE: usize = 256 << 10;

/// Batches of edges in the order of a list.
#[derive(Debug)]
pub(crate) struct SortRun {
    file: File,
}

/// Reader of the batches of a run.
pub(crate) type SortRunReader = StreamReader<BufReader<File>>;

impl SortRun {
    /// Writes batches to a file in this folder.
    pub(crate) fn write(
        folder: &Path,
        schema: &Schema,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Self> {
        let failed = |error: ArrowError| unsorted(folder, &error);
        let file = tempfile::tempfile_in(folder).map_err(|error| unsorted(folder, &error))?;
        let out = BufWriter::with_capacity(AT_ONCE, file);

        let mut writer = StreamWriter::try_new(out, schema).map_err(failed)?;
        for batch in batches {
            writer.write(&batch?).map_err(failed)?;
        }
        let mut out = writer.into_inner().map_err(failed)?;
        out.flush().map_err(|error| unsorted(folder, &error))?;
        let mut file = out.into_inner().map_err(|error| unsorted(folder, error.error()))?;
        file.rewind().map_err(|error| unsorted(folder, &error))?;

        Ok(Self { file })
    }

    /// Opens the run for reading.
    pub(crate) fn read(self) -> Result<SortRunReader> {
        let input = BufReader::with_capacity(AT_ONCE, self.file);
        StreamReader::try_new(input, None).map_err(unread)
    }
}

/// Returns the error of reading a run.
pub(crate) fn unread(error: ArrowError) -> Error {
    unwritable("edges", format!("what was sorted on disk cannot be read again: {error}"))
}

fn unsorted(folder: &Path, error: &dyn std::error::Error) -> Error {
    let reason = format!("edges that do not fit into memory cannot be sorted there: {error}");
    unwritable(folder.display().to_string(), reason)
}
