//! Request to write the vertices of one type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::labels::LabelColumnsBuilder;
use crate::{
    PropertyType, Result,
    graphar::{
        FileType, VertexInfo,
        columns::INDEX,
        write::{
            columns::{InputColumnCast, InputColumns},
            files::chunk_file::ChunkFileSpec,
            keys::VertexKeyIndex,
            names::{check_columns, check_file_type, groups, no_property, unwritable},
            options::GraphWriteOptions,
        },
    },
};

/// Vertices of one type: their columns, and how they are stored.
#[derive(Clone, Debug)]
pub struct VertexWrite {
    vertex_type: String,
    schema: SchemaRef,
    key: Option<String>,
    has_map: bool,
    chunk_size: Option<u64>,
    file_type: Option<FileType>,
    groups: Vec<Vec<String>>,
    labels_column: Option<String>,
    labels: Vec<String>,
}

impl VertexWrite {
    /// Returns a request for vertices of a type, with the columns of `schema` as properties. Dictionaries, views and
    /// narrow numbers are converted to GraphAr types: see [`PropertyType::of_arrow`].
    pub fn new(vertex_type: impl Into<String>, schema: SchemaRef) -> Self {
        Self {
            vertex_type: vertex_type.into(),
            schema,
            key: None,
            has_map: false,
            chunk_size: None,
            file_type: None,
            groups: Vec::new(),
            labels_column: None,
            labels: Vec::new(),
        }
    }

    /// Sets the key column: integers or strings, unique and not null. Edges refer to vertices by it. All keys are in
    /// memory until the graph is finished: about 30 bytes per integer, unless they are consecutive, and about 25 bytes
    /// plus its length per string. Default: none.
    pub fn with_key(mut self, column: impl Into<String>) -> Self {
        (self.key, self.has_map) = (Some(column.into()), true);
        self
    }

    /// Declares a primary key without checking it: no keys are kept in memory, and edges refer to vertices by index.
    /// Default: none.
    pub fn with_primary(mut self, column: impl Into<String>) -> Self {
        (self.key, self.has_map) = (Some(column.into()), false);
        self
    }

    /// Sets the number of vertices per chunk, 1 or more. Default: as in `GraphWriteOptions`.
    pub fn with_chunk_size(mut self, vertices: u64) -> Self {
        self.chunk_size = Some(vertices);
        self
    }

    /// Sets the format of its files. Default: as in `GraphWriteOptions`.
    pub fn with_file_type(mut self, file_type: FileType) -> Self {
        self.file_type = Some(file_type);
        self
    }

