//! Literals of SQL: numbers exactly as they are written, casts, and arithmetic of dates and decimals.

use uuid::Uuid;

use crate::{
    Result,
    predicate::{
        ArithmeticOp, CompareOp, Literal, Operand, Predicate,
        civil::{CivilDate, NANOS_PER_DAY, NANOS_PER_SECOND, parse_date, parse_time, parse_timestamp},
        tokens::{quoted, refuse},
    },
};

/// A parsed part of a condition.
#[derive(Clone, Debug)]
pub(crate) enum SqlTerm {
    /// A column, or a value computed from columns.
    Operand(Operand),
    Literal(Literal),
    Interval(Interval),
    Condition(Predicate),
}

/// Parses an integer, a decimal, or a number with an exponent.
pub(crate) fn number(text: &str, negative: bool) -> Result<Literal> {
    let wrong = || refuse(format!("{} is not a number of at most 38 digits", quoted(text)));
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().map_err(|_| wrong())?;
        return Ok(Literal::Float(if negative { -value } else { value }));
    }

    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut value: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        let digit = char::from(byte).to_digit(10).map(i128::from).ok_or_else(wrong)?;
        let digit = if negative { -digit } else { digit };
        value = value.checked_mul(10).and_then(|value| value.checked_add(digit)).ok_or_else(wrong)?;
    }

    if !text.contains('.') {
        return Ok(Literal::Integer(value));
    }

    let scale = u8::try_from(fraction.len()).map_err(|_| wrong())?;
    Ok(Literal::Decimal { unscaled: value, scale })
}

/// Parses pairs of hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Result<Vec<u8>> {
    let wrong = || refuse(format!("{} is not pairs of hexadecimal digits", quoted(format!("X'{digits}'"))));
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8).ok_or_else(wrong);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    pairs.iter().map(|[high, low]| Ok(digit(high)? << 4 | digit(low)?)).collect()
}

/// Parses a UUID to its 16 bytes: with or without hyphens, in braces, or as a URN; in upper or lower case.
pub(crate) fn uuid(text: &str) -> Option<Vec<u8>> {
    Uuid::try_parse(text).ok().map(|id| id.into_bytes().to_vec())
}

/// Parses a string that spells a number.
fn spelled(text: &str) -> Option<Literal> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let starts_well = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if starts_well && digits != "." { number(digits, negative).ok() } else { None }
}

/// Compares two literals.
pub(crate) fn fold(left: &Literal, op: CompareOp, right: &Literal) -> Result<bool> {
    let order = match (left, right) {
        (Literal::String(left), Literal::String(right)) => Some(left.cmp(right)),
        (Literal::Boolean(left), Literal::Boolean(right)) => Some(left.cmp(right)),
        (Literal::Binary(left), Literal::Binary(right)) => Some(left.cmp(right)),
        (Literal::Date(left), Literal::Date(right)) => Some(left.cmp(right)),
        (Literal::Timestamp(left), Literal::Timestamp(right)) => Some(left.cmp(right)),
        (Literal::Time(left), Literal::Time(right)) => Some(left.cmp(right)),
        (Literal::Duration(left), Literal::Duration(right)) => Some(left.cmp(right)),
        _ => match (decimal(left), decimal(right)) {
            (Some(left), Some(right)) => aligned(left, right).map(|(left, right, _)| left.cmp(&right)),
            _ => None,
        },
    };

    match order {
        Some(order) => Ok(op.holds(order)),
        None => {
            let comparison = format!("{left} {op} {right}");
            Err(refuse(format!("{}: neither true nor false", quoted(comparison))))
        }
    }
}

/// Returns the unscaled digits and the scale of an exact number.
fn decimal(literal: &Literal) -> Option<(i128, u8)> {
    match literal {
        Literal::Integer(value) => Some((*value, 0)),
        Literal::Decimal { unscaled, scale } => Some((*unscaled, *scale)),
        _ => None,
    }
}

/// Rescales two exact numbers to the larger of their scales.
fn aligned(left: (i128, u8), right: (i128, u8)) -> Option<(i128, i128, u8)> {
    let scale = left.1.max(right.1);
    let grown = |(value, own): (i128, u8)| {
        10_i128.checked_pow(u32::from(scale - own)).and_then(|factor| value.checked_mul(factor))
    };
    Some((grown(left)?, grown(right)?, scale))
}

