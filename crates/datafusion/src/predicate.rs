//! Translates DataFusion's physical expressions to predicates that scans evaluate on dictionary codes.
//!
//! A translation is a condition that holds for every row for which the expression is true. If it holds for no other
//! row, the expression may be dropped from the plan; if it is also unknown for the same rows, it may be negated.
//!
//! DataFusion compares floating-point numbers in IEEE 754's total order, where NaN is above or below all numbers,
//! depending on its sign. In scans, comparisons with NaN are false. So translated ranges accept NaN, and are never
//! exact.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Schema},
    common::ScalarValue,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{
            BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr,
            LikeExpr, Literal as LiteralExpr, NotExpr,
        },
    },
};
use stylobate_columnar::{Column, CompareOp, Literal, Predicate};

/// Maximum nesting depth of an expression; predicates have a limit of 256.
const MAX_DEPTH: usize = 128;

/// The translation of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PushedPredicate {
    pub(crate) predicate: Predicate,
    pub(crate) fidelity: Fidelity,
}

/// The relation of a predicate to the expression that it translates, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fidelity {
    /// The predicate is true where the expression is, and possibly elsewhere.
    Implied,
    /// The predicate is true exactly where the expression is.
    SameRows,
    /// Both are true, false and unknown for the same rows.
    Equivalent,
}

impl PushedPredicate {
    /// Returns whether the predicate selects the same rows as the expression.
    pub(crate) fn is_exact(&self) -> bool {
        self.fidelity >= Fidelity::SameRows
    }
}

/// Translates an expression on the columns of `schema`; `None` if it implies no predicate.
pub(crate) fn translate(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<PushedPredicate> {
    condition(expr, schema, 0)
}

fn exact(predicate: Predicate) -> Option<PushedPredicate> {
    Some(PushedPredicate { predicate, fidelity: Fidelity::Equivalent })
}

fn necessary(predicate: Predicate) -> Option<PushedPredicate> {
    Some(PushedPredicate { predicate, fidelity: Fidelity::Implied })
}

fn condition(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, depth: usize) -> Option<PushedPredicate> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And => both(binary, schema, depth),
            Operator::Or => either(binary, schema, depth),
            op => comparison(binary.left(), *op, binary.right(), schema),
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        let inner =
            condition(not.arg(), schema, depth + 1).filter(|inner| inner.fidelity == Fidelity::Equivalent)?;
        return exact(inner.predicate.negate());
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return exact(ColumnOperand::of(is_null.arg(), schema)?.flat()?.is_null());
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return exact(ColumnOperand::of(is_not_null.arg(), schema)?.flat()?.is_not_null());
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return membership(list, schema);
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return pattern(like, schema);
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return any_branch(case, schema, depth);
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let Some(predicate) = text_function(call, schema)
    {
        return exact(predicate);
    }
    match literal_of(expr) {
        Some(ScalarValue::Boolean(Some(value))) => return exact(Predicate::Constant(*value)),
        // Unknown is not true.
        Some(value) if value.is_null() => {
            let predicate = Predicate::Constant(false);
            return Some(PushedPredicate { predicate, fidelity: Fidelity::SameRows });
        }
        _ => {}
    }

    let operand = ColumnOperand::of(expr, schema)?;
    (operand.compared_as == DataType::Boolean).then(|| exact(operand.column.eq(true)))?
}

/// Translates an AND: predicates implied by either side are implied by the whole.
fn both(binary: &BinaryExpr, schema: &Schema, depth: usize) -> Option<PushedPredicate> {
    let left = condition(binary.left(), schema, depth + 1);
    let right = condition(binary.right(), schema, depth + 1);
    match (left, right) {
        (Some(left), Some(right)) => Some(PushedPredicate {
            predicate: left.predicate.and(right.predicate),
            fidelity: left.fidelity.min(right.fidelity),
        }),
        (side, other) => necessary(side.or(other)?.predicate),
    }
}

fn either(binary: &BinaryExpr, schema: &Schema, depth: usize) -> Option<PushedPredicate> {
    let left = condition(binary.left(), schema, depth + 1)?;
    let right = condition(binary.right(), schema, depth + 1)?;
    Some(PushedPredicate {
        predicate: left.predicate.or(right.predicate),
        fidelity: left.fidelity.min(right.fidelity),
    })
}

