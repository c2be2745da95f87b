//! YAML files of a graph, key by key, before validation.
//!
//! Scalars are kept as text, so that a property may be called `1.10` or `yes`, and an error in a number names its key
//! rather than its line.

use std::collections::BTreeMap;

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::{Error, Result};

/// Keys that the format does not define.
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

/// Entry of `extra_info`.
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
    /// Former name of `type`.
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
    /// Former name of `src_type`.
    pub(super) src_label: Option<String>,
    /// Former name of `edge_type`.
    pub(super) edge_label: Option<String>,
    /// Former name of `dst_type`.
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

/// Entry of `adj_lists`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AdjacencyInfoYaml {
    pub(super) ordered: Option<String>,
    pub(super) aligned_by: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) file_type: Option<String>,
    /// Former position of the edge type's groups.
    pub(super) property_groups: Option<Vec<PropertyGroupYaml>>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// Entry of `property_groups`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PropertyGroupYaml {
    pub(super) prefix: Option<String>,
    pub(super) file_type: Option<String>,
    pub(super) properties: Option<Vec<PropertyInfoYaml>>,
    #[serde(flatten)]
    pub(super) unknown: UnknownYamlKeys,
}

/// Entry of `properties`.
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

/// Parses `text`, the content of `file`. Errors of syntax, and of lists in place of text or the reverse, give the line
/// and column.
pub(super) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T> {
    let options = serde_saphyr::options! { with_snippet: false };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        let key = "line 1, column 1".to_owned();
        let reason = "the file is empty".to_owned();
        return Err(Error::Info { file: file.to_owned(), key, reason });
    }

    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |location| (location.line(), location.column()));
        Error::Info {
            file: file.to_owned(),
            key: format!("line {line}, column {column}"),
            reason: UserMessageFormatter.format_message(&error).into_owned(),
        }
    })
}
