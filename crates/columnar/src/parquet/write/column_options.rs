//! How a column is written.

use std::{fmt, str::FromStr};

use parquet::{
    basic::{Encoding as ParquetEncoding, Type as PhysicalType},
    file::properties::{EnabledStatistics, WriterPropertiesBuilder},
    schema::types::SchemaDescriptor,
};
use stylobate_storage::ByteSize;

use super::compression::Compression;

/// Whether values are written as a dictionary and codes.
///
/// Booleans, half-precision floats and what is in lists, maps and structs never have more than the try of `Auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DictionaryEncoding {
    /// A column that arrives as a dictionary is one, however many values it has. Other columns try, and give up where
    /// the dictionary of a row group gets larger than 1 MiB.
    #[default]
    Auto,
    /// Always, also where values arrive one by one and do not repeat: each is looked up in the dictionary.
    On,
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
    pub(super) compression: Option<Compression>,
    dictionary: Option<DictionaryEncoding>,
    pub(super) encoding: Option<Encoding>,
    pub(super) statistics: Option<StatisticsLevel>,
    pub(super) bloom_filter: Option<f64>,
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

    /// How values are encoded that are no dictionary. A column that is given one has no dictionary, unless that is
    /// asked for too: then it is for values that come after it was given up. Where it is given to all columns, those
    /// whose values it fits have it. Default: plain.
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
    /// These, and where they do not say, those of all columns.
    pub(super) fn over(&self, all: &Self) -> Self {
        let own = self.clone();
        Self {
            compression: own.compression.or(all.compression),
            // An encoding that a column is to have takes its dictionary away.
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

/// A name that an option does not have.
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

/// As it is written, in small letters: `delta_binary_packed`.
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

/// `none`, `chunk` or `page`.
impl FromStr for StatisticsLevel {
    type Err = UnknownOptionError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        named(&LEVELS, name)
    }
}
