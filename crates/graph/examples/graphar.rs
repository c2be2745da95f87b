//! Writes a graph in the GraphAr format and reads it: vertices by a filter, and the neighbours of one.

use std::{error::Error, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};
use futures::{TryStreamExt, stream};
use stylobate_columnar::{Cache, col};
use stylobate_graph::{
    Direction,
    graphar::{EdgeWrite, Graph, GraphOptions, GraphWriteOptions, GraphWriter, VertexWrite, WrittenGraph},
};
use stylobate_storage::{ByteSize, CacheOptions, Destination};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("social");
    let written = write(&path).await?;
    println!("{}: {} files, {} bytes", written.file, written.files, written.bytes);
    assert_eq!((written.vertices, written.edges), (3, 2));

    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
    let graph = Graph::open(&cache, path.to_string_lossy(), GraphOptions::default()).await?;

    let old = graph.vertices("person")?.select(["id"])?.filter(&col("born").lt(2000))?;
    let old: Vec<RecordBatch> = old.stream().try_collect().await?;
    let ids = old.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(ids.collect::<Vec<_>>(), [70, 90]);

    // Edges name vertices by index, which is their position in the order in which they were written.
    let known = graph.edges("person", "knows", "person")?.neighbors(&[1], Direction::Out).await?;
    println!("the second person knows {} others", known.num_rows());
    let neighbors = known.column(1).as_primitive::<Int64Type>();
    assert_eq!(neighbors.values().to_vec(), [0, 2]);

    Ok(())
}

/// Writes three persons; the one with the key 20 knows the two others.
async fn write(path: &Path) -> Result<WrittenGraph, Box<dyn Error>> {
    let destination = Destination::File(path.to_owned());
    let mut writer = GraphWriter::create(destination, "social", GraphWriteOptions::default()).await?;

    let born = numbers(&[1999, 2001, 1984]);
    let persons = RecordBatch::try_from_iter([("id", numbers(&[70, 20, 90])), ("born", born)])?;
    let vertices = VertexWrite::new("person", persons.schema()).with_key("id");
    writer.vertices(vertices, stream::iter([Ok(persons)])).await?;

    let known = RecordBatch::try_from_iter([("src", numbers(&[20, 20])), ("dst", numbers(&[70, 90]))])?;
    let edges = EdgeWrite::new("person", "knows", "person", known.schema());
    writer.edges(edges, stream::iter([Ok(known)])).await?;

    Ok(writer.finish().await?)
}

fn numbers(numbers: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(numbers.to_vec()))
}
