//! Import plans from specification files of GraphAr's own importer.

use std::{collections::HashSet, fmt::Display, fs, path::Path, str::FromStr};

use anyhow::{Error, Result};
use stylobate_graph::graphar::{AdjacencyOrder, FileType, Side};

use super::{
    plan::{
        EdgeImportPlan, ImportColumnPlan, ImportPlan, ImportSourceKind, ImportSourcePlan, VertexImportPlan,
    },
    yaml::{
        self, ImportEdgeYaml, ImportGroupYaml, ImportListYaml, ImportPropertyYaml, ImportSourceYaml,
        ImportSpecYaml, ImportVertexYaml,
    },
};
use crate::{failure::usage, graph::free_name::free_name, rows::delimiter};

/// Target names of the columns that hold vertex indexes.
const INDEXES: [&str; 2] = ["_graphArSrcIndex", "_graphArDstIndex"];

/// Reads the plan from a file.
pub(super) fn plan(path: &Path) -> Result<ImportPlan> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| usage(format!("{file}: {error}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&file, &text, folder)
}

fn parse(file: &str, text: &str, folder: &Path) -> Result<ImportPlan> {
    let ImportSpecYaml { graphar, import_schema } = yaml::read(file, text)?;
    let at = SpecContext { file, key: "graphar".to_owned(), folder };
    let list = graphar.adj_list_type.as_deref();
    let mut plan = ImportPlan {
        name: graphar.name,
        output: graphar.path,
        file_type: at.parsed("file_type", graphar.file_type.as_deref())?,
        vertex_chunk_size: at.parsed("vertex_chunk_size", graphar.vertex_chunk_size.as_deref())?,
        edge_chunk_size: at.parsed("edge_chunk_size", graphar.edge_chunk_size.as_deref())?,
        lists: at.parsed::<AdjacencyOrder>("adj_list_type", list)?.map(|list| vec![list]),
        ..ImportPlan::default()
    };

    for (number, yaml) in import_schema.vertices.into_iter().enumerate() {
        let at = SpecContext { key: format!("import_schema.vertices[{number}]"), ..at };
        plan.vertices.push(vertex(&at, yaml)?);
    }

    for (number, yaml) in import_schema.edges.into_iter().enumerate() {
        let at = SpecContext { key: format!("import_schema.edges[{number}]"), ..at };
        plan.edges.push(edge(&at, yaml, &plan.vertices)?);
    }

    Ok(plan)
}

/// The location in the file, for errors.
struct SpecContext<'a> {
    file: &'a str,
    key: String,
    folder: &'a Path,
}

impl SpecContext<'_> {
    fn wrong(&self, reason: impl Display) -> Error {
        usage(format!("{}: {}: {reason}", self.file, self.key))
    }

    fn parsed<T: FromStr<Err: Display>>(&self, key: &str, text: Option<&str>) -> Result<Option<T>> {
        let wrong = |error: T::Err| self.wrong(format!("{key}: {error}"));
        text.map(|text| text.parse().map_err(wrong)).transpose()
    }
}

fn vertex(at: &SpecContext<'_>, yaml: ImportVertexYaml) -> Result<VertexImportPlan> {
    let properties: Vec<&ImportPropertyYaml> =
        yaml.property_groups.iter().flat_map(|group| &group.properties).collect();
    let mut keys = Vec::new();
    for property in &properties {
        if at.parsed("is_primary", property.is_primary.as_deref())? == Some(true) {
            keys.push(property.name.clone());
        }
    }

    if keys.len() > 1 {
        return Err(at.wrong(format!("{} are primary: one property is, at most", keys.join(" and "))));
    }

    let source = one_source(at, &yaml.sources)?;
    let columns = if source.columns.0.is_empty() {
        properties.iter().map(|property| (property.name.clone(), property.name.clone())).collect()
    } else {
        source.columns.0.clone()
    };

    // If no properties are given, all columns are properties.
    let columns =
        if properties.is_empty() { None } else { Some(property_columns(at, &columns, &properties)?) };
    Ok(VertexImportPlan {
        source: source_plan(at, source, columns)?,
        key: keys.pop(),
        labels: yaml.labels,
        labels_column: None,
        chunk_size: at.parsed("chunk_size", yaml.chunk_size.as_deref())?,
        file_type: file_type(at, yaml.property_groups.iter().map(|group| group.file_type.as_deref()))?,
        groups: names(&yaml.property_groups),
        vertex_type: yaml.vertex_type,
    })
}

