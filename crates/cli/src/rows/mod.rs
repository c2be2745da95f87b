//! Reads rows of files and writes them to an output: requests, formats and destinations.

mod column_file;
mod destination;
mod drain;
mod format;
mod grid;
mod output;
mod plan;
mod progress;
mod request;
mod source_args;
mod stop;

pub(crate) use self::{
    column_file::{ColumnFile, file_options},
    destination::{OverwriteMode, RowDestination, exists},
    drain::{WriteTotals, drain},
    format::{RowFormat, format_parser, printed_format, unknown_format},
    grid::{TableLimits, grouped, printable},
    output::OutputArgs,
    plan::{RowsRequest, RowsScan},
    progress::ProgressDisplay,
    request::{RequestArgs, open_cache, option},
    stop::until_stopped,
};
#[cfg(feature = "graph")]
pub(crate) use self::{source_args::delimiter, stop::UNFINISHED_WRITES_TIMEOUT};
