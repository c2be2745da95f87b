//! State kept for written vertices: their keys, for resolving edges, and their labels.

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    util::display::{ArrayFormatter, FormatOptions},
};
use stylobate_storage::ByteSize;

use super::{labels::LabelColumnsBuilder, request::IndexedKeyColumn};
use crate::{
    Error, Result,
    graphar::write::{
        columns::InputColumns,
        keys::room::{KeyInsertError, text_bytes},
        names::unwritable,
    },
};

/// Keys and labels of the vertices of one type.
#[derive(Debug)]
pub(crate) struct KeyAndLabelBuilder {
    pub(crate) key: Option<IndexedKeyColumn>,
    pub(crate) labels: Option<LabelColumnsBuilder>,
    /// Memory of both, in bytes.
    pub(crate) share: usize,
    /// Number of keys so far, and total bytes of their strings.
    count: u64,
    text_bytes: u64,
}

impl KeyAndLabelBuilder {
    pub(crate) fn new(
        key: Option<IndexedKeyColumn>,
        labels: Option<LabelColumnsBuilder>,
        share: usize,
    ) -> Self {
        Self { key, labels, share, count: 0, text_bytes: 0 }
    }

    /// Adds vertices, whose keys are already cast to the key type. Returns true if they fit.
    pub(crate) fn take_in(
        &mut self,
        input: &InputColumns,
        batch: &RecordBatch,
        keys: Option<&ArrayRef>,
        first_row: u64,
    ) -> Result<bool> {
        let labels_bytes = match &mut self.labels {
            Some(labels) => {
                labels.push(input, batch, first_row)?;
                labels.memory()
            }
            None => 0,
        };
        if labels_bytes > self.share {
            let reason = format!(
                "the labels take {}: are they labels? If so, raise the memory",
                ByteSize::bytes(labels_bytes as u64)
            );
            return Err(unwritable(input.of(), reason));
        }

        self.count(keys);
        let Some((key, keys)) = self.key.as_mut().zip(keys) else { return Ok(true) };
        match key.keys.insert(keys, self.share - labels_bytes) {
            Ok(()) => Ok(true),
            Err(KeyInsertError::TooLarge) => Ok(false),
            Err(KeyInsertError::Null { row }) => {
                let column = key.column.name();
                let row = first_row + row as u64;
                Err(unwritable(input.of(), format!("column {column}: the key of row {row} is null")))
            }
            Err(KeyInsertError::Repeated { row, earlier }) => {
                let shown = ArrayFormatter::try_new(keys.as_ref(), &FormatOptions::default());
                let shown = shown.map_or_else(|_| String::new(), |shown| shown.value(row).to_string());
                let column = key.column.name();
                let row = first_row + row as u64;
                let reason =
                    format!("column {column}: the key {shown} of row {row} is that of row {earlier} too");
                Err(unwritable(input.of(), reason))
            }
        }
    }

    /// Counts keys, including those that did not fit.
    pub(crate) fn count(&mut self, keys: Option<&ArrayRef>) {
        self.count += keys.map_or(0, |keys| keys.len() as u64);
        self.text_bytes += keys.map_or(0, |keys| text_bytes(keys.as_ref()));
    }

    /// Returns the error for keys that do not fit, once all of them have been counted.
    pub(crate) fn too_large(&self, input: &InputColumns, memory: ByteSize) -> Error {
        let needed = |key: &IndexedKeyColumn| key.keys.needed(self.count, self.text_bytes);
        // The hash table is copied when it grows.
        let needed = self.key.as_ref().map_or(0, needed).saturating_mul(2);
        let count = self.count;
        let needed = ByteSize::mib(needed.div_ceil(1 << 20));
        let reason = format!(
            "its {count} keys need {needed} in memory, and all keys may take three quarters of {memory}: raise the \
             memory, or say that the column is primary only and give edges by index"
        );
        unwritable(input.of(), reason)
    }
}
