//! Metadata and decoding of Parquet and ORC files, which are detected by their last bytes.

pub(super) mod index;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::{Fields, SchemaRef},
    error::ArrowError,
};
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use crate::{
    Error, Result,
    chunk::{Chunk, ChunkRepresentation, ColumnBatch, PassingRows, SEGMENT_ROWS, SegmentCollector},
    file::{column_positions::ColumnPositions, schema::ProjectedColumn, statistics::PruningStatistics},
    orc::{self, OrcBytes, OrcFile},
    parquet::{DecodeScratch, Decryption, ParquetBytes, ParquetFile, RowGroupStatistics},
    recent::RecentChunks,
};

/// Bytes at the end of a file that are read first; most footers fit into them.
pub(crate) const TAIL: u64 = 64 << 10;

/// Bytes at the beginning of a file that distinguish a truncated file from text.
const HEAD: u64 = 512;

/// The parsed footer of a file.
#[derive(Debug)]
pub(crate) struct FileMetadata {
    pub(crate) file: ColumnarFile,
    recent: RecentChunks,
    positions: ColumnPositions,
}

/// The parsed footer by format.
#[derive(Debug)]
pub(crate) enum ColumnarFile {
    Parquet(ParquetFile),
    Orc(OrcFile),
}

/// The bytes of some columns of one row group or stripe. Cheap to clone.
#[derive(Clone)]
pub(crate) enum RowGroupBytes {
    Parquet(ParquetBytes),
    Orc(OrcBytes),
}

impl FileMetadata {
    /// Reads the footer.
    pub(crate) async fn open(object: &OpenObject) -> Result<Self> {
        Self::open_with(object, None).await
    }

    /// Reads the footer; that of an encrypted Parquet file is decrypted with its keys.
    pub(crate) async fn open_with(object: &OpenObject, decryption: Option<&Decryption>) -> Result<Self> {
        let size = object.meta().size;
        let from = size.saturating_sub(TAIL);
        let tail = object.read(std::slice::from_ref(&(from..size))).await?.pop().unwrap_or_default();

        if tail.ends_with(b"PAR1") || tail.ends_with(b"PARE") && decryption.is_some() {
            Ok(Self::new(ColumnarFile::Parquet(ParquetFile::open(object, tail, decryption).await?)))
        } else if tail.ends_with(b"PARE") {
            Err(Error::Encrypted { object: object.name() })
        } else if orc::is_orc(object, &tail).await? {
            Ok(Self::new(ColumnarFile::Orc(OrcFile::open(object).await?)))
        } else {
            Err(Self::unknown(object).await?)
        }
    }

    /// Returns the error of a file whose last bytes match no format: its first bytes show whether it is truncated.
    /// Text may also begin with the magic of ORC.
    pub(crate) async fn unknown(object: &OpenObject) -> Result<Error> {
        let name = object.name().to_ascii_lowercase();
        if object.meta().size == 0 && (name.ends_with(".parquet") || name.ends_with(".orc")) {
            return Ok(Error::corrupt(object.name(), "the file is empty"));
        }

        let head = object.read(std::slice::from_ref(&(0..object.meta().size.min(HEAD)))).await?;
        let head = head.into_iter().next().unwrap_or_default();
        let format = if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
            "Parquet"
        } else if head.starts_with(b"ORC") && (name.ends_with(".orc") || !is_text(&head)) {
            "ORC"
        } else {
            return Ok(Error::Format { object: object.name() });
        };

