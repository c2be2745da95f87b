//! Derives scans of fewer columns, rows and row groups from a planned one, without I/O.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use stylobate_storage::BytesBySource;

use super::plan::{PlannedRowGroup, PlannedScanFile, Scan, ScanPlan};
use crate::{
    Error, Predicate, Result,
    predicate::BoundPredicate,
    table::{FileColumn, OutputColumn},
};

impl Scan {
    /// Returns a scan of these columns, by position in this scan's schema, and of at most `limit` of the rows that
    /// also pass `filter`. It reads the same versions, and prunes row groups by statistics that are in memory. Its
    /// schema has no schema-level metadata.
    ///
    /// Fails if a column is unknown or the filter does not fit.
    pub fn select(&self, columns: &[usize], filter: Option<Predicate>, limit: Option<u64>) -> Result<Self> {
        let planned = &self.inner;
        let output =
            |column: &usize| planned.outputs.get(*column).cloned().ok_or_else(|| self.no_column(*column));
        let outputs = columns.iter().map(output).collect::<Result<Vec<_>>>()?;

        let predicate = match (planned.predicate.clone(), filter) {
            (Some(own), Some(more)) => Some(own.and(more)),
            (own, more) => own.or(more),
        };
        let bound = predicate.as_ref().map(|predicate| planned.table.bind(predicate)).transpose()?;

        let fields: Vec<_> = outputs.iter().map(|output| output.field.clone()).collect();
        let columns = predicate.as_ref().map(Predicate::columns).unwrap_or_default();
        let mut selected = ScanPlan {
            schema: Arc::new(Schema::new(fields)),
            relevant: planned.table.relevant(&outputs, columns),
            predicate,
            ..planned.without_files(outputs, bound)
        };
        for (file, row_groups) in planned.row_groups_by_file() {
            selected.add_row_groups(file.clone(), row_groups)?;
        }

        selected.limit = planned.limit.into_iter().chain(limit).min();
        selected.keep_to_limit();
        Ok(Self { inner: Arc::new(selected) })
    }

    /// Returns a scan of some of the row groups, by position among those of this scan, in this order. Unknown positions
    /// are ignored.
    pub fn with_row_groups(&self, positions: impl IntoIterator<Item = usize>) -> Self {
        let mut selected = self.inner.as_ref().clone();
        selected.row_groups =
            positions.into_iter().filter_map(|at| self.inner.row_groups.get(at).copied()).collect();
        Self { inner: Arc::new(selected) }
    }

    /// Returns the same scan, with the bytes of its column reads counted in `by_source`. Columns that are already
    /// decoded in memory need no reads.
    pub fn counted_in(&self, by_source: &Arc<BytesBySource>) -> Self {
        let mut counted = self.inner.as_ref().clone();
        for file in &mut counted.files {
            file.object = file.object.clone().counted_in(by_source.clone());
        }
        Self { inner: Arc::new(counted) }
    }

    /// Divides the number of decode threads by the number of concurrent scans. At least one thread is left.
    pub fn with_threads_divided(&self, scans: usize) -> Self {
        let mut changed = self.inner.as_ref().clone();
        changed.threads = (changed.threads / scans.max(1)).max(1);
        Self { inner: Arc::new(changed) }
    }

    /// Sets the maximum rows of a batch, from 1 to 65,536.
    pub fn with_batch_rows(&self, batch_rows: usize) -> Self {
        let mut changed = self.inner.as_ref().clone();
        changed.batch_rows = batch_rows.clamp(1, super::request::MAX_BATCH_ROWS);
        Self { inner: Arc::new(changed) }
    }

