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
    let has_names_of_its_own = matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
    );
    if paths.is_empty() || has_names_of_its_own {
        return Ok(plan);
    }

    let columns = plan.schema().columns();
    let names: Vec<String> = columns.iter().map(|column| without(&column.name, paths)).collect();
    let is_changed = columns.iter().zip(&names).any(|(column, name)| column.name != *name);
    let is_distinct = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    if !is_changed || !is_distinct {
        return Ok(plan);
    }

    let named = columns.into_iter().zip(names).map(|(column, name)| {
        if column.name == name { Expr::Column(column) } else { Expr::Column(column).alias(name) }
    });
    LogicalPlanBuilder::from(plan).project(named.collect::<Vec<_>>())?.build()
}

/// Removes the paths where they qualify a column, each with the period after it.
fn without(name: &str, paths: &BTreeSet<String>) -> String {
    // Longest first: a path may contain another one after a space.
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort_unstable_by_key(|path| std::cmp::Reverse(path.len()));
    paths.into_iter().fold(name.to_owned(), |name, path| without_qualifier(&name, &format!("{path}.")))
}

/// Removes a qualifier, except at the end of a longer one and within literals.
fn without_qualifier(name: &str, qualifier: &str) -> String {
    let mut shortened = String::with_capacity(name.len());
    for (index, piece) in name.split(qualifier).enumerate() {
        let begins_column = shortened.is_empty() || shortened.ends_with(['(', ' ', ',', '[']);
        if index > 0 && !begins_column {
            shortened.push_str(qualifier);
        }
        shortened.push_str(piece);
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_qualifiers_of_columns_are_removed() {
        let paths = ["t", "a/t.csv", "my t.csv"].map(str::to_owned).into();
        for (name, expected) in [
            ("t.x", "x"),
            ("sum(t.x)", "sum(x)"),
            ("t.x + t.y", "x + y"),
            ("corr(t.x,t.y)", "corr(x,y)"),
            ("sum(a/t.csv.x) - min(my t.csv.x)", "sum(x) - min(x)"),
            ("sum(cat.x)", "sum(cat.x)"),
            ("sum(b/a/t.csv.x)", "sum(b/a/t.csv.x)"),
            (r#"Utf8("t.x")"#, r#"Utf8("t.x")"#),
            ("x", "x"),
            ("", ""),
        ] {
            assert_eq!(without(name, &paths), expected, "{name}");
        }
    }
}
