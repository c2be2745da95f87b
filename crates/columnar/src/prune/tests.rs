//! Pruning never rules out a row that passes, and never claims one that does not.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int32Array, StringArray,
        UInt64Array, new_null_array,
    },
    compute::{SortOptions, concat, interleave},
    datatypes::{DataType, Field, Schema},
};
use proptest::prelude::*;

use super::{PruneVerdict, prune};
use crate::{
    Column, CompareOp, Literal, Predicate,
    file::statistics::PruningStatistics,
    predicate::tests::{PredicateSample, dense_columns, holds, predicate, sample, slice},
};

/// Parts of a sample. Their statistics are exact, wider or absent.
#[derive(Debug)]
struct SampleParts {
    parts: Vec<PredicateSample>,
    /// By part: statistics are absent, or bounds are cut to one byte.
    hidden: Vec<bool>,
    cut: Vec<bool>,
    blooms: bool,
}

impl SampleParts {
    fn by_part(
        &self,
        column: &Column,
        of: impl Fn(usize, &ArrayRef, &[usize]) -> Option<ArrayRef>,
    ) -> Option<ArrayRef> {
        let mut known = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let (array, parents) = dense_columns(part, column);
            let is_valid = |row: &usize| {
                array.is_valid(*row) && parents.as_ref().is_none_or(|nulls| nulls.is_valid(*row))
            };
            let rows: Vec<usize> = (0..array.len()).filter(is_valid).collect();
            let unknown = || new_null_array(array.data_type(), 1);
            known.push(if self.hidden[index] {
                unknown()
            } else {
                of(index, &array, &rows).unwrap_or_else(unknown)
            });
        }

        let known: Vec<&dyn Array> = known.iter().map(AsRef::as_ref).collect();
        Some(concat(&known).unwrap())
    }

    fn bound(&self, column: &Column, is_max: bool) -> Option<ArrayRef> {
        self.by_part(column, |part, array, rows| {
            let row = extreme(array, rows, is_max)?;
            let value = array.slice(row, 1);
            Some(if self.cut[part] { widened(value, is_max) } else { value })
        })
    }
}

/// Returns the row of the least or greatest value that is not NaN.
fn extreme(array: &ArrayRef, rows: &[usize], is_max: bool) -> Option<usize> {
    let is_nan = |row: usize| match array.data_type() {
        DataType::Float16 => array.as_primitive::<arrow::datatypes::Float16Type>().value(row).is_nan(),
        DataType::Float32 => array.as_any().downcast_ref::<Float32Array>().unwrap().value(row).is_nan(),
        DataType::Float64 => array.as_any().downcast_ref::<Float64Array>().unwrap().value(row).is_nan(),
        _ => false,
    };

    let order = arrow::array::make_comparator(array, array, SortOptions::default()).unwrap();
    let rows = rows.iter().copied().filter(|row| !is_nan(*row));
    if is_max { rows.max_by(|a, b| order(*a, *b)) } else { rows.min_by(|a, b| order(*a, *b)) }
}

/// Widens a string bound to at most one character.
fn widened(value: ArrayRef, is_max: bool) -> ArrayRef {
    let Some(text) = value.as_string_opt::<i32>() else { return value };
    let first: String = text.value(0).chars().take(1).collect();
    if first == text.value(0) {
        return value;
    }
    let next = |letter: char| char::from_u32(u32::from(letter) + 1).unwrap();
    Arc::new(StringArray::from(vec![if is_max { first.chars().map(next).collect() } else { first }]))
}

impl PruningStatistics for SampleParts {
    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, false)
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, true)
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        let is_null = Predicate::IsNull(column.clone().into());
        let count = |part: &PredicateSample| {
            (0..part.dense[0].len()).filter(|row| holds(&is_null, part, *row) == Some(true)).count()
        };
        let counts =
            self.parts.iter().zip(&self.hidden).map(|(part, hidden)| (!hidden).then(|| count(part) as u64));
        Some(counts.collect())
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        Some(self.parts.iter().map(|part| Some(part.dense[0].len() as u64)).collect())
    }

    fn may_contain(&self, column: &Column, literals: &[Literal]) -> Option<BooleanArray> {
        let any = |part: &PredicateSample| {
            literals.iter().any(|literal| {
                let equal = column.clone().compare(CompareOp::Equal, literal.clone());
                (0..part.dense[0].len()).any(|row| holds(&equal, part, row) == Some(true))
            })
        };
        self.blooms.then(|| self.parts.iter().map(|part| Some(any(part))).collect())
    }
}

