//! Row indexes, statistics and bloom filters.

use arrow::{array::*, datatypes::*};

use super::*;
use crate::orc::write::OrcColumnOptions;

fn positions(index: &proto::RowIndex) -> Vec<Vec<u64>> {
    index.entry.iter().map(|entry| entry.positions.clone()).collect()
}

#[tokio::test]
async fn positions_of_numbers_are_those_of_their_runs() {
    let numbers: Int64Array = (0..3000).map(|row| Some(row * 7919 % 256)).collect();
    let array: ArrayRef = Arc::new(numbers);
    let options = small(OrcCompression::None).with_stripe_size(ByteSize::mib(1));
    let (bytes, _) = assert_comes_back(&[of("x", array.clone())], options.clone()).await;
    let end = RawOrcTail::of(&bytes);
    // 512 numbers of 9 bits with their sign, and two bytes before them.
    assert_eq!(positions(&end.row_index(&bytes, 0, 1)), [vec![0, 0], vec![578, 488], vec![3 * 578, 464]]);
    assert_eq!(positions(&end.row_index(&bytes, 0, 0)), [vec![], vec![], vec![]] as [Vec<u64>; 3]);

    let options = options.with_compression(OrcCompression::Snappy).with_chunk_size(ByteSize::bytes(500));
    let (bytes, _) = assert_comes_back(&[of("x", array)], options).await;
    let found = positions(&RawOrcTail::of(&bytes).row_index(&bytes, 0, 1));
    assert_eq!((&found[0], found[1][1..].to_vec()), (&vec![0, 0, 0], vec![78, 488]));
    assert_eq!(found[2][1..], [3 * 578 % 500, 464]);
    assert!(found[1][0] > 0 && found[1][0] <= 503);
}

#[tokio::test]
async fn positions_of_presence_are_there_only_where_there_are_nulls() {
    let with =
        BooleanArray::from((0..2500).map(|row| (row != 1003).then_some(row % 2 == 0)).collect::<Vec<_>>());
    let without = BooleanArray::from(vec![true; 2500]);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("with", Arc::new(with) as ArrayRef, true),
        ("without", Arc::new(without), true),
    ]);
    let (bytes, _) = assert_comes_back(&[batch.unwrap()], small(OrcCompression::None)).await;
    let end = RawOrcTail::of(&bytes);
    let index = end.row_index(&bytes, 0, 1);
    // 1000 rows are 125 bytes, a run of their own; another begins with byte 126. There is one value less.
    assert_eq!(index.entry[1].positions[..3], [2, 0, 0]);
    assert_eq!(index.entry[2].positions[..3], [4, 124, 0]);
    assert_eq!(index.entry[2].positions.len(), 6);
    assert_eq!(index.entry[2].positions[5], 1999 % 8);
    assert_eq!(end.row_index(&bytes, 0, 2).entry[2].positions, [2, 120, 0]);
    let nulls: Vec<bool> = index.entry.iter().map(|it| it.statistics.as_ref().unwrap().has_null()).collect();
    assert_eq!(nulls, [false, true, false]);
}

