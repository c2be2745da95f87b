//! Writes bases of vertices, and their sorted keys.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, FieldRef, Int64Type, Schema, SchemaRef},
    util::display::{ArrayFormatter, FormatOptions},
};
use futures::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use stylobate_columnar::parquet::{
    ColumnOptions, Compression, DictionaryEncoding, ParquetOptions, ParquetWriter,
};
use stylobate_storage::{Destination, Overwrite, Sinks, run_blocking};
use tokio::sync::mpsc;

use super::{BaseWriter, REQUESTS, described};
use crate::{
    Error, Result,
    graphar::{
        GraphWriteOptions, GraphWriter, KeyInsertError, VertexKeyIndex, VertexWrite, gathering, new_graph,
        plan_vertices, unwritable,
    },
    store::{
        base::{
            VertexBaseInfo,
            keys::{KeyFences, KeysInfo, LookupKeys, file, folder},
            keys_sort::{KeySorter, repeated},
        },
        budgeted::Budgeted,
        delta::deletion::DeletionSet,
        names::uuid7,
    },
};

/// Written base of vertices.
pub(crate) struct WrittenVertexBase {
    pub(crate) info: VertexBaseInfo,
    /// Their keys, if requested and within their share of the memory.
    pub(crate) keys: Option<VertexKeyMap>,
}

/// Keys of vertices in memory, for resolving edges.
#[derive(Clone, Debug)]
pub(crate) struct VertexKeyMap {
    of: String,
    keys: Arc<VertexKeyIndex>,
    first: u64,
}

impl VertexKeyMap {
    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.keys.memory()
    }

    /// Returns the indexes of keys; `None` for keys without a vertex.
    pub(crate) fn find(&self, keys: &ArrayRef) -> Result<Vec<Option<i64>>> {
        let fences = match self.keys.arrow() {
            DataType::Int64 => KeyFences::Numbers(Vec::new()),
            _ => KeyFences::Texts(Vec::new()),
        };
        let keys: ArrayRef = match fences.wanted(&self.of, keys)? {
            LookupKeys::Numbers(keys) => Arc::new(keys),
            LookupKeys::Texts(keys) => Arc::new(keys),
        };

        let index = |index: u64| Some((self.first + index) as i64);
        let mut found = Vec::with_capacity(keys.len());
        while found.len() < keys.len() {
            let rest = keys.slice(found.len(), keys.len() - found.len());
            match self.keys.find(&rest) {
                Ok(indexes) => found.extend(indexes.into_iter().map(index)),
                Err(missing) => {
                    let before = self.keys.find(&rest.slice(0, missing)).unwrap_or_default();
                    found.extend(before.into_iter().map(index));
                    found.push(None);
                }
            }
        }

        Ok(found)
    }
}

/// Collects keys while vertices are written.
struct VertexKeyCollector {
    of: String,
    column: String,
    at: usize,
    sorter: KeySorter,
    map: Option<VertexKeyIndex>,
    /// Memory for the map, in bytes.
    share: usize,
    /// Deleted vertices, by their indexes in the store. Their keys are skipped.
    deleted: Arc<Budgeted<DeletionSet>>,
    /// Index of the first vertex in the store.
    first: u64,
}

impl VertexKeyCollector {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let of = &self.of;
        let column = &self.column;
        let first = self.sorter.next();
        let given = batch.columns().get(self.at).ok_or_else(|| unwritable(of, "a batch without keys"))?;
        if let Some(row) = (given.null_count() > 0).then(|| (0..given.len()).find(|row| given.is_null(*row)))
        {
            return Err(wrong_row(of, column, first + row.unwrap_or_default() as u64, "the key is null"));
        }

        let wanted = self.sorter.schema().field(0).data_type().clone();
        let keys = cast(given, &wanted).map_err(gathering)?;
        if keys.null_count() > 0 {
            let reason = format!("column {column}: {} has keys that are no {wanted}", given.data_type());
            return Err(unwritable(of, reason));
        }

        if let Some(map) = &mut self.map {
            match map.insert(&keys, self.share) {
                Ok(()) => {}
                // Edges are then resolved by the key files.
                Err(KeyInsertError::TooLarge) => self.map = None,
                Err(KeyInsertError::Null { row }) => {
                    return Err(wrong_row(of, column, first + row as u64, "the key is null"));
                }
                Err(KeyInsertError::Repeated { row, earlier }) => {
                    let shown = ArrayFormatter::try_new(keys.as_ref(), &FormatOptions::default());
                    let shown = shown.map_or_else(|_| String::new(), |shown| shown.value(row).to_string());
                    return Err(twice(of, column, &shown, earlier, first + row as u64));
                }
            }
        }

        let deleted = &self.deleted;
        let first = self.first;
        self.sorter.push(&keys, &|row| !deleted.contains(first + row))
    }
}

