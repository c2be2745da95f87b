//! The page of codes that is being filled: the codes, and which rows have one.

/// The page that is being filled.
#[derive(Default)]
pub(super) struct Filling {
    /// The codes of rows that have a value.
    pub(super) codes: Vec<u32>,
    /// Which rows have one; empty as long as all have.
    pub(super) valid: Vec<bool>,
    pub(super) rows: usize,
}

impl Filling {
    pub(super) fn push_valid(&mut self, count: usize) {
        if !self.valid.is_empty() {
            self.valid.resize(self.rows + count, true);
        }
        self.rows += count;
    }

    pub(super) fn push_nulls(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        if self.valid.is_empty() {
            self.valid.resize(self.rows, true);
        }
        self.valid.resize(self.rows + count, false);
        self.rows += count;
    }
}
