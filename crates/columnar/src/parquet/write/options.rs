//! How a Parquet file is written: for all columns, and for some of them otherwise.

use std::collections::BTreeMap;

use parquet::{
    basic::{Compression as Codec, Encoding as ParquetEncoding},
    file::{
        metadata::SortingColumn,
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion},
    },
};
use stylobate_storage::ByteSize;

use super::compression::Compression;
use crate::{Error, Result};

/// Rows of a row group.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Bytes of a row group, encoded.
const ROW_GROUP_SIZE: ByteSize = ByteSize::mib(128);
/// Rows of a page at most: what a reader can leave out by the page index.
const PAGE_ROWS: usize = 20_000;
/// Bytes of a page at most.
const PAGE_SIZE: ByteSize = ByteSize::mib(1);
/// Bytes of a dictionary that is made of values one by one; one that arrives may be larger.
const DICTIONARY_SIZE: ByteSize = ByteSize::mib(1);
/// Memory of a writer.
const MEMORY: ByteSize = ByteSize::mib(256);

/// Whether values are written as a dictionary and codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DictionaryEncoding {
    /// A column that arrives as a dictionary is one; others try, and give up where their values do not repeat.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// How values are encoded that are no dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Plain,
    /// Differences of whole numbers.
    DeltaBinaryPacked,
    /// Differences of lengths, then the bytes.
    DeltaLengthByteArray,
    /// What differs from the value before.
    DeltaByteArray,
    /// The bytes of numbers by their place.
    ByteStreamSplit,
}

impl Encoding {
    fn of_parquet(self) -> ParquetEncoding {
        match self {
            Self::Plain => ParquetEncoding::PLAIN,
            Self::DeltaBinaryPacked => ParquetEncoding::DELTA_BINARY_PACKED,
            Self::DeltaLengthByteArray => ParquetEncoding::DELTA_LENGTH_BYTE_ARRAY,
            Self::DeltaByteArray => ParquetEncoding::DELTA_BYTE_ARRAY,
            Self::ByteStreamSplit => ParquetEncoding::BYTE_STREAM_SPLIT,
        }
    }
}

/// What is said of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatisticsLevel {
    /// Nothing.
    None,
    /// Bounds and nulls of each column chunk.
    Chunk,
    /// And those of each page.
    #[default]
    Page,
}

/// How one column is written, where that is not as the others are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnOptions {
    compression: Option<Compression>,
    dictionary: Option<DictionaryEncoding>,
    encoding: Option<Encoding>,
    statistics: Option<StatisticsLevel>,
    bloom_filter: Option<f64>,
}

impl ColumnOptions {
    /// How pages are compressed. Default: as of the other columns.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Whether values are written as a dictionary. Default: as of the other columns.
    pub fn with_dictionary(mut self, dictionary: DictionaryEncoding) -> Self {
        self.dictionary = Some(dictionary);
        self
    }

    /// How values are encoded that are no dictionary. Default: plain.
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// What is said of the values. Default: as of the other columns.
    pub fn with_statistics(mut self, statistics: StatisticsLevel) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// A bloom filter that is wrong about so large a share of values that are not there, such as 0.01. Default: none.
    pub fn with_bloom_filter(mut self, false_positives: f64) -> Self {
        self.bloom_filter = Some(false_positives);
        self
    }
}

/// A column by which rows are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedBy {
    /// Its name.
    pub column: String,
    /// Whether the greatest value comes first.
    pub descending: bool,
    /// Whether nulls come first.
    pub nulls_first: bool,
}

