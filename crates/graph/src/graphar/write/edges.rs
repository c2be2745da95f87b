//! Writer of the edges of one type.

pub(super) mod list_writer;
pub(super) mod request;

use std::{pin::pin, sync::Arc};

use arrow::array::RecordBatch;
use futures::{Stream, TryStreamExt};
use stylobate_storage::run_blocking;

use self::{
    list_writer::{AdjacencyListWriter, WrittenAdjacencyList},
    request::EdgeWritePlan,
};
use super::{
    arriving_rows::numbered,
    columns::{InputColumnCast, InputColumns},
    files::encoders::ChunkEncoderPool,
    keys::ends::EndpointResolver,
    progress::WriteProgressTracker,
    sort::{EdgeSortPlan, EdgeSorter, order::AdjacencyLayout},
};
use crate::{Error, Result};

/// Writer of edges, which writes them once all have arrived.
#[derive(Debug)]
pub(super) struct EdgeWriter<'a> {
    pub(super) encoders: &'a mut ChunkEncoderPool,
    pub(super) progress: WriteProgressTracker,
    pub(super) threads: usize,
}

/// Casts of the input columns.
struct EdgeBatchConverter {
    input: InputColumns,
    ends: EndpointResolver,
    properties: Vec<InputColumnCast>,
    schema: arrow::datatypes::SchemaRef,
}

/// Edges of a batch as they are stored.
struct ConvertedEdgeBatch {
    source: Vec<u64>,
    destination: Vec<u64>,
    properties: RecordBatch,
}

impl EdgeBatchConverter {
    fn prepare(&self, first_row: u64, batch: &RecordBatch) -> Result<ConvertedEdgeBatch> {
        self.input.check(batch)?;
        let (source, destination) = self.ends.find(&self.input, batch, first_row)?;
        let columns = self.properties.iter().map(|column| self.input.values(column, batch, first_row));
        let columns: Vec<_> = columns.collect::<Result<_>>()?;
        let properties = if columns.is_empty() {
            Ok(RecordBatch::new_empty(self.schema.clone()))
        } else {
            RecordBatch::try_new(self.schema.clone(), columns)
        };

        let properties = properties.map_err(super::sort::buffer::failed)?;
        Ok(ConvertedEdgeBatch { source, destination, properties })
    }
}

impl EdgeWriter<'_> {
    /// Writes the edges and returns their number.
    pub(super) async fn write(
        &mut self,
        plan: &EdgeWritePlan,
        ends: EndpointResolver,
        sort: EdgeSortPlan,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<(u64, Vec<WrittenAdjacencyList>)> {
        let schema = sort.schema.clone();
        let arrangements = sort.arrangements.clone();
        let casts = Arc::new(EdgeBatchConverter {
            input: plan.input.clone(),
            ends,
            properties: plan.columns.clone(),
            schema: Arc::new(sort.properties.clone()),
        });

        let prepared = numbered(batches).map_ok(move |(first_row, batch)| {
            let casts = casts.clone();
            async move { run_blocking(move || casts.prepare(first_row, &batch)).await? }
        });

        let mut prepared = pin!(prepared.try_buffered(self.threads));
        let mut sorter = EdgeSorter::new(sort);
        let mut count = 0;
        while let Some(edges) = prepared.try_next().await? {
            let rows = edges.source.len() as u64;
            sorter = run_blocking(move || {
                sorter.push(&edges.source, &edges.destination, &edges.properties)?;
                Ok::<_, Error>(sorter)
            })
            .await??;
            count += rows;
            self.progress.add_rows(rows);
        }

        let mut lists = Vec::new();
        let sorted = run_blocking(move || sorter.finish()).await??;
        for ((list, arrangement), sorted) in plan.info.adjacencies.iter().zip(arrangements).zip(sorted) {
            let mut writer = AdjacencyListWriter::new(self.encoders, &plan.info, list, &schema, arrangement);
            let mut edges = sorted.stream().await?;
            while let Some(batch) = edges.try_next().await? {
                writer.write(&batch).await?;
            }
            let (written, list) = writer.finish().await?;
            lists.push(list);
            if written != count {
                let reason =
                    format!("of {count} edges {written} were sorted: the thread that sorts them ended early");
                return Err(Error::Ended { reason });
            }
        }

        self.encoders.settle().await?;
        Ok((count, lists))
    }
}

/// Returns the layout of each list of these edges.
pub(super) fn arrangements(plan: &EdgeWritePlan, (from, to): (u64, u64)) -> Vec<AdjacencyLayout> {
    let arrangement = |list: &crate::graphar::Adjacency| AdjacencyLayout {
        order: list.order,
        part_size: plan.info.part_size(list.order),
        vertices: match list.order.aligned_by() {
            crate::graphar::Side::Source => from,
            crate::graphar::Side::Dest => to,
        },
    };
    plan.info.adjacencies.iter().map(arrangement).collect()
}
