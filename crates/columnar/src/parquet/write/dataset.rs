//! A folder of Parquet files that is being written: by the size of files, and by the values of columns.
//!
//! ```text
//! part-00000.parquet, part-00001.parquet, …            by size
//! day=2024-05-01/city=Oslo/part-00000.parquet, …       and by columns, which the files do not have then
//! ```
//!
//! Few files are open at a time, in one budget of memory. Where it is used up, the largest row group ends.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_recursion::async_recursion as boxed;
use stylobate_storage::{ByteSize, FileSet};

use super::{
    options::ParquetOptions,
    partition::Partitions,
    writer::{ParquetWriter, Written},
};
use crate::{Error, Result, weight::weight};

/// Files that are open at a time; each has memory of its own beside what it encodes.
const MOST_OPEN: usize = 64;
/// A file takes about so much at least: with less memory, fewer are open.
const LEAST_MEMORY: usize = 4 << 20;
/// What is written at a time, of the largest size that a file may have.
const SHARE: u64 = 8;

/// How rows are spread over files.
#[derive(Clone, Debug, Default)]
pub struct DatasetOptions {
    partition_by: Vec<String>,
    max_file_size: Option<ByteSize>,
}

impl DatasetOptions {
    /// Columns whose values name folders; the files do not have them. Default: none.
    pub fn with_partition_by(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Bytes of a file, about, after which the next begins. Default: no limit.
    pub fn with_max_file_size(mut self, size: ByteSize) -> Self {
        self.max_file_size = Some(size);
        self
    }
}

/// Writes record batches to Parquet files below one place, which appear together when it is finished. Dropped before,
/// it leaves nothing behind. Rows of a folder keep their order.
pub struct ParquetDataset {
    set: FileSet,
    name: String,
    schema: SchemaRef,
    options: ParquetOptions,
    partitions: Partitions,
    max_file_size: Option<ByteSize>,
    open: HashMap<Arc<str>, Open>,
    /// Files that each folder has so far.
    numbers: HashMap<Arc<str>, usize>,
    /// Grows with every use of a file.
    clock: u64,
    rows: u64,
    written: Written,
    /// Whether rows may be lost: something went wrong, or a write was dropped before its end.
    is_broken: bool,
}

/// A file that is being written.
struct Open {
    file: String,
    writer: ParquetWriter,
    used: u64,
}

/// Files that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDataset {
    /// Rows, bytes and row groups of all of them.
    pub written: Written,
    /// Their names, relative to the place.
    pub files: Vec<String>,
}

impl ParquetDataset {
    /// Files with the columns of `schema`. `name` is what errors call the place. Must be used within a tokio runtime.
    pub fn new(
        set: FileSet,
        name: impl Into<String>,
        schema: SchemaRef,
        options: ParquetOptions,
        dataset: &DatasetOptions,
    ) -> Result<Self> {
        let name = name.into();
        let partitions = Partitions::new(&name, &schema, &dataset.partition_by)?;
        let options = options.without_columns(&dataset.partition_by);
        // What is wrong with types and options is found out now.
        ParquetWriter::check_options(&name, partitions.schema(), &options)?;
        Ok(Self {
            set,
            name,
            schema,
            options,
            partitions,
            max_file_size: dataset.max_file_size,
            open: HashMap::new(),
            numbers: HashMap::new(),
            clock: 0,
            rows: 0,
            written: Written::default(),
            is_broken: false,
        })
    }

    /// Rows that were given so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that are on their way to files so far.
    pub fn bytes(&self) -> u64 {
        self.written.bytes + self.open.values().map(|open| open.writer.bytes()).sum::<u64>()
    }

