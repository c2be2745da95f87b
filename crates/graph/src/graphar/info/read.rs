//! Converts parsed YAML files: names become types, and optional keys get their defaults.

use std::str::FromStr;

use super::{
    adjacency::{Adjacency, AdjacencyOrder, Side},
    edge::EdgeInfo,
    key_error::InfoKeyError,
    prefix,
    property::{Cardinality, FileType, Property, PropertyGroup},
    strictness::Strictness,
    vertex::VertexInfo,
    yaml::{
        AdjacencyInfoYaml, EdgeInfoYaml, PropertyGroupYaml, PropertyInfoYaml, UnknownYamlKeys, VertexInfoYaml,
    },
};
use crate::{PropertyType, UnknownNameError};

/// Converts the vertices of one type, without the checks of `VertexInfo::check`.
pub(super) fn vertex(yaml: VertexInfoYaml, strictness: Strictness) -> Result<VertexInfo, InfoKeyError> {
    check_unknown(&yaml.unknown, strictness)?;
    check_version(yaml.version.as_deref(), strictness)?;
    let vertex_type = renamed("type", yaml.vertex_type, "label", yaml.label, strictness)?;
    Ok(VertexInfo {
        chunk_size: size("chunk_size", yaml.chunk_size)?,
        prefix: prefix_or(yaml.prefix, &vertex_type, strictness)?,
        labels: yaml.labels.unwrap_or_default(),
        groups: groups(yaml.property_groups.unwrap_or_default(), strictness)?,
        vertex_type,
    })
}

/// Converts the edges of one type, without the checks of `EdgeInfo::check`.
pub(super) fn edge(yaml: EdgeInfoYaml, strictness: Strictness) -> Result<EdgeInfo, InfoKeyError> {
    check_unknown(&yaml.unknown, strictness)?;
    check_version(yaml.version.as_deref(), strictness)?;

    let src_type = renamed("src_type", yaml.src_type, "src_label", yaml.src_label, strictness)?;
    let edge_type = renamed("edge_type", yaml.edge_type, "edge_label", yaml.edge_label, strictness)?;
    let dst_type = renamed("dst_type", yaml.dst_type, "dst_label", yaml.dst_label, strictness)?;
    let mut lists = yaml.adj_lists.ok_or_else(|| missing("adj_lists"))?;
    let groups = match yaml.property_groups {
        Some(of_type) => groups(of_type, strictness)?,
        None => groups_of_lists(&mut lists, strictness)?,
    };

    Ok(EdgeInfo {
        chunk_size: size("chunk_size", yaml.chunk_size)?,
        src_chunk_size: size("src_chunk_size", yaml.src_chunk_size)?,
        dst_chunk_size: size("dst_chunk_size", yaml.dst_chunk_size)?,
        directed: flag_or_false("directed", yaml.directed, strictness)?,
        prefix: prefix_or(yaml.prefix, &format!("{src_type}_{edge_type}_{dst_type}"), strictness)?,
        adjacencies: each("adj_lists", lists, |list| adjacency(list, strictness))?,
        groups,
        src_type,
        edge_type,
        dst_type,
    })
}

/// Checks that the version is present and supported: `gar/v1`, then user-defined types in parentheses.
pub(super) fn check_version(version: Option<&str>, strictness: Strictness) -> Result<(), InfoKeyError> {
    let Some(version) = version else {
        return if strictness.is_strict() { Err(missing("version")) } else { Ok(()) };
    };

    let rest =
        version.trim().strip_prefix("gar/v1").filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    let Some(rest) = rest.map(str::trim) else {
        return Err(InfoKeyError::new(
            "version",
            format!("{version:?} is not gar/v1, the version that is read"),
        ));
    };

    if strictness.is_strict() && !rest.is_empty() && !(rest.starts_with('(') && rest.ends_with(')')) {
        return Err(InfoKeyError::new(
            "version",
            format!("{version:?} is neither gar/v1 nor gar/v1 with types in parentheses"),
        ));
    }

    Ok(())
}

