//! Requests for rows of files in any format, and the scans planned for them.

use std::path::Path;

use anyhow::{Result, anyhow};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{StreamExt, stream::BoxStream};
use stylobate_columnar::{
    Cache, Error as ColumnarError, Predicate, Scan, ScanRequest, SequentialFormat, SequentialRequest,
    SequentialScan, Source, WriteFormat,
};

use super::source_args::SourceArgs;
use crate::failure::usage;

/// A request for rows of files in any format.
#[derive(Clone, Debug)]
pub(crate) struct RowsRequest {
    /// The request to use for Parquet and ORC files.
    pub(super) columnar: ScanRequest,
    pub(super) sources: Vec<Source>,
    pub(super) source_args: SourceArgs,
    /// The sequential format, if the arguments or the file names determine it.
    pub(super) format: Option<SequentialFormat>,
    pub(super) columns: Option<Vec<String>>,
    pub(super) filter: Option<Predicate>,
    pub(super) limit: Option<u64>,
    /// True if `--dictionary` was given.
    pub(super) has_dictionaries: bool,
}

/// A planned scan.
pub(crate) enum RowsScan {
    Columnar(Box<Scan>),
    Sequential(SequentialScan),
}

impl RowsRequest {
    /// Limits the number of rows.
    pub(crate) fn with_limit(self, rows: u64) -> Self {
        Self { columnar: self.columnar.with_limit(rows), limit: Some(rows), ..self }
    }

    /// Outputs dictionary codes, as input for a writer, for columns that Parquet and ORC files store as
    /// dictionaries.
    pub(crate) fn with_codes(self, codes: bool) -> Self {
        Self { columnar: self.columnar.with_codes(codes), ..self }
    }

    /// Reads no columns, to count rows.
    pub(crate) fn without_columns(self) -> Self {
        Self { columnar: self.columnar.with_columns(Vec::<String>::new()), columns: Some(Vec::new()), ..self }
    }

    /// Finds the files and their columns. If the names do not determine the format, it is detected from the first
    /// bytes.
    pub(crate) async fn plan(&self, cache: &Cache) -> Result<RowsScan> {
        if let Some(format) = &self.format {
            return self.plan_sequential(format.clone(), cache).await;
        }

        let error = match self.columnar.clone().plan(cache).await {
            Ok(scan) => {
                self.source_args.refuse_all()?;
                return Ok(RowsScan::Columnar(Box::new(scan)));
            }
            Err(error) => error,
        };

        if matches!(error, ColumnarError::Format { .. })
            && self.source_args.may_detect()
            && let Some(format) = self.source_args.detect(&self.sources, cache).await?
        {
            return self.plan_sequential(format, cache).await;
        }

        match &error {
            ColumnarError::Format { object }
                if WriteFormat::of_path(Path::new(object)).is_none_or(|named| !named.is_columnar()) =>
            {
                Err(anyhow!("{error}: if it is CSV, JSON or Arrow IPC, name the format with --from"))
            }
            _ => Err(error.into()),
        }
    }

    async fn plan_sequential(&self, format: SequentialFormat, cache: &Cache) -> Result<RowsScan> {
        if self.has_dictionaries {
            return Err(usage("--dictionary is for Parquet and ORC"));
        }

        let mut request = SequentialRequest::over(self.sources.clone(), format);
        if let Some(columns) = &self.columns {
            request = request.with_columns(columns);
        }
        if let Some(filter) = &self.filter {
            request = request.with_filter(filter.clone());
        }
        if let Some(limit) = self.limit {
            request = request.with_limit(limit);
        }

        Ok(RowsScan::Sequential(request.plan(cache).await?))
    }
}

impl RowsScan {
    /// Returns the output schema.
    pub(crate) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Columnar(scan) => scan.schema(),
            Self::Sequential(scan) => scan.schema(),
        }
    }

    /// Streams the rows. Dropping the stream cancels the read.
    pub(crate) fn stream(&self) -> BoxStream<'static, Result<RecordBatch, ColumnarError>> {
        match self {
            Self::Columnar(scan) => scan.stream().boxed(),
            Self::Sequential(scan) => scan.stream(),
        }
    }
}