fn edge(at: &SpecContext<'_>, yaml: ImportEdgeYaml, vertices: &[VertexImportPlan]) -> Result<EdgeImportPlan> {
    let properties: Vec<&ImportPropertyYaml> =
        yaml.property_groups.iter().flat_map(|group| &group.properties).collect();
    let source = one_source(at, &yaml.sources)?;
    let mut pairs = source.columns.0.clone();
    let by_index = INDEXES.iter().all(|index| pairs.iter().any(|(_, name)| name == index));
    let [from, to] = if by_index {
        INDEXES.map(str::to_owned)
    } else {
        let from = end(at, "src", &yaml.src_type, yaml.src_prop.as_deref(), vertices)?;
        let to = end(at, "dst", &yaml.dst_type, yaml.dst_prop.as_deref(), vertices)?;
        [from, to]
    };

    if pairs.is_empty() {
        pairs = [&from, &to]
            .into_iter()
            .chain(properties.iter().map(|property| &property.name))
            .map(|name| (name.clone(), name.clone()))
            .collect();
    }

    // If both ends use the same key, the first of its columns belongs to the source vertex.
    let mut taken: HashSet<String> = properties.iter().map(|property| property.name.clone()).collect();
    let mut columns = Vec::new();
    let mut end_names = Vec::new();
    for (name, property) in [("src", &from), ("dst", &to)] {
        let found = pairs.iter().position(|(_, mapped)| mapped == property);
        let found = found
            .ok_or_else(|| at.wrong(format!("sources: no column becomes {property}, the {name} of edges")))?;
        let (column, _) = pairs.remove(found);
        let name = free_name(name, &mut taken);
        columns.push(ImportColumnPlan { column, name: name.clone(), property_type: None, is_nullable: true });
        end_names.push(name);
    }

    columns.extend(property_columns(at, &pairs, &properties)?);
    let file_types = yaml.property_groups.iter().map(|group| group.file_type.as_deref());
    let file_types = file_types.chain(yaml.adj_lists.iter().map(|list| list.file_type.as_deref()));
    let lists = yaml.adj_lists.iter().map(|list| order(at, list)).collect::<Result<Vec<_>>>()?;
    let mut end_names = end_names.into_iter();

    Ok(EdgeImportPlan {
        source: source_plan(at, source, Some(columns))?,
        source_column: end_names.next().unwrap_or_default(),
        destination_column: end_names.next().unwrap_or_default(),
        by_index,
        directed: at.parsed("directed", yaml.directed.as_deref())?.unwrap_or(true),
        lists: (!lists.is_empty()).then_some(lists),
        chunk_size: at.parsed("chunk_size", yaml.chunk_size.as_deref())?,
        file_type: file_type(at, file_types)?,
        groups: names(&yaml.property_groups),
        src_type: yaml.src_type,
        edge_type: yaml.edge_type,
        dst_type: yaml.dst_type,
    })
}

/// Returns the key property by which edges identify the vertices at one of their ends.
fn end(
    at: &SpecContext<'_>,
    side: &str,
    vertex_type: &str,
    named: Option<&str>,
    vertices: &[VertexImportPlan],
) -> Result<String> {
    let found = vertices.iter().find(|of_type| of_type.vertex_type == vertex_type);
    let found = found.ok_or_else(|| at.wrong(format!("{side}_type: there are no vertices {vertex_type}")))?;
    let key = found.key.as_ref();
    let key = key
        .ok_or_else(|| at.wrong(format!("vertices {vertex_type} have no primary property to be named by")))?;

    match named {
        Some(named) if named != key => {
            Err(at.wrong(format!("{side}_prop: {named} is not {key}, the primary property of {vertex_type}")))
        }
        _ => Ok(key.clone()),
    }
}

