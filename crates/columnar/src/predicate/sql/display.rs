//! Writes predicates as SQL that [`Predicate::parse`] parses as the same predicate.

use std::fmt::{self, Display, Formatter};

use crate::predicate::{
    ArithmeticOp, Column, CompareOp, Function, Literal, Operand, Predicate,
    civil::{CivilDate, write_time, write_timestamp},
    sql::literals::INTERVAL_UNITS,
    tokens::is_reserved,
};

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(true) => f.write_str("TRUE"),
            Self::Boolean(false) => f.write_str("FALSE"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Decimal { unscaled, scale } => {
                let sign = if *unscaled < 0 { "-" } else { "" };
                let scale = usize::from(*scale);
                let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale);

                write!(f, "{sign}{whole}.{fraction}")
            }
            Self::Float(value) if value.is_finite() => write!(f, "{value:e}"),
            Self::Float(value) => write!(f, "CAST('{value}' AS DOUBLE)"),
            Self::String(text) => write!(f, "{}", QuotedSql(text, '\'')),
            Self::Binary(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str("'")
            }
            Self::Date(days) => write!(f, "DATE '{}'", CivilDate::from_days(i128::from(*days))),
            Self::Time(nanos) => {
                f.write_str("TIME '")?;
                write_time(f, i128::from(*nanos))?;
                f.write_str("'")
            }
            Self::Timestamp(nanos) => {
                f.write_str("TIMESTAMP '")?;
                write_timestamp(f, *nanos)?;
                f.write_str("'")
            }
            Self::Duration(nanos) => {
                let coarsest = INTERVAL_UNITS.iter().copied().find(|(_, of_unit)| nanos % of_unit == 0);
                let (unit, of_unit) = coarsest.unwrap_or(("NANOSECOND", 1));
                write!(f, "INTERVAL '{}' {unit}", nanos / of_unit)
            }
        }
    }
}

impl Display for ArithmeticOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        })
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => SqlColumnName(column).fmt(f),
            Self::Literal(literal) => literal.fmt(f),
            Self::Call(function, of) => write!(f, "{}({of})", function.name()),
            Self::Arithmetic(left, op, right) => {
                side(f, left, left.is_looser(*op))?;
                write!(f, " {op} ")?;
                side(f, right, !right.is_tighter(*op))
            }
        }
    }
}

/// Writes one side of arithmetic, in parentheses if precedence requires them.
fn side(f: &mut Formatter<'_>, operand: &Operand, has_parentheses: bool) -> fmt::Result {
    if has_parentheses { write!(f, "({operand})") } else { operand.fmt(f) }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(true) => f.write_str("TRUE"),
            Self::Constant(false) => f.write_str("FALSE"),
            Self::Compare(
                operand @ Operand::Call(Function::IsNan, _),
                CompareOp::Equal,
                Literal::Boolean(true),
            ) => operand.fmt(f),
            Self::Compare(column, op, literal) => write!(f, "{column} {op} {literal}"),
            Self::CompareColumns(left, op, right) => write!(f, "{left} {op} {right}"),
            Self::In(column, literals) => {
                write!(f, "{column} IN (")?;
                write_joined(f, literals, ", ", |f, literal| literal.fmt(f))?;
                f.write_str(")")
            }
            Self::IsNull(column) => write!(f, "{column} IS NULL"),
            Self::Like { column, pattern, ignore_case } => {
                let like = if *ignore_case { "ILIKE" } else { "LIKE" };
                write!(f, "{column} {like} {}", QuotedSql(pattern, '\''))
            }
            Self::StartsWith(column, prefix) => {
                write!(f, "starts_with({column}, {})", QuotedSql(prefix, '\''))
            }
            Self::Contains(column, text) => write!(f, "contains({column}, {})", QuotedSql(text, '\'')),
            Self::And(all) if all.is_empty() => f.write_str("TRUE"),
            Self::Or(any) if any.is_empty() => f.write_str("FALSE"),
            Self::And(all) => write_joined(f, all, " AND ", within),
            Self::Or(any) => write_joined(f, any, " OR ", within),
            Self::Not(predicate) => match predicate.as_ref() {
                Self::IsNull(column) => write!(f, "{column} IS NOT NULL"),
                predicate => {
                    f.write_str("NOT ")?;
                    within(f, predicate)
                }
            },
        }
    }
}

/// Writes a condition in parentheses if precedence requires them.
fn within(f: &mut Formatter<'_>, predicate: &Predicate) -> fmt::Result {
    match predicate {
        Predicate::Not(negated) if matches!(negated.as_ref(), Predicate::IsNull(_)) => predicate.fmt(f),
        Predicate::And(_) | Predicate::Or(_) | Predicate::Not(_) => write!(f, "({predicate})"),
        _ => predicate.fmt(f),
    }
}

/// Writes the items with a separator between them.
fn write_joined<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    separator: &str,
    mut write: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }

        write(f, item)?;
    }

    Ok(())
}

/// Name of a column, displayed with quotes unless it is unambiguous.
struct SqlColumnName<'a>(&'a Column);

impl Display for SqlColumnName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.0.name();

        if name.split('.').all(is_plain) { f.write_str(name) } else { write!(f, "{}", QuotedSql(name, '"')) }
    }
}

fn is_plain(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');

    starts_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !is_reserved(name)
}

/// Text displayed between quotes, with the quotes in it doubled.
struct QuotedSql<'a>(&'a str, char);

impl Display for QuotedSql<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(text, quote) = self;
        write!(f, "{quote}{}{quote}", text.replace(*quote, &format!("{quote}{quote}")))
    }
}
