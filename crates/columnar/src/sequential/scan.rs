//! A scan of files that are read front to back: the request, the plan and the batches.

use std::{collections::BTreeSet, fmt, ops::ControlFlow, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
};
use async_recursion::async_recursion as boxed;
use futures::stream::BoxStream;
use stylobate_storage::{OpenObject, run_blocking, stream_from_thread};
use tokio::runtime::Handle;

use super::{
    SequentialFormat,
    csv::CsvFiles,
    format_files::open_format_files,
    ipc::ArrowFiles,
    json::JsonFiles,
    reading::{FileBatchCallback, SequentialReadOptions},
    selection::SequentialProjection,
    table::{ColumnRequest, SequentialTable},
};
use crate::{
    Cache, Error, Predicate, Result, Source,
    table::{
        locate::{LocatedFile, PathOptions, shown_path},
        options::TableOptions,
        partition_names,
    },
};

/// Default of [`SequentialRequest::with_batch_rows`].
const BATCH_ROWS: usize = 8192;
/// Maximum rows of a batch with columns that the file does not have. The rows of a file may take no bytes.
const MAX_ROWS_WITH_ADDED: usize = 1 << 16;
/// Batches that are read ahead of the consumer.
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
    paths: PathOptions,
    table: TableOptions,
}

impl SequentialRequest {
    /// Requests all rows of the files of all sources, in their order. Columns of several files are matched by name, and
    /// folders named `name=value` become columns.
    pub fn over<S: Into<Source>>(sources: impl IntoIterator<Item = S>, format: SequentialFormat) -> Self {
        let sources = sources.into_iter().map(Into::into).collect();
        Self {
            sources,
            format,
            columns: None,
            filter: None,
            limit: None,
            batch_rows: BATCH_ROWS,
            paths: PathOptions::default(),
            table: TableOptions::default(),
        }
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

    /// Limits the rows of a batch of CSV or JSON. Batches of Arrow IPC are split only if columns are added to
    /// them, such as those of partition folders. Default: 8,192.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Sets the columns of the table: those that a file lacks are null, others of the file are left out, and types are
    /// given as by [`Self::with_casts`]. Default: the columns of all files, by name.
    #[must_use]
    pub fn with_table_schema(mut self, schema: SchemaRef) -> Self {
        self.table.schema = Some(schema);
        self
    }

    /// Sets the types of top-level columns. Strings are parsed as these types, and other values are cast. A value
    /// that the type cannot represent is an error, never null and never rounded, except that decimals of JSON
    /// round. Default: none.
    #[must_use]
    pub fn with_casts(mut self, casts: impl IntoIterator<Item = (impl Into<String>, DataType)>) -> Self {
        self.table.casts = casts.into_iter().map(|(column, data_type)| (column.into(), data_type)).collect();
        self
    }

    /// Sets types of partition columns instead of inferring them. Default: integers, dates or timestamps if all values
    /// parse as such, otherwise strings.
    #[must_use]
    pub fn with_partition_types(
        mut self,
        types: impl IntoIterator<Item = (impl Into<String>, DataType)>,
    ) -> Self {
        self.table.partition_types =
            types.into_iter().map(|(column, data_type)| (column.into(), data_type)).collect();
        self
    }

    /// Turns folders named `name=value` into columns. Default: yes.
    #[must_use]
    pub fn with_hive_partitions(mut self, hive: bool) -> Self {
        self.paths.hive = hive;
        self
    }

    /// Treats `*`, `?`, `[…]` and `**` in paths as wildcards, unless a file or folder has that name. Default: yes.
    #[must_use]
    pub fn with_glob(mut self, glob: bool) -> Self {
        self.paths.glob = glob;
        self
    }

    /// Adds a column of this name with the path or URL of each row's file. Default: none.
    #[must_use]
    pub fn with_filename(mut self, column: impl Into<String>) -> Self {
        self.table.filename = Some(column.into());
        self
    }

    /// Adds a column of this name with the number of each row within its file, from 0. Default: none.
    #[must_use]
    pub fn with_file_row_number(mut self, column: impl Into<String>) -> Self {
        self.table.row_number = Some(column.into());
        self
    }

    /// Finds the files and their columns. For CSV and JSON this reads a sample.
    ///
    /// # Errors
    ///
    /// [`Error::NoFiles`] if there is no file, [`Error::Pattern`] if none has the format, [`Error::NoSuchColumn`],
    /// [`Error::Option`], [`Error::Text`] if a text file is malformed, [`Error::Schema`] if a column of several
    /// Arrow IPC files has no common type, [`Error::Arrow`] if the value of a path does not fit the type of its
    /// column, and storage errors.
    #[tracing::instrument(
        name = "plan_sequential",
        level = "debug",
        skip_all,
        fields(source = self.sources.first().map(tracing::field::display), sources = self.sources.len())
    )]
    #[boxed]
    pub async fn plan(&self, cache: &Cache) -> Result<SequentialScan> {
        let mut files = Vec::new();
        for source in &self.sources {
            files.extend(open_format_files(source, cache, &self.format, self.paths).await?);
        }

        let request = self.clone();
        let runtime = Handle::current();
        run_blocking(move || request.open(files, &runtime)).await?
    }

    /// Finds the columns of the files. Blocks, so it must not be used within an async task.
    fn open(self, files: Vec<(LocatedFile, OpenObject)>, runtime: &Handle) -> Result<SequentialScan> {
        let Self { format, columns, filter, limit, batch_rows, table: mut options, .. } = self;
        let mut named = Vec::with_capacity(files.len());
        let mut objects = Vec::with_capacity(files.len());
        for (mut file, object) in files {
            // The columns of the file are not known yet.
            options.name_file(&mut file, |_| false, &shown_path(&object))?;
            named.push(file);
            objects.push(object);
        }

        let located: Vec<&LocatedFile> = named.iter().collect();
        let partitions = partition_names(&located);
        options.check_partitions(&partitions)?;
        for (name, data_type) in format.types() {
            if partitions.contains(&name.as_str()) {
                options.partition_types.entry(name.clone()).or_insert_with(|| data_type.clone());
            }
        }

        let columns = columns.or_else(|| options.columns());
        let columns = columns.as_deref();
        let request =
            ColumnRequest { columns, filter: filter.as_ref(), located: &located, options: &options };
        let files = SequentialFiles::open(objects, format, &request, runtime)?;
        let table = SequentialTable::new(&request, files.schema())?;
        let selection = SequentialProjection::new(table.schema(), columns, table.filter())?;
        let skipped = table.pruned_files()?;

        let files = Arc::new(OpenedTable { files, table, skipped });
        Ok(SequentialScan { files, selection, limit, batch_rows })
    }
}

