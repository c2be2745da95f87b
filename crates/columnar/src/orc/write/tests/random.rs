//! Generates arrays of any type, nested to any depth, with random values and nulls.

use arrow::{
    array::*,
    buffer::{NullBuffer, OffsetBuffer},
    compute::cast,
    datatypes::*,
};
use rand::{Rng, rngs::StdRng};

use super::*;

/// Returns the types without children.
fn leaves() -> Vec<DataType> {
    use DataType::*;
    let dictionary = |key, values| Dictionary(Box::new(key), Box::new(values));
    let run_ends = Arc::new(Field::new("run_ends", Int32, false));
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal32(9, 3),
        Decimal64(18, 0),
        Decimal128(20, 4),
        Decimal128(38, 19),
        Decimal256(38, 2),
        Date32,
        Date64,
        Timestamp(TimeUnit::Nanosecond, None),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Timestamp(TimeUnit::Second, None),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(3),
        dictionary(UInt16, Utf8),
        dictionary(Int32, Utf8View),
        dictionary(UInt8, Int64),
        RunEndEncoded(run_ends, Arc::new(Field::new("values", Utf8, true))),
        Null,
    ]
}

/// Returns a type of at most `depth` levels.
pub(in crate::orc) fn data_type(random: &mut StdRng, depth: usize) -> DataType {
    let field =
        |random: &mut StdRng, name: &str, depth| Arc::new(Field::new(name, data_type(random, depth), true));
    // Half of the columns have children.
    let kinds = if depth == 0 { 6 } else { 12 };
    match random.random_range(0..kinds) {
        6 => DataType::List(field(random, "item", depth - 1)),
        7 => DataType::LargeList(field(random, "item", depth - 1)),
        // Fixed-size lists of no items would lose their number of rows in the other library's casts.
        8 => DataType::FixedSizeList(field(random, "item", depth - 1), random.random_range(1..4)),
        9 => {
            let key = Arc::new(Field::new("key", DataType::Utf8, false));
            let fields = vec![key, field(random, "value", depth - 1)];
            DataType::Map(Arc::new(Field::new_struct("entries", fields, false)), false)
        }
        10 | 11 => {
            let count = random.random_range(1..4);
            DataType::Struct((0..count).map(|at| field(random, &format!("f{at}"), depth - 1)).collect())
        }
        _ => {
            let leaves = leaves();
            leaves[random.random_range(0..leaves.len())].clone()
        }
    }
}

/// Returns an array of `rows` rows. Nulls are frequent or rare.
pub(in crate::orc) fn array(random: &mut StdRng, data_type: &DataType, rows: usize) -> ArrayRef {
    let share = [0.0, 0.0, 0.02, 0.5, 1.0][random.random_range(0..5)];
    nullable(random, data_type, rows, share)
}

fn nullable(random: &mut StdRng, data_type: &DataType, rows: usize, share: f64) -> ArrayRef {
    let valid: Vec<bool> = (0..rows).map(|_| !random.random_bool(share)).collect();
    let nulls = (share > 0.0).then(|| NullBuffer::from(valid.clone()));
    let offsets = |random: &mut StdRng| -> Vec<usize> {
        // Some rows that are null have items none the less.
        let mut end = 0;
        let lengths = (0..rows).map(|row| if valid[row] || random.random_bool(0.2) { 4 } else { 1 });
        let lengths: Vec<usize> = lengths.collect();
        [0].into_iter()
            .chain(lengths.into_iter().map(|max| {
                end += random.random_range(0..max);
                end
            }))
            .collect()
    };

    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::List(field) => {
            let offsets: Vec<i32> = offsets(random).into_iter().map(|offset| offset as i32).collect();
            let items = array(random, field.data_type(), *offsets.last().unwrap() as usize);
            Arc::new(ListArray::new(field.clone(), OffsetBuffer::new(offsets.into()), items, nulls))
        }
        DataType::LargeList(field) => {
            let offsets: Vec<i64> = offsets(random).into_iter().map(|offset| offset as i64).collect();
            let items = array(random, field.data_type(), *offsets.last().unwrap() as usize);
            Arc::new(LargeListArray::new(field.clone(), OffsetBuffer::new(offsets.into()), items, nulls))
        }
        DataType::FixedSizeList(field, size) => {
            let items = array(random, field.data_type(), rows * *size as usize);
            let list = FixedSizeListArray::try_new_with_length(field.clone(), *size, items, nulls, rows);
            Arc::new(list.unwrap())
        }
        DataType::Map(entries, _) => {
            let offsets: Vec<i32> = offsets(random).into_iter().map(|offset| offset as i32).collect();
            let items = *offsets.last().unwrap() as usize;
            let DataType::Struct(fields) = entries.data_type() else { unreachable!() };
            let columns = vec![
                nullable(random, &DataType::Utf8, items, 0.0),
                array(random, fields[1].data_type(), items),
            ];
            let pairs = StructArray::try_new(fields.clone(), columns, None).unwrap();
            Arc::new(MapArray::new(entries.clone(), OffsetBuffer::new(offsets.into()), pairs, nulls, false))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| array(random, field.data_type(), rows)).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls))
        }
        leaf => leaf_array(random, leaf, &valid),
    }
}

