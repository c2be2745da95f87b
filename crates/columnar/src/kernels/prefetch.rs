//! A hint to the processor that memory will be read soon.

#![expect(
    unsafe_code,
    reason = "the instruction takes a pointer, and a value looked up waits for memory otherwise"
)]

/// Prefetches the cache line of the element at `index`; does nothing if there is no such element.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is that of a reference, and the instruction has no visible effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
