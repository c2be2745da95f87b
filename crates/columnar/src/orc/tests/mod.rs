//! Tests of files that are decoded in memory: from another library, built byte by byte, or written long ago.

mod damage;
mod graphar;
mod kinds;
mod row_group_statistics;
mod row_groups;
mod sample;
mod stripes;

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int8Array, Int16Array,
        Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
        TimestampNanosecondArray,
    },
    compute::concat_batches,
    datatypes::{Schema, SchemaRef},
};
use bytes::Bytes;
use object_store::path::Path;
use orc_rust::{arrow_writer::ArrowWriterBuilder, compression::CompressionType};
use stylobate_storage::{
    ByteSize, CacheOptions, ConsistencyRules, OpenObject, Origin, PageCache, ReadOptions, ReadThrough,
    RequestOptions,
};

use super::{
    OrcBytes, OrcFile,
    bytes::StripeReadPlan,
    decode::OrcBatches,
    fault::OrcReadError,
    tail::{FIRST_READ, OrcTail, TailParseOutcome},
};
use crate::{Result, file::schema::ProjectedColumn};

/// Opens bytes in memory like [`OrcFile::open`].
pub(in crate::orc) fn open(file: &Bytes) -> Result<OrcFile> {
    let size = file.len() as u64;
    let mut len = size.min(FIRST_READ);
    loop {
        let end = file.slice((size - len) as usize..);
        match OrcTail::parse(size, &end).map_err(|fault| fault.into_error("memory", None))? {
            TailParseOutcome::Tail(tail) => return Ok(OrcFile::new("memory", *tail, size, &end)),
            TailParseOutcome::Needs(needed) => len = needed,
        }
    }
}

/// Reads and decodes all stripes in memory like [`OrcFile::read`] and [`OrcFile::decode`].
fn decode(
    file: &Bytes,
    opened: &OrcFile,
    fields: &[ProjectedColumn],
    batch_rows: usize,
) -> Result<Vec<Vec<ArrayRef>>> {
    decode_by(file, opened, fields, |stripe, bytes| opened.decode(stripe, fields, bytes, batch_rows))
}

/// Reads and decodes all columns in memory like [`OrcFile::read`] and [`OrcFile::decode_coded`].
pub(in crate::orc) fn decode_coded(
    file: &Bytes,
    opened: &OrcFile,
    batch_rows: usize,
) -> Result<Vec<Vec<ArrayRef>>> {
    let fields = all_fields(opened);
    decode_by(file, opened, &fields, |stripe, bytes| opened.decode_coded(stripe, &fields, bytes, batch_rows))
}

fn decode_by(
    file: &Bytes,
    opened: &OrcFile,
    fields: &[ProjectedColumn],
    decode: impl Fn(usize, OrcBytes) -> Result<OrcBatches>,
) -> Result<Vec<Vec<ArrayRef>>> {
    let mut batches = Vec::new();
    for (stripe, location) in opened.tail.stripes.iter().enumerate() {
        let cut = |range: &std::ops::Range<u64>| file.slice(range.start as usize..range.end as usize);
        let error = |fault: OrcReadError| fault.into_error("memory", Some(stripe));
        let footer = opened.parse_footer(stripe, cut(&location.footer)).map_err(error)?;
        let wanted = StripeReadPlan::of(&footer, &opened.wanted_columns(fields).map_err(error)?);
        let read: Vec<Bytes> = wanted.ranges.iter().map(cut).collect();
        let bytes = wanted.cut(footer, &read).map_err(error)?;

        for batch in decode(stripe, bytes)? {
            batches.push(batch?);
        }
    }

    Ok(batches)
}

fn all_fields(file: &OrcFile) -> Vec<ProjectedColumn> {
    (0..file.schema().fields().len()).map(ProjectedColumn::whole).collect()
}

/// Stores the file in a folder and opens it through a store; the folder is removed when dropped.
async fn object_of(file: &Bytes) -> (tempfile::TempDir, OpenObject) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.orc"), file).unwrap();
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
    let origin = Origin::parse(folder.path().to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
    let store = ReadThrough::new(origin, cache, ConsistencyRules::default(), ReadOptions::default());
    let object = store.open_object(&Path::from("x.orc")).await.unwrap();
    (folder, object)
}

/// Reads all columns and rows, as one batch.
pub(in crate::orc) fn read_all(file: &Bytes, batch_rows: usize) -> Result<RecordBatch> {
    let opened = open(file)?;
    let schema = opened.schema();
    let batches = decode(file, &opened, &all_fields(&opened), batch_rows)?;
    let batches = batches.into_iter().map(|arrays| RecordBatch::try_new(schema.clone(), arrays).unwrap());
    Ok(concat_batches(schema, &batches.collect::<Vec<_>>()).unwrap())
}