    /// Appends a batch, whose columns have the types of the schema. After an error, and where this is dropped before
    /// it ends, there will be no files.
    #[boxed]
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check()?;
        self.is_broken = true;
        if !batch.schema_ref().fields().iter().map(|field| field.data_type()).eq(self
            .schema
            .fields()
            .iter()
            .map(|field| field.data_type()))
        {
            return Err(self.unwritable("a batch of other types than were promised"));
        }
        for (folder, rows) in self.partitions.split(batch)? {
            self.append(&folder, &rows).await?;
            self.fit_memory().await?;
        }
        self.rows += batch.num_rows() as u64;
        self.is_broken = false;
        Ok(())
    }

    /// Writes what is left, and gives all files their names. Where no row came, there is one file without rows; with
    /// folders, none. Files of the same kind that an earlier write left there are removed, unless replacing was
    /// refused: then there are none.
    #[boxed]
    pub async fn finish(mut self) -> Result<WrittenDataset> {
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
        let mut files = self.set.publish(is_part).await?;
        files.sort_unstable();
        Ok(WrittenDataset { written: self.written, files })
    }

    fn check(&self) -> Result<()> {
        match self.is_broken {
            true => Err(self.unwritable("an earlier write failed or was given up")),
            false => Ok(()),
        }
    }

    fn unwritable(&self, reason: &str) -> Error {
        Error::Unwritable { object: self.name.clone(), column: None, reason: reason.to_owned() }
    }

    /// Bytes of rows that are written at a time.
    fn at_once(&self) -> usize {
        let share = self.max_file_size.map_or(u64::MAX, |size| (size.as_u64() / SHARE).max(1));
        usize::try_from(share).unwrap_or(usize::MAX)
    }

    async fn append(&mut self, folder: &Arc<str>, batch: &RecordBatch) -> Result<()> {
        let row_bytes = weight(batch).div_ceil(batch.num_rows().max(1)).max(1);
        let most = (self.at_once() / row_bytes).max(1);
        let mut start = 0;
        while start < batch.num_rows() {
            let count = most.min(batch.num_rows() - start);
            if !self.open.contains_key(folder) {
                self.begin(folder).await?;
            }
            self.clock += 1;
            let Some(open) = self.open.get_mut(folder) else { return Ok(()) };
            open.used = self.clock;
            open.writer.write(&batch.slice(start, count)).await?;
            start += count;
            let Some(size) = self.max_file_size else { continue };
            if open.writer.bytes() + open.writer.encoded_bytes() >= size.as_u64() {
                self.seal(folder).await?;
            }
        }
        Ok(())
    }

    /// Opens the next file of a folder.
    async fn begin(&mut self, folder: &Arc<str>) -> Result<()> {
        let most = (self.memory() / LEAST_MEMORY).clamp(1, MOST_OPEN);
        while self.open.len() >= most {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(folder, _)| folder.clone());
            let Some(oldest) = oldest else { break };
            self.seal(&oldest).await?;
        }
        let number = self.numbers.entry(folder.clone()).or_default();
        let file = format!("{folder}part-{number:05}.parquet");
        *number += 1;
        let sink = self.set.open(&file).await?;
        let options = self.options.clone().with_encoded_at_once(self.at_once());
        let name = format!("{}/{file}", self.name.trim_end_matches('/'));
        let writer = ParquetWriter::new(sink, name, self.partitions.schema().clone(), options)?;
        self.open.insert(folder.clone(), Open { file, writer, used: self.clock });
        Ok(())
    }

    /// Ends the file of a folder.
    async fn seal(&mut self, folder: &Arc<str>) -> Result<()> {
        let Some(Open { file, writer, .. }) = self.open.remove(folder) else { return Ok(()) };
        let (written, sealed) = writer.seal().await?;
        self.written.rows += written.rows;
        self.written.bytes += written.bytes;
        self.written.row_groups += written.row_groups;
        self.set.add(file, sealed);
        Ok(())
    }

    fn memory(&self) -> usize {
        usize::try_from(self.options.memory.as_u64()).unwrap_or(usize::MAX)
    }

    /// Ends row groups, the largest first, until all that is held fits; if they do not suffice, ends files.
    async fn fit_memory(&mut self) -> Result<()> {
        loop {
            let held = |open: &Open| open.writer.memory_used() + open.writer.sink_memory();
            let used: usize = self.open.values().map(held).sum();
            if used <= self.memory() {
                return Ok(());
            }
            if self.open.values_mut().fold(false, |any, open| open.writer.rest() | any) {
                continue;
            }
            let memory = self.memory();
            let largest = self.open.values_mut().max_by_key(|open| open.writer.memory_used());
            match largest {
                Some(open) if open.writer.memory_used() > 0 => {
                    let others = used - open.writer.memory_used();
                    open.writer.shrink(memory.saturating_sub(others)).await?;
                }
                _ => {
                    let largest = self.open.iter().max_by_key(|(_, open)| open.writer.sink_memory());
                    let Some(folder) = largest.map(|(folder, _)| folder.clone()) else { return Ok(()) };
                    self.seal(&folder).await?;
                }
            }
        }
    }
}

/// Whether a file has a name that a write gives: what it holds is replaced by the next.
fn is_part(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let digits = file.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".parquet"));
    let is_numbered = |digits: &str| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.is_some_and(is_numbered)
        && (folders.is_empty() || folders.split('/').all(|part| part.contains('=')))
}

impl fmt::Debug for ParquetDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetDataset")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