/// Computes `left op right` of numbers, or of a date and an interval. Literals are computed here; terms with a column
/// are computed per row.
pub(crate) fn arithmetic(left: SqlTerm, op: ArithmeticOp, right: SqlTerm) -> Result<SqlTerm> {
    use ArithmeticOp::{Add, Subtract};
    let computed = match (&left, op, &right) {
        (SqlTerm::Operand(left), _, SqlTerm::Operand(right)) => {
            return left.clone().arithmetic(op, right.clone()).map(SqlTerm::Operand);
        }
        (SqlTerm::Operand(left), _, SqlTerm::Literal(right)) => {
            return left.clone().arithmetic(op, right.clone()).map(SqlTerm::Operand);
        }
        (SqlTerm::Literal(left), _, SqlTerm::Operand(right)) => {
            return Operand::Literal(left.clone()).arithmetic(op, right.clone()).map(SqlTerm::Operand);
        }
        (SqlTerm::Literal(left), Add | Subtract, SqlTerm::Literal(right)) => {
            numeric_sum(left, op == Subtract, right)
        }
        (SqlTerm::Literal(left), _, SqlTerm::Literal(right)) => numeric_product(left, op, right),
        (SqlTerm::Literal(moment), Add | Subtract, SqlTerm::Interval(interval)) => {
            interval.add_to(moment, op == Subtract)
        }
        (SqlTerm::Interval(interval), Add, SqlTerm::Literal(moment)) => interval.add_to(moment, false),
        _ => None,
    };

    let wrong = || refuse(format!("{} {op} {}: cannot be computed", left.describe(), right.describe()));
    computed.map(SqlTerm::Literal).ok_or_else(wrong)
}

/// Negates a number or a column.
pub(crate) fn negative(of: SqlTerm) -> Result<SqlTerm> {
    arithmetic(SqlTerm::Literal(Literal::Integer(0)), ArithmeticOp::Subtract, of)
}

/// Computes `left * right`, `left / right` or `left % right`, by the rules of [`ArithmeticOp`].
fn numeric_product(left: &Literal, op: ArithmeticOp, right: &Literal) -> Option<Literal> {
    let has_float = [left, right].iter().any(|literal| matches!(literal, Literal::Float(_)));
    if has_float || op == ArithmeticOp::Divide {
        let (Literal::Float(left), Literal::Float(right)) = (to_number(left)?, to_number(right)?) else {
            return None;
        };
        return Some(Literal::Float(match op {
            ArithmeticOp::Multiply => left * right,
            ArithmeticOp::Modulo => left % right,
            _ => left / right,
        }));
    }

    let whole = matches!((left, right), (Literal::Integer(_), Literal::Integer(_)));
    let left = decimal(left)?;
    let right = decimal(right)?;
    let (value, scale) = match op {
        ArithmeticOp::Multiply => (left.0.checked_mul(right.0)?, left.1.checked_add(right.1)?),
        _ => {
            let (left, right, scale) = aligned(left, right)?;
            if right == 0 {
                return Some(Literal::Null);
            }
            (left.checked_rem(right).unwrap_or(0), scale)
        }
    };

    Some(if whole { Literal::Integer(value) } else { Literal::Decimal { unscaled: value, scale } })
}

/// Converts a number to a floating-point number; strings are not accepted.
fn to_number(literal: &Literal) -> Option<Literal> {
    if matches!(literal, Literal::String(_)) { None } else { to_float(literal) }
}

fn numeric_sum(left: &Literal, negative: bool, right: &Literal) -> Option<Literal> {
    if let Literal::Float(right) = right {
        let left = match left {
            Literal::Float(left) => *left,
            Literal::Integer(0) => return Some(Literal::Float(if negative { -right } else { *right })),
            _ => return None,
        };
        return Some(Literal::Float(if negative { left - right } else { left + right }));
    }

    let (left_value, right_value, scale) = aligned(decimal(left)?, decimal(right)?)?;
    let value =
        if negative { left_value.checked_sub(right_value)? } else { left_value.checked_add(right_value)? };
    let whole = matches!((left, right), (Literal::Integer(_), Literal::Integer(_)));

    Some(if whole { Literal::Integer(value) } else { Literal::Decimal { unscaled: value, scale } })
}

/// A span of time. Months and days have no fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    months: i64,
    days: i128,
    nanos: i128,
}

