//! Checks that expressions translate to predicates that select the same rows, or to weaker ones.

use datafusion::{
    arrow::datatypes::{Field, TimeUnit},
    common::DFSchema,
    execution::context::ExecutionProps,
    logical_expr::{Expr, cast, col, lit, not, physical_planning_context::PhysicalPlanningContext},
    physical_expr::create_physical_expr,
    prelude::{case, get_field},
};

use super::*;

fn schema() -> Schema {
    let address = DataType::Struct(vec![Field::new("zip", DataType::Int32, true)].into());
    Schema::new(vec![
        Field::new("i", DataType::Int32, true),
        Field::new("j", DataType::Int32, true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("b", DataType::Boolean, true),
        Field::new("d", DataType::Decimal128(12, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("address", address, true),
    ])
}

/// Translates a logical expression, and renders it as SQL.
fn translated(expr: Expr) -> Option<(String, bool)> {
    let schema = schema();
    let qualified = DFSchema::try_from(schema.clone()).unwrap();
    let properties = ExecutionProps::new();
    let context = PhysicalPlanningContext::default();
    let expr = create_physical_expr(&expr, &qualified, &properties, &context).unwrap();
    translate(&expr, &schema)
        .map(|pushed| (pushed.predicate.to_string(), pushed.fidelity == Fidelity::Equivalent))
}

fn is(expr: Expr, sql: &str) {
    let expected = Predicate::parse(sql).unwrap().to_string();
    assert_eq!(translated(expr), Some((expected, true)));
}

fn implies(expr: Expr, sql: &str) {
    let expected = Predicate::parse(sql).unwrap().to_string();
    assert_eq!(translated(expr), Some((expected, false)));
}

#[test]
fn comparisons_are_exact_from_either_side() {
    is(col("i").gt(lit(5_i32)), "i > 5");
    is(lit(5_i32).gt(col("i")), "i < 5");
    is(col("i").eq(col("j")), "i = j");
    is(col("s").not_eq(lit(ScalarValue::Utf8View(Some("x".to_owned())))), "s <> 'x'");
    is(col("b"), "b = true");
    is(not(col("b")), "NOT b = true");
    is(col("d").lt_eq(lit(ScalarValue::Decimal128(Some(2450), 12, 2))), "d <= 24.50");
    is(col("i").is_null(), "i IS NULL");
    is(col("i").is_not_null(), "i IS NOT NULL");
}

#[test]
fn the_parts_of_a_conjunction_that_are_understood_are_implied() {
    let unknown = (col("i") + col("j")).gt(lit(3_i32));
    let known = col("i").gt(lit(5_i32));
    implies(known.clone().and(unknown.clone()), "i > 5");
    implies(unknown.clone().and(known.clone()), "i > 5");
    assert_eq!(translated(known.clone().or(unknown.clone())), None);
    assert_eq!(translated(not(known.and(unknown))), None);
}

#[test]
fn casts_are_dropped_only_if_they_keep_every_value() {
    is(cast(col("i"), DataType::Int64).gt(lit(5_000_000_000_i64)), "i > 5000000000");
    let digits = lit(ScalarValue::Decimal128(Some(15), 20, 1));
    is(cast(col("i"), DataType::Decimal128(20, 1)).eq(digits), "i = 1.5");
    assert_eq!(translated(cast(col("i"), DataType::Int16).gt(lit(5_i16))), None);
    assert_eq!(translated(cast(col("i"), DataType::Float64).gt(lit(5.5_f64))), None);
    let short = lit(ScalarValue::Decimal128(Some(15), 5, 1));
    assert_eq!(translated(cast(col("i"), DataType::Decimal128(5, 1)).eq(short)), None);
}

#[test]
fn ranges_of_floating_point_numbers_let_nan_pass() {
    is(col("f").eq(lit(1.5_f64)), "f = 1.5e0");
    implies(col("f").gt(lit(1.5_f64)), "NOT f <= 1.5e0");
    implies(col("f").lt_eq(lit(1.5_f64)), "NOT f > 1.5e0");
    assert_eq!(translated(col("f").gt(lit(f64::NAN))), None);
    assert_eq!(translated(col("f").eq(lit(f64::NAN))), None);
    assert_eq!(translated(not(col("f").gt(lit(1.5_f64)))), None);
    implies(col("f").in_list(vec![lit(0.0_f64), lit(1.0_f64)], false), "f IN (0e0, 1e0)");
    assert_eq!(translated(col("f").in_list(vec![lit(0.0_f64), lit(1.0_f64)], true)), None);
}

#[test]
fn lists_and_patterns_are_exact() {
    is(col("i").in_list(vec![lit(1_i32), lit(2_i32)], false), "i IN (1, 2)");
    is(col("i").in_list(vec![lit(1_i32), lit(2_i32)], true), "NOT i IN (1, 2)");
    let text = |text: &str| lit(ScalarValue::Utf8View(Some(text.to_owned())));
    is(col("s").like(text("a%b_")), "s LIKE 'a%b_'");
    is(col("s").not_like(text(r"a\%%")), r"NOT s LIKE 'a\%%'");
    assert_eq!(translated(col("s").ilike(text("a%"))), None);
    assert_eq!(translated(col("s").like(text(r"a\b%"))), None);
}

#[test]
fn an_unknown_condition_is_false_unless_it_is_negated() {
    let unknown = lit(ScalarValue::Boolean(None));
    implies(col("i").gt(lit(5_i32)).or(unknown.clone()), "i > 5 OR false");
    assert_eq!(translated(not(unknown)), None);
}

#[test]
fn one_of_the_branches_of_a_case_is_implied() {
    let branches = case(col("i")).when(lit(1_i32), col("j").gt(lit(5_i32)));
    let expr = branches.clone().when(lit(2_i32), col("j").lt(lit(0_i32))).otherwise(lit(false)).unwrap();
    implies(expr, "j > 5 OR j < 0 OR false");
    let unknown = (col("i") + col("j")).gt(lit(3_i32));
    assert_eq!(translated(branches.clone().otherwise(unknown).unwrap()), None);
}

#[test]
fn fields_of_structs_are_columns_with_dots() {
    is(get_field(col("address"), "zip").eq(lit(7_i32)), "address.zip = 7");
    assert_eq!(translated(col("address").is_null()), None);
}

#[test]
fn moments_and_days_are_compared_in_their_own_units() {
    is(col("day").gt_eq(lit(ScalarValue::Date32(Some(0)))), "day >= DATE '1970-01-01'");
    let at = ScalarValue::TimestampMicrosecond(Some(1_500_000), Some("UTC".into()));
    is(col("at").lt(lit(at)), "at < TIMESTAMP '1970-01-01 00:00:01.5'");
    let elsewhere = ScalarValue::TimestampMicrosecond(Some(0), Some("+00:00".into()));
    let schema = schema();
    let at = ColumnOperand::new(Column::new("at"), schema.field_with_name("at").unwrap().data_type());
    assert_eq!(with_literal(&at, Operator::Lt, &elsewhere), None);
}