/// Returns a batch with a column of each type that the other library writes: `rows` rows, some of them null.
fn simple_batch(rows: usize) -> RecordBatch {
    fn some<T>(rows: usize, value: impl Fn(i64) -> T) -> Vec<Option<T>> {
        (0..rows as i64).map(|row| (row % 5 != 3).then(|| value(row * 7919 % 1000))).collect()
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("boolean", Arc::new(BooleanArray::from(some(rows, |it| it % 3 == 0)))),
        ("byte", Arc::new(Int8Array::from(some(rows, |it| it as i8)))),
        ("short", Arc::new(Int16Array::from(some(rows, |it| it as i16 - 500)))),
        ("int", Arc::new(Int32Array::from(some(rows, |it| it as i32 * -70_000)))),
        ("long", Arc::new(Int64Array::from((0..rows as i64).map(|it| it * it * it).collect::<Vec<_>>()))),
        ("float", Arc::new(Float32Array::from(some(rows, |it| it as f32 / 3.0)))),
        ("double", Arc::new(Float64Array::from(some(rows, |it| it as f64 * 1e200)))),
        ("date", Arc::new(Date32Array::from(some(rows, |it| it as i32 * 300 - 100_000)))),
        ("string", Arc::new(StringArray::from(some(rows, |it| "grün".repeat(it as usize % 4))))),
        ("binary", Arc::new(BinaryArray::from_iter(some(rows, |it| vec![it as u8; it as usize % 7])))),
        ("time", Arc::new(TimestampNanosecondArray::from(some(rows, |it| it * 1_000_000_007_000)))),
        (
            "instant",
            Arc::new(TimestampMillisecondArray::from(some(rows, |it| it * 86_400_000)).with_timezone("UTC")),
        ),
    ];

    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn write(batches: &[RecordBatch], compression: Option<CompressionType>) -> Bytes {
    let mut file = Vec::new();
    let builder = ArrowWriterBuilder::new(&mut file, batches[0].schema());
    let mut writer = match compression {
        None => builder.try_build(),
        Some(compression) => {
            builder.with_compression(compression).with_compression_block_size(512).try_build()
        }
    }
    .unwrap();

    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush_stripe().unwrap();
    }

    writer.close().unwrap();
    file.into()
}

/// Casts the columns to another schema: nanoseconds for all timestamps.
pub(in crate::orc) fn cast(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns =
        columns.map(|(array, field)| arrow::compute::cast(array, field.data_type()).unwrap()).collect();
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

fn codecs() -> [Option<CompressionType>; 5] {
    use CompressionType::{Lz4, Snappy, Zlib, Zstd};
    [None, Some(Zlib), Some(Snappy), Some(Lz4), Some(Zstd)]
}

#[test]
fn what_another_library_wrote_is_what_is_read_whatever_the_codec() {
    let batches = [simple_batch(700), simple_batch(1), simple_batch(1300)];
    for codec in codecs() {
        let file = write(&batches, codec);
        for batch_rows in [1, 7, 1000, 65_536] {
            let read = read_all(&file, batch_rows).unwrap();
            let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
            assert_eq!(read, cast(&expected, &read.schema()), "{codec:?}, {batch_rows} rows");
        }
    }
}

#[test]
fn batches_have_as_many_rows_as_asked_for_and_the_last_of_a_stripe_the_rest() {
    let file = write(&[simple_batch(10), simple_batch(3)], None);
    let opened = open(&file).unwrap();
    let batches = decode(&file, &opened, &[ProjectedColumn::whole(4)], 4).unwrap();
    assert_eq!(batches.iter().map(|arrays| arrays[0].len()).collect::<Vec<_>>(), [4, 4, 2, 3]);
    assert_eq!(
        (opened.stripe_count(), opened.stripe_rows(0), opened.stripe_rows(1), opened.stripe_rows(2)),
        (2, 10, 3, 0)
    );
    assert!(decode(&file, &opened, &[], 4).unwrap().is_empty());
}

#[test]
fn columns_come_in_the_order_that_they_are_asked_for() {
    let batch = simple_batch(100);
    let file = write(std::slice::from_ref(&batch), Some(CompressionType::Zstd));
    let opened = open(&file).unwrap();
    let fields = [ProjectedColumn::whole(8), ProjectedColumn::whole(2), ProjectedColumn::whole(8)];
    let arrays = decode(&file, &opened, &fields, 100).unwrap().remove(0);
    assert_eq!(arrays, [batch.column(8).clone(), batch.column(2).clone(), batch.column(8).clone()]);
    assert!(opened.estimated_bytes(0, &fields) < opened.estimated_bytes(0, &all_fields(&opened)));
}

#[test]
fn a_file_without_rows_or_columns_has_a_schema_and_no_batches() {
    let empty = simple_batch(0);
    let mut file = Vec::new();
    ArrowWriterBuilder::new(&mut file, empty.schema()).try_build().unwrap().close().unwrap();
    let file = Bytes::from(file);
    let opened = open(&file).unwrap();
    assert_eq!((opened.stripe_count(), opened.schema().fields().len()), (0, 12));
    assert!(decode(&file, &opened, &all_fields(&opened), 10).unwrap().is_empty());

    let none =
        sample::SampleOrcFile::new(vec![sample::parent(orc_rust::proto::r#type::Kind::Struct, &[], &[])]);
    let file = none.stripe(5, vec![]).file();
    assert_eq!(**open(&file).unwrap().schema(), Schema::empty());
    assert_eq!(open(&file).unwrap().stripe_rows(0), 5);
}
