//! Random columns of many types, dense and as dictionaries, and random predicates on them.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
        DictionaryArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array, Int32Array,
        Int64Array, PrimitiveArray, StringArray, StringViewArray, StructArray, Time32SecondArray,
        TimestampMicrosecondArray, UInt8Array, UInt32Array, UInt64Array,
    },
    buffer::NullBuffer,
    compute::take,
    datatypes::{
        ArrowDictionaryKeyType, ArrowNativeType, Field, Fields, Int32Type, Schema, UInt8Type, UInt16Type,
        UInt32Type, i256,
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::{Column, CompareOp, Literal, Predicate, col};

/// The columns of every sample; `s.x` and `s.y` lie in a struct.
const COLUMNS: [&str; 18] = [
    "flag", "i32", "u8", "u64", "dec", "wide", "f64", "f32", "f16", "text", "view", "bin", "fixed", "day",
    "time", "moment", "s.x", "s.y",
];

/// Rows of all columns.
#[derive(Clone, Debug)]
pub(crate) struct PredicateSample {
    pub(crate) schema: Schema,
    /// By top-level column, row by row.
    pub(crate) dense: Vec<ArrayRef>,
    /// The same columns as dictionaries, at the top level and within structs.
    pub(crate) dictionaries: Vec<ArrayRef>,
}

/// Returns the values of a column; in some columns one of them is null.
fn pool(column: &str) -> ArrayRef {
    let floats = [f64::NAN, 0.0, -0.0, 2.5, -3.0, 0.1, 1e300, f64::INFINITY, f64::NEG_INFINITY];
    let texts =
        [Some("abc"), Some(""), Some("ab"), None, Some("äbc%_\\"), Some("ABC"), Some("abcabc"), Some("b")];
    match column {
        "flag" => Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        "i32" => Arc::new(Int32Array::from(vec![i32::MIN, -1, 0, 2, 3, i32::MAX])),
        "u8" => Arc::new(UInt8Array::from(vec![0, 2, 3, 254, 255])),
        "u64" => Arc::new(UInt64Array::from(vec![0, 1 << 53, (1 << 53) + 1, u64::MAX])),
        "dec" => {
            let values = vec![Some(-300), Some(5), None, Some(250), Some(251), Some(0)];
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(15, 2).unwrap())
        }
        "wide" => {
            let values = vec![i256::MAX, i256::MIN, i256::from_i128(25), i256::ZERO];
            Arc::new(Decimal256Array::from(values).with_precision_and_scale(76, -1).unwrap())
        }
        "f64" => Arc::new(Float64Array::from(floats.to_vec())),
        "f32" => Arc::new(Float32Array::from_iter_values(floats.map(|value| value as f32))),
        "f16" => Arc::new(Float16Array::from_iter_values(floats.map(
            <<arrow::datatypes::Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native>::from_f64,
        ))),
        "text" | "s.y" => Arc::new(StringArray::from(texts.to_vec())),
        "view" => Arc::new(StringViewArray::from(texts.to_vec())),
        "bin" => Arc::new(BinaryArray::from(vec![&b"abc"[..], b"", b"\xff\x00", b"ab"])),
        "fixed" => {
            Arc::new(FixedSizeBinaryArray::try_from_iter([b"abc", b"abd", b"\x00\x00\x00"].iter()).unwrap())
        }
        "day" => Arc::new(Date32Array::from(vec![Some(0), Some(-1), Some(19_782), Some(i32::MAX), None])),
        "time" => Arc::new(Time32SecondArray::from(vec![0, 1, 86_399])),
        "moment" => {
            let values = vec![0, -1, 1, 19_782 * 86_400_000_000, i64::MAX];
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone("Europe/Berlin"))
        }
        _ => Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 2, 3, i64::MAX])),
    }
}

/// Returns the top-level columns: all leaves but the last two, and a struct of those two with these nulls.
fn assembled(leaves: &[ArrayRef], s_nulls: &NullBuffer) -> Vec<ArrayRef> {
    let (top, nested) = leaves.split_at(leaves.len() - 2);
    let fields: Fields = ["x", "y"]
        .iter()
        .zip(nested)
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let mut columns = top.to_vec();
    columns.push(Arc::new(StructArray::new(fields, nested.to_vec(), Some(s_nulls.clone()))));
    columns
}

