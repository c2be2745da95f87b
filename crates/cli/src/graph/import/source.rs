//! Opens a source, whatever it is: its columns, and its rows as they are to be written.

use std::num::NonZeroUsize;

use anyhow::Result;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt, stream::BoxStream};
use object_store::path::Path;
use stylobate_columnar::{Cache, Dictionaries, Scan, ScanRequest, Source};
use stylobate_graph::Error as GraphError;
use stylobate_storage::ReadThrough;

use super::{
    csv::CsvRows,
    json::JsonRows,
    plan::{SourceKind, SourcePlan},
    shape::Shape,
};
use crate::failure::usage;

/// What sources are read with.
pub(in crate::graph) struct Reading<'a> {
    pub(in crate::graph) cache: &'a Cache,
    pub(in crate::graph) options: &'a [(String, String)],
    pub(in crate::graph) threads: Option<NonZeroUsize>,
}

/// A source that is there, whose columns are known.
pub(in crate::graph) struct Opened {
    rows: Rows,
    shape: Shape,
    /// How errors call it.
    name: String,
}

/// Rows as the source has them.
enum Rows {
    Columnar(Box<Scan>),
    Csv(CsvRows),
    Json(JsonRows),
}

impl Reading<'_> {
    /// Finds the source and its columns. Of texts, all values are looked at.
    pub(in crate::graph) async fn open(&self, plan: &SourcePlan) -> Result<Opened> {
        let source = Source::Url { url: plan.path.clone(), options: self.options.to_vec() };
        let (kind, files) = self.kind(plan, &source).await?;
        let (rows, shape) = match kind {
            SourceKind::Columnar => self.scan(plan, source).await?,
            SourceKind::Csv => {
                let (rows, shape) = CsvRows::open(files, plan).await?;
                (Rows::Csv(rows), shape)
            }
            SourceKind::JsonLines => {
                let (rows, shape) = JsonRows::open(files, plan).await?;
                (Rows::Json(rows), shape)
            }
        };
        Ok(Opened { rows, shape, name: stylobate_storage::without_credentials(&plan.path) })
    }

    /// What it is, as the names of its files tell, and these files where they are texts.
    async fn kind(
        &self,
        plan: &SourcePlan,
        source: &Source,
    ) -> Result<(SourceKind, Vec<(ReadThrough, Path)>)> {
        if plan.kind == Some(SourceKind::Columnar) {
            return Ok((SourceKind::Columnar, Vec::new()));
        }
        let files = source.files(self.cache).await?;
        let kinds: Vec<SourceKind> = files.iter().map(|(_, path)| kind_of(path.as_ref())).collect();
        let kind = plan.kind.or(kinds.first().copied()).unwrap_or(SourceKind::Columnar);
        if plan.kind.is_none() && kinds.iter().any(|other| *other != kind) {
            return Err(usage(format!("{}: files of several kinds: name one, or a pattern", plan.path)));
        }
        Ok((kind, files))
    }

    async fn scan(&self, plan: &SourcePlan, source: Source) -> Result<(Rows, Shape)> {
        // What is written of a dictionary are its values.
        let mut request = ScanRequest::over([source]).with_dictionary(Dictionaries::None);
        if let Some(threads) = self.threads {
            request = request.with_threads(threads.get());
        }
        if let Some(columns) = &plan.columns {
            let mut names: Vec<&str> = columns.iter().map(|column| column.column.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            request = request.with_columns(names);
        }
        let scan = request.plan(self.cache).await?;
        let shape = Shape::new(scan.schema(), plan.columns.as_deref())?;
        Ok((Rows::Columnar(Box::new(scan)), shape))
    }
}

impl Opened {
    /// The columns that come out.
    pub(in crate::graph) fn schema(&self) -> SchemaRef {
        self.shape.schema().clone()
    }

    /// How many rows there are, where that is known.
    pub(in crate::graph) fn rows(&self) -> Option<u64> {
        match &self.rows {
            Rows::Columnar(scan) => Some(scan.estimated_rows()),
            Rows::Csv(rows) => Some(rows.count()),
            Rows::Json(_) => None,
        }
    }

    /// The rows. Dropped, reading ends.
    pub(in crate::graph) fn stream(self) -> impl Stream<Item = Result<RecordBatch, GraphError>> + Send {
        let Self { rows, shape, name } = self;
        let batches: BoxStream<'static, Result<RecordBatch, GraphError>> = match rows {
            Rows::Columnar(scan) => scan.stream().map(|batch| Ok(batch?)).boxed(),
            Rows::Csv(rows) => rows.stream(),
            Rows::Json(rows) => rows.stream(),
        };
        batches.map(move |batch| {
            let wrong = |reason| GraphError::Data { file: name.clone(), reason };
            shape.apply(&batch?).map_err(wrong)
        })
    }
}

fn kind_of(path: &str) -> SourceKind {
    let is = |endings: &[&str]| {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        endings.iter().any(|ending| extension.eq_ignore_ascii_case(ending))
    };
    match () {
        () if is(&["csv", "tsv"]) => SourceKind::Csv,
        () if is(&["json", "jsonl", "ndjson"]) => SourceKind::JsonLines,
        () => SourceKind::Columnar,
    }
}
