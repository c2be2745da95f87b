//! Vertices of a base: properties by index, indexes by key, and all in order.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::FieldRef};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use stylobate_columnar::{Columns, ColumnsUse};

use super::{
    BaseColumnSelection, ChunkSize, PropertyGroupFiles, SelectedBaseColumn, VertexBaseInfo, keys::KeyFiles,
};
use crate::{
    Error, Result,
    graphar::{ExpectedRowCount, GraphFolder, ahead},
    store::{
        budgeted::{Budgeted, MemoryFootprint},
        take::{CHUNKS_AHEAD, ChunkInterner, MAX_CONCURRENT_CHUNKS, gather_rows, rows_by_chunk},
    },
};

/// Open base of vertices. Nothing is read before its first use.
pub(crate) struct VertexBase {
    folder: GraphFolder,
    fields: Vec<FieldRef>,
    info: VertexBaseInfo,
    groups: Vec<PropertyGroupFiles>,
    size: ChunkSize,
    keys: Option<KeyFiles>,
}

/// Rows of a chunk: the index of the first, their number, and the selected columns.
pub(crate) struct VertexBaseRows {
    pub(crate) first: i64,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ArrayRef>,
}

/// Location of vertices: the distinct chunks, and the chunk and row of each vertex.
struct LocatedVertices {
    chunks: ChunkInterner,
    rows: Vec<(u32, u32)>,
}

impl Budgeted<VertexBase> {
    /// Streams all vertices in the order of their indexes, chunk by chunk. Uncached columns enter the cache only if it
    /// has room.
    pub(crate) fn stream(
        self: &Arc<Self>,
        selection: &BaseColumnSelection,
    ) -> BoxStream<'static, Result<VertexBaseRows>> {
        let base = self.clone();
        let passing = Arc::new(self.passing());
        let selection = Arc::new(selection.clone());
        let read = move |chunk| {
            let base = base.clone();
            let passing = passing.clone();
            let selection = selection.clone();
            ahead(async move {
                match base.chunk_cached(chunk, &selection) {
                    Some(rows) => Ok(rows),
                    None if base.folder.has_room() => base.chunk(chunk, &selection).await,
                    None => passing.chunk(chunk, &selection).await,
                }
            })
        };

        futures::stream::iter(0..self.chunks()).map(read).buffered(CHUNKS_AHEAD).boxed()
    }
}

impl MemoryFootprint for VertexBase {
    fn bytes(&self) -> u64 {
        self.info.keys.as_ref().map_or(0, |keys| keys.fences.bytes())
    }
}

impl VertexBase {
    /// Opens a base; `fields` are the properties of the type, with their result types.
    pub(crate) fn open(folder: &GraphFolder, info: &VertexBaseInfo, fields: &[FieldRef]) -> Self {
        let groups = PropertyGroupFiles::open_all(folder, &info.groups, fields);
        let size = ChunkSize::new(info.chunk_size);
        let keys = info.keys.as_ref().map(|keys| KeyFiles::open(folder, &info.path, keys));
        Self { folder: folder.clone(), fields: fields.to_vec(), info: info.clone(), groups, size, keys }
    }

    pub(crate) fn info(&self) -> &VertexBaseInfo {
        &self.info
    }

    /// Returns the usage of the property files.
    pub(crate) fn columns_use(&self) -> ColumnsUse {
        self.groups.iter().map(|group| group.files.usage()).sum()
    }

    /// Returns the usage of the key files.
    pub(crate) fn keys_use(&self) -> ColumnsUse {
        self.keys.as_ref().map(KeyFiles::usage).unwrap_or_default()
    }

    pub(crate) fn select(&self, fields: &[FieldRef]) -> BaseColumnSelection {
        BaseColumnSelection::new(&self.groups, fields)
    }

