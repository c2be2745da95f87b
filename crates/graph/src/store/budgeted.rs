//! Values held in memory as long as a version needs them, charged to the cache's budget.

use std::ops::Deref;

use arrow::array::{Array, ArrayRef};
use stylobate_columnar::Cache;
use stylobate_storage::Reservation;

/// Memory footprint of a value.
pub(crate) trait MemoryFootprint {
    /// Returns the memory in use, in bytes, without cached columns.
    fn bytes(&self) -> u64;
}

/// Value that is charged to the budget until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Budgeted<T> {
    of: T,
    bytes: Option<Reservation>,
}

impl<T: MemoryFootprint> Budgeted<T> {
    pub(crate) fn new(cache: &Cache, of: T) -> Self {
        let bytes = Some(cache.hold(of.bytes()));
        Self { of, bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.as_ref().map_or(0, Reservation::bytes)
    }
}

#[cfg(test)]
impl<T> From<T> for Budgeted<T> {
    fn from(of: T) -> Self {
        Self { of, bytes: None }
    }
}

impl<T> Deref for Budgeted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.of
    }
}

/// Returns the bytes of the rows of arrays, which may be slices of larger buffers.
pub(crate) fn bytes_of<'a>(arrays: impl IntoIterator<Item = &'a ArrayRef>) -> u64 {
    let bytes = |array: &ArrayRef| {
        array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
    };
    arrays.into_iter().map(|array| bytes(array) as u64).sum()
}
