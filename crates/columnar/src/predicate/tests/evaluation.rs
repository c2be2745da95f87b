//! Every way to evaluate a predicate agrees with the naive one.

use std::{slice::from_ref, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, DictionaryArray, Int32Array, LargeStringArray, StringArray, UInt8Array},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::{DataType, Field, Schema, UInt16Type},
};
use proptest::prelude::*;

use super::{PredicateSample, holds, predicate, sample};
use crate::{
    Predicate, col,
    predicate::{BoundPredicate, Evaluator},
};

/// Returns the arrays that a filter needs.
fn roots(bound: &BoundPredicate, columns: &[ArrayRef]) -> Vec<ArrayRef> {
    bound.roots().iter().map(|root| columns[root.index].clone()).collect()
}

fn evaluate(evaluator: &mut Evaluator, bound: &BoundPredicate, columns: &[ArrayRef]) -> Vec<bool> {
    evaluator.evaluate(&roots(bound, columns), columns[0].len()).unwrap().iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn dictionaries_and_dense_columns_agree_with_the_naive_evaluation(sample in sample(), predicate in predicate()) {
        let rows = sample.dense[0].len();
        let expected: Vec<bool> = (0..rows).map(|row| holds(&predicate, &sample, row) == Some(true)).collect();
        let bound = predicate.bind(&sample.schema).unwrap();
        let mut evaluator = bound.evaluator();
        prop_assert_eq!(&evaluate(&mut evaluator, &bound, &sample.dense), &expected, "dense: {}", predicate);
        prop_assert_eq!(&evaluate(&mut evaluator, &bound, &sample.dictionaries), &expected, "{}", predicate);
        // Cached results for dictionaries do not change the outcome.
        prop_assert_eq!(&evaluate(&mut evaluator, &bound, &sample.dictionaries), &expected, "again: {}", predicate);
    }

    #[test]
    fn a_schema_of_dictionaries_binds_to_their_values(sample in sample(), predicate in predicate()) {
        let fields = sample.schema.fields().iter().zip(&sample.dictionaries);
        let fields: Vec<Field> =
            fields.map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true)).collect();
        let bound = predicate.bind(&Schema::new(fields)).unwrap();
        let rows = sample.dense[0].len();
        let expected: Vec<bool> = (0..rows).map(|row| holds(&predicate, &sample, row) == Some(true)).collect();
        prop_assert_eq!(evaluate(&mut bound.evaluator(), &bound, &sample.dictionaries), expected, "{}", predicate);
    }

    #[test]
    fn constants_are_told_before_any_row_is_seen(sample in sample(), predicate in predicate()) {
        let bound = predicate.bind(&sample.schema).unwrap();
        if let Some(constant) = bound.constant() {
            prop_assert!(bound.roots().is_empty());
            for row in 0..sample.dense[0].len() {
                prop_assert_eq!(holds(&predicate, &sample, row) == Some(true), constant, "{}", predicate);
            }
        }
    }
}

fn bind(predicate: &Predicate, data_type: DataType) -> BoundPredicate {
    predicate.bind(&Schema::new(vec![Field::new("a", data_type, true)])).unwrap()
}

#[test]
fn rows_of_an_empty_dictionary_are_all_null() {
    let keys = UInt8Array::new(vec![0; 3].into(), Some(NullBuffer::new_null(3)));
    let array: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::new_null(0))));
    for (predicate, passing) in [(col("a").eq("x"), 0), (col("a").not_eq("x"), 0), (col("a").is_null(), 3)] {
        let bound = bind(&predicate, DataType::Utf8);
        let rows = bound.evaluator().evaluate(from_ref(&array), 3).unwrap();
        assert_eq!(rows.count_set_bits(), passing, "{predicate}");
    }
}