pub(super) fn check_unknown(unknown: &UnknownYamlKeys, strictness: Strictness) -> Result<(), InfoKeyError> {
    match unknown.keys().next() {
        Some(key) if strictness.is_strict() => Err(InfoKeyError::new(key, "is no key of the format")),
        _ => Ok(()),
    }
}

/// Converts each entry of a list; the key of an error is prefixed with the entry's position.
pub(super) fn each<T, U>(
    key: &str,
    list: Vec<T>,
    read: impl Fn(T) -> Result<U, InfoKeyError>,
) -> Result<Vec<U>, InfoKeyError> {
    let read = |(i, item)| read(item).map_err(|error| error.within(&format!("{key}[{i}].")));
    list.into_iter().enumerate().map(read).collect()
}

pub(super) fn missing(key: &str) -> InfoKeyError {
    InfoKeyError::new(key, "is missing")
}

/// Returns the text of `key`, which is required.
pub(super) fn required(key: &str, text: Option<String>) -> Result<String, InfoKeyError> {
    text.filter(|text| !text.is_empty()).ok_or_else(|| missing(key))
}

/// Returns the normal form of a prefix.
pub(super) fn slashed(prefix: &str, strictness: Strictness) -> Result<String, InfoKeyError> {
    if strictness.is_strict() && !prefix.ends_with('/') {
        return Err(InfoKeyError::new("prefix", format!("{prefix:?} has no slash at its end")));
    }

    let normal = prefix::normal(prefix);
    // Only `./` denotes the folder itself: an empty prefix stands for the default.
    let is_own = prefix == "./";
    if strictness.is_strict() && !is_own && !prefix::is_absolute(prefix) && normal != prefix {
        return Err(InfoKeyError::new("prefix", format!("{prefix:?} is written {normal:?}")));
    }

    Ok(normal)
}

fn adjacency(yaml: AdjacencyInfoYaml, strictness: Strictness) -> Result<Adjacency, InfoKeyError> {
    check_unknown(&yaml.unknown, strictness)?;
    if strictness.is_strict() && yaml.property_groups.is_some() {
        return Err(InfoKeyError::new(
            "property_groups",
            "is no key of a list: the groups are those of the edge type",
        ));
    }

    let ordered = flag("ordered", &required("ordered", yaml.ordered)?, strictness)?;
    let aligned_by = match required("aligned_by", yaml.aligned_by)?.as_str() {
        "src" => Side::Source,
        "dst" => Side::Dest,
        other => return Err(InfoKeyError::new("aligned_by", format!("{other:?} is neither src nor dst"))),
    };

    let order = AdjacencyOrder::new(ordered, aligned_by);
    Ok(Adjacency {
        order,
        file_type: named("file_type", yaml.file_type)?,
        prefix: prefix_or(yaml.prefix, &order.to_string(), strictness)?,
    })
}

/// Returns the property groups of an edge type from its lists, where older files declare them. Returns none if the
/// lists differ: the official readers ignore all of these groups.
fn groups_of_lists(
    lists: &mut [AdjacencyInfoYaml],
    strictness: Strictness,
) -> Result<Vec<PropertyGroup>, InfoKeyError> {
    if strictness.is_strict() {
        return Ok(Vec::new());
    }

    let mut common: Option<Vec<PropertyGroup>> = None;
    for (i, list) in lists.iter_mut().enumerate() {
        let of_list = groups(list.property_groups.take().unwrap_or_default(), strictness)
            .map_err(|error| error.within(&format!("adj_lists[{i}].")))?;
        match &common {
            Some(others) if *others != of_list => return Ok(Vec::new()),
            Some(_) => {}
            None => common = Some(of_list),
        }
    }

    Ok(common.unwrap_or_default())
}

