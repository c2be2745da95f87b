//! Any texts as the YAML files of a graph: what can be written again is read as the same.
//!
//! The texts are separated by lines of `---`: that of the graph, then those that it names, in its order.
#![no_main]

use std::{collections::HashSet, sync::OnceLock};

use libfuzzer_sys::fuzz_target;
use object_store::{ObjectStoreExt, path::Path};
use stylobate_fuzz::{Bench, check};
use stylobate_graph::graphar::{Graph, GraphFile, GraphInfo, GraphOptions, Strictness};

const FILE: &str = "fuzz.graph.yml";

type Files = Vec<(String, String)>;

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(Bench::new)
}

fuzz_target!(|text: &str| {
    let mut texts = text.split("\n---\n");
    let own = texts.next().unwrap_or_default();
    let texts: Vec<&str> = texts.collect();
    for strictness in [Strictness::Tolerant, Strictness::Strict] {
        let Ok(file) = GraphFile::parse(FILE, own, strictness) else { continue };
        let names = file.vertex_files().iter().chain(file.edge_files());
        let content = names.enumerate().map(|(at, name)| {
            let text = texts.get(at).copied().unwrap_or_default();
            (name.clone(), text.to_owned())
        });
        let mut vertices: Files = content.collect();
        let edges = vertices.split_off(file.vertex_files().len());
        let info = file.with(vertices.clone(), edges.clone()).ok();
        if let Some(info) = &info {
            read_what_is_written(info);
        }
        open(own, [vertices, edges].concat(), info.as_ref(), strictness);
    }
});

fn read_what_is_written(info: &GraphInfo) {
    let Ok(mut files) = info.yaml_files() else { return };
    let (name, own) = files.pop().expect("the graph's own file is the last");
    let edges = files.split_off(info.vertices.len());
    for strictness in [Strictness::Tolerant, Strictness::Strict] {
        let file = GraphFile::parse(&name, &own, strictness).expect("it was written");
        assert!(file.vertex_files().iter().eq(files.iter().map(|(name, _)| name)));
        assert!(file.edge_files().iter().eq(edges.iter().map(|(name, _)| name)));
        assert_eq!(&file.with(files.clone(), edges.clone()).expect("it was written"), info);
    }
}

/// Opens the graph from a store, where its description is to be the same.
fn open(own: &str, files: Files, info: Option<&GraphInfo>, strictness: Strictness) {
    let bench = bench();
    let mut paths = HashSet::new();
    let mut content = vec![(Path::from_iter(["graph", FILE]), own.to_owned())];
    for (name, text) in files {
        let Ok(path) = Path::parse(format!("graph/{}", name.trim_start_matches("./"))) else { return };
        content.push((path, text));
    }
    if !content.iter().all(|(path, _)| paths.insert(path.clone())) {
        return;
    }

    bench.runtime.block_on(async {
        for (path, text) in content {
            bench.memory.put(&path, text.into_bytes().into()).await.unwrap();
        }
        // Not where the prefix leads: that may be another host.
        let options = GraphOptions::default().with_prefix(bench.source("graph")).with_strictness(strictness);
        let file = bench.source(&format!("graph/{FILE}"));
        if let Some(graph) = check(Graph::open(&bench.cache, file, options).await) {
            assert_eq!(Some(graph.info()), info);
            for vertices in &graph.info().vertices {
                if let Some(vertices) = check(graph.vertices(&vertices.vertex_type)) {
                    let _ = vertices.schema();
                    check(vertices.count().await);
                }
            }
            for edges in &graph.info().edges {
                check(graph.edges(&edges.src_type, &edges.edge_type, &edges.dst_type));
            }
        }
        for path in paths {
            bench.memory.delete(&path).await.unwrap();
        }
    });
}
