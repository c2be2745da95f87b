//! Base or delta with vertices of a type.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, UInt32Array, new_null_array},
    compute::take,
    datatypes::FieldRef,
};
use smallvec::SmallVec;

use crate::{
    Result,
    store::{
        access::Access,
        base::{BaseColumnSelection, vertices::VertexBase},
        budgeted::Budgeted,
        delta::{
            rows::{ColumnArrays, arrow_error},
            vertices::VertexDelta,
        },
    },
};

/// Base or delta.
pub(crate) enum VertexPart {
    Base(Arc<Budgeted<VertexBase>>),
    Delta(Arc<Budgeted<VertexDelta>>),
}

/// Positions of the requested columns in a part: resolved once per view.
pub(crate) enum VertexPartColumns {
    Base(BaseColumnSelection),
    Delta(SmallVec<[Option<usize>; 4]>),
}

impl VertexPart {
    pub(crate) fn range(&self) -> Range<u64> {
        match self {
            Self::Base(base) => base.info().first..base.info().first + base.info().count,
            Self::Delta(delta) => delta.range(),
        }
    }

    pub(crate) fn columns(&self, fields: &[FieldRef]) -> VertexPartColumns {
        match self {
            Self::Base(base) => VertexPartColumns::Base(base.select(fields)),
            Self::Delta(delta) => VertexPartColumns::Delta(
                fields.iter().map(|field| delta.rows().position(field.name())).collect(),
            ),
        }
    }

    pub(crate) async fn take(
        &self,
        access: Access,
        indexes: &[i64],
        columns: &VertexPartColumns,
        fields: &[FieldRef],
    ) -> Result<ColumnArrays> {
        match (self, columns) {
            (Self::Base(base), VertexPartColumns::Base(selection)) => {
                let resident = || base.take_cached(indexes, selection);
                Ok(access.read(resident, || base.take(indexes, selection)).await?.into())
            }
            (Self::Delta(delta), VertexPartColumns::Delta(positions)) => {
                let wanted: SmallVec<[usize; 4]> = positions.iter().flatten().copied().collect();
                let whole = delta.rows().get_with(access, &wanted).await?;
                of_delta(delta, indexes, &whole, positions, fields)
            }
            _ => Ok(ColumnArrays::new()),
        }
    }
}

fn of_delta(
    delta: &VertexDelta,
    indexes: &[i64],
    whole: &[ArrayRef],
    positions: &[Option<usize>],
    fields: &[FieldRef],
) -> Result<ColumnArrays> {
    let first = delta.range().start as i64;
    let rows: UInt32Array = indexes.iter().map(|index| (index - first) as u32).collect::<Vec<_>>().into();
    let mut whole = whole.iter();
    let columns =
        positions.iter().zip(fields).map(|(position, field)| match position.and_then(|_| whole.next()) {
            Some(column) => {
                take(column, &rows, None).map_err(|error| arrow_error("vertices of a delta", error))
            }
            None => Ok(new_null_array(field.data_type(), indexes.len())),
        });
    columns.collect()
}
