//! Dictionaries that several row groups share, and the statistics of each row group.

use std::collections::BTreeSet;

use arrow::compute::{concat, take};
use parquet::file::metadata::RowGroupMetaData;

use super::*;

/// Returns rows of a dictionary, with these keys.
fn of_keys(values: &ArrayRef, keys: impl IntoIterator<Item = Option<i32>>) -> RecordBatch {
    let keys: Int32Array = keys.into_iter().collect();
    of("x", Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values.clone()).unwrap()))
}

/// Returns whether all data pages are dictionary-encoded.
pub(super) fn is_only_codes(group: &RowGroupMetaData) -> bool {
    let mask = group.column(0).page_encoding_stats_mask().unwrap();
    mask.is_only(parquet::basic::Encoding::RLE_DICTIONARY)
}

/// Returns the bytes of the dictionary page, header included.
pub(super) fn dictionary_bytes(group: &RowGroupMetaData) -> i64 {
    let column = group.column(0);
    column.data_page_offset() - column.dictionary_page_offset().unwrap()
}

/// Returns whether a bound is the value, or its prefix with up to `others` changed bytes at the end.
fn is_bound(bound: Option<&[u8]>, value: Option<&str>, others: usize) -> bool {
    let (Some(bound), Some(value)) = (bound, value.map(str::as_bytes)) else {
        return bound.is_none() && value.is_none();
    };
    let same = bound.len().saturating_sub(others);
    bound == value || bound.len() >= 16 && value.starts_with(&bound[..same]) && (others == 0 || bound > value)
}

/// Checks all claims of the file about its only column, which has texts.
pub(super) fn assert_statistics(bytes: &Bytes, case: &str) {
    let metadata = reader(bytes).metadata().clone();
    let rows = read(bytes);
    let texts = rows.column(0).as_string::<i32>();
    let mut start = 0;

    for (at, group) in metadata.row_groups().iter().enumerate() {
        let count = group.num_rows() as usize;
        let some = texts.slice(start, count);
        start += count;
        let Some(Statistics::ByteArray(statistics)) = group.column(0).statistics() else { panic!("{case}") };
        let distinct: BTreeSet<&str> = some.iter().flatten().collect();
        // The number of distinct values without codes is not known.
        let known = is_only_codes(group).then_some(distinct.len() as u64);
        assert_eq!(statistics.distinct_count(), known, "{case}: row group {at}");
        assert_eq!(statistics.null_count_opt(), Some(some.null_count() as u64), "{case}: row group {at}");
        assert_eq!(statistics.min_bytes_opt(), distinct.first().map(|text| text.as_bytes()), "{case}: {at}");
        assert_eq!(statistics.max_bytes_opt(), distinct.last().map(|text| text.as_bytes()), "{case}: {at}");

        let ColumnIndexMetaData::BYTE_ARRAY(index) = &metadata.column_index().unwrap()[at][0] else {
            panic!()
        };
        let pages = metadata.offset_index().unwrap()[at][0].page_locations();
        let mut ends = pages.iter().skip(1).map(|page| page.first_row_index as usize).chain([count]);

        for (page, location) in pages.iter().enumerate() {
            let first = location.first_row_index as usize;
            let some = some.slice(first, ends.next().unwrap() - first);
            let min = some.iter().flatten().min();
            let max = some.iter().flatten().max();
            assert!(is_bound(index.min_value(page), min, 0), "{case}: {at}");
            assert!(is_bound(index.max_value(page), max, 1), "{case}: {at}");
            assert_eq!(index.null_count(page), Some(some.null_count() as i64), "{case}: {at}");
        }
    }
}

#[tokio::test]
async fn a_dictionary_that_all_row_groups_need_is_the_same_in_all() {
    let values = strings(500);
    let batch = of("x", dictionary::<Int32Type>(values, 40_000, 0.1, 3));
    let all = ColumnOptions::default().with_bloom_filter(0.01);
    let options =
        ParquetOptions::default().with_row_group_rows(10_000).with_page_rows(700).with_all_columns(all);

    for version_2 in [false, true] {
        let options = options.clone().with_version_2(version_2);
        let bytes = assert_comes_back(std::slice::from_ref(&batch), options).await;
        assert_statistics(&bytes, "shared");
        let metadata = reader(&bytes).metadata().clone();
        let page = |group: &RowGroupMetaData| {
            let start = group.column(0).dictionary_page_offset().unwrap() as usize;
            bytes.slice(start..start + dictionary_bytes(group) as usize)
        };
        let first = page(metadata.row_group(0));
        assert_eq!(metadata.num_row_groups(), 4);
        assert!(metadata.row_groups().iter().all(|group| page(group) == first));
    }
}

