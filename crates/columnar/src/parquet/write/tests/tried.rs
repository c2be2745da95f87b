//! Strings and bytes that arrive as values: codes, then plain values once there are too many.

use super::{
    codebooks::{assert_statistics, dictionary_bytes, is_only_codes},
    *,
};

/// Returns the bytes of each row group's dictionary, and whether all of its pages are dictionary-encoded.
fn groups(bytes: &Bytes) -> Vec<(i64, bool)> {
    let groups = reader(bytes).metadata().row_groups().to_vec();
    groups.iter().map(|group| (dictionary_bytes(group), is_only_codes(group))).collect()
}

/// Returns `rows` texts of about 50 bytes, `distinct` of them distinct.
fn texts(rows: usize, distinct: usize, nulls: usize) -> StringArray {
    let text = |row: usize| format!("{:*<44}{}", "a text", row * 7919 % distinct);
    (0..rows).map(|row| (row % 13 >= nulls).then(|| text(row))).collect()
}

#[tokio::test]
async fn few_values_become_codes_and_many_do_not() {
    let uncompressed = ColumnOptions::default().with_compression(Compression::None);
    let options = ParquetOptions::default().with_all_columns(uncompressed).with_row_group_rows(60_000);
    for version_2 in [false, true] {
        for nulls in [0, 1, 7] {
            let options = options.clone().with_version_2(version_2);
            let few = of("x", Arc::new(texts(100_000, 10_000, nulls)));
            let bytes = assert_comes_back(&[few], options.clone()).await;
            assert_statistics(&bytes, "few");
            assert!(groups(&bytes).iter().all(|(size, is_only_codes)| *size < 600_000 && *is_only_codes));
            let many = of("x", Arc::new(texts(100_000, 100_000, nulls)));
            let some = [many.slice(0, 33_333), many.slice(33_333, 33_333), many.slice(66_666, 33_334)];

            for batches in [&[many][..], &some] {
                let bytes = assert_comes_back(batches, options.clone()).await;
                assert_statistics(&bytes, "many");
                for (size, is_only_codes) in groups(&bytes).iter().take(1) {
                    assert!((1 << 20..1_200_000).contains(size), "{size}");
                    assert!(!is_only_codes);
                }
            }
        }
    }
}

#[tokio::test]
async fn every_type_comes_back_however_it_is_cut() {
    let types = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
    ];

    for (seed, data_type) in (0..).zip(types.iter().cycle().take(30)) {
        let mut random = StdRng::seed_from_u64(seed);
        let distinct = [1, 500, 25_000, 60_000][random.random_range(0..4_usize)];
        let rows = random.random_range(1..70_000);
        let nulls = [0, 2, 13][random.random_range(0..3_usize)];
        let whole = of("x", cast(&texts(rows, distinct, nulls), data_type).unwrap());
        let mut batches = Vec::new();
        let mut start = 0;

        while start < rows {
            let count = random.random_range(1..=rows - start);
            batches.push(whole.slice(start, count));
            start += count;
        }

        let options = ParquetOptions::default()
            .with_row_group_rows(random.random_range(10_000..80_000))
            .with_page_rows(random.random_range(1..30_000))
            .with_page_size(ByteSize::kib(random.random_range(1..1_000)))
            .with_version_2(random.random_bool(0.5));
        let bytes = assert_comes_back(&batches, options).await;
        if *data_type == DataType::Utf8 {
            assert_statistics(&bytes, &format!("seed {seed}"));
        }
    }
}

#[tokio::test]
async fn large_values_do_not_fill_a_dictionary() {
    let large: StringArray = (0..40).map(|row| Some(format!("{row}").repeat(500_000))).collect();
    let batch = [of("x", Arc::new(large))];
    let uncompressed = ColumnOptions::default().with_compression(Compression::None);
    let options = ParquetOptions::default().with_all_columns(uncompressed);
    let bytes = assert_comes_back(&batch, options).await;
    assert!(groups(&bytes).iter().all(|(size, _)| *size < 2_100_000), "{:?}", groups(&bytes));
    assert!(assert_comes_back(&batch, ParquetOptions::default()).await.len() < bytes.len() / 10);
}
