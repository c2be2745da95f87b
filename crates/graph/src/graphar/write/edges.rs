//! Writes the edges of one type.

pub(super) mod list_writer;
pub(super) mod request;

use std::{pin::pin, sync::Arc};

use arrow::array::RecordBatch;
use futures::{Stream, TryStreamExt};

use self::{
    list_writer::{ListWriter, WrittenList},
    request::EdgePlan,
};
use super::{
    arriving_rows::numbered,
    columns::{Arriving, Column},
    files::{blocking::blocking, encoders::Encoders},
    keys::ends::Ends,
    progress::Progress,
    sort::{SortPlan, Sorter, order::Arrangement},
};
use crate::{Error, Result};

/// Writes edges, when all of them have arrived.
#[derive(Debug)]
pub(super) struct EdgeWriter<'a> {
    pub(super) encoders: &'a mut Encoders,
    pub(super) progress: Progress,
    pub(super) threads: usize,
}

/// What becomes of the columns that arrive.
struct Casts {
    arriving: Arriving,
    ends: Ends,
    properties: Vec<Column>,
    schema: arrow::datatypes::SchemaRef,
}

/// Edges of a batch as files have them.
struct Prepared {
    source: Vec<u64>,
    destination: Vec<u64>,
    properties: RecordBatch,
}

impl Casts {
    fn prepare(&self, first_row: u64, batch: &RecordBatch) -> Result<Prepared> {
        self.arriving.check(batch)?;
        let (source, destination) = self.ends.find(&self.arriving, batch, first_row)?;
        let columns = self.properties.iter().map(|column| self.arriving.values(column, batch, first_row));
        let columns: Vec<_> = columns.collect::<Result<_>>()?;
        let properties = match columns.is_empty() {
            true => Ok(RecordBatch::new_empty(self.schema.clone())),
            false => RecordBatch::try_new(self.schema.clone(), columns),
        };
        let properties = properties.map_err(super::sort::buffer::failed)?;
        Ok(Prepared { source, destination, properties })
    }
}

impl EdgeWriter<'_> {
    /// Returns how many edges there are.
    pub(super) async fn write(
        &mut self,
        plan: &EdgePlan,
        ends: Ends,
        sort: SortPlan,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<(u64, Vec<WrittenList>)> {
        let schema = sort.schema.clone();
        let arrangements = sort.arrangements.clone();
        let casts = Arc::new(Casts {
            arriving: plan.arriving.clone(),
            ends,
            properties: plan.columns.clone(),
            schema: Arc::new(sort.properties.clone()),
        });
        let prepared = numbered(batches).map_ok(move |(first_row, batch)| {
            let casts = casts.clone();
            blocking(move || casts.prepare(first_row, &batch))
        });
        let mut prepared = pin!(prepared.try_buffered(self.threads));
        let mut sorter = Sorter::new(sort);
        let mut count = 0;
        while let Some(edges) = prepared.try_next().await? {
            let rows = edges.source.len() as u64;
            sorter = blocking(move || {
                sorter.push(&edges.source, &edges.destination, &edges.properties)?;
                Ok(sorter)
            })
            .await?;
            count += rows;
            self.progress.add_rows(rows);
        }
        let mut lists = Vec::new();
        let mut sorted = blocking(move || sorter.finish()).await?;
        for (number, (list, arrangement)) in plan.info.adjacencies.iter().zip(arrangements).enumerate() {
            let mut writer = ListWriter::new(self.encoders, &plan.info, list, &schema, arrangement);
            let mut edges = sorted.take(number).await?;
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

/// How each list of these edges arranges them.
pub(super) fn arrangements(plan: &EdgePlan, (from, to): (u64, u64)) -> Vec<Arrangement> {
    let arrangement = |list: &crate::Adjacency| Arrangement {
        order: list.order,
        part_size: plan.info.part_size(list.order),
        vertices: match list.order.aligned_by() {
            crate::Side::Source => from,
            crate::Side::Dest => to,
        },
    };
    plan.info.adjacencies.iter().map(arrangement).collect()
}
