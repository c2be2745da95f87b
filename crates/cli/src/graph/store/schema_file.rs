//! The schema of a store, from a YAML or JSON file.

use std::{fmt, fs, marker::PhantomData, path::Path};

use anyhow::Result;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter};
use stylobate_graph::{
    PropertyType,
    store::{EdgeType, StoreProperty, StoreSchema, VertexType},
};

use crate::{failure::usage, graph::import::typed};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreSchemaYaml {
    vertices: OrderedYamlMap<StoreVertexYaml>,
    #[serde(default)]
    edges: OrderedYamlMap<Option<OrderedYamlMap<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreVertexYaml {
    key: String,
    properties: OrderedYamlMap<String>,
}

/// A map that keeps the order of its keys.
struct OrderedYamlMap<T>(Vec<(String, T)>);

impl<T> Default for OrderedYamlMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedYamlMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedYamlMapVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OrderedYamlMapVisitor<T> {
            type Value = OrderedYamlMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names and what they have")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedYamlMap<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(OrderedYamlMap(pairs))
            }
        }
        deserializer.deserialize_map(OrderedYamlMapVisitor(PhantomData))
    }
}

/// Reads the schema from a file.
pub(super) fn read(path: &Path) -> Result<StoreSchema> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| usage(format!("{file}: {error}")))?;
    parse(&file, &text)
}

fn parse(file: &str, text: &str) -> Result<StoreSchema> {
    let options = serde_saphyr::options! { with_snippet: false };
    let yaml: StoreSchemaYaml = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |location| (location.line(), location.column()));
        usage(format!(
            "{file}: line {line}, column {column}: {}",
            DefaultMessageFormatter.format_message(&error)
        ))
    })?;

    let properties = |of: &str, given: OrderedYamlMap<String>| -> Result<Vec<StoreProperty>> {
        let property = |(name, text): (String, String)| {
            let parsed = text.parse::<PropertyType>();
            let parsed = parsed.map_err(|error| usage(format!("{file}: {of}: {name}: {error}")))?;
            Ok(StoreProperty::new(name, parsed))
        };
        given.0.into_iter().map(property).collect()
    };

    let mut schema = StoreSchema::new();
    for (name, StoreVertexYaml { key, properties: given }) in yaml.vertices.0 {
        let properties = properties(&format!("vertices.{name}"), given)?;
        schema.vertices.push(VertexType { name, key, properties });
    }

    let names: Vec<&str> = schema.vertices.iter().map(|of_type| of_type.name.as_str()).collect();

    let mut edges = Vec::new();
    for (name, given) in yaml.edges.0 {
        let (source, edge, destination) = typed::names(&name, &names).map_err(|_| {
            usage(format!("{file}: edges.{name}: write SOURCETYPE/EDGE/DESTINATIONTYPE with two of the types of vertices"))
        })?;
        let mut of_type = EdgeType::new(source, edge, destination);
        of_type.properties = properties(&format!("edges.{name}"), given.unwrap_or_default())?;
        edges.push(of_type);
    }

    schema.edges = edges;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
vertices:
  Person:
    key: id
    properties: {id: int64, name: string}
  Post: {key: id, properties: {id: string}}
edges:
  Person/KNOWS/Person: {since: timestamp}
  Post_HAS_CREATOR_Person:
";

    fn wanted() -> StoreSchema {
        let person =
            VertexType::new("Person", "id", PropertyType::Int64).with_property("name", PropertyType::String);
        let knows =
            EdgeType::new("Person", "KNOWS", "Person").with_property("since", PropertyType::Timestamp);
        StoreSchema::new()
            .with_vertices(person)
            .with_vertices(VertexType::new("Post", "id", PropertyType::String))
            .with_edges(knows)
            .with_edges(EdgeType::new("Post", "HAS_CREATOR", "Person"))
    }

    #[test]
    fn types_are_read_from_yaml_and_from_json() {
        assert_eq!(parse("schema.yml", YAML).unwrap(), wanted());
        let json = r#"{"vertices": {"Person": {"key": "id", "properties": {"id": "int64", "name": "string"}},
            "Post": {"key": "id", "properties": {"id": "string"}}},
            "edges": {"Person/KNOWS/Person": {"since": "timestamp"}, "Post/HAS_CREATOR/Person": {}}}"#;
        assert_eq!(parse("schema.json", json).unwrap(), wanted());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (right, wrong, said) in [
            ("int64", "number", "vertices.Person: id"),
            ("key: id", "kee: id", "kee"),
            ("Person/KNOWS/Person", "Person/KNOWS", "edges.Person/KNOWS"),
            ("vertices:", "vertexes:", "line"),
        ] {
            let error = parse("schema.yml", &YAML.replacen(right, wrong, 1)).unwrap_err().to_string();
            assert!(error.starts_with("schema.yml: ") && error.contains(said), "{error}");
        }
    }
}