fn wrong_row(of: &str, column: &str, row: u64, reason: impl Into<String>) -> Error {
    let row = usize::try_from(row).unwrap_or(usize::MAX);
    Error::Row { of: of.to_owned(), column: column.to_owned(), row, reason: reason.into() }
}

fn twice(of: &str, column: &str, key: &str, earlier: u64, later: u64) -> Error {
    wrong_row(of, column, later, format!("the key {key} is that of row {earlier} too"))
}

/// Checks that a base of vertices with these properties can be written, without I/O.
///
/// # Errors
///
/// [`Error::Unwritable`], as [`BaseWriter::vertices`].
pub(crate) fn check_vertices(type_name: &str, key: Option<&str>, fields: &[FieldRef]) -> Result<()> {
    let options = GraphWriteOptions::default();
    let graph = new_graph(type_name, &options)?;
    let schema = Arc::new(Schema::new(fields.to_vec()));
    plan_vertices(graph, vertex_write(type_name, key, schema), &options).map(drop)
}

/// Returns the request to write a base.
fn vertex_write(type_name: &str, key: Option<&str>, schema: SchemaRef) -> VertexWrite {
    let groups = groups(key, schema.fields());
    let write = VertexWrite::new(type_name, schema).with_groups(groups);
    match key {
        Some(key) => write.with_primary(key),
        None => write,
    }
}

impl BaseWriter {
    /// Writes vertices from batches of `fields`, with indexes starting at `first`, in their order of arrival.
    /// `keep_keys` keeps their keys in memory, for resolving edges that refer to them.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] if a key is null or repeated, and as [`GraphWriter::vertices`]. No files are left.
    pub(crate) async fn vertices(
        &self,
        type_name: &str,
        key: Option<&str>,
        fields: &[FieldRef],
        first: u64,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
        keep_keys: bool,
    ) -> Result<WrittenVertexBase> {
        self.vertices_without(type_name, key, fields, first, batches, keep_keys, Arc::default()).await
    }

    /// Writes like [`Self::vertices`], except for deleted vertices: they keep their indexes, but are not found by
    /// key.
    #[expect(clippy::too_many_arguments, reason = "what is written, and what of it is left out")]
    pub(crate) async fn vertices_without(
        &self,
        type_name: &str,
        key: Option<&str>,
        fields: &[FieldRef],
        first: u64,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
        keep_keys: bool,
        deleted: Arc<Budgeted<DeletionSet>>,
    ) -> Result<WrittenVertexBase> {
        let of = format!("vertices of type {type_name}");
        let path = format!("vertices/{type_name}-{}", uuid7());
        let memory = self.memory.as_usize();
        let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
        let tap = key.map(|key| self.tap(&of, key, &schema, keep_keys)).transpose()?;
        let tap = tap.map(|tap| VertexKeyCollector { deleted, first, ..tap });
        let tap = Arc::new(Mutex::new(tap));
        let tapped = batches.and_then(|batch| {
            let tap = tap.clone();
            async move {
                let held = tap.lock().take();
                let Some(mut held) = held else { return Ok(batch) };
                let (held, batch) = run_blocking(move || held.take(&batch).map(|()| (held, batch))).await??;
                *tap.lock() = Some(held);
                Ok(batch)
            }
        });

        let write = vertex_write(type_name, key, schema);
        let options = self.options(memory / 2);
        let mut writer = GraphWriter::create(self.root.join(&path)?, type_name, options).await?;
        let count = writer.vertices(write, tapped).await?;
        let written = writer.finish().await?;
        let info = written.info.vertices.first().ok_or_else(|| unwritable(&of, "nothing was written"))?;
        let mut base = VertexBaseInfo {
            path,
            type_name: type_name.to_owned(),
            first,
            count,
            chunk_size: info.chunk_size,
            prefix: info.prefix.clone(),
            groups: described(&info.groups),
            keys: None,
            bytes: written.bytes,
        };

        let tap = tap.lock().take();
        let Some(VertexKeyCollector { sorter, map, column, .. }) = tap else {
            return Ok(WrittenVertexBase { info: base, keys: None });
        };
        match self.keys(&of, &column, &base.path, first, sorter).await {
            Ok((keys, bytes)) => {
                base.keys = Some(keys);
                base.bytes += bytes;
            }
            Err(error) => {
                self.give_up(&base.path).await;
                return Err(error);
            }
        }

        let keys = map.map(|keys| VertexKeyMap { of: type_name.to_owned(), keys: Arc::new(keys), first });
        Ok(WrittenVertexBase { info: base, keys })
    }

