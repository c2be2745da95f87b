//! The memory allocator of the module: decoding allocates a lot, from many threads.

use std::ffi::c_long;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's option `purge_delay`: milliseconds until freed memory is returned to the system.
const PURGE_DELAY: i32 = 15;
/// Typical pause between two reads in an interactive session. Memory that was returned in the meantime must be zeroed by
/// the system again, which takes as long as decoding into it.
const KEPT_MS: c_long = 10_000;
/// The default of mimalloc, with which the binary `stylobate` runs.
const DEFAULT_MS: c_long = 1_000;

/// Keeps freed memory for the next read. The environment variable `MIMALLOC_PURGE_DELAY` takes precedence.
pub(crate) fn keep_freed_memory() {
    set_purge_delay(KEPT_MS);
}

/// Returns freed memory as early as the binary does: a process that runs the command has no later reads to keep it
/// for.
pub(crate) fn return_freed_memory() {
    set_purge_delay(DEFAULT_MS);
}

fn set_purge_delay(milliseconds: c_long) {
    #[expect(unsafe_code, reason = "a call to C")]
    // SAFETY: the function takes two integers, checks the first and may be called at any time.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, milliseconds);
    }
}
