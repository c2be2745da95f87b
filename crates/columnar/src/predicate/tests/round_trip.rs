//! A predicate written as SQL parses as the same predicate.

use proptest::{collection::vec, prelude::*, sample::select};

use crate::{ArithmeticOp, Column, CompareOp, Function, Literal, Operand, Predicate, col};

fn name() -> impl Strategy<Value = Column> {
    let odd = select(vec![
        "", "and", "Not", "a.b", "a.1", "x", "date", "order by", "a\"b", "ö", "_", "a..b", "CAST", "n",
    ]);
    prop_oneof![odd.prop_map(col), "[a-z_.A-Z0-9 \"']{1,8}".prop_map(col)]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::from),
        any::<i128>().prop_map(Literal::from),
        any::<i16>().prop_map(Literal::from),
        (any::<i128>(), any::<u8>()).prop_map(|(unscaled, scale)| Literal::Decimal { unscaled, scale }),
        any::<f64>().prop_filter("NaN is not itself", |value| !value.is_nan()).prop_map(Literal::from),
        any::<String>().prop_map(Literal::from),
        vec(any::<u8>(), 0..5).prop_map(Literal::from),
        any::<i32>().prop_map(Literal::Date),
        (0..86_400_000_000_000_i64).prop_map(Literal::Time),
        any::<i128>().prop_map(Literal::Timestamp),
        any::<i64>().prop_map(|nanos| Literal::Timestamp(nanos.into())),
        any::<i128>().prop_map(Literal::Duration),
        any::<i16>().prop_map(|hours| Literal::Duration(i128::from(hours) * 3_600_000_000_000)),
    ]
}

/// Generates columns and values computed from them.
fn operand() -> impl Strategy<Value = Operand> {
    let number = prop_oneof![
        any::<i64>().prop_map(Literal::from),
        (any::<i64>(), 0_u8..20)
            .prop_map(|(unscaled, scale)| Literal::Decimal { unscaled: unscaled.into(), scale }),
        (-1e9..1e9).prop_map(Literal::from),
    ];

    let functions = vec![
        Function::Lower,
        Function::Upper,
        Function::Abs,
        Function::Year,
        Function::Month,
        Function::Day,
        Function::IsNan,
    ];

    let ops = vec![
        ArithmeticOp::Add,
        ArithmeticOp::Subtract,
        ArithmeticOp::Multiply,
        ArithmeticOp::Divide,
        ArithmeticOp::Modulo,
    ];

    name().prop_map(Operand::from).prop_recursive(4, 12, 2, move |inner| {
        let op = select(ops.clone());
        let number = number.clone();
        prop_oneof![
            (inner.clone(), select(functions.clone())).prop_map(|(of, function)| of.call(function).unwrap()),
            (inner.clone(), op.clone(), inner.clone())
                .prop_map(|(left, op, right)| left.arithmetic(op, right).unwrap()),
            (inner.clone(), op.clone(), number.clone())
                .prop_map(|(left, op, right)| left.arithmetic(op, right).unwrap()),
            (number, op, inner)
                .prop_map(|(left, op, right)| Operand::from(left).arithmetic(op, right).unwrap()),
        ]
    })
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let ops = vec![
        CompareOp::Equal,
        CompareOp::NotEqual,
        CompareOp::Less,
        CompareOp::LessOrEqual,
        CompareOp::Greater,
    ];

    let leaf = prop_oneof![
        any::<bool>().prop_map(Predicate::Constant),
        (operand(), select(ops.clone()), literal())
            .prop_map(|(column, op, literal)| column.compare(op, literal)),
        (operand(), select(ops), operand()).prop_map(|(left, op, right)| left.compare_column(op, right)),
        (operand(), vec(literal(), 0..4)).prop_map(|(column, literals)| column.is_in(literals)),
        operand().prop_map(Operand::is_null),
        (operand(), any::<String>()).prop_map(|(column, pattern)| column.like(pattern)),
        (operand(), any::<String>()).prop_map(|(column, pattern)| column.ilike(pattern)),
        (operand(), any::<String>()).prop_map(|(column, prefix)| column.starts_with(prefix)),
        (operand(), any::<String>()).prop_map(|(column, text)| column.contains(text)),
    ];

    leaf.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Predicate::And),
            vec(inner.clone(), 2..4).prop_map(Predicate::Or),
            inner.prop_map(|predicate| Predicate::Not(Box::new(predicate))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_written_reads_as_the_same(predicate in predicate()) {
        let sql = predicate.to_string();
        match Predicate::parse(&sql) {
            Ok(read) => prop_assert_eq!(read, predicate, "{}", sql),
            Err(error) => prop_assert!(false, "{}: {}", sql, error),
        }
    }
}

#[test]
fn lists_of_one_and_of_none_mean_the_same_when_read() {
    assert_eq!(Predicate::And(Vec::new()).to_string(), "TRUE");
    assert_eq!(Predicate::Or(Vec::new()).to_string(), "FALSE");
    assert_eq!(Predicate::Or(vec![col("a").eq(1)]).to_string(), "a = 1");
}

#[test]
fn sql_is_as_a_person_would_write_it() {
    for sql in [
        "l_quantity < 24 AND l_shipmode IN ('AIR', 'MAIL')",
        "NOT (a = 0.05 OR b.c IS NOT NULL)",
        "day >= DATE '1994-01-01' AND \"when\" < TIMESTAMP '2024-01-01 00:00:00.5'",
        "starts_with(a, 'it''s') OR a = -1.5e-7 OR b = X'00FF'",
        "lower(a) LIKE '%x' OR isnan(f) OR year(d) IN (2023, 2024)",
        "(a + b) * 2 > 3 AND a % -2 = 0.5 AND a - (b - 1) < abs(c)",
    ] {
        let sql = sql.replace("\"when\"", "at");
        assert_eq!(Predicate::parse(&sql).unwrap().to_string(), sql);
    }
}