/// Units of fixed length, in descending order, with their nanoseconds.
pub(crate) const INTERVAL_UNITS: [(&str, i128); 7] = [
    ("DAY", NANOS_PER_DAY),
    ("HOUR", 3_600 * NANOS_PER_SECOND),
    ("MINUTE", 60 * NANOS_PER_SECOND),
    ("SECOND", NANOS_PER_SECOND),
    ("MILLISECOND", 1_000_000),
    ("MICROSECOND", 1_000),
    ("NANOSECOND", 1),
];

impl Interval {
    /// Parses `90` and `DAY`, or `90 days`.
    pub(crate) fn parse(amount: &str, unit: Option<&str>) -> Result<Self> {
        let wrong = || {
            let unit = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
            refuse(format!("{} is not an interval", quoted(format!("INTERVAL '{amount}'{unit}"))))
        };

        let (amount, unit) = match unit {
            Some(unit) => (amount.trim(), unit),
            None => amount.trim().split_once(' ').ok_or_else(wrong)?,
        };

        let amount: i128 = amount.parse().map_err(|_| wrong())?;

        let zero = Self { months: 0, days: 0, nanos: 0 };
        let months = |of_unit: i128| {
            let months = i64::try_from(amount.checked_mul(of_unit)?).ok()?;
            Some(Self { months, ..zero })
        };
        let days = |of_unit: i128| amount.checked_mul(of_unit).map(|days| Self { days, ..zero });
        let nanos = |of_unit: i128| amount.checked_mul(of_unit).map(|nanos| Self { nanos, ..zero });

        let unit = unit.trim().to_ascii_uppercase();
        match unit.strip_suffix('S').unwrap_or(&unit) {
            "YEAR" => months(12),
            "QUARTER" => months(3),
            "MONTH" => months(1),
            "WEEK" => days(7),
            "DAY" => days(1),
            unit => {
                INTERVAL_UNITS.iter().find(|(name, _)| *name == unit).and_then(|(_, of_unit)| nanos(*of_unit))
            }
        }
        .ok_or_else(wrong)
    }

    /// Returns the span as a literal. Fails if it has months, whose length is not fixed.
    pub(crate) fn to_literal(self) -> Result<Literal> {
        if self.months != 0 {
            return Err(refuse(
                "an interval of months or years has no fixed length: give days or smaller units",
            ));
        }
        let nanos = self.days.checked_mul(NANOS_PER_DAY).and_then(|days| days.checked_add(self.nanos));
        nanos.map(Literal::Duration).ok_or_else(|| refuse("an interval does not fit in 128 bits"))
    }

    fn add_to(self, moment: &Literal, negative: bool) -> Option<Literal> {
        let sign: i64 = if negative { -1 } else { 1 };
        let nanos = self.nanos.checked_mul(i128::from(sign))?;
        let moved = |days: i128| {
            let months = self.months.checked_mul(sign)?;
            let day = CivilDate::from_days(days).plus_months(months).to_days();
            day.checked_add(self.days.checked_mul(i128::from(sign))?)
        };

        match moment {
            Literal::Date(days) => {
                let days = moved(i128::from(*days))?;
                match nanos {
                    0 => Some(Literal::Date(i32::try_from(days).ok()?)),
                    nanos => Some(Literal::Timestamp(days.checked_mul(NANOS_PER_DAY)?.checked_add(nanos)?)),
                }
            }
            Literal::Timestamp(moment) => {
                let days = moved(moment.div_euclid(NANOS_PER_DAY))?;
                let midnight = days.checked_mul(NANOS_PER_DAY)?;
                let of_day = moment.rem_euclid(NANOS_PER_DAY);
                Some(Literal::Timestamp(midnight.checked_add(of_day)?.checked_add(nanos)?))
            }
            _ => None,
        }
    }
}

