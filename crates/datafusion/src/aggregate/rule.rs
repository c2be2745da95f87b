//! Finds the partial aggregations over scans that can run on codes and integers.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Schema},
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    datasource::source::DataSourceExec,
    functions_aggregate::{average::Avg, count::Count, sum::Sum},
    physical_expr::{
        PhysicalExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{Column, Literal},
        projection::{ProjectionExpr, update_expr},
        utils::collect_columns,
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
        aggregates::{AggregateExec, AggregateMode},
        projection::ProjectionExec,
    },
};

use super::{
    exec::{AggregateSpec, AggregateState, OtherFunction, ScanAggregateExec, SummedValue},
    integers::IntegerExprs,
};
use crate::tables::source::ScanSource;

/// Replaces partial aggregations over scans of this crate's tables: groups are found by dictionary codes, and decimals
/// and integers are summed in 64 bits. Results are the same.
///
/// An aggregation is replaced if its keys are strings that all files store as dictionaries, and if it sums, averages
/// or counts decimals or integers, or has accumulators for groups. Must run after DataFusion's own rules.
#[derive(Debug, Default)]
pub struct AggregateScans;

impl AggregateScans {
    pub(crate) const NAME: &'static str = "aggregate_scans";
}

impl PhysicalOptimizerRule for AggregateScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_down(|node| match replacement(&node)? {
            Some(aggregate) => Ok(Transformed::yes(aggregate)),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the node in place of an aggregation; `None` for all other nodes.
fn replacement(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let is_single = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => aggregate.input().output_partitioning().partition_count() == 1,
        _ => return Ok(None),
    };
    if !is_plain(aggregate) {
        return Ok(None);
    }
    if !is_single {
        return Ok(over_scan(aggregate).map(|partial| Arc::new(partial) as _));
    }

    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        aggregate.input().clone(),
        aggregate.input_schema(),
    )?;
    let Some(partial) = over_scan(&partial) else { return Ok(None) };
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::new(partial),
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(last)))
}

/// Returns whether an aggregation has one set of groups, and neither filters, nor limits, nor orders.
fn is_plain(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let are_plain = aggregate.aggr_expr().iter().all(|function| {
        !function.is_distinct() && function.order_bys().is_empty() && function.groups_accumulator_supported()
    });
    are_plain
        && !groups.has_grouping_set()
        && (groups.is_single() || groups.is_empty())
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && *aggregate.input_order_mode() == InputOrderMode::Linear
}

/// Returns the node for a partial aggregation over a scan.
fn over_scan(aggregate: &AggregateExec) -> Option<ScanAggregateExec> {
    let (leaf, projected) = scan_below(aggregate.input())?;
    let source = leaf.data_source().downcast_ref::<ScanSource>()?;
    let on_scan = |expr: &Arc<dyn PhysicalExpr>| match projected {
        None => Some(expr.clone()),
        Some(projected) => update_expr(expr, projected, true).ok()?,
    };

    let keys = aggregate.group_expr().expr().iter();
    let keys = keys.map(|(expr, _)| Some(on_scan(expr)?.downcast_ref::<Column>()?.index()));
    let keys: Vec<usize> = keys.collect::<Option<_>>()?;
    let schema = leaf.schema();
    let has_strings =
        |key: &usize| schema.fields().get(*key).is_some_and(|field| field.data_type().is_string());
    if !keys.iter().all(has_strings) {
        return None;
    }
    let scan = source.with_dictionaries(&keys)?;

    let mut spec = AggregateSpec {
        keys,
        integers: IntegerExprs::default(),
        sums: Vec::new(),
        others: Vec::new(),
        states: Vec::new(),
        names: Vec::new(),
    };
    for function in aggregate.aggr_expr() {
        let arguments: Vec<_> = function.expressions().iter().map(on_scan).collect::<Option<_>>()?;
        spec.add(function, arguments, &schema)?;
    }

    // DataFusion computes single groups of other functions as fast.
    let is_worthwhile = !spec.keys.is_empty() || (!spec.sums.is_empty() && spec.others.is_empty());
    is_worthwhile.then(|| {
        let input = DataSourceExec::from_data_source(with_coded_numbers(scan, &spec));
        ScanAggregateExec::new(input, Arc::new(spec), aggregate.properties().clone())
    })
}

