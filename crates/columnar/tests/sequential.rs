//! Scans of CSV, JSON and Arrow IPC files: their results and errors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may unwrap as tests do")]

mod support;

use std::{fs::File, io::Write, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
        RecordBatchOptions, StringArray, StructArray,
    },
    compute::concat_batches,
    datatypes::{
        DataType, Decimal128Type, Field, Float64Type, Int8Type, Int16Type, Int64Type, Schema, TimeUnit,
    },
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use futures::{StreamExt, TryStreamExt};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_columnar::{
    CsvEncoder, CsvHeader, CsvOptions, Error, JsonOptions, Result, Sample, SequentialFormat,
    SequentialRequest, Source, TimestampInference, col, exact_cast,
};
use stylobate_storage::ByteSize;
use support::{Folder, cache};

fn write(folder: &Folder, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path(name);
    std::fs::write(&path, text).unwrap();
    path
}

async fn collect(request: SequentialRequest) -> Result<RecordBatch> {
    let cache = cache(1 << 24).await;
    let scan = request.plan(&cache).await?;
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await?;
    assert!(batches.iter().all(|batch| batch.schema() == *scan.schema()));
    if let Some(rows) = scan.rows() {
        assert_eq!(rows, batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    }

    if scan.schema().fields().is_empty() {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        return Ok(RecordBatch::try_new_with_options(scan.schema().clone(), Vec::new(), &options).unwrap());
    }

    Ok(concat_batches(scan.schema(), &batches).unwrap())
}

fn csv(path: &str, options: CsvOptions) -> SequentialRequest {
    SequentialRequest::over([path], SequentialFormat::Csv(options))
}

fn json(path: &str) -> SequentialRequest {
    SequentialRequest::over([path], SequentialFormat::Json(JsonOptions::default()))
}

fn ipc(path: &str) -> SequentialRequest {
    SequentialRequest::over([path], SequentialFormat::Arrow)
}

/// Returns line, column and reason of an error.
fn text_error(error: Error) -> (u64, Option<String>, String) {
    let shown = error.to_string();
    match error {
        Error::Text { line, column, .. } => (line, column, shown),
        other => panic!("{other}"),
    }
}

fn types(batch: &RecordBatch) -> Vec<DataType> {
    batch.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<Option<String>> {
    batch.column(column).as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn types_are_those_of_all_values_and_null_is_no_empty_text() {
    let folder = Folder::new();
    let text = "id,zip,price,fine,born,seen,name\n\
                1,01234,1,true,2001-02-03,2020-01-02T03:04:05.000006,\n\
                ,99999,2.5,FALSE,,2020-01-02,\"\"\n";
    let read = collect(csv(&write(&folder, "a.csv", text), CsvOptions::default())).await.unwrap();
    let expected = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Float64,
        DataType::Boolean,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Utf8,
    ];

    assert_eq!(types(&read), expected);
    assert_eq!(read.column(0).as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(1), None]));
    assert_eq!(texts(&read, 1), [Some("01234".to_owned()), Some("99999".to_owned())]);
    assert_eq!(read.column(2).as_primitive::<Float64Type>().values(), &[1.0, 2.5]);
    assert_eq!(texts(&read, 6), [None, Some(String::new())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_rows_and_counts_are_those_that_were_asked_for() {
    let folder = Folder::new();
    let mut text = "id,word,number\n".to_owned();
    for id in 0..30_000 {
        text += &format!("{id},w{},{}\n", id % 3, id * 2);
    }

    let path = write(&folder, "a.csv", text);
    let request = || csv(&path, CsvOptions::default());
    let some =
        collect(request().with_columns(["number", "id"]).with_filter(col("word").eq("w1")).with_limit(5_000));
    let some = some.await.unwrap();
    assert_eq!((some.num_rows(), some.num_columns()), (5_000, 2));
    assert_eq!(some.column(0).as_primitive::<Int64Type>().value(1), 8);
    assert_eq!(collect(request().with_columns(Vec::<String>::new())).await.unwrap().num_rows(), 30_000);
    assert_eq!(collect(request().with_limit(0)).await.unwrap().num_rows(), 0);
    let wrong = collect(request().with_columns(["nmae"])).await.unwrap_err();
    assert!(
        matches!(&wrong, Error::NoSuchColumn { available, .. } if available == "id, word, number"),
        "{wrong}"
    );

    let wrong = collect(request().with_filter(col("x").eq(1))).await.unwrap_err();
    assert!(
        matches!(&wrong, Error::NoSuchColumn { available, .. } if available == "id, word, number"),
        "{wrong}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn options_say_what_the_file_does_not() {
    let folder = Folder::new();
    let path = write(&folder, "a.csv", "1;'a;\\'b';NA\n2;;'NA'\n");
    let options = CsvOptions::default()
        .with_delimiter(b';')
        .with_quote(Some(b'\''))
        .with_escape(Some(b'\\'))
        .with_header(CsvHeader::Absent)
        .with_null_values(["NA"])
        .with_type("column0", DataType::Decimal128(10, 2));

    let read = collect(csv(&path, options.clone())).await.unwrap();
    assert_eq!(types(&read), [DataType::Decimal128(10, 2), DataType::Utf8, DataType::Utf8]);
    assert_eq!(texts(&read, 1), [Some("a;'b".to_owned()), None]);
    assert_eq!(texts(&read, 2), [None, Some("NA".to_owned())]);

    let named = options.with_header(CsvHeader::Names(["x", "y", "z"].map(str::to_owned).to_vec()));
    let unknown = collect(csv(&path, named.clone())).await.unwrap_err();
    assert!(matches!(unknown, Error::NoSuchColumn { .. }), "the type is that of column0: {unknown}");

    for wrong in [named.clone().with_quote(Some(b';')), named.with_max_record(ByteSize::gib(2))] {
        assert!(matches!(collect(csv(&path, wrong)).await, Err(Error::Option { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_value_that_does_not_fit_is_named_with_line_and_column() {
    let folder = Folder::new();
    let rows: String = (0..2_000).map(|n| format!("{n},{n}\n")).collect();
    for (value, is_wrong) in
        [("abc", true), ("007", true), ("+1", true), ("-0", true), ("1.5", true), ("", false), ("-3", false)]
    {
        let path = write(&folder, "a.csv", format!("id,v\n{rows}2000,{value}\n"));
        let options = CsvOptions::default().with_sample(Sample::Rows(10));
        let read = collect(csv(&path, options.clone())).await;
        assert_eq!(read.is_err(), is_wrong, "{value}");

        if let Err(error) = read {
            let (line, column, shown) = text_error(error);
            assert_eq!((line, column.as_deref()), (2_002, Some("v")));
            assert!(
                shown.contains(&format!("{value:?} is no Int64")) && shown.contains("larger sample"),
                "{shown}"
            );
        }

        let others = csv(&path, options.clone()).with_columns(["id"]);
        assert_eq!(collect(others).await.unwrap().num_rows(), 2_001, "the column is not read");
        let all = collect(csv(&path, options.with_sample(Sample::All))).await.unwrap();
        assert_eq!(all.num_rows(), 2_001);
    }

    let path = write(&folder, "b.csv", "v\n1\n2x\n");
    let declared = CsvOptions::default().with_type("v", DataType::Int32);
    let (line, _, shown) = text_error(collect(csv(&path, declared)).await.unwrap_err());
    assert_eq!(line, 3);
    assert!(shown.ends_with("correct the value, or give the column another type"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_csv_is_named_with_its_line() {
    let folder = Folder::new();
    for (text, line, said) in [
        (&b"a,b\n1,2\n3\n"[..], 3, "has 1 field, and there are 2 columns"),
        (b"a,b\n1,\"x\n2,y\n", 2, "the quote that opens here is not closed"),
        (b"a,b\n1,\"x\"y\n", 2, "goes on after its closing quote"),
        (b"a,b\n1,\xFF\n", 2, "not UTF-8"),
        (b"", 1, "there is no header"),
    ] {
        let path = write(&folder, "a.csv", text);
        let (at, _, shown) = text_error(collect(csv(&path, CsvOptions::default())).await.unwrap_err());
        assert_eq!(at, line, "{shown}");
        assert!(shown.contains(said), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_records_are_read_up_to_their_limit() {
    let folder = Folder::new();
    let large = "x".repeat(3 << 20);
    let path = write(&folder, "a.csv", format!("a,b\n1,\"{large}\n{large}\"\n2,y\n"));
    let read = collect(csv(&path, CsvOptions::default())).await.unwrap();
    assert_eq!(read.column(1).as_string::<i32>().value(0).len(), (6 << 20) + 1);
    let options = CsvOptions::default().with_max_record(ByteSize::mib(4));
    let (line, _, shown) = text_error(collect(csv(&path, options)).await.unwrap_err());
    assert_eq!(line, 2);
    assert!(shown.contains("not closed within 4 MiB"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_texts_are_decompressed_and_damage_is_an_error() {
    let folder = Folder::new();
    let text = "a,b\n".to_owned() + &"1,x\n".repeat(100_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::stream::encode_all(text.as_bytes(), 1).unwrap();

    for (name, bytes) in [("a.csv.gz", gzip), ("a.csv.zst", zstd)] {
        let path = write(&folder, name, &bytes);
        let Some(format) = SequentialFormat::of_path(&path) else { panic!("{path}") };
        let read = collect(SequentialRequest::over([path.as_str()], format.clone())).await.unwrap();
        assert_eq!((read.num_rows(), types(&read)), (100_000, vec![DataType::Int64, DataType::Utf8]));
        let cut = write(&folder, name, &bytes[..bytes.len() - 20]);
        let error = collect(SequentialRequest::over([cut.as_str()], format)).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_several_files_meet_by_name() {
    let folder = Folder::new();
    write(&folder, "1.csv", "a,b\n1,x\n");
    write(&folder, "2.csv", "b,c,a\ny,true,2.5\n");
    write(&folder, "3.csv", "a,b\n3,z");
    let read = collect(csv(&folder.path("*.csv"), CsvOptions::default())).await.unwrap();
    assert_eq!(types(&read), [DataType::Float64, DataType::Utf8, DataType::Boolean]);
    assert_eq!(read.column(0).as_primitive::<Float64Type>().values(), &[1.0, 2.5, 3.0]);
    assert_eq!(read.column(2).null_count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_encoded_is_read_again() {
    let mut random = StdRng::seed_from_u64(7);
    let folder = Folder::new();
    for _ in 0..40 {
        let rows = random.random_range(0..60);
        let mut text = |characters: &[char]| -> StringArray {
            let value = |random: &mut StdRng| {
                let len = random.random_range(0..6);
                let value: String =
                    (0..len).map(|_| characters[random.random_range(0..characters.len())]).collect();
                (!random.random_bool(0.2)).then_some(value)
            };
            (0..rows).map(|_| value(&mut random)).collect()
        };

        let wild: ArrayRef = Arc::new(text(&['a', '"', ',', '\n', '\r', ' ', 'é', '0', ';', '\\']));
        let digits: ArrayRef = Arc::new(text(&['0', '1', '-', '.']));
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("id", ids, true),
            ("w", wild, true),
            ("d", digits, true),
        ]);
        let batch = batch.unwrap();
        let mut encoder = CsvEncoder::new(Vec::new(), &batch.schema()).unwrap();
        encoder.write(&batch).unwrap();
        let path = write(&folder, "a.csv", encoder.into_inner());
        let options = CsvOptions::default().with_type("w", DataType::Utf8).with_type("d", DataType::Utf8);
        let read =
            collect(csv(&path, options.with_type("id", DataType::Int64)).with_batch_rows(7)).await.unwrap();
        assert_eq!(read.columns(), batch.columns());

        // Inferred values equal the text.
        let inferred = collect(csv(&path, CsvOptions::default())).await.unwrap();
        let column = inferred.column(2);
        if *column.data_type() == DataType::Int64 {
            let texts = exact_cast(column, &DataType::Utf8).unwrap();
            let no_empty =
                batch.column(2).as_string::<i32>().iter().map(|text| text.filter(|text| !text.is_empty()));
            let expected: StringArray = no_empty.collect();
            assert_eq!(texts.as_string::<i32>(), &expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_graphs_have_no_zone() {
    let folder = Folder::new();
    let path = write(&folder, "a.csv", "t\n2020-01-02T03:04:05.678+0000\n2020-01-02\n");
    let utc = CsvOptions::default().with_timestamps(TimestampInference::UtcMilliseconds);
    let read = collect(csv(&path, utc)).await.unwrap();
    assert_eq!(types(&read), [DataType::Timestamp(TimeUnit::Microsecond, None)]);
    assert_eq!(types(&collect(csv(&path, CsvOptions::default())).await.unwrap()), [DataType::Utf8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_lists_and_structs_and_keys_that_some_lines_lack() {
    let folder = Folder::new();
    let lines = "{\"a\": 1, \"s\": {\"x\": [1, 2.5], \"y\": \"t\"}}\n\n{\"b\": \"é\", \"a\": null, \"s\": {\"y\": null}}\n";
    let array =
        "[\n{\"a\": 1, \"s\": {\"x\": [1, 2.5], \"y\": \"t\"}},\n{\"b\": \"é\",\n \"s\": {\"y\": null}}]";

    for text in [lines, array] {
        let path = write(&folder, "a.json", text);
        let read = collect(json(&path)).await.unwrap();
        let schema = read.schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "s", "b"]);
        assert_eq!(read.column(0).as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(1), None]));
        let inner = read.column(1).as_struct().column_by_name("x").unwrap().as_list::<i32>();
        assert_eq!(inner.value(0).as_primitive::<Float64Type>().values(), &[1.0, 2.5]);
        let some = collect(json(&path).with_columns(["s.y"]).with_filter(col("a").eq(1))).await.unwrap();
        let DataType::Struct(fields) = some.schema().field(0).data_type().clone() else { panic!() };
        assert_eq!((some.num_rows(), fields.len()), (1, 1));
        assert_eq!(collect(json(&path).with_columns(Vec::<String>::new())).await.unwrap().num_rows(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_values_that_have_no_type_in_common_become_texts_or_are_named() {
    let folder = Folder::new();
    let path = write(
        &folder,
        "a.jsonl",
        "{\"a\": 1}\n{\"a\": \"x\"}\n{\"a\": true}\n{\"a\": 9223372036854775808}\n",
    );

    let read = collect(json(&path)).await.unwrap();
    let expected = ["1", "x", "true", "9223372036854775808"].map(|text| Some(text.to_owned()));
    assert_eq!(texts(&read, 0), expected);

    for beyond in ["-9223372036854775809", "18446744073709551616"] {
        let path =
            write(&folder, "a.jsonl", format!("{{\"a\": {beyond}, \"l\": [{beyond}]}}\n{{\"a\": 0.5}}\n"));
        let read = collect(json(&path)).await.unwrap();
        assert_eq!(texts(&read, 0), [beyond, "0.5"].map(|text| Some(text.to_owned())));
        let items = read.column(1).as_list::<i32>().value(0);
        assert_eq!(items.as_string::<i32>(), &StringArray::from(vec![beyond]));
    }

    for (text, line) in [
        ("{\"a\": 1}\n{\"a\": {}}\n", 2),
        ("{\"a\": 1}\n{\"a\": tru}\n", 2),
        ("{\"a\": 1}\n{\"a\"}\n", 2),
        ("{\"a\": 1}\n7\n", 2),
        ("{\"a\": 1}\n{\"a\": 1\n", 2),
    ] {
        let path = write(&folder, "a.jsonl", text);
        let (at, _, shown) = text_error(collect(json(&path)).await.unwrap_err());
        assert_eq!(at, line, "{shown}");
    }

    let path = write(&folder, "a.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 2.5, \"b\": 1}\n");
    let sampled = SequentialFormat::Json(JsonOptions::default().with_sample(Sample::Rows(2)));
    let request = || SequentialRequest::over([path.as_str()], sampled.clone());
    let (line, column, shown) = text_error(collect(request()).await.unwrap_err());
    assert_eq!((line, column.as_deref()), (3, Some("a")), "{shown}");
    let declared = JsonOptions::default().with_sample(Sample::Rows(2)).with_type("a", DataType::Float64);
    let request = || SequentialRequest::over([path.as_str()], SequentialFormat::Json(declared.clone()));
    let (line, column, shown) = text_error(collect(request()).await.unwrap_err());
    assert_eq!((line, column.as_deref()), (3, Some("b")), "{shown}");
    assert_eq!(collect(request().with_columns(["a"])).await.unwrap().num_rows(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_of_a_json_column_that_no_record_has_is_an_error() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{\"b\": 3}\n");
    let request = |sample: Sample, column: &str| {
        let options = JsonOptions::default().with_sample(sample).with_type(column, DataType::Int8);
        SequentialRequest::over([path.as_str()], SequentialFormat::Json(options))
    };

    for sample in [Sample::All, Sample::Rows(2)] {
        let error = collect(request(sample, "q").with_columns(["a"])).await.unwrap_err();
        assert!(
            matches!(&error, Error::NoSuchColumn { column, available } if column == "q" && available == "a, b"),
            "{error}"
        );
    }

    // The sample lacks the column, and a later record has it.
    let read = collect(request(Sample::Rows(2), "b")).await.unwrap();
    assert_eq!(types(&read), [DataType::Int64, DataType::Int8]);

    let empty = write(&folder, "b.jsonl", "");
    let options = JsonOptions::default().with_type("a", DataType::Int8);
    let request = SequentialRequest::over([empty.as_str()], SequentialFormat::Json(options));
    assert_eq!(types(&collect(request).await.unwrap()), [DataType::Int8]);
}

fn arrow_batches() -> Vec<RecordBatch> {
    let batch = |from: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 100));
        let words: DictionaryArray<Int8Type> = (0..100).map(|n| Some(["a", "b", "c"][n % 3])).collect();
        let words: ArrayRef = Arc::new(words);
        let inner: ArrayRef = Arc::new(StructArray::from(vec![
            (Arc::new(Field::new("x", DataType::Int64, false)), ids.clone()),
            (Arc::new(Field::new("w", words.data_type().clone(), false)), words.clone()),
        ]));
        RecordBatch::try_from_iter([("id", ids), ("word", words), ("s", inner)]).unwrap()
    };

    vec![batch(0), batch(100), batch(200)]
}

#[tokio::test(flavor = "multi_thread")]
async fn arrow_files_and_streams_are_told_apart_by_their_first_bytes() {
    let folder = Folder::new();
    let batches = arrow_batches();
    let schema = batches[0].schema();

    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let file = folder.path("f.arrow");
        let stream = folder.path("s.arrow");
        let mut writer =
            FileWriter::try_new_with_options(File::create(&file).unwrap(), &schema, options.clone()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        let mut writer =
            StreamWriter::try_new_with_options(File::create(&stream).unwrap(), &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();

        for path in [&file, &stream] {
            let read = collect(ipc(path)).await.unwrap();
            assert_eq!(read.num_rows(), 300);
            assert_eq!(read.column(0).as_primitive::<Int64Type>().values()[299], 299);
            let some = ipc(path).with_columns(["s.x", "id"]).with_filter(col("word").eq("b")).with_limit(50);
            let some = collect(some).await.unwrap();
            assert_eq!((some.num_rows(), some.num_columns()), (50, 2));
            assert_eq!(some.column(1).as_primitive::<Int64Type>().values()[..3], [1, 4, 7]);
            assert_eq!(collect(ipc(path).with_columns(Vec::<String>::new())).await.unwrap().num_rows(), 300);
        }

        let both = SequentialRequest::over([file.as_str(), stream.as_str()], SequentialFormat::Arrow);
        assert_eq!(collect(both).await.unwrap().num_rows(), 600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_arrow_files_are_errors() {
    let folder = Folder::new();
    let batches = arrow_batches();
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);

    let mut random = StdRng::seed_from_u64(3);
    for cut in [0, 3, 6, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        let path = write(&folder, "a.arrow", &bytes[..cut]);
        assert!(collect(ipc(&path)).await.is_err(), "{cut} bytes");
    }

    for _ in 0..100 {
        let mut damaged = bytes.clone();
        let at = random.random_range(0..damaged.len());
        damaged[at] ^= 1 << random.random_range(0..8);
        // Damage to values alone may go unnoticed, but must not panic.
        let _ = collect(ipc(&write(&folder, "a.arrow", damaged))).await;
    }

    let text = write(&folder, "a.arrow", "no columns at all, whatever its name says");
    assert!(matches!(collect(ipc(&text)).await, Err(Error::Corrupt { .. })));
}

/// Writes columns, which may have nulls, as an Arrow IPC file.
fn write_ipc(folder: &Folder, name: &str, columns: &[(&str, ArrayRef)]) -> String {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    let batch = RecordBatch::try_new(schema, arrays).unwrap();

    let path = folder.path(name);
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();

    path
}

fn over_ipc(paths: &[&str]) -> SequentialRequest {
    SequentialRequest::over(paths.iter().copied(), SequentialFormat::Arrow)
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_several_arrow_files_meet_by_name_in_a_type_that_has_all_values() {
    let folder = Folder::new();
    let small: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let coded: DictionaryArray<Int8Type> = [Some("c")].into_iter().collect();
    let coded: ArrayRef = Arc::new(coded);
    let a = write_ipc(&folder, "a.arrow", &[("n", small), ("w", words)]);
    let b = write_ipc(&folder, "b.arrow", &[("w", coded), ("more", large.clone()), ("n", large)]);

    let read = collect(over_ipc(&[&a, &b])).await.unwrap();
    let schema = read.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["n", "w", "more"]);
    assert_eq!(types(&read), [DataType::Int64, DataType::Utf8, DataType::Int64]);
    let numbers = read.column(0).as_primitive::<Int64Type>();
    assert_eq!(numbers, &Int64Array::from(vec![Some(1), None, Some(1 << 40)]));
    assert_eq!(texts(&read, 1), ["a", "b", "c"].map(|text| Some(text.to_owned())));
    let more = read.column(2).as_primitive::<Int64Type>();
    assert_eq!(more, &Int64Array::from(vec![None, None, Some(1 << 40)]));

    let some = over_ipc(&[&a, &b]).with_columns(["more", "n"]).with_filter(col("w").gt_eq("b"));
    let some = collect(some).await.unwrap();
    assert_eq!((some.num_rows(), types(&some)), (2, vec![DataType::Int64, DataType::Int64]));
    let only = collect(over_ipc(&[&a, &b]).with_columns(["more"])).await.unwrap();
    assert_eq!((only.num_rows(), only.column(0).null_count()), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn types_of_arrow_files_that_do_not_meet_are_an_error_that_names_both_files() {
    let folder = Folder::new();
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let a = write_ipc(&folder, "a.arrow", &[("x", ints.clone()), ("y", ints.clone())]);
    let b = write_ipc(&folder, "b.arrow", &[("x", words), ("y", ints)]);

    let error = collect(over_ipc(&[&a, &b])).await.unwrap_err();
    assert!(matches!(&error, Error::Schema { column, .. } if column == "x"), "{error}");
    let shown = error.to_string();
    assert!(shown.contains("a.arrow") && shown.contains("b.arrow"), "{shown}");
    assert_eq!(collect(over_ipc(&[&a, &b]).with_columns(["y"])).await.unwrap().num_rows(), 2);

    let large: ArrayRef = Arc::new(Int64Array::from(vec![(1 << 53) + 1]));
    let halves: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    let c = write_ipc(&folder, "c.arrow", &[("z", large)]);
    let d = write_ipc(&folder, "d.arrow", &[("z", halves)]);
    let error = collect(over_ipc(&[&c, &d])).await.unwrap_err();
    assert!(matches!(&error, Error::Schema { object, .. } if object.ends_with("c.arrow")), "{error}");
}

#[test]
fn a_scan_whose_thread_never_starts_is_an_error_and_not_the_end() {
    let folder = Folder::new();
    let path = write(&folder, "a.csv", "a\n1\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scan = runtime.block_on(async {
        let cache = cache(1 << 24).await;
        csv(&path, CsvOptions::default()).plan(&cache).await.unwrap()
    });

    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let _entered = handle.enter();
    let items: Vec<_> = futures::executor::block_on(scan.stream().collect());
    assert!(matches!(items.as_slice(), [Err(Error::Ended { .. })]), "{items:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_folder_are_those_of_the_format_that_was_named() {
    let folder = Folder::new();
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("p", ints.clone())]).unwrap();
    folder.parquet("0.parquet", &batch, parquet::file::properties::WriterProperties::default());
    let stream = write_ipc(&folder, "1.arrow", &[("i", ints)]);
    std::fs::copy(&stream, folder.path("nameless")).unwrap();
    write(&folder, "2.csv", "c\n1\n");
    write(&folder, "3.tsv", "c\n2\n");
    write(&folder, "4.jsonl", "{\"j\": 1}\n");
    write(&folder, "_log.csv", "other\n1\n");
    write(&folder, ".hidden.csv", "other\n1\n");
    write(&folder, "README.md", "no, table\n");

    let root = folder.path("");
    let column = |batch: &RecordBatch| batch.schema().field(0).name().clone();
    for path in [root.clone(), folder.path("[0-9]*")] {
        let read = collect(csv(&path, CsvOptions::default())).await.unwrap();
        assert_eq!((column(&read), read.num_rows(), read.num_columns()), ("c".to_owned(), 2, 1));
    }

    let read = collect(json(&root)).await.unwrap();
    assert_eq!((column(&read), read.num_rows(), read.num_columns()), ("j".to_owned(), 1, 1));
    let read = collect(ipc(&root)).await.unwrap();
    assert_eq!((column(&read), read.num_rows(), read.num_columns()), ("i".to_owned(), 4, 1));

    // A file that is named explicitly is read whatever its extension.
    let named = write(&folder, "5.orc", "x\n1\n");
    assert_eq!(collect(csv(&named, CsvOptions::default())).await.unwrap().num_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_a_file_of_the_format_is_an_error_that_names_both() {
    let folder = Folder::new();
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("p", ints)]).unwrap();
    folder.parquet("in/0.parquet", &batch, parquet::file::properties::WriterProperties::default());
    folder.parquet("in/nameless", &batch, parquet::file::properties::WriterProperties::default());
    let path = folder.path("in");

    let requests =
        [(csv(&path, CsvOptions::default()), "CSV"), (json(&path), "JSON"), (ipc(&path), "Arrow IPC")];
    for (request, format) in requests {
        let error = collect(request).await.unwrap_err();
        let shown = error.to_string();
        assert!(matches!(error, Error::Pattern { .. }), "{shown}");
        assert!(shown.contains(&path) && shown.contains(format), "{shown}");
    }

    // Files without an extension are recognized by their bytes.
    write(&folder, "in/part-0", "c\n1\n");
    let read = collect(csv(&path, CsvOptions::default())).await.unwrap();
    assert_eq!(read.schema().field(0).name(), "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_format_of_a_source_is_told_by_names_or_else_by_bytes() {
    let folder = Folder::new();
    let cache = cache(1 << 24).await;
    let stream = folder.path("nameless");
    let batches = arrow_batches();
    let mut writer = StreamWriter::try_new(File::create(&stream).unwrap(), &batches[0].schema()).unwrap();
    writer.finish().unwrap();
    let tabs = write(&folder, "a.tsv", "x\ty\n1\t2\n");
    let detect = |path: &str| {
        let source = Source::from(path);
        let cache = cache.clone();
        async move { SequentialFormat::detect(&source, &cache).await }
    };

    assert!(matches!(detect(&stream).await, Ok(Some(SequentialFormat::Arrow))));
    let Ok(Some(format)) = detect(&tabs).await else { panic!() };
    let read = collect(SequentialRequest::over([tabs.as_str()], format)).await.unwrap();
    assert_eq!(types(&read), [DataType::Int64, DataType::Int64]);
    write(&folder, "b.json", "{}");
    assert!(matches!(detect(&folder.path("*.*")).await, Err(Error::Pattern { .. })));
}

/// Writes a text into the folders of two years. Returns their parent.
fn write_years(folder: &Folder, name: &str, text: &str) -> String {
    for year in ["year=2023", "year=2024"] {
        std::fs::create_dir_all(folder.path(year)).unwrap();
        write(folder, &format!("{year}/{name}"), text);
    }
    folder.path("")
}

fn names(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| field.name().clone()).collect()
}

fn integers(batch: &RecordBatch, column: usize) -> Vec<i64> {
    batch.column(column).as_primitive::<Int64Type>().values().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_folders_are_columns_whatever_the_format_of_the_files() {
    let folder = Folder::new();
    let root = write_years(&folder, "a.csv", "n\n1\n2\n");
    write_years(&folder, "a.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");
    for year in ["year=2023", "year=2024"] {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        write_ipc(&folder, &format!("{year}/a.arrow"), &[("n", numbers)]);
    }

    for request in [csv(&root, CsvOptions::default()), json(&root), ipc(&root)] {
        let read = collect(request.clone()).await.unwrap();
        assert_eq!(names(&read), ["n", "year"]);
        assert_eq!(integers(&read, 0), [1, 2, 1, 2]);
        assert_eq!(integers(&read, 1), [2023, 2023, 2024, 2024]);

        let some = request.clone().with_columns(["year"]).with_filter(col("year").gt(2023)).with_limit(1);
        let some = collect(some).await.unwrap();
        assert_eq!((names(&some), integers(&some, 0)), (vec!["year".to_owned()], vec![2024]));

        let typed = request.clone().with_partition_types([("year", DataType::Utf8)]);
        let typed = collect(typed).await.unwrap();
        assert_eq!(texts(&typed, 1), ["2023", "2023", "2024", "2024"].map(|year| Some(year.to_owned())));
        let plain = collect(request.clone().with_hive_partitions(false)).await.unwrap();
        assert_eq!(names(&plain), ["n"]);

        let unknown = collect(request.with_partition_types([("month", DataType::Int8)])).await.unwrap_err();
        assert!(matches!(unknown, Error::Option { .. }), "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_values_win_over_a_column_of_that_name() {
    let folder = Folder::new();
    let root = write_years(&folder, "a.csv", "year,n\nx,1\n");
    write_years(&folder, "a.jsonl", "{\"year\": \"x\", \"n\": 1}\n{\"year\": [], \"n\": 2}\n");

    let read = collect(csv(&root, CsvOptions::default())).await.unwrap();
    assert_eq!((names(&read), integers(&read, 1)), (vec!["n".into(), "year".into()], vec![2023, 2024]));
    let sampled = JsonOptions::default().with_sample(Sample::Rows(1));
    let sampled = SequentialRequest::over([root.as_str()], SequentialFormat::Json(sampled));
    assert_eq!(integers(&collect(sampled).await.unwrap(), 1), [2023, 2023, 2024, 2024]);

    // One file is in no such folder, and has the column itself.
    write(&folder, "b.csv", "n,year\n7,2025\n");
    let read = collect(csv(&root, CsvOptions::default())).await.unwrap_err();
    assert!(matches!(read, Error::Schema { .. }), "{read}");
    for year in ["year=2023", "year=2024"] {
        write(&folder, &format!("{year}/a.csv"), "n\n1\n");
    }
    let read = collect(csv(&root, CsvOptions::default())).await.unwrap();
    assert_eq!((names(&read), integers(&read, 0)), (vec!["n".into(), "year".into()], vec![7, 1, 1]));
    assert_eq!(integers(&read, 1), [2025, 2023, 2024]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_the_filter_excludes_by_their_paths_are_not_read() {
    let folder = Folder::new();
    for (month, text) in [("month=01", "n\n1\nx\n"), ("month=02", "n\n3\n")] {
        std::fs::create_dir_all(folder.path(month)).unwrap();
        write(&folder, &format!("{month}/a.csv"), text);
    }

    let request = csv(&folder.path(""), CsvOptions::default().with_sample(Sample::Rows(1)));
    let read = collect(request.clone().with_filter(col("month").eq(2))).await.unwrap();
    assert_eq!((integers(&read, 0), texts(&read, 1)), (vec![3], vec![Some("02".to_owned())]));
    text_error(collect(request.with_filter(col("month").eq("01"))).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_say_their_file_and_their_number_in_it() {
    let folder = Folder::new();
    let root = write_years(&folder, "a.csv", "n\n1\n2\n");
    write_years(&folder, "a.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");

    for (request, ending) in [(csv(&root, CsvOptions::default()), "csv"), (json(&root), "jsonl")] {
        let request = request.with_batch_rows(1).with_filename("file").with_file_row_number("row");
        let read = collect(request.clone().with_hive_partitions(false)).await.unwrap();
        assert_eq!(names(&read), ["n", "file", "row"]);
        let files = ["2023", "2023", "2024", "2024"]
            .map(|year| Some(folder.path(&format!("year={year}/a.{ending}"))));
        assert_eq!(texts(&read, 1), files);
        assert_eq!(integers(&read, 2), [0, 1, 0, 1]);

        let some = request.clone().with_columns(["row"]).with_filter(col("row").gt(0).and(col("n").eq(2)));
        assert_eq!(integers(&collect(some).await.unwrap(), 0), [1, 1]);
        for taken in [request.clone().with_filename("n"), request.with_file_row_number("year")] {
            let error = collect(taken).await.unwrap_err();
            assert!(matches!(error, Error::Option { .. }), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_type_would_round_is_an_error() {
    let folder = Folder::new();
    let path =
        write(&folder, "a.jsonl", "{\"n\": 1}\n{\"n\": 2.0}\n{\"n\": 1e3}\n{\"n\": null}\n{\"n\": \"4\"}\n");
    let read = collect(json(&path).with_casts([("n", DataType::Int16)])).await.unwrap();
    assert_eq!(types(&read), [DataType::Int16]);
    let whole: Vec<Option<i16>> = read.column(0).as_primitive::<Int16Type>().iter().collect();
    assert_eq!(whole, [Some(1), Some(2), Some(1_000), None, Some(4)]);

    let path = write(&folder, "b.jsonl", "{\"n\": 1}\n{\"n\": 1.5}\n");
    let (line, _, reason) =
        text_error(collect(json(&path).with_casts([("n", DataType::Int64)])).await.unwrap_err());
    assert!(line == 2 && reason.contains("1.5"), "{line}: {reason}");

    let path = write(&folder, "c.csv", "price,at\n0.129,2024-01-01T00:00:00.5\n");
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    for (column, data_type) in [("price", DataType::Decimal128(10, 2)), ("at", seconds)] {
        let request = csv(&path, CsvOptions::default()).with_casts([(column, data_type)]);
        let (line, named, _) = text_error(collect(request).await.unwrap_err());
        assert_eq!((line, named.as_deref()), (2, Some(column)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_column_of_row_numbers_may_be_in_the_schema() {
    let folder = Folder::new();
    let path = write(&folder, "a.csv", "n\n7\n8\n");
    let fields = ["n", "row"].map(|name| Field::new(name, DataType::Int64, true));
    let request = csv(&path, CsvOptions::default())
        .with_table_schema(Arc::new(Schema::new(fields.to_vec())))
        .with_file_row_number("row");
    assert_eq!(integers(&collect(request.clone()).await.unwrap(), 1), [0, 1]);
    assert_eq!(integers(&collect(request.with_filter(col("row").eq(1))).await.unwrap(), 0), [8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_records_may_repeat_the_column_of_their_path_after_the_sample() {
    let folder = Folder::new();
    let root = write_years(&folder, "a.jsonl", "{\"n\": 1}\n{\"n\": 2, \"year\": 1}\n");
    let options = JsonOptions::default().with_sample(Sample::Rows(1));
    let request = SequentialRequest::over([root.as_str()], SequentialFormat::Json(options));
    let read = collect(request).await.unwrap();
    assert_eq!(names(&read), ["n", "year"]);
    assert_eq!(integers(&read, 1), [2023, 2023, 2024, 2024]);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_the_types_and_the_order_that_were_given() {
    let folder = Folder::new();
    let root = write_years(&folder, "a.csv", "n,price,city\n1,0.10,Oslo\n");
    write_years(&folder, "a.jsonl", "{\"n\": 1, \"price\": \"0.10\", \"city\": \"Oslo\"}\n");
    let money = DataType::Decimal128(10, 2);
    let coded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("price", money.clone(), true),
        Field::new("lacking", DataType::Date32, true),
        Field::new("year", DataType::Int16, true),
        Field::new("city", coded.clone(), true),
    ]));

    for request in [csv(&root, CsvOptions::default()), json(&root)] {
        let read = collect(request.clone().with_table_schema(schema.clone())).await.unwrap();
        assert_eq!(names(&read), ["price", "lacking", "year", "city"]);
        assert_eq!(types(&read), [money.clone(), DataType::Date32, DataType::Int16, coded.clone()]);
        assert_eq!(read.column(0).as_primitive::<Decimal128Type>().values(), &[10, 10]);
        assert_eq!((read.column(1).null_count(), read.column(2).null_count()), (2, 0));

        let cast = request.clone().with_casts([("price", money.clone()), ("year", DataType::Utf8)]);
        let cast = collect(cast).await.unwrap();
        assert_eq!(types(&cast), [DataType::Int64, money.clone(), DataType::Utf8, DataType::Utf8]);

        for (column, data_type) in [("nothing", DataType::Int8), ("city", DataType::Int8)] {
            let error = collect(request.clone().with_casts([(column, data_type)])).await.unwrap_err();
            assert!(matches!(error, Error::NoSuchColumn { .. } | Error::Text { .. }), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dotted_name_is_the_same_column_for_filter_and_output_as_in_parquet() {
    let folder = Folder::new();
    let nested = "{\"a\": {\"b\": {\"c\": 1}}, \"a.b\": {\"c\": 2}}\n{\"a\": {\"b\": {\"c\": 2}}, \"a.b\": {\"c\": 1}}\n";
    // The type of `a` is an error only if `a` is read.
    let mixed = "{\"a\": 7, \"a.b\": {\"c\": 2}}\n{\"a\": {}, \"a.b\": {\"c\": 1}}\n";
    for text in [nested, mixed] {
        let path = write(&folder, "a.jsonl", text);
        let request = json(&path).with_columns(["a.b.c"]).with_filter(col("a.b.c").eq(2));
        let read = collect(request).await.unwrap();
        assert_eq!((names(&read), read.num_rows()), (vec!["a.b".to_owned()], 1));
        assert_eq!(read.column(0).as_struct().column(0).as_primitive::<Int64Type>().values(), &[2]);
    }

    let path = write(&folder, "b.jsonl", "{\"a\": {\"b\": 1, \"x.y\": 5}, \"a.b\": 2}\n");
    let read = collect(json(&path).with_columns(["a.b"]).with_filter(col("a.b").eq(2))).await.unwrap();
    assert_eq!((names(&read), integers(&read, 0)), (vec!["a.b".to_owned()], vec![2]));
    let read = collect(json(&path).with_columns(["a.x.y"]).with_filter(col("a.x.y").eq(5))).await.unwrap();
    assert_eq!(read.column(0).as_struct().column_names(), ["x.y"]);

    let path = write(&folder, "a.csv", "a,a.b,a.b.c\n1,2,3\n");
    let request = || csv(&path, CsvOptions::default());
    let read = collect(request().with_columns(["a.b"]).with_filter(col("a.b.c").eq(3))).await.unwrap();
    assert_eq!((names(&read), integers(&read, 0)), (vec!["a.b".to_owned()], vec![2]));
    let error = collect(request().with_columns(["a.b.x"])).await.unwrap_err();
    assert!(matches!(&error, Error::NoSuchColumn { column, .. } if column == "a.b.x"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_do_not_meet_are_cast_to_the_one_that_was_given() {
    let folder = Folder::new();
    let words: ArrayRef = Arc::new(StringArray::from(vec!["7"]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let a = write_ipc(&folder, "a.arrow", &[("n", numbers)]);
    let b = write_ipc(&folder, "b.arrow", &[("n", words)]);

    assert!(matches!(collect(over_ipc(&[&a, &b])).await, Err(Error::Schema { .. })));
    let read = collect(over_ipc(&[&a, &b]).with_casts([("n", DataType::Int64)])).await.unwrap();
    assert_eq!(integers(&read, 0), [1, 7]);

    let schema =
        Schema::new(vec![Field::new("m", DataType::Utf8, true), Field::new("n", DataType::Utf8, true)]);
    let read = collect(over_ipc(&[&a, &b]).with_table_schema(Arc::new(schema))).await.unwrap();
    assert_eq!(texts(&read, 0), [None, None]);
    assert_eq!(texts(&read, 1), ["1", "7"].map(|text| Some(text.to_owned())));
}
