//! Parts of a version: bases and deltas of a type, read as one without deleted rows.

pub(super) mod edge_part;
pub(super) mod edge_parts;
pub(super) mod vertex_part;
pub(super) mod vertex_parts;
pub(super) mod vertex_search;
