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
    graphar::{EdgeWrite, GraphWriter, VertexWrite, WrittenAdjacencyList, gathering, unwritable},
    store::{
        base::{AdjacencyListInfo, EdgeBaseInfo},
        names::uuid7,
        schema::{DESTINATION, SOURCE},
    },
};

impl BaseWriter {
    /// Writes edges between vertices with indexes below `counts`: batches of the columns `src` and `dst`,
    /// [`DataType::Int64`], and then of `fields`. Parallel edges keep their order of arrival.
    ///
    /// # Errors
    ///
    /// Same as [`GraphWriter::edges`]. No files are left.
    pub(crate) async fn edges(
        &self,
        (source, edge, destination): (&str, &str, &str),
        counts: (u64, u64),
        fields: &[FieldRef],
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<EdgeBaseInfo> {
        let name = format!("{source}_{edge}_{destination}");
        let path = format!("edges/{name}-{}", uuid7());
        let options = self.options(self.memory.as_usize());
        let mut writer = GraphWriter::create(self.root.join(&path)?, &name, options).await?;
        // The tree is a separate graph: its vertices are counted, but have no properties.
        writer.vertices(VertexWrite::new(source, no_columns()), rows(counts.0)).await?;
        if source != destination {
            writer.vertices(VertexWrite::new(destination, no_columns()), rows(counts.1)).await?;
        }
        let ends = [SOURCE, DESTINATION].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
        let schema = Schema::new(ends.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>());
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let write = EdgeWrite::new(source, edge, destination, Arc::new(schema))
            .with_source(SOURCE)
            .with_destination(DESTINATION)
            .by_index()
            .with_groups([names]);

        let count = writer.edges(write, batches).await?;
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