#[tokio::test]
async fn a_dictionary_of_which_rows_need_little_is_not_stored_for_them() {
    let values = strings(10_000);
    // Sorted by value: each row group needs other values.
    let sorted = of_keys(&values, (0..40_000).map(|row| Some(row / 4)));
    let options = ParquetOptions::default().with_row_group_rows(10_000).with_page_rows(900);
    let bytes = assert_comes_back(&[sorted], options.clone()).await;
    assert_statistics(&bytes, "sorted");
    let groups = reader(&bytes).metadata().row_groups().to_vec();
    let few = groups.iter().map(dictionary_bytes).max().unwrap();

    let all = dictionary_bytes(
        reader(&assert_comes_back(&[of_keys(&values, (0..10_000).map(Some))], options.clone()).await)
            .metadata()
            .row_group(0),
    );
    assert!(few < all / 3, "{few} of {all}");
    // All of the dictionary, then a tenth of it: the kept codebook is reused once more, and then not again.
    let keys = (0..40_000).chain((0..80_000).map(|row| row % 1_000)).map(|row| Some(row % 10_000));
    let options = options.with_row_group_rows(40_000);
    let bytes = assert_comes_back(&[of_keys(&values, keys)], options).await;
    assert_statistics(&bytes, "less");
    let groups = reader(&bytes).metadata().row_groups().to_vec();
    let sizes: Vec<i64> = groups.iter().map(dictionary_bytes).collect();
    assert!(sizes[1] <= sizes[0] && sizes[2] < all / 5, "{sizes:?}");
}

#[tokio::test]
async fn equal_rows_make_equal_files_where_that_is_asked_for() {
    let keys: Vec<i32> = (0..30_000).map(|row| (row * row + row / 7) % 600).collect();
    let values = strings(900);
    // The same rows with all values, with the values in another order, and with only the values seen so far.
    let straight = of_keys(&values, keys.iter().copied().map(Some));
    let turned = take(&values, &Int32Array::from_iter_values((0..900).rev()), None).unwrap();
    let turned = of_keys(&turned, keys.iter().map(|key| Some(899 - key)));
    let growing = keys.chunks(4_000).map(|some| {
        let max_key = *some.iter().max().unwrap() as usize;
        of_keys(&values.slice(0, max_key + 1), some.iter().copied().map(Some))
    });
    let growing: Vec<RecordBatch> = growing.collect();
    let options = ParquetOptions::default().with_row_group_rows(9_000).with_page_rows(700);
    let mut files = Vec::new();

    for batches in [std::slice::from_ref(&straight), std::slice::from_ref(&turned), &growing] {
        files.push(assert_comes_back(batches, options.clone().with_reproducible(true)).await);
    }
    assert!(files.iter().all(|file| *file == files[0]));
    assert_statistics(&files[0], "reproducible");
    assert_ne!(assert_comes_back(&[turned], options.clone()).await, files[0]);
}

#[tokio::test]
async fn how_large_dictionaries_are_that_rows_come_with_does_not_end_row_groups() {
    let keys: Vec<Option<i32>> =
        (0..60_000).map(|row| (row % 97 > 0).then_some((row % 9_973 * 7 + row / 7) % 600)).collect();
    let values = strings(600);
    let many = concat(&[&values, &strings(300_000)]).unwrap();
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..60_000).map(|row| row * 7919 % 60_013)));
    let all = ColumnOptions::default().with_bloom_filter(0.01);
    let options = ParquetOptions::default().with_all_columns(all).with_reproducible(true);

    for memory in [ByteSize::kib(600), ByteSize::mib(256)] {
        let mut files = Vec::new();
        for values in [&values, &many] {
            let texts = of_keys(values, keys.iter().copied());
            let batch = RecordBatch::try_from_iter([("x", texts.column(0).clone()), ("y", numbers.clone())]);
            let batch = batch.unwrap();
            let batches: Vec<RecordBatch> = (0..6).map(|at| batch.slice(at * 10_000, 10_000)).collect();
            files.push(assert_comes_back(&batches, options.clone().with_memory(memory)).await);
        }

        let groups = reader(&files[0]).metadata().num_row_groups();
        assert_eq!(groups > 1, memory < ByteSize::mib(1), "{groups} row groups");
        assert!(files[0] == files[1], "{memory}");
    }
}