        let reason = format!("it begins as {format} and its footer is missing");
        Ok(Error::corrupt(object.name(), reason))
    }

    /// Returns whether the metadata was decrypted with keys: then it must not be shared with readers that have none.
    pub(crate) fn is_decrypted(&self) -> bool {
        matches!(&self.file, ColumnarFile::Parquet(file) if file.is_decrypted())
    }

    fn new(file: ColumnarFile) -> Self {
        let mut metadata =
            Self { file, recent: RecentChunks::new(0, 0), positions: ColumnPositions::default() };
        metadata.recent = RecentChunks::new(metadata.row_group_count(), metadata.schema().fields().len());
        metadata
    }

    /// Returns the recently found chunks.
    pub(crate) fn recent(&self) -> &RecentChunks {
        &self.recent
    }

    /// Returns the columns. Fields that were written from dictionaries have the type of their values.
    pub(crate) fn schema(&self) -> &SchemaRef {
        match &self.file {
            ColumnarFile::Parquet(file) => file.schema(),
            ColumnarFile::Orc(file) => file.schema(),
        }
    }

    /// Returns the position of the first column of this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.positions.first(self.schema().fields(), name)
    }

    /// Returns the position of a column of this name: `near` if it is one, else the first.
    pub(crate) fn position_near(&self, name: &str, near: usize) -> Option<usize> {
        self.positions.near(self.schema().fields(), name, near)
    }

    /// Returns the columns of [`Self::schema`] with the dictionary types that they were written from.
    pub(crate) fn written(&self) -> &Fields {
        match &self.file {
            ColumnarFile::Parquet(file) => file.written(),
            ColumnarFile::Orc(file) => file.schema().fields(),
        }
    }

    /// Returns the error of a column of an unsupported type, which is `Null` in the schema.
    pub(crate) fn unreadable(&self, root: usize) -> Option<Error> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.unreadable(root),
            ColumnarFile::Orc(_) => None,
        }
    }

    /// Returns whether the reader chose the unit of a column's timestamps: nanoseconds if its years allow them, else a
    /// coarser unit.
    pub(crate) fn has_chosen_unit(&self, root: usize) -> bool {
        match &self.file {
            ColumnarFile::Parquet(file) => file.has_chosen_unit(root),
            ColumnarFile::Orc(_) => true,
        }
    }

    /// Returns the number of row groups or stripes.
    pub(crate) fn row_group_count(&self) -> usize {
        match &self.file {
            ColumnarFile::Parquet(file) => file.row_group_count(),
            ColumnarFile::Orc(file) => file.stripe_count(),
        }
    }

    /// Returns the number of rows in a row group or stripe.
    pub(crate) fn row_group_rows(&self, row_group: usize) -> u64 {
        match &self.file {
            ColumnarFile::Parquet(file) => file.row_group_rows(row_group),
            ColumnarFile::Orc(file) => file.stripe_rows(row_group),
        }
    }

    /// Returns the offset of the first byte of a row group or stripe.
    pub(crate) fn row_group_offset(&self, row_group: usize) -> u64 {
        match &self.file {
            ColumnarFile::Parquet(file) => file.row_group_offset(row_group),
            ColumnarFile::Orc(file) => file.stripe_offset(row_group),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let file = match &self.file {
            ColumnarFile::Parquet(file) => file.weight(),
            ColumnarFile::Orc(file) => file.weight(),
        };
        file + self.recent.weight() + ColumnPositions::weight(self.schema().fields().len())
    }

    /// Returns the footer's statistics of these row groups or stripes.
    pub(crate) fn statistics<'a>(&'a self, row_groups: &'a [usize]) -> Box<dyn PruningStatistics + 'a> {
        match &self.file {
            ColumnarFile::Parquet(file) => Box::new(RowGroupStatistics::new(file, row_groups)),
            ColumnarFile::Orc(file) => Box::new(file.statistics(row_groups)),
        }
    }

    /// Returns the columns that the writer declared the rows of a row group to be sorted by: top-level column,
    /// whether it is descending, and whether nulls come first. Nested columns end the order.
    pub(crate) fn sorted_columns(&self, row_group: usize) -> Vec<(usize, bool, bool)> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.sorted_columns(row_group),
            ColumnarFile::Orc(_) => Vec::new(),
        }
    }

    /// Returns whether a column's values repeat enough for a dictionary, according to the footer.
    pub(crate) fn repeats(&self, root: usize) -> bool {
        match &self.file {
            ColumnarFile::Parquet(file) => file.repeats(root),
            ColumnarFile::Orc(file) => file.repeats(root),
        }
    }

    /// Returns whether all chunks of a column are stored as dictionaries, according to the footer.
    pub(crate) fn has_only_dictionaries(&self, root: usize) -> bool {
        match &self.file {
            ColumnarFile::Parquet(file) => file.has_only_dictionaries(root),
            ColumnarFile::Orc(file) => file.has_dictionary(root),
        }
    }

    /// Returns the number of values of a column's largest dictionary, according to the footer; `None` if a chunk has
    /// none.
    pub(crate) fn max_dictionary_len(&self, root: usize) -> Option<u64> {
        match &self.file {
            ColumnarFile::Parquet(file) => file.max_dictionary_len(root),
            ColumnarFile::Orc(_) => None,
        }
    }

    /// Returns whether a chunk is stored as a dictionary, or cannot become one. True for all chunks of ORC, which are
    /// always decoded as the stripe stores them.
    pub(crate) fn is_dictionary(&self, row_group: usize, column: &ProjectedColumn) -> bool {
        match &self.file {
            ColumnarFile::Parquet(file) => file.is_dictionary(row_group, column),
            ColumnarFile::Orc(_) => true,
        }
    }

    /// Returns whether the footer says that all pages of a column of a row group are dictionary-encoded. Footers
    /// of ORC files do not record it.
    pub(crate) fn is_known_dictionary(&self, row_group: usize, column: &ProjectedColumn) -> bool {
        match &self.file {
            ColumnarFile::Parquet(file) => file.is_dictionary(row_group, column),
            ColumnarFile::Orc(_) => false,
        }
    }

    /// Estimates the bytes that reading and decoding these columns hold, from the footer.
    pub(crate) fn working_bytes(&self, row_group: usize, columns: &[ProjectedColumn]) -> u64 {
        match &self.file {
            ColumnarFile::Parquet(file) => file.working_bytes(row_group, columns),
            ColumnarFile::Orc(file) => file.working_bytes(row_group, columns),
        }
    }

    /// Estimates the bytes that reading these columns and decoding `passing` of their rows hold, at most
    /// [`Self::working_bytes`].
    pub(crate) fn passing_bytes(&self, row_group: usize, columns: &[ProjectedColumn], passing: u64) -> u64 {
        match &self.file {
            ColumnarFile::Parquet(file) => file.passing_bytes(row_group, columns, passing),
            ColumnarFile::Orc(file) => file.working_bytes(row_group, columns),
        }
    }

    /// Estimates how many rows fit if each column may have `max_bytes` of strings or binary values: at most all rows of
    /// the row group.
    pub(crate) fn fitting_rows(&self, row_group: usize, columns: &[ProjectedColumn], max_bytes: u64) -> u64 {
        match &self.file {
            ColumnarFile::Parquet(file) => file.fitting_rows(row_group, columns, max_bytes),
            ColumnarFile::Orc(file) => file.fitting_rows(row_group, columns, max_bytes),
        }
    }

    /// Estimates the bytes of these columns in the file.
    pub(crate) fn estimated_bytes(&self, row_group: usize, columns: &[ProjectedColumn]) -> u64 {
        match &self.file {
            ColumnarFile::Parquet(file) => file.chunk_bytes(row_group, columns),
            ColumnarFile::Orc(file) => file.estimated_bytes(row_group, columns),
        }
    }

    /// Reads the bytes of these columns, merging nearby ranges.
    pub(crate) async fn read(
        &self,
        object: &OpenObject,
        row_group: usize,
        columns: &[ProjectedColumn],
    ) -> Result<RowGroupBytes> {
        match &self.file {
            ColumnarFile::Parquet(file) => {
                file.read(object, row_group, columns).await.map(RowGroupBytes::Parquet)
            }
            ColumnarFile::Orc(file) => file.read(object, row_group, columns).await.map(RowGroupBytes::Orc),
        }
    }

    /// Checks that these bytes belong to the opened version. Must be called after all of them are decoded.
    pub(crate) async fn check(bytes: &RowGroupBytes) -> Result<()> {
        match bytes {
            RowGroupBytes::Parquet(bytes) => bytes.check().await,
            RowGroupBytes::Orc(_) => Ok(()),
        }
    }

    /// Decodes one of the columns that were read, on the calling thread, with reusable memory: all rows, or only those
    /// that pass the filter.
    pub(crate) fn decode(
        &self,
        row_group: usize,
        column: &ProjectedColumn,
        bytes: &RowGroupBytes,
        representation: ChunkRepresentation,
        scratch: &mut DecodeScratch,
        passing: Option<&PassingRows>,
    ) -> Result<Chunk> {
        match (&self.file, bytes) {
            (ColumnarFile::Parquet(file), RowGroupBytes::Parquet(bytes)) => {
                file.decode(row_group, column, bytes, representation, scratch, passing)
            }
            (ColumnarFile::Orc(file), RowGroupBytes::Orc(bytes)) => {
                let refused = |error: ArrowError| file.refused(column, error);
                if let Some(array) = file.decode_dictionary(row_group, column, bytes.clone())? {
                    let chunk = Chunk::Dictionary(array);
                    return match passing {
                        None => Ok(chunk),
                        Some(passing) => passing.of_chunk(&chunk).map_err(refused),
                    };
                }

                let batches =
                    file.decode(row_group, std::slice::from_ref(column), bytes.clone(), SEGMENT_ROWS)?;
                let mut segments = SegmentCollector::new(passing);
                for segment in batches.filter_map(first_column) {
                    segments.push(segment?).map_err(refused)?;
                }
                segments.finish().map_err(refused)
            }
            _ => Err(Error::Ended { reason: "bytes of another format".to_owned() }),
        }
    }
}

