//! Arrays of any type, as deep as it goes, with values and nulls that chance gives them.

use arrow::{
    array::*,
    buffer::{NullBuffer, OffsetBuffer},
    compute::cast,
    datatypes::*,
};
use rand::{Rng, rngs::StdRng};

use super::*;

/// A type of at most so many levels.
pub(in crate::orc) fn data_type(random: &mut StdRng, depth: usize) -> DataType {
    let field =
        |random: &mut StdRng, name: &str, depth| Arc::new(Field::new(name, data_type(random, depth), true));
    let kinds = if depth == 0 { 17 } else { 23 };
    match random.random_range(0..kinds) {
        0 => DataType::Boolean,
        1 => DataType::Int8,
        2 => DataType::Int16,
        3 => DataType::Int32,
        4 => DataType::Int64,
        5 => DataType::UInt32,
        6 => DataType::Float32,
        7 => DataType::Float64,
        8 => DataType::Decimal128(20, 4),
        9 => DataType::Date32,
        10 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        11 => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        12 => DataType::Utf8,
        13 => DataType::Utf8View,
        14 => DataType::LargeBinary,
        15 => DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
        16 => DataType::Null,
        17 => DataType::List(field(random, "item", depth - 1)),
        18 => DataType::LargeList(field(random, "item", depth - 1)),
        19 => DataType::FixedSizeList(field(random, "item", depth - 1), random.random_range(0..4)),
        20 => {
            let key = Arc::new(Field::new("key", DataType::Utf8, false));
            let fields = vec![key, field(random, "value", depth - 1)];
            DataType::Map(Arc::new(Field::new_struct("entries", fields, false)), false)
        }
        _ => {
            let count = random.random_range(1..4);
            DataType::Struct((0..count).map(|at| field(random, &format!("f{at}"), depth - 1)).collect())
        }
    }
}

/// An array of so many rows. Whoever has nulls has them often or seldom.
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
            .chain(lengths.into_iter().map(|most| {
                end += random.random_range(0..most);
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
    match data_type {
        DataType::Boolean => {
            Arc::new(numbers.iter().map(|it| it.map(|it| it % 2 == 0)).collect::<BooleanArray>())
        }
        DataType::Int8 => to(Arc::new(narrowed(8))),
        DataType::Int16 => to(Arc::new(narrowed(16))),
        DataType::Int32 => to(Arc::new(narrowed(32))),
        DataType::Date32 => to(to_type(Arc::new(narrowed(22)), &DataType::Int32)),
        DataType::UInt32 => {
            to(Arc::new(numbers.iter().map(|it| it.map(|it| it & 0xffff_ffff)).collect::<Int64Array>()))
        }
        DataType::Int64 => Arc::new(Int64Array::from(numbers.clone())),
        DataType::Float32 | DataType::Float64 => to(Arc::new(narrowed(50))),
        DataType::Decimal128(..) => {
            let values = numbers.iter().map(|it| it.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(values.with_data_type(data_type.clone()))
        }
        DataType::Timestamp(unit, _) => {
            // The last second before 1970 is beyond what the format can express.
            let second = match unit {
                TimeUnit::Nanosecond => 1_000_000_000,
                _ => 1_000,
            };
            let bits = match unit {
                TimeUnit::Nanosecond => 63,
                _ => 52,
            };
            let values = narrowed(bits);
            let values: Int64Array = values
                .iter()
                .map(|it| it.map(|it| if (-second..0).contains(&it) { 0 } else { it }))
                .collect();
            to(Arc::new(values))
        }
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
