//! A part of a table: one of several consecutive parts that make up the whole.

use crate::{Error, Result};

/// Part `number` of `of`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: u32,
    of: u32,
}

/// Maximum number of parts of a table.
const MAX_PARTS: u32 = 100_000;

impl Part {
    /// The whole table.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Creates part `number` of `of`.
    ///
    /// # Errors
    ///
    /// [`Error::Part`] if `of` or `number` is out of range.
    pub fn new(number: u32, of: u32) -> Result<Self> {
        let wrong = |reason: String| Error::Part { number, of, reason };
        if !(1..=MAX_PARTS).contains(&of) {
            return Err(wrong(format!("a table has 1 to {MAX_PARTS} parts")));
        }
        if !(1..=of).contains(&number) {
            return Err(wrong(format!("parts are numbered from 1 to {of}")));
        }
        Ok(Self { number, of })
    }

    /// Returns the number of the part, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of parts.
    pub fn of(self) -> u32 {
        self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_one() {
        assert_eq!(Part::new(1, 1).unwrap(), Part::WHOLE);
        assert!(Part::new(0, 2).is_err() && Part::new(3, 2).is_err() && Part::new(1, 0).is_err());
    }
}
