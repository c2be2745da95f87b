//! Reads a version: its vertices and edges from bases and deltas, without deleted rows.

pub(super) mod edge_view;
pub(super) mod prewarm;
pub(super) mod scan;
pub(super) mod vertex_view;
pub(super) mod views;
