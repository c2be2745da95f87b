//! Validation of graphs to be written, and the YAML files that describe them.

use std::collections::HashMap;

use super::{
    adjacency::Side,
    edge::EdgeInfo,
    emit::InfoYamlWriter,
    graph::{GraphInfo, GraphInfoPart},
    key_error::InfoKeyError,
    prefix,
    property::{Cardinality, Property, PropertyGroup},
    strictness::Strictness,
    vertex::VertexInfo,
};
use crate::Result;

const VERSION: &str = "gar/v1";
/// Prefix of the index and offset columns.
const RESERVED: &str = "_graphAr";
/// Maximum length of a file name in common file systems, in bytes.
const MAX_FILE_NAME: usize = 255;

impl GraphInfo {
    /// Checks that a graph can be written as described: all requirements of [`Strictness::Strict`], valid file
    /// names, paths that no two files share, property names that the format does not reserve, and strings that the
    /// official readers can read.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`](crate::Error::Unwritable) with the first error.
    pub fn validate(&self) -> Result<()> {
        self.yaml_files().map(drop)
    }

    /// Returns the YAML files of a [valid](Self::validate) graph, each as name and content: those of the vertex types,
    /// then those of the edge types, then the graph's own, which names the others.
    ///
    /// The official C++ reader and its derivatives accept only ASCII without `~`. Other names are written nevertheless,
    /// for other readers.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`](crate::Error::Unwritable) with the first error.
    pub fn yaml_files(&self) -> Result<Vec<(String, String)>> {
        self.files().map_err(|(part, error)| error.unwritable(self.called(part)))
    }

    fn files(&self) -> Result<Vec<(String, String)>, (GraphInfoPart, InfoKeyError)> {
        self.check(Strictness::Strict)?;
        let mut files: Vec<(String, String)> = Vec::new();
        let mut taken = ClaimedPaths::new();
        for (i, vertex) in self.vertices.iter().enumerate() {
            files.push(vertex_file(vertex, &mut taken).map_err(|error| (GraphInfoPart::Vertex(i), error))?);
        }

        for (i, edge) in self.edges.iter().enumerate() {
            files.push(edge_file(edge, &mut taken).map_err(|error| (GraphInfoPart::Edge(i), error))?);
        }
        files.push(graph_file(self, &files).map_err(|error| (GraphInfoPart::Graph, error))?);
        Ok(files)
    }

    fn called(&self, part: GraphInfoPart) -> String {
        let name = match part {
            GraphInfoPart::Graph => None,
            GraphInfoPart::Vertex(i) => {
                self.vertices.get(i).map(|vertex| format!("vertices of type {}", vertex.vertex_type))
            }
            GraphInfoPart::Edge(i) => self.edges.get(i).map(|edge| format!("edges of type {}", edge.name())),
        };
        name.unwrap_or_else(|| format!("graph {}", self.name))
    }
}

/// Each path, with the key that defines it and the file of the key.
type ClaimedPaths = HashMap<String, String>;

fn vertex_file(vertex: &VertexInfo, taken: &mut ClaimedPaths) -> Result<(String, String), InfoKeyError> {
    let file = file_name("type", &vertex.vertex_type, "vertex")?;
    check_reserved(&vertex.groups)?;
    let own = ("type".to_owned(), file.clone());
    take(taken, std::iter::once(own).chain(vertex_paths(vertex)), &file)?;
    Ok((file, vertex_yaml(vertex)?))
}

fn edge_file(edge: &EdgeInfo, taken: &mut ClaimedPaths) -> Result<(String, String), InfoKeyError> {
    let file = file_name("edge_type", &edge.name(), "edge")?;
    check_reserved(&edge.groups)?;
    let own = ("edge_type".to_owned(), file.clone());
    take(taken, std::iter::once(own).chain(edge_paths(edge)), &file)?;
    Ok((file, edge_yaml(edge)?))
}

