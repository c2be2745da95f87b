//! Sides of an edge by the direction in which it is followed.

use super::info::Side;
use crate::Direction;

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
