//! Standard output whose reader may close the pipe.

use std::{
    fmt::{self, Display},
    io::{self, StdoutLock, Write},
};

use anyhow::{Context, Result};
use serde::Serialize;

/// Error: the reader of standard output closed the pipe, as `head` does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReaderGone;

impl Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output closed it")
    }
}

impl std::error::Error for ReaderGone {}

/// Marks a broken pipe of standard output, to distinguish it from broken connections.
pub(crate) fn of_output(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        _ => error,
    }
}

/// Locked standard output that marks its errors.
#[derive(Debug)]
pub(crate) struct StdoutWriter(StdoutLock<'static>);

pub(crate) fn out() -> StdoutWriter {
    StdoutWriter(io::stdout().lock())
}

impl Write for StdoutWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(of_output)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_output)
    }
}

/// Prints text to standard output without changes.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut out = out();
    write!(out, "{text}").context("printing")?;
    out.flush().context("printing")
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(serde_json::to_string_pretty(value).context("printing")? + "\n")
}
