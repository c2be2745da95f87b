//! Directions in which edges are followed.

use super::info::Side;

/// Direction in which edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From source to destination.
    Out,
    /// From destination to source.
    In,
}

impl Direction {
    /// Returns the side of the vertices whose neighbours are requested.
    pub(super) fn side(self) -> Side {
        match self {
            Self::Out => Side::Source,
            Self::In => Side::Dest,
        }
    }

    /// Returns the side of the neighbours.
    pub(super) fn other_side(self) -> Side {
        match self {
            Self::Out => Side::Dest,
            Self::In => Side::Source,
        }
    }
}
