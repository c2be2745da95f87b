//! Arguments for opening a graph.

use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use stylobate_columnar::Source;
use stylobate_graph::graphar::{Graph, GraphOptions, Strictness};
use stylobate_storage::ByteSize;

use crate::rows::{open_cache, option};

/// The location of a graph, and the options for reading it.
#[derive(Args, Clone, Debug)]
pub(super) struct GraphLocationArgs {
    /// The graph file, such as social.graph.yml, or a folder with only one, local or below s3://, gs:// or az://; a
    /// file below http(s)://
    #[arg(value_name = "GRAPH")]
    graph: String,

    /// Location of vertices and edges; overrides that of the graph file
    #[arg(long, value_name = "DIR|URL")]
    prefix: Option<String>,

    /// Reject deviations from the format that official libraries write
    #[arg(long)]
    strict: bool,

    /// An option of the store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,

    /// Memory for pages and decoded columns [default: a quarter of the memory available to the process]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    memory: Option<ByteSize>,
}

impl GraphLocationArgs {
    /// Opens the graph.
    pub(super) async fn open(&self) -> Result<Graph> {
        let source = |url: String| Source::Url { url, options: self.option.clone() };
        let mut options = GraphOptions::default();
        if let Some(prefix) = &self.prefix {
            options = options.with_prefix(source(prefix.clone()));
        }
        if self.strict {
            options = options.with_strictness(Strictness::Strict);
        }

        let cache = open_cache(self.memory).await?;
        Ok(Graph::open(&cache, source(self.graph.clone()), options).await?)
    }

    /// Returns the graph file of an open graph.
    pub(super) fn file(&self, graph: &Graph) -> String {
        let name = graph.file_name();
        if self.graph.ends_with(name) {
            self.graph.clone()
        } else {
            format!("{}/{name}", self.graph.trim_end_matches('/'))
        }
    }
}
