//! Vertices of one type: their count, and the chunk files of their properties and labels.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::BooleanBuffer,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use stylobate_columnar::Columns;
use tokio::sync::OnceCell;

use super::{
    chunk_files::{ChunkFiles, ExpectedRowCount},
    columns::{INDEX, readable},
    graph_folder::GraphFolder,
    info::{FileType, VertexInfo},
};
use crate::{Error, Result};

/// State that all readers of one vertex type share.
pub(super) struct VertexTable {
    folder: GraphFolder,
    info: VertexInfo,
    count: OnceCell<u64>,
    /// Set once the files are verified to hold no more vertices than the count.
    ends: OnceCell<()>,
    /// By property group. The first column of each is the index.
    groups: Vec<ChunkFiles>,
    labels: ChunkFiles,
    /// All properties in the order of the groups.
    schema: SchemaRef,
}

/// Position of a property: its file, and its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PropertyColumnIndex {
    pub(super) group: usize,
    pub(super) column: usize,
}

impl VertexTable {
    pub(super) fn new(folder: GraphFolder, info: VertexInfo) -> Self {
        let index: FieldRef = Arc::new(Field::new(INDEX, DataType::Int64, true));
        let mut properties: Vec<FieldRef> = Vec::new();
        let mut groups = Vec::with_capacity(info.groups.len());
        for group in &info.groups {
            let fields: Vec<FieldRef> = group.properties.iter().map(readable).collect();
            properties.extend(fields.iter().cloned());
            let fields = std::iter::once(index.clone()).chain(fields).collect();
            groups.push(ChunkFiles::new(folder.clone(), group.file_type, fields));
        }

        let labels = info.labels.iter().map(|label| Arc::new(Field::new(label, DataType::Boolean, true)));
        let labels: Vec<FieldRef> = labels.collect();
        let labels = ChunkFiles::new(folder.clone(), FileType::Parquet, labels.into());
        let schema = Arc::new(Schema::new(properties));
        Self { folder, info, count: OnceCell::new(), ends: OnceCell::new(), groups, labels, schema }
    }

    pub(super) fn info(&self) -> &VertexInfo {
        &self.info
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of vertices, read once.
    pub(super) async fn count(&self) -> Result<u64> {
        let read = || async { self.folder.count(&self.info.count_path()).await };
        Ok(*self.count.get_or_try_init(read).await?)
    }

    /// Checks once that there are no more vertices than the count, for readers of all vertices.
    pub(super) async fn check_end(&self) -> Result<()> {
        let count = self.count().await?;
        let Some(group) = self.info.groups.first().filter(|_| count % self.info.chunk_size.max(1) == 0)
        else {
            return Ok(());
        };
        let next = || self.info.chunk_path(group, self.info.chunks(count));
        let look = || async { self.folder.ends_before(&next(), &self.info.count_path()).await };
        self.ends.get_or_try_init(look).await.copied()
    }

    /// Returns the count if it has been read already.
    pub(super) fn known_count(&self) -> Option<u64> {
        self.count.get().copied()
    }

    pub(super) fn property(&self, name: &str) -> Result<PropertyColumnIndex> {
        let found =
            self.info.property(name).map(|(group, at, _)| PropertyColumnIndex { group, column: at + 1 });
        found.ok_or_else(|| Error::NoSuchProperty {
            of: format!("vertex type {}", self.info.vertex_type),
            property: name.to_owned(),
            available: self
                .schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    pub(super) fn label(&self, name: &str) -> Result<usize> {
        let found = self.info.labels.iter().position(|label| label == name);
        found.ok_or_else(|| Error::NoSuchLabel {
            of: format!("vertex type {}", self.info.vertex_type),
            label: name.to_owned(),
            available: self.info.labels.join(", "),
        })
    }

    /// Returns the number of rows of a chunk.
    pub(super) fn chunk_rows(&self, chunk: u64, count: u64) -> Result<u64> {
        let first = chunk.saturating_mul(self.info.chunk_size);
        match count.checked_sub(first).filter(|rest| *rest > 0) {
            Some(rest) => Ok(rest.min(self.info.chunk_size)),
            None => Err(Error::OutOfRange {
                of: format!("chunks of vertex type {}", self.info.vertex_type),
                index: chunk as i64,
                count: self.info.chunks(count),
            }),
        }
    }

    /// Returns a property of a chunk's vertices if it is cached.
    #[inline]
    pub(super) fn cached(&self, chunk: u64, property: PropertyColumnIndex) -> Option<ArrayRef> {
        self.groups.get(property.group)?.cached(chunk, property.column)
    }

    /// Reads properties of a chunk's vertices.
    pub(super) async fn load(&self, chunk: u64, properties: &[PropertyColumnIndex]) -> Result<Columns> {
        let rows = ExpectedRowCount::Exactly(self.chunk_rows(chunk, self.count().await?)?);
        let mut found: Vec<Option<ArrayRef>> = vec![None; properties.len()];
        for (number, (files, group)) in self.groups.iter().zip(&self.info.groups).enumerate() {
            let (wanted, at): (Vec<usize>, Vec<usize>) = properties
                .iter()
                .enumerate()
                .filter(|(_, property)| property.group == number)
                .map(|(at, property)| (property.column, at))
                .unzip();
            if wanted.is_empty() {
                continue;
            }

            let path = || self.info.chunk_path(group, chunk);
            for (at, array) in at.into_iter().zip(files.get(chunk, path, rows, &wanted).await?) {
                if let Some(found) = found.get_mut(at) {
                    *found = Some(array);
                }
            }
        }

        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the bitmaps of labels of a chunk's vertices.
    pub(super) async fn labels(&self, chunk: u64, labels: &[usize]) -> Result<Vec<BooleanBuffer>> {
        let rows = ExpectedRowCount::Exactly(self.chunk_rows(chunk, self.count().await?)?);
        let arrays = self.labels.get(chunk, || self.info.label_path(chunk), rows, labels).await?;
        let has = |array: &ArrayRef| {
            let array = array.as_boolean();
            match array.nulls() {
                None => array.values().clone(),
                Some(nulls) => array.values() & nulls.inner(),
            }
        };
        Ok(arrays.iter().map(has).collect())
    }
}
