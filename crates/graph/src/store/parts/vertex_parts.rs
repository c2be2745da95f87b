//! Vertices of a type in one version: bases and deltas by ranges of indexes, under patches, without deleted vertices.

use std::{pin::pin, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, new_empty_array},
    compute::interleave,
    datatypes::FieldRef,
};
use futures::FutureExt;
use smallvec::SmallVec;

use super::vertex_part::{VertexPart, VertexPartColumns};
use crate::{
    Error, Result,
    store::{
        access::{Access, poll_once},
        base::{BaseColumnSelection, vertices::VertexBase},
        budgeted::Budgeted,
        delta::{
            deletion::DeletionSet,
            rows::{ColumnArrays, arrow_error},
            vertices::VertexPatch,
        },
        log::record::VertexState,
    },
};

/// All vertices of a type in a version.
pub(crate) struct VertexParts {
    pub(crate) state: VertexState,
    /// Disjoint ranges of indexes, ascending.
    pub(crate) parts: Vec<VertexPart>,
    /// In order of commits: later ones take precedence.
    pub(crate) patches: Vec<Arc<Budgeted<VertexPatch>>>,
    pub(crate) deleted: Arc<Budgeted<DeletionSet>>,
}

/// Columns of vertices, located in parts and patches.
pub(crate) struct VertexSelection {
    pub(crate) fields: Arc<[FieldRef]>,
    parts: Vec<VertexPartColumns>,
    /// Per field, the patches that have it and their column, newest first.
    patches: Vec<Vec<(usize, usize)>>,
}

/// Vertices taken from one part, and their rows in the result.
struct PartVertexIndexes<'a> {
    part: usize,
    indexes: std::borrow::Cow<'a, [i64]>,
}

impl VertexSelection {
    /// Returns the columns' positions in a part.
    pub(crate) fn columns(&self, part: usize) -> Option<&VertexPartColumns> {
        self.parts.get(part)
    }
}

impl VertexParts {
    /// Returns the name of the type for errors.
    pub(crate) fn name(&self) -> &str {
        &self.state.schema.name
    }

    pub(crate) fn select(&self, fields: Arc<[FieldRef]>) -> VertexSelection {
        let parts = self.parts.iter().map(|part| part.columns(&fields)).collect();
        let of_field = |field: &FieldRef| {
            let patches = self.patches.iter().enumerate().rev();
            patches.filter_map(|(at, patch)| Some((at, patch.rows().position(field.name())?))).collect()
        };
        let patches = fields.iter().map(of_field).collect();
        VertexSelection { fields, parts, patches }
    }

    /// Returns true if a vertex has this index.
    #[inline]
    pub(crate) fn is_there(&self, index: i64) -> bool {
        u64::try_from(index).is_ok_and(|index| index < self.state.next && !self.deleted.contains(index))
    }

    fn check(&self, indexes: &[i64]) -> Result<()> {
        match indexes.iter().find(|index| !self.is_there(**index)) {
            None => Ok(()),
            Some(index) => Err(self.no_vertex(*index)),
        }
    }

    pub(crate) fn no_vertex(&self, index: i64) -> Error {
        let count = self.state.next;
        match u64::try_from(index) {
            Ok(known) if known < count => Error::NoSuchVertex {
                vertex_type: self.name().to_owned(),
                vertex: format!("with index {index}"),
            },
            _ => Error::OutOfRange { of: format!("vertices of type {}", self.name()), index, count },
        }
    }

    fn part_of(&self, index: i64) -> usize {
        self.parts.partition_point(|part| part.range().end <= index as u64)
    }

