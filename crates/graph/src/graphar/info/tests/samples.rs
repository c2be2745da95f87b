//! Sample graphs that the GraphAr project publishes.

use std::path::{Path, PathBuf};

use super::*;

/// Returns the folder of samples beside the repository; `None` if absent, which is an error only on release machines.
fn samples() -> Option<PathBuf> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphar");
    if samples.is_dir() {
        return Some(samples);
    }
    let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!must, "{} is missing", samples.display());
    eprintln!("{} is missing: nothing tested", samples.display());
    None
}

/// Collects all files below `folder`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn read_graph(path: &Path, strictness: Strictness) -> Result<GraphInfo> {
    let content = |name: &String| {
        let path = path.with_file_name(name);
        (
            name.clone(),
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    };
    let file =
        GraphFile::parse(&path.display().to_string(), &std::fs::read_to_string(path).unwrap(), strictness)?;
    let vertices = file.vertex_files().to_vec();
    let edges = file.edge_files().to_vec();

    file.with(vertices.iter().map(content).collect(), edges.iter().map(content).collect())
}

/// Returns all graphs below `folder` with the names of their files.
fn graphs(folder: &Path) -> Vec<(PathBuf, GraphInfo)> {
    let mut found = Vec::new();
    files(folder, &mut found);
    found.retain(|path| path.to_string_lossy().ends_with(".graph.yml"));
    found.sort();
    let read = |path: PathBuf| {
        let graph = read_graph(&path, Strictness::Tolerant).unwrap_or_else(|error| panic!("{error}"));
        (path, graph)
    };
    found.into_iter().map(read).collect()
}

#[test]
fn each_graph_is_read_and_its_files_are_where_it_says() {
    let Some(samples) = samples() else { return };
    let graphs = graphs(&samples);
    assert_eq!(graphs.len(), 8, "{:?}", graphs.iter().map(|(path, _)| path).collect::<Vec<_>>());
    for (path, graph) in graphs {
        let exists =
            |file: String| assert!(path.with_file_name(&file).is_file(), "{}: {file}", path.display());
        for vertex in &graph.vertices {
            exists(vertex.count_path());
            for group in &vertex.groups {
                exists(vertex.chunk_path(group, 0));
            }
        }

        for edge in &graph.edges {
            for list in &edge.adjacencies {
                exists(edge.vertex_count_path(list));
                exists(edge.edge_count_path(list, 0));
                if list.order.is_ordered() {
                    exists(edge.offset_path(list, 0));
                }
            }
        }
    }
}

#[test]
fn each_graph_stays_the_same_when_it_is_written_anew() {
    let Some(samples) = samples() else { return };
    for (path, mut graph) in graphs(&samples) {
        let mut files = graph.yaml_files().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (file, text) = files.pop().unwrap();
        let edges = files.split_off(graph.vertices.len());
        let again = GraphFile::parse(&file, &text, Strictness::Strict).unwrap().with(files, edges).unwrap();
        graph.prefix = again.prefix.clone();
        assert_eq!(again, graph, "{}", path.display());
    }
}

#[test]
fn strictly_the_sample_of_movies_lacks_a_key() {
    let Some(samples) = samples() else { return };
    let (file, key, reason) =
        info_error(read_graph(&samples.join("neo4j/MovieGraph.graph.yml"), Strictness::Strict));
    assert_eq!((file.as_str(), key.as_str()), ("Person_DIRECTED_Movie.edge.yml", "directed"), "{reason}");
    for (path, _) in graphs(&samples).iter().filter(|(path, _)| !path.to_string_lossy().contains("neo4j")) {
        read_graph(path, Strictness::Strict).unwrap();
    }
}
