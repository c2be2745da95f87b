//! The table provider for DataFusion's catalogs: plans scans of Parquet and ORC files.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::Session,
    common::{DFSchema, Result, Statistics},
    datasource::{TableProvider, TableType, source::DataSourceExec},
    execution::context::ExecutionProps,
    logical_expr::{
        Expr, TableProviderFilterPushDown, expr_rewriter::unnormalize_col,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_expr::{PhysicalExpr, create_physical_expr},
    physical_plan::ExecutionPlan,
};
use stylobate_columnar::{Cache, Dictionaries, Scan, ScanRequest, Strings};

use super::{
    scanned::ScannedTable,
    source::{PushedFilter, ScanSource},
};
use crate::error::Result as OpenResult;

/// A table of Parquet and ORC files. It reads the file versions that it was opened with.
///
/// Filters prune row groups and are evaluated on dictionary codes. Those that a scan evaluates exactly as DataFusion
/// would are not evaluated again.
#[derive(Debug)]
pub struct ScanTable {
    table: Arc<ScannedTable>,
}

impl ScanTable {
    /// Finds the files of a request and reads their footers. Strings become views into the files' dictionaries, and
    /// no column is dictionary-encoded: DataFusion groups and joins views faster.
    ///
    /// # Errors
    ///
    /// See [`ScanRequest::plan`].
    #[boxed]
    pub async fn open(request: ScanRequest, cache: &Cache) -> OpenResult<Self> {
        let request = request.with_strings(Strings::View).with_dictionary(Dictionaries::None);
        Ok(Self::of(request.plan(cache).await?))
    }

    /// Creates a table of the columns and rows of a scan, with the types that it was planned with. If the scan has a
    /// limit, filters are not pushed into it: they apply to its first rows.
    pub fn of(scan: Scan) -> Self {
        Self { table: Arc::new(ScannedTable::new(scan)) }
    }

    /// Returns the columns.
    pub fn arrow_schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    /// Names the sources of the table, in the order of the request: other nodes of a cluster open the same files by
    /// these names, with default request options. Default: no names, so that only this process reads the table.
    pub fn with_source_names(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { table: Arc::new(self.table.with_source_names(names.into_iter().collect())) }
    }

    /// Returns the names of the table's sources, if any.
    pub fn source_names(&self) -> Option<&[String]> {
        self.table.source_names()
    }

    /// Translates a filter on this table; `None` if it implies nothing for a scan.
    fn pushed(&self, filter: &Expr) -> Option<PushedFilter> {
        let filter = unnormalize_col(filter.clone());
        let schema = DFSchema::try_from(self.table.schema().as_ref().clone()).ok()?;
        let properties = ExecutionProps::new();
        let context = PhysicalPlanningContext::default();
        let expr: Arc<dyn PhysicalExpr> =
            create_physical_expr(&filter, &schema, &properties, &context).ok()?;
        PushedFilter::of(expr, self.table.schema())
    }
}

#[async_trait]
impl TableProvider for ScanTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.pushed(filter) {
            _ if self.table.limit().is_some() => TableProviderFilterPushDown::Unsupported,
            Some(pushed) if pushed.is_exact() => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.table.schema().fields().len()).collect(),
        };
        let filters: Vec<PushedFilter> = filters.iter().filter_map(|filter| self.pushed(filter)).collect();
        let limit = limit.filter(|_| filters.iter().all(PushedFilter::is_exact));
        let limit = limit.into_iter().chain(self.table.limit()).min();

        // Several partitions would share the limit, but not return the first rows.
        let partitions = if self.table.limit().is_some() { 1 } else { state.config().target_partitions() };
        let batch_rows = state.config().batch_size();
        let source =
            ScanSource::try_new(self.table.clone(), columns, filters, limit, partitions, batch_rows)?;
        Ok(DataSourceExec::from_data_source(source))
    }

    fn statistics(&self) -> Option<Statistics> {
        self.table.statistics(|_| true).with_fetch(self.table.limit(), 0, 1).ok()
    }
}
