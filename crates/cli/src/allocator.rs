//! Allocator settings for commands with a memory limit.

use std::ffi::c_long;

/// mimalloc's option `purge_delay`: milliseconds until freed memory is returned to the system.
const PURGE_DELAY: i32 = 15;

/// Delay for a node, which soon allocates as much memory as it freed.
const NODE_PURGE_DELAY_MS: c_long = 10;

/// Keeps the memory of a command close to what it has allocated: freed memory is returned at once. Otherwise, commands
/// that build and sort rows in many pieces hold up to twice as much memory, without being faster.
pub(crate) fn minimize_memory() {
    return_freed_memory_after(0);
}

/// Keeps the memory of a node close to its budget. Otherwise, a node with 128 MiB holds 120 MiB more than it has
/// allocated once its caches are full, most of it in huge pages that are only partly used.
pub(crate) fn bound_node_memory() {
    return_freed_memory_after(NODE_PURGE_DELAY_MS);
}

/// Disables transparent huge pages, and sets the delay after which the allocator returns freed memory. The environment
/// variable `MIMALLOC_PURGE_DELAY` takes precedence.
fn return_freed_memory_after(milliseconds: c_long) {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    #[expect(unsafe_code, reason = "calls to C")]
    // SAFETY: the first function takes two integers and validates the first; both may be called at any time.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, milliseconds);
        // Otherwise, nothing is returned until the former delay has passed for what was freed before.
        libmimalloc_sys::mi_collect(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        #[expect(unsafe_code, reason = "a call to C")]
        // SAFETY: as above.
        let get = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1000, "the default, which no other option has");
        minimize_memory();
        assert_eq!(get(), 0);
        bound_node_memory();
        assert_eq!(get(), NODE_PURGE_DELAY_MS);
    }
}