/// Translates a CASE whose branches are conditions, such as the filter of a partitioned join: one of them must be
/// true.
fn any_branch(case: &CaseExpr, schema: &Schema, depth: usize) -> Option<PushedPredicate> {
    let branches = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
    let branches = branches.map(|branch| Some(condition(branch, schema, depth + 1)?.predicate));
    necessary(Predicate::Or(branches.collect::<Option<_>>()?))
}

fn comparison(
    left: &Arc<dyn PhysicalExpr>,
    op: Operator,
    right: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Option<PushedPredicate> {
    if let Some(value) = literal_of(right) {
        return with_literal(&ColumnOperand::of(left, schema)?, op, value);
    }
    if let Some(value) = literal_of(left) {
        return with_literal(&ColumnOperand::of(right, schema)?, op.swap()?, value);
    }

    let left = ColumnOperand::of(left, schema)?;
    let right = ColumnOperand::of(right, schema)?;
    let same = left.is_uncast && right.is_uncast && left.compared_as == right.compared_as;
    if !same || !has_plain_order(&left.compared_as) {
        return None;
    }
    exact(left.column.compare_column(compare_op(op)?, right.column))
}

fn with_literal(operand: &ColumnOperand, op: Operator, value: &ScalarValue) -> Option<PushedPredicate> {
    let value = plain(value);
    if operand.compared_as != value.data_type() {
        return None;
    }

    let literal = literal(value)?;
    let column = operand.column.clone();
    match op {
        Operator::IsNotDistinctFrom => {
            with_literal_of_type(column, CompareOp::Equal, &literal)?;
            exact(operand.column.clone().eq_missing(literal))
        }
        Operator::IsDistinctFrom => {
            with_literal_of_type(column, CompareOp::Equal, &literal)?;
            exact(operand.column.clone().eq_missing(literal).negate())
        }
        op => with_literal_of_type(column, compare_op(op)?, &literal),
    }
}

fn with_literal_of_type(column: Column, op: CompareOp, literal: &Literal) -> Option<PushedPredicate> {
    let Literal::Float(value) = literal else { return exact(column.compare(op, literal.clone())) };
    if value.is_nan() {
        return None;
    }

    // Negation makes the range accept NaN.
    let unless = |opposite: CompareOp| necessary(column.clone().compare(opposite, *value).negate());
    match op {
        CompareOp::Equal | CompareOp::NotEqual => exact(column.compare(op, *value)),
        CompareOp::Less => unless(CompareOp::GreaterOrEqual),
        CompareOp::LessOrEqual => unless(CompareOp::Greater),
        CompareOp::Greater => unless(CompareOp::LessOrEqual),
        CompareOp::GreaterOrEqual => unless(CompareOp::Less),
    }
}

fn membership(list: &InListExpr, schema: &Schema) -> Option<PushedPredicate> {
    let operand = ColumnOperand::of(list.expr(), schema)?;
    let mut has_zero = false;
    let literals = list.list().iter().map(|member| {
        let value = plain(literal_of(member)?);
        let fits = value.is_null() || value.data_type() == operand.compared_as;
        let literal = literal(value).filter(|_| fits)?;
        match literal {
            Literal::Float(value) if value.is_nan() => return None,
            Literal::Float(0.0) => has_zero = true,
            _ => {}
        }
        Some(literal)
    });
    let literals = literals.collect::<Option<Vec<_>>>()?;

    let member = operand.column.is_in(literals);
    match (list.negated(), has_zero) {
        (false, false) => exact(member),
        (true, false) => exact(member.negate()),
        // Lists may distinguish the two zeros.
        (false, true) => necessary(member),
        (true, true) => None,
    }
}

fn pattern(like: &LikeExpr, schema: &Schema) -> Option<PushedPredicate> {
    let operand = ColumnOperand::of(like.expr(), schema)?;
    let pattern = text(literal_of(like.pattern())?)?;
    if like.case_insensitive() || !is_text(&operand.compared_as) || !escapes_only_wildcards(pattern) {
        return None;
    }
    let matches = operand.column.like(pattern);
    exact(if like.negated() { matches.negate() } else { matches })
}

/// Returns whether each backslash in a pattern escapes a wildcard or a backslash.
fn escapes_only_wildcards(pattern: &str) -> bool {
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' && !matches!(letters.next(), Some('%' | '_' | '\\')) {
            return false;
        }
    }
    true
}

