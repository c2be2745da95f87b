//! Description of the vertices of one type, and the paths of their files.

use std::collections::HashSet;

use serde::Serialize;

use super::{
    key_error::InfoKeyError,
    prefix,
    property::{self, Property, PropertyGroup},
    strictness::Strictness,
};

/// Vertices of one type. Paths are relative to the graph's prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VertexInfo {
    /// Name of the type.
    #[serde(rename = "type")]
    pub vertex_type: String,
    /// Vertices per chunk; the last has fewer. At least 1.
    pub chunk_size: u64,
    /// Folder of its files: empty, or with a trailing slash.
    pub prefix: String,
    /// Labels that vertices may have.
    pub labels: Vec<String>,
    /// Properties, grouped by file.
    #[serde(rename = "property_groups")]
    pub groups: Vec<PropertyGroup>,
}

impl VertexInfo {
    /// Returns a type with the default prefix (the type and a slash), without labels and properties.
    pub fn new(vertex_type: impl Into<String>, chunk_size: u64) -> Self {
        let vertex_type = vertex_type.into();
        Self {
            prefix: format!("{vertex_type}/"),
            vertex_type,
            chunk_size,
            labels: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Returns the path of a chunk of `group`.
    pub fn chunk_path(&self, group: &PropertyGroup, chunk: u64) -> String {
        format!("{}{}chunk{chunk}", self.prefix, group.prefix)
    }

    /// Returns the path of the file with the number of vertices: 8 bytes, little-endian.
    pub fn count_path(&self) -> String {
        format!("{}vertex_count", self.prefix)
    }

    /// Returns the path of the Parquet file with the labels of a chunk, one boolean column per label.
    pub fn label_path(&self, chunk: u64) -> String {
        format!("{}labels/chunk{chunk}", self.prefix)
    }

    /// Finds a property: returns the position of its group, its position within the group, and the property.
    pub fn property(&self, name: &str) -> Option<(usize, usize, &Property)> {
        property::find(&self.groups, name)
    }

    /// Returns the primary key; the first if several are declared.
    pub fn primary(&self) -> Option<&Property> {
        self.groups.iter().flat_map(|group| &group.properties).find(|property| property.is_primary)
    }

    /// Returns the number of chunks that `vertices` vertices fill.
    pub fn chunks(&self, vertices: u64) -> u64 {
        vertices.div_ceil(self.chunk_size.max(1))
    }

    pub(super) fn check(&self, strictness: Strictness) -> Result<(), InfoKeyError> {
        check_name("type", &self.vertex_type)?;
        check_size("chunk_size", self.chunk_size)?;
        prefix::usable(&self.prefix).map_err(|reason| InfoKeyError::new("prefix", reason))?;
        if strictness.is_strict() {
            check_distinct("labels", self.labels.iter().map(String::as_str))?;
        }
        property::check_groups(&self.groups, strictness)
    }
}

pub(super) fn check_name(key: &str, name: &str) -> Result<(), InfoKeyError> {
    if name.is_empty() { Err(InfoKeyError::new(key, "is empty")) } else { Ok(()) }
}

/// Rejects chunk sizes beyond 63 bits, since readers use signed 64-bit integers.
pub(super) fn check_size(key: &str, size: u64) -> Result<(), InfoKeyError> {
    match i64::try_from(size) {
        Ok(0) => Err(InfoKeyError::new(key, "must be at least 1, not 0")),
        Ok(_) => Ok(()),
        Err(_) => Err(InfoKeyError::new(key, format!("must be at most {}, not {size}", i64::MAX))),
    }
}

/// Rejects duplicate names; the key of the error includes the position of the duplicate.
pub(super) fn check_distinct<'a>(
    key: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), InfoKeyError> {
    let mut seen = HashSet::new();
    for (i, name) in names.enumerate() {
        check_name(&format!("{key}[{i}]"), name)?;
        if !seen.insert(name) {
            return Err(InfoKeyError::new(format!("{key}[{i}]"), format!("{name:?} is there twice")));
        }
    }
    Ok(())
}