#[tokio::test]
async fn statistics_of_row_groups_stripes_and_the_file_add_up() {
    let numbers: Int32Array = (0..20_000).map(|row| (row % 7 != 0).then_some(row)).collect();
    let texts: StringArray = (0..20_000).map(|row| Some(format!("text {row:05}"))).collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(numbers) as ArrayRef, true),
        ("t", Arc::new(texts), true),
    ]);
    let (bytes, written) = assert_comes_back(&[batch.unwrap()], small(OrcCompression::Snappy)).await;
    assert!(written.stripes > 2);
    let end = RawOrcTail::of(&bytes);
    let file = end.footer.statistics[1].int_statistics.as_ref().unwrap();
    let expected: i64 = (0..20_000).filter(|row| row % 7 != 0).sum();
    assert_eq!((file.minimum(), file.maximum(), file.sum()), (1, 19_998, expected));
    let mut first = 0;

    for stripe in 0..written.stripes {
        let rows = end.footer.stripes[stripe].number_of_rows() as i64;
        let texts = end.statistics.stripe_stats[stripe].col_stats[2].string_statistics.clone().unwrap();
        assert_eq!(texts.minimum(), format!("text {first:05}"));
        assert_eq!(texts.maximum(), format!("text {:05}", first + rows - 1));
        assert_eq!(texts.sum(), rows * 10);
        let index = end.row_index(&bytes, stripe, 1);
        assert_eq!(index.entry.len() as i64, (rows + 999) / 1000);
        let numbers = end.statistics.stripe_stats[stripe].col_stats[1].int_statistics.clone().unwrap();

        let sums = index
            .entry
            .iter()
            .map(|it| it.statistics.as_ref().unwrap().int_statistics.as_ref().unwrap().sum());
        assert_eq!(sums.sum::<i64>(), numbers.sum());
        first += rows;
    }

    let on_disk: u64 = end.footer.statistics.iter().map(|it| it.bytes_on_disk()).sum();
    assert_eq!(on_disk, end.footer.stripes.iter().map(|it| it.data_length()).sum::<u64>());
}

#[tokio::test]
async fn long_texts_have_bounds_that_are_cut() {
    let texts = StringArray::from(vec!["a".repeat(2000), "b".repeat(3000), "c".to_owned()]);
    let (bytes, _) = assert_comes_back(&[of("x", Arc::new(texts))], OrcOptions::default()).await;
    let found = RawOrcTail::of(&bytes).footer.statistics[1].string_statistics.clone().unwrap();
    assert_eq!((found.lower_bound(), &found.minimum), ("a".repeat(1024).as_str(), &None));
    assert_eq!((found.maximum(), found.sum()), ("c", 5001));
}

#[tokio::test]
async fn bloom_filters_know_every_value_of_their_row_group() {
    let texts: StringArray = (0..3000).map(|row| Some(format!("text {row}"))).collect();
    let array = texts.clone();
    for threshold in [0.0, 1.0] {
        let column = OrcColumnOptions::default().with_bloom_filter(0.01).with_dictionary_threshold(threshold);
        let options =
            small(OrcCompression::Zstd(3)).with_stripe_size(ByteSize::mib(1)).with_column("x", column);
        let (bytes, _) = assert_comes_back(&[of("x", Arc::new(array.clone()))], options).await;
        let end = RawOrcTail::of(&bytes);
        let (footer, streams) = end.stripe(&bytes, 0);
        assert_eq!(footer.columns[1].bloom_encoding, Some(1));
        let found = streams.iter().find(|it| it.1 == proto::stream::Kind::BloomFilterUtf8).unwrap();
        let filters: proto::BloomFilterIndex = message(&end.postscript, found.2.clone());
        assert_eq!(filters.bloom_filter.len(), 3);

        for (group, filter) in filters.bloom_filter.iter().enumerate() {
            let filter = orc_rust::bloom_filter::BloomFilter::try_from_proto(filter).unwrap();
            let hits = (0..3000).filter(|row| filter.might_contain(texts.value(*row).as_bytes()));
            let (inside, outside): (Vec<usize>, Vec<usize>) = hits.partition(|row| row / 1000 == group);
            assert_eq!(inside.len(), 1000);
            assert!(outside.len() < 60, "{} of 2000", outside.len());
        }
    }
}

