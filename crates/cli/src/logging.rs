//! Where events go: to standard error, as lines for people or as JSON, through a filter.

use std::io::{self, IsTerminal};

use stylobate_server::config::LogFormat;
use tracing_subscriber::EnvFilter;

/// Never printed, whatever the filter says: s3s logs request headers, and the signatures that it computes.
const SILENT: &str = "s3s=off";

/// Understands a filter, such as `info` or `warn,stylobate_server=debug`. The error says what to write instead.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::builder().parse(text).map_err(|error| {
        format!("{text:?} is not a filter ({error}): write warn, or info,stylobate_server=debug")
    })
}

/// What verbs other than a node's print: what went wrong without being the end of it. That little memory caches little
/// they were told on purpose.
const WARNINGS: &str = "stylobate=warn,stylobate_storage::page_cache=error";
/// The filter of all verbs; that of a node may be given in other ways too.
const VARIABLE: &str = "STYLOBATE_LOG";

/// Prints events as the environment says.
pub(crate) fn start_from_environment() -> anyhow::Result<()> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let filter = filter(text.as_deref().unwrap_or(WARNINGS))
        .map_err(|reason| anyhow::anyhow!("{VARIABLE}: {reason}"))?;
    start(filter, LogFormat::Text)
}

/// Prints events that pass `filter`.
pub(crate) fn start(filter: EnvFilter, format: LogFormat) -> anyhow::Result<()> {
    let filter = filter.add_directive(SILENT.parse()?);
    let events = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let started = match format {
        LogFormat::Text => events.try_init(),
        LogFormat::Json => events.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging: {error}"))
}
