//! Tables with many types, as files in several encodings and in memory.
#![allow(dead_code, reason = "each test uses some of it")]

use std::{fs::File, path::Path, sync::Arc};

use datafusion::{
    arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
            Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
            TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt16Array,
            UInt32Array, UInt64Array,
        },
        compute::concat_batches,
        datatypes::{DataType, Field},
        util::pretty::pretty_format_batches,
    },
    prelude::SessionContext,
};
use futures::TryStreamExt;
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use stylobate_columnar::{
    Cache,
    orc::{OrcOptions, OrcWriter},
};
use stylobate_datafusion::SqlSession;
use stylobate_storage::{ByteSize, CacheOptions, Destination, Overwrite, SinkOptions, Sinks};

/// A generator of pseudorandom numbers, the same in each run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Returns a column of `rows` values, a tenth of them null.
fn column<T>(rows: usize, seed: u64, mut value: impl FnMut(&mut Numbers) -> T) -> Vec<Option<T>> {
    let mut numbers = Numbers::new(seed);
    let one = |_| {
        let is_null = numbers.below(10) == 0;
        let value = value(&mut numbers);
        (!is_null).then_some(value)
    };
    (0..rows).map(one).collect()
}

fn text(columns: Vec<Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from(columns))
}

/// Returns rows with many types. `id` ascends; other columns have nulls.
pub(crate) fn many_types(rows: usize) -> RecordBatch {
    let small = |numbers: &mut Numbers| numbers.below(50) as i64 - 25;
    let modes = ["AIR", "MAIL", "SHIP", "TRUCK", "", "air%_", "Größe"];
    let zips: ArrayRef = Arc::new(Int32Array::from(column(rows, 20, |n| n.below(30) as i32)));
    let cities = text(column(rows, 21, |n| modes[n.below(5) as usize].to_owned()));
    let address = StructArray::from(vec![
        (Arc::new(Field::new("zip", DataType::Int32, true)), zips),
        (Arc::new(Field::new("city", DataType::Utf8, true)), cities),
    ]);
    let cents = column(rows, 12, |n| i128::from(n.below(100_000) as i64 - 50_000));
    let cents = Decimal128Array::from(cents).with_precision_and_scale(12, 2).unwrap();
    let fine = column(rows, 13, |n| i128::from(n.below(1_000) as i64 - 500) * 1_000_000_007);
    let fine = Decimal128Array::from(fine).with_precision_and_scale(25, 7).unwrap();
    let micros = column(rows, 15, |n| n.below(2_000) as i64 * 3_600_000_000);
    let nanos = column(rows, 16, |n| n.below(2_000) as i64 * 1_000_000_001);
    let millis = column(rows, 17, |n| n.below(2_000) as i64 * 1_001);

    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..rows as i64).map(Some).collect::<Int64Array>())),
        ("i8", Arc::new(Int8Array::from(column(rows, 1, |n| small(n) as i8)))),
        ("i16", Arc::new(Int16Array::from(column(rows, 2, |n| small(n) as i16)))),
        ("i32", Arc::new(Int32Array::from(column(rows, 3, |n| small(n) as i32)))),
        ("i64", Arc::new(Int64Array::from(column(rows, 4, |n| small(n) * 4_000_000_000)))),
        ("u16", Arc::new(UInt16Array::from(column(rows, 5, |n| n.below(50) as u16)))),
        ("u32", Arc::new(UInt32Array::from(column(rows, 6, |n| n.below(50) as u32 * 80_000_000)))),
        ("u64", Arc::new(UInt64Array::from(column(rows, 7, |n| n.below(50) * 300_000_000_000_000_000)))),
        ("f32", Arc::new(Float32Array::from(column(rows, 8, |n| small(n) as f32 / 10.0)))),
        ("f64", Arc::new(Float64Array::from(column(rows, 9, |n| small(n) as f64 / 10.0)))),
        ("flag", Arc::new(BooleanArray::from(column(rows, 10, |n| n.below(2) == 0)))),
        ("day", Arc::new(Date32Array::from(column(rows, 11, |n| n.below(400) as i32 + 9_000)))),
        ("cents", Arc::new(cents)),
        ("fine", Arc::new(fine)),
        ("mode", text(column(rows, 14, |n| modes[n.below(7) as usize].to_owned()))),
        ("at", Arc::new(TimestampMicrosecondArray::from(micros))),
        ("at_utc", Arc::new(TimestampNanosecondArray::from(nanos).with_timezone("UTC"))),
        ("at_ms", Arc::new(TimestampMillisecondArray::from(millis))),
        ("name", text(column(rows, 18, |n| format!("name-{:05}", n.below(100_000))))),
        (
            "bytes",
            Arc::new(
                column(rows, 19, |n| vec![n.below(4) as u8, n.below(4) as u8])
                    .into_iter()
                    .collect::<BinaryArray>(),
            ),
        ),
        ("address", Arc::new(address)),
    ];
    let fields = columns.iter().map(|(name, array)| (*name, array.clone(), *name != "id"));
    RecordBatch::try_from_iter_with_nullable(fields).unwrap()
}

/// Writes a Parquet file with row groups of this number of rows.
pub(crate) fn write_parquet(path: &Path, batch: &RecordBatch, group_rows: usize, dictionary: bool) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_dictionary_enabled(dictionary)
        .set_data_page_row_count_limit(200)
        .set_write_batch_size(100);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Writes an ORC file.
pub(crate) async fn write_orc(path: &Path, batch: &RecordBatch) {
    let sinks = Sinks::new(SinkOptions::default());
    let sink = sinks.open(&Destination::File(path.to_owned()), Overwrite::Refuse).await.unwrap();
    let mut writer = OrcWriter::new(sink, "test.orc", batch.schema(), OrcOptions::default()).unwrap();
    writer.write(batch).await.unwrap();
    writer.finish().await.unwrap();
}

/// Opens a session with its own cache.
pub(crate) async fn session() -> SqlSession {
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    SqlSession::builder(cache).with_threads(3).build().unwrap()
}

/// Opens a session with one table.
pub(crate) async fn session_over(name: &str, path: &Path) -> SqlSession {
    let session = session().await;
    session.add_table(name, &path.to_string_lossy()).await.unwrap();
    session
}

/// Returns the rows of a query as text.
pub(crate) async fn rows(session: &SqlSession, sql: &str) -> String {
    let rows = session.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = rows.schema();
    let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let whole = concat_batches(&schema, &batches).unwrap();
    pretty_format_batches(&[whole]).unwrap().to_string()
}

/// Returns the rows of a query run by DataFusion alone as text.
pub(crate) async fn rows_of(context: &SessionContext, sql: &str) -> String {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let whole = concat_batches(&schema, &batches).unwrap();
    pretty_format_batches(&[whole]).unwrap().to_string()
}

/// Returns the physical plan of a query as text, with `FOLDER` in place of the folder of its files.
pub(crate) async fn plan(session: &SqlSession, folder: &Path, sql: &str) -> String {
    let frame = session.context().sql(sql).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    text.replace(&*folder.to_string_lossy(), "FOLDER").trim_end().to_owned()
}
