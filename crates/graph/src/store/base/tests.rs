//! Bases written and read back: compared with a plain model, read by a strict reader of GraphAr, and checked for
//! the number of requests.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, FieldRef, Int64Type, Schema, TimeUnit},
};
use futures::{TryStreamExt, stream};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::Cache;
use stylobate_storage::{ByteSize, CacheOptions, Destination};

use super::{
    VertexBaseInfo,
    edges::EdgeBase,
    vertices::VertexBase,
    write::{BaseChunkSizes, BaseWriter, edges::check_edges, vertices::check_vertices},
};
use crate::{
    Direction, Error, Result,
    graphar::{AdjacencyOrder, Graph, GraphFolder, GraphOptions, Strictness},
    store::budgeted::Budgeted,
};

struct BaseFixture {
    temporary: tempfile::TempDir,
    folder: GraphFolder,
    writer: BaseWriter,
}

async fn lake(memory: ByteSize, sizes: BaseChunkSizes) -> BaseFixture {
    let temporary = tempfile::tempdir().unwrap();
    let cache = Cache::open(CacheOptions::new(memory)).await.unwrap();
    let store = cache.store("file:///", &[]).unwrap();
    let base = format!("{}/", temporary.path().to_str().unwrap().trim_start_matches('/'));
    let folder = GraphFolder { cache, store, base, strictness: Strictness::Tolerant };
    let writer = BaseWriter {
        sizes,
        durability: stylobate_storage::Durability::None,
        ..BaseWriter::new(Destination::File(temporary.path().to_owned()), ByteSize::mib(64))
    };

    BaseFixture { temporary, folder, writer }
}

