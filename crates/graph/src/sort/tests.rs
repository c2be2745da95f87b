//! Tests of the external sort.

#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{path::Path, sync::Arc};

use arrow::{
    array::{AsArray, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{Error, Result};

/// Order by the first column alone.
#[derive(Clone, Copy)]
struct ByFirstColumn;

impl RunOrder for ByFirstColumn {
    type Key = i64;

    const OF: &'static str = "rows";

    fn row_key(&self, batch: &RecordBatch, row: usize) -> Option<i64> {
        batch.columns().first()?.as_primitive_opt::<Int64Type>()?.values().get(row).copied()
    }
}

/// Rows: their sort key, and their number in order of arrival.
type NumberedRows = Vec<(i64, i64)>;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("key"), field("number")]))
}

fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let keys: Int64Array = rows.iter().map(|(key, _)| *key).collect::<Vec<i64>>().into();
    let numbers: Int64Array = rows.iter().map(|(_, number)| *number).collect::<Vec<i64>>().into();
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(numbers)]).unwrap()
}

fn rows(batch: &RecordBatch) -> NumberedRows {
    let values = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();
    values(0).into_iter().zip(values(1)).collect()
}

/// Spills one run after another; also returns all rows in order of arrival.
fn spilled(folder: &Path, runs: &[Vec<i64>], row_bytes: usize) -> (SpilledRuns<ByFirstColumn>, NumberedRows) {
    let mut spilled = SpilledRuns::new(ByFirstColumn, schema(), 0, folder.to_owned());
    let mut all = Vec::new();
    for keys in runs {
        let mut run: NumberedRows = keys.iter().copied().zip(all.len() as i64..).collect();
        all.extend_from_slice(&run);
        run.sort_by_key(|(key, _)| *key);
        spilled.spill(row_bytes, |max_rows| run.chunks(max_rows).map(|rows| Ok(batch(rows)))).unwrap();
        assert!(spilled.levels().all(|runs| runs <= FAN_IN));
    }

    (spilled, all)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_row_is_written_once_per_level() {
    let folder = tempfile::tempdir().unwrap();
    for (count, levels) in [(1, 1), (2, 1), (64, 1), (65, 2), (300, 2), (4_096, 2), (4_097, 3)] {
        let keys = |run: i64| (0..3).map(|row| (run * 7_919 + row * 104_729) % 1_000).collect();
        let runs: Vec<Vec<i64>> = (0..count).map(keys).collect();
        let (mut sort, mut wanted) = spilled(folder.path(), &runs, 1 << 10);
        wanted.sort_by_key(|(key, _)| *key);

        sort.reduce().unwrap();
        assert!(sort.levels().sum::<usize>() <= FAN_IN, "{count} runs");
        let n = wanted.len() as u64;
        assert!((n..=n * levels).contains(&sort.written_rows), "{count} runs: {}", sort.written_rows);

        let merged: Vec<RecordBatch> = sort.merge().unwrap().map(Result::unwrap).collect();
        assert!(merged.iter().all(|batch| (1..=4).contains(&batch.num_rows())));
        assert!(merged.iter().flat_map(rows).eq(wanted), "{count} runs");
        assert!(is_empty(folder.path()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_come_in_the_order_of_a_stable_sort(
        runs in vec(vec(0_i64..9, 0..12), 0..200),
        row_bytes in 1_usize..5_000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (sort, mut wanted) = spilled(folder.path(), &runs, row_bytes);
        wanted.sort_by_key(|(key, _)| *key);
        let merged = sort.merge().unwrap().flat_map(|batch| rows(&batch.unwrap()));
        prop_assert_eq!(merged.collect::<NumberedRows>(), wanted);
        prop_assert!(is_empty(folder.path()));
    }
}

#[test]
fn a_sort_that_fails_or_is_given_up_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<Vec<i64>> = (0..100).map(|run| vec![run, run + 1, run + 2]).collect();
    let (mut sort, _) = spilled(folder.path(), &runs, 1 << 10);
    assert!(is_empty(folder.path()));

    let failure = || Error::Ended { reason: "the source is gone".to_owned() };
    let failed = sort.spill(16, |_| [Ok(batch(&[(1, 300)])), Err(failure())].into_iter());
    assert_eq!(failed.unwrap_err().to_string(), failure().to_string());
    assert!(is_empty(folder.path()));

    let mut merge = sort.merge().unwrap();
    assert_eq!(rows(&merge.next().unwrap().unwrap())[0], (0, 0));
    assert!(is_empty(folder.path()));
    drop(merge);
    assert!(is_empty(folder.path()));
}

#[test]
fn the_error_of_a_missing_folder_names_it_and_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut sort = SpilledRuns::new(ByFirstColumn, schema(), 0, folder.path().join("none"));
    let error = sort.spill(16, |_| [Ok(batch(&[(1, 0)]))].into_iter()).unwrap_err().to_string();
    assert!(error.contains("none: rows that do not fit into memory cannot be sorted there: "), "{error}");
}

#[test]
fn batches_of_a_merge_fit_into_half_of_the_memory() {
    assert_eq!(batch_rows(64 << 20, 16), (64 << 20) / 2 / FAN_IN / 16);
    assert_eq!(batch_rows(usize::MAX, 16), MAX_ROWS);
    assert_eq!(batch_rows(usize::MAX, 1 << 10), MAX_BYTES >> 10);
    assert_eq!(batch_rows(0, 16), MIN_BYTES / 16);
    assert_eq!(batch_rows(0, 1 << 20), 1);

    // Rows are longer than announced.
    let folder = tempfile::tempdir().unwrap();
    let (sort, _) = spilled(folder.path(), &[(0..1_000).collect(), (0..1_000).collect()], 1);
    let merged: Vec<usize> = sort.merge().unwrap().map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(merged.iter().sum::<usize>(), 2_000);
    assert!(merged.iter().all(|rows| *rows <= MIN_BYTES / 16), "{merged:?}");
}
