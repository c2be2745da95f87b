//! Serializable parts of a scan, with everything that the plan of the whole decided.

use std::ops::Range;

use arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};

/// A part of a scan that can be run elsewhere: it carries everything that the whole plan decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanPart {
    pub(super) table: Schema,
    pub(super) schema: Schema,
    pub(super) pieces: Vec<ScanPartFile>,
}

/// Some row groups or stripes of one version of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ScanPartFile {
    pub(super) source: usize,
    pub(super) path: String,
    pub(super) version: String,
    /// Numbers within the file. Serialized as `units`.
    #[serde(rename = "units")]
    pub(super) row_groups: Range<usize>,
    /// Offset of the first byte of the first row group.
    #[serde(default)]
    pub(super) offset: u64,
}

impl ScanPart {
    /// Returns the schema of its batches.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns whether the part reads nothing.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the path and the offset of the first byte that the part reads, if it reads any: a hint for where to run
    /// it. The path is that of the object in its store.
    pub fn first_byte(&self) -> Option<(&str, u64)> {
        self.pieces.first().map(|piece| (piece.path.as_str(), piece.offset))
    }
}

/// The first byte of a row group or stripe: a hint for where to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowGroupStart {
    /// Position of the source of its file among those of the request.
    pub source: usize,
    /// Path of the object in its store.
    pub path: String,
    /// Offset in the object.
    pub offset: u64,
    /// Number of rows.
    pub rows: u64,
}
