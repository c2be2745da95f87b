//! The plan node of a partial aggregation over a scan, and its stream.

use std::{
    collections::VecDeque,
    fmt::{self, Formatter},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::{
            ArrayRef, Decimal128Array, Int64Array, PrimitiveArray, RecordBatch, RecordBatchOptions,
            UInt64Array,
        },
        buffer::NullBuffer,
        compute::cast,
        datatypes::{DataType, Decimal128Type, Schema, SchemaRef},
    },
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    logical_expr::{EmitTo, GroupsAccumulator},
    physical_expr::{PhysicalExpr, aggregate::AggregateFunctionExpr},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        ReplaceChildrenOptions,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;

use super::{
    groups::CodedGroups,
    integers::{IntegerEvaluator, IntegerExprs},
    sums::{GroupCounts, GroupSums, add_columns},
};

/// Description of a partial aggregation over the columns of its input.
#[derive(Debug)]
pub(super) struct AggregateSpec {
    /// Positions of the key columns: dictionaries of strings.
    pub(super) keys: Vec<usize>,
    pub(super) integers: IntegerExprs,
    /// The distinct values to be summed.
    pub(super) sums: Vec<SummedValue>,
    /// Functions that DataFusion's own accumulators compute.
    pub(super) others: Vec<OtherFunction>,
    /// The state of each aggregate function, in order.
    pub(super) states: Vec<AggregateState>,
    /// Names of the functions, for display.
    pub(super) names: Vec<String>,
}

/// A value to be summed: as a node of the integer expressions, and as DataFusion evaluates it.
#[derive(Debug)]
pub(super) struct SummedValue {
    pub(super) node: usize,
    pub(super) expr: Arc<dyn PhysicalExpr>,
}

/// An aggregate function with its arguments on the columns of the input.
#[derive(Debug)]
pub(super) struct OtherFunction {
    pub(super) function: Arc<AggregateFunctionExpr>,
    pub(super) arguments: Vec<Arc<dyn PhysicalExpr>>,
}

/// The source of the state columns of an aggregate function.
#[derive(Clone, Debug)]
pub(super) enum AggregateState {
    /// The number of rows.
    Rows,
    /// The number of rows whose value is not null: position in [`AggregateSpec::sums`].
    Count(usize),
    /// A sum, by position in [`AggregateSpec::sums`].
    Sum { of: usize, data_type: DataType },
    /// A count and a sum.
    Average { of: usize, data_type: DataType },
    /// All columns of a function, by position in [`AggregateSpec::others`].
    Other(usize),
}

/// Aggregates the rows of each partition of a scan. See the module's documentation.
#[derive(Debug)]
pub(super) struct ScanAggregateExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<AggregateSpec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanAggregateExec {
    /// Creates a node with the properties of the aggregation that it replaces.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        spec: Arc<AggregateSpec>,
        properties: Arc<PlanProperties>,
    ) -> Self {
        Self { input, spec, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ScanAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let input = self.input.schema();
        let keys = self.spec.keys.iter().filter_map(|key| input.fields().get(*key));
        let keys: Vec<&str> = keys.map(|field| field.name().as_str()).collect();
        let keys = keys.join(", ");
        let names = self.spec.names.join(", ");
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "gby={keys}\naggr={names}"),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "{}: gby=[{keys}], aggr=[{names}]", self.name())
            }
        }
    }
}

