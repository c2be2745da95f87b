//! Writes files for other readers, with their contents as Arrow IPC beside them.

use std::{fs::File, path::Path};

use arrow::{
    array::*,
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::*,
    ipc::writer::FileWriter,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::orc::write::OrcColumnOptions;

/// Environment variable with the output folder.
const FOLDER: &str = "STYLOBATE_ORC_FILES";
const ROWS: usize = 20_000;

/// Returns columns of every kind, with rows ordered by `id`; with `nulls`, some values are null.
fn table(rows: usize, nulls: bool, coded: bool) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(rows as u64);
    let valid: Vec<bool> =
        (0..rows).map(|row| !nulls || row / 1500 % 3 != 1 && random.random_bool(0.8)).collect();
    let some = |value: &dyn Fn(i64) -> i64| -> Vec<Option<i64>> {
        (0..rows).map(|row| valid[row].then(|| value(row as i64))).collect()
    };
    let noise: Vec<i64> = (0..rows).map(|_| random.random()).collect();
    let noise = |row: i64| noise[row as usize];
    let longs = |value: &dyn Fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from(some(value))) };
    let to = |array: ArrayRef, to: DataType| arrow::compute::cast(&array, &to).unwrap();

    let text = |value: &dyn Fn(i64) -> String| -> ArrayRef {
        Arc::new(some(&|row| row).into_iter().map(|row| row.map(value)).collect::<StringArray>())
    };
    let few = text(&|row| {
        ["AIR", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK"][(noise(row) as usize / 7) % 6].to_owned()
    });
    let many = text(&|row| format!("customer {:06}", noise(row).rem_euclid(2000)));
    let (few, many) = if coded {
        (
            to(few, DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))),
            to(many, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))),
        )
    } else {
        (few, many)
    };

    let decimals = some(&|row| noise(row) % 10_000_000_000).into_iter().map(|it| it.map(i128::from));
    let wide = some(&noise).into_iter().map(|it| it.map(|it| i128::from(it) * 1_000_000_007));
    let decimal = |values: Decimal128Array, precision, scale| -> ArrayRef {
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let outliers = longs(&|row| if noise(row) % 50 == 0 { noise(row) >> 20 } else { noise(row) & 63 });
    let clock = to(
        longs(&|row| row * 3_600_000_001 - 20_000_000_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, None),
    );
    let instant = longs(&|row| noise(row) >> 12);

    let instant: Int64Array = instant
        .as_primitive::<Int64Type>()
        .iter()
        .map(|it| it.map(|it| if (-1_000_000..0).contains(&it) { 0 } else { it }))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("sorted", longs(&|row| row / 7 * 3)),
        ("runs", to(longs(&|row| row / 1777), DataType::Int32)),
        ("repeats", longs(&|row| if row / 40 % 2 == 0 { row / 20 } else { noise(row) & 1023 })),
        ("outliers", outliers),
        ("noise", longs(&noise)),
        ("small", to(longs(&|row| noise(row) & 127), DataType::Int8)),
        ("short", to(longs(&|row| row % 3000 - 1500), DataType::Int16)),
        ("yes", to(longs(&|row| i64::from(noise(row) % 3 == 0)), DataType::Boolean)),
        ("float", to(longs(&|row| noise(row) >> 44), DataType::Float32)),
        ("double", to(longs(&|row| noise(row) >> 12), DataType::Float64)),
        ("money", decimal(decimals.collect(), 15, 2)),
        ("wide", decimal(wide.collect(), 38, 10)),
        ("day", to(to(longs(&|row| row - 9000), DataType::Int32), DataType::Date32)),
        ("clock", clock),
        ("instant", to(Arc::new(instant), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))),
        ("few", few),
        ("many", many),
        ("unique", text(&|row| format!("{:016x} ä{row}", noise(row)))),
        ("bytes", to(text(&|row| "x".repeat(row as usize % 9)), DataType::Binary)),
        ("long", text(&long)),
        (
            "early",
            Arc::new((0..rows as i64).map(|row| (row < 15_000).then_some(row)).collect::<Int64Array>()),
        ),
        ("never", new_null_array(&DataType::Utf8, rows)),
        ("nothing", new_null_array(&DataType::Decimal128(10, 2), rows)),
        ("list", list(rows, &valid, longs(&|row| row).slice(0, rows))),
        ("map", map(rows, &valid)),
        ("pair", pair(&valid, longs(&|row| row * 2), text(&|row| format!("p{}", row % 100)))),
    ];

    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn nulls_of(valid: &[bool]) -> Option<NullBuffer> {
    Some(NullBuffer::from(valid.to_vec())).filter(|nulls| nulls.null_count() > 0)
}