#[test]
fn a_dictionary_is_asked_again_only_when_it_is_another() {
    let bound = bind(&col("a").eq("x"), DataType::Utf8);
    let mut evaluator = bound.evaluator();
    let first: ArrayRef = Arc::new(vec!["x", "y", "x"].into_iter().collect::<DictionaryArray<UInt16Type>>());
    let second: ArrayRef = Arc::new(vec!["y", "x", "x"].into_iter().collect::<DictionaryArray<UInt16Type>>());

    for _ in 0..2 {
        for (array, expected) in [(&first, [true, false, true]), (&second, [false, true, true])] {
            let rows = evaluator.evaluate(from_ref(array), 3).unwrap();
            assert_eq!(rows, BooleanBuffer::from(&expected[..]));
        }
    }
}

#[test]
fn a_dictionary_may_have_more_values_than_its_keys_can_name() {
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..300));
    let keys = UInt8Array::from(vec![0, 100, 255]);
    let array: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
    for (predicate, expected) in [
        (col("a").gt_eq(100), [false, true, true]),
        (col("a").gt_eq(260), [false, false, false]),
        (col("a").not_eq(100), [true, false, true]),
    ] {
        let rows = bind(&predicate, DataType::Int32).evaluator().evaluate(from_ref(&array), 3).unwrap();
        assert_eq!(rows, BooleanBuffer::from(&expected[..]), "{predicate}");
    }
}

/// Expanded, the values would exceed the offsets of an array.
#[test]
fn dictionaries_of_one_long_value_are_compared_with_each_other() {
    const ROWS: usize = 65_536;
    let coded = |values: ArrayRef| -> ArrayRef {
        let keys = UInt8Array::from(vec![0; ROWS]);
        Arc::new(DictionaryArray::new(keys, values))
    };
    let long = "x".repeat(33_000);
    let left = coded(Arc::new(StringArray::from(vec![long.as_str()])));
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true));
    let bound = Predicate::parse("a = b").unwrap().bind(&Schema::new(fields.to_vec())).unwrap();

    for (text, passing) in [(long.as_str(), ROWS), ("y", 0)] {
        let same_type: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let other_type: ArrayRef = Arc::new(LargeStringArray::from(vec![text]));
        for right in [same_type, other_type] {
            let rows = bound.evaluator().evaluate(&[left.clone(), coded(right)], ROWS).unwrap();
            assert_eq!(rows.count_set_bits(), passing);
        }
    }
}

#[test]
fn arrays_that_do_not_fit_are_errors() {
    let bound = bind(&col("a").eq("x"), DataType::Utf8);
    let wrong: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let short: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    for columns in [vec![wrong], vec![short], vec![]] {
        bound.evaluator().evaluate(&columns, 2).unwrap_err();
    }
}

#[test]
fn integers_of_another_width_than_the_schema_has_are_compared_as_they_are() {
    let bound = bind(&col("a").lt(300), DataType::Int64);
    let narrow: ArrayRef = Arc::new(UInt8Array::from(vec![Some(255), None]));
    let rows = bound.evaluator().evaluate(&[narrow], 2).unwrap();
    assert_eq!(rows, BooleanBuffer::from(&[true, false][..]));
}

#[test]
fn only_the_columns_that_decide_are_asked_for() {
    let sample_schema = Schema::new(vec![
        Field::new("a", DataType::UInt8, true),
        Field::new("b", DataType::Int32, true),
        Field::new("c", DataType::Int32, true),
    ]);
    let predicate = Predicate::parse("(a > 300 AND b = 1) OR c = 2").unwrap();
    let bound = predicate.bind(&sample_schema).unwrap();
    let names: Vec<&str> = bound.roots().iter().map(|root| root.name.as_str()).collect();
    assert_eq!((names, bound.roots()[0].index), (vec!["c"], 2));
}

/// Slices the rows of a sample.
pub(crate) fn slice(sample: &PredicateSample, offset: usize, rows: usize) -> PredicateSample {
    let slice = |arrays: &[ArrayRef]| arrays.iter().map(|array| array.slice(offset, rows)).collect();
    PredicateSample {
        schema: sample.schema.clone(),
        dense: slice(&sample.dense),
        dictionaries: slice(&sample.dictionaries),
    }
}
