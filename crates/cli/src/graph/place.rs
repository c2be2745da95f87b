//! Which graph, and how it is opened.

use std::{fs, path::Path, str::FromStr};

use anyhow::{Context, Result};
use clap::Args;
use stylobate_columnar::Source;
use stylobate_graph::{Graph, GraphOptions, Strictness};
use stylobate_storage::ByteSize;

use crate::{
    failure::usage,
    rows::{open_cache, option},
};

/// Where a graph is, and how it is read.
#[derive(Args, Clone, Debug)]
pub(super) struct PlaceArgs {
    /// The file that describes the graph, such as social.graph.yml, here or below s3://, gs://, az:// or http(s)://; or a
    /// local folder with one such file
    #[arg(value_name = "GRAPH")]
    graph: String,

    /// Where vertices and edges are, whatever the graph's file says
    #[arg(long, value_name = "DIR|URL")]
    prefix: Option<String>,

    /// Refuse what deviates from the format, rather than read what official libraries write
    #[arg(long)]
    strict: bool,

    /// An option of the store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,

    /// Memory for pages and decoded columns [default: a quarter of what the process may use]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    memory: Option<ByteSize>,
}

impl PlaceArgs {
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
        Ok(Graph::open(&cache, source(self.file()?), options).await?)
    }

    /// The graph's own file.
    pub(super) fn file(&self) -> Result<String> {
        let path = Path::new(&self.graph);
        if self.graph.contains("://") || !path.is_dir() {
            return Ok(self.graph.clone());
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(path).with_context(|| self.graph.clone())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".graph.yml") || name.ends_with(".graph.yaml") {
                found.push(name);
            }
        }
        found.sort();
        match found.as_slice() {
            [only] => Ok(path.join(only).to_string_lossy().into_owned()),
            [] => Err(usage(format!("{}: no file there ends in .graph.yml", self.graph))),
            several => Err(usage(format!("{}: name one of {}", self.graph, several.join(", ")))),
        }
    }
}