/// How a Parquet file is written.
#[derive(Clone, Debug)]
pub struct ParquetOptions {
    all: ColumnOptions,
    columns: BTreeMap<String, ColumnOptions>,
    pub(super) row_group_rows: usize,
    pub(super) row_group_size: ByteSize,
    page_rows: usize,
    page_size: ByteSize,
    version_2: bool,
    pub(super) sorted_by: Vec<SortedBy>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) memory: ByteSize,
    pub(super) threads: usize,
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
            sorted_by: Vec::new(),
            metadata: BTreeMap::new(),
            memory: MEMORY,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl ParquetOptions {
    /// How all columns are written that have no options of their own. Default: snappy, dictionaries where values
    /// repeat, statistics of pages.
    pub fn with_all_columns(mut self, options: ColumnOptions) -> Self {
        self.all = options;
        self
    }

    /// How one top-level column is written, with all fields that it has.
    pub fn with_column(mut self, name: impl Into<String>, options: ColumnOptions) -> Self {
        self.columns.insert(name.into(), options);
        self
    }

    /// Rows of a row group at most. Default: 1,048,576.
    pub fn with_row_group_rows(mut self, rows: usize) -> Self {
        self.row_group_rows = rows.max(1);
        self
    }

    /// Bytes of a row group, encoded, after which the next begins. Default: 128 MiB.
    pub fn with_row_group_size(mut self, size: ByteSize) -> Self {
        self.row_group_size = size;
        self
    }

    /// Rows of a page at most. Default: 20,000.
    pub fn with_page_rows(mut self, rows: usize) -> Self {
        self.page_rows = rows.max(1);
        self
    }

    /// Bytes of a page at most. Default: 1 MiB.
    pub fn with_page_size(mut self, size: ByteSize) -> Self {
        self.page_size = size;
        self
    }

    /// Whether pages have headers of version 2, except those of dictionaries that arrive. Default: no.
    pub fn with_version_2(mut self, version_2: bool) -> Self {
        self.version_2 = version_2;
        self
    }

    /// Says how rows are sorted; they must be so when they arrive. Default: not at all.
    pub fn with_sorted_by(mut self, columns: Vec<SortedBy>) -> Self {
        self.sorted_by = columns;
        self
    }

    /// Adds metadata of the file. Default: none but the Arrow schema.
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Memory that the writer may take: a row group that needs more ends early. Default: 256 MiB.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Threads that encode columns. Default: as many as the machine has cores.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// The options of a top-level column.
    fn of(&self, column: &str) -> ColumnOptions {
        let own = self.columns.get(column).cloned().unwrap_or_default();
        let all = self.all.clone();
        ColumnOptions {
            compression: own.compression.or(all.compression),
            dictionary: own.dictionary.or(all.dictionary),
            encoding: own.encoding.or(all.encoding),
            statistics: own.statistics.or(all.statistics),
            bloom_filter: own.bloom_filter.or(all.bloom_filter),
        }
    }

    /// No column has options that is not there.
    pub(super) fn check(&self, names: &[String]) -> Result<()> {
        let sorted = self.sorted_by.iter().map(|sorted| &sorted.column);
        match self.columns.keys().chain(sorted).find(|name| !names.contains(name)) {
            None => Ok(()),
            Some(unknown) => {
                Err(Error::NoSuchColumn { column: unknown.clone(), available: names.join(", ") })
            }
        }
    }

    pub(super) fn sorting(&self, names: &[String]) -> Option<Vec<SortingColumn>> {
        let place = |sorted: &SortedBy| {
            let at = names.iter().position(|name| *name == sorted.column)?;
            let (descending, nulls_first) = (sorted.descending, sorted.nulls_first);
            Some(SortingColumn { column_idx: at as i32, descending, nulls_first })
        };
        let sorting: Vec<SortingColumn> = self.sorted_by.iter().filter_map(place).collect();
        (!sorting.is_empty()).then_some(sorting)
    }

    /// How a column is encoded whose dictionaries are kept.
    pub(super) fn plan(&self, column: &str) -> Result<ColumnPlan, String> {
        let own = self.of(column);
        Ok(ColumnPlan {
            compression: own.compression.unwrap_or_default().codec()?,
            dictionary: own.dictionary.unwrap_or_default(),
            statistics: own.statistics.unwrap_or_default(),
            bloom_filter: own.bloom_filter,
            page_rows: self.page_rows,
        })
    }

    /// The same for the parquet crate, whichever leaves the column has.
    pub(super) fn properties(&self, column: &str) -> Result<WriterProperties, String> {
        let version = if self.version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let bytes = |size: ByteSize| usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
        let mut builder = WriterProperties::builder()
            .set_writer_version(version)
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(self.page_rows)
            .set_data_page_size_limit(bytes(self.page_size))
            .set_dictionary_page_size_limit(bytes(DICTIONARY_SIZE));
        builder = self.of(column).apply(builder)?;
        Ok(builder.build())
    }
}

impl StatisticsLevel {
    fn of_parquet(self) -> EnabledStatistics {
        match self {
            Self::None => EnabledStatistics::None,
            Self::Chunk => EnabledStatistics::Chunk,
            Self::Page => EnabledStatistics::Page,
        }
    }
}

impl ColumnOptions {
    fn apply(&self, mut builder: WriterPropertiesBuilder) -> Result<WriterPropertiesBuilder, String> {
        builder = builder
            .set_compression(self.compression.unwrap_or_default().codec()?)
            .set_dictionary_enabled(self.dictionary.unwrap_or_default() == DictionaryEncoding::Auto)
            .set_statistics_enabled(self.statistics.unwrap_or_default().of_parquet());
        if let Some(encoding) = self.encoding {
            builder = builder.set_encoding(encoding.of_parquet());
        }
        if let Some(rate) = self.bloom_filter {
            builder = builder.set_bloom_filter_enabled(true).set_bloom_filter_fpp(checked(rate)?);
        }
        Ok(builder)
    }
}

fn checked(rate: f64) -> Result<f64, String> {
    match rate > 0.0 && rate < 1.0 {
        true => Ok(rate),
        false => {
            Err(format!("a bloom filter that is wrong {rate} of the time: a share between 0 and 1 is needed"))
        }
    }
}

/// What the encoder of a column needs to know.
#[derive(Clone, Debug)]
pub(super) struct ColumnPlan {
    pub(super) compression: Codec,
    pub(super) dictionary: DictionaryEncoding,
    pub(super) statistics: StatisticsLevel,
    pub(super) bloom_filter: Option<f64>,
    pub(super) page_rows: usize,
}
