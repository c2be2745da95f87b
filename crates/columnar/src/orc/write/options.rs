//! Write options of an ORC file: for all columns, and overrides for some.

use std::collections::BTreeMap;

use stylobate_storage::ByteSize;

use super::compression::OrcCompression;
use crate::{Error, Result, file::bloom_rate};

/// Default encoded bytes of a stripe.
const STRIPE_SIZE: ByteSize = ByteSize::mib(64);
/// Default bytes of a chunk before compression.
const CHUNK_SIZE: ByteSize = ByteSize::kib(256);
/// Maximum bytes of a chunk: its header has 23 bits for the length.
const MAX_CHUNK: u64 = (1 << 23) - 1;
/// Default rows of a row group.
const ROW_INDEX_STRIDE: usize = 10_000;
/// Maximum rows of a row group that readers can count.
const MAX_STRIDE: usize = i32::MAX as usize;
/// Default maximum ratio of distinct values to rows with a value, up to which a string column has a dictionary.
const DICTIONARY_THRESHOLD: f64 = 0.8;
/// Default maximum bytes of a dictionary's values.
const DICTIONARY_SIZE: ByteSize = ByteSize::mib(16);
/// Maximum bytes of a dictionary's values, regardless of the option: readers locate them with 31 bits, the writer
/// with 32.
const MAX_DICTIONARY: usize = 1 << 30;
/// Default memory of a writer.
const MEMORY: ByteSize = ByteSize::mib(256);

/// Options of one column; unset ones default to those of all columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrcColumnOptions {
    dictionary_threshold: Option<f64>,
    bloom_filter: Option<f64>,
}

impl OrcColumnOptions {
    /// Sets the maximum ratio of distinct values to rows with a value, up to which a stripe has a dictionary of
    /// strings: 0 means never, 1 means always. Default: as for the other columns.
    pub fn with_dictionary_threshold(mut self, threshold: f64) -> Self {
        self.dictionary_threshold = Some(threshold);
        self
    }

    /// Adds a bloom filter for each row group, with this rate of false positives, such as 0.01. Default: none.
    pub fn with_bloom_filter(mut self, false_positives: f64) -> Self {
        self.bloom_filter = Some(false_positives);
        self
    }
}

/// Write options of an ORC file.
#[derive(Clone, Debug)]
pub struct OrcOptions {
    all: OrcColumnOptions,
    columns: BTreeMap<String, OrcColumnOptions>,
    pub(super) compression: OrcCompression,
    chunk_size: ByteSize,
    pub(super) stripe_size: ByteSize,
    pub(super) row_index_stride: usize,
    dictionary_size: ByteSize,
    pub(super) metadata: BTreeMap<String, Vec<u8>>,
    pub(crate) memory: ByteSize,
    pub(super) threads: usize,
    /// Maximum bytes of rows that are encoded at a time.
    pub(super) encoded_at_once: usize,
}

impl Default for OrcOptions {
    fn default() -> Self {
        Self {
            all: OrcColumnOptions::default(),
            columns: BTreeMap::new(),
            compression: OrcCompression::default(),
            chunk_size: CHUNK_SIZE,
            stripe_size: STRIPE_SIZE,
            row_index_stride: ROW_INDEX_STRIDE,
            dictionary_size: DICTIONARY_SIZE,
            metadata: BTreeMap::new(),
            memory: MEMORY,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            encoded_at_once: usize::MAX,
        }
    }
}

impl OrcOptions {
    /// Sets the options of all columns without their own. Default: a dictionary threshold of 0.8, no bloom filters.
    pub fn with_all_columns(mut self, options: OrcColumnOptions) -> Self {
        self.all = options;
        self
    }

    /// Sets the options of one column, with all its fields; or of a field, such as `address.city`.
    pub fn with_column(mut self, name: impl Into<String>, options: OrcColumnOptions) -> Self {
        self.columns.insert(name.into(), options);
        self
    }

