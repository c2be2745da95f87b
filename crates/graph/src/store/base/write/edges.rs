//! Writes bases of edges: by source and by destination, each sorted by both ends.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, FieldRef, Schema},
};
use futures::Stream;

use super::{BaseWriter, described};
use crate::{
    Result,
    graphar::{
        EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite, WrittenAdjacencyList, gathering, new_graph,
        plan_edges, plan_vertices, unwritable,
    },
    store::{
        base::{AdjacencyListInfo, EdgeBaseInfo},
        names::uuid7,
        schema::{DESTINATION, SOURCE},
    },
};

/// Maximum length of the type's name in the folder of a base, in bytes: file systems allow 255 for the whole name.
const MAX_FOLDER_NAME: usize = 200;

/// Names of an edge type: its source type, its own name, and its destination type.
type EdgeTypeNames<'a> = (&'a str, &'a str, &'a str);

/// Checks that a base of edges with these properties can be written, without I/O.
///
/// # Errors
///
/// [`Error::Unwritable`](crate::Error::Unwritable), as [`BaseWriter::edges`].
pub(crate) fn check_edges(names: EdgeTypeNames<'_>, fields: &[FieldRef]) -> Result<()> {
    let (source, _, destination) = names;
    let options = GraphWriteOptions::default();
    let mut graph = new_graph(&full_name(names), &options)?;
    let from = plan_vertices(graph.clone(), end_write(source), &options)?.info;
    graph.vertices.push(from.clone());

    let to = if source == destination {
        from.clone()
    } else {
        let to = plan_vertices(graph.clone(), end_write(destination), &options)?.info;
        graph.vertices.push(to.clone());
        to
    };

    plan_edges(graph, edge_write(names, fields), (&from, &to), &options).map(drop)
}

fn full_name((source, edge, destination): EdgeTypeNames<'_>) -> String {
    format!("{source}_{edge}_{destination}")
}

/// Returns the request to write the vertices of an end. The tree is a separate graph: its vertices are counted, but
/// have no properties.
fn end_write(vertex_type: &str) -> VertexWrite {
    VertexWrite::new(vertex_type, no_columns())
}

/// Returns the request to write the edges of a base.
fn edge_write((source, edge, destination): EdgeTypeNames<'_>, fields: &[FieldRef]) -> EdgeWrite {
    let ends = [SOURCE, DESTINATION].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    let schema = Schema::new(ends.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>());
    let properties: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    EdgeWrite::new(source, edge, destination, Arc::new(schema))
        .with_source(SOURCE)
        .with_destination(DESTINATION)
        .by_index()
        .with_groups([properties])
}

impl BaseWriter {
    /// Writes edges between vertices with indexes below `counts`: batches of the columns `src` and `dst`,
    /// [`DataType::Int64`], and then of `fields`. Parallel edges keep their order of arrival.
    ///
    /// # Errors
    ///
    /// Same as [`GraphWriter::edges`]. No files are left.
    pub(crate) async fn edges(
        &self,
        names: EdgeTypeNames<'_>,
        counts: (u64, u64),
        fields: &[FieldRef],
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<EdgeBaseInfo> {
        let (source, edge, destination) = names;
        let name = full_name(names);
        let path = format!("edges/{}-{}", name.get(..MAX_FOLDER_NAME).unwrap_or(&name), uuid7());
        let options = self.options(self.memory.as_usize());
        let mut writer = GraphWriter::create(self.root.join(&path)?, &name, options).await?;
        writer.vertices(end_write(source), rows(counts.0)).await?;
        if source != destination {
            writer.vertices(end_write(destination), rows(counts.1)).await?;
        }

        let count = writer.edges(edge_write(names, fields), batches).await?;
        let mut lists = writer.lists().iter().cloned().map(described_list);
        let (by_source, by_destination) =
            (lists.next().unwrap_or_default(), lists.next().unwrap_or_default());
        drop(lists);
        let written = writer.finish().await?;
        let info = written.info.edges.first().ok_or_else(|| unwritable(&name, "nothing was written"))?;

        Ok(EdgeBaseInfo {
            path,
            source_type: source.to_owned(),
            edge_type: edge.to_owned(),
            destination_type: destination.to_owned(),
            count,
            sources: counts.0,
            destinations: counts.1,
            source_chunk_size: info.src_chunk_size,
            destination_chunk_size: info.dst_chunk_size,
            edge_chunk_size: info.chunk_size,
            prefix: info.prefix.clone(),
            groups: described(&info.groups),
            by_source,
            by_destination,
            bytes: written.bytes,
        })
    }
}

fn described_list(list: WrittenAdjacencyList) -> AdjacencyListInfo {
    AdjacencyListInfo { parts: list.parts, firsts: list.firsts, continued: list.continued }
}

fn no_columns() -> Arc<Schema> {
    Arc::new(Schema::empty())
}

/// Streams `count` rows without columns.
fn rows(count: u64) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let options =
        RecordBatchOptions::new().with_row_count(Some(usize::try_from(count).unwrap_or(usize::MAX)));
    let batch = RecordBatch::try_new_with_options(no_columns(), Vec::new(), &options);
    futures::stream::iter([batch.map_err(gathering)])
}
