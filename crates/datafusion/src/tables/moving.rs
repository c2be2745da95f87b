//! Filters that joins, aggregates and top-k operators tighten while a scan runs.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::SchemaRef,
    physical_expr::PhysicalExpr,
    physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr},
};
use parking_lot::Mutex;
use stylobate_columnar::{MovingFilter, Predicate};

use crate::predicate::translate;

/// Returns whether an expression may change while it is in use.
pub(crate) fn is_moving(expr: &Arc<dyn PhysicalExpr>) -> bool {
    snapshot_generation(expr) != 0
}

/// Returns the filter on the columns of `schema` that the current state of these expressions implies; `None` if there
/// are no expressions.
pub(crate) fn moving_filter(filters: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Option<MovingFilter> {
    if filters.is_empty() {
        return None;
    }

    let filters = filters.to_vec();
    let schema = schema.clone();
    let known: Mutex<Option<(u64, Option<Arc<Predicate>>)>> = Mutex::new(None);
    Some(Arc::new(move || {
        let generations = filters.iter().map(snapshot_generation);
        let generation = generations.fold(0, u64::wrapping_add);

        let mut known = known.lock();
        if let Some((of, condition)) = known.as_ref()
            && *of == generation
        {
            return condition.clone();
        }

        let conditions: Vec<Predicate> =
            filters.iter().filter_map(|filter| current(filter, &schema)).collect();
        let condition = (!conditions.is_empty()).then(|| Arc::new(Predicate::And(conditions)));
        *known = Some((generation, condition.clone()));
        condition
    }))
}

/// Translates the current state of an expression; `None` if it implies nothing yet.
fn current(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Predicate> {
    let snapshot = snapshot_physical_expr(filter.clone()).ok()?;
    let condition = translate(&snapshot, schema)?.predicate;
    (condition != Predicate::Constant(true)).then_some(condition)
}