/// Returns the column plans of the properties.
fn property_columns(
    at: &SpecContext<'_>,
    pairs: &[(String, String)],
    properties: &[&ImportPropertyYaml],
) -> Result<Vec<ImportColumnPlan>> {
    if let Some((column, name)) = pairs.iter().find(|(_, name)| properties.iter().all(|of| of.name != *name))
    {
        return Err(at.wrong(format!("sources: column {column} becomes {name}, which is no property")));
    }
    let of = |property: &&ImportPropertyYaml| {
        let column = pairs.iter().find(|(_, name)| *name == property.name).map(|(column, _)| column.clone());
        let none = || at.wrong(format!("sources: no column becomes the property {}", property.name));
        let is_primary = at.parsed("is_primary", property.is_primary.as_deref())? == Some(true);

        Ok(ImportColumnPlan {
            column: column.ok_or_else(none)?,
            name: property.name.clone(),
            property_type: at.parsed(&format!("{}: data_type", property.name), Some(&property.data_type))?,
            is_nullable: !is_primary && at.parsed("nullable", property.nullable.as_deref())?.unwrap_or(true),
        })
    };

    properties.iter().map(of).collect()
}

fn names(groups: &[ImportGroupYaml]) -> Vec<Vec<String>> {
    groups
        .iter()
        .map(|group| group.properties.iter().map(|property| property.name.clone()).collect())
        .collect()
}

/// Returns the format of all files of a type. Fails if they differ.
fn file_type<'a>(
    at: &SpecContext<'_>,
    named: impl Iterator<Item = Option<&'a str>>,
) -> Result<Option<FileType>> {
    let mut found: Option<FileType> = None;
    for name in named.flatten() {
        let parsed = at.parsed("file_type", Some(name))?;
        if found.is_some() && found != parsed {
            return Err(at.wrong("file_type: all files of a type are written in one format"));
        }
        found = parsed;
    }

    Ok(found)
}

fn order(at: &SpecContext<'_>, yaml: &ImportListYaml) -> Result<AdjacencyOrder> {
    let ordered = at.parsed("adj_lists: ordered", yaml.ordered.as_deref())?.unwrap_or(true);
    let side = match yaml.aligned_by.as_deref() {
        None | Some("src") => Side::Source,
        Some("dst") => Side::Dest,
        Some(other) => return Err(at.wrong(format!("adj_lists: aligned_by: {other} is neither src nor dst"))),
    };
    Ok(AdjacencyOrder::new(ordered, side))
}

/// Returns the only source. An entry without a path, as in the official importer's examples, is merged into the next
/// one.
fn one_source(at: &SpecContext<'_>, sources: &[ImportSourceYaml]) -> Result<ImportSourceYaml> {
    let mut with_path = sources.iter().filter(|source| source.path.is_some());
    let first = with_path.next();
    let second = with_path.next();
    let mut source = first.ok_or_else(|| at.wrong("sources: there is none with a path"))?.clone();
    if second.is_some() {
        return Err(at.wrong("sources: there is more than one: join them, or name them with a pattern"));
    }

    for other in sources.iter().filter(|source| source.path.is_none()) {
        source.file_type = source.file_type.or_else(|| other.file_type.clone());
        source.delimiter = source.delimiter.or_else(|| other.delimiter.clone());
    }

    Ok(source)
}

