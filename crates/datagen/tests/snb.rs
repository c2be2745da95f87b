//! The social network: counts, valid endpoints of edges, and reproducible randomness.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Int64Type, Schema},
};
use stylobate_columnar::CsvReader;
use stylobate_datagen::{
    Benchmark, Error, FileFormat, GenerateRequest, Manifest, Output, Part, Scale, Table, verify,
};
use stylobate_storage::SinkOptions;

const TYPED: [(&str, &str, &str, &str); 7] = [
    ("knows", "knows", "persons", "persons"),
    ("post_has_creator", "has_creator", "posts", "persons"),
    ("comment_has_creator", "has_creator", "comments", "persons"),
    ("likes_post", "likes", "persons", "posts"),
    ("likes_comment", "likes", "persons", "comments"),
    ("reply_of_post", "reply_of", "comments", "posts"),
    ("reply_of_comment", "reply_of", "comments", "comments"),
];

fn scale(factor: f64) -> Scale {
    Scale::new(factor).unwrap()
}

fn table(name: &str) -> Table {
    Benchmark::Snb.table(name).unwrap()
}

/// Returns all rows of a part in one batch, with dictionaries and views as plain strings.
fn read(table: Table, factor: f64, part: Part, threads: usize) -> RecordBatch {
    let stream = table.stream(scale(factor), part, threads).unwrap();
    let plain = |field: &Field| match field.data_type() {
        DataType::Dictionary(..) | DataType::Utf8View => DataType::Utf8,
        other => other.clone(),
    };
    let fields = stream.schema().fields().iter();
    let fields = fields.map(|field| Field::new(field.name(), plain(field), field.is_nullable()));
    let schema = std::sync::Arc::new(Schema::new(fields.collect::<Vec<_>>()));

    let batches = stream.map(|batch| {
        let batch = batch.unwrap();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()).unwrap());
        RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
    });
    concat_batches(&schema, &batches.collect::<Vec<_>>()).unwrap()
}

fn whole(name: &str, factor: f64) -> RecordBatch {
    read(table(name), factor, Part::WHOLE, 2)
}

fn texts<'a>(batch: &'a RecordBatch, column: &str) -> Vec<&'a str> {
    let column = batch.column_by_name(column).unwrap().as_string::<i32>();
    column.iter().map(Option::unwrap).collect()
}

fn numbers<'a>(batch: &'a RecordBatch, column: &str) -> &'a [i64] {
    let column = batch.column_by_name(column).unwrap();
    assert_eq!(column.null_count(), 0);
    column.as_primitive::<Int64Type>().values()
}

async fn made(folder: &Path, request: &GenerateRequest) -> Manifest {
    let output = Output::open(folder.to_str().unwrap(), &[], SinkOptions::default()).unwrap();
    request.generate(&output, |_| {}).await.unwrap()
}

fn request(factor: f64) -> GenerateRequest {
    GenerateRequest::new(Benchmark::Snb, scale(factor))
}

#[test]
fn there_are_as_many_of_everything_as_the_scale_says() {
    let expected = [
        ("persons", 10_000),
        ("posts", 100_000),
        ("comments", 50_000),
        ("knows", 100_000),
        ("has_creator", 150_000),
        ("likes", 100_000),
        ("reply_of", 30_000),
    ];

    let tables = Benchmark::Snb.tables();
    assert_eq!(tables.iter().map(|table| table.name()).collect::<Vec<_>>(), expected.map(|(name, _)| name));
    for (name, rows) in expected {
        let table = table(name);
        for (factor, rows) in [(1.0, rows), (0.01, rows / 100), (0.29, rows / 100 * 29), (10.0, rows * 10)] {
            assert_eq!(table.estimated_rows(scale(factor), Part::WHOLE).unwrap(), rows, "{name} at {factor}");
        }
        let batches = table.stream(scale(1.0), Part::WHOLE, 2).unwrap();
        assert_eq!(batches.map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>(), rows, "{name}");
    }
    assert_eq!(whole("persons", 0.001).num_rows(), 10);
    assert!(matches!(Benchmark::Snb.table("friends"), Err(Error::NoSuchTable { .. })));
}

