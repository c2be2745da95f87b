//! A scan as a source in DataFusion's plans: projections, filters and limits are pushed into it, and its partitions
//! share its row groups.

use std::{
    any::Any,
    collections::HashSet,
    fmt::{self, Formatter},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use datafusion::{
    arrow::{
        compute::{SortOptions, sort_to_indices},
        datatypes::SchemaRef,
    },
    common::{
        Result, Statistics, config::ConfigOptions, internal_datafusion_err, stats::Precision,
        tree_node::TreeNodeRecursion,
    },
    datasource::source::{DataSource, OpenArgs},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        EquivalenceProperties, PhysicalExpr, PhysicalSortExpr,
        expressions::Column as ColumnExpr,
        projection::ProjectionExprs,
        utils::{collect_columns, reassign_expr_columns},
    },
    physical_plan::{
        DisplayFormatType, Partitioning, SortOrderPushdownResult,
        coop::cooperative,
        execution_plan::SchedulingType,
        filter_pushdown::{FilterPushdownPropagation, PushedDown},
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder},
        projection::{all_alias_free_columns, new_projections_for_columns},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;
use stylobate_columnar::{Predicate, Scan, ScanQueue};
use stylobate_storage::BytesBySource;

#[cfg(feature = "distributed")]
use super::path_partitions::has_distinct;
use super::{
    compaction::{AreHeld, compacted},
    moving::{is_moving, moving_filter},
    path_partitions::{hash_partitioning, hash_partitions},
    scanned::ScannedTable,
    statistics::{column_statistics, filtered_statistics, projected_statistics, scan_statistics},
};
use crate::{
    error::external,
    predicate::{PushedPredicate, translate},
};

/// Maximum number of files named in a plan's display.
const MAX_DISPLAYED_FILES: usize = 3;

/// A scan of some columns and rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct ScanSource {
    pub(crate) table: Arc<ScannedTable>,
    /// Indices of the columns in the table.
    pub(crate) columns: Vec<usize>,
    /// Indices in the table of the columns that are returned as dictionaries.
    coded: Vec<usize>,
    schema: SchemaRef,
    pub(crate) filters: Vec<PushedFilter>,
    /// Dynamic filters on the columns of the table, which change while the scan runs.
    pub(crate) moving: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) limit: Option<usize>,
    order: Option<RowGroupOrder>,
    pub(crate) partitions: usize,
    /// Index in the table of the column whose hash determines the partition of a row group, if any.
    pub(crate) partition_column: Option<usize>,
    pub(crate) batch_rows: usize,
    pub(crate) scan: Scan,
    /// Set if operators hold the batches.
    pub(crate) are_held: AreHeld,
    statistics: Arc<OnceLock<Statistics>>,
    metrics: ExecutionPlanMetricsSet,
}

/// The order of row groups that benefits a sort above: by the bounds of a column of the table.
#[derive(Clone, Copy, Debug)]
struct RowGroupOrder {
    column: usize,
    descending: bool,
}

/// An expression on the columns of the table, and its translation.
#[derive(Clone, Debug)]
pub(crate) struct PushedFilter {
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    pushed: PushedPredicate,
}

