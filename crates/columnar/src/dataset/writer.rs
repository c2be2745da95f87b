//! Writer of a data set, which distributes rows over files.
//!
//! Few files are open at a time, in one memory budget. When it is exhausted, the largest row group ends.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_recursion::async_recursion as boxed;
use stylobate_storage::{ByteSize, Destination, FileSet, Overwrite, Sinks, without_credentials};
use tracing::{Instrument, Span, field::Empty};

use super::{
    options::{DatasetMode, DatasetOptions},
    ownership::{folder_of, own_files, part_name, unique_part},
    partition::HivePartitioner,
};
use crate::{Error, FileOptions, Result, TableWriter, Written, file::promised, kernels::weight::weight};

/// Maximum open files; each needs memory besides its encoded columns.
const MAX_OPEN: usize = 64;
/// Approximate minimum memory of a file: with less memory, fewer are open.
const MIN_MEMORY: usize = 4 << 20;
/// At most `1 / SHARE` of the maximum file size is written at a time.
const SHARE: u64 = 8;

/// Writer of record batches to Parquet or ORC files below one folder. They all appear when it is finished. If it is
/// dropped before, no files are left. Rows of a folder keep their order.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use stylobate_columnar::{DatasetMode, DatasetOptions, DatasetWriter, parquet::ParquetOptions};
/// use stylobate_storage::{Destination, SinkOptions, Sinks};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let city: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bergen", "Oslo"]));
/// let fare: ArrayRef = Arc::new(Int64Array::from(vec![7, 30, 9]));
/// let batch = RecordBatch::try_from_iter([("city", city), ("fare", fare)])?;
///
/// let folder = tempfile::tempdir()?;
/// let options = DatasetOptions::default().with_partition_by(["city"]).with_mode(DatasetMode::Append);
/// let mut writer = DatasetWriter::create(
///     Sinks::new(SinkOptions::default()),
///     Destination::File(folder.path().join("trips")),
///     "trips".to_owned(),
///     batch.schema(),
///     ParquetOptions::default().into(),
///     &options,
/// )
/// .await?;
/// writer.write(&batch).await?;
/// let written = writer.finish().await?;
/// assert_eq!(written.written.rows, 3);
/// assert!(written.files.first().is_some_and(|file| file.starts_with("city=Bergen/part-00000")));
/// # Ok(())
/// # }
/// ```
pub struct DatasetWriter {
    set: FileSet,
    name: String,
    schema: SchemaRef,
    files: FileOptions,
    mode: DatasetMode,
    /// Unique part of the names of files.
    unique: Option<String>,
    partitions: HivePartitioner,
    /// Bytes of a file after which the next one begins.
    max_file_size: Option<u64>,
    /// Bytes of rows that are written at a time.
    at_once: usize,
    open: HashMap<Arc<str>, OpenDatasetFile>,
    /// Number of files of each folder so far.
    numbers: HashMap<Arc<str>, usize>,
    /// Incremented with every use of a file.
    clock: u64,
    rows: u64,
    written: Written,
    /// True if rows may be lost: a write failed, or its future was dropped before it completed.
    is_broken: bool,
    span: Span,
}

/// A file that is being written.
struct OpenDatasetFile {
    file: String,
    writer: TableWriter,
    used: u64,
}

/// A written data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDataset {
    /// Rows, bytes and row groups, or stripes, of all of them.
    pub written: Written,
    /// Names of the files, relative to the folder.
    pub files: Vec<String>,
}

