//! Tests of reading and writing the YAML files of a graph.

mod invalid;
mod paths;
mod round_trip;
mod samples;
mod tolerance;
mod valid;

use super::*;
use crate::{Error, PropertyType, Result};

const GRAPH: &str = "\
name: friends
vertices:
  - person.vertex.yml
edges:
  - person_knows_person.edge.yml
version: gar/v1
";

const PERSON: &str = "\
type: person
chunk_size: 100
prefix: vertex/person/
property_groups:
  - properties:
      - name: id
        data_type: int64
        is_primary: true
    file_type: parquet
  - properties:
      - name: first
        data_type: string
        is_primary: false
      - name: last
        data_type: string
        is_primary: false
    prefix: names/
    file_type: orc
version: gar/v1
";

const KNOWS: &str = "\
src_type: person
edge_type: knows
dst_type: person
chunk_size: 1024
src_chunk_size: 100
dst_chunk_size: 100
directed: false
prefix: edge/person_knows_person/
adj_lists:
  - ordered: true
    aligned_by: src
    file_type: parquet
  - ordered: false
    aligned_by: dst
    prefix: coo/
    file_type: csv
property_groups:
  - prefix: since/
    file_type: parquet
    properties:
      - name: since
        data_type: timestamp
        is_primary: false
version: gar/v1
";

/// Reads a graph of one vertex type and one edge type.
fn read(graph: &str, person: &str, knows: &str, strictness: Strictness) -> Result<GraphInfo> {
    let file = GraphFile::parse("friends.graph.yml", graph, strictness)?;
    file.with(
        vec![("person.vertex.yml".to_owned(), person.to_owned())],
        vec![("person_knows_person.edge.yml".to_owned(), knows.to_owned())],
    )
}

fn friends() -> GraphInfo {
    read(GRAPH, PERSON, KNOWS, Strictness::Strict).unwrap()
}

/// Replaces one passage of `text`, which must contain it.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in {text}");
    text.replacen(from, to, 1)
}

/// Returns file, key and reason.
#[track_caller]
fn info_error<T: std::fmt::Debug>(result: Result<T>) -> (String, String, String) {
    match result {
        Err(Error::Info { file, key, reason }) => (file, key, reason),
        other => panic!("no error of a description: {other:?}"),
    }
}