fn graph_file(graph: &GraphInfo, of_types: &[(String, String)]) -> Result<(String, String), InfoKeyError> {
    Ok((file_name("name", &graph.name, "graph")?, graph_yaml(graph, of_types)?))
}

fn file_name(key: &str, name: &str, kind: &str) -> Result<String, InfoKeyError> {
    let wrong = |reason: &str| {
        Err(InfoKeyError::new(key, format!("{name:?} cannot be the name of a file: it {reason}")))
    };
    if matches!(name, "" | "." | "..") {
        return wrong("is the name of a folder");
    }
    if name.contains(['/', '\\']) {
        return wrong("has a slash");
    }
    if name.contains(char::is_control) {
        return wrong("has control characters");
    }

    let file = format!("{name}.{kind}.yml");
    if prefix::is_absolute(&file) {
        return wrong("begins like that of a drive");
    }
    if file.len() > MAX_FILE_NAME { wrong("is too long") } else { Ok(file) }
}

fn check_reserved(groups: &[PropertyGroup]) -> Result<(), InfoKeyError> {
    for (i, group) in groups.iter().enumerate() {
        if let Some(j) = group.properties.iter().position(|property| property.name.starts_with(RESERVED)) {
            let key = format!("property_groups[{i}].properties[{j}].name");
            return Err(InfoKeyError::new(
                key,
                format!("columns of the format itself begin with {RESERVED}"),
            ));
        }
    }
    Ok(())
}

/// Claims the paths defined by `owner`, the YAML file of a type, and that of the file itself. Fails if one is claimed
/// already: one type's files would overwrite the other's.
fn take(
    taken: &mut ClaimedPaths,
    paths: impl Iterator<Item = (String, String)>,
    owner: &str,
) -> Result<(), InfoKeyError> {
    for (key, path) in paths {
        let reason = format!("{path} would belong to {key} of {owner}");
        if let Some(other) = taken.insert(path, format!("{key} of {owner}")) {
            return Err(InfoKeyError::new(key, format!("{reason} and to {other}")));
        }
    }
    Ok(())
}

/// Returns the path of the first file of each kind, with the key that defines it.
fn vertex_paths(vertex: &VertexInfo) -> impl Iterator<Item = (String, String)> {
    let labels = (!vertex.labels.is_empty()).then(|| ("labels".to_owned(), vertex.label_path(0)));
    let groups = vertex.groups.iter().enumerate();
    let groups =
        groups.map(move |(i, group)| (format!("property_groups[{i}].prefix"), vertex.chunk_path(group, 0)));
    std::iter::once(("prefix".to_owned(), vertex.count_path())).chain(labels).chain(groups)
}

fn edge_paths(edge: &EdgeInfo) -> impl Iterator<Item = (String, String)> {
    edge.adjacencies.iter().enumerate().flat_map(move |(i, list)| {
        let key = format!("adj_lists[{i}].prefix");
        let own = [edge.adjacency_path(list, 0, 0), edge.offset_path(list, 0), edge.vertex_count_path(list)];
        let groups = edge.groups.iter().enumerate();
        let groups = groups.map(move |(i, group)| {
            (format!("property_groups[{i}].prefix"), edge.property_path(list, group, 0, 0))
        });
        own.map(|path| (key.clone(), path)).into_iter().chain(groups)
    })
}

fn vertex_yaml(vertex: &VertexInfo) -> Result<String, InfoKeyError> {
    let mut yaml = InfoYamlWriter::default();
    yaml.value("type", &vertex.vertex_type)?;
    yaml.plain("chunk_size", vertex.chunk_size);
    yaml.value("prefix", written(&vertex.prefix))?;
    yaml.list("labels", &vertex.labels)?;
    if !vertex.groups.is_empty() {
        yaml.opens("property_groups");
    }

    for (i, group) in vertex.groups.iter().enumerate() {
        let at = |error: InfoKeyError| error.within(&format!("property_groups[{i}]."));
        yaml.opens("  - properties");
        properties(&mut yaml, &group.properties).map_err(at)?;
        yaml.value("    prefix", written(&group.prefix)).map_err(at)?;
        yaml.plain("    file_type", group.file_type);
    }

    yaml.plain("version", VERSION);
    Ok(yaml.into_text())
}