    /// Groups vertices by part into shares, and returns the share and row of each vertex. If the latter are empty, a
    /// single share has all vertices in order.
    fn group_by_part<'a>(
        &self,
        indexes: &'a [i64],
    ) -> (SmallVec<[PartVertexIndexes<'a>; 4]>, Vec<(usize, usize)>) {
        let mut shares: SmallVec<[PartVertexIndexes<'a>; 4]> = SmallVec::new();
        let Some(first) = indexes.first() else { return (shares, Vec::new()) };
        let part = self.part_of(*first);
        let range = self.parts.get(part).map_or(0..0, VertexPart::range);
        if indexes.iter().all(|index| range.contains(&(*index as u64))) {
            shares.push(PartVertexIndexes { part, indexes: indexes.into() });
            return (shares, Vec::new());
        }

        let mut rows = Vec::with_capacity(indexes.len());
        let mut share_of: Vec<Option<usize>> = vec![None; self.parts.len()];
        for index in indexes {
            let part = self.part_of(*index);
            let Some(known) = share_of.get_mut(part) else { continue };
            let at = *known.get_or_insert_with(|| {
                shares.push(PartVertexIndexes { part, indexes: Vec::new().into() });
                shares.len() - 1
            });

            if let Some(share) = shares.get_mut(at) {
                rows.push((at, share.indexes.len()));
                share.indexes.to_mut().push(*index);
            }
        }

        (shares, rows)
    }

    /// Returns [`Self::take`] if everything required is in memory.
    pub(crate) fn take_cached(&self, indexes: &[i64], of: &VertexSelection) -> Option<Result<ColumnArrays>> {
        if let Some((base, selection)) = self.only_base(of) {
            return match self.check(indexes) {
                Ok(()) => Some(base.take_cached(indexes, selection)?.map(Into::into)),
                Err(error) => Some(Err(error)),
            };
        }

        poll_once(pin!(self.take_all(Access::Resident, indexes, of)))
    }

    /// Reads columns of these vertices, in this order and with repetitions.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertex`] and [`Error::OutOfRange`].
    pub(crate) async fn take(
        &self,
        access: Access,
        indexes: &[i64],
        of: &VertexSelection,
    ) -> Result<ColumnArrays> {
        if let Some((base, selection)) = self.only_base(of) {
            self.check(indexes)?;
            if let Some(taken) = base.take_cached(indexes, selection) {
                return taken.map(Into::into);
            }
        }
        self.take_all(access, indexes, of).boxed().await
    }

    /// Returns the only part and its columns if it is a base without patches, as in most stores.
    fn only_base<'a>(&'a self, of: &'a VertexSelection) -> Option<(&'a VertexBase, &'a BaseColumnSelection)> {
        match (self.parts.as_slice(), of.parts.as_slice(), self.patches.as_slice()) {
            ([VertexPart::Base(base)], [VertexPartColumns::Base(selection)], []) => Some((base, selection)),
            _ => None,
        }
    }

    /// Takes columns from all parts, then applies patches.
    async fn take_all(&self, access: Access, indexes: &[i64], of: &VertexSelection) -> Result<ColumnArrays> {
        self.check(indexes)?;
        let (shares, rows) = self.group_by_part(indexes);
        let parts = shares.iter().filter_map(|share| {
            Some((self.parts.get(share.part)?, of.parts.get(share.part)?, &share.indexes))
        });
        let taken = access
            .read_all(parts, |(part, columns, indexes)| part.take(access, indexes, columns, &of.fields))
            .await?;
        self.patched(access, indexes, reorder_rows(taken, &rows, &of.fields)?, of).await
    }

    /// Applies patches to columns of the vertices.
    pub(crate) async fn patched(
        &self,
        access: Access,
        indexes: &[i64],
        columns: ColumnArrays,
        of: &VertexSelection,
    ) -> Result<ColumnArrays> {
        let mut patched = ColumnArrays::new();
        for (at, column) in columns.into_iter().enumerate() {
            let hits = self.hits(indexes, of, at);
            let mut news = Vec::with_capacity(hits.columns.len());
            for (patch, position) in &hits.columns {
                if let Some(patch) = self.patches.get(*patch) {
                    news.extend(patch.rows().get_with(access, &[*position]).await?);
                }
            }
            patched.push(hits.apply(column, &news)?);
        }

        Ok(patched)
    }

    /// Returns the rows of patches that replace values of a column.
    fn hits(&self, indexes: &[i64], of: &VertexSelection, field: usize) -> PatchHits {
        let patches = of.patches.get(field).map(Vec::as_slice).unwrap_or_default();
        let mut hits = PatchHits::default();
        if patches.is_empty() {
            return hits;
        }
        for (row, index) in indexes.iter().enumerate() {
            let found = patches.iter().find_map(|(patch, position)| {
                let row = self.patches.get(*patch)?.row(*index)?;
                Some(((*patch, *position), row))
            });
            if let Some((column, from)) = found {
                let known = hits.columns.iter().position(|known| *known == column);
                let at = known.unwrap_or_else(|| {
                    hits.columns.push(column);
                    hits.columns.len() - 1
                });
                hits.rows.push((row, at, from));
            }
        }

        hits
    }
}

/// Values that patches replace: the row of the column, the column of the patch, and the row of that column.
#[derive(Default)]
struct PatchHits {
    columns: SmallVec<[(usize, usize); 4]>,
    rows: Vec<(usize, usize, usize)>,
}

impl PatchHits {
    fn apply(&self, column: ArrayRef, news: &[ArrayRef]) -> Result<ArrayRef> {
        if self.rows.is_empty() {
            return Ok(column);
        }
        let mut indices: Vec<(usize, usize)> = (0..column.len()).map(|row| (0, row)).collect();
        for (row, at, from) in &self.rows {
            if let Some(index) = indices.get_mut(*row) {
                *index = (at + 1, *from);
            }
        }

        let arrays: Vec<&dyn Array> = std::iter::once(&column).chain(news).map(AsRef::as_ref).collect();
        interleave(&arrays, &indices).map_err(|error| arrow_error("vertices and patches", error))
    }
}

/// Returns the rows of shares in the requested order.
fn reorder_rows(
    mut taken: SmallVec<[ColumnArrays; 2]>,
    rows: &[(usize, usize)],
    fields: &[FieldRef],
) -> Result<ColumnArrays> {
    if rows.is_empty() {
        let empty = || fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        return Ok(taken.pop().unwrap_or_else(empty));
    }
    let mut columns = ColumnArrays::new();
    for at in 0..fields.len() {
        let of: Vec<&dyn Array> =
            taken.iter().filter_map(|arrays| arrays.get(at)).map(AsRef::as_ref).collect();
        columns.push(interleave(&of, rows).map_err(|error| arrow_error("vertices of parts", error))?);
    }

    Ok(columns)
}
