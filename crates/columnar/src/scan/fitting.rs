//! Rereads batches of a row group with fewer rows each if their values exceed an array.

use arrow::array::{Array, ArrayRef};

use crate::{Error, Result, chunk::ColumnBatch};

/// Divisor of the rows of a batch whose values exceed an array.
const ROWS_DIVISOR: usize = 16;

/// Batches that `open` reads with a maximum number of rows. The footer shows only the mean length of values: if a batch
/// turns out too long, the rest is read in batches of fewer rows.
pub(super) struct FittingBatches<'a, Open> {
    open: Open,
    batches: BoxedBatches<'a>,
    batch_rows: usize,
    /// Rows that were returned.
    returned: usize,
    /// Rows at the start of `batches` that had been returned before it was reopened.
    skipped: usize,
}

type BoxedBatches<'a> = Box<dyn Iterator<Item = Result<ColumnBatch>> + 'a>;

impl<'a, Open: FnMut(usize) -> Result<BoxedBatches<'a>>> FittingBatches<'a, Open> {
    pub(super) fn new(batch_rows: usize, mut open: Open) -> Result<Self> {
        let batches = open(batch_rows)?;
        Ok(Self { open, batches, batch_rows, returned: 0, skipped: 0 })
    }

    fn open_with_fewer_rows(&mut self) -> Result<()> {
        self.batch_rows = (self.batch_rows / ROWS_DIVISOR).max(1);
        self.batches = (self.open)(self.batch_rows)?;
        self.skipped = self.returned;
        Ok(())
    }
}

impl<'a, Open: FnMut(usize) -> Result<BoxedBatches<'a>>> Iterator for FittingBatches<'a, Open> {
    type Item = Result<ColumnBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (columns, rows) = match self.batches.next()? {
                Err(Error::BatchTooLong { .. }) if self.batch_rows > 1 => {
                    if let Err(error) = self.open_with_fewer_rows() {
                        return Some(Err(error));
                    }
                    continue;
                }
                Err(error) => return Some(Err(error)),
                Ok(batch) => batch,
            };

            let skipped = self.skipped.min(rows);
            self.skipped -= skipped;
            if skipped == 0 {
                self.returned += rows;
                return Some(Ok((columns, rows)));
            }
            if skipped < rows {
                let left = rows - skipped;
                let columns: Vec<ArrayRef> =
                    columns.iter().map(|column| column.slice(skipped, left)).collect();
                self.returned += left;
                return Some(Ok((columns, left)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, sync::Arc};

    use arrow::{array::Int64Array, array::cast::AsArray, datatypes::Int64Type};

    use super::*;

    /// Reads `rows` rows in batches, which fail if they reach beyond row `from` and have more than `max_rows` rows.
    fn rows_read(rows: usize, batch_rows: usize, from: usize, max_rows: usize) -> (Vec<i64>, Vec<usize>) {
        let opened = RefCell::new(Vec::new());
        let open = |batch_rows: usize| -> Result<BoxedBatches<'static>> {
            opened.borrow_mut().push(batch_rows);
            Ok(Box::new((0..rows).step_by(batch_rows).map(move |start| {
                let end = rows.min(start + batch_rows);
                if end > from && end - start > max_rows {
                    return Err(Error::BatchTooLong {
                        object: "o".into(),
                        column: None,
                        reason: "long".into(),
                    });
                }
                let column: ArrayRef = Arc::new((start..end).map(|row| row as i64).collect::<Int64Array>());
                Ok((vec![column], end - start))
            })))
        };

        let mut read = Vec::new();
        for batch in FittingBatches::new(batch_rows, open).unwrap() {
            let (columns, count) = batch.unwrap();
            assert_eq!(columns[0].len(), count);
            read.extend_from_slice(columns[0].as_primitive::<Int64Type>().values());
        }
        (read, opened.into_inner())
    }

    #[test]
    fn batches_that_fit_are_read_once() {
        let (read, opened) = rows_read(1000, 64, 1000, 1);
        assert_eq!(read, (0..1000).collect::<Vec<_>>());
        assert_eq!(opened, [64]);
    }

    #[test]
    fn rows_behind_a_batch_that_is_too_long_come_in_smaller_ones_each_once() {
        // 100 is not a multiple of 6, its sixteenth, so a batch that was returned in part is sliced.
        for (batch_rows, max_rows, expected) in
            [(64, 10, &[64, 4][..]), (100, 7, &[100, 6]), (1000, 3, &[1000, 62, 3]), (100, 1, &[100, 6, 1])]
        {
            for from in [0, 1, 500, 999] {
                let (read, opened) = rows_read(1000, batch_rows, from, max_rows);
                assert_eq!(read, (0..1000).collect::<Vec<_>>(), "{batch_rows} {max_rows} {from}");
                assert_eq!(opened, expected, "{batch_rows} {max_rows} {from}");
            }
        }
    }

    #[test]
    fn a_row_that_is_too_long_alone_is_an_error() {
        let open = |_| -> Result<BoxedBatches<'static>> {
            let error = Error::BatchTooLong { object: "o".into(), column: None, reason: "long".into() };
            Ok(Box::new(std::iter::once(Err(error))))
        };
        let mut batches = FittingBatches::new(100, open).unwrap();
        assert!(matches!(batches.next(), Some(Err(Error::BatchTooLong { .. }))));
    }
}
