//! Reading rows of files and writing them to an output: requests, formats and destinations.

mod column_file;
mod destination;
mod dictionaries;
mod drain;
mod encode;
mod encoders;
mod format;
mod grid;
mod output;
mod plan;
mod portable;
mod progress;
mod request;
mod source_args;
mod stop;

pub(crate) use self::{
    column_file::{ColumnFile, ColumnFormat},
    destination::{OverwriteMode, RowDestination, exists},
    drain::{WriteTotals, drain},
    format::RowFormat,
    grid::{TableLimits, grouped, printable},
    output::OutputArgs,
    plan::{RowsRequest, RowsScan},
    progress::ProgressDisplay,
    request::{RequestArgs, open_cache, option},
    source_args::delimiter,
    stop::until_stopped,
};
