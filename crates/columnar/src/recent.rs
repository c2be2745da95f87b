//! The array that a key last led to, found again without the key for as long as anybody holds it.

use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, NullArray};
use parking_lot::RwLock;

/// A cache holds what it keeps, so that what is cached is found here. It keeps what is asked for often, which it only
/// sees where it is asked itself: every so often somebody should.
#[derive(Debug)]
pub(crate) struct Recent(RwLock<Weak<dyn Array>>);

impl Default for Recent {
    fn default() -> Self {
        Self(RwLock::new(Weak::<NullArray>::new()))
    }
}

impl Recent {
    /// The array, if anybody holds it.
    #[inline]
    pub(crate) fn get(&self) -> Option<ArrayRef> {
        self.0.read().upgrade()
    }

    /// Remembers an array, and does not hold it.
    pub(crate) fn remember(&self, array: &ArrayRef) {
        if !self.0.read().ptr_eq(&Arc::downgrade(array)) {
            *self.0.write() = Arc::downgrade(array);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn an_array_is_found_as_long_as_it_is_held() {
        let recent = Recent::default();
        assert!(recent.get().is_none());
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        recent.remember(&array);
        recent.remember(&array);
        assert!(Arc::ptr_eq(&recent.get().unwrap(), &array));
        drop(array);
        assert!(recent.get().is_none());
    }
}
