//! Allocator settings for commands with a memory limit.

/// mimalloc's option `purge_delay`: milliseconds until freed memory is returned to the system.
const PURGE_DELAY: i32 = 15;

/// Disables transparent huge pages, and makes the allocator return freed memory promptly. Otherwise, commands that
/// build and sort rows in many pieces hold up to twice as much memory, without being faster. The environment variable
/// `MIMALLOC_PURGE_DELAY` takes precedence.
pub(crate) fn minimize_memory() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    #[expect(unsafe_code, reason = "a call to C")]
    // SAFETY: the function takes two integers, validates the first, and may be called at any time.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, 0);
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
    }
}
