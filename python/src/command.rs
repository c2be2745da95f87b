//! The command `stylobate`, for the script that the wheel installs.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::allocator::return_freed_memory;

/// Runs a command line, whose first argument is the name of the program, and returns its exit code. After some signals
/// the process ends here.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, command_line: Vec<OsString>) -> u8 {
    return_freed_memory();
    py.detach(|| stylobate_cli::run(command_line))
}