impl DatasetWriter {
    /// Creates a writer of files below `base` with the columns of `schema`. `name` names the folder in errors.
    /// Must be used within a tokio runtime. Fails if there are files and the mode is [`DatasetMode::Error`], or if
    /// the format is neither Parquet nor ORC.
    #[boxed]
    pub async fn create(
        sinks: Sinks,
        base: Destination,
        name: String,
        schema: SchemaRef,
        files: FileOptions,
        dataset: &DatasetOptions,
    ) -> Result<Self> {
        let DatasetOptions { partition_by, max_file_size, mode } = dataset;
        if *mode == DatasetMode::OverwritePartitions && partition_by.is_empty() {
            let reason = "the mode overwrite_partitions needs columns to partition by".to_owned();
            return Err(Error::Option { column: None, reason });
        }

        let partitions = HivePartitioner::new(&name, &schema, partition_by)?;
        let max_file_size = max_file_size.map(ByteSize::as_u64);
        let at_once = at_once(max_file_size);
        let files = files.for_dataset(partition_by, at_once)?;
        // Unsupported types and options fail early.
        files.check(&name, partitions.schema())?;

        let span = tracing::debug_span!(
            "write_dataset",
            folder = without_credentials(&name),
            columns = schema.fields().len(),
            files = Empty,
            rows = Empty,
            bytes = Empty,
        );
        let (set, unique) = open_set(sinks, base, *mode).instrument(span.clone()).await?;
        Ok(Self {
            set,
            name,
            schema,
            files,
            mode: *mode,
            unique,
            partitions,
            max_file_size,
            at_once,
            open: HashMap::new(),
            numbers: HashMap::new(),
            clock: 0,
            rows: 0,
            written: Written::default(),
            is_broken: false,
            span,
        })
    }

    /// Returns the number of rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of bytes passed to files so far.
    pub fn bytes(&self) -> u64 {
        self.written.bytes + self.open.values().map(|open| open.writer.bytes()).sum::<u64>()
    }

    /// Appends a batch, whose columns have the types of the schema. After an error, or if the future is dropped before
    /// it completes, the data set cannot be finished.
    #[boxed]
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check()?;
        self.is_broken = true;
        promised::check(batch, &self.schema)
            .map_err(|(column, reason)| self.unwritable(column.as_deref(), &reason))?;

