//! Exports a version as one GraphAr graph with dense vertex indexes.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch},
    compute::filter_record_batch,
    datatypes::{FieldRef, Int64Type, Schema},
};
use async_recursion::async_recursion as boxed;
use futures::{Stream, TryStreamExt};
use stylobate_storage::Destination;

use super::{rewrite_edges::all_edges, rewrite_vertices::all_vertices};
use crate::{
    Error, Result,
    graphar::{EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite, WrittenGraph},
    store::{
        budgeted::Budgeted,
        delta::{deletion::DeletionSet, rows::arrow_error},
        parts::vertex_parts::VertexParts,
        schema::{DESTINATION, SOURCE},
        snapshot::Snapshot,
    },
};

impl Snapshot {
    /// Writes the version as a GraphAr graph of this name. Vertices keep their order, but get dense indexes; their keys
    /// become primary keys. Edges are listed by source and by destination.
    ///
    /// # Errors
    ///
    /// Same as [`GraphWriter`], and read errors. No files are left.
    #[tracing::instrument(
        name = "store_export",
        level = "debug",
        skip_all,
        fields(store = self.core().name(), version = self.version())
    )]
    #[boxed]
    pub async fn export_graphar(
        &self,
        destination: Destination,
        name: &str,
        options: GraphWriteOptions,
    ) -> Result<WrittenGraph> {
        let mut writer = GraphWriter::create(destination, name, options).await?;
        let mut dense: Vec<(String, Arc<DenseIndexMap>)> = Vec::new();
        for (at, state) in self.record().vertices.iter().enumerate() {
            let parts = self.vertex_parts(at).await?;
            dense.push((state.schema.name.clone(), Arc::new(DenseIndexMap::new(parts.deleted.clone()))));
            let fields: Arc<[FieldRef]> = state.schema.fields().into();
            let write = VertexWrite::new(&state.schema.name, Arc::new(Schema::new(fields.to_vec())));
            let write = write.with_primary(&state.schema.key);
            let write = write.with_groups([[state.schema.key.as_str()]]);
            writer.vertices(write, left(parts, fields)).await?;
        }

        for (at, state) in self.record().edges.iter().enumerate() {
            let parts = self.edge_parts(at).await?;
            let schema = &state.schema;
            let fields: Arc<[FieldRef]> = schema.fields().into();
            let find = |name: &str| {
                let found = dense.iter().find(|(of, _)| of == name).map(|(_, dense)| dense.clone());
                found.ok_or_else(|| Error::NoSuchVertexType {
                    name: name.to_owned(),
                    available: String::new(),
                })
            };

            let from = find(&schema.source)?;
            let to = find(&schema.destination)?;
            let columns = Arc::new(Schema::new(crate::store::delta::edges::fields(&fields).to_vec()));
            let write = EdgeWrite::new(&schema.source, &schema.name, &schema.destination, columns)
                .with_source(SOURCE)
                .with_destination(DESTINATION)
                .by_index();
            let edges = all_edges(parts, 0, fields);
            let edges = edges.and_then(move |batch| {
                let renumbered = renumbered(&batch, &from, &to);
                std::future::ready(renumbered)
            });
            writer.edges(write, edges).await?;
        }

        writer.finish().await
    }
}

/// Streams the live vertices.
fn left(parts: Arc<VertexParts>, fields: Arc<[FieldRef]>) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let deleted = parts.deleted.clone();
    all_vertices(parts, fields.clone()).and_then(move |(first, columns)| {
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let made = RecordBatch::try_new(schema, columns.into_vec()).and_then(|batch| {
            let range = first as u64..first as u64 + batch.num_rows() as u64;
            if deleted.count(&range) == 0 {
                return Ok(batch);
            }
            let kept: BooleanArray = range.map(|index| Some(!deleted.contains(index))).collect();
            filter_record_batch(&batch, &kept)
        });

        std::future::ready(made.map_err(|error| arrow_error("vertices that are left", error)))
    })
}

fn renumbered(batch: &RecordBatch, from: &DenseIndexMap, to: &DenseIndexMap) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    for (column, dense) in columns.iter_mut().zip([from, to]) {
        if !dense.deleted.is_empty() {
            let ends = column.as_primitive::<Int64Type>().values();
            *column =
                Arc::new(ends.iter().map(|index| dense.index(*index)).collect::<Int64Array>()) as ArrayRef;
        }
    }
    RecordBatch::try_new(batch.schema(), columns).map_err(|error| arrow_error("edges", error))
}

/// Map to dense indexes.
struct DenseIndexMap {
    deleted: Arc<Budgeted<DeletionSet>>,
    /// Number of deleted vertices before each block.
    before: Vec<u64>,
}

/// Vertices per block.
const BLOCK: u64 = 1 << 16;

impl DenseIndexMap {
    fn new(deleted: Arc<Budgeted<DeletionSet>>) -> Self {
        let blocks = deleted.set().max().map_or(0, |last| last / BLOCK + 1);
        let mut sum = 0;
        let before = (0..blocks).map(|block| {
            let before = sum;
            sum += deleted.count(&(block * BLOCK..(block + 1) * BLOCK));
            before
        });
        let before = before.collect();
        Self { deleted, before }
    }

    fn index(&self, index: i64) -> i64 {
        let block = index as u64 / BLOCK;
        let gone = match self.before.get(block as usize) {
            Some(before) => before + self.deleted.count(&(block * BLOCK..index as u64)),
            None => self.deleted.len(),
        };
        index - gone as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_close_up_behind_those_that_are_gone() {
        let gone = [0, 5, 6, BLOCK + 3, 3 * BLOCK];
        let dense = DenseIndexMap::new(Arc::new(DeletionSet::from_iter(gone).into()));
        let mut next = 0;
        for index in 0..4 * BLOCK {
            if !gone.contains(&index) {
                assert_eq!(dense.index(index as i64), next, "{index}");
                next += 1;
            }
        }
        assert_eq!(DenseIndexMap::new(Arc::default()).index(7), 7);
    }
}
