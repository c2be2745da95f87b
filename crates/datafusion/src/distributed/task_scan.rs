//! The scan of one task, as it arrives at a worker: its files are opened when its first batch is requested.

use std::{
    any::Any,
    fmt::{self, Formatter},
    sync::Arc,
};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    common::{Result, Statistics, config::ConfigOptions, tree_node::TreeNodeRecursion},
    datasource::source::{DataSource, OpenArgs},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr, projection::ProjectionExprs},
    physical_plan::{
        DisplayFormatType, Partitioning,
        execution_plan::SchedulingType,
        filter_pushdown::{FilterPushdownPropagation, PushedDown},
        metrics::ExecutionPlanMetricsSet,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use stylobate_columnar::{Cache, Dictionaries, ScanPart, ScanRequest, Source, Strings};
use tokio::sync::OnceCell;

use crate::{
    error::{Result as SourceResult, external, for_other_nodes},
    tables::{
        path_partitions::hash_partitioning,
        scanned::ScannedTable,
        source::{PushedFilter, ScanSource},
    },
};

/// The tables that a worker may read, by source name.
pub trait TableSources: fmt::Debug + Send + Sync + 'static {
    /// Returns the source with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Query`](crate::Error::Query) if this worker does not have it.
    fn source(&self, name: &str) -> SourceResult<Source>;
}

/// Sources named by paths and URLs. All workers that read them need the same folders, or the same access to the
/// stores.
#[derive(Clone, Debug, Default)]
pub struct UrlSources {
    options: Vec<(String, String)>,
}

impl UrlSources {
    /// Creates the sources, with options for the stores of URLs.
    pub fn new(options: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { options: options.into_iter().collect() }
    }
}

impl TableSources for UrlSources {
    fn source(&self, name: &str) -> SourceResult<Source> {
        Ok(Source::Url { url: name.to_owned(), options: self.options.clone() })
    }
}

/// Context in which a worker opens scans.
#[derive(Clone, Debug)]
pub(super) struct ScanOpener {
    pub(super) cache: Cache,
    pub(super) sources: Arc<dyn TableSources>,
    pub(super) threads: usize,
}

/// Description of the scan of a task, sent by the coordinator.
#[derive(Clone, Debug)]
pub(super) struct TaskScanSpec {
    pub(super) source_names: Vec<String>,
    /// The row groups, with the columns that the scan needs.
    pub(super) part: ScanPart,
    /// The schema of those columns.
    pub(super) table: SchemaRef,
    /// Output columns, as indices into those columns.
    pub(super) columns: Vec<usize>,
    /// Filters on the columns of `table`.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Dynamic filters, which change while the scan runs.
    pub(super) moving: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) limit: Option<usize>,
    pub(super) partitions: usize,
    pub(super) batch_rows: usize,
    /// Position of the output column whose hash determines the partition of a row group, if any.
    pub(super) partition_column: Option<usize>,
}

/// The scan of one task. Its partitions share its row groups, unless values determine the partition.
#[derive(Clone, Debug)]
pub(super) struct TaskScan {
    spec: Arc<TaskScanSpec>,
    opener: ScanOpener,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
}

/// An opened scan, and the row groups that its partitions share.
type OpenedTaskScan = (ScanSource, Option<Arc<dyn Any + Send + Sync>>);

/// The opened scan shared by the partitions.
#[derive(Debug, Default)]
struct SharedTaskScan {
    opened: OnceCell<OpenedTaskScan>,
}

impl TaskScan {
    pub(super) fn new(spec: TaskScanSpec, opener: ScanOpener) -> Result<Self> {
        let schema = Arc::new(spec.table.project(&spec.columns)?);
        Ok(Self { spec: Arc::new(spec), opener, schema, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// Opens the files in the versions of the plan.
    async fn open_scan(&self) -> Result<ScanSource> {
        let spec = &self.spec;
        // A task that reads nothing may also run where its files are unknown.
        let names = if spec.part.is_empty() { &[] } else { spec.source_names.as_slice() };
        let sources = names.iter().map(|name| self.opener.sources.source(name));
        let sources = sources.collect::<SourceResult<Vec<_>>>();
        let sources = sources.map_err(|error| DataFusionError::Execution(error.to_string()))?;

        let request = ScanRequest::over(sources)
            .with_strings(Strings::View)
            .with_dictionary(Dictionaries::None)
            .with_threads(self.opener.threads)
            .with_part(spec.part.clone());
        let scan = request.plan(&self.opener.cache).await.map_err(external)?;
        let table = Arc::new(ScannedTable::new(scan));

        let mut filters = Vec::with_capacity(spec.filters.len());
        for expr in &spec.filters {
            let unknown = || {
                let reason = format!("the filter {expr} is not known here: run one version on all nodes");
                DataFusionError::Execution(reason)
            };
            filters.push(PushedFilter::of(expr.clone(), table.schema()).ok_or_else(unknown)?);
        }

        let columns = spec.columns.clone();
        let source =
            ScanSource::try_new(table, columns, filters, spec.limit, spec.partitions, spec.batch_rows)?;
        let partition_column = spec.partition_column.and_then(|position| spec.columns.get(position).copied());
        Ok(source.for_task(spec.partitions, partition_column, spec.moving.clone(), self.metrics.clone()))
    }

    async fn open_shared(&self, context: &TaskContext) -> Result<OpenedTaskScan> {
        let source = self.open_scan().await?;
        let row_groups = source.create_sibling_state(context.session_config().options());
        Ok((source, row_groups))
    }
}

impl DataSource for TaskScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let scan = self.clone();
        let OpenArgs { partition, context, sibling_state } = args;
        let shared = sibling_state.and_then(|state| state.downcast::<SharedTaskScan>().ok());

        let opened = async move {
            let open = || scan.open_shared(&context);
            let (source, row_groups) = match &shared {
                Some(shared) => shared.opened.get_or_try_init(open).await?.clone(),
                // Partitions that are not linked have separate shares of the row groups.
                None => (scan.open_scan().await?, None),
            };
            source.open_with_args(OpenArgs::new(partition, context.clone()).with_shared_state(row_groups))
        };
        let batches = stream::once(opened).try_flatten().map_err(for_other_nodes);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }

    fn create_sibling_state(&self, _config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(SharedTaskScan::default()))
    }

    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "sources=[{}], projection=[{}]", self.spec.source_names.join(", "), names.join(", "))
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn output_partitioning(&self) -> Partitioning {
        hash_partitioning(&self.schema, self.spec.partition_column, self.spec.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(self.schema.clone())
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn with_fetch(&self, _limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        self.spec.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        _projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    /// Accepts no filters: they were pushed down before the plan was divided.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let answers = vec![PushedDown::No; filters.len()];
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.spec.filters.iter().chain(&self.spec.moving) {
            if visit(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Returns the schema of a part's columns.
pub(super) fn part_schema(part: &ScanPart) -> SchemaRef {
    Arc::new(Schema::new(part.schema().fields().clone()))
}
