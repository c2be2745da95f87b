//! Filters: comparisons of columns and of values computed from them, joined by AND, OR and NOT in SQL's three-valued
//! logic.
//!
//! ```text
//! SQL --parse--> Predicate --bind(schema)--> BoundPredicate --evaluator--> Evaluator --evaluate(arrays)--> rows
//!                                              |
//!                                              +--prune(statistics)--> which parts can be skipped
//! ```
//!
//! Binding resolves everything that depends on types, once: literals become values of the column's own representation,
//! and NOT moves down to the leaves. Evaluation only compares.

mod bind;
mod build;
mod check;
mod civil;
mod classes;
mod columns;
mod compute;
mod evaluate;
mod input;
mod leaf;
mod like;
mod operand;
mod path_texts;
mod sql;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;
mod typing;
mod words;

use std::fmt;

pub(crate) use self::{
    bind::{BoundColumn, BoundPredicate, PredicateNode, RootColumn},
    check::ValuePredicate,
    civil::parse_timestamp,
    classes::{ComparableInteger, IntegerVisitor, TypeClass, with_whole},
    columns::ColumnComparison,
    evaluate::Evaluator,
    leaf::{ColumnCondition, ColumnTest},
    path_texts::PathTexts,
};
pub use self::{
    evaluate::RowFilter,
    operand::{ArithmeticOp, Function, Operand},
};
use crate::Result;

/// A column by name, with dots between the names of nested fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column(String);

impl Column {
    /// Creates the column of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name, with dots between the names of nested fields.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Creates the column of this name, to build a [`Predicate`] from.
pub fn col(name: impl Into<String>) -> Column {
    Column::new(name)
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A constant of a filter. It takes the type of the column that it is compared with; comparisons are correct even if
/// the column cannot represent the value.
///
/// Two types are converted so that `0.1` means what its author expects: compared with a floating-point column, a
/// [`Literal::Decimal`] is the nearest number that the column can hold; compared with a decimal column, a
/// [`Literal::Float`] is the shortest decimal number that parses as it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    /// SQL's NULL: no comparison with it holds.
    Null,
    /// true or false.
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// A decimal number exactly as it was written: `unscaled` divided by ten to the power of `scale`.
    Decimal {
        /// The digits, without the point.
        unscaled: i128,
        /// Number of digits after the point.
        scale: u8,
    },
    /// A binary floating-point number.
    Float(f64),
    /// Text. Compared with a date, time or timestamp it is read as one in ISO 8601.
    String(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Nanoseconds since 1970-01-01T00:00:00, in UTC if the column has a time zone.
    Timestamp(i128),
    /// A span of time, in nanoseconds.
    Duration(i128),
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl CompareOp {
    /// Returns the equivalent operator with its sides exchanged.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::NotEqual => Self::NotEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    /// Returns `true` if it holds for two values in this order.
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Condition on rows.
///
/// A row passes if the predicate is true, not if it is false or a null makes it unknown. A comparison with NaN is
/// false, and `<>` is true.
///
/// `Display` writes the predicate as SQL that [`Predicate::parse`] reads as the same predicate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Predicate {
    /// Always or never true.
    Constant(bool),
    /// `operand op literal`
    Compare(Operand, CompareOp, Literal),
    /// `operand op operand`
    CompareColumns(Operand, CompareOp, Operand),
    /// `operand IN (…)`; no row passes an empty list.
    In(Operand, Vec<Literal>),
    /// `operand IS NULL`
    IsNull(Operand),
    /// `operand LIKE pattern`; the backslash escapes.
    Like {
        /// Strings.
        column: Operand,
        /// `%` stands for any string, `_` for one character.
        pattern: String,
        /// `ILIKE`.
        ignore_case: bool,
    },
    /// The string or binary begins with these bytes.
    StartsWith(Operand, String),
    /// The string contains this text.
    Contains(Operand, String),
    /// All are true.
    And(Vec<Predicate>),
    /// At least one is true.
    Or(Vec<Predicate>),
    /// Negation; unknown stays unknown.
    Not(Box<Predicate>),
}

impl Operand {
    /// Parses a column, or a value computed from columns, in SQL: `a`, `lower(a)`, `(a + b) * 2`.
    ///
    /// # Errors
    ///
    /// [`Error::Predicate`](crate::Error::Predicate), quoting the part that cannot be parsed.
    pub fn parse(sql: &str) -> Result<Self> {
        sql::parse::parse_operand(sql)
    }
}

impl Predicate {
    /// Parses the condition of a SQL `WHERE`, such as `price < 24.5 AND mode IN ('AIR', 'MAIL')`.
    ///
    /// Names are case-sensitive, quoted or not; dots select nested fields. Literals are those of [`Literal`], and also
    /// `CAST` of a literal and `DATE '…' - INTERVAL '…' DAY`. An interval of days or smaller units is a
    /// [`Literal::Duration`]: `d > INTERVAL '90' SECOND`. A bare column must be boolean. [`Function`] and
    /// [`ArithmeticOp`] list the supported computations.
    ///
    /// # Errors
    ///
    /// [`Error::Predicate`](crate::Error::Predicate), quoting the part that cannot be parsed.
    pub fn parse(sql: &str) -> Result<Self> {
        sql::parse::parse(sql)
    }

    /// Returns the distinct columns that the predicate names, in order of appearance.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        self.visit_columns(&mut |column| {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        });
        columns
    }

    fn visit_columns(&self, visit: &mut dyn FnMut(&Column)) {
        match self {
            Self::Constant(_) => {}
            Self::Compare(column, ..)
            | Self::In(column, _)
            | Self::IsNull(column)
            | Self::Like { column, .. }
            | Self::StartsWith(column, _)
            | Self::Contains(column, _) => column.visit_columns(visit),
            Self::CompareColumns(left, _, right) => {
                left.visit_columns(visit);
                right.visit_columns(visit);
            }
            Self::And(all) | Self::Or(all) => all.iter().for_each(|predicate| predicate.visit_columns(visit)),
            Self::Not(predicate) => predicate.visit_columns(visit),
        }
    }
}
