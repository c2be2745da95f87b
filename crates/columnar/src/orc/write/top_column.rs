//! Encodes a top-level column: splits its rows into row groups, and starts over with each stripe.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use super::{
    column::{EncodedColumn, OrcColumnError, StripeColumnEncoder},
    compression::OrcCompressorPool,
    plan::OrcColumnPlan,
};
use crate::kernels::weight::weight_of;

/// Rows after which full chunks are compressed: expanded values may be many times longer than the input array.
const PIECE: usize = 16_384;
/// Bytes above which a piece has fewer rows: dictionaries hold less than 4 GiB, and are dropped between pieces only.
const MAX_PIECE_BYTES: usize = 1 << 30;

pub(super) struct TopLevelColumnEncoder {
    plan: OrcColumnPlan,
    /// Rows of a row group.
    stride: usize,
    compressors: Arc<OrcCompressorPool>,
    /// `None` before the stripe's first row.
    column: Option<StripeColumnEncoder>,
    /// Rows of the current row group.
    rows: usize,
}

impl TopLevelColumnEncoder {
    pub(super) fn new(plan: OrcColumnPlan, stride: usize, compressors: Arc<OrcCompressorPool>) -> Self {
        let stride = if stride == 0 { usize::MAX } else { stride };
        Self { plan, stride, compressors, column: None, rows: 0 }
    }

    /// Encodes more rows.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<(), OrcColumnError> {
        let column = self.column.get_or_insert_with(|| StripeColumnEncoder::new(&self.plan));
        let is_large = array.get_array_memory_size() > MAX_PIECE_BYTES;
        let mut start = 0;
        while start < array.len() {
            if self.rows == 0 {
                column.begin_group();
            }

            let mut count = (self.stride - self.rows).min(array.len() - start).min(PIECE);
            while is_large && count > 1 && weight_of(&array.slice(start, count)) > MAX_PIECE_BYTES {
                count /= 2;
            }
            column.write(&array.slice(start, count))?;
            start += count;
            self.rows += count;
            if self.rows == self.stride {
                column.end_group()?;
                self.rows = 0;
            }
            let compressed = self.compressors.with(|compressor| column.compress(compressor));
            compressed.map_err(|reason| OrcColumnError { column: self.plan.path.to_string(), reason })?;
        }

        Ok(())
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.column.as_ref().map_or(0, StripeColumnEncoder::memory)
    }

    /// Returns an estimate of its bytes in the stripe.
    pub(super) fn encoded(&self) -> usize {
        self.column.as_ref().map_or(0, StripeColumnEncoder::encoded)
    }

    /// Returns the columns of the stripe, this one first.
    pub(super) fn end_stripe(&mut self) -> Result<Vec<EncodedColumn>, OrcColumnError> {
        let Some(mut column) = self.column.take() else { return Ok(Vec::new()) };
        if std::mem::take(&mut self.rows) > 0 {
            column.end_group()?;
        }
        let mut encoded = Vec::new();
        self.compressors.with(|compressor| column.finish(compressor, &mut encoded))?;
        Ok(encoded)
    }
}