fn parts() -> impl Strategy<Value = SampleParts> {
    (sample(), 1_usize..40, any::<[u8; 8]>(), any::<bool>()).prop_map(|(sample, size, flags, blooms)| {
        let rows = sample.dense[0].len();
        let starts = (0..rows.max(1)).step_by(size);
        let parts: Vec<PredicateSample> =
            starts.map(|start| slice(&sample, start, size.min(rows - start))).collect();
        let count = parts.len();
        let flag = |bit: u8| {
            (0..count).map(move |part| flags[part % 8] & bit != 0 && flags[(part + 1) % 8] & 1 != 0)
        };

        SampleParts { hidden: flag(2).collect(), cut: flag(4).collect(), blooms, parts }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn verdicts_are_true_of_every_row(parts in parts(), predicate in predicate()) {
        let bound = predicate.bind(&parts.parts[0].schema).unwrap();
        let verdicts = prune(&bound, &parts);
        prop_assert_eq!(verdicts.len(), parts.parts.len());
        for (verdict, part) in verdicts.iter().zip(&parts.parts) {
            for row in 0..part.dense[0].len() {
                let passes = holds(&predicate, part, row) == Some(true);
                prop_assert!(*verdict != PruneVerdict::None || !passes, "row {} passes: {}", row, predicate);
                prop_assert!(*verdict != PruneVerdict::All || passes, "row {} fails: {}", row, predicate);
            }
        }
    }

    #[test]
    fn a_part_of_one_value_is_decided(sample in sample(), predicate in predicate(), row: prop::sample::Index) {
        let is_float = |column: &Column| dense_columns(&sample, column).0.data_type().is_floating();
        if sample.dense[0].is_empty() || predicate.columns().iter().any(is_float) {
            return Ok(());
        }

        // All rows are the same, as in a partition.
        let row = row.index(sample.dense[0].len());
        let same = |arrays: &[ArrayRef]| -> Vec<ArrayRef> {
            arrays.iter().map(|array| interleave(&[array.as_ref()], &[(0, row), (0, row)]).unwrap()).collect()
        };
        let part = PredicateSample { schema: sample.schema.clone(), dense: same(&sample.dense), dictionaries: Vec::new() };
        let passes = holds(&predicate, &part, 0) == Some(true);
        let bound = predicate.bind(&part.schema).unwrap();
        let parts = SampleParts { parts: vec![part], hidden: vec![false], cut: vec![false], blooms: false };
        let mixed = bound.columns().iter().any(|column| column.data_type == DataType::Null);
        let verdict = prune(&bound, &parts)[0];

        if !mixed && !has_mixed_pairs(&predicate) {
            prop_assert_eq!(verdict, if passes { PruneVerdict::All } else { PruneVerdict::None }, "{}", predicate);
        }
    }
}

/// Returns whether a predicate compares columns: bounds of columns of different types are not compared.
fn has_mixed_pairs(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::CompareColumns(..) => true,
        Predicate::And(all) | Predicate::Or(all) => all.iter().any(has_mixed_pairs),
        Predicate::Not(predicate) => has_mixed_pairs(predicate),
        _ => false,
    }
}

/// Fixed bounds of two columns.
struct GivenBounds {
    bounds: Vec<(&'static str, ArrayRef, ArrayRef, UInt64Array)>,
}

impl GivenBounds {
    fn of(&self, column: &Column) -> Option<&(&'static str, ArrayRef, ArrayRef, UInt64Array)> {
        self.bounds.iter().find(|(name, ..)| *name == column.name())
    }
}

impl PruningStatistics for GivenBounds {
    fn parts(&self) -> usize {
        self.bounds[0].1.len()
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column).map(|(_, min, ..)| min.clone())
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column).map(|(_, _, max, _)| max.clone())
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        self.of(column).map(|(_, _, _, nulls)| nulls.clone())
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        Some(vec![10; self.parts()].into())
    }
}

fn verdicts(sql: &str, given: &GivenBounds) -> Vec<PruneVerdict> {
    let fields: Vec<Field> =
        given.bounds.iter().map(|(name, min, ..)| Field::new(*name, min.data_type().clone(), true)).collect();
    prune(&Predicate::parse(sql).unwrap().bind(&Schema::new(fields)).unwrap(), given)
}

fn integers() -> GivenBounds {
    let a = (
        Arc::new(Int32Array::from(vec![0, 10, 10])) as ArrayRef,
        Arc::new(Int32Array::from(vec![5, 20, 10])) as ArrayRef,
        UInt64Array::from(vec![0, 1, 0]),
    );
    let b = (
        Arc::new(Int32Array::from(vec![6, 10, 0])) as ArrayRef,
        Arc::new(Int32Array::from(vec![9, 12, 9])) as ArrayRef,
        UInt64Array::from(vec![0, 0, 0]),
    );
    GivenBounds { bounds: vec![("a", a.0, a.1, a.2), ("b", b.0, b.1, b.2)] }
}

