//! Directions in which edges are followed.

/// Direction in which edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From source to destination.
    Out,
    /// From destination to source.
    In,
}
