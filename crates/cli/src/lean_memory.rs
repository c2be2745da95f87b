//! Little memory beyond what is asked for, for work that has a bound to keep.

/// The number of mimalloc's option that says after how many milliseconds memory that was given back goes to the system.
const PURGE_DELAY: i32 = 15;

/// From now on the process takes memory in the smallest pages that there are, and gives it back at once. Where rows are
/// made and sorted in many pieces it would otherwise hold up to twice as much, and gain nothing unless memory is very
/// short. What the environment says (`MIMALLOC_PURGE_DELAY`) goes before.
pub(crate) fn be_lean() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    #[expect(unsafe_code, reason = "a call to C")]
    // SAFETY: it takes two numbers, may be called at any time, and looks at the first of them.
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
        be_lean();
        assert_eq!(get(), 0);
    }
}