    /// Groups properties; each group has its own file per chunk. Ungrouped properties form one more group. Default: the
    /// key in one group, all others in another.
    pub fn with_groups<G, S>(mut self, groups: impl IntoIterator<Item = G>) -> Self
    where
        G: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.groups = groups.into_iter().map(|group| group.into_iter().map(Into::into).collect()).collect();
        self
    }

    /// Sets the column with the labels of each vertex, a list of strings or one string; it is not a property. Default:
    /// none.
    pub fn with_labels_column(mut self, column: impl Into<String>) -> Self {
        self.labels_column = Some(column.into());
        self
    }

    /// Sets the labels and their order; without a column of labels, every vertex has all of them. Default: those of the
    /// column, in the order of their first occurrence.
    pub fn with_labels<S: Into<String>>(mut self, labels: impl IntoIterator<Item = S>) -> Self {
        self.labels = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Plans the write.
    pub(crate) fn plan(self, options: &GraphWriteOptions) -> Result<VertexWritePlan> {
        let of = format!("vertices of type {}", self.vertex_type);
        let input = InputColumns::new(&of, &self.schema);
        let names = input.names();
        check_columns(&of, names.iter().map(String::as_str))?;
        let labels = LabelColumnsBuilder::new(&input, self.labels_column.as_deref(), &self.labels)?;
        if let Some(key) = self.key.as_ref().filter(|key| !names.contains(key)) {
            return Err(no_property(&of, key, &names));
        }

        let is_property = |name: &&String| Some(*name) != self.labels_column.as_ref();
        let is_key = |name: &String| Some(name) == self.key.as_ref();
        let properties = names.iter().filter(is_property).map(|name| input.property(name, is_key(name)));
        let file_type = self.file_type.unwrap_or(options.file_type);
        check_file_type(&of, file_type)?;
        let mut wanted = self.groups;
        if wanted.is_empty() {
            wanted.extend(self.key.clone().map(|key| vec![key]));
        }
        let chunk_size = self.chunk_size.unwrap_or(options.vertex_chunk_size);
        let mut info = VertexInfo::new(&self.vertex_type, chunk_size);
        info.prefix = format!("vertex/{}/", self.vertex_type);
        info.groups = groups(&of, properties.collect::<Result<_>>()?, &wanted, file_type, &["labels/"])?;
        info.labels = self.labels;

        let properties = info.groups.iter().flat_map(|group| &group.properties);
        let columns = properties.map(|property| {
            if property.is_primary && self.has_map {
                // The key index reports nulls.
                input.nullable_column(&property.name, property.arrow())
            } else {
                input.column_of(property)
            }
        });

        let columns = columns.collect::<Result<_>>()?;
        let key = self.key.as_ref().filter(|_| self.has_map);
        let key = key.map(|key| IndexedKeyColumn::new(&input, key)).transpose()?;
        Ok(VertexWritePlan { columns, input, info, key, labels })
    }
}

/// Plan of writing the vertices of one type.
#[derive(Debug)]
pub(crate) struct VertexWritePlan {
    pub(crate) input: InputColumns,
    /// Labels are complete once all vertices have arrived.
    pub(crate) info: VertexInfo,
    /// Properties, group by group.
    pub(crate) columns: Vec<InputColumnCast>,
    pub(crate) key: Option<IndexedKeyColumn>,
    pub(crate) labels: Option<LabelColumnsBuilder>,
}

/// Key column, and its index so far.
#[derive(Debug)]
pub(crate) struct IndexedKeyColumn {
    pub(crate) column: InputColumnCast,
    pub(crate) keys: VertexKeyIndex,
}

impl IndexedKeyColumn {
    fn new(input: &InputColumns, name: &str) -> Result<Self> {
        let (_, field) = input.field(name)?;
        let keys = PropertyType::of_arrow(field.data_type()).and_then(|of| VertexKeyIndex::of(&of));
        let keys = keys.ok_or_else(|| {
            let reason =
                format!("column {name}: {} is no key: whole numbers and texts are", field.data_type());
            unwritable(input.of(), reason)
        })?;
        Ok(Self { column: input.nullable_column(name, keys.arrow())?, keys })
    }
}

impl VertexWritePlan {
    /// Returns the columns of all files together: the index, and all properties group by group.
    pub(crate) fn schema(&self) -> SchemaRef {
        let index = Field::new(INDEX, DataType::Int64, false);
        let properties = self.info.groups.iter().flat_map(|group| &group.properties);
        let fields =
            properties.map(|property| Field::new(&property.name, property.arrow(), property.is_nullable));
        Arc::new(Schema::new(std::iter::once(index).chain(fields).collect::<Vec<_>>()))
    }

    /// Returns the files of a chunk, and the columns of each.
    pub(crate) fn files(&self, schema: &SchemaRef, chunk: u64) -> Vec<(ChunkFileSpec, Vec<usize>)> {
        let mut next = 1;
        let files = self.info.groups.iter().map(|group| {
            let columns: Vec<usize> = std::iter::once(0).chain(next..next + group.properties.len()).collect();
            next += group.properties.len();
            let fields = columns.iter().filter_map(|at| schema.fields().get(*at).cloned());
            let plan = ChunkFileSpec {
                file: self.info.chunk_path(group, chunk),
                file_type: group.file_type,
                schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
                distinct: 1,
                rows: self.info.chunk_size,
            };

            (plan, columns)
        });

        files.collect()
    }
}
