//! Rows of the page that is being filled: their number, and their validity.

use arrow::buffer::BooleanBuffer;

#[derive(Default)]
pub(crate) struct PageValidity {
    count: usize,
    /// Validity of each row; empty while all are valid.
    valid: Vec<bool>,
}

impl PageValidity {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the validity of each row; `None` if all are valid.
    pub(crate) fn valid(&self) -> Option<&[bool]> {
        (!self.valid.is_empty()).then_some(self.valid.as_slice())
    }

    pub(crate) fn push_valid(&mut self, count: usize) {
        if !self.valid.is_empty() {
            self.valid.resize(self.count + count, true);
        }
        self.count += count;
    }

    /// Adds a row for each bit, valid if it is set.
    pub(crate) fn push(&mut self, valid: &BooleanBuffer) {
        if !valid.has_false() {
            return self.push_valid(valid.len());
        }
        if self.valid.is_empty() {
            self.valid.resize(self.count, true);
        }
        self.valid.extend(valid);
        self.count += valid.len();
    }

    pub(crate) fn push_nulls(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        if self.valid.is_empty() {
            self.valid.resize(self.count, true);
        }
        self.valid.resize(self.count + count, false);
        self.count += count;
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.valid.clear();
    }
}
