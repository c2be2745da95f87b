//! A scan of files that are read front to back: the request, the plan and the batches.

use std::{fmt, ops::ControlFlow, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::stream::BoxStream;
use stylobate_storage::{OpenObject, run_blocking, stream_from_thread};
use tokio::runtime::Handle;

use super::{
    SequentialFormat,
    csv::CsvFiles,
    format_files::open_format_files,
    ipc::ArrowFiles,
    json::JsonFiles,
    reading::{BatchCallback, SequentialReadOptions},
    selection::SequentialProjection,
};
use crate::{Cache, Error, Predicate, Result, Source};

/// Default of [`SequentialRequest::with_batch_rows`].
const BATCH_ROWS: usize = 8192;
/// Batches that are read before they are taken.
const BATCHES_AHEAD: usize = 2;

/// Request to scan files.
#[derive(Clone, Debug)]
pub struct SequentialRequest {
    sources: Vec<Source>,
    format: SequentialFormat,
    columns: Option<Vec<String>>,
    filter: Option<Predicate>,
    limit: Option<u64>,
    batch_rows: usize,
}

impl SequentialRequest {
    /// Requests all rows of the files of all sources, in their order. Columns of several files are matched by name.
    pub fn over<S: Into<Source>>(sources: impl IntoIterator<Item = S>, format: SequentialFormat) -> Self {
        let sources = sources.into_iter().map(Into::into).collect();
        Self { sources, format, columns: None, filter: None, limit: None, batch_rows: BATCH_ROWS }
    }

    /// Selects these columns, in this order; a dot reaches into a struct. Default: all.
    #[must_use]
    pub fn with_columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Selects the rows for which the predicate is true. Default: all.
    #[must_use]
    pub fn with_filter(mut self, filter: Predicate) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Limits the number of rows. Default: all.
    #[must_use]
    pub fn with_limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Limits the rows of a batch of CSV or JSON; batches of Arrow IPC are not split. Default: 8,192.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Finds the files and their columns. For CSV and JSON this reads a sample.
    ///
    /// # Errors
    ///
    /// [`Error::NoFiles`] if there is no file, [`Error::Pattern`] if none has the format, [`Error::NoSuchColumn`],
    /// [`Error::Option`], [`Error::Text`] if a text is malformed, [`Error::Schema`] if a column of several Arrow IPC
    /// files has no common type, and errors of storage.
    #[tracing::instrument(
        name = "plan_sequential",
        level = "debug",
        skip_all,
        fields(source = self.sources.first().map(tracing::field::display), sources = self.sources.len())
    )]
    pub async fn plan(&self, cache: &Cache) -> Result<SequentialScan> {
        let mut files = Vec::new();
        for source in &self.sources {
            files.extend(open_format_files(source, cache, &self.format).await?);
        }

        let request = self.clone();
        let runtime = Handle::current();
        let open = move || -> Result<_> {
            let Self { format, columns, filter, .. } = request;
            let columns = columns.as_deref();
            let filter = filter.as_ref();
            let opened = SequentialFiles::open(files, format, columns, filter, &runtime)?;
            let selection = SequentialProjection::new(opened.schema(), columns, filter)?;
            Ok((Arc::new(opened), selection))
        };

        let (files, selection) = run_blocking(open).await??;
        Ok(SequentialScan { files, selection, limit: self.limit, batch_rows: self.batch_rows })
    }
}

/// Planned scan of files. Cheap to clone; each stream reads the files again, in the versions that were current when the
/// scan was planned.
#[derive(Clone)]
pub struct SequentialScan {
    files: Arc<SequentialFiles>,
    selection: SequentialProjection,
    limit: Option<u64>,
    batch_rows: usize,
}

impl SequentialScan {
    /// Returns the output columns.
    pub fn schema(&self) -> &SchemaRef {
        self.selection.schema()
    }

    /// Returns the number of output rows; `None` unless the sample covered all rows and there is no filter.
    pub fn rows(&self) -> Option<u64> {
        let rows = self.files.rows().filter(|_| !self.selection.has_filter())?;
        Some(self.limit.map_or(rows, |limit| rows.min(limit)))
    }

    /// Reads the rows on a thread of its own. Dropping the stream ends the read.
    ///
    /// If the thread ends before the last row because the runtime is shutting down, the last item is [`Error::Ended`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let scan = self.clone();
        let runtime = Handle::current();
        let span = tracing::debug_span!("scan_sequential", columns = self.schema().fields().len());
        let produce = move |give: &mut dyn FnMut(RecordBatch) -> bool| {
            let emit = |batch| if give(batch) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            span.in_scope(|| scan.read(&runtime, emit))
        };
        stream_from_thread(BATCHES_AHEAD, produce, |reason| Error::Ended { reason })
    }

    fn read(&self, runtime: &Handle, mut emit: impl FnMut(RecordBatch) -> ControlFlow<()>) -> Result<()> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(());
        }

        let reading =
            SequentialReadOptions { columns: self.selection.read(), batch_rows: self.batch_rows, runtime };
        self.files.read(&reading, &mut |batch| {
            let mut batch = self.selection.apply(batch)?;
            if batch.num_rows() == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            if batch.num_rows() as u64 > left {
                batch = batch.slice(0, usize::try_from(left).unwrap_or(usize::MAX));
            }

            left -= batch.num_rows() as u64;
            let more = emit(batch);
            Ok(if left == 0 { ControlFlow::Break(()) } else { more })
        })
    }
}

impl fmt::Debug for SequentialScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialScan").field("schema", self.schema()).finish_non_exhaustive()
    }
}

/// Files whose columns are known.
enum SequentialFiles {
    Csv(CsvFiles),
    Json(JsonFiles),
    Arrow(ArrowFiles),
}

impl SequentialFiles {
    /// Finds the columns. Blocks, so it must not be used within an async task.
    fn open(
        files: Vec<OpenObject>,
        format: SequentialFormat,
        columns: Option<&[String]>,
        filter: Option<&Predicate>,
        runtime: &Handle,
    ) -> Result<Self> {
        Ok(match format {
            SequentialFormat::Csv(options) => {
                Self::Csv(CsvFiles::open(files, options, columns, filter, runtime)?)
            }
            SequentialFormat::Json(options) => {
                Self::Json(JsonFiles::open(files, options, columns, filter, runtime)?)
            }
            SequentialFormat::Arrow => Self::Arrow(ArrowFiles::open(files, columns, filter, runtime)?),
        })
    }

    /// Returns the columns that may be read.
    fn schema(&self) -> &SchemaRef {
        match self {
            Self::Csv(files) => files.schema(),
            Self::Json(files) => files.schema(),
            Self::Arrow(files) => files.schema(),
        }
    }

    /// Returns the number of rows, if known.
    fn rows(&self) -> Option<u64> {
        match self {
            Self::Csv(files) => files.rows(),
            Self::Json(files) => files.rows(),
            Self::Arrow(_) => None,
        }
    }

    /// Reads all rows until `emit` breaks. Blocks, as [`Self::open`] does.
    fn read(&self, reading: &SequentialReadOptions<'_>, emit: BatchCallback<'_>) -> Result<()> {
        match self {
            Self::Csv(files) => files.read(reading, emit),
            Self::Json(files) => files.read(reading, emit),
            Self::Arrow(files) => files.read(reading, emit),
        }
    }
}
