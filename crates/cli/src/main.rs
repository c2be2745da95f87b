//! The binary `stylobate`: the command with an allocator of its own.

use std::{env, process::ExitCode};

/// Buffers of many sizes are allocated on all threads: the system allocator is slower there and retains more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(stylobate_cli::run(env::args_os().collect()))
}
