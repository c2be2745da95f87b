//! Data model of a specification file. Scalars are read as strings: a property may be called `1.10` or `yes`.

use std::fmt;

use anyhow::Result;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter};

use crate::failure::usage;

/// Root of a specification file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportSpecYaml {
    pub(super) graphar: ImportGraphYaml,
    pub(super) import_schema: ImportSchemaYaml,
}

/// The `graphar` section: settings of the whole graph.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportGraphYaml {
    pub(super) path: Option<String>,
    pub(super) name: Option<String>,
    pub(super) vertex_chunk_size: Option<String>,
    pub(super) edge_chunk_size: Option<String>,
    pub(super) file_type: Option<String>,
    pub(super) adj_list_type: Option<String>,
    #[serde(rename = "validate_level")]
    pub(super) _validate_level: Option<IgnoredAny>,
    #[serde(rename = "version")]
    pub(super) _version: Option<IgnoredAny>,
    #[serde(rename = "source_file_type")]
    pub(super) _source_file_type: Option<IgnoredAny>,
}

/// The `import_schema` section: vertex and edge types.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportSchemaYaml {
    pub(super) vertices: Vec<ImportVertexYaml>,
    #[serde(default)]
    pub(super) edges: Vec<ImportEdgeYaml>,
}

/// One entry of `vertices`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportVertexYaml {
    #[serde(rename = "type")]
    pub(super) vertex_type: String,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    pub(super) chunk_size: Option<String>,
    #[serde(rename = "validate_level")]
    pub(super) _validate_level: Option<IgnoredAny>,
    #[serde(rename = "prefix")]
    pub(super) _prefix: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) property_groups: Vec<ImportGroupYaml>,
    pub(super) sources: Vec<ImportSourceYaml>,
}

/// One entry of `edges`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportEdgeYaml {
    pub(super) edge_type: String,
    pub(super) src_type: String,
    pub(super) src_prop: Option<String>,
    pub(super) dst_type: String,
    pub(super) dst_prop: Option<String>,
    /// Accepted and ignored: edges have no labels.
    #[serde(rename = "labels")]
    pub(super) _labels: Option<IgnoredAny>,
    pub(super) directed: Option<String>,
    pub(super) chunk_size: Option<String>,
    #[serde(rename = "validate_level")]
    pub(super) _validate_level: Option<IgnoredAny>,
    #[serde(rename = "prefix")]
    pub(super) _prefix: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) adj_lists: Vec<ImportListYaml>,
    #[serde(default)]
    pub(super) property_groups: Vec<ImportGroupYaml>,
    pub(super) sources: Vec<ImportSourceYaml>,
}

/// One entry of `adj_lists`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportListYaml {
    pub(super) ordered: Option<String>,
    pub(super) aligned_by: Option<String>,
    pub(super) file_type: Option<String>,
    #[serde(rename = "prefix")]
    pub(super) _prefix: Option<IgnoredAny>,
}

/// One entry of `property_groups`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportGroupYaml {
    pub(super) file_type: Option<String>,
    #[serde(rename = "prefix")]
    pub(super) _prefix: Option<IgnoredAny>,
    pub(super) properties: Vec<ImportPropertyYaml>,
}

/// One entry of `properties`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportPropertyYaml {
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) is_primary: Option<String>,
    #[serde(alias = "is_nullable")]
    pub(super) nullable: Option<String>,
}

/// One entry of `sources`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportSourceYaml {
    pub(super) file_type: Option<String>,
    pub(super) path: Option<String>,
    pub(super) delimiter: Option<String>,
    #[serde(default)]
    pub(super) columns: OrderedPairs,
}

/// A map that keeps the order of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderedPairs(pub(super) Vec<(String, String)>);

impl<'de> Deserialize<'de> for OrderedPairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedPairsVisitor;
        impl<'de> Visitor<'de> for OrderedPairsVisitor {
            type Value = OrderedPairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("columns and the properties that they become")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedPairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(OrderedPairs(pairs))
            }
        }
        deserializer.deserialize_map(OrderedPairsVisitor)
    }
}

/// Parses the text of a file. Errors name the line and column.
pub(super) fn read(file: &str, text: &str) -> Result<ImportSpecYaml> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |location| (location.line(), location.column()));
        usage(format!(
            "{file}: line {line}, column {column}: {}",
            DefaultMessageFormatter.format_message(&error)
        ))
    })
}