    fn tap(&self, of: &str, key: &str, schema: &Schema, keep_keys: bool) -> Result<VertexKeyCollector> {
        let wrong = |reason: String| unwritable(of, format!("column {key}: {reason}"));
        let (at, field) = schema.column_with_name(key).ok_or_else(|| wrong("it is missing".to_owned()))?;
        let keys = crate::PropertyType::of_arrow(field.data_type()).and_then(|of| VertexKeyIndex::of(&of));
        let keys = keys.ok_or_else(|| wrong(format!("{} is no key", field.data_type())))?;
        let share = self.memory.as_usize() / 4;
        let folder = self.temporary_folder.clone().unwrap_or_else(std::env::temp_dir);
        let sorter = KeySorter::new(&keys.arrow(), share, folder);
        let map = keep_keys.then_some(keys);

        Ok(VertexKeyCollector {
            of: of.to_owned(),
            column: key.to_owned(),
            at,
            sorter,
            map,
            share,
            deleted: Arc::default(),
            first: 0,
        })
    }

    /// Writes sorted keys. Returns their description, and their bytes.
    async fn keys(
        &self,
        of: &str,
        column: &str,
        path: &str,
        first: u64,
        sorter: KeySorter,
    ) -> Result<(KeysInfo, u64)> {
        let count = sorter.count();
        let schema = sorter.schema().clone();
        let chunk_size = self.sizes.keys_chunk.clamp(1, u64::from(u32::MAX));
        let (sender, receiver) = mpsc::channel(2);
        let of = of.to_owned();
        let column = column.to_owned();
        let is_text = *schema.field(0).data_type() == DataType::Utf8;
        let sort = run_blocking(move || {
            let mut fences =
                if is_text { KeyFences::Texts(Vec::new()) } else { KeyFences::Numbers(Vec::new()) };
            let mut before: Option<RecordBatch> = None;
            for batch in sorter.finish(chunk_size as usize)? {
                let batch = batch?;
                if let Some((key, earlier, later)) = repeated(before.as_ref(), &batch) {
                    return Err(twice(&of, &column, &key, earlier, later));
                }
                let keys = batch.column(0);
                match &mut fences {
                    KeyFences::Numbers(fences) => {
                        fences.extend(keys.as_primitive::<Int64Type>().values().first().copied());
                    }
                    KeyFences::Texts(fences) => fences.push(keys.as_string::<i32>().value(0).to_owned()),
                }

                // If the receiver is closed, its task has failed and reports why.
                if sender.blocking_send(globally(&batch, first)?).is_err() {
                    break;
                }
                before = Some(batch);
            }

            Ok(fences)
        });

        let sinks = self.sinks();
        let folder = folder(path);
        let batches = futures::stream::unfold(receiver, |mut receiver| async move {
            let batch = receiver.recv().await?;
            Some((batch, receiver))
        });
        let files = batches.enumerate().map(|(number, batch)| {
            let sinks = sinks.clone();
            let to = self.root.join(&format!("{folder}{}", file(number as u64)));
            async move { write_keys(&sinks, &to?, batch).await }
        });

        let written =
            files.buffer_unordered(REQUESTS / 2).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) });
        let (fences, bytes) = futures::future::try_join(async { sort.await? }, written).await?;
        Ok((KeysInfo { count, chunk_size, fences }, bytes))
    }
}

/// Shifts indexes by `first`, so that they are those in the store.
fn globally(batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
    let indexes =
        batch.column(1).as_primitive::<Int64Type>().unary::<_, Int64Type>(|index| index + first as i64);
    let columns = vec![batch.column(0).clone(), Arc::new(indexes) as ArrayRef];
    RecordBatch::try_new(batch.schema(), columns).map_err(gathering)
}

async fn write_keys(sinks: &Sinks, to: &Destination, batch: RecordBatch) -> Result<u64> {
    // The name is unique, and a retried request must not conflict with itself.
    let sink = sinks.open(to, Overwrite::Replace).await?;
    let plain = ColumnOptions::default()
        .with_compression(Compression::Snappy)
        .with_dictionary(DictionaryEncoding::Off);
    let options = ParquetOptions::default().with_all_columns(plain).with_threads(1);
    let mut writer = ParquetWriter::new(sink, to.to_string(), batch.schema(), options)?;
    writer.write(&batch).await?;
    Ok(writer.finish().await?.bytes)
}

/// Groups properties: the key, each string and each list in a separate group, and all fixed-width ones together,
/// so that reading one string column reads no other.
fn groups(key: Option<&str>, fields: &[FieldRef]) -> Vec<Vec<String>> {
    let (narrow, wide): (Vec<&FieldRef>, Vec<&FieldRef>) = fields
        .iter()
        .filter(|field| Some(field.name().as_str()) != key)
        .partition(|field| field.data_type().is_primitive() || *field.data_type() == DataType::Boolean);
    let names = |fields: &[&FieldRef]| fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let mut groups: Vec<Vec<String>> = key.map(|key| vec![key.to_owned()]).into_iter().collect();
    groups.push(names(&narrow));
    groups.extend(wide.iter().map(|field| names(&[*field])));
    groups.retain(|group| !group.is_empty());
    groups
}
