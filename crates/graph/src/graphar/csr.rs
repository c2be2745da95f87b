//! All edges as one compressed sparse matrix, by rows (CSR) or by columns (CSC).

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    buffer::ScalarBuffer,
    compute::concat,
    datatypes::Int64Type,
};
use async_recursion::async_recursion as boxed;
use futures::TryStreamExt;

use super::{chunk_files::ExpectedRowCount, columns::gathering, edge_list::EdgeColumn, edges::Edges};
use crate::{Direction, Error, Result};

/// Chunks read concurrently.
const MAX_CONCURRENT_CHUNKS: usize = 4;

/// Neighbours of all vertices: those of vertex `v` are `neighbors[offsets[v]..offsets[v + 1]]`.
#[derive(Clone, Debug)]
pub struct Csr {
    /// Start of each vertex's neighbours and the end of the last: one entry more than there are vertices.
    pub offsets: ScalarBuffer<i64>,
    /// Vertex indexes.
    pub neighbors: ScalarBuffer<i64>,
    /// Selected properties, one row per edge.
    pub properties: Vec<ArrayRef>,
}

impl Edges {
    /// Reads all edges by source (CSR) or by destination (CSC). Edges of an unordered list are sorted; those of one
    /// vertex keep their order.
    ///
    /// # Errors
    ///
    /// Same as [`Edges::neighbors`].
    #[boxed]
    pub async fn csr(&self, direction: Direction) -> Result<Csr> {
        let view = self.clone().aligned_by(direction.side())?;
        let mut columns = vec![EdgeColumn::end(direction.other_side())];
        columns.extend(view.properties.iter().copied());
        let is_ordered = view.order().is_ordered();
        if !is_ordered {
            columns.push(EdgeColumn::end(direction.side()));
        }
        let mut arrays = view.all(&columns).await?;
        let keys = if is_ordered { None } else { arrays.pop() };
        let (offsets, arrays) = match keys {
            None => (view.all_offsets().await?, arrays),
            Some(keys) => {
                let (offsets, order) = sorted(&keys, view.vertex_count().await?)?;
                let taken = arrays.iter().map(|array| arrow::compute::take(array, &order, None));
                (offsets, taken.collect::<Result<_, _>>().map_err(gathering)?)
            }
        };

        let mut arrays = arrays.into_iter();
        let neighbors = arrays.next().map(|array| array.as_primitive::<Int64Type>().values().clone());
        let neighbors = neighbors.unwrap_or_else(|| Vec::new().into());
        let edges = offsets.last().copied().unwrap_or(0);
        if edges != neighbors.len() as i64 {
            let reason = format!("offsets of {edges} edges, and {} edges", neighbors.len());
            return Err(Error::Data { file: view.info().name(), reason });
        }

        Ok(Csr { offsets: offsets.into(), neighbors, properties: arrays.collect() })
    }

    /// Reads columns of all edges, in the order of the list.
    async fn all(&self, columns: &[EdgeColumn]) -> Result<Vec<ArrayRef>> {
        let size = self.info().chunk_size;
        let read = self.clone().chunk_numbers().map_ok(|(part, chunk)| async move {
            let edges = self.list.edge_count(part).await?;
            let rows = ExpectedRowCount::Exactly(edges.saturating_sub(chunk.saturating_mul(size)).min(size));
            self.list.get(part, chunk, rows, columns).await
        });
        let read: Vec<_> = read.try_buffered(MAX_CONCURRENT_CHUNKS).try_collect().await?;
        let fields = self.schema();
        let of_properties = fields.fields().iter().skip(2).map(|field| field.data_type().clone());
        let types = std::iter::once(arrow::datatypes::DataType::Int64).chain(of_properties);
        let types: Vec<_> = types.chain([arrow::datatypes::DataType::Int64]).collect();
        let column = |(at, data_type)| {
            let pieces: Vec<&dyn Array> =
                read.iter().filter_map(|chunk| chunk.get(at)).map(AsRef::as_ref).collect();
            if pieces.is_empty() {
                Ok(arrow::array::new_empty_array(data_type))
            } else {
                concat(&pieces).map_err(gathering)
            }
        };

        types.iter().take(columns.len()).enumerate().map(column).collect()
    }

    async fn all_offsets(&self) -> Result<Vec<i64>> {
        let vertices = self.vertex_count().await?;
        let size = self.list.part_size();
        let mut all = Vec::with_capacity(usize::try_from(vertices).unwrap_or(0).min(1 << 24) + 1);
        let mut before = 0_i64;
        for part in 0..self.parts().await? {
            let offsets = self.list.offsets(part).await?;
            let mut end = 0;
            for vertex in 0..size.min(vertices - part * size) {
                let rows = offsets.of(vertex)?;
                all.push(before + rows.start as i64);
                end = rows.end as i64;
            }

            let edges = self.list.edge_count(part).await?;
            if end as u64 != edges {
                return Err(offsets.disagree(end as u64, edges));
            }
            before += end;
        }

        all.push(before);
        Ok(all)
    }
}

/// Returns the offsets of keys, and a permutation that sorts them.
fn sorted(keys: &ArrayRef, vertices: u64) -> Result<(Vec<i64>, Int64Array)> {
    let keys = keys.as_primitive::<Int64Type>().values();
    let outside = |key: &i64| Error::OutOfRange { of: "vertices".to_owned(), index: *key, count: vertices };
    // The vertex count is read from a file, so the allocation must be fallible.
    let mut offsets: Vec<i64> = Vec::new();
    let len = usize::try_from(vertices).unwrap_or(usize::MAX).saturating_add(1);
    if offsets.try_reserve_exact(len).is_err() {
        let reason = format!("there is no memory for the offsets of {vertices} vertices");
        return Err(Error::Data { file: "vertex_count".to_owned(), reason });
    }

    offsets.resize(len, 0);
    for key in keys {
        let at = usize::try_from(*key).ok().and_then(|key| key.checked_add(1));
        *at.and_then(|at| offsets.get_mut(at)).ok_or_else(|| outside(key))? += 1;
    }

    let mut sum = 0;
    for offset in &mut offsets {
        sum += *offset;
        *offset = sum;
    }

    let mut next = offsets.clone();
    let mut order = vec![0_i64; keys.len()];
    for (row, key) in keys.iter().enumerate() {
        if let Some(next) = next.get_mut(*key as usize) {
            if let Some(slot) = order.get_mut(*next as usize) {
                *slot = row as i64;
            }
            *next += 1;
        }
    }

    Ok((offsets, order.into()))
}