#[tokio::test]
async fn pages_without_nulls_have_none_marked() {
    let values = strings(9);
    let options = ParquetOptions::default().with_page_rows(1_000).with_reproducible(true);
    let keys = |last: Option<i32>| (0..50_000).map(|row| Some(row % 9)).chain([last]).collect::<Vec<_>>();
    let whole = assert_comes_back(&[of_keys(&values, keys(Some(4)))], options.clone()).await;
    let with_null = assert_comes_back(&[of_keys(&values, keys(None))], options).await;
    assert!(with_null.len() < whole.len() + 200, "{} and {}", with_null.len(), whole.len());
}

#[tokio::test]
async fn dictionaries_come_and_go_between_and_within_row_groups() {
    let with_null: ArrayRef =
        Arc::new((0..40).map(|at| (at != 7).then(|| format!("n{at}"))).collect::<StringArray>());
    let twice: ArrayRef = Arc::new((0..90).map(|at| Some(format!("t{}", at % 50))).collect::<StringArray>());
    let long: ArrayRef =
        Arc::new((0..30).map(|at| Some(format!("{}{at}", "same begin ".repeat(3)))).collect::<StringArray>());
    let pool = [strings(100), strings(100), with_null, twice, long, strings(3_000)];

    for seed in 0..120 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut values = 0;
        let batches: Vec<RecordBatch> = (0..random.random_range(1..12))
            .map(|_| {
                if random.random_bool(0.3) {
                    values = random.random_range(0..pool.len());
                }
                let values = &pool[values];
                let rows = random.random_range(0..2_000);
                let nulls = [0.0, 0.2, 1.0][random.random_range(0..3_usize)];
                let key_count = random.random_range(1..=values.len()) as i32;
                let keys: Vec<Option<i32>> = (0..rows)
                    .map(|_| (!random.random_bool(nulls)).then(|| random.random_range(0..key_count)))
                    .collect();

                of_keys(values, keys)
            })
            .collect();

        let options = ParquetOptions::default()
            .with_row_group_rows(random.random_range(1..5_000))
            .with_page_rows(random.random_range(1..1_500))
            .with_memory(ByteSize::kib([64, 1024, 65_536][random.random_range(0..3_usize)]));
        let bytes = assert_comes_back(&batches, options).await;
        assert_statistics(&bytes, &format!("seed {seed}"));
    }
}

#[tokio::test]
async fn bounds_leave_out_what_is_no_number() {
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..300).map(|at| if at % 3 == 0 { f64::NAN } else { f64::from(at) - 150.0 }),
    ));
    let keys = (0..30_000).map(|row| Some(row * 7 % 300));
    let options = ParquetOptions::default().with_row_group_rows(6_000).with_page_rows(500);
    let (bytes, _) = write(&[of_keys(&values, keys)], options).await.unwrap();
    let metadata = reader(&bytes).metadata().clone();

    for group in metadata.row_groups() {
        let Some(Statistics::Double(statistics)) = group.column(0).statistics() else { panic!() };
        assert_eq!((statistics.min_opt(), statistics.max_opt()), (Some(&-149.0), Some(&149.0)));
    }
}

#[tokio::test]
async fn what_is_kept_for_the_next_row_group_counts_as_memory() {
    let texts: ArrayRef = Arc::new((0..5_000).map(|at| Some(format!("{at:0>200}"))).collect::<StringArray>());
    let batch = of("x", dictionary::<Int32Type>(texts, 200_000, 0.0, 5));
    let rows = |bytes: &Bytes| -> Vec<i64> {
        reader(bytes).metadata().row_groups().iter().map(|group| group.num_rows()).collect()
    };
    // A megabyte of values: kept if there is much memory, rebuilt for each row group if there is little.

    for memory in [ByteSize::mib(64), ByteSize::mib(3)] {
        let options = ParquetOptions::default().with_row_group_rows(50_000).with_memory(memory);
        let bytes = assert_comes_back(std::slice::from_ref(&batch), options).await;
        assert_eq!(rows(&bytes), [50_000; 4], "{memory}");
    }
}

#[tokio::test]
async fn a_dictionary_without_values_is_that_of_nulls() {
    let none: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let batches = [of_keys(&none, vec![None; 700]), of_keys(&none, vec![None; 700])];
    let bytes = assert_comes_back(&batches, ParquetOptions::default().with_row_group_rows(300)).await;
    assert_statistics(&bytes, "no values");
}