impl PushedFilter {
    /// Translates an expression on the columns of the table; `None` if it implies no predicate.
    pub(crate) fn of(expr: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Self> {
        let pushed = translate(&expr, schema)?;
        Some(Self { expr, pushed })
    }

    /// Returns whether the scan returns only rows for which the expression is true.
    pub(crate) fn is_exact(&self) -> bool {
        self.pushed.is_exact()
    }
}

/// Combines the translations of some filters with AND; `None` if there are none.
fn conjunction(filters: &[PushedFilter], is_wanted: impl Fn(&PushedFilter) -> bool) -> Option<Predicate> {
    let wanted = filters.iter().filter(|filter| is_wanted(filter));
    wanted.map(|filter| filter.pushed.predicate.clone()).reduce(Predicate::and)
}

/// The row groups that partitions share, and the totals already counted in metrics.
#[derive(Debug)]
struct SharedRowGroups {
    queue: ScanQueue,
    bytes: Arc<BytesBySource>,
    counted: [AtomicU64; SHARED_METRICS.len()],
}

/// The metrics that partitions share: row groups, and the bytes read for them. Columns that are decoded in memory
/// need no bytes.
const SHARED_METRICS: [&str; 6] = [
    "row_groups_read",
    "row_groups_pruned",
    "bytes_from_memory",
    "bytes_from_disk",
    "bytes_from_peers",
    "bytes_from_origin",
];

impl SharedRowGroups {
    /// Returns the values of [`SHARED_METRICS`].
    fn totals(&self) -> [u64; SHARED_METRICS.len()] {
        let Self { queue, bytes, .. } = self;
        [queue.taken(), queue.pruned(), bytes.memory(), bytes.disk(), bytes.peer(), bytes.origin()]
    }
}

/// Adds the shared totals to metrics, attributing each increment to one partition.
struct SharedMetrics {
    shared: Arc<SharedRowGroups>,
    counts: [Count; SHARED_METRICS.len()],
}

impl SharedMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, shared: Arc<SharedRowGroups>) -> Self {
        let counts = SHARED_METRICS.map(|name| MetricBuilder::new(metrics).counter(name, partition));
        Self { shared, counts }
    }

    /// Adds the increments that no partition has counted yet.
    fn record(&self) {
        let shared = &self.shared;
        for ((count, total), counted) in self.counts.iter().zip(shared.totals()).zip(&shared.counted) {
            let before = counted.fetch_max(total, Ordering::Relaxed);
            count.add(usize::try_from(total.saturating_sub(before)).unwrap_or(usize::MAX));
        }
    }
}

impl Drop for SharedMetrics {
    fn drop(&mut self) {
        self.record();
    }
}

impl ScanSource {
    /// Plans a scan of these columns, by index in the table, in at most `partitions` partitions.
    pub(crate) fn try_new(
        table: Arc<ScannedTable>,
        columns: Vec<usize>,
        filters: Vec<PushedFilter>,
        limit: Option<usize>,
        partitions: usize,
        batch_rows: usize,
    ) -> Result<Self> {
        let schema = Arc::new(table.schema().project(&columns)?);
        let scan = table.scan().clone();
        let moving = Vec::new();
        let metrics = ExecutionPlanMetricsSet::new();
        let source = Self {
            table,
            columns,
            coded: Vec::new(),
            schema,
            filters,
            moving,
            limit,
            order: None,
            partitions: 1,
            partition_column: None,
            batch_rows,
            scan,
            are_held: AreHeld::default(),
            statistics: Arc::default(),
            metrics,
        };
        let mut source = source.planned()?;
        source.partitions = source.scan.row_group_count().clamp(1, partitions.max(1));
        Ok(source)
    }

    /// Plans the scan again after a change.
    fn planned(mut self) -> Result<Self> {
        let condition = conjunction(&self.filters, |_| true);
        let limit = self.limit.map(|limit| limit as u64);
        let selected = self.table.scan().select(&self.columns, condition, limit).map_err(external)?;
        self.scan = selected.with_batch_rows(self.batch_rows);
        self.statistics = Arc::default();
        if !self.coded.is_empty() {
            self.scan = self.scan.with_dictionaries(&self.coded_positions()).unwrap_or(self.scan);
            self.schema = self.scan.schema().clone();
        }
        if let Some(order) = self.order {
            self.scan = self.ordered(order).unwrap_or(self.scan);
        }
        Ok(self)
    }

    /// Returns the same scan with these columns, by position, as dictionaries with 32-bit keys; `None` if one has
    /// neither strings nor numbers, or if some row group does not store it as a dictionary.
    pub(crate) fn with_dictionaries(&self, columns: &[usize]) -> Option<Self> {
        let scan = self.scan.with_dictionaries(columns)?;
        let mut coded = self.coded.clone();
        coded.extend(columns.iter().filter_map(|column| self.columns.get(*column)));
        Some(Self {
            coded,
            schema: scan.schema().clone(),
            scan,
            statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }

    /// Returns the positions of the columns that are returned as dictionaries.
    fn coded_positions(&self) -> Vec<usize> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| self.coded.contains(column)).map(|(at, _)| at).collect()
    }