fn keyed<K: ArrowDictionaryKeyType>(values: &ArrayRef, codes: &[Option<usize>]) -> ArrayRef {
    let native = codes.iter().map(|code| K::Native::usize_as(code.unwrap_or(0)));
    let valid: NullBuffer = codes.iter().map(Option::is_some).collect();
    let keys = PrimitiveArray::<K>::new(native.collect(), Some(valid));
    Arc::new(DictionaryArray::new(keys, values.clone()))
}

/// Generates up to 200 rows, sliced so that their null buffers begin within a byte.
pub(crate) fn sample() -> impl Strategy<Value = PredicateSample> {
    let row = (any::<[u8; COLUMNS.len()]>(), proptest::bool::weighted(0.9));
    (vec(row, 1..200), 0_usize..10, any::<[u8; COLUMNS.len()]>()).prop_map(|(rows, offset, kinds)| {
        let mut dense = Vec::new();
        let mut dictionaries = Vec::new();
        for (index, column) in COLUMNS.iter().enumerate() {
            let mut values = pool(column);
            // Some dictionaries are empty: all rows are null.
            if kinds[index] % 16 == 0 {
                values = values.slice(0, 0);
            }
            let code = |byte: u8| {
                usize::from(byte).checked_rem(values.len() + 1).filter(|code| *code < values.len())
            };
            let codes: Vec<Option<usize>> = rows.iter().map(|(bytes, _)| code(bytes[index])).collect();
            let indices: UInt32Array = codes.iter().map(|code| code.map(|code| code as u32)).collect();
            dense.push(take(&values, &indices, None).unwrap());
            dictionaries.push(match kinds[index] % 5 {
                0 => keyed::<UInt8Type>(&values, &codes),
                1 => keyed::<UInt16Type>(&values, &codes),
                2 => keyed::<UInt32Type>(&values, &codes),
                3 => keyed::<Int32Type>(&values, &codes),
                _ => dense.last().unwrap().clone(),
            });
        }

        let s_nulls: NullBuffer = rows.iter().map(|(_, valid)| *valid).collect();
        let offset = offset.min(rows.len());
        let sliced = |leaves: &[ArrayRef]| -> Vec<ArrayRef> {
            assembled(leaves, &s_nulls).iter().map(|array| array.slice(offset, rows.len() - offset)).collect()
        };
        let dense = sliced(&dense);
        let dictionaries = sliced(&dictionaries);
        let names = COLUMNS[..COLUMNS.len() - 2].iter().chain(&["s"]);
        let fields: Vec<Field> = names
            .zip(&dense)
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
            .collect();

        PredicateSample { schema: Schema::new(fields), dense, dictionaries }
    })
}

/// Returns a dense column of a sample by name, nested ones included.
pub(crate) fn dense_columns(sample: &PredicateSample, column: &Column) -> (ArrayRef, Option<NullBuffer>) {
    match column.name().split_once('.') {
        None => {
            let (index, _) = sample.schema.column_with_name(column.name()).unwrap();
            (sample.dense[index].clone(), None)
        }
        Some((root, child)) => {
            let (root, _) = dense_columns(sample, &col(root));
            let parent = root.as_any().downcast_ref::<StructArray>().unwrap();
            (parent.column_by_name(child).unwrap().clone(), parent.nulls().cloned())
        }
    }
}