/// Casts a literal to the type that SQL names. Nothing is rounded: a value that the type cannot represent is an error.
pub(crate) fn cast(literal: Literal, type_name: &str) -> Result<Literal> {
    let (base, parameters) = match type_name.split_once('(') {
        Some((base, parameters)) => (base, parameters.trim_end_matches(')')),
        None => (type_name, ""),
    };

    if literal == Literal::Null {
        return Ok(Literal::Null);
    }

    let cast = match base {
        "BOOLEAN" | "BOOL" => to_boolean(&literal),
        "TINYINT" | "SMALLINT" | "INT" | "INTEGER" | "BIGINT" | "INT2" | "INT4" | "INT8" => {
            to_integer(&literal)
        }
        "DECIMAL" | "NUMERIC" | "DEC" => to_decimal(&literal, parameters),
        "REAL" | "FLOAT" | "DOUBLE" | "FLOAT4" | "FLOAT8" => to_float(&literal),
        "VARCHAR" | "TEXT" | "STRING" | "CHAR" | "UTF8" => match &literal {
            Literal::String(_) => Some(literal.clone()),
            Literal::Integer(_) | Literal::Decimal { .. } => Some(Literal::String(literal.to_string())),
            _ => None,
        },
        "BINARY" | "VARBINARY" | "BYTEA" | "BLOB" => match &literal {
            Literal::Binary(_) => Some(literal.clone()),
            Literal::String(text) => Some(Literal::Binary(text.clone().into_bytes())),
            _ => None,
        },
        "UUID" => match &literal {
            Literal::String(text) => uuid(text).map(Literal::Binary),
            Literal::Binary(bytes) if bytes.len() == 16 => Some(literal.clone()),
            _ => None,
        },
        "DATE" => to_date(&literal),
        "TIME" => match &literal {
            Literal::String(text) => parse_time(text).map(Literal::Time),
            Literal::Time(_) => Some(literal.clone()),
            _ => None,
        },
        "TIMESTAMP" | "TIMESTAMPTZ" | "DATETIME" => match &literal {
            Literal::String(text) => parse_timestamp(text).map(Literal::Timestamp),
            Literal::Date(days) => Some(Literal::Timestamp(i128::from(*days) * NANOS_PER_DAY)),
            Literal::Timestamp(_) => Some(literal.clone()),
            _ => None,
        },
        _ => return Err(refuse(format!("{} is not a type", quoted(type_name)))),
    };

    cast.ok_or_else(|| refuse(format!("{} is not a {type_name}", quoted(&literal))))
}

fn to_boolean(literal: &Literal) -> Option<Literal> {
    match literal {
        Literal::Boolean(_) => Some(literal.clone()),
        Literal::String(text) if text.eq_ignore_ascii_case("true") => Some(Literal::Boolean(true)),
        Literal::String(text) if text.eq_ignore_ascii_case("false") => Some(Literal::Boolean(false)),
        _ => None,
    }
}

fn to_integer(literal: &Literal) -> Option<Literal> {
    let Literal::Decimal { unscaled, .. } = to_scale(literal, 0)? else { return None };
    Some(Literal::Integer(unscaled))
}

fn to_decimal(literal: &Literal, parameters: &str) -> Option<Literal> {
    match parameters.split_once(',') {
        Some((_, scale)) => to_scale(literal, scale.parse().ok()?),
        None if parameters.is_empty() => {
            let spelled = if let Literal::String(text) = literal { spelled(text)? } else { literal.clone() };
            let (unscaled, scale) = decimal(&spelled)?;
            Some(Literal::Decimal { unscaled, scale })
        }
        None => to_scale(literal, 0),
    }
}

/// Rescales a number to exactly this scale, if it has no digit beyond it.
fn to_scale(literal: &Literal, scale: u8) -> Option<Literal> {
    let spelled = if let Literal::String(text) = literal { spelled(text)? } else { literal.clone() };
    let (unscaled, own) = decimal(&spelled)?;
    let factor = 10_i128.checked_pow(u32::from(scale.abs_diff(own)))?;
    let unscaled = if scale >= own {
        unscaled.checked_mul(factor)?
    } else if unscaled % factor == 0 {
        unscaled / factor
    } else {
        return None;
    };

    Some(Literal::Decimal { unscaled, scale })
}

fn to_float(literal: &Literal) -> Option<Literal> {
    match literal {
        Literal::Float(_) => Some(literal.clone()),
        Literal::String(text) => text.trim().parse().ok().map(Literal::Float),
        number => {
            let (unscaled, scale) = decimal(number)?;
            format!("{unscaled}e-{scale}").parse().ok().map(Literal::Float)
        }
    }
}

fn to_date(literal: &Literal) -> Option<Literal> {
    let days = match literal {
        Literal::Date(days) => i128::from(*days),
        Literal::String(text) => parse_date(text)?,
        Literal::Timestamp(nanos) => nanos.div_euclid(NANOS_PER_DAY),
        _ => return None,
    };
    i32::try_from(days).ok().map(Literal::Date)
}