    /// Returns the number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.info.count.div_ceil(self.size.get())
    }

    pub(crate) fn keys(&self) -> Option<&KeyFiles> {
        self.keys.as_ref()
    }

    /// Reads columns of the vertices with these indexes, which must be in the base, in this order.
    pub(crate) async fn take(
        &self,
        indexes: &[i64],
        selection: &BaseColumnSelection,
    ) -> Result<Vec<ArrayRef>> {
        match self.take_cached(indexes, selection) {
            Some(taken) => taken,
            None => Box::pin(self.load_and_take(indexes, selection)).await,
        }
    }

    /// Returns [`Self::take`] if all of it is cached.
    pub(crate) fn take_cached(
        &self,
        indexes: &[i64],
        selection: &BaseColumnSelection,
    ) -> Option<Result<Vec<ArrayRef>>> {
        let LocatedVertices { chunks, rows } = match self.locate(indexes) {
            Ok(located) => located,
            Err(error) => return Some(Err(error)),
        };

        let mut taken = Vec::with_capacity(selection.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(chunks.numbers().len());
        for (at, column) in selection.columns.iter().enumerate() {
            let Some((group, position)) = column.stored else {
                taken.extend(selection.missing(at, indexes.len()));
                continue;
            };
            let files = &self.groups.get(group)?.files;
            arrays.clear();

            for chunk in chunks.numbers() {
                arrays.push(files.cached(*chunk, position)?);
            }
            match gather_rows(&arrays, &rows, column.field.data_type()) {
                Ok(array) => taken.push(array),
                Err(error) => return Some(Err(error)),
            }
        }

        Some(Ok(taken))
    }

    fn locate(&self, indexes: &[i64]) -> Result<LocatedVertices> {
        let VertexBaseInfo { first, count, .. } = self.info;
        let mut chunks = ChunkInterner::new(indexes.len(), self.chunks());
        let mut rows = Vec::with_capacity(indexes.len());
        for index in indexes {
            let row = (*index as u64).wrapping_sub(first);
            if row >= count {
                return Err(self.outside(*index));
            }
            let (chunk, row) = self.size.split(row);
            rows.push((chunks.insert(chunk) as u32, row as u32));
        }

        Ok(LocatedVertices { chunks, rows })
    }

    fn outside(&self, index: i64) -> Error {
        let end = self.info.first + self.info.count;
        Error::OutOfRange { of: format!("vertices of type {}", self.info.type_name), index, count: end }
    }

    /// Keeps only the requested rows of each chunk in memory, apart from cached columns.
    async fn load_and_take(&self, indexes: &[i64], selection: &BaseColumnSelection) -> Result<Vec<ArrayRef>> {
        let LocatedVertices { chunks, rows } = self.locate(indexes)?;
        let (shares, left) = rows_by_chunk(&rows, chunks.numbers().len());
        let loads = chunks.numbers().iter().copied().zip(shares).map(|(chunk, rows)| async move {
            let loaded = self.load(chunk, selection).await?;
            let columns = loaded.into_iter().zip(&selection.columns).map(|(array, column)| match array {
                Some(array) => gather_rows(&[array], &rows, column.field.data_type()).map(Some),
                None => Ok(None),
            });
            columns.collect::<Result<Vec<Option<ArrayRef>>>>()
        });

        let pieces: Vec<_> =
            futures::stream::iter(loads).buffered(MAX_CONCURRENT_CHUNKS).try_collect().await?;
        let column = |(at, column): (usize, &SelectedBaseColumn)| {
            if let Some(nulls) = selection.missing(at, left.len()) {
                return Ok(nulls);
            }
            let arrays: Vec<ArrayRef> =
                pieces.iter().filter_map(|arrays: &Vec<Option<ArrayRef>>| arrays.get(at)?.clone()).collect();
            match arrays.as_slice() {
                [one] => Ok(one.clone()),
                several => gather_rows(several, &left, column.field.data_type()),
            }
        };

        selection.columns.iter().enumerate().map(column).collect()
    }

    /// Loads the selected columns that the base has, for all vertices of a chunk.
    async fn load(&self, chunk: u64, selection: &BaseColumnSelection) -> Result<Vec<Option<ArrayRef>>> {
        let mut found: Vec<Option<ArrayRef>> = vec![None; selection.columns.len()];
        let groups = self.groups.iter().enumerate().map(|(number, group)| async move {
            let (columns, at) = selection.of_group(number);
            if columns.is_empty() {
                Ok::<_, Error>((at, Columns::new()))
            } else {
                Ok((at, self.read(group, chunk, &columns).await?))
            }
        });

        for (at, arrays) in futures::future::try_join_all(groups).await? {
            for (at, array) in at.into_iter().zip(arrays) {
                if let Some(found) = found.get_mut(at) {
                    *found = Some(array);
                }
            }
        }

        Ok(found)
    }

    async fn read(&self, group: &PropertyGroupFiles, chunk: u64, columns: &[usize]) -> Result<Columns> {
        let rows = ExpectedRowCount::Exactly(self.rows(chunk));
        group.files.get(chunk, || self.file(&group.prefix, chunk), rows, columns).await
    }

    /// Returns the file of a chunk of a group.
    pub(crate) fn file(&self, group: &str, chunk: u64) -> String {
        let VertexBaseInfo { path, prefix, .. } = &self.info;
        format!("{path}/{prefix}{group}chunk{chunk}")
    }

    fn rows(&self, chunk: u64) -> u64 {
        let size = self.size.get();
        self.info.count.saturating_sub(chunk.saturating_mul(size)).min(size)
    }

    /// Reads the selected columns of all vertices of a chunk.
    pub(crate) async fn chunk(&self, chunk: u64, selection: &BaseColumnSelection) -> Result<VertexBaseRows> {
        let rows = self.rows(chunk) as usize;
        let loaded = self.load(chunk, selection).await?;
        let column = |(at, array): (usize, Option<ArrayRef>)| array.or_else(|| selection.missing(at, rows));
        let columns = loaded.into_iter().enumerate().filter_map(column).collect();
        Ok(VertexBaseRows { first: (self.info.first + chunk * self.size.get()) as i64, rows, columns })
    }

    /// Returns [`Self::chunk`] if all of it is cached.
    fn chunk_cached(&self, chunk: u64, selection: &BaseColumnSelection) -> Option<VertexBaseRows> {
        let rows = self.rows(chunk) as usize;
        let column = |(at, column): (usize, &SelectedBaseColumn)| match column.stored {
            Some((group, position)) => self.groups.get(group)?.files.cached(chunk, position),
            None => selection.missing(at, rows),
        };
        let columns = selection.columns.iter().enumerate().map(column).collect::<Option<_>>()?;
        Some(VertexBaseRows { first: (self.info.first + chunk * self.size.get()) as i64, rows, columns })
    }

    /// Returns the same base, but does not cache its reads.
    fn passing(&self) -> Self {
        Self::open(&self.folder.passing(), &self.info, &self.fields)
    }

    /// Returns the indexes of keys; `None` for keys without a vertex in the base.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] if these cannot be keys of the type.
    pub(crate) async fn indexes_of(&self, keys: &ArrayRef) -> Result<Vec<Option<i64>>> {
        match &self.keys {
            Some(files) => files.find(&self.info.type_name, keys).await,
            None => Ok(vec![None; keys.len()]),
        }
    }

    /// Returns [`Self::indexes_of`] if all required chunks of keys are cached.
    pub(crate) fn indexes_of_cached(&self, keys: &ArrayRef) -> Option<Result<Vec<Option<i64>>>> {
        match &self.keys {
            Some(files) => files.find_cached(&self.info.type_name, keys),
            None => Some(Ok(vec![None; keys.len()])),
        }
    }
}
