//! Changes that commits add on top of bases: rows, patches and deletions.

pub(super) mod deletion;
pub(super) mod edges;
pub(super) mod rows;
pub(super) mod vertices;
