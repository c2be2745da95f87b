//! Rows on their way from files to an output: what is asked for, in which format it comes out, and where it goes.

mod destination;
mod dictionaries;
mod drain;
mod encode;
mod encoders;
mod format;
mod grid;
mod portable;
mod progress;
mod request;
mod stop;

pub(crate) use self::{
    destination::{Destination, Overwrite, exists},
    drain::{Drained, drain},
    format::Format,
    grid::{Bound, grouped, printable},
    progress::Progress,
    request::{RequestArgs, open_cache, option},
    stop::until_stopped,
};
