//! Finds the indexes of vertices by key: newest parts first, without deleted vertices.

use arrow::{
    array::{Array, ArrayRef, UInt32Array},
    compute::take,
};

use super::{vertex_part::VertexPart, vertex_parts::VertexParts};
use crate::{
    Error, Result,
    store::{
        access::Access,
        delta::{
            rows::arrow_error,
            vertices::{KeyColumnReader, VertexDelta},
        },
    },
};

/// Lookup of keys, newest part first.
struct VertexKeySearch<'a> {
    of: &'a VertexParts,
    keys: &'a ArrayRef,
    column: KeyColumnReader<'a>,
    found: Vec<Option<i64>>,
}

impl<'a> VertexKeySearch<'a> {
    fn new(of: &'a VertexParts, keys: &'a ArrayRef) -> Result<Self> {
        let wrong = || Error::Column {
            of: format!("vertices of type {}", of.name()),
            column: of.state.schema.key.clone(),
            reason: format!("keys are {}, not {}", of.state.schema.key_type(), keys.data_type()),
        };
        let column = KeyColumnReader::new(keys).ok_or_else(wrong)?;
        Ok(Self { of, keys, column, found: vec![None; keys.len()] })
    }

    fn in_delta(&mut self, delta: &VertexDelta) {
        for (row, found) in self.found.iter_mut().enumerate() {
            if found.is_none() && self.keys.is_valid(row) {
                *found = delta.find(self.column.at(row), |index| !self.of.deleted.contains(index));
            }
        }
    }

    /// Returns the keys that are still missing; `None` if all were found.
    fn missing(&self) -> Option<Result<ArrayRef>> {
        let count = self.found.iter().filter(|found| found.is_none()).count();
        if count == 0 {
            return None;
        }
        if count == self.found.len() {
            return Some(Ok(self.keys.clone()));
        }
        let rows = self.found.iter().enumerate().filter(|(_, found)| found.is_none());
        let rows: UInt32Array = rows.map(|(row, _)| row as u32).collect::<Vec<_>>().into();
        Some(take(self.keys, &rows, None).map_err(|error| arrow_error("keys", error)))
    }

    /// Fills in results for the missing keys.
    fn fill(&mut self, found: &[Option<i64>]) {
        let missing = self.found.iter_mut().filter(|found| found.is_none());
        for (to, found) in missing.zip(found) {
            *to = found.filter(|index| !self.of.deleted.contains(*index as u64));
        }
    }
}

impl VertexParts {
    /// Returns the index of the vertex of each key that exists. Keys have the type of the key's column.
    pub(crate) async fn indexes_of(&self, access: Access, keys: &ArrayRef) -> Result<Vec<Option<i64>>> {
        let mut search = VertexKeySearch::new(self, keys)?;
        for part in self.parts.iter().rev() {
            match part {
                VertexPart::Delta(delta) => search.in_delta(delta),
                VertexPart::Base(base) => {
                    let Some(missing) = search.missing() else { break };
                    let missing = missing?;
                    let resident = || base.indexes_of_cached(&missing);
                    let found = access.read(resident, || base.indexes_of(&missing)).await?;
                    search.fill(&found);
                }
            }
        }

        Ok(search.found)
    }
}
