//! Nested columns: nulls at every level, unreferenced items, and random schemas.

use arrow::{
    array::*,
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::*,
};
use proto::r#type::Kind;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

#[tokio::test]
async fn schemas_that_chance_makes_come_back() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let types: Vec<DataType> = (0..3).map(|_| random::data_type(&mut random, 3)).collect();
        let batches: Vec<RecordBatch> = (0..3)
            .map(|_| {
                let rows = random.random_range(0..700);
                let columns = types.iter().enumerate().map(|(at, data_type)| {
                    (format!("c{at}"), random::array(&mut random, data_type, rows), true)
                });
                RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
            })
            .collect();

        let options = OrcOptions::default()
            .with_compression(CODECS[random.random_range(0..CODECS.len())])
            .with_row_index_stride([1, 64, 500, 10_000][random.random_range(0..4)])
            .with_chunk_size(ByteSize::bytes([64, 1 << 10, 256 << 10][random.random_range(0..3)]))
            .with_stripe_size(ByteSize::bytes([1, 20 << 10, 64 << 20][random.random_range(0..3)]));
        assert_comes_back(&batches, options).await;
    }
}

#[tokio::test]
async fn items_of_lists_that_are_null_are_not_written() {
    let items = Int32Array::from(vec![1, 2, 3, 4, 5, 6]);
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    let offsets = OffsetBuffer::new(vec![0, 2, 4, 4, 6].into());
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let list = ListArray::new(field, offsets, Arc::new(items), Some(nulls));
    let (bytes, _) = assert_comes_back(&[of("x", Arc::new(list.clone()))], OrcOptions::default()).await;
    let end = RawOrcTail::of(&bytes);
    assert_eq!(end.footer.statistics[2].number_of_values, Some(4));
    let lengths = end.footer.statistics[1].collection_statistics.clone().unwrap();
    assert_eq!((lengths.min_children(), lengths.max_children(), lengths.total_children()), (0, 2, 4));
    // A slice begins within its items.
    assert_comes_back(&[of("x", Arc::new(list.slice(2, 2)))], OrcOptions::default()).await;
}

#[tokio::test]
async fn fields_of_structs_that_are_null_are_not_written() {
    let field = Field::new("a", DataType::Int32, true);
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(4)]));
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let array = StructArray::new(vec![field].into(), vec![values], Some(nulls));
    let (bytes, _) = assert_comes_back(&[of("x", Arc::new(array))], OrcOptions::default()).await;
    let statistics = &RawOrcTail::of(&bytes).footer.statistics;
    assert_eq!((statistics[1].number_of_values(), statistics[2].number_of_values()), (3, 2));
    assert_eq!(statistics[2].int_statistics.as_ref().unwrap().sum, Some(5));
}

#[tokio::test]
async fn types_are_numbered_from_the_outermost_in() {
    let inner = DataType::Struct(
        vec![Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)].into(),
    );
    let list = DataType::List(Arc::new(Field::new("element", inner, true)));
    let map = DataType::Map(
        Arc::new(Field::new_struct(
            "entries",
            vec![Field::new("keys", DataType::Utf8, false), Field::new("values", list, true)],
            false,
        )),
        false,
    );

    let schema = Schema::new(vec![Field::new("m", map, true), Field::new("z", DataType::Int64, true)]);
    let batch = RecordBatch::new_empty(Arc::new(schema));
    let (bytes, _) = write(&[batch], OrcOptions::default()).await.unwrap();
    let types = RawOrcTail::of(&bytes).footer.types;
    let expected = [
        (Kind::Struct, vec![1, 7], vec!["m", "z"]),
        (Kind::Map, vec![2, 3], vec![]),
        (Kind::String, vec![], vec![]),
        (Kind::List, vec![4], vec![]),
        (Kind::Struct, vec![5, 6], vec!["a", "b"]),
        (Kind::Byte, vec![], vec![]),
        (Kind::String, vec![], vec![]),
        (Kind::Long, vec![], vec![]),
    ];

    for (ty, (kind, subtypes, names)) in types.iter().zip(expected) {
        assert_eq!((ty.kind(), &ty.subtypes), (kind, &subtypes));
        assert_eq!(ty.field_names, names);
    }
}