fn source_plan(
    at: &SpecContext<'_>,
    yaml: ImportSourceYaml,
    columns: Option<Vec<ImportColumnPlan>>,
) -> Result<ImportSourcePlan> {
    let kind = at.parsed("sources: file_type", yaml.file_type.as_deref())?.map(|file_type| match file_type {
        FileType::Parquet | FileType::Orc => ImportSourceKind::Columnar,
        FileType::Csv => ImportSourceKind::Csv,
        FileType::Json => ImportSourceKind::JsonLines,
    });

    let wrong = |reason| at.wrong(format!("sources: delimiter: {reason}"));
    let delimiter = yaml.delimiter.as_deref().map(delimiter).transpose().map_err(wrong)?;
    let path = yaml.path.unwrap_or_default();
    let beside = at.folder.join(&path);
    let is_beside = !path.contains("://") && !Path::new(&path).exists() && beside.exists();
    let path = if is_beside { beside.to_string_lossy().into_owned() } else { path };

    Ok(ImportSourcePlan { path, kind, delimiter, columns })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "
graphar: {path: /out, name: g, vertex_chunk_size: 7, adj_list_type: ordered_by_dest, version: gar/v1}
import_schema:
  vertices:
    - type: person
      labels: [a, b]
      prefix: elsewhere/
      property_groups:
        - {file_type: orc, properties: [{name: id, data_type: int64, is_primary: true}]}
        - {file_type: orc, properties: [{name: name, data_type: string, nullable: false}]}
      sources:
        - file_type: csv
        - {path: p, delimiter: '|', columns: {i: id, n: name}}
  edges:
    - edge_type: knows
      src_type: person
      src_prop: id
      dst_type: person
      dst_prop: id
      adj_lists: [{ordered: true, aligned_by: src}, {ordered: false, aligned_by: dst}]
      property_groups: [{properties: [{name: src, data_type: date}]}]
      sources: [{path: e.json, columns: {b: id, a: id, since: src}}]
";

    fn parsed(text: &str) -> Result<ImportPlan> {
        parse("import.yml", text, Path::new(""))
    }

    #[test]
    fn what_is_said_becomes_a_plan() {
        let plan = parsed(SPEC).unwrap();
        assert_eq!((plan.name.as_deref(), plan.output.as_deref()), (Some("g"), Some("/out")));
        assert_eq!((plan.vertex_chunk_size, plan.edge_chunk_size), (Some(7), None));
        assert_eq!(plan.lists, Some(vec![AdjacencyOrder::OrderedByDest]));
        let person = &plan.vertices[0];
        assert_eq!((person.key.as_deref(), person.file_type), (Some("id"), Some(FileType::Orc)));
        assert_eq!(person.groups, [["id"], ["name"]]);
        assert_eq!((person.source.kind, person.source.delimiter), (Some(ImportSourceKind::Csv), Some(b'|')));
        let columns = person.source.columns.as_ref().unwrap();
        assert_eq!((columns[1].column.as_str(), columns[1].is_nullable), ("n", false));
        let knows = &plan.edges[0];
        assert_eq!((knows.source_column.as_str(), knows.destination_column.as_str()), ("_src", "dst"));
        let columns: Vec<_> =
            knows.source.columns.as_ref().unwrap().iter().map(|it| it.column.as_str()).collect();
        assert_eq!(columns, ["b", "a", "since"], "the first column of the key is that of the source");
        assert_eq!(knows.lists, Some(vec![AdjacencyOrder::OrderedBySource, AdjacencyOrder::UnorderedByDest]));
    }

    #[test]
    fn columns_of_indexes_are_told_by_what_they_become() {
        let text = SPEC
            .replace("{b: id, a: id, since: src}", "{x: _graphArSrcIndex, y: _graphArDstIndex, since: src}");
        assert!(parsed(&text).unwrap().edges[0].by_index);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let wrong = [
            ("vertex_chunk_size: 7", "vertex_chunk_size: many", "graphar: vertex_chunk_size"),
            ("labels: [a, b]", "lables: [a, b]", "lables"),
            ("data_type: int64", "data_type: number", "vertices[0]: id: data_type"),
            ("n: name", "n: nmae", "column n becomes nmae, which is no property"),
            ("{i: id, n: name}", "{i: id}", "no column becomes the property name"),
            (
                "name: name, data_type: string",
                "name: name, is_primary: true, data_type: string",
                "id and name are primary",
            ),
            ("src_prop: id", "src_prop: name", "edges[0]: src_prop: name is not id"),
            ("dst_type: person", "dst_type: robot", "there are no vertices robot"),
            ("{b: id, a: id, since: src}", "{b: id, since: src}", "no column becomes id, the dst of edges"),
            ("path: p,", "path: p, file_type: excel,", "file_type"),
            ("aligned_by: dst", "aligned_by: up", "neither src nor dst"),
            ("delimiter: '|'", "delimiter: '||'", "delimiter"),
            ("graphar: {", "graphar: [", "line"),
        ];

        for (right, wrong, said) in wrong {
            assert!(SPEC.contains(right), "{right}");
            let error = parsed(&SPEC.replacen(right, wrong, 1)).unwrap_err().to_string();
            assert!(error.contains(said) && error.starts_with("import.yml: "), "{error}");
        }
    }
}
