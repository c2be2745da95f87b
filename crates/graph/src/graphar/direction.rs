//! The two ways in which the edges of a vertex are followed.

use super::info::Side;

/// Which way edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the vertex that an edge leaves to the one that it enters.
    Out,
    /// From the vertex that an edge enters to the one that it leaves.
    In,
}

impl Direction {
    /// The side that the vertex is on whose neighbours are asked for.
    pub(super) fn side(self) -> Side {
        match self {
            Self::Out => Side::Source,
            Self::In => Side::Dest,
        }
    }

    /// The side that the neighbours are on.
    pub(super) fn other_side(self) -> Side {
        match self {
            Self::Out => Side::Dest,
            Self::In => Side::Source,
        }
    }
}
