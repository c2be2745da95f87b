//! Offsets of a part: the start of each vertex's edges within the part, and the end of the last.

use arrow::array::{Array, Int64Array};

use super::{
    info::{Adjacency, EdgeInfo},
    place::GraphFolder,
};
use crate::{Error, Result};

/// Bounds of the edges of a part's vertices.
pub(super) struct PartOffsets<'a> {
    pub(super) place: &'a GraphFolder,
    pub(super) info: &'a EdgeInfo,
    pub(super) adjacency: &'a Adjacency,
    pub(super) part: u64,
    /// `None` if the part has neither edges nor files.
    pub(super) array: Option<Int64Array>,
}

impl PartOffsets<'_> {
    fn file(&self) -> String {
        self.place.name(&self.info.offset_path(self.adjacency, self.part))
    }

    /// Returns the number of edges according to the offsets, if these exist.
    pub(super) fn edges(&self) -> Option<u64> {
        self.array.as_ref()?.values().last().map(|last| *last as u64)
    }

    /// Returns the error of a part whose number of edges differs from its offsets.
    pub(super) fn disagree(&self, offsets: u64, edges: u64) -> Error {
        let reason = format!("offsets of {offsets} edges, where the part has {edges}");
        Error::Data { file: self.file(), reason }
    }

    /// Checks that offsets ascend from 0.
    pub(super) fn check(&self) -> Result<()> {
        let Some(array) = &self.array else { return Ok(()) };
        let wrong = |reason: &str| Err(Error::Data { file: self.file(), reason: reason.to_owned() });
        match array.values().first() {
            _ if array.null_count() > 0 => wrong("an offset is null"),
            Some(0) if array.values().is_sorted() => Ok(()),
            Some(0) => wrong("the offsets do not ascend"),
            _ => wrong("the offsets do not begin with 0"),
        }
    }

    /// Returns the rows, within the part, of the edges of a vertex, which is counted from the first of the part.
    #[inline]
    pub(super) fn of(&self, vertex: u64) -> Result<std::ops::Range<u64>> {
        let Some(array) = &self.array else { return Ok(0..0) };
        let values = array.values();
        let at = vertex as usize;
        match (values.get(at), values.get(at + 1)) {
            (Some(start), Some(end)) if 0 <= *start && start <= end => Ok(*start as u64..*end as u64),
            _ => Err(Error::Data {
                file: self.file(),
                reason: format!("there are no offsets of vertex {vertex} of the chunk"),
            }),
        }
    }
}
