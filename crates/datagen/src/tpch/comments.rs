//! Comments in TPC-H's rows: slices of one text, with random lengths and positions.

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, StringViewArray},
    error::ArrowError,
};
use tpchgen::{
    distribution::Distributions, generators::SupplierGenerator, random::RowRandomInt, text::TextPool,
};

use crate::{chunk::GeneratedBatches, tpch::text_pool::text_pool};

/// Random numbers drawn per comment.
const NUMBERS: i32 = 2;
/// Length of the generators' placeholder text in bytes.
const PLACEHOLDER: i32 = 4096;

/// Returns a short text for generators whose comments are used only for their lengths.
pub(crate) fn placeholder() -> &'static TextPool {
    static TEXT: LazyLock<TextPool> =
        LazyLock::new(|| TextPool::new(PLACEHOLDER, Distributions::static_default()));
    &TEXT
}

/// Comments of a table, in order.
pub(crate) struct CommentGenerator {
    random: RowRandomInt,
    min_len: i32,
    max_len: i32,
    text: &'static [u8],
    is_begun: bool,
}

impl CommentGenerator {
    /// Creates the comments starting at unit `first`; a unit has at most `rows` rows. The first call generates the
    /// text.
    pub(crate) fn new(seed: i64, average: f64, rows: i32, first: u64) -> Self {
        let mut random = RowRandomInt::new(seed, rows * NUMBERS);
        random.advance_rows(i64::try_from(first).unwrap_or(i64::MAX));
        Self {
            random,
            min_len: (average * 0.4) as i32,
            max_len: (average * 1.6) as i32,
            text: text_pool(),
            is_begun: false,
        }
    }

    /// Returns the next comment without accessing its memory, which is far from that of the previous one.
    pub(crate) fn next(&mut self) -> &'static [u8] {
        let start = self.random.next_int(0, self.text.len() as i32 - self.max_len) as usize;
        let length = self.random.next_int(self.min_len, self.max_len) as usize;
        self.text.get(start..start + length).unwrap_or_default()
    }

    /// Begins the next unit.
    pub(crate) fn begin_unit(&mut self) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.random.row_finished();
        }
    }

    /// Replaces the last column of the batches by these comments. A unit has `rows` rows.
    pub(crate) fn in_batches(mut self, batches: GeneratedBatches, rows: u64) -> GeneratedBatches {
        let mut row = 0;
        Box::new(batches.map(move |batch| {
            with_last(&batch?, |column| {
                let comments = column.as_string_view().iter().map(|_| {
                    if row % rows == 0 {
                        self.begin_unit();
                    }
                    row += 1;
                    text(self.next())
                });
                StringViewArray::from_iter_values(comments)
            })
        }))
    }
}

/// Merges the generators' remarks about suppliers into the comments.
pub(crate) fn with_opinions(mut comments: CommentGenerator, batches: GeneratedBatches) -> GeneratedBatches {
    Box::new(batches.map(move |batch| {
        with_last(&batch?, |column| {
            let comments = column.as_string_view().iter().map(|theirs| {
                comments.begin_unit();
                opinion(text(comments.next()), theirs.unwrap_or_default())
            });
            StringViewArray::from_iter_values(comments)
        })
    }))
}

fn text(comment: &[u8]) -> &str {
    str::from_utf8(comment).unwrap_or_default()
}

/// Returns the comment with the remark contained in another comment of the same length.
fn opinion(comment: &str, of: &str) -> String {
    let mut comment = comment.to_owned();
    let words = [
        SupplierGenerator::BBB_BASE_TEXT,
        SupplierGenerator::BBB_COMPLAINT_TEXT,
        SupplierGenerator::BBB_RECOMMEND_TEXT,
    ];

    for word in words {
        if let Some(at) = of.find(word) {
            comment.replace_range(at..at + word.len(), word);
        }
    }
    comment
}

fn with_last(
    batch: &RecordBatch,
    make: impl FnOnce(&ArrayRef) -> StringViewArray,
) -> Result<RecordBatch, ArrowError> {
    let mut columns = batch.columns().to_vec();
    if let Some(last) = columns.last_mut() {
        *last = Arc::new(make(last));
    }
    RecordBatch::try_new(batch.schema(), columns)
}
