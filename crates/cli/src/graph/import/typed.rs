//! Import plans from the command line.

use anyhow::Result;

use super::plan::{EdgeImportPlan, ImportPlan, ImportSourcePlan, VertexImportPlan};
use crate::failure::usage;

/// Default columns of the ends of edges.
const ENDS: [&str; 2] = ["src", "dst"];

/// `--vertices`, `--edges` and related options.
pub(in crate::graph) struct ImportFlags<'a> {
    pub(in crate::graph) vertices: &'a [String],
    pub(in crate::graph) edges: &'a [String],
    pub(in crate::graph) labels: &'a [String],
    pub(in crate::graph) by_index: bool,
    pub(in crate::graph) delimiter: Option<u8>,
    /// Existing vertex types, to which edges may refer.
    pub(in crate::graph) known: &'a [String],
}

/// Builds the plan.
pub(in crate::graph) fn plan(args: &ImportFlags<'_>) -> Result<ImportPlan> {
    let mut vertices = Vec::with_capacity(args.vertices.len());
    for text in args.vertices {
        vertices.push(vertex(text, args.delimiter)?);
    }

    for text in args.labels {
        let (vertex_type, column) = halves(text, "--labels", "TYPE=COLUMN")?;
        let found = vertices.iter_mut().find(|of_type| of_type.vertex_type == vertex_type);
        let found = found
            .ok_or_else(|| usage(format!("--labels {text}: there are no --vertices {vertex_type}=…")))?;
        found.labels_column = Some(column.to_owned());
    }

    let given = vertices.iter().map(|of_type| &of_type.vertex_type);
    let others =
        args.known.iter().filter(|name| !vertices.iter().any(|of_type| of_type.vertex_type == **name));
    let types: Vec<&str> = given.chain(others).map(String::as_str).collect();
    let edges = args.edges.iter().map(|text| edge(text, &types, args)).collect::<Result<_>>()?;

    Ok(ImportPlan { vertices, edges, ..ImportPlan::default() })
}

fn vertex(text: &str, delimiter: Option<u8>) -> Result<VertexImportPlan> {
    let (vertex_type, source) = halves(text, "--vertices", "TYPE=SOURCE[:KEY]")?;
    let (path, key) = path_and_columns(source);
    Ok(VertexImportPlan {
        vertex_type: vertex_type.to_owned(),
        source: of_path(path, delimiter),
        key: key.map(str::to_owned),
        labels: Vec::new(),
        labels_column: None,
        chunk_size: None,
        file_type: None,
        groups: Vec::new(),
    })
}

fn edge(text: &str, vertex_types: &[&str], args: &ImportFlags<'_>) -> Result<EdgeImportPlan> {
    let (name, source) = halves(text, "--edges", "TYPE=SOURCE[:SRC,DST]")?;
    let (src_type, edge_type, dst_type) = names(name, vertex_types)?;
    let (path, columns) = path_and_columns(source);
    let [from, to] = match columns.map(|columns| columns.split(',').collect::<Vec<_>>()).as_deref() {
        None => ENDS,
        Some([from, to]) if !from.is_empty() && !to.is_empty() => [*from, *to],
        Some(_) => return Err(usage(format!("--edges {text}: name two columns, as in {path}:src,dst"))),
    };

    Ok(EdgeImportPlan {
        src_type: src_type.to_owned(),
        edge_type: edge_type.to_owned(),
        dst_type: dst_type.to_owned(),
        source: of_path(path, args.delimiter),
        source_column: from.to_owned(),
        destination_column: to.to_owned(),
        by_index: args.by_index,
        directed: true,
        lists: None,
        chunk_size: None,
        file_type: None,
        groups: Vec::new(),
    })
}

fn of_path(path: &str, delimiter: Option<u8>) -> ImportSourcePlan {
    ImportSourcePlan { path: path.to_owned(), kind: None, delimiter, columns: None }
}

fn halves<'a>(text: &'a str, option: &str, form: &str) -> Result<(&'a str, &'a str)> {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !rest.is_empty() => Ok((name, rest)),
        _ => Err(usage(format!("{option} {text}: write {form}"))),
    }
}

/// Splits at the last colon, after which the column names begin unless a slash follows: it is then part of a URL.
fn path_and_columns(source: &str) -> (&str, Option<&str>) {
    match source.rsplit_once(':') {
        Some((path, columns)) if !path.is_empty() && !columns.is_empty() && !columns.contains('/') => {
            (path, Some(columns))
        }
        _ => (source, None),
    }
}

/// Splits the name of an edge type into its three parts. Names may contain underscores, so the known vertex types
/// determine the split.
pub(in crate::graph) fn names<'a>(
    name: &'a str,
    vertex_types: &[&str],
) -> Result<(&'a str, &'a str, &'a str)> {
    if let [source, edge, destination] = name.split('/').collect::<Vec<_>>()[..] {
        return Ok((source, edge, destination));
    }

    let mut found = Vec::new();
    for source in vertex_types {
        for destination in vertex_types {
            let rest = name.strip_prefix(source).and_then(|rest| rest.strip_prefix('_'));
            let edge =
                rest.and_then(|rest| rest.strip_suffix(destination)).and_then(|rest| rest.strip_suffix('_'));
            if let Some(edge) = edge.filter(|edge| !edge.is_empty()) {
                found.push((&name[..source.len()], edge, &name[name.len() - destination.len()..]));
            }
        }
    }

    found.dedup();
    match found.as_slice() {
        [only] => Ok(*only),
        [] => Err(usage(format!(
            "--edges {name}: its name is not SOURCETYPE_EDGE_DESTINATIONTYPE with two of the types of vertices, which are {}",
            vertex_types.join(", ")
        ))),
        several => {
            let forms =
                several.iter().map(|(source, edge, destination)| format!("{source}/{edge}/{destination}"));
            Err(usage(format!("--edges {name}: write {}", forms.collect::<Vec<_>>().join(" or "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_behind_the_last_colon_that_is_not_that_of_a_url() {
        assert_eq!(path_and_columns("a.csv:id"), ("a.csv", Some("id")));
        assert_eq!(path_and_columns("s3://b/a.csv:src,dst"), ("s3://b/a.csv", Some("src,dst")));
        assert_eq!(path_and_columns("s3://b/a.csv"), ("s3://b/a.csv", None));
        assert_eq!(path_and_columns("a.csv"), ("a.csv", None));
        assert_eq!(path_and_columns("a.csv:"), ("a.csv:", None));
    }

    #[test]
    fn types_of_vertices_tell_where_the_name_of_an_edge_begins_and_ends() {
        assert_eq!(names("person_knows_person", &["person"]).unwrap(), ("person", "knows", "person"));
        assert_eq!(names("a_b_has_c_a_b", &["a_b", "x"]).unwrap(), ("a_b", "has_c", "a_b"));
        assert_eq!(names("a/x_y/a", &["a"]).unwrap(), ("a", "x_y", "a"));
        let ambiguous = names("a_b_c_d", &["a", "a_b", "d"]).unwrap_err().to_string();
        assert!(ambiguous.ends_with("write a/b_c/d or a_b/c/d"), "{ambiguous}");
        assert!(names("person_knows", &["person"]).unwrap_err().to_string().contains("which are person"));
        assert!(names("person__person", &["person"]).is_err());
    }
}
