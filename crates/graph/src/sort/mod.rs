//! External sort: rows that exceed the memory are spilled to sorted runs on disk, which are then merged.
//!
//! ```text
//! buffer -> full: sorted -> SortRun, SortRun, … -> FAN_IN of a level, and one more: one of the next level
//!        -> end of the rows: at most FAN_IN runs are left -> RunMerge -> batches
//! ```
//!
//! The caller owns the buffer, and sorts its rows in memory. A [`RunOrder`] compares rows of different runs. Only runs
//! of one level are merged on disk, so that each row of r runs is written at most ⌈log₆₄ r⌉ times.

mod merge;
mod run;
mod spilled;
#[cfg(test)]
mod tests;

pub(crate) use self::{merge::RunOrder, spilled::SpilledRuns};

/// Maximum number of runs merged at a time.
const FAN_IN: usize = 64;
/// Maximum rows of a batch.
const MAX_ROWS: usize = 1 << 16;
/// Maximum bytes of a batch.
const MAX_BYTES: usize = 4 << 20;
/// Minimum bytes of a batch: smaller ones would save little compared to file buffers, and add overhead per batch.
const MIN_BYTES: usize = 4 << 10;

/// Returns the number of rows per batch, so that the batches of a merge fit into half of the memory.
pub(crate) fn batch_rows(memory: usize, row_bytes: usize) -> usize {
    (max_batch_bytes(memory) / row_bytes.max(1)).clamp(1, MAX_ROWS)
}

/// Returns the maximum bytes of a batch of a merge.
fn max_batch_bytes(memory: usize) -> usize {
    (memory / 2 / FAN_IN).clamp(MIN_BYTES, MAX_BYTES)
}
