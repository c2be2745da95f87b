//! Files with a JSON object in each line: their columns and types, found by looking at all values, and then their rows.

use std::{io::BufReader, sync::Arc};

use anyhow::{Context, Error, Result};
use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
    json::{ReaderBuilder, reader::infer_json_schema},
};
use futures::stream::BoxStream;
use object_store::path::Path;
use stylobate_columnar::stream_from_thread;
use stylobate_graph::Error as GraphError;
use stylobate_storage::{OpenObject, ReadThrough};
use tokio::runtime::Handle;

use super::{
    objects::{self, ObjectsReader},
    plan::SourcePlan,
    shape::Shape,
};

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8192;
/// Batches that wait to be taken.
const WAITING: usize = 2;
/// Bytes of lines that are looked at before they are parsed.
const BUFFER: usize = 1 << 20;

/// The rows of some files.
pub(super) struct JsonRows {
    objects: Vec<OpenObject>,
    /// The columns that are wanted.
    schema: SchemaRef,
}

impl JsonRows {
    /// Reads all files once. The shape makes rows of a graph of what is in the lines.
    pub(super) async fn open(files: Vec<(ReadThrough, Path)>, plan: &SourcePlan) -> Result<(Self, Shape)> {
        let objects = objects::open(files).await?;
        let (plan, runtime) = (plan.clone(), Handle::current());
        tokio::task::spawn_blocking(move || look(objects, &plan, runtime))
            .await
            .context("the reader ended")?
    }

    /// The rows, read by a thread of their own.
    pub(super) fn stream(self) -> BoxStream<'static, Result<RecordBatch, GraphError>> {
        let Self { objects, schema } = self;
        let runtime = Handle::current();
        let name = name_of(&objects);
        let ended = {
            let name = name.clone();
            move |reason| GraphError::Ended { reason: format!("{name}: {reason}") }
        };
        let read = move |give: &mut dyn FnMut(RecordBatch) -> bool| {
            let lines = BufReader::with_capacity(BUFFER, ObjectsReader::new(objects, runtime));
            let reader = ReaderBuilder::new(schema)
                .with_batch_size(BATCH_ROWS)
                .with_coerce_primitive(true)
                .build(lines)
                .map_err(|error| wrong(&name, &error))?;
            for batch in reader {
                if !give(batch.map_err(|error| wrong(&name, &error))?) {
                    break;
                }
            }
            Ok(())
        };
        stream_from_thread(WAITING, read, ended)
    }
}

fn look(objects: Vec<OpenObject>, plan: &SourcePlan, runtime: Handle) -> Result<(JsonRows, Shape)> {
    let name = name_of(&objects);
    let lines = BufReader::with_capacity(BUFFER, ObjectsReader::new(objects.clone(), runtime));
    let (found, _) = infer_json_schema(lines, None).map_err(|error| Error::from(wrong(&name, &error)))?;
    let all = Shape::new(&Arc::new(found.clone()), plan.columns.as_deref()).with_context(|| name.clone())?;
    let fields = all.places().iter().filter_map(|place| found.fields().get(*place).cloned());
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok((JsonRows { objects, schema }, all.in_order()))
}

fn wrong(name: &str, error: &ArrowError) -> GraphError {
    GraphError::Data { file: name.to_owned(), reason: error.to_string() }
}

/// How errors call them.
fn name_of(objects: &[OpenObject]) -> String {
    match objects {
        [] => String::new(),
        [only] => only.name(),
        [first, rest @ ..] => format!("{} and {} more", first.name(), rest.len()),
    }
}