impl FileMetadata {
    /// Streams the rows of some columns, read and decoded on the calling thread as they are pulled. Columns with a
    /// dictionary in an ORC stripe are dictionary arrays that share it. Columns are in ascending order.
    pub(crate) fn stream(
        &self,
        object: &OpenObject,
        row_group: usize,
        columns: &[ProjectedColumn],
        batch_rows: usize,
        runtime: &Handle,
    ) -> Result<Box<dyn Iterator<Item = Result<ColumnBatch>> + '_>> {
        if columns.is_empty() {
            let rows = self.row_group_rows(row_group) as usize;
            let starts = (0..rows).step_by(batch_rows.max(1));
            return Ok(Box::new(starts.map(move |start| Ok((Vec::new(), batch_rows.min(rows - start))))));
        }

        match &self.file {
            ColumnarFile::Parquet(file) => {
                Ok(Box::new(file.stream(object, row_group, columns, batch_rows, runtime)?))
            }
            ColumnarFile::Orc(file) => {
                let bytes = runtime.block_on(file.read(object, row_group, columns))?;
                let batches = file.decode_coded(row_group, columns, bytes, batch_rows)?;
                Ok(Box::new(batches.map(|batch| {
                    let batch = batch?;
                    let rows = batch.first().map_or(0, |column| column.len());
                    Ok((batch, rows))
                })))
            }
        }
    }
}

/// Returns whether the first bytes of a file are text: UTF-8 without control characters except white space.
fn is_text(head: &[u8]) -> bool {
    let is_cut = |error: std::str::Utf8Error| error.error_len().is_none();
    let is_utf8 = std::str::from_utf8(head).map_or_else(is_cut, |_| true);
    is_utf8 && !head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

fn first_column(batch: Result<Vec<ArrayRef>>) -> Option<Result<ArrayRef>> {
    match batch {
        Ok(columns) => columns.into_iter().next().map(Ok),
        Err(error) => Some(Err(error)),
    }
}