fn edge_yaml(edge: &EdgeInfo) -> Result<String, InfoKeyError> {
    let mut yaml = InfoYamlWriter::default();
    yaml.value("src_type", &edge.src_type)?;
    yaml.value("edge_type", &edge.edge_type)?;
    yaml.value("dst_type", &edge.dst_type)?;
    yaml.plain("chunk_size", edge.chunk_size);
    yaml.plain("src_chunk_size", edge.src_chunk_size);
    yaml.plain("dst_chunk_size", edge.dst_chunk_size);
    yaml.plain("directed", edge.directed);
    yaml.value("prefix", written(&edge.prefix))?;
    yaml.opens("adj_lists");

    for (i, list) in edge.adjacencies.iter().enumerate() {
        yaml.plain("  - ordered", list.order.is_ordered());
        yaml.plain(
            "    aligned_by",
            match list.order.aligned_by() {
                Side::Source => "src",
                Side::Dest => "dst",
            },
        );
        yaml.value("    prefix", written(&list.prefix))
            .map_err(|error| error.within(&format!("adj_lists[{i}].")))?;
        yaml.plain("    file_type", list.file_type);
    }

    if !edge.groups.is_empty() {
        yaml.opens("property_groups");
    }
    for (i, group) in edge.groups.iter().enumerate() {
        let at = |error: InfoKeyError| error.within(&format!("property_groups[{i}]."));
        yaml.value("  - prefix", written(&group.prefix)).map_err(at)?;
        yaml.plain("    file_type", group.file_type);
        yaml.opens("    properties");
        properties(&mut yaml, &group.properties).map_err(at)?;
    }

    yaml.plain("version", VERSION);
    Ok(yaml.into_text())
}

fn properties(yaml: &mut InfoYamlWriter, properties: &[Property]) -> Result<(), InfoKeyError> {
    for (j, property) in properties.iter().enumerate() {
        let at = |error: InfoKeyError| error.within(&format!("properties[{j}]."));
        yaml.value("      - name", &property.name).map_err(at)?;
        yaml.plain("        data_type", &property.property_type);
        yaml.plain("        is_primary", property.is_primary);
        yaml.plain("        is_nullable", property.is_nullable);
        if property.cardinality != Cardinality::Single {
            yaml.plain("        cardinality", property.cardinality);
        }
    }

    Ok(())
}

/// Returns the graph's own file; `of_types` are the files of the types, vertices first.
fn graph_yaml(graph: &GraphInfo, of_types: &[(String, String)]) -> Result<String, InfoKeyError> {
    let names: Vec<String> = of_types.iter().map(|(name, _)| name.clone()).collect();
    let (vertices, edges) = names.split_at_checked(graph.vertices.len()).unwrap_or((&names, &[]));
    let mut yaml = InfoYamlWriter::default();
    yaml.value("name", &graph.name)?;
    if !graph.prefix.is_empty() {
        yaml.value("prefix", &graph.prefix)?;
    }
    yaml.list("vertices", vertices)?;
    yaml.list("edges", edges)?;
    yaml.list("labels", &graph.labels)?;
    yaml.plain("version", VERSION);
    if !graph.extra.is_empty() {
        yaml.opens("extra_info");
    }

    for (i, (key, value)) in graph.extra.iter().enumerate() {
        let at = |error: InfoKeyError| error.within(&format!("extra_info[{i}]."));
        yaml.value("  - key", key).map_err(at)?;
        yaml.value("    value", value).map_err(at)?;
    }
    Ok(yaml.into_text())
}

/// Returns `./` for an empty prefix, which readers would replace by the default one.
fn written(prefix: &str) -> &str {
    if prefix.is_empty() { "./" } else { prefix }
}
