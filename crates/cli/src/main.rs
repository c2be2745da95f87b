//! The `stylobate` binary: the command with its own allocator.

use std::{env, process::ExitCode};

/// The command allocates buffers of many sizes on all threads, for which the system allocator is slower and retains
/// more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(stylobate_cli::run(env::args_os().collect()))
}