impl ExecutionPlan for ScanAggregateExec {
    fn name(&self) -> &'static str {
        "ScanAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let sums = self.spec.sums.iter().map(|sum| &sum.expr);
        let others = self.spec.others.iter().flat_map(|other| &other.arguments);
        for expr in sums.chain(others) {
            if visit(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let child =
            children.pop().filter(|child| children.is_empty() && child.schema() == self.input.schema());
        let Some(input) = child else {
            return Err(DataFusionError::Internal(
                "an aggregation keeps the columns of its input".to_owned(),
            ));
        };
        Ok(Arc::new(Self::new(input, self.spec.clone(), self.properties.clone())))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let consumer = MemoryConsumer::new(format!("{}[{partition}]", self.name()));
        let schema = self.schema();
        let aggregation = AggregationStream {
            input: Some(input),
            partial: GroupStates::new(self.spec.clone(), schema.clone())?,
            ready: VecDeque::new(),
            batch_rows: context.session_config().batch_size(),
            reservation: consumer.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };

        let batches = futures::stream::try_unfold(aggregation, |mut aggregation| async move {
            Ok(aggregation.next().await?.map(|batch| (batch, aggregation)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The running aggregation of one partition.
struct AggregationStream {
    /// `None` after its last batch.
    input: Option<SendableRecordBatchStream>,
    partial: GroupStates,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

impl AggregationStream {
    /// Returns the next batch of groups; `None` after the last one.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch.record_output(&self.metrics)));
            }
            let Some(input) = &mut self.input else { return Ok(None) };

            let elapsed = self.metrics.elapsed_compute().clone();
            match input.next().await {
                Some(batch) => {
                    let batch = batch?;
                    let _timer = elapsed.timer();
                    self.partial.add(&batch)?;
                    // Groups may be returned in several parts: the final aggregation merges them.
                    if self.reservation.try_resize(self.partial.size()).is_err() {
                        self.emit()?;
                    }
                }
                None => {
                    let _timer = elapsed.timer();
                    self.partial.end(&input.schema())?;
                    self.input = None;
                    self.emit()?;
                }
            }
        }
    }

    /// Queues the groups so far as batches, and resets.
    fn emit(&mut self) -> Result<()> {
        let groups = self.partial.take()?;
        let starts = (0..groups.num_rows()).step_by(self.batch_rows.max(1));
        self.ready
            .extend(starts.map(|start| groups.slice(start, self.batch_rows.min(groups.num_rows() - start))));
        self.reservation.free();
        Ok(())
    }
}

/// The groups of one partition and their states.
struct GroupStates {
    spec: Arc<AggregateSpec>,
    schema: SchemaRef,
    groups: CodedGroups,
    evaluator: IntegerEvaluator,
    counts: GroupCounts,
    sums: Vec<GroupSums>,
    others: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of the current batch, for accumulators of DataFusion.
    indices: Vec<usize>,
}

impl GroupStates {
    /// Creates the states of no groups. `schema` is that of the keys and states.
    fn new(spec: Arc<AggregateSpec>, schema: SchemaRef) -> Result<Self> {
        Ok(Self {
            groups: CodedGroups::new(&spec.keys),
            evaluator: IntegerEvaluator::new(spec.integers.clone()),
            counts: GroupCounts::default(),
            sums: spec.sums.iter().map(|_| GroupSums::default()).collect(),
            others: accumulators(&spec)?,
            indices: Vec::new(),
            schema,
            spec,
        })
    }

    /// Returns the memory in use, in bytes.
    fn size(&self) -> usize {
        let sums: usize = self.sums.iter().map(GroupSums::size).sum();
        let others: usize = self.others.iter().map(|other| other.size()).sum();
        let indices = self.indices.capacity() * size_of::<usize>();
        self.groups.size() + self.evaluator.size() + self.counts.size() + indices + sums + others
    }

    /// Adds the rows of a batch to the states of their groups.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.groups.assign(batch)?;
        let count = self.groups.len();
        let rows = self.groups.rows();
        self.counts.resize(count);
        self.counts.add(rows);

        self.evaluator.evaluate(batch);
        let mut expanded = None;
        let mut columns = Vec::with_capacity(self.sums.len());
        for (sum, summed) in self.sums.iter_mut().zip(&self.spec.sums) {
            sum.resize(count);
            if let Some(values) = self.evaluator.values(summed.node, batch.num_rows()) {
                columns.push((sum, values));
                continue;
            }

            let expanded = match &mut expanded {
                Some(expanded) => expanded,
                none => none.insert(with_plain_numbers(batch)?),
            };
            sum.add_array(rows, &summed.expr.evaluate(expanded)?.into_array(batch.num_rows())?);
        }
        add_columns(rows, columns);

        if self.others.is_empty() {
            return Ok(());
        }
        self.indices.clear();
        self.indices.extend(rows.iter().map(|group| *group as usize));
        for (accumulator, other) in self.others.iter_mut().zip(&self.spec.others) {
            let arguments = other.arguments.iter();
            let arguments = arguments.map(|argument| argument.evaluate(batch)?.into_array(batch.num_rows()));
            let arguments: Vec<ArrayRef> = arguments.collect::<Result<_>>()?;
            accumulator.update_batch(&arguments, &self.indices, None, count)?;
        }
        Ok(())
    }

    /// Adds the single group of an aggregation without keys over zero rows.
    fn end(&mut self, input: &SchemaRef) -> Result<()> {
        if self.spec.keys.is_empty() && self.counts.rows.is_empty() {
            self.add(&RecordBatch::new_empty(input.clone()))?;
        }
        Ok(())
    }

    /// Returns the keys and states of all groups, and resets.
    fn take(&mut self) -> Result<RecordBatch> {
        let others = self.others.iter_mut().map(|other| other.state(EmitTo::All));
        let others: Vec<Vec<ArrayRef>> = others.collect::<Result<_>>()?;
        let mut columns = self.groups.take(&self.schema)?;
        for state in &self.spec.states {
            match state {
                AggregateState::Rows => columns.push(Arc::new(Int64Array::from(self.counts.rows.clone()))),
                AggregateState::Count(of) => {
                    columns.push(Arc::new(Int64Array::from(self.non_null_counts(*of))));
                }
                AggregateState::Sum { of, data_type } => columns.push(self.sum(*of, data_type)?),
                AggregateState::Average { of, data_type } => {
                    let counts = self.non_null_counts(*of);
                    let nulls = validity(&counts);
                    let counts = counts.into_iter().map(|count| count as u64).collect::<Vec<_>>();
                    columns.push(Arc::new(UInt64Array::new(counts.into(), nulls)));
                    columns.push(self.sum(*of, data_type)?);
                }
                AggregateState::Other(at) => columns.extend(others.get(*at).into_iter().flatten().cloned()),
            }
        }

        *self = Self::new(self.spec.clone(), self.schema.clone())?;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Returns the number of rows of each group whose value is not null.
    fn non_null_counts(&self, of: usize) -> Vec<i64> {
        let nulls = self.sums.get(of).map(|sum| sum.nulls.as_slice()).unwrap_or_default();
        self.counts.rows.iter().zip(nulls).map(|(rows, nulls)| rows - *nulls as i64).collect()
    }

    /// Returns the sums, null for groups without values.
    fn sum(&self, of: usize, data_type: &DataType) -> Result<ArrayRef> {
        let sums = self.sums.get(of).map(|sum| sum.sums.as_slice()).unwrap_or_default();
        let nulls = validity(&self.non_null_counts(of));
        Ok(match data_type {
            DataType::Int64 => {
                let sums: Vec<i64> = sums.iter().map(|sum| *sum as i64).collect();
                Arc::new(Int64Array::new(sums.into(), nulls))
            }
            _ => {
                let sums: Decimal128Array =
                    PrimitiveArray::<Decimal128Type>::new(sums.to_vec().into(), nulls);
                Arc::new(sums.with_data_type(data_type.clone()))
            }
        })
    }
}

/// Returns a batch with plain numbers in place of dictionaries of numbers, as DataFusion's expressions expect them.
fn with_plain_numbers(batch: &RecordBatch) -> Result<RecordBatch> {
    let plain = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Dictionary(_, values) if values.is_numeric() => cast(column, values),
        _ => Ok(column.clone()),
    });
    let columns: Vec<ArrayRef> = plain.collect::<Result<_, _>>()?;
    let fields = batch
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()))
        .collect::<Vec<_>>();
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)?)
}