/// Returns the scan with dictionaries of the numbers that only integer expressions read, if all row groups store
/// them that way: each distinct value is converted once.
fn with_coded_numbers(scan: ScanSource, spec: &AggregateSpec) -> ScanSource {
    let others = spec.others.iter().flat_map(|other| &other.arguments);
    let read_by_others: HashSet<usize> =
        others.flat_map(collect_columns).map(|column| column.index()).collect();
    let numbers = spec.integers.columns().filter(|column| !read_by_others.contains(column));
    numbers.fold(scan, |scan, column| scan.with_dictionaries(&[column]).unwrap_or(scan))
}

/// Returns the scan below an aggregation, and the projection between them, if any.
fn scan_below(input: &Arc<dyn ExecutionPlan>) -> Option<(&DataSourceExec, Option<&[ProjectionExpr]>)> {
    if let Some(leaf) = input.downcast_ref::<DataSourceExec>() {
        return Some((leaf, None));
    }
    let projection = input.downcast_ref::<ProjectionExec>()?;
    let leaf = projection.input().downcast_ref::<DataSourceExec>()?;
    Some((leaf, Some(projection.expr())))
}

impl AggregateSpec {
    /// Adds a function with its arguments on the columns of the scan; `None` if it reads a key.
    fn add(
        &mut self,
        function: &Arc<AggregateFunctionExpr>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Option<()> {
        let reads_key =
            |argument| collect_columns(argument).iter().any(|column| self.keys.contains(&column.index()));
        if arguments.iter().any(reads_key) {
            return None;
        }

        let state = match self.own_state(function, &arguments, schema) {
            Some(state) => state,
            None => {
                self.others.push(OtherFunction { function: function.clone(), arguments });
                AggregateState::Other(self.others.len() - 1)
            }
        };
        self.states.push(state);
        self.names.push(function.name().to_owned());
        Some(())
    }

    /// Returns the state of a function that is a sum or a count; `None` for others.
    fn own_state(
        &mut self,
        function: &AggregateFunctionExpr,
        arguments: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
    ) -> Option<AggregateState> {
        let [argument] = arguments else { return None };
        let is_count = function.fun().inner().is::<Count>();
        if is_count && argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null()) {
            return Some(AggregateState::Rows);
        }

        let fields = function.state_fields().ok()?;
        let data_type = fields.last()?.data_type().clone();
        let of_argument = argument.data_type(schema).ok()?;
        if is_count {
            return Some(AggregateState::Count(self.summed(argument, schema)?));
        }
        if !is_sum_of(&data_type, &of_argument) {
            return None;
        }
        if function.fun().inner().is::<Sum>() {
            return Some(AggregateState::Sum { of: self.summed(argument, schema)?, data_type });
        }
        if function.fun().inner().is::<Avg>() {
            return Some(AggregateState::Average { of: self.summed(argument, schema)?, data_type });
        }
        None
    }

    /// Returns the position of a value among those that are summed; `None` if it has another type or operations.
    fn summed(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
        let node = self.integers.add(expr, schema)?;
        let known = self.sums.iter().position(|sum| sum.node == node);
        Some(known.unwrap_or_else(|| {
            self.sums.push(SummedValue { node, expr: expr.clone() });
            self.sums.len() - 1
        }))
    }
}

/// Returns whether a sum of this type adds values of that type without scaling them.
fn is_sum_of(sum: &DataType, value: &DataType) -> bool {
    match (sum, value) {
        (DataType::Decimal128(_, of_sum), DataType::Decimal128(_, of_value)) => of_sum == of_value,
        (DataType::Int64, DataType::Int64) => true,
        _ => false,
    }
}