    /// Orders row groups so that the rows that a sort needs first come first; row groups without bounds come last.
    /// `None` if there are no bounds.
    fn ordered(&self, order: RowGroupOrder) -> Option<Scan> {
        let column = self.columns.iter().position(|column| *column == order.column)?;
        let bounds = self.scan.column_bounds(column)?;
        let keys = if order.descending { bounds.max } else { bounds.min }?;
        let options = SortOptions { descending: order.descending, nulls_first: false };
        let positions = sort_to_indices(&keys, Some(options), None).ok()?;
        Some(self.scan.with_row_groups(positions.values().iter().map(|position| *position as usize)))
    }

    /// Returns the scan of some row groups, by index, in `partitions` partitions.
    #[cfg(feature = "distributed")]
    pub(crate) fn with_row_groups(&self, positions: Vec<usize>, partitions: usize) -> Self {
        Self {
            scan: self.scan.with_row_groups(positions),
            partitions,
            statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// Returns the scan of a task, whose batches are sent to other nodes, with exactly this number of partitions, which
    /// the hash of a column of the table may determine, and with these dynamic filters and metrics.
    #[cfg(feature = "distributed")]
    pub(crate) fn for_task(
        self,
        partitions: usize,
        partition_column: Option<usize>,
        moving: Vec<Arc<dyn PhysicalExpr>>,
        metrics: ExecutionPlanMetricsSet,
    ) -> Self {
        self.are_held.set();
        Self { partitions, partition_column, moving, metrics, ..self }
    }

    /// Rewrites an expression on the output to one on the table; `None` if it references other columns.
    fn on_table(&self, expr: Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        reassign_expr_columns(expr, self.table.schema()).ok()
    }

    /// Returns the same scan with its row groups assigned to partitions by the value of an output column, by position;
    /// `None` if paths do not determine the column, or if it has fewer than `min_values` distinct values.
    ///
    /// # Errors
    ///
    /// If the path of a file has a value of another type.
    #[cfg(feature = "distributed")]
    pub(crate) fn partitioned_by(&self, position: usize, min_values: usize) -> Result<Option<Self>> {
        let Some(values) = self.scan.path_values(position).map_err(external)? else { return Ok(None) };
        if !has_distinct(&values, min_values)? {
            return Ok(None);
        }

        let column = self.columns.get(position).copied();
        Ok(column.map(|column| Self { partition_column: Some(column), ..self.clone() }))
    }

    /// Returns the output position of the column whose hash determines the partition of a row group; `None` if
    /// partitions share the row groups.
    pub(crate) fn partition_column_position(&self) -> Option<usize> {
        self.columns.iter().position(|column| self.partition_column == Some(*column))
    }

    /// Returns the partition of each row group, of `partitions` partitions; `None` if partitions share the row groups.
    ///
    /// # Errors
    ///
    /// If a row group has no value for the whole column, or one of another type.
    pub(crate) fn hash_partitions(&self, partitions: usize) -> Result<Option<Vec<usize>>> {
        let Some(position) = self.partition_column_position() else { return Ok(None) };
        if self.scan.row_group_count() == 0 {
            return Ok(Some(Vec::new()));
        }

        let name = || self.schema.field(position).name().clone();
        let unknown = || internal_datafusion_err!("the paths of files do not determine {}", name());
        let values = self.scan.path_values(position).map_err(external)?.ok_or_else(unknown)?;
        hash_partitions(values, partitions).map(Some)
    }

    /// Returns the row groups of one partition if partitions do not share them, to be read with its share of the
    /// threads.
    fn share(&self, partition: usize) -> Result<Scan> {
        let partitions = match self.hash_partitions(self.partitions)? {
            Some(partitions) => partitions,
            None => (0..self.scan.row_group_count()).map(|position| position % self.partitions).collect(),
        };
        let row_groups = partitions.iter().enumerate().filter(|(_, of)| **of == partition);
        let share = self.scan.with_row_groups(row_groups.map(|(position, _)| position));
        Ok(share.with_threads_divided(self.partitions))
    }

    fn row_groups(&self, scan: &Scan, streams: usize) -> SharedRowGroups {
        let bytes = Arc::new(BytesBySource::default());
        let scan = scan.counted_in(&bytes);
        let queue = ScanQueue::new(&scan, streams, moving_filter(&self.moving, self.table.schema()));
        SharedRowGroups { queue, bytes, counted: Default::default() }
    }

    /// Returns the statistics of the output rows, computed once per plan.
    fn statistics(&self) -> Result<Statistics> {
        if let Some(known) = self.statistics.get() {
            return Ok(known.clone());
        }

        let mut statistics = if self.filters.is_empty() {
            let of_table = self.table.statistics(|column| self.columns.contains(&column));
            projected_statistics(of_table, &self.columns, &self.schema)
        } else if self.scan.known_rows().is_some() {
            // All rows of all remaining row groups pass.
            let of_column = |column| Some(column_statistics(&self.scan, &self.schema, column));
            scan_statistics(&self.scan, &self.schema, of_column)
        } else {
            self.estimated()?
        };
        if self.filters.iter().any(|filter| !filter.is_exact()) || !self.moving.is_empty() {
            statistics = statistics.to_inexact();
        }

        let statistics = statistics.with_fetch(self.limit, 0, 1)?;
        Ok(self.statistics.get_or_init(|| statistics).clone())
    }

    /// Estimates the number of rows that pass the filters. Filters that are applied again above are left to the
    /// estimate there.
    fn estimated(&self) -> Result<Statistics> {
        let exact = self.filters.iter().filter(|filter| filter.is_exact());
        let filters: Vec<Arc<dyn PhysicalExpr>> = exact.map(|filter| filter.expr.clone()).collect();
        let of_filters: HashSet<usize> =
            filters.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        let table =
            self.table.statistics(|column| self.columns.contains(&column) || of_filters.contains(&column));
        let estimated = if filters.is_empty() {
            table.to_inexact()
        } else {
            filtered_statistics(table, self.table.schema(), filters)?
        };
        let mut estimated = projected_statistics(estimated, &self.columns, &self.schema);

        let max_rows = usize::try_from(self.scan.estimated_rows()).unwrap_or(usize::MAX);
        if estimated.num_rows.get_value().is_none_or(|rows| *rows > max_rows) {
            estimated.num_rows = Precision::Inexact(max_rows);
        }
        Ok(estimated)
    }
}

impl DataSource for ScanSource {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let shared = args.sibling_state.and_then(|state| state.downcast::<SharedRowGroups>().ok());
        let shared = match shared {
            Some(shared) => shared,
            None => Arc::new(self.row_groups(&self.share(args.partition)?, 1)),
        };

        let metrics = BaselineMetrics::new(&self.metrics, args.partition);
        let shared_metrics = SharedMetrics::new(&self.metrics, args.partition, shared);
        let stream = shared_metrics.shared.queue.stream();
        let are_held = self.are_held.get();
        let batches = stream.map(move |batch| {
            shared_metrics.record();
            let batch = batch.map_err(external)?;
            metrics.record_output(batch.num_rows());
            if are_held { Ok(compacted(batch)?) } else { Ok(batch) }
        });
        let batches = RecordBatchStreamAdapter::new(self.schema.clone(), batches);
        Ok(Box::pin(cooperative(batches)))
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let shares =
            config.execution.enable_file_stream_work_stealing && self.partition_column_position().is_none();
        shares.then(|| Arc::new(self.row_groups(&self.scan, self.partitions)) as _)
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let end = if matches!(format, DisplayFormatType::TreeRender) { "\n" } else { ", " };
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let files = self.table.scan().files();
        let named = match format {
            DisplayFormatType::Verbose => files.len(),
            DisplayFormatType::Default | DisplayFormatType::TreeRender => MAX_DISPLAYED_FILES,
        };
        let mut shown = files.iter().take(named).map(String::as_str).collect::<Vec<_>>().join(", ");
        if files.len() > named {
            shown = format!("{shown}, … {} more", files.len() - named);
        }

        write!(f, "files=[{shown}]")?;
        write!(f, "{end}row_groups={}/{}", self.scan.row_group_count(), self.table.scan().row_group_count())?;
        write!(f, "{end}projection=[{}]", names.join(", "))?;
        if !self.coded.is_empty() {
            let coded = self.coded_positions().into_iter().filter_map(|at| names.get(at).copied());
            write!(f, "{end}dictionaries=[{}]", coded.collect::<Vec<_>>().join(", "))?;
        }
        if let Some(exact) = conjunction(&self.filters, PushedFilter::is_exact) {
            write!(f, "{end}filter={exact}")?;
        }
        if let Some(implied) = conjunction(&self.filters, |filter| !filter.is_exact()) {
            write!(f, "{end}filter={implied} (inexact)")?;
        }
        if !self.moving.is_empty() {
            let moving = self.moving.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ");
            write!(f, "{end}dynamic_filter={moving}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, "{end}limit={limit}")?;
        }
        if let Some(position) = self.partition_column_position() {
            write!(f, "{end}partitioned_by={}", self.schema.field(position).name())?;
        }
        if let Some(order) = self.order {
            let direction = if order.descending { "DESC" } else { "ASC" };
            write!(f, "{end}row_group_order={} {direction}", self.table.schema().field(order.column).name())?;
        }
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f)?;
        }
        Ok(())
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn output_partitioning(&self) -> Partitioning {
        hash_partitioning(&self.schema, self.partition_column_position(), self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let order = self.scan.sort_order().into_iter().map(|sorted| {
            let name = self.schema.field(sorted.column).name();
            let options = SortOptions { descending: sorted.descending, nulls_first: sorted.nulls_first };
            PhysicalSortExpr::new(Arc::new(ColumnExpr::new(name, sorted.column)), options)
        });
        EquivalenceProperties::new_with_orderings(self.schema.clone(), [order])
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        match partition {
            Some(_) if self.partitions > 1 => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
            _ => Ok(Arc::new(self.statistics()?)),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let limited = Self { limit, ..self.clone() };
        limited.planned().ok().map(|source| Arc::new(source) as _)
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let exprs: Vec<_> = projection.iter().cloned().collect();
        if !all_alias_free_columns(&exprs) {
            return Ok(None);
        }

        let columns = new_projections_for_columns(&exprs, &self.columns);
        let schema = Arc::new(self.table.schema().project(&columns)?);
        let projected = Self { columns, schema, ..self.clone() }.planned()?;
        Ok(Some(Arc::new(projected)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let mut answers = Vec::with_capacity(filters.len());
        let mut source = self.clone();
        source.statistics = Arc::default();

        for filter in filters {
            // A limit counts rows before filters that arrive later.
            let Some(filter) = self.on_table(filter).filter(|_| self.limit.is_none()) else {
                answers.push(PushedDown::No);
                continue;
            };
            if is_moving(&filter) {
                source.moving.push(filter);
                answers.push(PushedDown::No);
                continue;
            }

            let known = source.filters.iter().find(|known| known.expr.as_ref() == filter.as_ref());
            let pushed = match known {
                Some(known) => Some(known.is_exact()),
                None => PushedFilter::of(filter, self.table.schema()).map(|pushed| {
                    let is_exact = pushed.is_exact();
                    source.filters.push(pushed);
                    is_exact
                }),
            };
            answers.push(if pushed == Some(true) { PushedDown::Yes } else { PushedDown::No });
        }

        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if source.filters.len() > self.filters.len() {
            return Ok(propagation.with_updated_node(Arc::new(source.planned()?)));
        }
        if source.moving.len() > self.moving.len() {
            return Ok(propagation.with_updated_node(Arc::new(source)));
        }
        Ok(propagation)
    }

    /// Reads the row groups that a sort with a limit needs before all others. This does not sort the rows.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        let first =
            order.first().and_then(|first| Some((first.expr.downcast_ref::<ColumnExpr>()?, first.options)));
        let ordered = first.filter(|_| self.limit.is_none()).and_then(|(column, options)| {
            let column = *self.columns.get(column.index())?;
            let order = RowGroupOrder { column, descending: options.descending };
            let scan = self.ordered(order)?;
            Some(Self { order: Some(order), scan, ..self.clone() })
        });
        Ok(match ordered {
            Some(source) => SortOrderPushdownResult::Inexact { inner: Arc::new(source) },
            None => SortOrderPushdownResult::Unsupported,
        })
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let filters = self.filters.iter().map(|filter| &filter.expr);
        for expr in filters.chain(&self.moving) {
            if visit(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
