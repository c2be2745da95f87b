//! Creates a graph store in a folder, commits twice, traverses both versions, and compacts.

use std::{error::Error, sync::Arc};

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use stylobate_columnar::Cache;
use stylobate_graph::{
    Direction, PropertyType, Result,
    store::{
        CompactOptions, EdgeType, Ends, GraphStore, Snapshot, StoreOptions, StoreSchema, VertexIds,
        VertexType,
    },
};
use stylobate_storage::{ByteSize, CacheOptions};

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = folder.path().to_string_lossy(); // or s3://, gs://, az://
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await?;
    let schema = StoreSchema::new()
        .with_vertices(VertexType::new("Person", "name", PropertyType::String))
        .with_edges(EdgeType::new("Person", "KNOWS", "Person"));
    let store = GraphStore::create(&cache, url.clone(), schema, StoreOptions::default()).await?;

    let mut writer = store.writer().await?;
    let persons = RecordBatch::try_from_iter([("name", names(&["Ada", "Ben", "Eve"]))])?;
    writer.add_vertices("Person", &persons).await?;
    writer.add_edges("KNOWS", &edges(&["Ada"], &["Ben"])?, Ends::Keys).await?;
    writer.commit().await?;
    let before = store.latest();

    writer.add_edges("KNOWS", &edges(&["Ben"], &["Eve"])?, Ends::Keys).await?;
    let version = writer.commit().await?;

    // Another process opens the newest version. A version that is open never changes.
    let opened = GraphStore::open(&cache, url, StoreOptions::default()).await?.latest();
    assert_eq!(opened.version(), version);
    let friends = second(&opened).await?;
    println!("friends of Ada's friends in version {version}: {friends:?}");
    assert_eq!(friends, ["Eve"]);
    assert!(second(&before).await?.is_empty());

    // Compaction turns commits into bases, in versions of their own, and changes no result.
    let compacted = store.compact(&CompactOptions::default().with_force(true)).await?;
    let types: Vec<&str> = compacted.iter().map(|one| one.of.as_str()).collect();
    assert_eq!(types, ["Person", "Person_KNOWS_Person"]);
    let degrees = store.latest().edges("KNOWS", None).await?.degrees(Direction::Out, &[0, 1, 2]).await?;
    assert_eq!(degrees.values().to_vec(), [1, 1, 0]);
    assert_eq!(second(&store.latest()).await?, ["Eve"]);

    Ok(())
}

/// Returns the names of the vertices that are two edges away from Ada.
async fn second(snapshot: &Snapshot) -> Result<Vec<String>> {
    let ada = VertexIds::Keys(names(&["Ada"]));
    let hops = snapshot.start("Person", ada).out("KNOWS", "Person").out("KNOWS", "Person");
    let rows = hops.select(["name"]).collect().await?;

    Ok(rows.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect())
}

fn names(names: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(names.to_vec()))
}

fn edges(from: &[&str], to: &[&str]) -> std::result::Result<RecordBatch, arrow::error::ArrowError> {
    RecordBatch::try_from_iter([("src", names(from)), ("dst", names(to))])
}
