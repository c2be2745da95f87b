//! What is in a file, apart from its values.

use serde::Serialize;

use super::bound::BoundValue;

/// A file as its footer describes it. Sizes are bytes.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The origin, without credentials, and the path.
    pub object: String,
    /// What the file is.
    pub format: FileFormat,
    /// The version of the format that the file says it is in.
    pub format_version: String,
    /// The file's size.
    pub size: u64,
    /// The size of the footer; for ORC with the statistics of the stripes.
    pub footer_size: u64,
    /// Rows in all parts.
    pub rows: u64,
    /// The program that wrote the file, as it calls itself.
    pub created_by: Option<String>,
    /// What the writer put into the file besides, in its order. Values that are no text are in hexadecimal digits.
    pub metadata: Vec<MetadataEntry>,
    /// The columns with those inside of them.
    pub schema: Vec<SchemaNode>,
    /// The columns that hold values, over all parts, in the order of the file.
    pub columns: Vec<ColumnInspection>,
    /// Row groups or stripes.
    pub parts: Vec<PartInspection>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetadataEntry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Option<String>,
}

/// A column, or a field of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaNode {
    /// Its own name.
    pub name: String,
    /// The type as the format calls it.
    #[serde(rename = "type")]
    pub data_type: String,
    /// How Parquet stores it, where that is not what the type is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_type: Option<String>,
    /// Whether it may be null.
    pub nullable: bool,
    /// Whether it stands for any number of values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// What is inside of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<SchemaNode>,
}

/// A column over all parts of a file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ColumnInspection {
    /// The names down to it, with dots between.
    pub name: String,
    /// The type as the format calls it.
    #[serde(rename = "type")]
    pub data_type: String,
    /// What is stored, encoding by encoding.
    pub encodings: Vec<String>,
    /// How its bytes are compressed.
    pub codecs: Vec<String>,
    /// Parts that have it.
    pub chunks: u64,
    /// Parts in which all of its values are in a dictionary.
    pub dictionary_chunks: u64,
    /// Parts in which some of its values are in a dictionary; for files that do not say how many, perhaps all.
    pub partly_dictionary_chunks: u64,
    /// Its bytes in the file.
    pub compressed_size: u64,
    /// Its bytes before compression; `None` where the file does not say.
    pub uncompressed_size: Option<u64>,
    /// Values, nulls included; `None` where the file does not say.
    pub values: Option<u64>,
    /// How many of them are null; `None` where the file does not say.
    pub nulls: Option<u64>,
    /// No value is less; perhaps none is as little. `None` where a part does not say.
    pub min: Option<BoundValue>,
    /// No value is greater; perhaps none is as great. `None` where a part does not say.
    pub max: Option<BoundValue>,
    /// Parts whose pages, or strides of rows, have an index for it.
    pub indexed_chunks: u64,
    /// Parts that have a bloom filter for it.
    pub bloom_filter_chunks: u64,
}

/// A row group or stripe.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PartInspection {
    /// Its rows.
    pub rows: u64,
    /// Where it begins in the file; `None` where its columns are in other files.
    pub offset: Option<u64>,
    /// Its bytes in the file.
    pub compressed_size: u64,
    /// Its bytes before compression; `None` where the file does not say.
    pub uncompressed_size: Option<u64>,
    /// By which columns its rows are sorted, such as `a` or `b desc nulls first`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sorted_by: Vec<String>,
    /// Its columns, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ChunkInspection>,
}

/// A column within a row group or stripe.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ChunkInspection {
    /// The names down to it, with dots between.
    pub name: String,
    /// What is stored, encoding by encoding.
    pub encodings: Vec<String>,
    /// How its bytes are compressed.
    pub codec: String,
    /// How much of it is in a dictionary.
    pub dictionary: DictionaryUse,
    /// How many values the dictionary has; `None` where there is none, or the footer does not say.
    pub dictionary_values: Option<u64>,
    /// Pages of data; `None` where the footer does not say.
    pub pages: Option<u64>,
    /// Its bytes in the file.
    pub compressed_size: u64,
    /// Its bytes before compression; `None` where the file does not say.
    pub uncompressed_size: Option<u64>,
    /// Values, nulls included; `None` where the file does not say.
    pub values: Option<u64>,
    /// How many of them are null; `None` where the file does not say.
    pub nulls: Option<u64>,
    /// No value is less.
    pub min: Option<BoundValue>,
    /// No value is greater.
    pub max: Option<BoundValue>,
    /// Whether its pages, or strides of rows, have an index.
    pub indexed: bool,
    /// Whether it has a bloom filter.
    pub bloom_filter: bool,
}

/// How much of a chunk is in a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DictionaryUse {
    /// Nothing.
    None,
    /// Some of its pages, or perhaps all, where the footer does not count them.
    Some,
    /// All of its pages.
    All,
}

impl ColumnInspection {
    /// A column without any part.
    pub(super) fn new(name: String, data_type: String) -> Self {
        Self {
            name,
            data_type,
            encodings: Vec::new(),
            codecs: Vec::new(),
            chunks: 0,
            dictionary_chunks: 0,
            partly_dictionary_chunks: 0,
            compressed_size: 0,
            uncompressed_size: Some(0),
            values: Some(0),
            nulls: Some(0),
            min: None,
            max: None,
            indexed_chunks: 0,
            bloom_filter_chunks: 0,
        }
    }

    /// Adds the column's chunk of one more part, but for its bounds.
    pub(super) fn add(&mut self, chunk: &ChunkInspection) {
        for encoding in &chunk.encodings {
            if !self.encodings.contains(encoding) {
                self.encodings.push(encoding.clone());
            }
        }
        if !self.codecs.contains(&chunk.codec) {
            self.codecs.push(chunk.codec.clone());
        }
        self.chunks += 1;
        self.dictionary_chunks += u64::from(chunk.dictionary == DictionaryUse::All);
        self.partly_dictionary_chunks += u64::from(chunk.dictionary == DictionaryUse::Some);
        self.compressed_size = self.compressed_size.saturating_add(chunk.compressed_size);
        self.uncompressed_size = sum(self.uncompressed_size, chunk.uncompressed_size);
        self.values = sum(self.values, chunk.values);
        self.nulls = sum(self.nulls, chunk.nulls);
        self.indexed_chunks += u64::from(chunk.indexed);
        self.bloom_filter_chunks += u64::from(chunk.bloom_filter);
    }
}

/// Both together; unknown if either is.
pub(super) fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_add(b?)
}
