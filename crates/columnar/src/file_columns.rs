//! Columns of one file as one array each: for readers that repeatedly read the same files by row.
//!
//! A scan streams batches of many files. Here a column of a file is one array of the type that the caller wants,
//! cached in this form, so that a hit is a table lookup that neither slices nor casts.

pub(super) mod whole_column;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, FieldRef},
};
use async_recursion::async_recursion as boxed;
use object_store::path::Path;
use smallvec::SmallVec;
use stylobate_storage::{ObjectHash, OpenObject, ReadThrough};

use crate::{
    Cache, Error, Result,
    cache::{
        chunk_cache::{ChunkKey, ChunkLookup, DecodeGuard},
        stats::{ColumnsUse, RelaxedCounter},
    },
    chunk::{Chunk, ChunkRepresentation},
    csv::text_file::{self, TextKind},
    file::schema::ProjectedColumn,
    file_columns::whole_column::whole_column,
    format::FileMetadata,
    parquet::DecodeScratch,
    recent::RecentChunk,
};

/// Number of hits of a column after which they are added to the counters of the cache.
const HITS_PER_COUNT: u64 = 16;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Parquet or ORC, detected by its last bytes.
    Columnar,
    /// A text, whose format cannot be detected.
    Text(TextKind),
}

/// Arrays of columns that were requested together.
pub type Columns = SmallVec<[ArrayRef; 4]>;

/// A file opened for some of its columns. It keeps reading the version that was opened, even if the file is
/// replaced later.
#[derive(Debug)]
pub struct FileColumns {
    cache: Cache,
    object: OpenObject,
    kind: FileKind,
    fields: Arc<[FieldRef]>,
    columns: Box<[Option<OpenColumn>]>,
    rows: usize,
    /// The metadata of a file without a version, which may not be cached.
    metadata: Option<Arc<FileMetadata>>,
}

/// A column that the file has.
#[derive(Debug)]
struct OpenColumn {
    /// Position among the file's columns; unused for text.
    root: usize,
    /// The type in the file, if it differs.
    stored: Option<Box<DataType>>,
    id: u32,
    key: Option<ChunkKey>,
    recent: RecentChunk,
    hits: RelaxedCounter,
    decoded: RelaxedCounter,
}

/// A column to decode, its position among the fields, and the guard for tasks that wait for it.
struct MissingColumn<'a> {
    at: usize,
    promise: Option<DecodeGuard<'a>>,
}

/// The arguments of opening a file.
struct FileColumnsRequest {
    cache: Cache,
    object: OpenObject,
    kind: FileKind,
    fields: Arc<[FieldRef]>,
}

