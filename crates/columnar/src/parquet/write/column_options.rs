//! Write options of a column.

use std::{fmt, str::FromStr};

use parquet::{
    basic::{Encoding as ParquetEncoding, Type as PhysicalType},
    file::properties::{EnabledStatistics, WriterPropertiesBuilder},
    schema::types::SchemaDescriptor,
};
use stylobate_storage::ByteSize;

use super::compression::Compression;

/// Use of dictionary encoding.
///
/// For booleans, half-precision floats, and values in lists, maps and structs, `On` has the same effect as `Auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DictionaryEncoding {
    /// A column whose input is a dictionary is written as one, regardless of its size. Other columns start with a
    /// dictionary, and fall back if that of a row group exceeds 1 MiB.
    #[default]
    Auto,
    /// Always, even if the input is plain values that do not repeat: each is looked up in the dictionary.
    On,
    /// Never.
    Off,
}

/// Encoding of values without a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Raw values.
    Plain,
    /// Differences of integers.
    DeltaBinaryPacked,
    /// Differences of lengths, then the bytes.
    DeltaLengthByteArray,
    /// Length of the prefix shared with the previous value, and the suffix.
    DeltaByteArray,
    /// Bytes of numbers, grouped by their position.
    ByteStreamSplit,
}

impl Encoding {
    fn fits(self, values: PhysicalType) -> bool {
        use PhysicalType::{BYTE_ARRAY, DOUBLE, FIXED_LEN_BYTE_ARRAY, FLOAT, INT32, INT64};
        match self {
            Self::Plain => true,
            Self::DeltaBinaryPacked => matches!(values, INT32 | INT64),
            Self::DeltaLengthByteArray => values == BYTE_ARRAY,
            Self::DeltaByteArray => matches!(values, BYTE_ARRAY | FIXED_LEN_BYTE_ARRAY),
            Self::ByteStreamSplit => matches!(values, INT32 | INT64 | FLOAT | DOUBLE | FIXED_LEN_BYTE_ARRAY),
        }
    }

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

/// Granularity of statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatisticsLevel {
    /// No statistics.
    None,
    /// Bounds and null counts of each column chunk.
    Chunk,
    /// Those of each page as well.
    #[default]
    Page,
}

/// Options of one column; unset ones default to those of all columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnOptions {
    pub(super) compression: Option<Compression>,
    dictionary: Option<DictionaryEncoding>,
    pub(super) encoding: Option<Encoding>,
    pub(super) statistics: Option<StatisticsLevel>,
    pub(super) bloom_filter: Option<f64>,
}

impl ColumnOptions {
    /// Sets the compression of pages. Default: as for the other columns.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Sets the use of dictionary encoding. Default: as for the other columns.
    pub fn with_dictionary(mut self, dictionary: DictionaryEncoding) -> Self {
        self.dictionary = Some(dictionary);
        self
    }

    /// Sets the encoding of values without a dictionary. This turns the column's dictionary off, unless one is
    /// requested explicitly: then the encoding applies after the fallback. As an option of all columns, it applies to
    /// those of a suitable type. Default: plain.
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// Sets the granularity of statistics. Default: as for the other columns.
    pub fn with_statistics(mut self, statistics: StatisticsLevel) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// Adds a bloom filter with this rate of false positives, such as 0.01. Default: none.
    pub fn with_bloom_filter(mut self, false_positives: f64) -> Self {
        self.bloom_filter = Some(false_positives);
        self
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
    /// Returns these options, with unset ones taken from those of all columns.
    pub(super) fn over(&self, all: &Self) -> Self {
        let own = self.clone();
        Self {
            compression: own.compression.or(all.compression),
            // An explicit encoding of a column turns its dictionary off.
            dictionary: own.dictionary.or(if own.encoding.is_some() { None } else { all.dictionary }),
            encoding: own.encoding.or(all.encoding),
            statistics: own.statistics.or(all.statistics),
            bloom_filter: own.bloom_filter.or(all.bloom_filter),
        }
    }

    pub(super) fn dictionary(&self) -> DictionaryEncoding {
        let usual = if self.encoding.is_some() { DictionaryEncoding::Off } else { DictionaryEncoding::Auto };
        self.dictionary.unwrap_or(usual)
    }

    pub(super) fn apply(
        &self,
        mut builder: WriterPropertiesBuilder,
        leaves: &SchemaDescriptor,
        must_fit: bool,
    ) -> Result<WriterPropertiesBuilder, String> {
        builder = builder
            .set_compression(self.compression.unwrap_or_default().codec()?)
            .set_dictionary_enabled(self.dictionary() != DictionaryEncoding::Off)
            .set_statistics_enabled(self.statistics.unwrap_or_default().of_parquet());
        if let Some(encoding) = self.encoding {
            let mut fitting =
                leaves.columns().iter().filter(|leaf| encoding.fits(leaf.physical_type())).peekable();
            if must_fit && fitting.peek().is_none() {
                return Err(format!("values of this type have no encoding {encoding}"));
            }
            for leaf in fitting {
                builder = builder.set_column_encoding(leaf.path().clone(), encoding.of_parquet());
            }
        }

        if let Some(rate) = self.bloom_filter {
            builder = builder.set_bloom_filter_enabled(true).set_bloom_filter_fpp(rate);
        }
        Ok(builder)
    }
}

pub(super) fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

/// Error for an unknown option name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is none of {known}")]
pub struct UnknownOptionError {
    given: String,
    known: String,
}

const ENCODINGS: [(&str, Encoding); 5] = [
    ("plain", Encoding::Plain),
    ("delta_binary_packed", Encoding::DeltaBinaryPacked),
    ("delta_length_byte_array", Encoding::DeltaLengthByteArray),
    ("delta_byte_array", Encoding::DeltaByteArray),
    ("byte_stream_split", Encoding::ByteStreamSplit),
];

const LEVELS: [(&str, StatisticsLevel); 3] =
    [("none", StatisticsLevel::None), ("chunk", StatisticsLevel::Chunk), ("page", StatisticsLevel::Page)];

fn named<T: Copy>(all: &[(&str, T)], given: &str) -> Result<T, UnknownOptionError> {
    let found = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
    found.map(|(_, value)| *value).ok_or_else(|| UnknownOptionError {
        given: given.to_owned(),
        known: all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    })
}

/// Parses names in lower case: `delta_binary_packed`.
impl FromStr for Encoding {
    type Err = UnknownOptionError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        named(&ENCODINGS, name)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ENCODINGS.iter().find(|(_, encoding)| encoding == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// Parses `none`, `chunk` or `page`.
impl FromStr for StatisticsLevel {
    type Err = UnknownOptionError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        named(&LEVELS, name)
    }
}
