//! Writer of the vertices of one type.

pub(super) mod known;
pub(super) mod labels;
pub(super) mod request;

use std::{pin::pin, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::SchemaRef,
};
use futures::{Stream, TryStreamExt};
use stylobate_storage::{ByteSize, run_blocking};

use self::{known::KeyAndLabelBuilder, labels::LabelColumns, request::VertexWritePlan};
use super::{
    arriving_rows::numbered,
    columns::{InputColumnCast, InputColumns},
    files::{
        chunk_file::ChunkFileSpec,
        encoders::{ChunkEncoderPool, OpenChunk},
    },
    keys::VertexKeyIndex,
    names::unwritable,
    progress::WriteProgressTracker,
};
use crate::{
    Error, Result,
    graphar::{FileType, VertexInfo},
};

/// Written vertices.
#[derive(Debug)]
pub(super) struct WrittenVertices {
    pub(super) info: VertexInfo,
    pub(super) count: u64,
    /// `None` if vertices have no keys.
    pub(super) keys: Option<Arc<VertexKeyIndex>>,
}

/// Writer of vertices, which writes them as they arrive.
#[derive(Debug)]
pub(super) struct VertexWriter<'a> {
    pub(super) encoders: &'a mut ChunkEncoderPool,
    pub(super) progress: WriteProgressTracker,
    pub(super) memory: ByteSize,
    /// Memory of keys and labels, in bytes.
    pub(super) keys_share: usize,
    pub(super) threads: usize,
}

/// Rows of a batch as they are stored.
struct ConvertedVertexBatch {
    first_row: u64,
    batch: RecordBatch,
    properties: Vec<ArrayRef>,
    keys: Option<ArrayRef>,
}

/// Casts of the input columns.
struct VertexBatchConverter {
    input: InputColumns,
    properties: Vec<InputColumnCast>,
    key: Option<InputColumnCast>,
}

impl VertexBatchConverter {
    fn prepare(&self, first_row: u64, batch: RecordBatch) -> Result<ConvertedVertexBatch> {
        self.input.check(&batch)?;
        let cast = |column: &InputColumnCast| self.input.values(column, &batch, first_row);
        let keys = self.key.as_ref().map(cast).transpose()?;
        let properties = self.properties.iter().map(cast).collect::<Result<_>>()?;
        Ok(ConvertedVertexBatch { first_row, batch, properties, keys })
    }
}

impl VertexWriter<'_> {
    pub(super) async fn write(
        &mut self,
        mut plan: VertexWritePlan,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<WrittenVertices> {
        let schema = plan.schema();
        let input = plan.input.clone();
        let key = plan.key.as_ref().map(|key| key.column.clone());
        let casts = VertexBatchConverter { input: input.clone(), properties: plan.columns.clone(), key };
        let casts = Arc::new(casts);
        let prepared = numbered(batches).map_ok(move |(first_row, batch)| {
            let casts = casts.clone();
            async move { run_blocking(move || casts.prepare(first_row, batch)).await? }
        });

        let mut prepared = pin!(prepared.try_buffered(self.threads));
        let mut known = KeyAndLabelBuilder::new(plan.key.take(), plan.labels.take(), self.keys_share);
        let mut open = None;
        let mut count = 0;
        while let Some(rows) = prepared.try_next().await? {
            let taking = input.clone();
            let (back, rows, fits) = run_blocking(move || {
                let fits = known.take_in(&taking, &rows.batch, rows.keys.as_ref(), rows.first_row)?;
                Ok::<_, Error>((known, rows, fits))
            })
            .await??;
            known = back;
            if !fits {
                while let Some(rows) = prepared.try_next().await? {
                    known.count(rows.keys.as_ref());
                }
                return Err(known.too_large(&input, self.memory));
            }

            count += rows.batch.num_rows() as u64;
            self.progress.add_rows(rows.batch.num_rows() as u64);
            self.write_rows(&plan, &schema, &mut open, rows).await?;
        }

        if let Some(last) = open {
            self.encoders.end(last);
        }
        let mut info = plan.info;
        if let Some(labels) = known.labels {
            info.labels = labels.names().to_vec();
            self.write_labels(&info, &labels.finish(), count).await?;
        }

        self.encoders.file(info.count_path(), count.to_le_bytes().to_vec()).await?;
        self.encoders.settle().await?;
        Ok(WrittenVertices { info, count, keys: known.key.map(|key| Arc::new(key.keys)) })
    }

    /// Adds rows to the open chunk, and to new ones once it is full.
    async fn write_rows(
        &mut self,
        plan: &VertexWritePlan,
        schema: &SchemaRef,
        open: &mut Option<OpenChunk>,
        rows: ConvertedVertexBatch,
    ) -> Result<()> {
        let end = rows.first_row + rows.batch.num_rows() as u64;
        let index: Int64Array = (rows.first_row as i64..end as i64).collect::<Vec<i64>>().into();
        let columns = std::iter::once(Arc::new(index) as ArrayRef).chain(rows.properties).collect();

        let batch = RecordBatch::try_new(schema.clone(), columns);
        let batch = batch.map_err(|error| unwritable(plan.input.of(), error.to_string()))?;
        let size = plan.info.chunk_size;
        let mut start = 0;
        while start < batch.num_rows() {
            let mut chunk = match open.take() {
                Some(chunk) => chunk,
                None => {
                    let number = (rows.first_row + start as u64) / size.max(1);
                    self.encoders.open(plan.files(schema, number)).await?
                }
            };
            let room = usize::try_from(size.saturating_sub(chunk.rows)).unwrap_or(usize::MAX);
            let count = room.clamp(1, batch.num_rows() - start);
            self.encoders.write(&mut chunk, &batch.slice(start, count)).await?;
            start += count;

            if chunk.rows >= size {
                self.encoders.end(chunk);
            } else {
                *open = Some(chunk);
            }
        }

        Ok(())
    }

    async fn write_labels(&mut self, info: &VertexInfo, labels: &LabelColumns, count: u64) -> Result<()> {
        if info.labels.is_empty() {
            return Ok(());
        }
        for number in 0..info.chunks(count) {
            let start = number * info.chunk_size;
            let rows = info.chunk_size.min(count - start);
            let plan = ChunkFileSpec {
                file: info.label_path(number),
                file_type: FileType::Parquet,
                schema: labels.schema.clone(),
                distinct: 0,
                rows,
            };

            let columns = (0..info.labels.len()).collect();
            let mut chunk = self.encoders.open(vec![(plan, columns)]).await?;
            self.encoders.write(&mut chunk, &labels.rows(start as usize, rows as usize)?).await?;
            self.encoders.end(chunk);
        }

        Ok(())
    }
}
