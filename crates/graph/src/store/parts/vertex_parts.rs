//! The vertices of a type in one version: bases and deltas by ranges of indexes, under patches, without what was
//! deleted.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, new_empty_array},
    compute::interleave,
    datatypes::FieldRef,
};
use async_recursion::async_recursion as boxed;
use smallvec::SmallVec;

use super::vertex_part::{VertexPart, VertexPartColumns};
use crate::{
    Error, Result,
    store::{
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
    /// Later ones win.
    pub(crate) patches: Vec<Arc<Budgeted<VertexPatch>>>,
    pub(crate) deleted: Arc<Budgeted<DeletionSet>>,
}

/// Columns of vertices, where parts and patches have them.
pub(crate) struct VertexSelection {
    pub(crate) fields: Arc<[FieldRef]>,
    parts: Vec<VertexPartColumns>,
    /// For each field, the patches that have it and where, newest first.
    patches: Vec<Vec<(usize, usize)>>,
}

/// Which vertices are taken of a part, and where in the answer they go.
struct PartVertexIndexes<'a> {
    part: usize,
    indexes: std::borrow::Cow<'a, [i64]>,
}

impl VertexSelection {
    /// Where a part has the columns.
    pub(crate) fn columns(&self, part: usize) -> Option<&VertexPartColumns> {
        self.parts.get(part)
    }
}

impl VertexParts {
    /// How errors call the type.
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

    /// Whether there is a vertex of this index.
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

    /// Vertices by part, and for each where it is: which share, which row of it. One share has them all if the second
    /// is empty.
    fn shares<'a>(&self, indexes: &'a [i64]) -> (SmallVec<[PartVertexIndexes<'a>; 4]>, Vec<(usize, usize)>) {
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

    /// Columns of these vertices, if all that is needed is in memory.
    pub(crate) fn take_cached(&self, indexes: &[i64], of: &VertexSelection) -> Option<Result<ColumnArrays>> {
        if let Err(error) = self.check(indexes) {
            return Some(Err(error));
        }
        let (shares, rows) = self.shares(indexes);
        let mut taken: SmallVec<[ColumnArrays; 2]> = SmallVec::new();
        for share in &shares {
            let (part, columns) = (self.parts.get(share.part)?, of.parts.get(share.part)?);
            match part.take_cached(&share.indexes, columns, &of.fields)? {
                Ok(arrays) => taken.push(arrays),
                Err(error) => return Some(Err(error)),
            }
        }
        let joined = match joined(taken, &rows, &of.fields) {
            Ok(joined) => joined,
            Err(error) => return Some(Err(error)),
        };
        let mut patched = ColumnArrays::new();
        for (at, column) in joined.into_iter().enumerate() {
            let hits = self.hits(indexes, of, at);
            let mut news = Vec::with_capacity(hits.columns.len());
            for (patch, place) in &hits.columns {
                news.push(self.patches.get(*patch)?.rows().cached(*place)?);
            }
            match hits.apply(column, &news) {
                Ok(column) => patched.push(column),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(patched))
    }

    /// Columns of these vertices, in this order and as often as they are given.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertex`] and [`Error::OutOfRange`].
    pub(crate) async fn take(&self, indexes: &[i64], of: &VertexSelection) -> Result<ColumnArrays> {
        if let Some(taken) = self.take_cached(indexes, of) {
            return taken;
        }
        self.load(indexes, of).await
    }

    #[boxed]
    async fn load(&self, indexes: &[i64], of: &VertexSelection) -> Result<ColumnArrays> {
        let (shares, rows) = self.shares(indexes);
        let load = shares.iter().filter_map(|share| {
            let (part, columns) = (self.parts.get(share.part)?, of.parts.get(share.part)?);
            Some(part.take(&share.indexes, columns, &of.fields))
        });
        let taken = futures::future::try_join_all(load).await?;
        self.patched(indexes, joined(taken.into(), &rows, &of.fields)?, of).await
    }

    /// The same columns of the same vertices with what patches say.
    pub(crate) async fn patched(
        &self,
        indexes: &[i64],
        columns: ColumnArrays,
        of: &VertexSelection,
    ) -> Result<ColumnArrays> {
        let mut patched = ColumnArrays::new();
        for (at, column) in columns.into_iter().enumerate() {
            let hits = self.hits(indexes, of, at);
            let mut news = Vec::with_capacity(hits.columns.len());
            for (patch, place) in &hits.columns {
                if let Some(patch) = self.patches.get(*patch) {
                    news.extend(patch.rows().get(&[*place]).await?);
                }
            }
            patched.push(hits.apply(column, &news)?);
        }
        Ok(patched)
    }

    /// Which rows of which patches replace values of a column.
    fn hits(&self, indexes: &[i64], of: &VertexSelection, field: usize) -> PatchHits {
        let patches = of.patches.get(field).map(Vec::as_slice).unwrap_or_default();
        let mut hits = PatchHits::default();
        if patches.is_empty() {
            return hits;
        }
        for (row, index) in indexes.iter().enumerate() {
            let found = patches.iter().find_map(|(patch, place)| {
                let row = self.patches.get(*patch)?.row(*index)?;
                Some(((*patch, *place), row))
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

/// Values that patches replace: row of the column, which patch's column, row in that.
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
        let mut places: Vec<(usize, usize)> = (0..column.len()).map(|row| (0, row)).collect();
        for (row, at, from) in &self.rows {
            if let Some(place) = places.get_mut(*row) {
                *place = (at + 1, *from);
            }
        }
        let arrays: Vec<&dyn Array> = std::iter::once(&column).chain(news).map(AsRef::as_ref).collect();
        interleave(&arrays, &places).map_err(|error| arrow_error("vertices and patches", error))
    }
}

/// Rows of shares in the order in which they were asked for.
fn joined(
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
