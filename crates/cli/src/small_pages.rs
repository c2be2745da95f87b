//! Small pages of memory, for work that has a bound to keep.

/// From now on the process takes memory in the smallest pages that there are. Of pages of 2 MiB it would hold up to twice
/// as much, where rows are made and sorted in many pieces, and gain nothing.
pub(crate) fn use_small_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