#[test]
fn ranges_are_compared_with_bounds() {
    use PruneVerdict::{All, None, Some};
    let given = integers();
    for (sql, expected) in [
        ("a < 6", [All, None, None]),
        ("a <= 10", [All, Some, All]),
        ("a > 5", [None, Some, All]),
        ("a = 10", [None, Some, All]),
        ("a <> 10", [All, Some, None]),
        ("a IN (6, 7, 30)", [None, None, None]),
        ("a NOT IN (6, 7, 30)", [All, Some, All]),
        ("NOT (a < 6)", [None, Some, All]),
        ("a IS NULL", [None, Some, None]),
        ("a IS NOT NULL", [All, Some, All]),
        ("a < b", [All, Some, None]),
        ("a >= b", [None, Some, All]),
        ("a < 6 OR b > 5", [All, All, Some]),
        ("a < 6 AND b > 6", [Some, None, None]),
    ] {
        assert_eq!(verdicts(sql, &given), expected, "{sql}");
    }
}

#[test]
fn prefixes_are_ranges_of_strings() {
    use PruneVerdict::{All, None, Some};
    let strings = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let min = strings(vec!["abca", "aa", "ac", "ab"]);
    let max = strings(vec!["abcz", "b", "ad", "ab"]);
    let given = GivenBounds { bounds: vec![("a", min, max, UInt64Array::from(vec![0, 0, 0, 0]))] };

    for (sql, expected) in [
        ("a LIKE 'abc%'", [All, Some, None, None]),
        ("a NOT LIKE 'abc%'", [None, Some, All, All]),
        ("starts_with(a, 'ab')", [All, Some, None, All]),
        ("a LIKE 'abc%x'", [Some, Some, None, None]),
        ("a LIKE '%b'", [Some, Some, Some, All]),
        ("a ILIKE 'ABC%'", [Some, Some, Some, None]),
    ] {
        assert_eq!(verdicts(sql, &given), expected, "{sql}");
    }
}

#[test]
fn bounds_of_floats_promise_nothing() {
    use PruneVerdict::{None, Some};
    let floats = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let given = GivenBounds { bounds: vec![("a", floats(1.0), floats(2.0), UInt64Array::from(vec![0]))] };
    for (sql, expected) in
        [("a < 3", Some), ("a > 3", None), ("a <> 3", Some), ("NOT a < 3", Some), ("a = 5", None)]
    {
        assert_eq!(verdicts(sql, &given), [expected], "{sql}");
    }
    let nan =
        GivenBounds { bounds: vec![("a", floats(f64::NAN), floats(f64::NAN), UInt64Array::from(vec![0]))] };
    assert_eq!(verdicts("a > 3", &nan), [Some]);
}

#[test]
fn bounds_that_contradict_each_other_say_nothing() {
    let numbers = |value: i32| -> ArrayRef { Arc::new(Int32Array::from(vec![value])) };
    let given = GivenBounds { bounds: vec![("a", numbers(10), numbers(5), UInt64Array::from(vec![0]))] };
    for sql in ["a = 7", "a < 3", "a > 20", "a IN (1, 2)", "a <> 7"] {
        assert_eq!(verdicts(sql, &given), [PruneVerdict::Some], "{sql}");
    }
}

/// Statistics whose bloom filter is empty.
struct EmptyBloomFilter;

impl PruningStatistics for EmptyBloomFilter {
    fn parts(&self) -> usize {
        1
    }

    fn min(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn max(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn null_counts(&self, _: &Column) -> Option<UInt64Array> {
        None
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        None
    }

    fn may_contain(&self, _: &Column, _: &[Literal]) -> Option<BooleanArray> {
        Some(vec![false].into())
    }
}

#[test]
fn bloom_filters_are_asked_about_equalities_only() {
    use PruneVerdict::{None, Some};
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
    ]);
    for (sql, expected) in [
        ("a = 1", None),
        ("s IN ('x', 'y') AND a < 5", None),
        ("a <> 1", Some),
        ("a < 1", Some),
        ("s = 'x' OR s IS NULL", Some),
        ("f = 1.5", None),
        // Minus zero is a different value in a bloom filter.
        ("f = 0", Some),
        ("f IN (0.0, 1.5)", Some),
    ] {
        let bound = Predicate::parse(sql).unwrap().bind(&schema).unwrap();
        assert_eq!(prune(&bound, &EmptyBloomFilter), [expected], "{sql}");
    }
}
