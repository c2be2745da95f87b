//! Write options of a Parquet file: for all columns, and overrides for some.

use std::collections::BTreeMap;

use parquet::{
    basic::{Compression as Codec, Encoding as Values},
    file::{
        metadata::SortingColumn,
        properties::{WriterProperties, WriterVersion},
    },
    schema::types::SchemaDescriptor,
};
use stylobate_storage::ByteSize;

use super::{
    column_options::{ColumnOptions, DictionaryEncoding, Encoding, StatisticsLevel, bytes},
    compression::Compression,
};
use crate::{Error, Result, file::bloom_rate};

/// Default rows of a row group.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Default encoded bytes of a row group.
const ROW_GROUP_SIZE: ByteSize = ByteSize::mib(128);
/// Default maximum rows of a page, the unit that readers skip by the page index.
const PAGE_ROWS: usize = 20_000;
/// Default maximum bytes of a page.
const PAGE_SIZE: ByteSize = ByteSize::mib(1);
/// Maximum bytes of a dictionary built from values; an input dictionary may be larger.
pub(super) const DICTIONARY_SIZE: ByteSize = ByteSize::mib(1);
/// Default memory of a writer.
const MEMORY: ByteSize = ByteSize::mib(256);

/// Column by which rows are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedBy {
    /// Path of the column; dots separate the fields of structs.
    pub column: String,
    /// True if the largest value comes first.
    pub descending: bool,
    /// True if nulls come first.
    pub nulls_first: bool,
}

/// Write options of a Parquet file.
#[derive(Clone, Debug)]
pub struct ParquetOptions {
    all: ColumnOptions,
    columns: BTreeMap<String, ColumnOptions>,
    pub(super) row_group_rows: usize,
    pub(super) row_group_size: ByteSize,
    page_rows: usize,
    page_size: ByteSize,
    version_2: bool,
    pub(super) reproducible: bool,
    pub(super) sorted_by: Vec<SortedBy>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(crate) memory: ByteSize,
    pub(super) threads: usize,
    /// Maximum bytes of rows that are encoded at a time.
    pub(super) encoded_at_once: usize,
}

impl Default for ParquetOptions {
    fn default() -> Self {
        Self {
            all: ColumnOptions::default(),
            columns: BTreeMap::new(),
            row_group_rows: ROW_GROUP_ROWS,
            row_group_size: ROW_GROUP_SIZE,
            page_rows: PAGE_ROWS,
            page_size: PAGE_SIZE,
            version_2: false,
            reproducible: false,
            sorted_by: Vec::new(),
            metadata: BTreeMap::new(),
            memory: MEMORY,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            encoded_at_once: usize::MAX,
        }
    }
}

impl ParquetOptions {
    /// Sets the options of all columns without their own. Default: snappy, dictionaries if values repeat, statistics of
    /// pages.
    pub fn with_all_columns(mut self, options: ColumnOptions) -> Self {
        self.all = options;
        self
    }

    /// Sets the options of one top-level column, with all its fields.
    pub fn with_column(mut self, name: impl Into<String>, options: ColumnOptions) -> Self {
        self.columns.insert(name.into(), options);
        self
    }