impl FileColumns {
    /// Opens a file for columns of these names and types. A column of another type is cast, and one that the file lacks
    /// is missing ([`Self::has`]).
    ///
    /// # Errors
    ///
    /// Same as for a scan; [`Error::Corrupt`] if a text file cannot be read as these types.
    #[boxed]
    pub async fn open(
        cache: &Cache,
        store: &ReadThrough,
        path: &Path,
        kind: FileKind,
        fields: &Arc<[FieldRef]>,
    ) -> Result<Self> {
        let object = store.open_whole(path).await?;
        let opening = FileColumnsRequest { cache: cache.clone(), object, kind, fields: fields.clone() };
        match kind {
            FileKind::Columnar => opening.columnar().await,
            FileKind::Text(kind) => opening.text(kind).await,
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the file's name, for errors.
    pub fn name(&self) -> String {
        self.object.name()
    }

    /// Returns whether the file has the column.
    pub fn has(&self, column: usize) -> bool {
        matches!(self.columns.get(column), Some(Some(_)))
    }

    /// Returns the type of a column in the file, if it differs from the type that the file was opened for.
    pub fn stored_as(&self, column: usize) -> Option<&DataType> {
        self.columns.get(column)?.as_ref()?.stored.as_deref()
    }

    /// Returns the counters of its columns and their bytes in the cache.
    pub fn usage(&self) -> ColumnsUse {
        let columns = self.columns.iter().flatten().map(|column| {
            let chunk = column.recent.chunk();
            let bytes = chunk.as_ref().map_or(0, |chunk| chunk.weight() as u64);
            let hits = column.hits.get();
            let decoded = column.decoded.get();
            ColumnsUse { files: 0, columns: chunk.is_some().into(), bytes, hits, decoded }
        });
        ColumnsUse { files: 1, ..columns.sum() }
    }

    /// Returns all rows of a column, if it is in the cache. `column` is a position in the fields that the file was
    /// opened for.
    #[inline]
    pub fn cached(&self, column: usize) -> Option<ArrayRef> {
        let column = self.columns.get(column)?.as_ref()?;
        let chunks = self.cache.chunks();

        let chunk = match column.recent.get(chunks.state()) {
            Some(chunk) => chunk,
            None => self.looked_up(column)?,
        };
        let Chunk::Whole(array) = chunk else { return None };

        let before = column.hits.get();
        if before.is_multiple_of(HITS_PER_COUNT) {
            chunks.count_hits(before.clamp(1, HITS_PER_COUNT));
        }
        column.hits.add();
        Some(array)
    }

    fn looked_up(&self, column: &OpenColumn) -> Option<Chunk> {
        let chunks = self.cache.chunks();
        let state = chunks.state();
        let chunk = chunks.get(column.key.as_ref()?)?;
        column.recent.remember(&chunk, state);
        Some(chunk)
    }

    /// Returns all rows of several columns, from the cache or decoded; concurrent calls decode a column once.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] if the file lacks a column or its values do not fit the type, and the errors of a scan.
    pub async fn get(&self, wanted: &[usize]) -> Result<Columns> {
        let mut found = Columns::new();
        for column in wanted {
            match self.cached(*column) {
                Some(array) => found.push(array),
                None => return self.load(wanted).await,
            }
        }
        Ok(found)
    }

    #[boxed]
    async fn load(&self, wanted: &[usize]) -> Result<Columns> {
        let mut order: Vec<(u32, usize)> = Vec::with_capacity(wanted.len());
        for at in wanted {
            order.push((self.column(*at)?.id, *at));
        }
        // All calls take their guards in this order, which prevents deadlocks.
        order.sort_unstable();
        order.dedup();

        let mut loaded: Vec<(usize, ArrayRef)> = Vec::with_capacity(order.len());
        let mut missing = Vec::new();
        for (_, at) in order {
            match &self.column(at)?.key {
                None => missing.push(MissingColumn { at, promise: None }),
                Some(key) => match self.cache.chunks().get_or_promise(key).await {
                    ChunkLookup::Chunk(Chunk::Whole(array)) => loaded.push((at, array)),
                    ChunkLookup::Chunk(_) => missing.push(MissingColumn { at, promise: None }),
                    ChunkLookup::Missing(promise) => {
                        missing.push(MissingColumn { at, promise: Some(promise) });
                    }
                },
            }
        }
        if !missing.is_empty() {
            loaded.extend(self.make(missing).await?);
        }

        loaded.sort_unstable_by_key(|(at, _)| *at);
        let find = |at: usize| {
            let index = loaded.binary_search_by_key(&at, |(loaded, _)| *loaded).ok()?;
            loaded.get(index).map(|(_, array)| array.clone())
        };
        let found = wanted.iter().map(|at| find(*at).ok_or_else(|| self.has_no_column(*at)));
        found.collect()
    }

    /// Decodes the missing columns, and caches them if there was memory to decode.
    async fn make(&self, missing: Vec<MissingColumn<'_>>) -> Result<Vec<(usize, ArrayRef)>> {
        let columns: Vec<usize> = missing.iter().map(|missing| missing.at).collect();
        let (arrays, has_memory) = match self.kind {
            FileKind::Columnar => self.decode(&columns).await?,
            FileKind::Text(kind) => {
                (text_file::read(&self.cache, &self.object, kind, &self.fields_of(&columns)).await?.1, true)
            }
        };

        let mut made = Vec::with_capacity(arrays.len());
        for (missing, array) in missing.into_iter().zip(arrays) {
            let array = array.filter(|array| array.len() == self.rows);
            let array = array.ok_or_else(|| self.has_no_column(missing.at))?;
            self.cache.chunks().count_decoded();
            let column = self.column(missing.at)?;
            column.decoded.add();
            if let Some(promise) = missing.promise.filter(|_| has_memory) {
                let chunk = Chunk::Whole(array.clone());
                promise.publish(chunk.clone());
                column.recent.remember(&chunk, 0);
            }
            made.push((missing.at, array));
        }
        Ok(made)
    }

    /// Decodes columns. Returns the arrays, and whether memory for the decode was reserved.
    async fn decode(&self, columns: &[usize]) -> Result<(Vec<Option<ArrayRef>>, bool)> {
        let metadata = match &self.metadata {
            Some(metadata) => metadata.clone(),
            None => metadata_of(&self.cache, &self.object).await?,
        };
        let projected = columns.iter().map(|at| Ok(ProjectedColumn::whole(self.column(*at)?.root)));
        let projected: Vec<ProjectedColumn> = projected.collect::<Result<_>>()?;

        let mut ascending = projected.clone();
        ascending.sort();
        ascending.dedup();

        let row_groups = metadata.row_group_count();
        let bytes = (0..row_groups).map(|row_group| metadata.working_bytes(row_group, &ascending));
        let working = self.cache.working().try_reserve(bytes.fold(0, u64::saturating_add));
        if working.is_none() {
            self.cache.chunks().count_streamed();
        }

        let mut read = Vec::with_capacity(row_groups);
        for row_group in 0..row_groups {
            read.push(metadata.read(&self.object, row_group, &ascending).await?);
        }

        let of = self.fields_of(columns);
        let name = self.object.name();
        let bytes = read.clone();
        let decode = move |scratch: &mut DecodeScratch| {
            let whole = projected.iter().zip(&of);
            let whole = whole.map(|(column, field)| {
                whole_column(&metadata, column, &bytes, field.data_type(), scratch)
                    .map_err(|error| named(error, &name, field.name()))
            });
            whole.map(|array| array.map(Some)).collect::<Result<Vec<_>>>()
        };
        let decoded = self.cache.workers().decode(decode).await;

        // A file that was replaced may look corrupt: the error must report the replacement.
        for bytes in &read {
            FileMetadata::check(bytes).await?;
        }

        let decoded = decoded??;
        Ok((decoded, working.is_some()))
    }

    fn fields_of(&self, columns: &[usize]) -> Vec<FieldRef> {
        columns.iter().filter_map(|at| self.fields.get(*at)).cloned().collect()
    }

    fn column(&self, at: usize) -> Result<&OpenColumn> {
        self.columns.get(at).and_then(Option::as_ref).ok_or_else(|| self.has_no_column(at))
    }

    fn has_no_column(&self, at: usize) -> Error {
        let column = self.fields.get(at).map_or_else(|| at.to_string(), |field| field.name().clone());
        Error::Schema { object: self.name(), column, reason: "the file has no such column".to_owned() }
    }
}

impl FileColumnsRequest {
    async fn columnar(self) -> Result<FileColumns> {
        let metadata = match self.object.version() {
            Some(_) => metadata_of(&self.cache, &self.object).await?,
            None => {
                self.cache.chunks().count_parsed();
                Arc::new(FileMetadata::open(&self.object).await?)
            }
        };

        let column = |field: &FieldRef| {
            let root = metadata.position(field.name())?;
            let stored = metadata.schema().fields().get(root)?;
            Some(self.column(root, Some(stored.data_type()), field))
        };
        let columns = self.fields.iter().map(column).collect();

        let rows = (0..metadata.row_group_count())
            .map(|row_group| metadata.row_group_rows(row_group))
            .sum::<u64>() as usize;
        let metadata = self.object.version().is_none().then_some(metadata);
        Ok(self.opened(columns, rows, metadata))
    }

    /// Opens a text file. It must be read to count its rows, so all requested columns are cached.
    async fn text(self, kind: TextKind) -> Result<FileColumns> {
        let fields: Vec<FieldRef> = self.fields.to_vec();
        let (rows, arrays) = text_file::read(&self.cache, &self.object, kind, &fields).await?;
        let column = |(field, array): (&FieldRef, &Option<ArrayRef>)| {
            array.as_ref().map(|_| self.column(0, None, field))
        };
        let columns: Box<[Option<OpenColumn>]> = self.fields.iter().zip(&arrays).map(column).collect();

        for (column, array) in columns.iter().zip(arrays) {
            if let (Some(OpenColumn { key: Some(key), decoded, .. }), Some(array)) = (column, array)
                && let ChunkLookup::Missing(promise) = self.cache.chunks().get_or_promise(key).await
            {
                self.cache.chunks().count_decoded();
                decoded.add();
                promise.publish(Chunk::Whole(array));
            }
        }

        Ok(self.opened(columns, rows, None))
    }

    fn column(&self, root: usize, stored: Option<&DataType>, field: &FieldRef) -> OpenColumn {
        let stored =
            stored.filter(|stored| !stored.equals_datatype(field.data_type())).cloned().map(Box::new);
        let id = self.cache.chunks().column_id(field.name(), field.data_type());
        let key = |object: ObjectHash| ChunkKey {
            object,
            row_group: 0,
            column: ProjectedColumn::whole(0),
            representation: ChunkRepresentation::Whole(id),
        };
        let key = self.object.version().map(key);

        let recent = RecentChunk::default();
        let hits = RelaxedCounter::default();
        let decoded = RelaxedCounter::default();
        OpenColumn { root, stored, id, key, recent, hits, decoded }
    }

    fn opened(
        self,
        columns: Box<[Option<OpenColumn>]>,
        rows: usize,
        metadata: Option<Arc<FileMetadata>>,
    ) -> FileColumns {
        let Self { cache, object, kind, fields } = self;
        FileColumns { cache, object, kind, fields, columns, rows, metadata }
    }
}

/// Returns the metadata of a file, parsed once for each version.
async fn metadata_of(cache: &Cache, object: &OpenObject) -> Result<Arc<FileMetadata>> {
    match object.version() {
        Some(version) => cache.chunks().file(version, FileMetadata::open(object)).await,
        None => Ok(Arc::new(FileMetadata::open(object).await?)),
    }
}

fn named(error: Error, object: &str, column: &str) -> Error {
    match error {
        Error::Arrow { source, .. } => {
            Error::Schema { object: object.to_owned(), column: column.to_owned(), reason: source.to_string() }
        }
        other => other,
    }
}
