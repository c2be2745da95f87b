//! Reads the files of a graph in the simplest way: every value as text.

use std::{collections::BTreeMap, fs, path::Path};

use arrow::{
    array::{Array, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::DataType,
    util::display::{ArrayFormatter, FormatOptions},
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use stylobate_columnar::{Cache, Dictionaries, ScanRequest};
use stylobate_graph::graphar::{FileType, GraphFile, GraphInfo, Strictness};
use stylobate_storage::{ByteSize, CacheOptions};

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Count(i64),
    Table { names: Vec<String>, rows: Vec<Vec<Option<String>>> },
}

/// Files by their paths, without description files.
pub type Files = BTreeMap<String, Content>;

/// Returns all rows as texts.
pub fn texts(batch: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let options = FormatOptions::default();
    let columns: Vec<ArrayFormatter<'_>> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let text = |row: usize, column: usize| {
        batch.column(column).is_valid(row).then(|| columns[column].value(row).to_string())
    };
    (0..batch.num_rows()).map(|row| (0..columns.len()).map(|column| text(row, column)).collect()).collect()
}

/// Reads the description of a graph in a folder.
pub fn info(folder: &Path, name: &str) -> GraphInfo {
    let read = |name: &str| (name.to_owned(), fs::read_to_string(folder.join(name)).unwrap());
    let (name, text) = read(&format!("{name}.graph.yml"));
    let graph = GraphFile::parse(&name, &text, Strictness::Strict).unwrap();
    let all = |names: &[String]| names.iter().map(|name| read(name)).collect();
    let vertices = all(graph.vertex_files());
    let edges = all(graph.edge_files());
    graph.with(vertices, edges).unwrap()
}

/// Returns all files below a folder, relative to it.
pub fn paths(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    found.sort();
    found
}

/// Reads all files of a graph whose files have this format.
pub async fn files(folder: &Path, file_type: FileType) -> Files {
    let mut files = Files::new();
    for path in paths(folder).into_iter().filter(|path| !path.ends_with(".yml")) {
        let file = folder.join(&path);
        let content = if path.contains("_count") {
            Content::Count(i64::from_le_bytes(fs::read(&file).unwrap().try_into().unwrap()))
        } else if file_type == FileType::Csv && !path.contains("/labels/") {
            csv(&fs::read_to_string(&file).unwrap())
        } else if file_type == FileType::Orc && !path.contains("/labels/") {
            orc(&file).await
        } else {
            parquet(&file)
        };
        files.insert(path, content);
    }

    files
}

/// Reads the rows of a Parquet file with their types.
pub fn parquet_batch(file: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(file).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn parquet(file: &Path) -> Content {
    table(&parquet_batch(file))
}

async fn orc(file: &Path) -> Content {
    let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let request = ScanRequest::new(file.to_str().unwrap()).with_dictionary(Dictionaries::None);
    let scan = request.plan(&cache).await.unwrap();
    let batches = scan.collect().await.unwrap();
    table(&concat_batches(scan.schema(), &batches).unwrap())
}

fn table(batch: &RecordBatch) -> Content {
    // ORC has times in nanoseconds.
    let milliseconds = DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None);
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = match column.data_type() {
            DataType::Timestamp(..) => cast(column, &milliseconds).unwrap(),
            _ => column.clone(),
        };
        (field.name().clone(), column, true)
    });

    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    Content::Table { names, rows: texts(&batch) }
}

/// Parses CSV: quoted fields are texts, and empty unquoted ones are null.
fn csv(text: &str) -> Content {
    let mut lines: Vec<Vec<Option<String>>> = Vec::new();
    let mut line = Vec::new();
    let mut field = String::new();
    let mut is_quoted = false;
    let mut was_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '"' if is_quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => {
                is_quoted = !is_quoted;
                was_quoted = true;
            }
            ',' | '\n' if !is_quoted => {
                let value = std::mem::take(&mut field);
                line.push((was_quoted || !value.is_empty()).then_some(value));
                was_quoted = false;
                if next == '\n' {
                    lines.push(std::mem::take(&mut line));
                }
            }
            other => field.push(other),
        }
    }

    assert!(line.is_empty() && field.is_empty() && !is_quoted, "the last line ends");
    let names: Vec<String> = lines.remove(0).into_iter().map(Option::unwrap).collect();
    if names == ["weight"] {
        // A null number alone in its line is quoted, so that the line is not empty.
        assert!(!lines.contains(&vec![None]));
        lines.iter_mut().flatten().for_each(|field| *field = field.take().filter(|field| !field.is_empty()));
    }

    Content::Table { names, rows: lines }
}