fn literal(column: &str) -> BoxedStrategy<Literal> {
    let decimal = |unscaled: i128, scale: u8| Literal::Decimal { unscaled, scale };
    let numbers = vec![
        Literal::Null,
        Literal::Integer(2),
        Literal::Integer(-1),
        Literal::Integer(300),
        Literal::Integer((1 << 53) + 1),
        Literal::Integer(i128::MAX),
        Literal::Integer(i128::MIN),
        Literal::Integer(250),
        decimal(25, 1),
        decimal(-25, 1),
        decimal(250, 2),
        decimal(2_505, 3),
        decimal(1, 1),
        decimal(3, 0),
        Literal::Float(0.05),
        Literal::Float(2.5),
        Literal::Float(-0.0),
        Literal::Float(f64::from(0.1_f32)),
        Literal::Float(9_007_199_254_740_992.0),
        Literal::Float(1e300),
        Literal::Float(-1e300),
        Literal::Float(f64::INFINITY),
        Literal::Float(f64::NAN),
    ];

    let texts = ["abc", "", "ab", "zz", "äbc%_\\"].map(|text| Literal::String(text.to_owned())).to_vec();
    let noon = 19_782_i128 * 86_400_000_000_000 + 1;
    let moments = vec![
        Literal::Null,
        Literal::Date(0),
        Literal::Date(19_782),
        Literal::Date(i32::MIN),
        Literal::Timestamp(noon),
        Literal::Timestamp(noon - 1),
        Literal::Timestamp(i128::MAX),
        Literal::Timestamp(1_000),
        Literal::String("2024-02-29".to_owned()),
        Literal::String("1970-01-01T01:00:00.000001+01:00".to_owned()),
    ];

    select(match column {
        "flag" => vec![Literal::Boolean(true), Literal::Boolean(false), Literal::Null],
        "text" | "view" | "s.y" => texts,
        "bin" | "fixed" => {
            [texts, vec![Literal::Binary(b"abc".to_vec()), Literal::Binary(vec![255])]].concat()
        }
        "day" | "moment" => moments,
        "time" => {
            vec![Literal::Time(1_000_000_000), Literal::Time(1), Literal::String("23:59:59".to_owned())]
        }
        _ => numbers,
    })
    .boxed()
}

fn op() -> impl Strategy<Value = CompareOp> {
    select(vec![
        CompareOp::Equal,
        CompareOp::NotEqual,
        CompareOp::Less,
        CompareOp::LessOrEqual,
        CompareOp::Greater,
        CompareOp::GreaterOrEqual,
    ])
}

fn leaf() -> impl Strategy<Value = Predicate> {
    let compare = || {
        select(&COLUMNS[..]).prop_flat_map(|column| {
            (op(), literal(column)).prop_map(move |(op, literal)| col(column).compare(op, literal))
        })
    };
    let is_in = select(&COLUMNS[..]).prop_flat_map(|column| {
        vec(literal(column), 0..12).prop_map(move |literals| col(column).is_in(literals))
    });
    let texts = || select(vec!["text", "view", "s.y"]);
    let patterns =
        select(vec!["abc", "ab%", "%b%", "%c", "_b_", "%", "", "a%c", "%\\%\\_%", "ÄB%", "%b_a%c", "_%_%_"]);
    let like = (texts(), patterns, any::<bool>()).prop_map(|(column, pattern, ignore_case)| {
        if ignore_case { col(column).ilike(pattern) } else { col(column).like(pattern) }
    });
    let starts = (select(vec!["text", "view", "s.y", "bin", "fixed"]), select(vec!["ab", "", "äb", "abcd"]));
    let contains = (texts(), select(vec!["b", "", "bca"]));
    let pairs = select(vec![
        ("i32", "u8"),
        ("u8", "s.x"),
        ("i32", "dec"),
        ("dec", "wide"),
        ("u64", "f64"),
        ("f32", "f64"),
        ("f64", "s.x"),
        ("text", "view"),
        ("text", "s.y"),
        ("bin", "fixed"),
        ("day", "moment"),
        ("i32", "i32"),
        ("flag", "flag"),
    ]);

    prop_oneof![
        1 => any::<bool>().prop_map(Predicate::Constant),
        20 => compare(),
        8 => is_in,
        2 => select(&COLUMNS[..]).prop_map(|column| col(column).is_null()),
        3 => like,
        2 => starts.prop_map(|(column, prefix)| col(column).starts_with(prefix)),
        2 => contains.prop_map(|(column, text)| col(column).contains(text)),
        3 => (pairs, op()).prop_map(|((left, right), op)| col(left).compare_column(op, col(right))),
    ]
}

pub(crate) fn predicate() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Predicate::And),
            vec(inner.clone(), 0..4).prop_map(Predicate::Or),
            inner.prop_map(|predicate| Predicate::Not(Box::new(predicate))),
        ]
    })
}