    /// Sets the compression of streams and the file's footer. Default: zstd(3).
    pub fn with_compression(mut self, compression: OrcCompression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the bytes that are compressed together, and that readers decompress together: 1 byte to 8 MiB. Default: 256
    /// KiB.
    pub fn with_chunk_size(mut self, size: ByteSize) -> Self {
        self.chunk_size = size;
        self
    }

    /// Sets the encoded bytes of a stripe after which the next begins. Default: 64 MiB.
    pub fn with_stripe_size(mut self, size: ByteSize) -> Self {
        self.stripe_size = size;
        self
    }

    /// Sets the rows of a row group, the unit that readers skip by the row index. 0 writes no row index. Default:
    /// 10,000.
    pub fn with_row_index_stride(mut self, rows: usize) -> Self {
        self.row_index_stride = rows.min(MAX_STRIDE);
        self
    }

    /// Sets the maximum bytes of a dictionary's values, at most 1 GiB; above it a stripe has none. Default: 16 MiB.
    pub fn with_dictionary_size(mut self, size: ByteSize) -> Self {
        self.dictionary_size = size;
        self
    }

    /// Adds metadata of the file. Default: none.
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the memory limit of the writer: a stripe that needs more ends early. Default: 256 MiB.
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
        let is_within = |path: &str, column: &String| {
            path.strip_prefix(column.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.columns.retain(|path, _| !columns.iter().any(|column| is_within(path, column)));
        self
    }

    /// Checks that the options are valid.
    pub(super) fn check(&self) -> Result<()> {
        self.check_one(None, &self.all)?;
        self.columns.iter().try_for_each(|(column, own)| self.check_one(Some(column), own))
    }

    /// Returns the columns that have their own options, and whether these request bloom filters.
    pub(super) fn columns_with_options(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().map(|(column, own)| (column.as_str(), own.bloom_filter.is_some()))
    }

    fn check_one(&self, column: Option<&str>, options: &OrcColumnOptions) -> Result<()> {
        let wrong = |reason: String| Err(Error::Option { column: column.map(str::to_owned), reason });
        bloom_rate::check(column, options.bloom_filter)?;
        if options.bloom_filter.is_some() && self.row_index_stride == 0 {
            return wrong("bloom filters are those of row groups, and there is no row index".to_owned());
        }

        match options.dictionary_threshold {
            Some(threshold) if !(0.0..=1.0).contains(&threshold) => {
                wrong(format!("a dictionary threshold of {threshold}: a share from 0 to 1 is needed"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the options of a column; `above` are those of its parent, if any.
    pub(super) fn of(&self, path: &str, above: Option<&OrcColumnOptions>) -> OrcColumnOptions {
        let above = above.unwrap_or(&self.all);
        let own = self.columns.get(path).unwrap_or(above);
        OrcColumnOptions {
            dictionary_threshold: own.dictionary_threshold.or(above.dictionary_threshold),
            bloom_filter: own.bloom_filter.or(above.bloom_filter),
        }
    }

    /// Returns the encoder options of a column with these options.
    pub(super) fn plan(&self, column: &OrcColumnOptions) -> OrcEncoderOptions {
        OrcEncoderOptions {
            dictionary_threshold: column.dictionary_threshold.unwrap_or(DICTIONARY_THRESHOLD),
            dictionary_size: self.dictionary_size.as_usize().min(MAX_DICTIONARY),
            bloom_filter: column.bloom_filter,
            chunk: self.chunk(),
            aligned: self.compression.has_entropy_coding(),
        }
    }

    /// Returns the size of a chunk before compression, in bytes.
    pub(super) fn chunk(&self) -> usize {
        self.chunk_size.as_u64().clamp(1, MAX_CHUNK) as usize
    }
}

/// Options of a column's encoder.
#[derive(Clone, Debug)]
pub(super) struct OrcEncoderOptions {
    pub(super) dictionary_threshold: f64,
    pub(super) dictionary_size: usize,
    pub(super) bloom_filter: Option<f64>,
    pub(super) chunk: usize,
    /// Widths of packed numbers are rounded up to 1, 2, 4, or a multiple of 8 bits.
    pub(super) aligned: bool,
}
