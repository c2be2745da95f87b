//! Shortens the names of result columns: DataFusion names computed columns after their tables, which may be long paths.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::DataFusionError,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Prepare, Statement as PlanStatement},
    sql::sqlparser::{
        ast::DollarQuotedString,
        dialect::GenericDialect,
        tokenizer::{Token, Tokenizer, TokenizerError, Word},
    },
};

/// Removes the paths of tables from the names of a query's result columns: `sum(lake/a.parquet.x)` becomes `sum(x)`.
/// Keeps names and literals that occur in the statement, `sql`, and names of columns of files, even if they begin with
/// a path. Changes nothing if two columns would then have the same name.
pub(crate) fn without_paths(
    plan: LogicalPlan,
    paths: &BTreeSet<String>,
    sql: &str,
) -> Result<LogicalPlan, DataFusionError> {
    if paths.is_empty() {
        return Ok(plan);
    }

    match plan {
        // EXECUTE runs the query with the names that PREPARE gave it.
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            let input = without_paths(Arc::unwrap_or_clone(prepare.input), paths, sql)?;
            let prepare = Prepare { input: Arc::new(input), ..prepare };
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)))
        }
        // These have names of their own.
        LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::Statement(_) => Ok(plan),
        query => query_without_paths(query, paths, sql),
    }
}

fn query_without_paths(
    plan: LogicalPlan,
    paths: &BTreeSet<String>,
    sql: &str,
) -> Result<LogicalPlan, DataFusionError> {
    let columns = plan.schema().columns();
    let has_path = |name: &str| paths.iter().any(|path| name.contains(path.as_str()));
    if !columns.iter().any(|column| has_path(&column.name)) {
        return Ok(plan);
    }

    // The text of a parsed statement has only valid tokens. Otherwise it cannot be told who wrote a name.
    let Ok(mut kept) = quoted_texts(sql) else { return Ok(plan) };
    kept.extend(columns_of_tables(&plan)?);
    let shortener = NameShortener::new(paths, kept);

    let names: Vec<String> = columns.iter().map(|column| shortener.shortened(&column.name)).collect();
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

/// Returns the quoted identifiers and the string literals of a statement. A name that contains a path is quoted.
fn quoted_texts(sql: &str) -> Result<Vec<String>, TokenizerError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize()?;
    let quoted = tokens.into_iter().filter_map(|token| match token {
        Token::Word(Word { value, quote_style: Some(_), .. })
        | Token::SingleQuotedString(value)
        | Token::DoubleQuotedString(value)
        | Token::DollarQuotedString(DollarQuotedString { value, .. })
        | Token::EscapedStringLiteral(value)
        | Token::NationalStringLiteral(value)
        | Token::UnicodeStringLiteral(value) => Some(value),
        _ => None,
    });
    Ok(quoted.collect())
}

/// Returns the names of the columns of all tables in a plan.
fn columns_of_tables(plan: &LogicalPlan) -> Result<BTreeSet<String>, DataFusionError> {
    let mut names = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.extend(scan.source.schema().fields().iter().map(|field| field.name().clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}

/// Removes paths from names where they qualify a column.
struct NameShortener {
    /// The paths, each with the period after it. Longest first: a path may contain another one after a space.
    qualifiers: Vec<String>,
    /// Texts with a qualifier in them that are not shortened. Longest first.
    kept: Vec<String>,
}

impl NameShortener {
    fn new(paths: &BTreeSet<String>, kept: impl IntoIterator<Item = String>) -> Self {
        let mut qualifiers: Vec<String> = paths.iter().map(|path| format!("{path}.")).collect();
        let is_affected =
            |text: &String| qualifiers.iter().any(|qualifier| text.contains(qualifier.as_str()));
        let mut kept: Vec<String> = kept.into_iter().filter(is_affected).collect();

        qualifiers.sort_unstable_by_key(|qualifier| Reverse(qualifier.len()));
        kept.sort_unstable_by_key(|text| Reverse(text.len()));
        Self { qualifiers, kept }
    }

    /// Removes the qualifiers, except at the end of a longer one, within literals and within kept texts.
    fn shortened(&self, name: &str) -> String {
        let mut shortened = String::with_capacity(name.len());
        let mut rest = name;
        let mut is_after_qualifier = false;

        while let Some(first) = rest.chars().next() {
            let begins_column = shortened.is_empty() || shortened.ends_with(['(', ' ', ',', '[']);
            let mut qualifiers = self.qualifiers.iter().filter(|_| begins_column && !is_after_qualifier);
            let removed =
                qualifiers.find(|qualifier| rest.starts_with(qualifier.as_str())).map_or(0, String::len);
            let kept = self.kept.iter().find(|text| begins_with(rest, text)).map_or(0, String::len);

            is_after_qualifier = removed > kept;
            if is_after_qualifier {
                rest = rest.split_at(removed).1;
            } else {
                let (taken, after) = rest.split_at(kept.max(first.len_utf8()));
                shortened.push_str(taken);
                rest = after;
            }
        }

        shortened
    }
}

/// Returns whether a text begins with another one that is not the beginning of a longer word.
fn begins_with(text: &str, beginning: &str) -> bool {
    let is_of_word = |character: char| character.is_alphanumeric() || character == '_';
    text.strip_prefix(beginning).is_some_and(|after| !after.starts_with(is_of_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_qualifiers_of_columns_are_removed() {
        let paths = ["t", "a/t.csv", "my t.csv"].map(str::to_owned).into();
        let shortener = NameShortener::new(&paths, []);
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
            assert_eq!(shortener.shortened(name), expected, "{name}");
        }
    }

    #[test]
    fn names_and_literals_of_the_user_and_columns_of_files_are_kept() {
        let paths = ["t", "a/t.csv"].map(str::to_owned).into();
        let kept = ["a/t.csv.s", "see t.x and t.y", "t.z", "a/t.csv", "x"].map(str::to_owned);
        let shortener = NameShortener::new(&paths, kept);
        for (name, expected) in [
            ("a/t.csv.s", "a/t.csv.s"),
            ("max(a/t.csv.s)", "max(a/t.csv.s)"),
            ("max(a/t.csv.speed)", "max(speed)"),
            ("max(a/t.csv.x) + a/t.csv.s", "max(x) + a/t.csv.s"),
            (r#"Utf8("see t.x and t.y") || t.x"#, r#"Utf8("see t.x and t.y") || x"#),
            ("t.t.z", "t.z"),
            ("sum(t.t.z)", "sum(t.z)"),
            ("t.t.x", "t.x"),
        ] {
            assert_eq!(shortener.shortened(name), expected, "{name}");
        }
    }

    #[test]
    fn the_texts_of_a_statement_are_those_in_quotes() {
        let sql = r#"SELECT x AS "a/t.csv.s", 'it''s' AS y, E'é' FROM 'a/t.csv'"#;
        assert_eq!(quoted_texts(sql), Ok(["a/t.csv.s", "it's", "é", "a/t.csv"].map(str::to_owned).to_vec()));
    }
}
