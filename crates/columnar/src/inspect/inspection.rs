//! Description of a file, apart from its values.

use serde::Serialize;

use super::bound::BoundValue;

/// A file as its footer describes it. Sizes are bytes.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The origin, without credentials, and the path.
    pub object: String,
    /// Format of the file.
    pub format: FileFormat,
    /// Version of the format, as stated by the file.
    pub format_version: String,
    /// Size of the file.
    pub size: u64,
    /// Size of the footer; for ORC including the statistics of the stripes.
    pub footer_size: u64,
    /// Rows in all parts.
    pub rows: u64,
    /// Program that wrote the file, as stated by the file.
    pub created_by: Option<String>,
    /// Key-value metadata, in its order. Values that are not text are in hexadecimal digits.
    pub metadata: Vec<MetadataEntry>,
    /// Columns with their nested fields.
    pub schema: Vec<SchemaNode>,
    /// Leaf columns over all parts, in the order of the file.
    pub columns: Vec<ColumnInspection>,
    /// Row groups or stripes.
    pub parts: Vec<PartInspection>,
}

/// Format of a file.
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

/// A column, or a nested field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaNode {
    /// Name of the field itself.
    pub name: String,
    /// Type, in the terms of the format.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Physical type of Parquet, if it differs from the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_type: Option<String>,
    /// Set if it may be null.
    pub nullable: bool,
    /// Set if it may repeat.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Nested fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<SchemaNode>,
}

/// A column over all parts of a file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ColumnInspection {
    /// Dotted path.
    pub name: String,
    /// Type, in the terms of the format.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Encodings of its values.
    pub encodings: Vec<String>,
    /// Compression codec.
    pub codecs: Vec<String>,
    /// Number of parts that have it.
    pub chunks: u64,
    /// Number of parts in which all of its values are in a dictionary.
    pub dictionary_chunks: u64,
    /// Number of parts in which some, or possibly all, of its values are in a dictionary: some files do not record
    /// it.
    pub partly_dictionary_chunks: u64,
    /// Bytes in the file.
    pub compressed_size: u64,
    /// Bytes before compression; `None` if unknown.
    pub uncompressed_size: Option<u64>,
    /// Number of values, nulls included; `None` if unknown.
    pub values: Option<u64>,
    /// Number of nulls; `None` if unknown.
    pub nulls: Option<u64>,
    /// Lower bound of the values, not necessarily tight; `None` if unknown for a part.
    pub min: Option<BoundValue>,
    /// Upper bound of the values, not necessarily tight; `None` if unknown for a part.
    pub max: Option<BoundValue>,
    /// Number of parts with an index of its pages or strides.
    pub indexed_chunks: u64,
    /// Number of parts with a bloom filter for it.
    pub bloom_filter_chunks: u64,
}

/// A row group or stripe.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PartInspection {
    /// Number of rows.
    pub rows: u64,
    /// Offset in the file; `None` if its columns are in other files.
    pub offset: Option<u64>,
    /// Bytes in the file.
    pub compressed_size: u64,
    /// Bytes before compression; `None` if unknown.
    pub uncompressed_size: Option<u64>,
    /// Columns by which its rows are sorted, such as `a` or `b desc nulls first`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sorted_by: Vec<String>,
    /// Leaf columns, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ChunkInspection>,
    /// Ranges of the part itself: in ORC the index of the root and the footer of the stripe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<FileExtent>,
}

/// A column within a row group or stripe.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ChunkInspection {
    /// Dotted path.
    pub name: String,
    /// Encodings of its values.
    pub encodings: Vec<String>,
    /// Compression codec.
    pub codec: String,
    /// Extent of dictionary encoding.
    pub dictionary: DictionaryUse,
    /// Number of values of the dictionary; `None` if there is none or the number is unknown.
    pub dictionary_values: Option<u64>,
    /// Number of data pages; `None` if unknown.
    pub pages: Option<u64>,
    /// Bytes in the file.
    pub compressed_size: u64,
    /// Bytes before compression; `None` if unknown.
    pub uncompressed_size: Option<u64>,
    /// Number of values, nulls included; `None` if unknown.
    pub values: Option<u64>,
    /// Number of nulls; `None` if unknown.
    pub nulls: Option<u64>,
    /// Lower bound of the values.
    pub min: Option<BoundValue>,
    /// Upper bound of the values.
    pub max: Option<BoundValue>,
    /// Set if its pages or strides have an index.
    pub indexed: bool,
    /// Set if it has a bloom filter.
    pub bloom_filter: bool,
    /// Ranges in the file; none if it is in another file. In Parquet, a dictionary page without its own offset
    /// counts as data, and a bloom filter without a length is left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<FileExtent>,
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileExtent {
    /// Content of the range.
    pub content: ExtentContent,
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
}

/// Content of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtentContent {
    /// Values and, in Parquet, page headers and levels; in ORC, all data streams except those of dictionaries.
    Data,
    /// Values of a dictionary, and in ORC their lengths.
    Dictionary,
    /// Index of pages or strides.
    Index,
    /// Bloom filter.
    BloomFilter,
    /// Footer of a stripe.
    Footer,
}

/// Extent of dictionary encoding of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DictionaryUse {
    /// No page.
    None,
    /// Some of its pages, or possibly all, if the footer does not count them.
    Some,
    /// All of its pages.
    All,
}

impl ColumnInspection {
    /// Creates a column without any part.
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

    /// Adds the column's chunk of one more part, except its bounds.
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

/// Adds two numbers; unknown if either is.
pub(super) fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_add(b?)
}
