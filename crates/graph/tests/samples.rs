//! Official sample graphs, read as they are and compared with their raw data.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::HashMap;

use arrow::{
    array::{Array, AsArray, Float32Array, RecordBatch},
    datatypes::{Float64Type, Int64Type},
};
use stylobate_columnar::col;
use stylobate_graph::{
    Direction, Error,
    graphar::{AdjacencyOrder, Edges, Graph, GraphOptions, LabelFilter, Strictness},
};
use support::{cache, collect, ints, open_sample, positions, sample, strings};

const LDBC: [&str; 3] = [
    "ldbc_sample/parquet/ldbc_sample.graph.yml",
    "ldbc_sample/csv/ldbc_sample.graph.yml",
    "ldbc_sample/orc/ldbc_sample.graph.yml",
];

/// Returns the lines of a raw file without its header.
fn raw(file: &str, separator: char) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(sample(file).unwrap()).unwrap();
    let cells = |line: &str| line.split(separator).map(str::to_owned).collect();
    text.lines().skip(1).map(cells).collect()
}

async fn vertices(graph: &Graph, vertex_type: &str) -> RecordBatch {
    let vertices = graph.vertices(vertex_type).unwrap();
    collect(&vertices.schema(), vertices.stream()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn persons_are_those_of_the_raw_file_in_every_format() {
    for file in LDBC {
        let Some(graph) = open_sample(file).await else { return };
        let persons = vertices(&graph, "person").await;
        let raw = raw("ldbc_sample/person_0_0.csv", '|');
        assert_eq!(persons.num_rows(), raw.len(), "{file}");
        assert_eq!(graph.vertices("person").unwrap().count().await.unwrap(), raw.len() as u64);
        assert_eq!(ints(persons.column(0)), (0..raw.len() as i64).collect::<Vec<_>>());
        let column = |at: usize| raw.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
        let ids: Vec<i64> = column(0).iter().map(|id| id.parse().unwrap()).collect();
        assert_eq!(ints(persons.column(1)), ids, "{file}");

        for (name, at) in [("firstName", 1), ("lastName", 2), ("gender", 3)] {
            assert_eq!(strings(persons.column_by_name(name).unwrap()), column(at), "{file} {name}");
        }
    }
}

/// Returns, by person index, the known persons according to the raw file, with the date.
fn known() -> HashMap<i64, Vec<(i64, String)>> {
    let persons = raw("ldbc_sample/person_0_0.csv", '|');
    let index: HashMap<String, i64> =
        persons.iter().enumerate().map(|(at, row)| (row[0].clone(), at as i64)).collect();
    let mut known: HashMap<i64, Vec<(i64, String)>> = HashMap::new();
    for row in raw("ldbc_sample/person_knows_person_0_0.csv", '|') {
        known.entry(index[&row[0]]).or_default().push((index[&row[1]], row[2].clone()));
    }
    known.values_mut().for_each(|known| known.sort());
    known
}

fn of_positions(found: &RecordBatch) -> HashMap<i64, Vec<(i64, String)>> {
    let mut by: HashMap<i64, Vec<(i64, String)>> = HashMap::new();
    let ends = ints(found.column(1));
    let dates = strings(found.column(2));
    for ((position, end), date) in positions(found).into_iter().zip(ends).zip(dates) {
        by.entry(i64::from(position)).or_default().push((end, date));
    }
    by.values_mut().for_each(|known| known.sort());
    by
}

fn reversed(known: &HashMap<i64, Vec<(i64, String)>>) -> HashMap<i64, Vec<(i64, String)>> {
    let mut by: HashMap<i64, Vec<(i64, String)>> = HashMap::new();
    for (source, known) in known {
        for (end, date) in known {
            by.entry(*end).or_default().push((*source, date.clone()));
        }
    }
    by.values_mut().for_each(|known| known.sort());
    by
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_of_all_persons_are_those_of_the_raw_file_both_ways() {
    for file in LDBC {
        let Some(graph) = open_sample(file).await else { return };
        let known = known();
        let edges = graph.edges("person", "knows", "person").unwrap();
        let all: Vec<i64> = (0..903).collect();
        let found = edges.neighbors(&all, Direction::Out).await.unwrap();
        assert_eq!(of_positions(&found), known, "{file}");
        assert!(positions(&found).is_sorted());
        let found = edges.neighbors(&all, Direction::In).await.unwrap();
        assert_eq!(of_positions(&found), reversed(&known), "{file}");

        let degrees = edges.degrees(&[5, 5, 0, 902], Direction::Out).await.unwrap();
        let wanted = [5, 5, 0, 902].map(|person| known.get(&person).map_or(0, Vec::len) as i64);
        assert_eq!(degrees.values().to_vec(), wanted);
        assert_eq!(edges.count().await.unwrap(), 6626);
    }
}

async fn pairs(edges: &Edges) -> Vec<(i64, i64)> {
    let all = collect(&edges.schema(), edges.stream()).await;
    let mut pairs: Vec<_> = ints(all.column(0)).into_iter().zip(ints(all.column(1))).collect();
    pairs.sort_unstable();
    pairs
}

#[tokio::test(flavor = "multi_thread")]
async fn all_lists_hold_the_same_edges_and_make_the_same_matrix() {
    for file in LDBC {
        let Some(graph) = open_sample(file).await else { return };
        let edges = graph.edges("person", "knows", "person").unwrap();
        let wanted = pairs(&edges).await;
        assert_eq!(wanted.len(), 6626);
        for order in edges.info().adjacencies.iter().map(|list| list.order) {
            assert_eq!(pairs(&edges.clone().by(order).unwrap()).await, wanted, "{file} {order}");
        }

        let csr = edges.csr(Direction::Out).await.unwrap();
        let csc = edges.csr(Direction::In).await.unwrap();
        let rows = |offsets: &[i64], ends: &[i64]| {
            let mut pairs = Vec::new();
            for (vertex, range) in offsets.windows(2).enumerate() {
                pairs.extend(
                    ends[range[0] as usize..range[1] as usize].iter().map(|end| (vertex as i64, *end)),
                );
            }
            pairs.sort_unstable();
            pairs
        };

        assert_eq!(rows(&csr.offsets, &csr.neighbors), wanted);
        let mut flipped: Vec<_> =
            rows(&csc.offsets, &csc.neighbors).into_iter().map(|(a, b)| (b, a)).collect();
        flipped.sort_unstable();
        assert_eq!(flipped, wanted);
        assert_eq!(csr.offsets.len(), 904);
        assert_eq!(csr.properties[0].len(), 6626);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_without_an_order_are_searched_and_sorted() {
    let Some(graph) = open_sample(LDBC[0]).await else { return };
    let edges = graph.edges("person", "knows", "person").unwrap();
    let unordered = edges.clone().by(AdjacencyOrder::UnorderedBySource).unwrap();
    let some = [7, 300, 7, 899, 0];
    let wanted = edges.neighbors(&some, Direction::Out).await.unwrap();
    // Lookups by the aligned side prefer the ordered list: read the unordered one directly.
    let all = collect(&unordered.schema(), unordered.stream()).await;

    let sources = ints(all.column(0));
    let ends = ints(all.column(1));
    let mut found = Vec::new();
    for (position, vertex) in some.iter().enumerate() {
        for row in 0..sources.len() {
            if sources[row] == *vertex {
                found.push((position as u32, ends[row]));
            }
        }
    }

    let wanted: Vec<_> = positions(&wanted).into_iter().zip(ints(wanted.column(1))).collect();
    assert_eq!(found, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn selecting_and_filtering_are_views() {
    for file in LDBC {
        let Some(graph) = open_sample(file).await else { return };
        let persons = graph.vertices("person").unwrap();
        let raw = raw("ldbc_sample/person_0_0.csv", '|');
        let women =
            persons.clone().select(["firstName"]).unwrap().filter(&col("gender").eq("female")).unwrap();
        let found = collect(&women.schema(), women.stream()).await;
        let wanted: Vec<String> =
            raw.iter().filter(|row| row[3] == "female").map(|row| row[1].clone()).collect();
        assert_eq!(strings(found.column(1)), wanted, "{file}");
        assert_eq!(found.num_columns(), 2, "what a filter looks at does not come out");

        let few = women.filter(&col("id").lt(5_000_000)).unwrap();
        let count = collect(&few.schema(), few.stream()).await.num_rows();
        let wanted =
            raw.iter().filter(|row| row[3] == "female" && row[0].parse::<i64>().unwrap() < 5_000_000);
        assert_eq!(count, wanted.count());
        let range = collect(&persons.schema(), persons.stream_range(95..205)).await;
        assert_eq!(ints(range.column(0)), (95..205).collect::<Vec<_>>());
        let taken = persons.take(&[902, 0, 902, 100]).await.unwrap();
        assert_eq!(ints(taken.column(0)), [902, 0, 902, 100]);
        assert_eq!(
            strings(taken.column_by_name("lastName").unwrap()),
            [902, 0, 902, 100].map(|at: usize| raw[at][2].clone())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_dates_and_points_in_time_are_read() {
    let Some(graph) = open_sample("ldbc_sample/parquet/ldbc_sample_with_feature.graph.yml").await else {
        return;
    };
    let persons = vertices(&graph, "person").await;
    let features = persons.column_by_name("feature").unwrap().as_list::<i32>().clone();
    assert_eq!(features.len(), 903);
    let first = features.value(0);
    assert_eq!(first.as_any().downcast_ref::<Float32Array>().unwrap().len(), 3);

    for (file, edge, property) in [
        ("ldbc_sample_date", "knows-date", "creationDate-date"),
        ("ldbc_sample_timestamp", "knows-timestamp", "creationDate-timestamp"),
    ] {
        let graph = open_sample(&format!("ldbc_sample/parquet/{file}.graph.yml")).await.unwrap();
        let edges = graph.edges("person", edge, "person").unwrap();
        let all = collect(&edges.schema(), edges.stream()).await;
        assert_eq!((all.num_rows(), all.column_by_name(property).unwrap().null_count()), (6626, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_32_bits_that_are_filled_up_and_parts_without_files_are_read() {
    let Some(graph) = open_sample("neo4j/MovieGraph.graph.yml").await else { return };
    assert_eq!(vertices(&graph, "Person").await.num_rows(), 133);
    assert_eq!(vertices(&graph, "Movie").await.num_rows(), 38);
    for info in graph.info().edges.clone() {
        let edges = graph.edges(&info.src_type, &info.edge_type, &info.dst_type).unwrap();
        let by_source = pairs(&edges).await;
        let by_dest = pairs(&edges.clone().by(AdjacencyOrder::OrderedByDest).unwrap()).await;
        assert_eq!(by_source, by_dest, "{}", info.name());
        assert_eq!(by_source.len() as u64, edges.count().await.unwrap());
        let all: Vec<i64> = (0..133).collect();
        let found = edges.neighbors(&all, Direction::Out).await.unwrap();
        let mut found: Vec<_> =
            positions(&found).into_iter().map(i64::from).zip(ints(found.column(1))).collect();

        found.sort_unstable();
        assert_eq!(found, by_source, "{}", info.name());
    }

    let persons = vertices(&graph, "Person").await;
    assert_eq!(persons.column_by_name("born").unwrap().null_count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn quoted_headers_and_chunks_of_two_are_read() {
    let Some(graph) = open_sample("modern_graph/modern_graph.graph.yml").await else { return };
    let persons = vertices(&graph, "person").await;
    assert_eq!(strings(persons.column_by_name("name").unwrap()), ["vadas", "peter", "josh", "marko"]);
    let edges = graph.edges("person", "created", "software").unwrap();
    let found = edges.neighbors(&[0, 1, 2, 3], Direction::Out).await.unwrap();
    assert_eq!(found.num_rows(), 4);
    let weights = found.column_by_name("weight").unwrap().as_primitive::<Float64Type>().clone();
    assert!((weights.values().iter().sum::<f64>() - 2.0).abs() < 1e-9);

    let backwards = edges.neighbors(&[0], Direction::In).await.unwrap_err();
    assert!(matches!(&backwards, Error::NoSuchAdjacency { .. }), "{backwards}");
    assert!(backwards.to_string().contains("person_created_software has no list ordered_by_dest"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_named() {
    let Some(graph) = open_sample(LDBC[0]).await else { return };
    let says = |error: Error, wanted: &str| assert!(error.to_string().contains(wanted), "{error}");
    says(graph.vertices("robot").err().unwrap(), "no vertex type robot; available: person");
    says(graph.edges("a", "b", "c").err().unwrap(), "no edge type a_b_c");
    let persons = graph.vertices("person").unwrap();
    says(persons.clone().select(["age"]).err().unwrap(), "has no property age; available: id, firstName");
    says(persons.clone().filter(&col("age").gt(3)).err().unwrap(), "age");
    says(persons.clone().labels(&LabelFilter::Any(vec!["x".into()])).err().unwrap(), "has no label x");
    says(persons.chunk(10).await.err().unwrap(), "10 is outside of 0..10");
    says(persons.take(&[-1]).await.err().unwrap(), "-1 is outside of 0..903");

    let edges = graph.edges("person", "knows", "person").unwrap();
    says(edges.neighbors(&[903], Direction::Out).await.err().unwrap(), "903 is outside of 0..903");
    says(edges.chunk(0, 99).await.err().unwrap(), "99 is outside");
    says(edges.by(AdjacencyOrder::UnorderedByDest).err().unwrap(), "has no list unordered_by_dest");
    let cache = cache().await;
    let file = sample("ldbc_sample/parquet/none.graph.yml").unwrap();
    let opened = Graph::open(&cache, file.to_str().unwrap(), GraphOptions::default()).await;
    says(opened.err().unwrap(), "none.graph.yml: there is no such file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_reader_refuses_what_a_tolerant_one_accepts() {
    let Some(file) = sample("neo4j/MovieGraph.graph.yml") else { return };
    let options = GraphOptions::default().with_strictness(Strictness::Strict);
    let opened = Graph::open(&cache().await, file.to_str().unwrap(), options.clone()).await;
    assert!(matches!(opened, Err(Error::Info { .. })), "its edges do not say whether they are directed");
    let file = sample("ldbc_sample/parquet/ldbc_sample_timestamp.graph.yml").unwrap();
    let graph = Graph::open(&cache().await, file.to_str().unwrap(), options).await.unwrap();
    let persons = vertices(&graph, "person").await;
    assert_eq!(persons.column(1).as_primitive::<Int64Type>().len(), 903);
}