fn sizes(rows: u64) -> BaseChunkSizes {
    BaseChunkSizes { vertex_chunk: rows, edge_chunk: rows, keys_chunk: rows }
}

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn person_fields(key: DataType) -> Vec<FieldRef> {
    vec![
        field("id", key),
        field("name", DataType::Utf8),
        field("age", DataType::Int32),
        field("seen", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ]
}

fn persons(range: std::ops::Range<i64>, is_text: bool) -> RecordBatch {
    let key = |n: i64| (n * 7_919) % 100_003;
    let keys: ArrayRef = if is_text {
        Arc::new(range.clone().map(|n| Some(format!("k{}", key(n)))).collect::<StringArray>())
    } else {
        Arc::new(Int64Array::from_iter_values(range.clone().map(key)))
    };
    let names: StringArray = range.clone().map(|n| (n % 5 > 0).then(|| format!("name {n}"))).collect();
    let ages: arrow::array::Int32Array = range.clone().map(|n| (n % 3 > 0).then_some(n as i32)).collect();
    let seen = arrow::array::TimestampMicrosecondArray::from_iter_values(range.map(|n| n * 1_000));
    let schema = Schema::new(person_fields(keys.data_type().clone()));

    RecordBatch::try_new(Arc::new(schema), vec![keys, Arc::new(names), Arc::new(ages), Arc::new(seen)])
        .unwrap()
}

async fn write_persons(lake: &BaseFixture, count: i64, first: u64, is_text: bool) -> Result<VertexBaseInfo> {
    let fields = person_fields(if is_text { DataType::Utf8 } else { DataType::Int64 });
    let batches = (0..count).step_by(700).map(|start| Ok(persons(start..count.min(start + 700), is_text)));
    let batches: Vec<_> = batches.collect();
    let written =
        lake.writer.vertices("Person", Some("id"), &fields, first, stream::iter(batches), true).await?;
    let keys = written.keys.unwrap();
    let asked: ArrayRef = Arc::new(persons(3..6, is_text).column(0).slice(0, 3));
    assert_eq!(keys.find(&asked).unwrap(), [3, 4, 5].map(|index| Some(first as i64 + index)));
    Ok(written.info)
}

#[tokio::test(flavor = "multi_thread")]
async fn vertices_are_found_by_index_and_by_key_whatever_is_in_the_cache() {
    for (memory, is_text) in [(256, false), (0, false), (256, true), (0, true)] {
        let lake = lake(ByteSize::mib(memory), sizes(97)).await;
        let info = write_persons(&lake, 7_000, 1_000, is_text).await.unwrap();
        backdate(lake.temporary.path());
        assert_eq!((info.first, info.count, info.keys.as_ref().unwrap().count), (1_000, 7_000, 7_000));
        let again: VertexBaseInfo = serde_json::from_slice(&serde_json::to_vec(&info).unwrap()).unwrap();
        assert_eq!(again, info);

        let fields = person_fields(if is_text { DataType::Utf8 } else { DataType::Int64 });
        let base =
            Arc::new(Budgeted::new(&lake.folder.cache, VertexBase::open(&lake.folder, &info, &fields)));
        let wanted =
            [fields[1].clone(), field("later", DataType::Float64), fields[3].clone(), fields[2].clone()];
        let selection = base.select(&wanted);
        let mut random = StdRng::seed_from_u64(5);

        for count in [0, 1, 3, 1_000] {
            let indexes: Vec<i64> = (0..count).map(|_| random.random_range(1_000..8_000)).collect();
            let rows: Vec<i64> = indexes.iter().map(|index| index - 1_000).collect();
            let all = persons(0..7_000, is_text);
            let taken = base.take(&indexes, &selection).await.unwrap();
            let rows = Int64Array::from(rows);
            for (array, at) in [(&taken[0], 1), (&taken[2], 3), (&taken[3], 2)] {
                assert_eq!(array, &arrow::compute::take(all.column(at), &rows, None).unwrap());
            }

            assert_eq!((taken[1].null_count(), taken[1].len()), (count, count));
            let keys = arrow::compute::take(all.column(0), &rows, None).unwrap();
            let found = base.indexes_of(&keys).await.unwrap();
            assert_eq!(found, indexes.iter().map(|index| Some(*index)).collect::<Vec<_>>());
        }

        assert!(matches!(base.take(&[8_000], &selection).await, Err(Error::OutOfRange { .. })));
        assert!(matches!(base.take(&[999], &selection).await, Err(Error::OutOfRange { .. })));
        let unknown: ArrayRef = if is_text {
            Arc::new(StringArray::from(vec![Some(""), None, Some("zzz"), Some("k1x")]))
        } else {
            Arc::new(Int64Array::from(vec![Some(-1), None, Some(i64::MAX), Some(100_002)]))
        };
        assert_eq!(base.indexes_of(&unknown).await.unwrap(), [None; 4]);

        let rows: Vec<_> = base.stream(&selection).try_collect().await.unwrap();
        assert_eq!(rows.iter().map(|rows| rows.rows).sum::<usize>(), 7_000);
        assert_eq!((rows[1].first, rows[1].columns[0].len()), (1_097, 97));

        base.take(&[1_000, 7_999], &selection).await.unwrap();
        let is_cached = base.take_cached(&[1_000, 7_999], &selection).is_some();
        assert_eq!(is_cached, memory > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_null_or_there_twice_is_an_error_with_its_row_and_nothing_is_left() {
    let lake = lake(ByteSize::mib(64), sizes(97)).await;
    let fields = [field("id", DataType::Int64)];
    for keep in [true, false] {
        for (keys, said) in [
            (vec![Some(4), None], "column id, row 1: the key is null"),
            (vec![Some(4), Some(5), Some(4)], "column id, row 2: the key 4 is that of row 0 too"),
        ] {
            let batch = RecordBatch::try_new(
                Arc::new(Schema::new(fields.to_vec())),
                vec![Arc::new(Int64Array::from(keys))],
            );
            let batches = stream::iter([Ok(batch.unwrap())]);
            let failed = lake.writer.vertices("Person", Some("id"), &fields, 0, batches, keep).await;
            let error = failed.err().unwrap().to_string();
            assert!(error.contains("Person") && error.contains(said), "{error}");
        }
    }

    let left: Vec<_> = walk(lake.temporary.path());
    assert_eq!(left, Vec::<String>::new());
}

/// Dates all files of a folder some time back: recent files may still change, and are not cached.
fn backdate(folder: &std::path::Path) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    for path in walk(folder) {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.flat_map(|entry| {
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path())
        } else {
            vec![entry.path().display().to_string()]
        }
    });
    files.collect()
}

/// Returns edges as a plain list: both ends and a number, in their order of arrival.
fn random_edges(count: usize, vertices: (i64, i64), seed: u64) -> Vec<(i64, i64, i64)> {
    let mut random = StdRng::seed_from_u64(seed);
    let edge = |at: usize| {
        // Some vertices have very many edges, many of them parallel.
        let hub = random.random_range(0..3) == 0;
        let source = if hub { 5 } else { random.random_range(0..vertices.0) };
        let destination = if hub { random.random_range(0..40) } else { random.random_range(0..vertices.1) };
        (source, destination, at as i64)
    };
    (0..count).map(edge).collect()
}

fn edge_batch(edges: &[(i64, i64, i64)]) -> RecordBatch {
    let column = |pick: fn(&(i64, i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(edges.iter().map(pick)))
    };
    let texts: StringArray = edges.iter().map(|edge| Some(format!("t{}", edge.2))).collect();
    let ends = ["src", "dst"].map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    let schema = Schema::new(ends.into_iter().chain(edge_fields()).collect::<Vec<_>>());
    let columns = vec![column(|edge| edge.0), column(|edge| edge.1), column(|edge| edge.2), Arc::new(texts)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn edge_fields() -> Vec<FieldRef> {
    vec![field("at", DataType::Int64), field("text", DataType::Utf8)]
}

fn ints(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<Int64Type>().values().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_are_found_by_either_end_and_by_both_whatever_is_in_the_cache() {
    for (memory, chunk) in [(256, 64), (0, 64), (256, 1 << 16), (256, 7)] {
        let lake = lake(ByteSize::mib(memory), sizes(chunk)).await;
        let sources = 500;
        let destinations = 300;
        let edges = random_edges(3_000, (sources, destinations), chunk);
        let batches: Vec<_> = edges.chunks(800).map(|edges| Ok(edge_batch(edges))).collect();
        let counts = (sources as u64, destinations as u64);
        let fields = edge_fields();
        let info = lake.writer.edges(("Person", "LIKES", "Post"), counts, &fields, stream::iter(batches));
        let info = info.await.unwrap();
        let base =
            Arc::new(Budgeted::new(&lake.folder.cache, EdgeBase::open(&lake.folder, &info, &edge_fields())));
        let selection = base.select(&[
            field("text", DataType::Utf8),
            field("none", DataType::Date32),
            edge_fields()[0].clone(),
        ]);

        for direction in [Direction::Out, Direction::In] {
            let mut model: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
            for (source, destination, at) in &edges {
                let (vertex, neighbor) = match direction {
                    Direction::Out => (*source, *destination),
                    Direction::In => (*destination, *source),
                };
                model.entry(vertex).or_default().push((neighbor, *at));
            }

            model.values_mut().for_each(|edges| edges.sort());

            let vertex_count = if direction == Direction::Out { sources } else { destinations };
            let vertices: Vec<i64> = (0..vertex_count + 5).rev().collect();
            let slices = base.list(direction).slices(&vertices).await.unwrap();
            let mut all = Vec::new();
            for (vertex, slice) in vertices.iter().zip(&slices) {
                let wanted = model.get(vertex).cloned().unwrap_or_default();
                assert_eq!(&base.list(direction).slice(*vertex).await.unwrap(), slice);
                let (neighbors, columns) =
                    base.list(direction).read(std::slice::from_ref(slice), &selection).await.unwrap();
                let found: Vec<(i64, i64)> =
                    neighbors.values().iter().copied().zip(ints(&columns[2])).collect();
                assert_eq!(found, wanted, "{vertex} {direction:?}");
                assert_eq!((columns[1].len(), columns[1].null_count()), (found.len(), found.len()));

                let texts = columns[0].as_string::<i32>();
                assert!(found.iter().enumerate().all(|(row, (_, at))| texts.value(row) == format!("t{at}")));
                all.extend(wanted);
            }

            let (neighbors, columns) = base.list(direction).read(&slices, &selection).await.unwrap();
            assert_eq!(neighbors.values().iter().copied().zip(ints(&columns[2])).collect::<Vec<_>>(), all);
            for (vertex, neighbor) in
                (0..40).flat_map(|vertex| (0..15).map(move |neighbor| (vertex, neighbor)))
            {
                let wanted: Vec<(i64, i64)> = model.get(&vertex).into_iter().flatten().copied().collect();
                let wanted: Vec<(i64, i64)> = wanted.into_iter().filter(|edge| edge.0 == neighbor).collect();
                let found = base.list(direction).find(vertex, neighbor, &selection).await.unwrap();
                assert_eq!(
                    found.neighbors.values().iter().copied().zip(ints(&found.columns[2])).collect::<Vec<_>>(),
                    wanted
                );
                let (neighbors, _) = base.list(direction).read(&[found.ordinals], &selection).await.unwrap();
                assert_eq!(neighbors, found.neighbors);
            }

            let rows: Vec<_> = base.stream(direction, &selection).try_collect().await.unwrap();
            let mut next = 0;
            for rows in &rows {
                assert_eq!(rows.first, next);
                next += rows.vertices.len() as u64;
            }

            assert_eq!(next, 3_000);
            assert!(
                base.list(direction).read(std::slice::from_ref(&(2_999..3_001)), &selection).await.is_err()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_base_is_a_graph_that_a_strict_reader_of_graphar_opens() {
    let lake = lake(ByteSize::mib(64), sizes(64)).await;
    let vertices = write_persons(&lake, 300, 1_000, false).await.unwrap();
    let edges = random_edges(900, (300, 300), 1);
    let batches = stream::iter([Ok(edge_batch(&edges))]);
    let written =
        lake.writer.edges(("Person", "KNOWS", "Person"), (300, 300), &edge_fields(), batches).await.unwrap();
    let open = |file: String| {
        let path = lake.temporary.path().join(file).to_str().unwrap().to_owned();
        let cache = lake.folder.cache.clone();
        let options = GraphOptions::default().with_strictness(Strictness::Strict);
        async move { Graph::open(&cache, path, options).await.unwrap() }
    };

    let graph = open(format!("{}/Person.graph.yml", vertices.path)).await;
    let persons = graph.vertices("Person").unwrap();
    assert_eq!(persons.count().await.unwrap(), 300);
    let read: Vec<RecordBatch> = persons.stream().try_collect().await.unwrap();
    assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), 300);

    let graph = open(format!("{}/Person_KNOWS_Person.graph.yml", written.path)).await;
    assert_eq!(graph.vertices("Person").unwrap().count().await.unwrap(), 300);
    for order in [AdjacencyOrder::OrderedBySource, AdjacencyOrder::OrderedByDest] {
        let list = graph.edges("Person", "KNOWS", "Person").unwrap().by(order).unwrap();
        assert_eq!(list.count().await.unwrap(), 900);
        let read: Vec<RecordBatch> = list.stream().try_collect().await.unwrap();
        let degrees: HashMap<i64, usize> = HashMap::new();
        let degrees = edges.iter().fold(degrees, |mut degrees, edge| {
            *degrees.entry(edge.0).or_default() += 1;
            degrees
        });

        let count = read.iter().flat_map(|batch| ints(batch.column(0))).filter(|source| *source == 5).count();
        assert_eq!(count, degrees[&5]);
    }
}

/// Checks were missing: types that no base can have were only refused by compactions.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_a_type_gives_the_error_of_its_base() {
    let lake = lake(ByteSize::mib(64), sizes(64)).await;
    let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
    let long = "x".repeat(250);
    for (name, data_type, edge, is_valid) in [
        ("fine", list(DataType::Utf8), "KNOWS", true),
        ("days", list(DataType::Date32), "KNOWS", false),
        ("a##b", DataType::Utf8, "KNOWS", false),
        ("bytes", DataType::Binary, "KNOWS", false),
        ("fine", DataType::Int64, long.as_str(), false),
    ] {
        let fields = [field("id", DataType::Int64), field(name, data_type)];
        if edge == "KNOWS" {
            let checked = check_vertices("Person", Some("id"), &fields).err().map(|error| error.to_string());
            let written =
                lake.writer.vertices("Person", Some("id"), &fields, 0, stream::iter([]), false).await;
            assert_eq!(checked, written.err().map(|error| error.to_string()));
            assert_eq!(checked.is_none(), is_valid, "{name}: {checked:?}");
        }

        let names = ("Person", edge, "Person");
        let checked = check_edges(names, &fields).err().map(|error| error.to_string());
        let written = lake.writer.edges(names, (10, 10), &fields, stream::iter([])).await;
        assert_eq!(checked, written.err().map(|error| error.to_string()));
        assert_eq!(checked.is_none(), is_valid, "{name} of {edge}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bases_without_rows_have_nothing_and_ends_that_are_not_there_are_errors() {
    let lake = lake(ByteSize::mib(64), sizes(64)).await;
    let info = write_empty(&lake).await.unwrap();
    let base = EdgeBase::open(&lake.folder, &info, &edge_fields());
    let selection = base.select(&edge_fields());
    for vertex in [0, 3, 9, 70, -1] {
        assert!(base.list(Direction::Out).slice(vertex).await.unwrap().is_empty());
        assert_eq!(base.list(Direction::In).find(vertex, 1, &selection).await.unwrap().neighbors.len(), 0);
    }

    let (neighbors, columns) =
        base.list(Direction::Out).read(std::slice::from_ref(&(0..0)), &selection).await.unwrap();
    assert_eq!((neighbors.len(), columns[1].data_type()), (0, &DataType::Utf8));

    let wrong = stream::iter([Ok(edge_batch(&[(1, 70, 0)]))]);
    let failed = lake.writer.edges(("A", "e", "B"), (10, 70), &edge_fields(), wrong).await;
    assert!(matches!(failed, Err(Error::OutOfRange { .. })));

    let fields = person_fields(DataType::Int64);
    let none = lake.writer.vertices("Person", Some("id"), &fields, 0, stream::iter([]), false).await.unwrap();
    let base = VertexBase::open(&lake.folder, &none.info, &fields);
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(base.indexes_of(&keys).await.unwrap(), [None]);
}

async fn write_empty(lake: &BaseFixture) -> Result<super::EdgeBaseInfo> {
    lake.writer.edges(("A", "e", "B"), (10, 70), &edge_fields(), stream::iter([])).await
}
