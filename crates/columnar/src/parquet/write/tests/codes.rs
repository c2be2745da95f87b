//! Columns of codes: their pages in both versions, their sizes, and values that arrive one by one.

use super::{codebooks::is_only_codes, *};

fn pages(bytes: &Bytes) -> Vec<i32> {
    let metadata = reader(bytes).metadata().clone();
    let locations = metadata.offset_index().unwrap()[0][0].page_locations();
    locations.iter().map(|page| page.compressed_page_size).collect()
}

#[tokio::test]
async fn pages_of_version_2_come_back_compressed_or_not() {
    for nulls in [0.0, 0.3, 1.0] {
        for (distinct, rows) in [(3, 0), (1, 500), (3, 50_001), (70_000, 50_001)] {
            let batch = of("x", dictionary::<Int32Type>(strings(distinct), rows, nulls, 7));
            for codec in ["none", "snappy", "zstd(3)"] {
                let all = ColumnOptions::default().with_compression(codec.parse().unwrap());
                let options = ParquetOptions::default().with_version_2(true).with_all_columns(all);
                let bytes = assert_comes_back(std::slice::from_ref(&batch), options).await;
                let metadata = reader(&bytes).metadata().clone();
                assert_eq!(metadata.file_metadata().version(), 2);
                assert!(metadata.row_groups().iter().all(is_only_codes));
            }
        }
    }

    let required =
        RecordBatch::try_from_iter([("x", dictionary::<Int8Type>(strings(9), 700, 0.0, 8))]).unwrap();
    assert_comes_back(&[required], ParquetOptions::default().with_version_2(true)).await;
}

#[tokio::test]
async fn pages_end_at_their_bytes_too() {
    let batch = of("x", dictionary::<UInt16Type>(strings(3_000), 100_000, 0.1, 9));
    for size in [1, 500, 5_000] {
        let options = ParquetOptions::default().with_page_size(ByteSize::bytes(size)).with_page_rows(50_000);
        let plain = ColumnOptions::default().with_compression(Compression::None);
        let rows = if size == 1 { batch.slice(0, 200) } else { batch.clone() };
        let bytes = assert_comes_back(&[rows], options.with_all_columns(plain)).await;
        // Approximate: there are headers, and in the first page codes get wider as values are found.
        let pages = pages(&bytes);
        assert!(
            pages.len() > 1 && pages.iter().all(|page| *page <= size as i32 * 5 / 4 + 60),
            "{size}: {pages:?}"
        );
    }
}

#[tokio::test]
async fn values_that_arrive_one_by_one_become_a_dictionary_where_that_is_asked_for() {
    let texts = (0..50_000).map(|row| (row % 9 > 0).then(|| format!("text {}", row * 31 % 40_000)));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let numbers: ArrayRef =
        Arc::new((0..50_000).map(|row| (row % 5 > 0).then_some(row % 777)).collect::<Int64Array>());
    let money = Decimal128Array::from_iter_values((0..50_000).map(|row| row % 99 - 50));
    let money: ArrayRef = Arc::new(money.with_precision_and_scale(30, 2).unwrap());
    let columns = [
        ("text", texts.clone()),
        ("view", cast(&texts, &DataType::Utf8View).unwrap()),
        ("large", cast(&texts, &DataType::LargeUtf8).unwrap()),
        ("bytes", cast(&texts, &DataType::Binary).unwrap()),
        ("number", numbers),
        ("money", money),
        ("none", new_null_array(&DataType::Utf8, 50_000)),
    ];

    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let batch = batch.unwrap();
    let all = ColumnOptions::default().with_dictionary(DictionaryEncoding::On);
    let options = ParquetOptions::default().with_all_columns(all).with_row_group_rows(30_000);
    let parts: Vec<RecordBatch> = (0..5).map(|part| batch.slice(part * 10_000, 10_000)).collect();
    let bytes = assert_comes_back(&parts, options).await;

    for group in reader(&bytes).metadata().row_groups() {
        for column in group.columns() {
            assert!(column.dictionary_page_offset().is_some(), "{}", column.column_path());
            let mask = column.page_encoding_stats_mask().unwrap();
            assert!(mask.is_only(parquet::basic::Encoding::RLE_DICTIONARY), "{}", column.column_path());
        }
    }
}

#[tokio::test]
async fn an_encoding_is_used_where_it_fits_and_refused_where_it_was_meant_and_does_not() {
    let columns: [(&str, ArrayRef); 2] =
        [("n", Arc::new(Int32Array::from_iter_values(0..500))), ("t", strings(500))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let batch = batch.unwrap();
    let delta = || ColumnOptions::default().with_encoding(Encoding::DeltaBinaryPacked);
    let options = ParquetOptions::default().with_all_columns(delta());
    let bytes = assert_comes_back(std::slice::from_ref(&batch), options).await;
    let group = reader(&bytes).metadata().row_group(0).clone();
    let delta_packed = parquet::basic::Encoding::DELTA_BINARY_PACKED;
    assert!(group.column(0).encodings().any(|encoding| encoding == delta_packed));
    assert!(!group.column(1).encodings().any(|encoding| encoding == delta_packed));
    let options = ParquetOptions::default().with_column("t", delta());
    let error = write(&[batch], options).await.unwrap_err().to_string();
    assert_eq!(error, "x.parquet: column t: values of this type have no encoding delta_binary_packed");
}

#[tokio::test]
async fn rows_may_be_sorted_by_a_field_of_a_struct_and_by_nothing_that_is_no_leaf() {
    let inner: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let nested = StructArray::from(vec![(Arc::new(Field::new("y", DataType::Int32, false)), inner.clone())]);
    let columns: [(&str, ArrayRef); 2] = [("a", inner), ("s", Arc::new(nested))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let by = |column: &str| {
        let sorted = SortedBy { column: column.to_owned(), descending: true, nulls_first: false };
        ParquetOptions::default().with_sorted_by(vec![sorted])
    };
    let (bytes, _) = write(std::slice::from_ref(&batch), by("s.y")).await.unwrap();
    let sorting = reader(&bytes).metadata().row_group(0).sorting_columns().unwrap().clone();
    assert_eq!((sorting[0].column_idx, sorting[0].descending), (1, true));
    let error = write(&[batch], by("s")).await.unwrap_err().to_string();
    assert_eq!(error, "no column s to be sorted by; available: a, s.y");
}

#[tokio::test]
async fn a_large_batch_is_encoded_in_parts_and_a_small_part_of_one_weighs_little() {
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..40_000).map(|row| format!("{row:0>1000}"))));
    let batch = of("x", texts);
    let plain = ColumnOptions::default().with_compression(Compression::None);
    let plain = plain.with_dictionary(DictionaryEncoding::Off);
    let options = || ParquetOptions::default().with_memory(ByteSize::mib(8)).with_all_columns(plain.clone());
    let (_, written) = write(std::slice::from_ref(&batch), options()).await.unwrap();
    assert!(written.row_groups > 1, "40 MB do not fit");
    // Each is a small part of 40 MB of buffers.
    let few: Vec<RecordBatch> = (0..40).map(|part| batch.slice(part * 1_000, 20)).collect();
    let (_, written) = write(&few, options()).await.unwrap();
    assert_eq!((written.rows, written.row_groups), (800, 1));
}
