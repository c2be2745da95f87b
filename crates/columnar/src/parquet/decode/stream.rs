//! Reads a row group page by page, if whole column chunks do not fit in memory: each column holds a window of its
//! bytes, one page and one batch.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use parquet::{
    arrow::{
        ProjectionMask,
        array_reader::RowGroups,
        arrow_reader::{ParquetRecordBatchReader, RowSelection},
        parquet_to_arrow_field_levels,
    },
    column::page::PageIterator,
    errors::{ParquetError, Result as ParquetResult},
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};
use stylobate_storage::OpenObject;
use tokio::runtime::Handle;

use crate::{
    Result,
    chunk::ColumnBatch,
    file::schema::ProjectedColumn,
    parallel::guarded::guarded,
    parquet::{
        ParquetFile, classified, footer,
        intervals::restored,
        pages::{
            chunk_bytes::OneChunk,
            reader::ChunkPageReader,
            window::{ChunkWindow, ChunkWindowSource},
        },
    },
};

impl ParquetFile {
    /// See [`crate::format::FileMetadata::stream`].
    pub(crate) fn stream(
        &self,
        object: &OpenObject,
        row_group: usize,
        columns: &[ProjectedColumn],
        batch_rows: usize,
        runtime: &Handle,
    ) -> Result<impl Iterator<Item = Result<ColumnBatch>> + use<>> {
        let group = StreamedRowGroup { file: self, row_group, object, runtime };
        self.batches(row_group, columns, batch_rows, None, &group)
    }

    /// Returns all rows of some columns of a row group, or the selected ones, in small batches. A reader takes
    /// each top-level column only once: if several parts of one column are requested, several readers are used.
    pub(crate) fn batches(
        &self,
        row_group: usize,
        columns: &[ProjectedColumn],
        batch_rows: usize,
        selection: Option<&RowSelection>,
        group: &dyn RowGroups,
    ) -> Result<impl Iterator<Item = Result<ColumnBatch>> + use<>> {
        let open = |columns: &[ProjectedColumn]| self.reader(columns, batch_rows, selection.cloned(), group);
        let mut layers: Vec<Vec<usize>> = Vec::new();
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for (at, column) in columns.iter().enumerate() {
            let times = seen.entry(column.root).or_default();
            match layers.get_mut(*times) {
                Some(layer) => layer.push(at),
                None => layers.push(vec![at]),
            }
            *times += 1;
        }

        let layer = |positions: Vec<usize>| {
            let columns: Vec<ProjectedColumn> =
                positions.iter().filter_map(|at| columns.get(*at).cloned()).collect();
            Ok((positions, Box::new(self.layer(row_group, &columns, &open)?)))
        };
        let mut readers: Vec<_> = layers.into_iter().map(layer).collect::<Result<_>>()?;
        let count = columns.len();

        Ok(std::iter::from_fn(move || {
            let mut side_by_side = vec![None; count];
            let mut rows = None;
            for (positions, reader) in &mut readers {
                let (arrays, read) = match reader.next()? {
                    Ok(read) => read,
                    Err(error) => return Some(Err(error)),
                };
                rows = Some(read);
                for (position, array) in positions.iter().zip(arrays) {
                    if let Some(column) = side_by_side.get_mut(*position) {
                        *column = Some(array);
                    }
                }
            }

            Some(Ok((side_by_side.into_iter().flatten().collect(), rows?)))
        }))
    }

    /// Returns a reader of some columns, whose bytes `group` has.
    fn reader(
        &self,
        columns: &[ProjectedColumn],
        batch_rows: usize,
        selection: Option<RowSelection>,
        group: &dyn RowGroups,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        let descriptor = &self.decoded;
        let mask = ProjectionMask::leaves(descriptor, self.leaves_of(columns));
        let levels = parquet_to_arrow_field_levels(descriptor, mask, self.types())?;
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, group, batch_rows, selection)
    }

    /// Returns the rows of distinct top-level columns.
    fn layer(
        &self,
        row_group: usize,
        columns: &[ProjectedColumn],
        open: &BatchReaderFactory<'_>,
    ) -> Result<impl Iterator<Item = Result<ColumnBatch>> + use<>> {
        // An error of an encrypted column must not be attributed to its neighbours.
        let first = columns.iter().find(|column| self.has_encrypted(row_group, std::slice::from_ref(column)));
        let first = first.or(columns.first()).cloned().unwrap_or_else(|| ProjectedColumn::whole(0));
        let opened = guarded(|| open(columns)).map_err(|reason| self.corrupt(row_group, &first, reason))?;
        let reader = opened.map_err(|error| self.corrupt(row_group, &first, error.to_string()))?;
        // Complete errors are built in advance, so that the batches outlive the file's metadata.
        let wrong = self.corrupt(row_group, &first, "");
        let wrong = move |reason: String| match wrong.clone() {
            crate::Error::Decryption { object, .. } => {
                crate::Error::Decryption { object, column: None, reason }
            }
            crate::Error::Corrupt { object, row_group, .. } => {
                classified(crate::Error::Corrupt { object, row_group, column: None, offset: None, reason })
            }
            other => other,
        };

        let fields = columns.iter().filter_map(|column| {
            let field = self.schema.fields().get(column.root)?;
            Some(column.field(field).data_type().clone())
        });
        let types: Vec<DataType> = if self.has_intervals() { fields.collect() } else { Vec::new() };
        let mut reader = Some(reader);

        Ok(std::iter::from_fn(move || {
            let batch = guarded(|| reader.as_mut()?.next());
            let batch = match batch {
                Ok(batch) => batch?.map_err(|error| wrong(error.to_string())),
                Err(reason) => Err(wrong(reason)),
            };
            let batch = batch.and_then(|batch| {
                let mut decoded = batch.columns().to_vec();
                for (column, to) in decoded.iter_mut().zip(&types) {
                    *column = restored(column, to).map_err(&wrong)?;
                }
                Ok((decoded, batch.num_rows()))
            });

            if batch.is_err() {
                reader = None;
            }
            Some(batch)
        }))
    }
}

/// Makes a reader of some columns.
type BatchReaderFactory<'a> = dyn Fn(&[ProjectedColumn]) -> ParquetResult<ParquetRecordBatchReader> + 'a;

struct StreamedRowGroup<'a> {
    file: &'a ParquetFile,
    row_group: usize,
    object: &'a OpenObject,
    runtime: &'a Handle,
}

impl RowGroups for StreamedRowGroup<'_> {
    fn num_rows(&self) -> usize {
        self.file.row_group_rows(self.row_group) as usize
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.file.column_chunk(self.row_group, leaf);
        let chunk = chunk.map_err(|error| ParquetError::General(error.to_string()))?;
        let from = ChunkWindowSource::Object { object: self.object.clone(), runtime: self.runtime.clone() };
        let window = ChunkWindow::new(from, footer::range(chunk));
        let decryptor = self.file.decryptor_of(self.row_group, leaf, chunk)?;
        let pages = ChunkPageReader::sequential(window, chunk, decryptor)?;
        Ok(Box::new(OneChunk(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.file.metadata.row_groups().get(self.row_group).into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file.metadata
    }
}