/// Creates DataFusion's accumulators of the functions in [`AggregateSpec::others`].
fn accumulators(spec: &AggregateSpec) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
    spec.others.iter().map(|other| other.function.create_groups_accumulator()).collect()
}

/// Returns the validity of groups by their numbers of values; `None` if all have some.
fn validity(counts: &[i64]) -> Option<NullBuffer> {
    let nulls: NullBuffer = counts.iter().map(|count| *count > 0).collect::<Vec<bool>>().into();
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::{
        arrow::{
            array::{AsArray, DictionaryArray},
            datatypes::{Field, Int64Type, UInt32Type},
        },
        execution::memory_pool::{GreedyMemoryPool, MemoryPool},
        physical_expr::expressions::Column,
    };
    use futures::TryStreamExt;

    use super::*;

    fn batch(words: &[&str], numbers: Vec<Option<i64>>) -> RecordBatch {
        let words: DictionaryArray<UInt32Type> = words.iter().copied().collect();
        let columns: [(&str, ArrayRef, bool); 2] =
            [("word", Arc::new(words), true), ("n", Arc::new(Int64Array::from(numbers)), true)];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    fn aggregation(batches: Vec<RecordBatch>, pool: &Arc<dyn MemoryPool>) -> AggregationStream {
        let input = batches[0].schema();
        let mut integers = IntegerExprs::default();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new("n", 1));
        let node = integers.add(&expr, &input).unwrap();
        let sum = AggregateState::Sum { of: 0, data_type: DataType::Int64 };
        let spec = AggregateSpec {
            keys: vec![0],
            integers,
            sums: vec![SummedValue { node, expr }],
            others: Vec::new(),
            states: vec![AggregateState::Rows, sum],
            names: Vec::new(),
        };
        let fields = [("word", DataType::Utf8View), ("count", DataType::Int64), ("sum", DataType::Int64)];
        let fields: Vec<Field> =
            fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
        let stream = futures::stream::iter(batches.into_iter().map(Ok));
        AggregationStream {
            input: Some(Box::pin(RecordBatchStreamAdapter::new(input, stream))),
            partial: GroupStates::new(Arc::new(spec), Arc::new(Schema::new(fields))).unwrap(),
            ready: VecDeque::new(),
            batch_rows: 2,
            reservation: MemoryConsumer::new("test").register(pool),
            metrics: BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0),
        }
    }

    async fn collect(aggregation: AggregationStream) -> Vec<RecordBatch> {
        let batches = futures::stream::try_unfold(aggregation, |mut aggregation| async move {
            Ok::<_, DataFusionError>(aggregation.next().await?.map(|batch| (batch, aggregation)))
        });
        batches.try_collect().await.unwrap()
    }

    /// Returns the rows and the sum of each word, over all batches.
    fn merged(batches: &[RecordBatch]) -> BTreeMap<String, (i64, i64)> {
        let mut merged = BTreeMap::new();
        for batch in batches {
            let words = batch.column(0).as_string_view();
            let counts = batch.column(1).as_primitive::<Int64Type>();
            let sums = batch.column(2).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let entry: &mut (i64, i64) = merged.entry(words.value(row).to_owned()).or_default();
                entry.0 += counts.value(row);
                entry.1 += sums.iter().nth(row).flatten().unwrap_or(0);
            }
        }
        merged
    }

    #[tokio::test]
    async fn groups_are_returned_early_if_there_is_no_memory_for_them() {
        let batches = vec![
            batch(&["a", "b", "a", "c"], vec![Some(1), None, Some(3), Some(4)]),
            batch(&["c", "a"], vec![Some(10), Some(20)]),
            batch(&["d", "d"], vec![None, None]),
        ];
        let expected: BTreeMap<String, (i64, i64)> =
            [("a", (3, 24)), ("b", (1, 0)), ("c", (2, 14)), ("d", (2, 0))]
                .into_iter()
                .map(|(word, sums)| (word.to_owned(), sums))
                .collect();

        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let whole = collect(aggregation(batches.clone(), &pool)).await;
        assert_eq!(whole.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(merged(&whole), expected);
        assert!(whole[1].column(2).is_null(1), "the sum of no values");

        let none: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1));
        let parts = collect(aggregation(batches, &none)).await;
        assert_eq!(parts.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 1, 2, 1]);
        assert_eq!(merged(&parts), expected);
        assert_eq!((pool.reserved(), none.reserved()), (0, 0));
    }
}