#[tokio::test]
async fn fields_have_options_of_their_own() {
    let texts: ArrayRef = Arc::new((0..3000).map(|row| Some(format!("text {row}"))).collect::<StringArray>());
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 3000]));
    let field = |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
    let inner: ArrayRef = Arc::new(StructArray::from(vec![
        (field("a", &texts), texts.clone()),
        (field("b", &texts), texts.clone()),
        (field("c", &flags), flags),
    ]));
    let outer: ArrayRef =
        Arc::new(StructArray::from(vec![(field("in", &inner), inner), (field("d", &texts), texts)]));
    let column = OrcColumnOptions::default;
    // The columns of the file are the root, x, x.in, x.in.a, x.in.b, x.in.c and x.d.

    for (path, filtered, coded) in
        [("x", vec![3, 4, 6], vec![3, 4, 6]), ("x.in", vec![3, 4], vec![3, 4]), ("x.in.b", vec![4], vec![4])]
    {
        let own = column().with_bloom_filter(0.1).with_dictionary_threshold(1.0);
        let options = OrcOptions::default()
            .with_all_columns(column().with_dictionary_threshold(0.0))
            .with_column(path, own)
            .with_column("x.d", column());
        let (bytes, _) = assert_comes_back(&[of("x", outer.clone())], options).await;
        let (footer, streams) = RawOrcTail::of(&bytes).stripe(&bytes, 0);
        let with = |kind| streams.iter().filter(|it| it.1 == kind).map(|it| it.0).collect::<Vec<u32>>();
        assert_eq!(with(proto::stream::Kind::BloomFilterUtf8), filtered, "{path}");
        assert_eq!(with(proto::stream::Kind::DictionaryData), coded, "{path}");
        assert_eq!(footer.columns.len(), 7);
    }

    let batch = of("x", outer);
    for (path, expected) in [("x.in.c", "booleans"), ("x.in.e", "no column x.in.e"), ("in", "no column in")] {
        let options = OrcOptions::default().with_column(path, column().with_bloom_filter(0.1));
        let error = write(std::slice::from_ref(&batch), options).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_file_says_who_wrote_it_and_what_it_was_told() {
    let batch = of("x", Arc::new(Int32Array::from(vec![1])));
    let options = OrcOptions::default().with_metadata("key", "value").with_metadata("bytes", vec![0, 255]);
    let (bytes, _) = write(&[batch], options).await.unwrap();
    let RawOrcTail { postscript, footer, .. } = RawOrcTail::of(&bytes);
    assert!(footer.software_version().starts_with("stylobate "));
    assert_eq!((postscript.version.as_slice(), postscript.magic()), ([0, 12].as_slice(), "ORC"));
    let metadata: Vec<_> = footer.metadata.iter().map(|it| (it.name(), it.value())).collect();
    assert_eq!(metadata, [("bytes", [0, 255].as_slice()), ("key", b"value")]);
    assert_eq!((footer.row_index_stride(), footer.number_of_rows()), (10_000, 1));
    let field = Field::new("x", DataType::Int32, true)
        .with_metadata([("iceberg.id".to_owned(), "7".to_owned())].into());
    let batch = RecordBatch::new_empty(Arc::new(Schema::new(vec![field])));
    let (bytes, _) = write(&[batch], OrcOptions::default()).await.unwrap();
    let attributes = &RawOrcTail::of(&bytes).footer.types[1].attributes;
    assert_eq!((attributes[0].key(), attributes[0].value()), ("iceberg.id", "7"));
}

#[tokio::test]
async fn stripes_end_near_their_size_and_where_memory_ends() {
    let numbers: Int64Array =
        (0..400_000_u64).map(|row| Some(row.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64)).collect();
    let batch = of("x", Arc::new(numbers));
    let options = || OrcOptions::default().with_compression(OrcCompression::Snappy);
    let (bytes, _) =
        write(std::slice::from_ref(&batch), options().with_stripe_size(ByteSize::kib(500))).await.unwrap();
    let sizes: Vec<u64> =
        RawOrcTail::of(&bytes).footer.stripes.iter().map(|stripe| stripe.data_length()).collect();
    let whole = &sizes[..sizes.len() - 1];
    assert!(whole.len() >= 3 && whole.iter().all(|size| (400 << 10..1100 << 10).contains(size)), "{sizes:?}");
    let (_, written) = write(&[batch], options().with_memory(ByteSize::mib(1))).await.unwrap();
    assert!(written.stripes > 3, "{} stripes", written.stripes);
}
