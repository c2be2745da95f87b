//! Files as a table: the state shared by all scans of them.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    common::{ColumnStatistics, Statistics},
};
use parking_lot::Mutex;
use stylobate_columnar::Scan;

use super::statistics::{column_statistics, scan_statistics};

/// The planned scan of all columns and rows of a table.
#[derive(Debug)]
pub(crate) struct ScannedTable {
    scan: Scan,
    schema: SchemaRef,
    /// Names of the sources, by which other nodes open the same files; `None` if only this process can.
    source_names: Option<Vec<String>>,
    columns: Mutex<HashMap<usize, ColumnStatistics>>,
}

impl ScannedTable {
    pub(crate) fn new(scan: Scan) -> Self {
        // Metadata of files is not part of a table's type.
        let schema = Arc::new(Schema::new(scan.schema().fields().clone()));
        Self { scan, schema, source_names: None, columns: Mutex::default() }
    }

    /// Returns the same table with names for its sources, in the order of the request.
    pub(crate) fn with_source_names(&self, names: Vec<String>) -> Self {
        Self { source_names: Some(names), ..Self::new(self.scan.clone()) }
    }

    /// Returns the names of the sources, if other nodes can open them.
    pub(crate) fn source_names(&self) -> Option<&[String]> {
        self.source_names.as_deref()
    }

    pub(crate) fn scan(&self) -> &Scan {
        &self.scan
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the scan's own row limit, if any.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.scan.limit().map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// Returns the statistics of all rows before the limit, including those of the wanted columns, which are read
    /// from the footers once. They are exact if the scan has no filter, or if all rows of its row groups pass.
    pub(crate) fn statistics(&self, is_wanted: impl Fn(usize) -> bool) -> Statistics {
        let statistics = scan_statistics(&self.scan, &self.schema, |column| {
            if !is_wanted(column) {
                return None;
            }
            let mut columns = self.columns.lock();
            let known = columns.entry(column);
            Some(known.or_insert_with(|| column_statistics(&self.scan, &self.schema, column)).clone())
        });
        if self.scan.known_rows().is_some() { statistics } else { statistics.to_inexact() }
    }
}