#[test]
fn columns_have_exact_types_and_names_are_dictionaries() {
    let columns = |name: &str| {
        let schema = table(name).schema(scale(1.0));
        let fields = schema.fields().iter().map(|field| {
            assert!(!field.is_nullable());
            format!("{} {}", field.name(), field.data_type())
        });
        fields.collect::<Vec<_>>().join(", ")
    };

    assert_eq!(
        columns("persons"),
        "id Utf8View, firstName Dictionary(UInt8, Utf8), lastName Dictionary(UInt8, Utf8), age Int64, \
         creationDate Int64"
    );
    for name in ["posts", "comments"] {
        assert_eq!(columns(name), "id Utf8View, content Utf8View, creationDate Int64, length Int64");
    }
    assert_eq!(columns("knows"), "src Utf8View, dst Utf8View, since Int64");
    assert_eq!(columns("likes"), "src Utf8View, dst Utf8View, creationDate Int64");

    for name in ["has_creator", "reply_of", "reply_of_comment"] {
        assert_eq!(columns(name), "src Utf8View, dst Utf8View");
    }
}

#[test]
fn ids_are_unique_and_values_are_within_their_ranges() {
    let mut ids = HashSet::new();
    for (name, prefix) in [("persons", "50"), ("posts", "4f"), ("comments", "43")] {
        let batch = whole(name, 0.1);
        for (row, id) in texts(&batch, "id").into_iter().enumerate() {
            assert_eq!(id, format!("{prefix}{row:030x}"));
            assert!(ids.insert(id.to_owned()));
        }
        assert!(numbers(&batch, "creationDate").windows(2).all(|dates| dates[0] < dates[1]));

        if name == "persons" {
            let ages = numbers(&batch, "age");
            assert!(
                ages.iter().all(|age| (18..78).contains(age)) && ages.contains(&18) && ages.contains(&77)
            );
            for column in ["firstName", "lastName"] {
                assert_eq!(texts(&batch, column).into_iter().collect::<HashSet<_>>().len(), 64);
            }
        } else {
            let lengths = texts(&batch, "content").into_iter().map(|content| content.len() as i64);
            assert!(lengths.eq(numbers(&batch, "length").iter().copied()));
        }
    }
}

#[test]
fn every_edge_leads_from_and_to_what_is_there() {
    let ids = ["persons", "posts", "comments"].map(|name| (name, whole(name, 0.1)));
    let ids: HashMap<&str, HashSet<&str>> =
        ids.iter().map(|(name, batch)| (*name, texts(batch, "id").into_iter().collect())).collect();

    let mut together: HashMap<&str, Vec<RecordBatch>> = HashMap::new();
    for (name, mixed, source, destination) in TYPED {
        let batch = whole(name, 0.1);
        let sources = texts(&batch, "src");
        let destinations = texts(&batch, "dst");
        assert!(sources.iter().all(|id| ids[source].contains(id)), "{name}");
        assert!(destinations.iter().all(|id| ids[destination].contains(id)), "{name}");
        assert!(sources.iter().zip(&destinations).all(|(source, destination)| source != destination));
        // The edges are spread over all possible endpoints, most of which have some.
        let distinct = destinations.iter().collect::<HashSet<_>>().len();
        assert!(distinct * 10 > ids[destination].len().min(batch.num_rows()) * 6, "{name}: {distinct}");
        together.entry(mixed).or_default().push(batch);
    }

    for (mixed, batches) in together {
        let typed = concat_batches(&batches[0].schema(), &batches).unwrap();
        assert!(whole(mixed, 0.1) == typed, "{mixed} holds what the tables of its types hold");
    }
}

#[test]
fn some_pairs_have_several_edges_and_each_its_own_date() {
    let knows = whole("knows", 1.0);
    let pairs = texts(&knows, "src").into_iter().zip(texts(&knows, "dst"));
    let mut dates: HashMap<_, Vec<i64>> = HashMap::new();
    for (pair, since) in pairs.zip(numbers(&knows, "since")) {
        dates.entry(pair).or_default().push(*since);
    }
    let several: Vec<_> = dates.values().filter(|dates| dates.len() > 1).collect();
    assert!((20..100).contains(&several.len()), "{}", several.len());
    assert!(several.iter().all(|dates| dates[0] != dates[1]));
}

