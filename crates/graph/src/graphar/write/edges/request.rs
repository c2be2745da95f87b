//! Request to write the edges of one type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{
    Result,
    graphar::{
        Adjacency, AdjacencyOrder, EdgeInfo, FileType, VertexInfo,
        columns::{DESTINATION, OFFSET, SOURCE},
        write::{
            columns::{InputColumnCast, InputColumns},
            files::chunk_file::ChunkFileSpec,
            names::{check_columns, check_file_type, groups, unwritable},
            options::GraphWriteOptions,
        },
    },
};

/// Edges of one type: their columns, and how they are stored.
#[derive(Clone, Debug)]
pub struct EdgeWrite {
    src_type: String,
    edge_type: String,
    dst_type: String,
    schema: SchemaRef,
    source: String,
    destination: String,
    pub(crate) by_index: bool,
    adjacencies: Vec<AdjacencyOrder>,
    directed: bool,
    chunk_size: Option<u64>,
    file_type: Option<FileType>,
    groups: Vec<Vec<String>>,
}

impl EdgeWrite {
    /// Returns a request for edges between vertices of two types, which must be written first. Columns of `schema`
    /// other than the ends are properties.
    pub fn new(
        src_type: impl Into<String>,
        edge_type: impl Into<String>,
        dst_type: impl Into<String>,
        schema: SchemaRef,
    ) -> Self {
        Self {
            src_type: src_type.into(),
            edge_type: edge_type.into(),
            dst_type: dst_type.into(),
            schema,
            source: "src".to_owned(),
            destination: "dst".to_owned(),
            by_index: false,
            adjacencies: vec![AdjacencyOrder::OrderedBySource, AdjacencyOrder::OrderedByDest],
            directed: true,
            chunk_size: None,
            file_type: None,
            groups: Vec::new(),
        }
    }

    /// Sets the column with the key of an edge's source. Default: `src`.
    pub fn with_source(mut self, column: impl Into<String>) -> Self {
        self.source = column.into();
        self
    }

    /// Sets the column with the key of an edge's destination. Default: `dst`.
    pub fn with_destination(mut self, column: impl Into<String>) -> Self {
        self.destination = column.into();
        self
    }

    /// Reads the end columns as vertex indexes, assigned in the order in which vertices arrived, from 0. Default: keys.
    pub fn by_index(mut self) -> Self {
        self.by_index = true;
        self
    }

    /// Sets the lists that edges are stored in. An ordered list sorts by the aligned end, then by the other; edges with
    /// the same ends keep their order of arrival, as do all edges of a part of an unordered list. Default: ordered by
    /// source, and ordered by destination.
    pub fn with_adjacencies(mut self, orders: impl IntoIterator<Item = AdjacencyOrder>) -> Self {
        self.adjacencies = orders.into_iter().collect();
        self
    }

    /// Sets whether an edge from `a` to `b` differs from one from `b` to `a`; it is stored unchanged in both cases.
    /// Default: true.
    pub fn with_directed(mut self, directed: bool) -> Self {
        self.directed = directed;
        self
    }

    /// Sets the number of edges per chunk, 1 or more. Default: as in `GraphWriteOptions`.
    pub fn with_chunk_size(mut self, edges: u64) -> Self {
        self.chunk_size = Some(edges);
        self
    }

    /// Sets the format of its files. Default: as in `GraphWriteOptions`.
    pub fn with_file_type(mut self, file_type: FileType) -> Self {
        self.file_type = Some(file_type);
        self
    }

