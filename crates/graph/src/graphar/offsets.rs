//! Where the edges of each vertex of a part begin within the part, and where those of the last end.

use arrow::array::{Array, Int64Array};

use super::{
    info::{Adjacency, EdgeInfo},
    place::GraphFolder,
};
use crate::{Error, Result};

/// Where the edges of the vertices of a part begin and end.
pub(super) struct PartOffsets<'a> {
    pub(super) place: &'a GraphFolder,
    pub(super) info: &'a EdgeInfo,
    pub(super) adjacency: &'a Adjacency,
    pub(super) part: u64,
    /// `None` where the part has no edges, nor files.
    pub(super) array: Option<Int64Array>,
}

impl PartOffsets<'_> {
    fn file(&self) -> String {
        self.place.name(&self.info.offset_path(self.adjacency, self.part))
    }

    /// How many edges they are of, if they are there.
    pub(super) fn edges(&self) -> Option<u64> {
        self.array.as_ref()?.values().last().map(|last| *last as u64)
    }

    /// That the edges of the part are not as many as its offsets say.
    pub(super) fn disagree(&self, offsets: u64, edges: u64) -> Error {
        let reason = format!("offsets of {offsets} edges, where the part has {edges}");
        Error::Data { file: self.file(), reason }
    }

    /// That they ascend from 0.
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

    /// The rows, within the part, of the edges of a vertex, which is counted from the first of the part.
    #[inline]
    pub(super) fn of(&self, vertex: u64) -> Result<std::ops::Range<u64>> {
        let Some(array) = &self.array else { return Ok(0..0) };
        let (values, at) = (array.values(), vertex as usize);
        match (values.get(at), values.get(at + 1)) {
            (Some(start), Some(end)) if 0 <= *start && start <= end => Ok(*start as u64..*end as u64),
            _ => Err(Error::Data {
                file: self.file(),
                reason: format!("there are no offsets of vertex {vertex} of the chunk"),
            }),
        }
    }
}