#[tokio::test]
async fn values_that_are_stored_as_another_type_are_shared_too() {
    let days: ArrayRef = Arc::new(Date64Array::from_iter_values((0..300).map(|day| day * 86_400_000)));
    let keys = (0..9_000).map(|row| (row % 11 > 0).then_some(row * 7 % 300));
    let batch = of_keys(&days, keys);
    let options = ParquetOptions::default().with_row_group_rows(3_000);
    let (bytes, _) = write(&[batch.slice(0, 5_000), batch.slice(5_000, 4_000)], options).await.unwrap();
    let found = cast(read(&bytes).column(0), &DataType::Date64).unwrap();
    assert_eq!(&found, plain(&batch).column(0));
    let groups = reader(&bytes).metadata().row_groups().to_vec();
    let sizes: Vec<i64> = groups.iter().map(dictionary_bytes).collect();
    assert!(groups.len() == 3 && sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}

#[tokio::test]
async fn a_large_dictionary_that_is_half_used_makes_no_row_groups_of_its_own() {
    let texts: ArrayRef =
        Arc::new((0..4_000).map(|at| Some(format!("{at:05}{}", "x".repeat(500)))).collect::<StringArray>());
    let keys = (0..60_000).map(|row| Some(row * 7 % 2_200));
    let options = ParquetOptions::default().with_row_group_size(ByteSize::mib(2));
    let bytes = assert_comes_back(&[of_keys(&texts, keys)], options).await;
    let groups = reader(&bytes).metadata().row_groups().to_vec();
    assert_eq!(groups.len(), 1);
    assert!(dictionary_bytes(&groups[0]) < 2_300 * 520);
}

/// Returns the values of each row group's dictionary, as they are in the file.
fn dictionaries(bytes: &Bytes) -> Vec<Vec<String>> {
    let groups = reader(bytes).metadata().num_row_groups();
    let dictionary = |group: usize| {
        let options = ArrowReaderOptions::new();
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options).unwrap();
        let batch = reader.with_row_groups(vec![group]).with_batch_size(1 << 20).build().unwrap().next();
        let column = batch.unwrap().unwrap().column(0).clone();
        let values = column.as_any_dictionary().values().clone();
        let texts = values.as_string::<i32>();
        texts.iter().map(|text| text.unwrap().to_owned()).collect()
    };

    (0..groups).map(dictionary).collect()
}

#[tokio::test]
async fn categories_keep_their_order_also_where_few_of_them_occur() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["low", "mid", "high", "never"]));
    let keys = [2, 0, 2, 0, 0, 2].map(Some);
    let other: ArrayRef = Arc::new(StringArray::from(vec!["extra", "mid"]));
    let batches = [of_keys(&values, keys), of_keys(&other, [Some(0), Some(1)]), of_keys(&values, keys)];

    for rows in [3, 100] {
        let options = ParquetOptions::default().with_row_group_rows(rows);
        let bytes = assert_comes_back(&batches, options).await;
        assert_statistics(&bytes, "categories");

        for (at, found) in dictionaries(&bytes).iter().enumerate() {
            let begins = match (rows, at) {
                // It begins with rows of the other dictionary.
                (3, 2) => vec!["extra", "mid"],
                _ => vec!["low", "mid", "high", "never"],
            };
            assert_eq!(found[..begins.len()], begins, "row group {at}");
        }
    }
}

#[tokio::test]
async fn a_large_dictionary_is_kept_whole_only_if_it_has_an_order() {
    let values = strings(5_000);
    let batch = of_keys(&values, [Some(4_000), Some(3)]);
    for is_ordered in [false, true] {
        let field = batch.schema().field(0).clone().with_dict_is_ordered(is_ordered);
        let schema = Arc::new(Schema::new(vec![field]));
        let ordered = RecordBatch::try_new(schema, batch.columns().to_vec()).unwrap();
        let (bytes, _) = write(&[ordered], ParquetOptions::default()).await.unwrap();
        assert_eq!(dictionaries(&bytes)[0].len(), if is_ordered { 5_000 } else { 2 });
        let schema = reader(&bytes).metadata().file_metadata().key_value_metadata().unwrap().clone();
        let schema = schema.iter().find(|pair| pair.key == "ARROW:schema").unwrap().value.clone().unwrap();

        let expected = parquet::arrow::encode_arrow_schema(&Schema::new(vec![
            Field::new("x", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), true)
                .with_dict_is_ordered(is_ordered),
        ]));
        assert_eq!(schema, expected);
    }
}

#[tokio::test]
async fn values_that_are_there_twice_are_no_categories() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a", "c", "d", "e", "f", "g"]));
    let bytes = assert_comes_back(&[of_keys(&values, [Some(2), Some(3)])], ParquetOptions::default()).await;
    assert_eq!(dictionaries(&bytes), [["a", "c"]]);
    assert_statistics(&bytes, "twice");
}
