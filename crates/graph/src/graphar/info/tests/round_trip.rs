//! Round trips: written descriptions are read back unchanged.

use proptest::{collection::vec, prelude::*, sample::subsequence};

use super::*;

/// Generates names of types, which are also file names.
fn type_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}",
        "[A-Za-z0-9_ .:'\"#~é-]{1,8}",
        "\\PC{1,6}",
        Just("true".to_owned()),
        Just("1.10".to_owned())
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "[ -~]{1,12}", "\\PC{1,8}", Just("null".to_owned()), Just("-".to_owned())]
}

fn prefix() -> impl Strategy<Value = String> {
    vec("[a-z0-9_.# -]{1,6}", 0..3).prop_map(|parts| {
        let parts = parts.into_iter().filter(|part| !matches!(part.as_str(), "." | ".."));
        parts.map(|part| part + "/").collect()
    })
}

fn file_type() -> impl Strategy<Value = FileType> {
    prop_oneof![Just(FileType::Parquet), Just(FileType::Orc), Just(FileType::Csv), Just(FileType::Json)]
}

fn property_type() -> impl Strategy<Value = PropertyType> {
    const NAMES: [&str; 10] = [
        "bool",
        "int32",
        "int64",
        "float",
        "double",
        "string",
        "date",
        "timestamp",
        "list<float>",
        "list<string>",
    ];

    proptest::sample::select(&NAMES[..]).prop_map(|name| name.parse().unwrap())
}

fn cardinality() -> impl Strategy<Value = Cardinality> {
    prop_oneof![3 => Just(Cardinality::Single), 1 => Just(Cardinality::List), 1 => Just(Cardinality::Set)]
}

fn property() -> impl Strategy<Value = Property> {
    let parts = (text(), property_type(), prop::bool::weighted(0.2), any::<bool>(), cardinality());
    parts.prop_map(|(name, property_type, is_primary, is_nullable, cardinality)| Property {
        cardinality: if matches!(property_type, PropertyType::List(_)) {
            Cardinality::Single
        } else {
            cardinality
        },
        is_nullable: is_nullable && !is_primary,
        name,
        property_type,
        is_primary,
    })
}

fn groups() -> impl Strategy<Value = Vec<PropertyGroup>> {
    let group = (prefix(), any::<bool>(), file_type(), vec(property(), 1..4));
    vec(group, 0..3).prop_map(|groups| {
        let group = |(prefix, usual, file_type, properties)| {
            if usual {
                PropertyGroup::new(file_type, properties)
            } else {
                PropertyGroup { prefix, file_type, properties }
            }
        };
        groups.into_iter().map(group).collect()
    })
}

fn vertex() -> impl Strategy<Value = VertexInfo> {
    let parts = (type_name(), 1..=i64::MAX as u64, prefix(), vec(text(), 0..3), groups());
    parts.prop_map(|(vertex_type, chunk_size, prefix, labels, groups)| VertexInfo {
        vertex_type,
        chunk_size,
        prefix,
        labels,
        groups,
    })
}

fn adjacencies() -> impl Strategy<Value = Vec<Adjacency>> {
    let names = vec!["unordered_by_source", "unordered_by_dest", "ordered_by_source", "ordered_by_dest"];
    (subsequence(names, 1..=4), file_type()).prop_map(|(orders, file_type)| {
        orders.into_iter().map(|order| Adjacency::new(order.parse().unwrap(), file_type)).collect()
    })
}

/// Edge type between vertex types that are chosen among the existing ones.
type Edge =
    (prop::sample::Index, prop::sample::Index, String, u64, bool, String, Vec<Adjacency>, Vec<PropertyGroup>);

fn edge() -> impl Strategy<Value = Edge> {
    let ends = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (ends, type_name(), 1..1000_u64, any::<bool>(), prefix(), adjacencies(), groups()).prop_map(
        |((src, dst), name, chunk_size, directed, prefix, adjacencies, mut groups)| {
            for property in groups.iter_mut().flat_map(|group| &mut group.properties) {
                property.cardinality = Cardinality::Single;
            }
            (src, dst, name, chunk_size, directed, prefix, adjacencies, groups)
        },
    )
}

fn graph() -> impl Strategy<Value = GraphInfo> {
    let extra = vec((text(), prop_oneof![text(), Just(String::new())]), 0..3);
    let absolute =
        prop_oneof![prefix(), prefix().prop_map(|prefix| format!("/{prefix}")), Just("s3://a/b/".to_owned())];
    (type_name(), absolute, vec(vertex(), 1..3), vec(edge(), 0..3), vec(text(), 0..2), extra).prop_map(
        |(name, prefix, vertices, edges, labels, extra)| {
            let edge = |(src, dst, edge_type, chunk_size, directed, prefix, adjacencies, groups): Edge| {
                let src = src.get(&vertices);
                let dst = dst.get(&vertices);
                EdgeInfo {
                    src_type: src.vertex_type.clone(),
                    edge_type,
                    dst_type: dst.vertex_type.clone(),
                    chunk_size,
                    src_chunk_size: src.chunk_size,
                    dst_chunk_size: dst.chunk_size,
                    directed,
                    prefix,
                    adjacencies,
                    groups,
                }
            };

            let edges = edges.into_iter().map(edge).collect();
            GraphInfo { name, prefix, vertices, edges, labels, extra }
        },
    )
}

fn again(mut files: Vec<(String, String)>, vertices: usize, strictness: Strictness) -> Result<GraphInfo> {
    let (file, text) = files.pop().unwrap();
    let edges = files.split_off(vertices);
    let graph = GraphFile::parse(&file, &text, strictness)?;
    assert_eq!(graph.vertex_files(), files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    assert_eq!(graph.edge_files(), edges.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    graph.with(files, edges)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_that_is_written_is_read_as_the_same(graph in graph()) {
        let Ok(files) = graph.yaml_files() else { return Err(TestCaseError::reject("cannot be written")) };
        for strictness in [Strictness::Strict, Strictness::Tolerant] {
            prop_assert_eq!(&again(files.clone(), graph.vertices.len(), strictness).unwrap(), &graph);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,40}", at in any::<prop::sample::Index>(), which in 0..3_usize) {
        let original = [GRAPH, PERSON, KNOWS][which];
        let at = at.index(original.len());
        let broken = format!("{}{text}{}", &original[..at], &original[at..]);
        let mut files = [GRAPH, PERSON, KNOWS];
        files[which] = &broken;
        for strictness in [Strictness::Strict, Strictness::Tolerant] {
            if let Err(error) = read(files[0], files[1], files[2], strictness) {
                let is_info = matches!(error, Error::Info { .. });
                prop_assert!(is_info, "{error:?}");
            }
        }
    }
}