/// Files, and the table that they form.
struct OpenedTable {
    files: SequentialFiles,
    table: SequentialTable,
    /// Indices of the files without rows that pass the filter.
    skipped: BTreeSet<usize>,
}

/// Planned scan of files. Cheap to clone; each stream reads the files again, in the versions that were current when the
/// scan was planned.
#[derive(Clone)]
pub struct SequentialScan {
    files: Arc<OpenedTable>,
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
        let rows = self.files.files.rows().filter(|_| !self.selection.has_filter())?;
        Some(self.limit.map_or(rows, |limit| rows.min(limit)))
    }

    /// Reads the rows on a dedicated thread. Dropping the stream ends the read.
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

        let OpenedTable { files, table, skipped } = self.files.as_ref();
        let projection = table.project(self.selection.read());
        let columns = projection.of_files();
        let reading = SequentialReadOptions { columns, skipped, batch_rows: self.batch_rows, runtime };

        let max_rows = if table.adds_columns(&projection) { MAX_ROWS_WITH_ADDED } else { usize::MAX };
        let mut current_file = 0;
        let mut next_row = 0;
        files.read(&reading, &mut |file, batch| {
            if file != current_file {
                current_file = file;
                next_row = 0;
            }

            let mut start = 0;
            while start < batch.num_rows() {
                let part = batch.slice(start, max_rows.min(batch.num_rows() - start));
                let mut rows = self.selection.apply(table.batch(&projection, file, next_row, &part)?)?;
                start += part.num_rows();
                next_row += part.num_rows();
                if rows.num_rows() == 0 {
                    continue;
                }
                if rows.num_rows() as u64 > left {
                    rows = rows.slice(0, usize::try_from(left).unwrap_or(usize::MAX));
                }

                left -= rows.num_rows() as u64;
                if emit(rows).is_break() || left == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }

            Ok(ControlFlow::Continue(()))
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
        request: &ColumnRequest<'_>,
        runtime: &Handle,
    ) -> Result<Self> {
        Ok(match format {
            SequentialFormat::Csv(options) => Self::Csv(CsvFiles::open(files, options, request, runtime)?),
            SequentialFormat::Json(options) => Self::Json(JsonFiles::open(files, options, request, runtime)?),
            SequentialFormat::Arrow => Self::Arrow(ArrowFiles::open(files, request, runtime)?),
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
    fn read(&self, reading: &SequentialReadOptions<'_>, emit: FileBatchCallback<'_>) -> Result<()> {
        match self {
            Self::Csv(files) => files.read(reading, emit),
            Self::Json(files) => files.read(reading, emit),
            Self::Arrow(files) => files.read(reading, emit),
        }
    }
}