#[test]
fn threads_and_parts_change_nothing_and_another_seed_everything_that_is_drawn() {
    for name in ["persons", "posts", "knows", "likes", "reply_of"] {
        let expected = whole(name, 0.3);
        for threads in [1, 5] {
            assert!(read(table(name), 0.3, Part::WHOLE, threads) == expected, "{name}");
        }
        let parts = (1..=3).map(|number| read(table(name), 0.3, Part::new(number, 3).unwrap(), 2));
        assert!(concat_batches(&expected.schema(), &parts.collect::<Vec<_>>()).unwrap() == expected);
        assert!(read(table(name).with_seed(42), 0.3, Part::WHOLE, 2) == expected);
        let other = read(table(name).with_seed(43), 0.3, Part::WHOLE, 2);
        assert_eq!(other == expected, name == "posts", "{name}");
        assert_eq!(other.num_rows(), expected.num_rows());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_have_the_same_bytes_whatever_the_threads_and_are_verified() {
    for format in [FileFormat::PARQUET, FileFormat::Csv] {
        let folders = [1, 3].map(|threads| (threads, tempfile::tempdir().unwrap()));
        for (threads, folder) in &folders {
            let request = request(0.2).with_format(format).with_threads(*threads);
            assert_eq!(made(folder.path(), &request).await.files.len(), 7);
            let output = Output::open(folder.path().to_str().unwrap(), &[], SinkOptions::default()).unwrap();
            let verdicts = verify(&output, |_| {}).await.unwrap();
            assert!(verdicts.iter().all(|verdict| verdict.ok), "{verdicts:?}");
        }

        for entry in fs::read_dir(folders[0].1.path()).unwrap() {
            let name = entry.unwrap().file_name();
            let [one, other] = [0, 1].map(|which| fs::read(folders[which].1.path().join(&name)).unwrap());
            assert!(one == other, "{name:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_has_bars_between_its_fields_and_holds_what_parquet_holds() {
    let text = tempfile::tempdir().unwrap();
    let parquet = tempfile::tempdir().unwrap();
    let names = ["persons", "comments", "likes_comment", "knows"];
    let request = request(0.05).with_tables(&names).unwrap();
    let from_text = made(text.path(), &request.clone().with_format(FileFormat::Csv)).await;
    let from_parquet = made(parquet.path(), &request).await;

    for (one, other) in from_text.files.iter().zip(&from_parquet.files) {
        assert_eq!((&one.table, one.rows, &one.columns), (&other.table, other.rows, &other.columns));
    }
    for name in names {
        let file = fs::File::open(text.path().join(format!("{name}.csv"))).unwrap();
        let mut reader = CsvReader::with_delimiter(file, b'|', usize::MAX).unwrap();
        let expected = whole(name, 0.05);
        reader.select(&expected.schema()).unwrap();
        assert!(reader.next_batch().unwrap().unwrap() == expected, "{name}");
    }

    let persons = fs::read_to_string(text.path().join("persons.csv")).unwrap();
    let first = format!("id|firstName|lastName|age|creationDate\n50{:030x}|", 0);
    assert!(persons.starts_with(&first), "{}", &persons[..100]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_and_one_with_another_seed_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["persons", "knows"];
    let request = request(0.05).with_tables(&names).unwrap();
    let first = made(folder.path(), &request).await;
    assert_eq!(first.run.seed, Some(42));
    fs::remove_file(folder.path().join("knows.parquet")).unwrap();

    assert_eq!(made(folder.path(), &request).await, first);
    let output = Output::open(folder.path().to_str().unwrap(), &[], SinkOptions::default()).unwrap();
    let refused = request.clone().with_seed(7).generate(&output, |_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("seed 42, not seed 7"), "{refused}");
    let other = request.with_seed(7).with_overwrite(true).generate(&output, |_| {}).await.unwrap();
    assert_ne!(other.files[1].columns[0], first.files[1].columns[0]);
    assert!(verify(&output, |_| {}).await.unwrap().iter().all(|verdict| verdict.ok));
    let tpch = GenerateRequest::new(Benchmark::TpcH, scale(0.01)).with_seed(7);

    assert!(
        !serde_json::to_string(&made(tempfile::tempdir().unwrap().path(), &tpch).await)
            .unwrap()
            .contains("seed")
    );
}
