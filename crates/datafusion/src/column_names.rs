//! Shortens the names of result columns: DataFusion names computed columns after their tables, which may be long paths.

use std::collections::BTreeSet;

use datafusion::{
    error::DataFusionError,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder},
};

/// Removes the paths of tables from the names of a query's result columns: `sum(lake/a.parquet.x)` becomes `sum(x)`.
/// Changes nothing if two columns would then have the same name.
pub(crate) fn without_paths(
    plan: LogicalPlan,
    paths: &BTreeSet<String>,
) -> Result<LogicalPlan, DataFusionError> {
    let is_shown_as_it_is = matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
    );
    let columns = plan.schema().columns();
    let names: Vec<String> = columns.iter().map(|column| without(&column.name, paths)).collect();
    let is_changed = columns.iter().zip(&names).any(|(column, name)| column.name != *name);
    let is_distinct = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    if is_shown_as_it_is || !is_changed || !is_distinct {
        return Ok(plan);
    }

    let named = columns.into_iter().zip(names).map(|(column, name)| {
        if column.name == name { Expr::Column(column) } else { Expr::Column(column).alias(name) }
    });
    LogicalPlanBuilder::from(plan).project(named.collect::<Vec<_>>())?.build()
}

/// Removes the paths, each with the period after it.
fn without(name: &str, paths: &BTreeSet<String>) -> String {
    // A path that another one ends with comes after it.
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort_unstable_by_key(|path| std::cmp::Reverse(path.len()));
    paths.into_iter().fold(name.to_owned(), |name, path| name.replace(&format!("{path}."), ""))
}