    /// Sets the compression of all columns without their own. Default: snappy.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.all = self.all.with_compression(compression);
        self
    }

    /// Writes some top-level columns without dictionaries, and otherwise like all columns: for values that never
    /// repeat. Default: a dictionary wherever values repeat.
    pub fn without_dictionaries<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        let plain = ColumnOptions::default().with_dictionary(DictionaryEncoding::Off);
        self.columns.extend(columns.into_iter().map(|column| (column.into(), plain.clone())));
        self
    }

    /// Sets the maximum rows of a row group. Default: 1,048,576.
    pub fn with_row_group_rows(mut self, rows: usize) -> Self {
        self.row_group_rows = rows.max(1);
        self
    }

    /// Sets the encoded bytes of a row group after which the next begins. Default: 128 MiB.
    pub fn with_row_group_size(mut self, size: ByteSize) -> Self {
        self.row_group_size = size;
        self
    }

    /// Sets the maximum rows of a page. Default: 20,000.
    pub fn with_page_rows(mut self, rows: usize) -> Self {
        self.page_rows = rows.max(1);
        self
    }

    /// Sets the bytes of a page, before compression, after which the next begins. Default: 1 MiB.
    pub fn with_page_size(mut self, size: ByteSize) -> Self {
        self.page_size = size;
        self
    }

    /// Writes data pages of version 2, with the encodings that their readers support. Default: no.
    pub fn with_version_2(mut self, version_2: bool) -> Self {
        self.version_2 = version_2;
        self
    }

    /// Makes equal batches produce equal files, regardless of their dictionaries: the dictionaries of the file
    /// have the values in the order in which they occur. Large dictionaries take longer to write. Not supported
    /// for folders of files, which share a memory limit. Default: no.
    pub fn with_reproducible(mut self, reproducible: bool) -> Self {
        self.reproducible = reproducible;
        self
    }

    /// Declares the sort order of rows; they must arrive in it. Default: none.
    pub fn with_sorted_by(mut self, columns: Vec<SortedBy>) -> Self {
        self.sorted_by = columns;
        self
    }

    /// Adds metadata of the file and of its Arrow schema; it takes precedence over that of the written schema. Default:
    /// only the Arrow schema.
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the memory limit of the writer: a row group that needs more ends early. Default: 256 MiB.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the threads that encode columns. Default: the number of cores.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    pub(crate) fn with_encoded_at_once(mut self, bytes: usize) -> Self {
        self.encoded_at_once = bytes.max(1);
        self
    }

    /// Removes the options of columns that the file lacks.
    pub(crate) fn without_columns(mut self, columns: &[String]) -> Self {
        self.columns.retain(|name, _| !columns.contains(name));
        self.sorted_by.retain(|sorted| !columns.contains(&sorted.column));
        self
    }

    /// Returns the options of a top-level column.
    fn of(&self, column: &str) -> ColumnOptions {
        match self.columns.get(column) {
            Some(own) => own.over(&self.all),
            None => self.all.clone(),
        }
    }

    /// Checks that options are valid, and name existing columns.
    pub(super) fn check(&self, names: &[String]) -> Result<()> {
        bloom_rate::check(None, self.all.bloom_filter)?;
        for (column, own) in &self.columns {
            bloom_rate::check(Some(column), own.bloom_filter)?;
        }
        match self.columns.keys().find(|name| !names.contains(name)) {
            None => Ok(()),
            Some(unknown) => {
                Err(Error::NoSuchColumn { column: unknown.clone(), available: names.join(", ") })
            }
        }
    }

    /// Returns the leaves by which rows are sorted.
    pub(super) fn sorting(&self, schema: &SchemaDescriptor) -> Result<Option<Vec<SortingColumn>>> {
        // Values in lists have no order among rows.
        let leaves = schema.columns().iter().enumerate().filter(|(_, leaf)| leaf.max_rep_level() == 0);
        let leaves: Vec<(usize, String)> = leaves.map(|(at, leaf)| (at, leaf.path().string())).collect();
        let sorting_column = |sorted: &SortedBy| {
            let Some((at, _)) = leaves.iter().find(|(_, leaf)| *leaf == sorted.column) else {
                let available: Vec<&str> = leaves.iter().map(|(_, leaf)| leaf.as_str()).collect();
                return Err(Error::NoSuchColumn {
                    column: format!("{} to be sorted by", sorted.column),
                    available: available.join(", "),
                });
            };

            let descending = sorted.descending;
            let nulls_first = sorted.nulls_first;
            Ok(SortingColumn { column_idx: *at as i32, descending, nulls_first })
        };

        let sorting: Vec<SortingColumn> = self.sorted_by.iter().map(sorting_column).collect::<Result<_>>()?;
        Ok((!sorting.is_empty()).then_some(sorting))
    }

    /// Returns the version in the footer.
    pub(super) fn version(&self) -> i32 {
        if self.version_2 { 2 } else { 1 }
    }

    /// Returns the encoder options of a column.
    pub(super) fn plan(&self, column: &str) -> Result<ParquetEncoderOptions, String> {
        let own = self.of(column);
        Ok(ParquetEncoderOptions {
            compression: own.compression.unwrap_or_default().codec()?,
            dictionary: own.dictionary(),
            encoding: own.encoding,
            statistics: own.statistics.unwrap_or_default(),
            bloom_filter: own.bloom_filter,
            page_rows: self.page_rows,
            page_bytes: bytes(self.page_size),
            dictionary_bytes: if self.reproducible {
                0
            } else {
                bytes(self.row_group_size).min(bytes(self.memory) / 2) / 4
            },
            is_ordered: false,
            has_narrow_keys: false,
            version_2: self.version_2,
        })
    }

    /// Returns the parquet crate's options for the leaves of a column.
    pub(super) fn properties(
        &self,
        column: &str,
        leaves: &SchemaDescriptor,
    ) -> Result<WriterProperties, String> {
        let version = if self.version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let mut builder = WriterProperties::builder()
            .set_writer_version(version)
            // For pages of version 2 the crate picks encodings that not all readers support.
            .set_encoding(Values::PLAIN)
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(self.page_rows)
            .set_data_page_size_limit(bytes(self.page_size))
            .set_dictionary_page_size_limit(bytes(DICTIONARY_SIZE));

        let must_fit = self.columns.get(column).is_some_and(|own| own.encoding.is_some());
        builder = self.of(column).apply(builder, leaves, must_fit)?;
        Ok(builder.build())
    }
}

/// Options of a column's encoder.
#[derive(Clone, Debug)]
pub(super) struct ParquetEncoderOptions {
    pub(super) compression: Codec,
    pub(super) dictionary: DictionaryEncoding,
    pub(super) encoding: Option<Encoding>,
    pub(super) statistics: StatisticsLevel,
    pub(super) bloom_filter: Option<f64>,
    pub(super) page_rows: usize,
    pub(super) page_bytes: usize,
    /// Maximum bytes of an input dictionary that is kept unchanged; a larger one is rebuilt from the values in the
    /// order in which they occur. 0 rebuilds every dictionary, in each row group.
    pub(super) dictionary_bytes: usize,
    /// True if the values of its dictionaries are ordered.
    pub(super) is_ordered: bool,
    /// True if its input has keys of 8 or 16 bits.
    pub(super) has_narrow_keys: bool,
    pub(super) version_2: bool,
}
