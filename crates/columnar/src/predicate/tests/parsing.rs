//! The meaning of SQL.

use proptest::prelude::*;

use crate::{ArithmeticOp, CompareOp, Error, Function, Literal, Operand, Predicate, col};

fn parse(sql: &str) -> Predicate {
    Predicate::parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn reason(sql: &str) -> String {
    match Predicate::parse(sql) {
        Err(Error::Predicate { reason }) => reason,
        other => panic!("{sql}: {other:?}"),
    }
}

fn decimal(unscaled: i128, scale: u8) -> Literal {
    Literal::Decimal { unscaled, scale }
}

#[test]
fn comparisons_stand_in_either_order() {
    assert_eq!(parse("a < 24"), col("a").lt(24));
    assert_eq!(parse("24 > a"), col("a").lt(24));
    assert_eq!(parse("24 <= a"), col("a").gt_eq(24));
    assert_eq!(parse("a = 1"), col("a").eq(1));
    assert_eq!(parse("1 == a"), col("a").eq(1));
    assert_eq!(parse("a <> 1"), col("a").not_eq(1));
    assert_eq!(parse("1 != a"), col("a").not_eq(1));
    assert_eq!(parse("a < b"), col("a").compare_column(CompareOp::Less, col("b")));
}

#[test]
fn not_binds_closer_than_and_and_and_closer_than_or() {
    let a = || col("a").lt(1);
    let b = || col("b").lt(2);
    let c = || col("c").lt(3);
    assert_eq!(parse("a < 1 OR b < 2 AND c < 3"), a().or(b().and(c())));
    assert_eq!(parse("(a < 1 OR b < 2) AND c < 3"), a().or(b()).and(c()));
    assert_eq!(parse("NOT a < 1 AND b < 2"), a().negate().and(b()));
    assert_eq!(parse("NOT (a < 1 AND b < 2)"), a().and(b()).negate());
    assert_eq!(parse("a < 1 AND b < 2 AND c < 3"), Predicate::And(vec![a(), b(), c()]));
}

#[test]
fn ranges_and_lists_may_be_negated() {
    assert_eq!(parse("a BETWEEN 1 AND 2"), col("a").between(1, 2));
    assert_eq!(parse("a NOT BETWEEN 1 AND 2"), col("a").between(1, 2).negate());
    assert_eq!(
        parse("a BETWEEN 1 AND 2 AND b"),
        Predicate::And(vec![col("a").between(1, 2), col("b").eq(true)])
    );
    assert_eq!(parse("a IN ('x', 'y')"), col("a").is_in(["x", "y"]));
    assert_eq!(parse("a NOT IN (1, NULL)"), col("a").is_in([Some(1), None]).negate());
    assert_eq!(parse("a IN ()"), Predicate::In(col("a").into(), Vec::new()));
}

#[test]
fn a_column_alone_is_one_of_booleans() {
    assert_eq!(parse("flag"), col("flag").eq(true));
    assert_eq!(parse("NOT flag"), col("flag").eq(true).negate());
    assert_eq!(parse("flag IS TRUE"), Predicate::And(vec![col("flag").is_not_null(), col("flag").eq(true)]));
    assert_eq!(parse("flag IS NOT FALSE"), parse("flag IS FALSE").negate());
    assert_eq!(parse("flag IS NULL"), col("flag").is_null());
    assert_eq!(parse("flag IS NOT NULL"), col("flag").is_not_null());
    assert_eq!(parse("flag IS UNKNOWN"), col("flag").is_null());
    assert_eq!(parse("TRUE"), Predicate::Constant(true));
}

#[test]
fn names_are_case_sensitive_and_dots_lead_inside() {
    assert_eq!(parse("Aa.bB.c = 1"), col("Aa.bB.c").eq(1));
    assert_eq!(parse(r#""Weird ""name"".x" = 1"#), col(r#"Weird "name".x"#).eq(1));
    assert_eq!(parse(r#"a."b c" = 1"#), col("a.b c").eq(1));
    assert_eq!(parse("date = 1 AND timestamp = 2"), col("date").eq(1).and(col("timestamp").eq(2)));
    assert_eq!(parse("größe = 1"), col("größe").eq(1));
}

#[test]
fn numbers_are_as_exact_as_they_are_written() {
    assert_eq!(parse("a = 0.05"), col("a").compare(CompareOp::Equal, decimal(5, 2)));
    assert_eq!(parse("a = .5"), col("a").compare(CompareOp::Equal, decimal(5, 1)));
    assert_eq!(parse("a = -2.50"), col("a").compare(CompareOp::Equal, decimal(-250, 2)));
    assert_eq!(parse("a = - 5"), col("a").eq(-5));
    assert_eq!(parse("a = +5"), col("a").eq(5));
    assert_eq!(parse("a = 5e-2"), col("a").eq(0.05));
    assert_eq!(parse("a = 1e999"), col("a").eq(f64::INFINITY));
    let smallest = "a = -170141183460469231731687303715884105728";
    assert_eq!(parse(smallest), col("a").eq(i128::MIN));
    assert!(
        reason("a = 170141183460469231731687303715884105728")
            .contains("17014118346046923173168730371588410572")
    );
}

#[test]
fn sums_of_decimals_and_of_dates_are_computed() {
    let range = "a BETWEEN 0.06 - 0.01 AND 0.06 + 0.01";
    let low = decimal(5, 2);
    let high = decimal(7, 2);
    let expected =
        col("a").compare(CompareOp::GreaterOrEqual, low).and(col("a").compare(CompareOp::LessOrEqual, high));
    assert_eq!(parse(range), expected);
    let day = |sql: &str| parse(&format!("a <= {sql}"));
    assert_eq!(day("DATE '1998-12-01' - INTERVAL '90' DAY"), day("DATE '1998-09-02'"));
    assert_eq!(day("DATE '1998-12-01' - INTERVAL '90 days'"), day("DATE '1998-09-02'"));
    assert_eq!(day("DATE '1994-01-01' + INTERVAL 1 YEAR"), day("DATE '1995-01-01'"));
    assert_eq!(day("DATE '2024-01-31' + INTERVAL '1' MONTH"), day("DATE '2024-02-29'"));
    assert_eq!(day("DATE '2024-01-01' + INTERVAL '36' HOUR"), day("TIMESTAMP '2024-01-02 12:00'"));
    assert!(reason("a < 5 + 'x'").contains("'x'"));
    assert!(reason("a < b + INTERVAL '1' DAY").contains("`b` + an interval"));
}

#[test]
fn literals_have_types_of_their_own() {
    assert_eq!(
        parse("a = DATE '1970-01-02'"),
        Predicate::Compare(col("a").into(), CompareOp::Equal, Literal::Date(1))
    );
    let second = Literal::Timestamp(1_000_000_000);
    assert_eq!(
        parse("a = TIMESTAMP '1970-01-01 00:00:01'"),
        Predicate::Compare(col("a").into(), CompareOp::Equal, second)
    );
    assert_eq!(
        parse("a = TIME '00:00:00.1'"),
        Predicate::Compare(col("a").into(), CompareOp::Equal, Literal::Time(100_000_000))
    );
    assert_eq!(parse("a = X'00fF'"), col("a").eq(vec![0_u8, 255]));
    assert_eq!(parse("a = 'it''s'"), col("a").eq("it's"));
    assert_eq!(parse("a = NULL"), col("a").eq(Literal::Null));
    let span = |seconds: i128| Literal::Duration(seconds * 1_000_000_000);
    assert_eq!(parse("a > INTERVAL '1' HOUR"), col("a").gt(span(3_600)));
    assert_eq!(parse("INTERVAL '90 seconds' < a"), col("a").gt(span(90)));
    assert_eq!(parse("a = INTERVAL '-2' WEEK").to_string(), "a = INTERVAL '-14' DAY");
    assert!(reason("a = INTERVAL '1' MONTH").contains("no fixed length"));
    assert!(reason("a = INTERVAL '1.5' SECOND").contains("not an interval"));
    assert!(reason("a = DATE '2024-02-30'").contains("2024-02-30"));
    assert!(reason("a = X'0'").contains("hexadecimal"));
}

#[test]
fn casts_of_literals_never_round() {
    assert_eq!(parse("a = CAST('12' AS INTEGER)"), col("a").eq(12));
    assert_eq!(parse("a = CAST(2.00 AS BIGINT)"), col("a").eq(2));
    assert!(reason("a = CAST(2.50 AS BIGINT)").contains("2.50"));
    assert!(reason("a = CAST(2.505 AS DECIMAL(15, 2))").contains("2.505"));
}

#[test]
fn casts_know_the_common_types() {
    let equal = |sql: &str| parse(&format!("a = {sql}"));
    assert_eq!(equal("CAST('1.5' AS DECIMAL(15, 2))"), equal("1.50"));
    assert_eq!(equal("'2024-01-01'::date"), equal("DATE '2024-01-01'"));
    assert_eq!(
        equal("CAST('2024-01-01 12:00' AS TIMESTAMP WITH TIME ZONE)"),
        equal("TIMESTAMP '2024-01-01 12:00'")
    );
    assert_eq!(equal("CAST(0.1 AS DOUBLE PRECISION)"), col("a").eq(0.1));
    assert_eq!(equal("CAST('nan' AS DOUBLE)").to_string(), "a = CAST('NaN' AS DOUBLE)");
    assert_eq!(equal("CAST(5 AS VARCHAR(10))"), col("a").eq("5"));
    assert_eq!(equal("CAST('true' AS BOOLEAN)"), col("a").eq(true));
    assert_eq!(equal("CAST(NULL AS INT)"), col("a").eq(Literal::Null));
    assert!(reason("a = CAST('x' AS INT)").contains("`'x'` is not a INT"));
    assert!(reason("a = CAST(1 AS GEOMETRY)").contains("GEOMETRY"));
    assert!(reason("CAST(a AS INT) = 1").contains("`a`"));
}

#[test]
fn escapes_of_patterns_become_backslashes() {
    assert_eq!(parse("a LIKE 'x%'"), col("a").like("x%"));
    assert_eq!(parse("a NOT ILIKE '_x'"), col("a").ilike("_x").negate());
    assert_eq!(parse(r"a LIKE '10!%!!\%' ESCAPE '!'"), col("a").like(r"10\%!\\%"));
    assert_eq!(parse(r"a LIKE 'x\' ESCAPE ''").to_string(), r"a LIKE 'x\\'");
}

#[test]
fn functions_take_a_column_and_a_string() {
    assert_eq!(parse("starts_with(a.b, 'x')"), col("a.b").starts_with("x"));
    assert_eq!(parse("NOT CONTAINS(a, 'x')"), col("a").contains("x").negate());
    assert!(reason("reverse(a) = 'x'").contains("`REVERSE`"));
}

#[test]
fn functions_and_arithmetic_are_operands() {
    let column = |name: &str| Operand::from(col(name));
    let lower = column("a").call(Function::Lower).unwrap();
    assert_eq!(parse("LOWER(a) = 'x'"), lower.clone().eq("x"));
    assert_eq!(
        parse("lower(a) LIKE '%x' AND lower(a) IN ('x')"),
        lower.clone().ends_with("x").and(lower.is_in(["x"]))
    );
    assert_eq!(
        parse("year(d) BETWEEN 2023 AND 2024"),
        column("d").call(Function::Year).unwrap().between(2023, 2024)
    );
    assert_eq!(parse("EXTRACT(MONTH FROM d) = 2"), column("d").call(Function::Month).unwrap().eq(2));
    assert_eq!(parse("isnan(f) OR NOT isnan(f)"), {
        let nan = column("f").call(Function::IsNan).unwrap().eq(true);
        nan.clone().or(nan.negate())
    });
    assert_eq!(parse("ends_with(a, '100%_\\')"), col("a").like(r"%100\%\_\\"));

    let product = column("b").arithmetic(ArithmeticOp::Multiply, 2).unwrap();
    let sum = column("a").arithmetic(ArithmeticOp::Add, product).unwrap();
    assert_eq!(parse("a + b * 2 > 3"), sum.clone().gt(3));
    assert_eq!(parse("3 < a + (b * 2)"), sum.clone().gt(3));
    assert_eq!(parse("a + b * 2 > c"), sum.compare_column(CompareOp::Greater, col("c")));
    assert_ne!(parse("(a + b) * 2 > 3"), parse("a + b * 2 > 3"));
    assert_eq!(parse("-a < 1"), parse("0 - a < 1"));
    assert_eq!(parse("+a < 1"), parse("a < 1"));
    assert_eq!(parse("a - 1 - 2 < 0"), parse("(a - 1) - 2 < 0"));
    assert_eq!(parse("a * 2 IS NOT NULL").to_string(), "a * 2 IS NOT NULL");
}

#[test]
fn products_of_literals_are_computed() {
    assert_eq!(parse("a < 2 * 3 + 1"), col("a").lt(7));
    assert_eq!(parse("a < 0.5 * 0.5"), col("a").compare(CompareOp::Less, decimal(25, 2)));
    assert_eq!(parse("a < 5 / 2"), col("a").lt(2.5));
    assert_eq!(parse("a < -5 % 3"), col("a").lt(-2));
    assert_eq!(parse("a < 5.5 % 2"), col("a").compare(CompareOp::Less, decimal(15, 1)));
    assert_eq!(parse("a < 5 % 0"), col("a").lt(Literal::Null));
    assert!(reason("a < 'x' * 2").contains("cannot be computed"));
    assert!(reason("a < DATE '2024-01-01' * 2").contains("cannot be computed"));
}

#[test]
fn distinct_from_is_never_unknown() {
    assert_eq!(parse("a IS NOT DISTINCT FROM 1"), col("a").eq_missing(1));
    assert_eq!(parse("1 IS DISTINCT FROM a"), col("a").eq_missing(1).negate());
    assert_eq!(parse("a IS NOT DISTINCT FROM NULL"), col("a").is_null());
    assert_eq!(parse("a IS DISTINCT FROM NULL"), col("a").is_not_null());
    assert_eq!(parse("a IS NOT DISTINCT FROM b"), col("a").eq_missing_column(col("b")));
    assert!(reason("a IS DISTINCT 1").contains("FROM"));
}

#[test]
fn what_is_computed_is_bounded() {
    let long = vec!["a"; 200].join(" + ");
    assert_eq!(parse(&format!("{long} < 1")).to_string(), format!("{long} < 1"));
    let sum = vec!["a"; 100_000].join(" + ");
    assert!(reason(&format!("{sum} < 1")).contains("more than 256"));
    let calls = format!("{}a{} < 1", "abs(".repeat(1_000), ")".repeat(1_000));
    assert!(reason(&calls).contains("nests deeper"));
    let right = format!("{}a{} < 1", "1 - (".repeat(40), ")".repeat(40));
    assert!(reason(&right).contains("nests deeper than 32"));
    assert!(reason("lower(1) = 'x'").contains("lower wants a column"));
    assert!(reason("sqrt(a) = 1").contains("there is no function `SQRT`"));
}

#[test]
fn comparisons_of_literals_are_folded() {
    assert_eq!(parse("1 = 1.0"), Predicate::Constant(true));
    assert_eq!(parse("'a' < 'A'"), Predicate::Constant(false));
    assert!(reason("1 = 'a'").contains("1 = 'a'"));
    assert!(reason("NULL = 1").contains("neither"));
}

#[test]
fn what_cannot_be_understood_is_quoted_on_one_line() {
    for (sql, piece) in [
        ("", "it ends"),
        ("a <", "it ends"),
        ("a < 1 b", "`b`"),
        ("a < 1; DROP", "`;`"),
        ("(a < 1", "`)`"),
        ("a IN (SELECT 1)", "`SELECT`"),
        ("a IN 5", "`5`"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("a NOT 5", "`5`"),
        ("5", "`5`"),
        ("a < 1 < 2", "`<`"),
        ("a LIKE b", "`b`"),
        ("a = 'x\n", "Unterminated"),
        ("a ~ 'x'", "`~`"),
        ("a LIKE 'x' ESCAPE 'yz'", "`yz`"),
    ] {
        let reason = reason(sql);
        assert!(reason.contains(piece), "{sql}: {reason}");
        assert!(!reason.contains('\n'), "{reason}");
    }
}

#[test]
fn hostile_nesting_is_refused_before_the_stack_is_gone() {
    let deep = 100_000;
    for sql in [
        "(".repeat(deep),
        "NOT ".repeat(deep) + "a",
        "- ".repeat(deep) + "5",
        "a = ".to_owned() + &"CAST(".repeat(deep),
        "a AND (".repeat(deep),
    ] {
        Predicate::parse(&sql).unwrap_err();
    }

    assert!(reason(&"(".repeat(deep)).contains("nests deeper"));
}

#[test]
fn a_long_chain_is_one_flat_list() {
    let sql = vec!["a = 1"; 20_000].join(" OR ");
    assert!(matches!(parse(&sql), Predicate::Or(any) if any.len() == 20_000));
}

#[test]
fn columns_come_once_each_in_order_of_appearance() {
    let predicate = parse("b < 1 AND (a = c OR NOT b IS NULL) AND contains(d.e, 'x')");
    assert_eq!(predicate.columns(), [col("b"), col("a"), col("c"), col("d.e")]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(sql: String) {
        let _ = Predicate::parse(&sql);
    }

    #[test]
    fn no_soup_of_words_makes_it_panic(words in proptest::collection::vec(word(), 0..40)) {
        let _ = Predicate::parse(&words.join(" "));
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "a",
        "b.c",
        "\"q\"",
        "(",
        ")",
        ",",
        ".",
        "<",
        "=",
        "<>",
        "-",
        "+",
        "::",
        "1",
        "2.5",
        "1e5",
        "'x'",
        "''",
        "X'AB'",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "TRUE",
        "BETWEEN",
        "LIKE",
        "ILIKE",
        "ESCAPE",
        "DATE",
        "'2024-01-01'",
        "TIMESTAMP",
        "TIME",
        "INTERVAL",
        "DAY",
        "CAST",
        "AS",
        "INT",
        "DECIMAL",
        "starts_with",
        "contains",
        "lower",
        "year",
        "abs",
        "isnan",
        "EXTRACT",
        "DISTINCT",
        "FROM",
        "UUID",
        "*",
        "/",
        "%",
        "ö",
        "--",
        "/*",
    ])
}