/// Returns a text that may be too long for statistics to hold in full: the minimum and maximum of many rows.
fn long(row: i64) -> String {
    match row % 600 {
        250 => format!("{}{row}", "a".repeat(1100)),
        500 => format!("{}{row}", "ä".repeat(600)),
        _ => format!("m{row}"),
    }
}

/// Returns lists of up to two consecutive items.
fn list(rows: usize, valid: &[bool], items: ArrayRef) -> ArrayRef {
    let mut end = 0;
    let lengths = (0..rows).map(|row| {
        end = (end + row % 3 / 2 + usize::from(row % 5 == 0)).min(rows) as i32 as usize;
        end as i32
    });
    let offsets: Vec<i32> = [0].into_iter().chain(lengths).collect();
    let field = Arc::new(Field::new("item", DataType::Int64, true));
    Arc::new(ListArray::new(field, OffsetBuffer::new(offsets.into()), items, nulls_of(valid)))
}

fn map(rows: usize, valid: &[bool]) -> ArrayRef {
    let keys: ArrayRef =
        Arc::new((0..rows).map(|row| Some(format!("k{}", row % 17))).collect::<StringArray>());
    let values: ArrayRef =
        Arc::new((0..rows as i32).map(|row| (row % 4 > 0).then_some(row)).collect::<Int32Array>());
    let fields: Fields =
        vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int32, true)].into();
    let entries = StructArray::new(fields.clone(), vec![keys, values], None);
    let offsets: Vec<i32> = (0..=rows as i32).collect();
    let field = Arc::new(Field::new_struct("entries", fields, false));
    Arc::new(MapArray::new(field, OffsetBuffer::new(offsets.into()), entries, nulls_of(valid), false))
}

fn pair(valid: &[bool], number: ArrayRef, text: ArrayRef) -> ArrayRef {
    let fields = vec![Field::new("number", DataType::Int64, true), Field::new("text", DataType::Utf8, true)];
    Arc::new(StructArray::new(fields.into(), vec![number, text], nulls_of(valid)))
}

fn write_ipc(path: &Path, batch: &RecordBatch) {
    let mut writer = FileWriter::try_new(File::create(path).unwrap(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

#[tokio::test]
#[ignore = "writes files for the tests of other readers"]
async fn files_for_other_readers() {
    let folder = std::path::PathBuf::from(std::env::var_os(FOLDER).unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    let sinks = Sinks::new(SinkOptions::default());

    for (name, rows, nulls, coded) in [
        ("full", ROWS, false, false),
        ("nulls", ROWS, true, false),
        ("coded", ROWS, false, true),
        ("coded_nulls", ROWS, true, true),
        ("one", 1, false, false),
        ("none", 0, false, false),
    ] {
        let batch = table(rows, nulls, coded);
        write_ipc(&folder.join(format!("{name}.arrow")), &batch);
        for codec in CODECS {
            for (layout, stride, stripe, chunk) in [
                ("small", 1000, 1 << 18, 4 << 10),
                ("whole", 1000, 64 << 20, 4 << 10),
                ("large", 10_000, 64 << 20, 256 << 10),
            ] {
                let bloom = OrcColumnOptions::default().with_bloom_filter(0.01);
                let mut options = OrcOptions::default()
                    .with_compression(codec)
                    .with_row_index_stride(stride)
                    .with_stripe_size(ByteSize::bytes(stripe))
                    .with_chunk_size(ByteSize::bytes(chunk))
                    .with_metadata("layout", layout);
                for column in ["noise", "many", "unique", "money", "day", "clock", "double", "bytes"] {
                    options = options.with_column(column, bloom.clone());
                }
                let codec = codec.to_string();
                let codec = codec.split('(').next().unwrap_or_default();
                let path = folder.join(format!("{name}-{codec}-{layout}.orc"));
                let sink = sinks.file(&path, Overwrite::Replace).await.unwrap();
                let mut writer =
                    OrcWriter::new(sink, path.display().to_string(), batch.schema(), options).unwrap();
                let mut start = 0;

                while start < rows {
                    let count = 3333.min(rows - start);
                    writer.write(&batch.slice(start, count)).await.unwrap();
                    start += count;
                }

                writer.finish().await.unwrap();
            }
        }
    }
}