    /// Returns the same scan with these columns, by position in its schema, as dictionaries with 32-bit keys; `None` if
    /// one has neither strings nor numbers, or if some row group does not store it as a dictionary of its type.
    pub fn with_dictionaries(&self, columns: &[usize]) -> Option<Self> {
        let mut changed = self.inner.as_ref().clone();
        let mut fields = changed.schema.fields().to_vec();
        for column in columns {
            let output = changed.outputs.get_mut(*column)?;
            let values = match &output.values {
                DataType::Utf8View => DataType::Utf8,
                other => other.clone(),
            };
            let is_supported = values == DataType::Utf8 || values.is_integer() || values.is_decimal();
            if !is_supported || !self.is_stored_coded(*column, &values) {
                return None;
            }

            let coded = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values.clone()));
            output.field = Arc::new(output.field.as_ref().clone().with_data_type(coded));
            output.values = values;
            output.insist = true;
            *fields.get_mut(*column)? = output.field.clone();
        }
        changed.schema = Arc::new(Schema::new_with_metadata(fields, changed.schema.metadata().clone()));
        Some(Self { inner: Arc::new(changed) })
    }

    /// Returns whether all row groups store a column as a dictionary of values of this type.
    fn is_stored_coded(&self, column: usize, values: &DataType) -> bool {
        self.inner.row_groups.iter().all(|row_group| {
            let Some(file) = self.inner.files.get(row_group.file) else { return false };
            let Some(FileColumn::Read(projected)) = file.outputs.get(column) else { return false };
            let field = file.metadata.schema().fields().get(projected.root);
            field.is_some_and(|field| field.data_type() == values)
                && file.metadata.is_known_dictionary(row_group.index, projected)
        })
    }

    /// Returns the number of rows in each row group.
    pub fn row_group_rows(&self) -> Vec<u64> {
        self.inner.row_groups.iter().map(|row_group| row_group.rows).collect()
    }

    fn no_column(&self, column: usize) -> Error {
        let names: Vec<&str> = self.inner.schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::NoSuchColumn { column: column.to_string(), available: names.join(", ") }
    }
}

impl ScanPlan {
    /// Copies the plan without its files.
    fn without_files(&self, outputs: Vec<OutputColumn>, filter: Option<BoundPredicate>) -> Self {
        Self {
            cache: self.cache.clone(),
            schema: self.schema.clone(),
            outputs,
            predicate: self.predicate.clone(),
            filtered: filter.as_ref().map(|filter| self.table.filtered(filter)).unwrap_or_default(),
            filter,
            is_optional: false,
            table: self.table.clone(),
            relevant: self.relevant.clone(),
            files: Vec::new(),
            row_groups: Vec::new(),
            limit: self.limit,
            batch_rows: self.batch_rows,
            long_batches: self.long_batches,
            threads: self.threads,
            codes: self.codes,
        }
    }

    /// Returns the row groups by file, in order: a file occurs once for each run of consecutive row groups.
    pub(super) fn row_groups_by_file(&self) -> Vec<(&PlannedScanFile, Vec<usize>)> {
        let mut by_file: Vec<(usize, &PlannedScanFile, Vec<usize>)> = Vec::new();
        for row_group in &self.row_groups {
            match by_file.last_mut() {
                Some((file, _, row_groups)) if *file == row_group.file => row_groups.push(row_group.index),
                _ => by_file.extend(
                    self.files.get(row_group.file).map(|file| (row_group.file, file, vec![row_group.index])),
                ),
            }
        }
        by_file.into_iter().map(|(_, file, row_groups)| (file, row_groups)).collect()
    }

    /// Plans one row group with `filter` in place of the plan's own filter. The rows that only `filter` drops must be
    /// dispensable. `None` if statistics rule the row group out.
    pub(super) fn refiltered(
        &self,
        row_group: PlannedRowGroup,
        filter: &BoundPredicate,
    ) -> Result<Option<(Arc<Self>, PlannedRowGroup)>> {
        let mut single = self.without_files(self.outputs.clone(), Some(filter.clone()));
        single.is_optional = self.predicate.is_none();
        if let Some(file) = self.files.get(row_group.file) {
            single.add_row_groups(file.clone(), vec![row_group.index])?;
        }
        let left = single.row_groups.first().copied();
        Ok(left.map(|row_group| (Arc::new(single), row_group)))
    }
}