fn leaf_array(random: &mut StdRng, data_type: &DataType, valid: &[bool]) -> ArrayRef {
    let shift = random.random_range(0..63);
    let repeats = random.random_range(1..50);
    let mut last = 0;
    let mut number = |random: &mut StdRng| -> i64 {
        if random.random_range(0..repeats) == 0 {
            last = random.random::<i64>() >> shift;
        }
        last
    };
    let numbers: Vec<Option<i64>> = valid
        .iter()
        .map(|valid| {
            let number = number(random);
            valid.then_some(number)
        })
        .collect();

    let narrowed =
        |bits: u32| -> Int64Array { numbers.iter().map(|it| it.map(|it| it >> (64 - bits))).collect() };
    let to = |array: ArrayRef| cast(&array, data_type).unwrap();
    let texts = || -> ArrayRef {
        Arc::new(
            numbers
                .iter()
                .map(|it| it.map(|it| "ä".repeat(it as usize % 3) + &it.to_string()))
                .collect::<StringArray>(),
        )
    };

    let whole = |mask: i64| -> Int64Array { numbers.iter().map(|it| it.map(|it| it & mask)).collect() };
    match data_type {
        DataType::Boolean => {
            Arc::new(numbers.iter().map(|it| it.map(|it| it % 2 == 0)).collect::<BooleanArray>())
        }
        DataType::Int8 => to(Arc::new(narrowed(8))),
        DataType::Int16 => to(Arc::new(narrowed(16))),
        DataType::Int32 => to(Arc::new(narrowed(32))),
        DataType::Date32 | DataType::Date64 => {
            to(to_type(to_type(Arc::new(narrowed(22)), &DataType::Int32), &DataType::Date32))
        }
        DataType::UInt8 => to(Arc::new(whole(0xff))),
        DataType::UInt16 => to(Arc::new(whole(0xffff))),
        DataType::UInt32 => to(Arc::new(whole(0xffff_ffff))),
        DataType::UInt64 => to(Arc::new(whole(i64::MAX))),
        DataType::Int64 => Arc::new(Int64Array::from(numbers.clone())),
        DataType::Float16 => to(Arc::new(narrowed(11))),
        DataType::Float32 | DataType::Float64 => to(Arc::new(narrowed(50))),
        DataType::Decimal128(precision @ 19.., scale) | DataType::Decimal256(precision, scale) => {
            // Some numbers have as many digits as possible.
            let factor = 10_i128.pow(u32::from(*precision - 19));
            let values = numbers
                .iter()
                .map(|it| it.map(|it| i128::from(it) * (1 + (i128::from(it) & 1) * (factor - 1))));
            let values = values.collect::<Decimal128Array>();
            to(Arc::new(values.with_data_type(DataType::Decimal128(*precision, *scale))))
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            let limit = 10_i64.pow(u32::from(*precision));
            let values = numbers.iter().map(|it| it.map(|it| i128::from(it % limit)));
            let values = values.collect::<Decimal128Array>();
            to(Arc::new(values.with_data_type(DataType::Decimal128(*precision, *scale))))
        }
        DataType::Timestamp(unit, _) => {
            // The last second before 1970 is beyond what the format can express.
            let (second, bits) = match unit {
                TimeUnit::Nanosecond => (1_000_000_000, 63),
                TimeUnit::Microsecond => (1_000_000, 63),
                TimeUnit::Millisecond => (1_000, 52),
                TimeUnit::Second => (1, 42),
            };
            let values: Int64Array = narrowed(bits)
                .iter()
                .map(|it| it.map(|it| if (-second..0).contains(&it) { 0 } else { it }))
                .collect();
            to(Arc::new(values))
        }
        DataType::FixedSizeBinary(size) => {
            let values = numbers.iter().map(|it| it.map(|it| it.to_be_bytes()[..*size as usize].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *size).unwrap())
        }
        DataType::Dictionary(_, values) if **values == DataType::Int64 => to(Arc::new(whole(0x7f))),
        DataType::Dictionary(..) => {
            let few: ArrayRef = Arc::new(
                numbers.iter().map(|it| it.map(|it| (it % 300).to_string())).collect::<StringArray>(),
            );
            to(few)
        }
        _ => to(texts()),
    }
}

fn to_type(array: ArrayRef, data_type: &DataType) -> ArrayRef {
    cast(&array, data_type).unwrap()
}