        let span = self.span.clone();
        self.append_all(batch).instrument(span).await?;
        self.rows += batch.num_rows() as u64;
        self.is_broken = false;
        Ok(())
    }

    /// Completes and publishes all files. If there are no rows, writes one file without rows, or none if the data set
    /// is partitioned. Then the files of earlier writes are removed, depending on the mode.
    #[boxed]
    pub async fn finish(self) -> Result<WrittenDataset> {
        let span = self.span.clone();
        self.publish().instrument(span).await
    }

    async fn publish(mut self) -> Result<WrittenDataset> {
        self.check()?;
        let has_folders = self.partitions.schema().fields().len() < self.schema.fields().len();
        if !has_folders && self.numbers.is_empty() {
            self.begin(&Arc::from("")).await?;
        }

        let mut open: Vec<Arc<str>> = self.open.keys().cloned().collect();
        open.sort_unstable();
        for folder in open {
            self.seal(&folder).await?;
        }

        let folders = self.numbers.keys().map(AsRef::as_ref).collect();
        let old = replaced_files(&self.set, self.mode, &folders).await?;
        let mut files = self.set.publish_instead_of(old).await?;
        files.sort_unstable();
        let written = self.written;
        self.span.record("files", files.len()).record("rows", written.rows).record("bytes", written.bytes);
        Ok(WrittenDataset { written, files })
    }

    fn check(&self) -> Result<()> {
        if self.is_broken {
            Err(self.unwritable(None, "an earlier write failed or was given up"))
        } else {
            Ok(())
        }
    }

    fn unwritable(&self, column: Option<&str>, reason: &str) -> Error {
        let column = column.map(str::to_owned);
        Error::Unwritable { object: self.name.clone(), column, reason: reason.to_owned() }
    }

    async fn append_all(&mut self, batch: &RecordBatch) -> Result<()> {
        for (folder, rows) in self.partitions.split(batch)? {
            self.append(&folder, &rows).await?;
            self.fit_memory().await?;
        }
        Ok(())
    }

    async fn append(&mut self, folder: &Arc<str>, batch: &RecordBatch) -> Result<()> {
        let row_bytes = weight(batch).div_ceil(batch.num_rows().max(1)).max(1);
        let max_rows = (self.at_once / row_bytes).max(1);

        let mut start = 0;
        while start < batch.num_rows() {
            let count = max_rows.min(batch.num_rows() - start);
            if !self.open.contains_key(folder) {
                self.begin(folder).await?;
            }

            self.clock += 1;
            let Some(open) = self.open.get_mut(folder) else { return Ok(()) };

            open.used = self.clock;
            open.writer.write(&batch.slice(start, count)).await?;
            start += count;
            let Some(size) = self.max_file_size else { continue };
            if open.writer.bytes() + open.writer.encoded_bytes() >= size {
                self.seal(folder).await?;
            }
        }

        Ok(())
    }

    /// Opens the next file of a folder.
    async fn begin(&mut self, folder: &Arc<str>) -> Result<()> {
        let max_open = (self.memory() / MIN_MEMORY).clamp(1, MAX_OPEN);
        while self.open.len() >= max_open {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(folder, _)| folder.clone());
            let Some(oldest) = oldest else { break };
            self.seal(&oldest).await?;
        }

        let number = self.numbers.entry(folder.clone()).or_default();
        let part = part_name(*number, self.unique.as_deref(), self.files.format().extension());
        let file = format!("{folder}{part}");
        *number += 1;
        let sink = self.set.open(&file).await?;
        let name = format!("{}/{file}", self.name.trim_end_matches('/'));
        let schema = self.partitions.schema().clone();
        let writer = TableWriter::new(sink, name, schema, self.files.clone())?;
        self.open.insert(folder.clone(), OpenDatasetFile { file, writer, used: self.clock });

        Ok(())
    }

    /// Ends the file of a folder.
    async fn seal(&mut self, folder: &Arc<str>) -> Result<()> {
        let Some(OpenDatasetFile { file, writer, .. }) = self.open.remove(folder) else { return Ok(()) };
        let (written, sealed) = writer.seal().await?;
        self.written.rows += written.rows;
        self.written.bytes += written.bytes;
        self.written.row_groups += written.row_groups;
        self.set.add(file, sealed);
        Ok(())
    }

    fn memory(&self) -> usize {
        usize::try_from(self.files.memory().as_u64()).unwrap_or(usize::MAX)
    }

    /// Ends row groups, the largest first, until the memory in use is within the limit; if that does not suffice, ends
    /// files.
    async fn fit_memory(&mut self) -> Result<()> {
        loop {
            let held = |open: &OpenDatasetFile| open.writer.memory_used() + open.writer.sink_memory();
            let used: usize = self.open.values().map(held).sum();
            if used <= self.memory() {
                return Ok(());
            }
            if self.open.values_mut().fold(false, |any, open| open.writer.release_buffers() | any) {
                continue;
            }

            let memory = self.memory();
            let largest = self.open.iter_mut().max_by_key(|(_, open)| open.writer.memory_used());
            let full = match largest {
                Some((folder, open)) if open.writer.memory_used() > 0 => {
                    let held = open.writer.memory_used();
                    open.writer.shrink(memory.saturating_sub(used - held)).await?;
                    (open.writer.memory_used() >= held).then(|| folder.clone())
                }
                _ => {
                    let largest = self.open.iter().max_by_key(|(_, open)| open.writer.sink_memory());
                    let Some((folder, _)) = largest else { return Ok(()) };
                    Some(folder.clone())
                }
            };

            if let Some(folder) = full {
                self.seal(&folder).await?;
            }
        }
    }
}

/// Returns the files of earlier writes that the files in `folders` replace.
async fn replaced_files(set: &FileSet, mode: DatasetMode, folders: &HashSet<&str>) -> Result<Vec<String>> {
    if !mode.overwrites() {
        return Ok(Vec::new());
    }
    let mut found = set.files().await?;
    if mode == DatasetMode::OverwritePartitions {
        found.retain(|file| folders.contains(folder_of(&file.name)));
    }
    own_files(set, found).await
}

/// Returns the number of bytes of rows to write at a time, so that files end near their size.
fn at_once(max_file_size: Option<u64>) -> usize {
    let share = max_file_size.map_or(u64::MAX, |size| (size / SHARE).max(1));
    usize::try_from(share).unwrap_or(usize::MAX)
}

/// Opens the set of files. Returns it with the unique part of their names, which is not needed if there are no other
/// files.
async fn open_set(sinks: Sinks, base: Destination, mode: DatasetMode) -> Result<(FileSet, Option<String>)> {
    if mode == DatasetMode::Error {
        return Ok((FileSet::create(sinks, base, Overwrite::Refuse).await?, None));
    }
    let set = FileSet::beside(sinks, base).await?;
    // Other writers may append at the same time.
    let is_alone = mode != DatasetMode::Append && set.files().await?.is_empty();
    Ok((set, (!is_alone).then(unique_part)))
}

impl fmt::Debug for DatasetWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetWriter")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
