//! Compares partition columns of text with numbers and dates: `month = 1` matches the folder `month=01`.
//!
//! Such a column is text because a spelling such as `01` would be lost. Its values are known from the paths, so a
//! comparison with a number or a date becomes a list of the strings for which it holds.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, Date32Array, Int64Array},
    datatypes::{Date32Type, Field, Schema},
};
use chrono::NaiveDate;

use super::{Column, CompareOp, Literal, Operand, Predicate};
use crate::Result;

/// The values of partition columns of text, by column: all that occur in the paths, without null.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathTexts(BTreeMap<String, Vec<String>>);

impl PathTexts {
    /// Adds the values of a column.
    pub(crate) fn insert(&mut self, column: String, texts: Vec<String>) {
        self.0.insert(column, texts);
    }

    /// Returns whether there is no such column.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces comparisons of these columns with numbers if all values are integers, and with dates and timestamps if
    /// all are dates. Other conditions are kept.
    pub(crate) fn rewrite(&self, predicate: &Predicate) -> Result<Predicate> {
        let rewrite_all =
            |all: &[Predicate]| all.iter().map(|each| self.rewrite(each)).collect::<Result<Vec<_>>>();
        Ok(match predicate {
            Predicate::Compare(operand @ Operand::Column(column), op, literal) => {
                match self.passing(column, *op, literal)? {
                    Some(texts) => Predicate::In(operand.clone(), texts),
                    None => predicate.clone(),
                }
            }
            Predicate::In(operand @ Operand::Column(column), literals) => {
                let mut texts = Vec::with_capacity(literals.len());
                for literal in literals {
                    match self.passing(column, CompareOp::Equal, literal)? {
                        Some(passing) => texts.extend(passing),
                        None => texts.push(literal.clone()),
                    }
                }
                Predicate::In(operand.clone(), texts)
            }
            Predicate::And(all) => Predicate::And(rewrite_all(all)?),
            Predicate::Or(all) => Predicate::Or(rewrite_all(all)?),
            Predicate::Not(negated) => Predicate::Not(Box::new(self.rewrite(negated)?)),
            other => other.clone(),
        })
    }

    /// Returns the strings of a column for which a comparison with a literal holds; `None` if it must not be
    /// replaced.
    fn passing(&self, column: &Column, op: CompareOp, literal: &Literal) -> Result<Option<Vec<Literal>>> {
        let Some(texts) = self.0.get(column.name()) else { return Ok(None) };
        let values = match literal {
            Literal::Integer(_) | Literal::Decimal { .. } | Literal::Float(_) => integers(texts),
            Literal::Date(_) | Literal::Timestamp(_) => dates(texts),
            _ => None,
        };
        let Some(values) = values else { return Ok(None) };

        let schema = Schema::new(vec![Field::new(column.name(), values.data_type().clone(), true)]);
        let comparison = Predicate::Compare(column.clone().into(), op, literal.clone());
        let holds = comparison.bind(&schema)?.evaluator().evaluate(&[values], texts.len())?;

        let passing = texts.iter().enumerate().filter(|(at, _)| holds.value(*at));
        let mut passing: Vec<Literal> = passing.map(|(_, text)| Literal::String(text.clone())).collect();
        if passing.is_empty() {
            // No value is empty. An empty list would be false for null, whose negation is true.
            passing.push(Literal::String(String::new()));
        }
        Ok(Some(passing))
    }
}

fn integers(texts: &[String]) -> Option<ArrayRef> {
    let numbers = texts.iter().map(|text| text.parse::<i64>().ok()).collect::<Option<Vec<_>>>()?;
    Some(Arc::new(Int64Array::from(numbers)))
}

fn dates(texts: &[String]) -> Option<ArrayRef> {
    let day = |text: &String| {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        Some(Date32Type::from_naive_date(date))
    };
    let days = texts.iter().map(day).collect::<Option<Vec<_>>>()?;
    Some(Arc::new(Date32Array::from(days)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str, values: &[&str]) -> String {
        let mut texts = PathTexts::default();
        texts.insert("m".to_owned(), values.iter().map(|value| (*value).to_owned()).collect());
        texts.rewrite(&Predicate::parse(sql).unwrap()).unwrap().to_string()
    }

    fn is_same(sql: &str, values: &[&str], expected: &str) {
        assert_eq!(rewritten(sql, values), Predicate::parse(expected).unwrap().to_string(), "{sql}");
    }

    #[test]
    fn numbers_find_the_texts_that_are_written_with_leading_zeros() {
        let months = ["01", "02", "10"];
        is_same("m = 1", &months, "m IN ('01')");
        is_same("m <> 1.0", &months, "m IN ('02', '10')");
        is_same("m > 1.5 AND n = 1", &months, "m IN ('02', '10') AND n = 1");
        is_same("m IN (1, '10', 7)", &months, "m IN ('01', '10', '')");
        is_same("NOT (m >= 2 OR m = 99)", &months, "NOT (m IN ('02', '10') OR m IN (''))");
        is_same("m = '01' OR m IS NULL", &months, "m = '01' OR m IS NULL");
        is_same("m = 1", &["01", "May"], "m = 1");
    }

    #[test]
    fn dates_find_the_texts_that_are_dates() {
        is_same("m < DATE '2024-05-02'", &["2024-5-1", "2024-05-02"], "m IN ('2024-5-1')");
        is_same("m = DATE '2024-05-02'", &["2024-5-1", "1"], "m = DATE '2024-05-02'");
    }
}
