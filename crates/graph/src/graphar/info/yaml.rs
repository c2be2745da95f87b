//! What the YAML files of a graph hold, key by key, before it is known whether it makes sense.
//!
//! Scalars are text here: a property may be called `1.10` or `yes`, and what is wrong with a number is said with its
//! key rather than its line.

use std::collections::BTreeMap;

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::{Error, Result};

/// Keys that the format does not have.
pub(super) type UnknownYamlKeys = BTreeMap<String, IgnoredAny>;

/// `*.graph.yml`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GraphInfoYaml {
    pub(super) name: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) vertices: Option<Vec<String>>,
    pub(super) edges: Option<Vec<String>>,
    pub(super) labels: Option<Vec<String>>,
    pub(super) version: Option<String>,
    pub(super) extra_info: Option<Vec<ExtraInfoYaml>>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// One entry of `extra_info`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ExtraInfoYaml {
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// `*.vertex.yml`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct VertexInfoYaml {
    #[serde(rename = "type")]
    pub(super) vertex_type: Option<String>,
    /// What `type` was called once.
    pub(super) label: Option<String>,
    pub(super) chunk_size: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) labels: Option<Vec<String>>,
    pub(super) property_groups: Option<Vec<PropertyGroupYaml>>,
    pub(super) version: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// `*.edge.yml`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct EdgeInfoYaml {
    pub(super) src_type: Option<String>,
    pub(super) edge_type: Option<String>,
    pub(super) dst_type: Option<String>,
    /// What `src_type` was called once.
    pub(super) src_label: Option<String>,
    /// What `edge_type` was called once.
    pub(super) edge_label: Option<String>,
    /// What `dst_type` was called once.
    pub(super) dst_label: Option<String>,
    pub(super) chunk_size: Option<String>,
    pub(super) src_chunk_size: Option<String>,
    pub(super) dst_chunk_size: Option<String>,
    pub(super) directed: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) adj_lists: Option<Vec<AdjacencyInfoYaml>>,
    pub(super) property_groups: Option<Vec<PropertyGroupYaml>>,
    pub(super) version: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// One entry of `adj_lists`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AdjacencyInfoYaml {
    pub(super) ordered: Option<String>,
    pub(super) aligned_by: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) file_type: Option<String>,
    /// Where the groups of the edge type stood once.
    pub(super) property_groups: Option<Vec<PropertyGroupYaml>>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// One entry of `property_groups`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PropertyGroupYaml {
    pub(super) prefix: Option<String>,
    pub(super) file_type: Option<String>,
    pub(super) properties: Option<Vec<PropertyInfoYaml>>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// One entry of `properties`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PropertyInfoYaml {
    pub(super) name: Option<String>,
    pub(super) data_type: Option<String>,
    pub(super) is_primary: Option<String>,
    pub(super) is_nullable: Option<String>,
    pub(super) cardinality: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// What `text`, the content of `file`, holds. Errors of syntax, and of lists where there should be text or the other
/// way round, name the line and column.
pub(super) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T> {
    let options = serde_saphyr::options! { with_snippet: false };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        let (key, reason) = ("line 1, column 1".to_owned(), "the file is empty".to_owned());
        return Err(Error::Info { file: file.to_owned(), key, reason });
    }
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
        Error::Info {
            file: file.to_owned(),
            key: format!("line {line}, column {column}"),
            reason: UserMessageFormatter.format_message(&error).into_owned(),
        }
    })
}
