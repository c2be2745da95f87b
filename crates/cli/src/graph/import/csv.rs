//! Files of comma-separated values: their columns and types, found by looking at all values, and then their rows.

use std::sync::Arc;

use anyhow::{Context, Error, Result};
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use futures::stream::BoxStream;
use object_store::path::Path;
use stylobate_columnar::{CsvReader, stream_from_thread};
use stylobate_graph::Error as GraphError;
use stylobate_storage::{OpenObject, ReadThrough};
use tokio::runtime::Handle;

use super::{
    guess::Guess,
    objects::{self, ObjectsReader},
    plan::SourcePlan,
    shape::Shape,
};

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8192;
/// Batches that wait to be taken.
const WAITING: usize = 2;

/// The rows of some files that have the same columns, as texts.
pub(super) struct CsvRows {
    files: Vec<File>,
    /// The columns that are wanted, in the order of the first file.
    schema: SchemaRef,
    rows: u64,
}

/// One file.
#[derive(Clone)]
struct File {
    object: OpenObject,
    delimiter: u8,
}

impl CsvRows {
    /// Reads all files once. The shape makes rows of a graph of the texts.
    pub(super) async fn open(files: Vec<(ReadThrough, Path)>, plan: &SourcePlan) -> Result<(Self, Shape)> {
        let objects = objects::open(files).await?;
        let files = objects
            .into_iter()
            .map(|object| File { delimiter: plan.delimiter.unwrap_or(usual(&object)), object });
        let (files, plan, runtime) = (files.collect::<Vec<_>>(), plan.clone(), Handle::current());
        tokio::task::spawn_blocking(move || look(files, &plan, &runtime)).await.context("the reader ended")?
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> u64 {
        self.rows
    }

    /// The rows, read by a thread of their own.
    pub(super) fn stream(self) -> BoxStream<'static, Result<RecordBatch, GraphError>> {
        let runtime = Handle::current();
        let read = move |give: &mut dyn FnMut(RecordBatch) -> bool| {
            for file in &self.files {
                let read = file.each_batch(&self.schema, &runtime, |batch| match give(batch) {
                    true => Ok(()),
                    false => Err("nobody takes it".to_owned()),
                });
                read.map_err(|reason| GraphError::Data { file: file.object.name(), reason })?;
            }
            Ok(())
        };
        let ended = |reason| GraphError::Ended { reason: format!("the reader of CSV files: {reason}") };
        stream_from_thread(WAITING, read, ended)
    }
}

/// What stands between fields where nobody said.
fn usual(object: &OpenObject) -> u8 {
    let is_tabbed = object.meta().location.extension().is_some_and(|it| it.eq_ignore_ascii_case("tsv"));
    if is_tabbed { b'\t' } else { b',' }
}

/// Finds the columns, and the types of those that the plan does not give one.
fn look(files: Vec<File>, plan: &SourcePlan, runtime: &Handle) -> Result<(CsvRows, Shape)> {
    let first = files.first().context("there is no file")?;
    let header = first.header(runtime).map_err(|reason| first.wrong(reason))?;
    let texts = |names: Vec<&str>| -> SchemaRef {
        let fields = names.into_iter().map(|name| Field::new(name, DataType::Utf8, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    };
    let all = Shape::new(&texts(header.iter().map(String::as_str).collect()), plan.columns.as_deref())
        .with_context(|| first.object.name())?;
    // Of all columns, those that are wanted.
    let names = all.places().iter().filter_map(|place| header.get(*place)).map(String::as_str);
    let schema = texts(names.collect());
    let declared: Vec<bool> = match &plan.columns {
        Some(columns) => columns.iter().map(|column| column.property_type.is_some()).collect(),
        None => vec![false; all.places().len()],
    };
    let mut guesses: Vec<Option<Guess>> = declared.iter().map(|is| (!is).then(Guess::new)).collect();
    let mut rows = 0;
    for file in &files {
        let read = file.each_batch(&schema, runtime, |batch| {
            rows += batch.num_rows() as u64;
            for (guess, texts) in guesses.iter_mut().zip(batch.columns()) {
                if let Some(guess) = guess {
                    guess.see(texts);
                }
            }
            Ok(())
        });
        read.map_err(|reason| file.wrong(reason))?;
    }
    let shape =
        all.in_order().with_types(guesses.into_iter().map(|guess| guess.map(|guess| guess.data_type())));
    Ok((CsvRows { files, schema, rows }, shape))
}

impl File {
    fn reader(&self, runtime: &Handle) -> Result<CsvReader<ObjectsReader>, String> {
        let bytes = ObjectsReader::new(vec![self.object.clone()], runtime.clone());
        CsvReader::with_delimiter(bytes, self.delimiter, BATCH_ROWS)
    }

    fn header(&self, runtime: &Handle) -> Result<Vec<String>, String> {
        Ok(self.reader(runtime)?.header().to_vec())
    }

    /// Hands out the rows as texts, batch by batch.
    fn each_batch(
        &self,
        schema: &SchemaRef,
        runtime: &Handle,
        mut take: impl FnMut(RecordBatch) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut reader = self.reader(runtime)?;
        reader.select(schema)?;
        while let Some(batch) = reader.next_batch()? {
            take(batch)?;
        }
        Ok(())
    }

    fn wrong(&self, reason: String) -> Error {
        GraphError::Data { file: self.object.name(), reason }.into()
    }
}