    /// Groups properties; each group has its own file per chunk. Ungrouped properties form one more group. Default: all
    /// in one group.
    pub fn with_groups<G, S>(mut self, groups: impl IntoIterator<Item = G>) -> Self
    where
        G: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.groups = groups.into_iter().map(|group| group.into_iter().map(Into::into).collect()).collect();
        self
    }

    /// Returns the vertex types of sources and destinations.
    pub(crate) fn vertex_types(&self) -> (&str, &str) {
        (&self.src_type, &self.dst_type)
    }

    /// Plans the write.
    pub(crate) fn plan(
        self,
        options: &GraphWriteOptions,
        src: &VertexInfo,
        dst: &VertexInfo,
    ) -> Result<EdgeWritePlan> {
        let name = format!("{}_{}_{}", self.src_type, self.edge_type, self.dst_type);
        let of = format!("edges of type {name}");
        let input = InputColumns::new(&of, &self.schema);
        let names = input.names();
        for end in [&self.source, &self.destination] {
            input.field(end)?;
        }

        if self.source == self.destination {
            let reason = format!("column {} cannot be both ends of an edge", self.source);
            return Err(unwritable(&of, reason));
        }
        // End columns may have names that GraphAr reserves.
        let others = names.iter().filter(|name| **name != self.source && **name != self.destination);
        check_columns(&of, others.map(String::as_str))?;
        if self.adjacencies.is_empty() {
            return Err(unwritable(&of, "edges are in one list at least"));
        }

        let file_type = self.file_type.unwrap_or(options.file_type);
        check_file_type(&of, file_type)?;
        let properties = names.iter().filter(|name| **name != self.source && **name != self.destination);
        let properties = properties.map(|name| input.property(name, false)).collect::<Result<_>>()?;
        let reserved = ["adj_list/", "offset/"];

        let mut adjacencies: Vec<Adjacency> = Vec::new();
        for order in self.adjacencies {
            if adjacencies.iter().any(|known| known.order == order) {
                return Err(unwritable(&of, format!("the list {order} is there twice")));
            }
            adjacencies.push(Adjacency::new(order, file_type));
        }

        let info = EdgeInfo {
            chunk_size: self.chunk_size.unwrap_or(options.edge_chunk_size),
            src_chunk_size: src.chunk_size,
            dst_chunk_size: dst.chunk_size,
            directed: self.directed,
            prefix: format!("edge/{name}/"),
            adjacencies,
            groups: groups(&of, properties, &self.groups, file_type, &reserved)?,
            src_type: self.src_type,
            edge_type: self.edge_type,
            dst_type: self.dst_type,
        };

        let properties = info.groups.iter().flat_map(|group| &group.properties);
        let columns = properties.map(|property| input.column_of(property)).collect::<Result<_>>()?;
        let source = self.source;
        let destination = self.destination;
        Ok(EdgeWritePlan { input, info, columns, source, destination })
    }
}

/// Plan of writing the edges of one type.
#[derive(Debug)]
pub(crate) struct EdgeWritePlan {
    pub(crate) input: InputColumns,
    pub(crate) info: EdgeInfo,
    /// Properties, group by group.
    pub(crate) columns: Vec<InputColumnCast>,
    /// Columns of ends.
    pub(crate) source: String,
    pub(crate) destination: String,
}

impl EdgeWritePlan {
    /// Returns the columns of all files together: both ends, and all properties group by group.
    pub(crate) fn schema(&self) -> SchemaRef {
        let ends = [SOURCE, DESTINATION].map(|name| Field::new(name, DataType::Int64, false));
        let properties = self.properties();
        let fields = ends.into_iter().map(Arc::new).chain(properties.fields().iter().cloned());
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Returns all properties group by group.
    pub(crate) fn properties(&self) -> Schema {
        let properties = self.info.groups.iter().flat_map(|group| &group.properties);
        let fields =
            properties.map(|property| Field::new(&property.name, property.arrow(), property.is_nullable));
        Schema::new(fields.collect::<Vec<_>>())
    }
}

/// Returns the files of a chunk of a part, and the columns of each.
pub(crate) fn edge_files(
    info: &EdgeInfo,
    list: &Adjacency,
    schema: &SchemaRef,
    part: u64,
    chunk: u64,
) -> Vec<(ChunkFileSpec, Vec<usize>)> {
    let plan = |file: String, file_type: FileType, distinct: usize, columns: Vec<usize>| {
        let fields = columns.iter().filter_map(|at| schema.fields().get(*at).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        (ChunkFileSpec { file, file_type, schema, distinct, rows: info.chunk_size }, columns)
    };

    let mut files = vec![plan(info.adjacency_path(list, part, chunk), list.file_type, 2, vec![0, 1])];
    let mut next = 2;
    for group in &info.groups {
        let columns = (next..next + group.properties.len()).collect();
        next += group.properties.len();
        files.push(plan(info.property_path(list, group, part, chunk), group.file_type, 0, columns));
    }

    files
}

/// Returns the file of a part's offsets.
pub(crate) fn offset_file(info: &EdgeInfo, list: &Adjacency, part: u64, rows: u64) -> ChunkFileSpec {
    ChunkFileSpec {
        file: info.offset_path(list, part),
        file_type: list.file_type,
        schema: Arc::new(Schema::new(vec![Field::new(OFFSET, DataType::Int64, false)])),
        distinct: 1,
        rows,
    }
}
