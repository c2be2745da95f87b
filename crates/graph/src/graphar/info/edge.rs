//! Description of the edges of one type, and the paths of their files.

use serde::Serialize;

use super::{
    adjacency::{Adjacency, AdjacencyOrder, Side},
    key_error::InfoKeyError,
    prefix,
    property::{self, Cardinality, Property, PropertyGroup},
    strictness::Strictness,
    vertex::{check_name, check_size},
};

/// Edges of one type between two types of vertices. Paths are relative to the graph's prefix.
///
/// Each list is partitioned by the chunks of the vertices that it is aligned by, and each part is split into chunks of
/// edges, numbered from 0 within the part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EdgeInfo {
    /// Type of the vertices where edges begin.
    pub src_type: String,
    /// Name of the edge type.
    pub edge_type: String,
    /// Type of the vertices where edges end.
    pub dst_type: String,
    /// Edges per chunk; the last of a part has fewer. At least 1.
    pub chunk_size: u64,
    /// Sources per part of a list by source. At least 1.
    pub src_chunk_size: u64,
    /// Destinations per part of a list by destination. At least 1.
    pub dst_chunk_size: u64,
    /// True if an edge from `a` to `b` differs from one from `b` to `a`.
    pub directed: bool,
    /// Folder of its files: empty, or with a trailing slash.
    pub prefix: String,
    /// Lists of the edges: at least one, and at most one per order.
    #[serde(rename = "adj_lists")]
    pub adjacencies: Vec<Adjacency>,
    /// Properties, grouped by file. Each list has its own copy of the files.
    #[serde(rename = "property_groups")]
    pub groups: Vec<PropertyGroup>,
}

impl EdgeInfo {
    /// Returns the path of a list's chunk, which holds source and destination indexes.
    pub fn adjacency_path(&self, adjacency: &Adjacency, part: u64, chunk: u64) -> String {
        format!("{}{}adj_list/part{part}/chunk{chunk}", self.prefix, adjacency.prefix)
    }

    /// Returns the path of a part's offsets: the start of each vertex's edges within the part.
    pub fn offset_path(&self, adjacency: &Adjacency, part: u64) -> String {
        format!("{}{}offset/chunk{part}", self.prefix, adjacency.prefix)
    }

    /// Returns the path of a chunk of `group`, with the edges in the order of `adjacency`.
    pub fn property_path(
        &self,
        adjacency: &Adjacency,
        group: &PropertyGroup,
        part: u64,
        chunk: u64,
    ) -> String {
        format!("{}{}{}part{part}/chunk{chunk}", self.prefix, adjacency.prefix, group.prefix)
    }

    /// Returns the path of the file with the number of vertices that a list is aligned by: 8 bytes, little-endian.
    pub fn vertex_count_path(&self, adjacency: &Adjacency) -> String {
        format!("{}{}vertex_count", self.prefix, adjacency.prefix)
    }

    /// Returns the path of the file with the number of edges of a part: 8 bytes, little-endian.
    pub fn edge_count_path(&self, adjacency: &Adjacency, part: u64) -> String {
        format!("{}{}edge_count{part}", self.prefix, adjacency.prefix)
    }

    /// Returns the number of vertices per part of the list of this order.
    pub fn part_size(&self, order: AdjacencyOrder) -> u64 {
        match order.aligned_by() {
            Side::Source => self.src_chunk_size,
            Side::Dest => self.dst_chunk_size,
        }
    }

    /// Finds a property: returns the position of its group, its position within the group, and the property.
    pub fn property(&self, name: &str) -> Option<(usize, usize, &Property)> {
        property::find(&self.groups, name)
    }

    /// Returns the full name of the type, such as `person_knows_person`.
    pub fn name(&self) -> String {
        format!("{}_{}_{}", self.src_type, self.edge_type, self.dst_type)
    }

    /// Returns the list of this order.
    pub fn adjacency(&self, order: AdjacencyOrder) -> Option<&Adjacency> {
        self.adjacencies.iter().find(|adjacency| adjacency.order == order)
    }

    pub(super) fn check(&self, strictness: Strictness) -> Result<(), InfoKeyError> {
        check_name("src_type", &self.src_type)?;
        check_name("edge_type", &self.edge_type)?;
        check_name("dst_type", &self.dst_type)?;
        check_size("chunk_size", self.chunk_size)?;
        check_size("src_chunk_size", self.src_chunk_size)?;
        check_size("dst_chunk_size", self.dst_chunk_size)?;
        prefix::usable(&self.prefix).map_err(|reason| InfoKeyError::new("prefix", reason))?;
        self.check_adjacencies()?;
        property::check_groups(&self.groups, strictness)?;
        self.check_cardinalities()
    }

    fn check_adjacencies(&self) -> Result<(), InfoKeyError> {
        if self.adjacencies.is_empty() {
            return Err(InfoKeyError::new("adj_lists", "is empty"));
        }
        for (i, adjacency) in self.adjacencies.iter().enumerate() {
            prefix::usable(&adjacency.prefix)
                .map_err(|reason| InfoKeyError::new(format!("adj_lists[{i}].prefix"), reason))?;
            let first = self.adjacencies.iter().position(|other| other.order == adjacency.order).unwrap_or(i);
            if first != i {
                let reason = format!("adj_lists[{first}] is {} too", adjacency.order);
                return Err(InfoKeyError::new(format!("adj_lists[{i}]"), reason));
            }
        }

        Ok(())
    }

    /// Rejects cardinalities: only vertex properties have one; edge properties with several values have list types.
    fn check_cardinalities(&self) -> Result<(), InfoKeyError> {
        for (i, group) in self.groups.iter().enumerate() {
            if let Some(j) = group.properties.iter().position(|it| it.cardinality != Cardinality::Single) {
                let key = format!("property_groups[{i}].properties[{j}].cardinality");
                return Err(InfoKeyError::new(key, "properties of edges have one value"));
            }
        }
        Ok(())
    }
}