fn groups(yaml: Vec<PropertyGroupYaml>, strictness: Strictness) -> Result<Vec<PropertyGroup>, InfoKeyError> {
    each("property_groups", yaml, |group| {
        check_unknown(&group.unknown, strictness)?;
        let file_type: FileType = named("file_type", group.file_type)?;
        let properties = group.properties.ok_or_else(|| missing("properties"))?;
        if properties.is_empty() {
            return Err(InfoKeyError::new("properties", "is empty"));
        }

        let properties = each("properties", properties, |yaml| property(yaml, strictness))?;
        let names: Vec<&str> = properties.iter().map(|property| property.name.as_str()).collect();
        Ok(PropertyGroup {
            prefix: prefix_or(group.prefix, &names.join("_"), strictness)?,
            file_type,
            properties,
        })
    })
}

fn property(yaml: PropertyInfoYaml, strictness: Strictness) -> Result<Property, InfoKeyError> {
    check_unknown(&yaml.unknown, strictness)?;
    let name = required("name", yaml.name)?;
    let property_type: PropertyType = named("data_type", yaml.data_type)?;
    let is_primary = flag_or_false("is_primary", yaml.is_primary, strictness)?;
    let is_nullable = match yaml.is_nullable {
        Some(text) => flag("is_nullable", &text, strictness)?,
        None => !is_primary,
    };

    let cardinality = match yaml.cardinality {
        Some(text) => named("cardinality", Some(text))?,
        None => Cardinality::Single,
    };
    Ok(Property { name, property_type, is_primary, is_nullable, cardinality })
}

/// Returns the text of `key`, or of its former name.
fn renamed(
    key: &str,
    text: Option<String>,
    old_key: &str,
    old: Option<String>,
    strictness: Strictness,
) -> Result<String, InfoKeyError> {
    match old {
        Some(_) if strictness.is_strict() => Err(InfoKeyError::new(old_key, format!("is called {key} now"))),
        old => required(key, text.or(old)),
    }
}

/// Returns a prefix within the graph; the default `usual` if absent.
fn prefix_or(prefix: Option<String>, usual: &str, strictness: Strictness) -> Result<String, InfoKeyError> {
    let written = prefix.filter(|prefix| !prefix.is_empty()).unwrap_or_else(|| format!("{usual}/"));
    prefix::leads_out(&written)
        .map_err(|reason| InfoKeyError::new("prefix", format!("{written:?} {reason}")))?;
    slashed(&written, strictness)
}

/// Parses a chunk size, at least 1; the error names this bound and the value in the file.
fn size(key: &str, text: Option<String>) -> Result<u64, InfoKeyError> {
    let text = required(key, text)?;
    let number: i64 = text.trim().parse().map_err(|_| {
        InfoKeyError::new(key, format!("{text:?} is not a whole number of at most {}", i64::MAX))
    })?;
    match u64::try_from(number) {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(InfoKeyError::new(key, format!("must be at least 1, not {number}"))),
    }
}

fn named<T: FromStr<Err = UnknownNameError>>(key: &str, text: Option<String>) -> Result<T, InfoKeyError> {
    required(key, text)?.parse().map_err(|error: UnknownNameError| InfoKeyError::new(key, error.to_string()))
}

fn flag(key: &str, text: &str, strictness: Strictness) -> Result<bool, InfoKeyError> {
    match text {
        "true" => return Ok(true),
        "false" => return Ok(false),
        _ if strictness.is_strict() => {}
        _ => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => return Ok(true),
            "false" | "no" | "0" => return Ok(false),
            _ => {}
        },
    }

    Err(InfoKeyError::new(key, format!("{text:?} is neither true nor false")))
}

fn flag_or_false(key: &str, text: Option<String>, strictness: Strictness) -> Result<bool, InfoKeyError> {
    match text {
        Some(text) => flag(key, &text, strictness),
        None if strictness.is_strict() => Err(missing(key)),
        None => Ok(false),
    }
}
