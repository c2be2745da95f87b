//! Logs filtered events to standard error, as text or JSON.

use std::io::{self, IsTerminal};

use stylobate_server::config::LogFormat;
use tracing_subscriber::EnvFilter;

use crate::failure::usage;

/// Always disabled: s3s logs request headers and computed signatures.
const SILENT: &str = "s3s=off";

/// Parses a filter, such as `info` or `warn,stylobate_server=debug`. The error gives an example.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::builder().parse(text).map_err(|error| {
        format!("{text:?} is not a filter ({error}): write warn, or info,stylobate_server=debug")
    })
}

/// Default filter of commands other than `serve`: warnings, except those about a small page cache, whose size the
/// commands choose themselves.
const WARNINGS: &str = "stylobate=warn,stylobate_storage::page_cache=error";
/// Environment variable with the filter of all commands; `serve` has other settings for it as well.
const VARIABLE: &str = "STYLOBATE_LOG";

/// Starts logging with the filter of the environment variable.
pub(crate) fn start_from_environment() -> anyhow::Result<()> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let filter = filter(text.as_deref().unwrap_or(WARNINGS))
        .map_err(|reason| usage(format!("{VARIABLE}: {reason}")))?;
    start(filter, LogFormat::Text)
}

/// Starts logging events that pass `filter`.
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
