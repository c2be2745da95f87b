//! Opens sources of any format: their schema, and their rows in the form in which they are written.

use std::num::NonZeroUsize;

use anyhow::Result;
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
};
use futures::{Stream, StreamExt, stream::BoxStream};
use stylobate_columnar::{
    Cache, CsvOptions, Dictionaries, JsonOptions, Sample, Scan, ScanRequest, SequentialFormat,
    SequentialRequest, SequentialScan, Source, TimestampInference,
};
use stylobate_graph::Error as GraphError;

use super::{
    plan::{ImportColumnPlan, ImportSourceKind, ImportSourcePlan},
    shape::{ImportProjection, target},
};

/// The options and cache for reading sources.
pub(in crate::graph) struct ImportSourceOpener<'a> {
    pub(in crate::graph) cache: &'a Cache,
    pub(in crate::graph) options: &'a [(String, String)],
    pub(in crate::graph) threads: Option<NonZeroUsize>,
}

/// An opened source with known columns.
pub(in crate::graph) struct OpenedImportSource {
    rows: ImportScan,
    shape: ImportProjection,
    /// Name of the source in errors.
    name: String,
}

/// The planned scan of a source.
enum ImportScan {
    Columnar(Box<Scan>),
    Sequential(SequentialScan),
}

impl ImportSourceOpener<'_> {
    /// Finds the source and its columns. To infer types, reads all values of text files.
    pub(in crate::graph) async fn open(&self, plan: &ImportSourcePlan) -> Result<OpenedImportSource> {
        let source = Source::Url { url: plan.path.clone(), options: self.options.to_vec() };
        let (rows, shape) = match self.format(plan, &source).await? {
            None => self.scan(plan, source).await?,
            Some(format) => self.scan_sequentially(plan, source, format).await?,
        };
        Ok(OpenedImportSource { rows, shape, name: stylobate_storage::without_credentials(&plan.path) })
    }

    /// Returns the format from the plan or the file names; `None` for Parquet and ORC.
    async fn format(&self, plan: &ImportSourcePlan, source: &Source) -> Result<Option<SequentialFormat>> {
        let format = match plan.kind {
            Some(ImportSourceKind::Columnar) => None,
            Some(ImportSourceKind::Csv) => {
                let files = source.files(self.cache).await?;
                match files.first().and_then(|(_, path)| SequentialFormat::of_path(path.as_ref())) {
                    Some(SequentialFormat::Csv(options)) => Some(SequentialFormat::Csv(options)),
                    _ => Some(SequentialFormat::Csv(CsvOptions::default())),
                }
            }
            Some(ImportSourceKind::JsonLines) => Some(SequentialFormat::Json(JsonOptions::default())),
            None => SequentialFormat::detect(source, self.cache).await?,
        };

        Ok(format.map(|format| match format {
            SequentialFormat::Csv(options) => {
                let options = options.with_sample(Sample::All);
                let mut options = options.with_timestamps(TimestampInference::UtcMilliseconds);
                if let Some(delimiter) = plan.delimiter {
                    options = options.with_delimiter(delimiter);
                }

                for column in plan.columns.iter().flatten() {
                    if let Some(data_type) = text_type(column) {
                        options = options.with_type(&column.column, data_type);
                    }
                }

                SequentialFormat::Csv(options)
            }
            SequentialFormat::Json(options) => SequentialFormat::Json(options.with_sample(Sample::All)),
            other => other,
        }))
    }

    async fn scan_sequentially(
        &self,
        plan: &ImportSourcePlan,
        source: Source,
        format: SequentialFormat,
    ) -> Result<(ImportScan, ImportProjection)> {
        let mut request = SequentialRequest::over([source], format);
        if let Some(columns) = &plan.columns {
            request = request.with_columns(names(columns));
        }
        let scan = request.plan(self.cache).await?;
        let shape = ImportProjection::new(scan.schema(), plan.columns.as_deref())?;
        Ok((ImportScan::Sequential(scan), shape))
    }

    async fn scan(&self, plan: &ImportSourcePlan, source: Source) -> Result<(ImportScan, ImportProjection)> {
        // Dictionaries are written as plain values.
        let mut request = ScanRequest::over([source]).with_dictionary(Dictionaries::None);
        if let Some(threads) = self.threads {
            request = request.with_threads(threads.get());
        }
        if let Some(columns) = &plan.columns {
            request = request.with_columns(names(columns));
        }

        let scan = request.plan(self.cache).await?;
        let shape = ImportProjection::new(scan.schema(), plan.columns.as_deref())?;

        Ok((ImportScan::Columnar(Box::new(scan)), shape))
    }
}

impl OpenedImportSource {
    /// Returns the output schema.
    pub(in crate::graph) fn schema(&self) -> SchemaRef {
        self.shape.schema().clone()
    }

    /// Returns the number of rows, if known.
    pub(in crate::graph) fn rows(&self) -> Option<u64> {
        match &self.rows {
            ImportScan::Columnar(scan) => Some(scan.estimated_rows()),
            ImportScan::Sequential(scan) => scan.rows(),
        }
    }

    /// Streams the rows. Dropping the stream cancels the read.
    pub(in crate::graph) fn stream(self) -> impl Stream<Item = Result<RecordBatch, GraphError>> + Send {
        let Self { rows, shape, name } = self;
        let batches: BoxStream<'static, Result<RecordBatch, GraphError>> = match rows {
            ImportScan::Columnar(scan) => scan.stream().map(|batch| Ok(batch?)).boxed(),
            ImportScan::Sequential(scan) => scan.stream().map(|batch| Ok(batch?)).boxed(),
        };

        batches.map(move |batch| {
            let wrong = |reason| GraphError::Data { file: name.clone(), reason };
            shape.apply(&batch?).map_err(wrong)
        })
    }
}

/// Returns the distinct columns of the source.
fn names(columns: &[ImportColumnPlan]) -> Vec<&str> {
    let mut names: Vec<&str> = columns.iter().map(|column| column.column.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the type as which a column of a text file is parsed, if the plan sets one. Lists are parsed from strings
/// later.
fn text_type(column: &ImportColumnPlan) -> Option<DataType> {
    let data_type = target(&DataType::Utf8, column.property_type.as_ref()?);
    Some(if data_type.is_nested() { DataType::Utf8 } else { data_type })
}
