//! Arguments of scans, and the request and the cache built from them.

use std::{num::NonZeroUsize, str::FromStr};

use anyhow::Result;
use clap::Args;
use stylobate_columnar::{Cache, Dictionaries, Predicate, ScanRequest, Source};
use stylobate_server::config::NodeSettings;
use stylobate_storage::{ByteSize, CacheOptions};

use super::{RowsRequest, RowsScan, source_args::SourceArgs};

/// Columns, rows and resources of a scan.
#[derive(Args, Clone, Debug)]
pub(crate) struct RequestArgs {
    /// Columns to read, in this order; a dot selects a struct field [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = column)]
    columns: Option<Vec<String>>,

    /// Filter rows by a SQL WHERE condition
    #[arg(long = "where", value_name = "SQL")]
    filter: Option<String>,

    /// Output at most N rows
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,

    /// Columns to output as dictionaries: auto (values repeat), stored (files store only dictionaries), all, none, or
    /// names separated by commas [default: those that were written from dictionaries]
    #[arg(long, value_name = "WHICH", value_parser = dictionaries)]
    dictionary: Option<Dictionaries>,

    /// An option of the store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    pub(crate) option: Vec<(String, String)>,

    /// Memory for pages and decoded columns, and for writing Parquet or ORC [default: a quarter of the memory available
    /// to the process]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    pub(crate) memory: Option<ByteSize>,

    /// Maximum decoding threads [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    source_args: SourceArgs,
}

impl RequestArgs {
    /// Builds the request for these paths. `dictionary` is the default for `--dictionary`.
    pub(crate) fn request(&self, paths: &[String], dictionary: Dictionaries) -> Result<RowsRequest> {
        let sources: Vec<Source> = paths.iter().map(|path| self.source(path)).collect();
        let filter = self.filter.as_deref().map(Predicate::parse).transpose()?;
        let dictionary = self.dictionary.clone().unwrap_or(dictionary);
        let mut columnar = ScanRequest::over(sources.clone()).with_dictionary(dictionary);
        if let Some(columns) = &self.columns {
            columnar = columnar.with_columns(columns);
        }
        if let Some(filter) = &filter {
            columnar = columnar.with_filter(filter.clone());
        }
        if let Some(limit) = self.limit {
            columnar = columnar.with_limit(limit);
        }
        if let Some(threads) = self.threads {
            columnar = columnar.with_threads(threads.get());
        }

        Ok(RowsRequest {
            columnar,
            sources,
            format: self.source_args.format(paths)?,
            source_args: self.source_args.clone(),
            columns: self.columns.clone(),
            filter,
            limit: self.limit,
            has_dictionaries: self.dictionary.is_some(),
        })
    }

    fn source(&self, path: &str) -> Source {
        Source::Url { url: path.to_owned(), options: self.option.clone() }
    }

    /// Returns the number of rows that the scan outputs; `None` if it is known only after reading.
    pub(crate) fn rows(&self, scan: &RowsScan) -> Option<u64> {
        match scan {
            RowsScan::Columnar(scan) => {
                let rows = scan.estimated_rows();
                self.filter.is_none().then(|| self.limit.map_or(rows, |limit| rows.min(limit)))
            }
            RowsScan::Sequential(scan) => scan.rows(),
        }
    }

    /// Opens the cache that the scan reads through.
    pub(crate) async fn cache(&self) -> Result<Cache> {
        open_cache(self.memory).await
    }
}

/// Opens an in-memory cache for one run of a command.
pub(crate) async fn open_cache(memory: Option<ByteSize>) -> Result<Cache> {
    let memory = memory.unwrap_or_else(|| NodeSettings::default().memory);
    Ok(Cache::open(CacheOptions::new(memory)).await?)
}

fn column(text: &str) -> Result<String, &'static str> {
    let name = text.trim();
    if name.is_empty() { Err("a column has a name") } else { Ok(name.to_owned()) }
}

fn dictionaries(text: &str) -> Result<Dictionaries, &'static str> {
    Ok(match text {
        "auto" => Dictionaries::Auto,
        "stored" => Dictionaries::Stored,
        "all" => Dictionaries::All,
        "none" => Dictionaries::None,
        names => Dictionaries::Columns(names.split(',').map(column).collect::<Result<_, _>>()?),
    })
}

/// Parses a store option of the form `KEY=VALUE`.
pub(crate) fn option(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_a_word_or_names() {
        assert_eq!(dictionaries("auto"), Ok(Dictionaries::Auto));
        assert_eq!(dictionaries("none"), Ok(Dictionaries::None));
        assert_eq!(dictionaries("a, b.c"), Ok(Dictionaries::Columns(vec!["a".to_owned(), "b.c".to_owned()])));
        assert!(dictionaries("a,,b").is_err());
    }

    #[test]
    fn an_option_may_hold_an_equals_sign_in_its_value() {
        assert_eq!(option("key=a=b"), Ok(("key".to_owned(), "a=b".to_owned())));
        assert!(option("=a").is_err() && option("key").is_err());
    }
}
