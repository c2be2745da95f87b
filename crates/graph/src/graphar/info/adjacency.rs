//! Adjacency lists of an edge type: the end that aligns them, and their order.

use std::{fmt, str::FromStr};

use serde::Serialize;

use super::property::FileType;
use crate::{Direction, UnknownNameError};

/// End of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Vertex where the edge begins.
    Source,
    /// Vertex where the edge ends.
    Dest,
}

impl Direction {
    /// Returns the side of the vertices whose neighbours are requested.
    pub(in crate::graphar) fn side(self) -> Side {
        match self {
            Self::Out => Side::Source,
            Self::In => Side::Dest,
        }
    }

    /// Returns the side of the neighbours.
    pub(in crate::graphar) fn other_side(self) -> Side {
        match self {
            Self::Out => Side::Dest,
            Self::In => Side::Source,
        }
    }
}

/// Order of an adjacency list: the side whose vertex chunks partition it, and the order within a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdjacencyOrder {
    /// Parts by source, edges in any order (COO).
    UnorderedBySource,
    /// Parts by destination, edges in any order (COO).
    UnorderedByDest,
    /// Parts by source, edges sorted by it, with offsets (CSR).
    OrderedBySource,
    /// Parts by destination, edges sorted by it, with offsets (CSC).
    OrderedByDest,
}

impl AdjacencyOrder {
    /// Returns the order with or without sorting, aligned by this side.
    pub fn new(ordered: bool, aligned_by: Side) -> Self {
        match (ordered, aligned_by) {
            (false, Side::Source) => Self::UnorderedBySource,
            (false, Side::Dest) => Self::UnorderedByDest,
            (true, Side::Source) => Self::OrderedBySource,
            (true, Side::Dest) => Self::OrderedByDest,
        }
    }

    /// Returns true if the edges of a part are sorted, with offsets of each vertex's edges.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::OrderedBySource | Self::OrderedByDest)
    }

    /// Returns the end whose vertex chunk decides the part of an edge.
    pub fn aligned_by(self) -> Side {
        match self {
            Self::UnorderedBySource | Self::OrderedBySource => Side::Source,
            Self::UnorderedByDest | Self::OrderedByDest => Side::Dest,
        }
    }
}

impl fmt::Display for AdjacencyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnorderedBySource => "unordered_by_source",
            Self::UnorderedByDest => "unordered_by_dest",
            Self::OrderedBySource => "ordered_by_source",
            Self::OrderedByDest => "ordered_by_dest",
        })
    }
}

impl FromStr for AdjacencyOrder {
    type Err = UnknownNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "unordered_by_source" => Ok(Self::UnorderedBySource),
            "unordered_by_dest" => Ok(Self::UnorderedByDest),
            "ordered_by_source" => Ok(Self::OrderedBySource),
            "ordered_by_dest" => Ok(Self::OrderedByDest),
            _ => Err(UnknownNameError {
                kind: "order of edges",
                name: name.to_owned(),
                known: "unordered_by_source, unordered_by_dest, ordered_by_source or ordered_by_dest",
            }),
        }
    }
}

/// One list of all edges of a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Adjacency {
    /// Arrangement of its edges.
    pub order: AdjacencyOrder,
    /// Format of its files.
    pub file_type: FileType,
    /// Folder of its files within those of the edge type: empty, or with a trailing slash.
    pub prefix: String,
}

impl Adjacency {
    /// Returns a list with the default prefix, such as `ordered_by_source/`.
    pub fn new(order: AdjacencyOrder, file_type: FileType) -> Self {
        Self { order, file_type, prefix: format!("{order}/") }
    }
}