fn text_function(call: &ScalarFunctionExpr, schema: &Schema) -> Option<Predicate> {
    let [subject, argument] = call.args() else { return None };
    let operand = || ColumnOperand::of(subject, schema).filter(|operand| is_text(&operand.compared_as));
    let argument = || text(literal_of(argument)?);
    match call.name() {
        "starts_with" => Some(operand()?.column.starts_with(argument()?)),
        "ends_with" => Some(operand()?.column.ends_with(argument()?)),
        "contains" => Some(operand()?.column.contains(argument()?)),
        _ => None,
    }
}

/// A column of the table, possibly under a cast that preserves every value.
struct ColumnOperand {
    column: Column,
    /// Type of the compared values: that of the column or of the cast, without a dictionary.
    compared_as: DataType,
    is_uncast: bool,
    is_nested: bool,
}

impl ColumnOperand {
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let inner = Self::of(cast.expr(), schema)?;
            let target = values(cast.cast_type());
            let compared_as = keeps_values(&inner.compared_as, target).then(|| target.clone())?;
            return Some(Self {
                is_uncast: inner.is_uncast && inner.compared_as == compared_as,
                compared_as,
                ..inner
            });
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return Self::of_field(call, schema);
        }

        let column = expr.downcast_ref::<ColumnExpr>()?;
        let field = schema.fields().get(column.index()).filter(|field| field.name() == column.name())?;
        Some(Self::new(Column::new(field.name()), field.data_type()))
    }

    /// Returns the struct field that `get_field` calls select.
    fn of_field(call: &ScalarFunctionExpr, schema: &Schema) -> Option<Self> {
        let (root, path) = call.args().split_first().filter(|_| call.name() == "get_field")?;
        let column = root.downcast_ref::<ColumnExpr>()?;
        let mut field = schema.fields().get(column.index()).filter(|field| field.name() == column.name())?;
        let mut name = field.name().clone();
        let mut has_dots = name.contains('.');
        for step in path {
            let DataType::Struct(fields) = field.data_type() else { return None };
            let step = text(literal_of(step)?)?;
            field = fields.find(step)?.1;
            has_dots |= step.contains('.');
            name = format!("{name}.{step}");
        }

        // Names with dots are ambiguous.
        let is_ambiguous = has_dots || schema.fields().find(&name).is_some();
        (!is_ambiguous).then(|| Self::new(Column::new(name), field.data_type()))
    }

    fn new(column: Column, data_type: &DataType) -> Self {
        Self {
            column,
            compared_as: values(data_type).clone(),
            is_uncast: true,
            is_nested: values(data_type).is_nested(),
        }
    }

    /// Returns the column, unless it is nested.
    fn flat(self) -> Option<Column> {
        (!self.is_nested).then_some(self.column)
    }
}

/// Returns the value type of a dictionary, or the type itself.
fn values(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Returns the value of a dictionary scalar, or the scalar itself.
fn plain(value: &ScalarValue) -> &ScalarValue {
    match value {
        ScalarValue::Dictionary(_, value) => plain(value),
        value => value,
    }
}

fn literal_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<LiteralExpr>().map(LiteralExpr::value)
}

fn text(value: &ScalarValue) -> Option<&str> {
    match plain(value) {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(text),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Returns whether columns of this type compare alike here and in DataFusion.
fn has_plain_order(data_type: &DataType) -> bool {
    is_text(data_type)
        || is_bytes(data_type)
        || data_type.is_integer()
        || data_type.is_decimal()
        || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// Returns whether a cast preserves every value, so that values may be compared before the cast.
fn keeps_values(from: &DataType, to: &DataType) -> bool {
    if from == to || is_text(from) && is_text(to) || is_bytes(from) && is_bytes(to) {
        return true;
    }
    match (integer_digits(from), decimal(from), integer_digits(to), decimal(to)) {
        (Some(_), _, Some(_), _) => {
            let is_wider = to.primitive_width() > from.primitive_width();
            is_wider && (from.is_unsigned_integer() || to.is_signed_integer())
        }
        (Some(digits), _, _, Some((whole, scale))) => whole >= digits && scale >= 0,
        (_, Some((whole, scale)), _, Some((to_whole, to_scale))) => to_whole >= whole && to_scale >= scale,
        _ => false,
    }
}

/// Returns the maximum number of digits of an integer type.
fn integer_digits(data_type: &DataType) -> Option<i16> {
    match data_type {
        DataType::Int8 | DataType::UInt8 => Some(3),
        DataType::Int16 | DataType::UInt16 => Some(5),
        DataType::Int32 | DataType::UInt32 => Some(10),
        DataType::Int64 => Some(19),
        DataType::UInt64 => Some(20),
        _ => None,
    }
}

/// Returns the numbers of digits before and after the point of a decimal type.
fn decimal(data_type: &DataType) -> Option<(i16, i16)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale)))
        }
        _ => None,
    }
}

fn compare_op(op: Operator) -> Option<CompareOp> {
    match op {
        Operator::Eq => Some(CompareOp::Equal),
        Operator::NotEq => Some(CompareOp::NotEqual),
        Operator::Lt => Some(CompareOp::Less),
        Operator::LtEq => Some(CompareOp::LessOrEqual),
        Operator::Gt => Some(CompareOp::Greater),
        Operator::GtEq => Some(CompareOp::GreaterOrEqual),
        _ => None,
    }
}

/// Converts a scalar to a literal of the same value.
fn literal(value: &ScalarValue) -> Option<Literal> {
    if value.is_null() {
        return Some(Literal::Null);
    }
    let moment = |count: i64, nanos: i128| Some(Literal::Timestamp(i128::from(count) * nanos));
    match value {
        ScalarValue::Boolean(Some(value)) => Some(Literal::Boolean(*value)),
        ScalarValue::Int8(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::Int16(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::Int32(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::Int64(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::UInt8(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::UInt16(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::UInt32(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::UInt64(Some(value)) => Some(Literal::Integer((*value).into())),
        ScalarValue::Float16(Some(value)) => Some(Literal::Float(value.to_f64())),
        ScalarValue::Float32(Some(value)) => Some(Literal::Float((*value).into())),
        ScalarValue::Float64(Some(value)) => Some(Literal::Float(*value)),
        ScalarValue::Decimal32(Some(value), _, scale) => decimal_literal((*value).into(), *scale),
        ScalarValue::Decimal64(Some(value), _, scale) => decimal_literal((*value).into(), *scale),
        ScalarValue::Decimal128(Some(value), _, scale) => decimal_literal(*value, *scale),
        ScalarValue::Decimal256(Some(value), _, scale) => decimal_literal(value.to_i128()?, *scale),
        ScalarValue::Date32(Some(days)) => Some(Literal::Date(*days)),
        ScalarValue::Date64(Some(count)) => moment(*count, 1_000_000),
        ScalarValue::Time32Second(Some(count)) => Some(Literal::Time(i64::from(*count) * 1_000_000_000)),
        ScalarValue::Time32Millisecond(Some(count)) => Some(Literal::Time(i64::from(*count) * 1_000_000)),
        ScalarValue::Time64Microsecond(Some(count)) => Some(Literal::Time(count.checked_mul(1_000)?)),
        ScalarValue::Time64Nanosecond(Some(count)) => Some(Literal::Time(*count)),
        ScalarValue::TimestampSecond(Some(count), _) => moment(*count, 1_000_000_000),
        ScalarValue::TimestampMillisecond(Some(count), _) => moment(*count, 1_000_000),
        ScalarValue::TimestampMicrosecond(Some(count), _) => moment(*count, 1_000),
        ScalarValue::TimestampNanosecond(Some(count), _) => moment(*count, 1),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes))
        | ScalarValue::FixedSizeBinary(_, Some(bytes)) => Some(Literal::Binary(bytes.clone())),
        value => text(value).map(|text| Literal::String(text.to_owned())),
    }
}

fn decimal_literal(unscaled: i128, scale: i8) -> Option<Literal> {
    Some(Literal::Decimal { unscaled, scale: u8::try_from(scale).ok()? })
}

#[cfg(test)]
mod tests;
