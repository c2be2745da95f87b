//! A scan of files that are read front to back: what is wanted, the plan, and the batches.

use std::{fmt, ops::ControlFlow, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{StreamExt, stream::BoxStream};
use tokio::{runtime::Handle, sync::mpsc};

use super::{
    SequentialFormat, opened::SequentialFiles, reading::SequentialReadOptions,
    selection::SequentialProjection,
};
use crate::{Cache, Error, Predicate, Result, Source, parallel::guarded};

/// Rows of a batch at most.
const BATCH_ROWS: usize = 8192;
/// Batches that wait to be taken.
const WAITING: usize = 2;

/// What is wanted of some files.
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
    /// All rows of the files of all sources, in their order. Columns of several files meet by name.
    pub fn over<S: Into<Source>>(sources: impl IntoIterator<Item = S>, format: SequentialFormat) -> Self {
        let sources = sources.into_iter().map(Into::into).collect();
        Self { sources, format, columns: None, filter: None, limit: None, batch_rows: BATCH_ROWS }
    }

    /// Only these columns, in this order; a dot reaches into a struct. Default: all.
    #[must_use]
    pub fn with_columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows of which this is true. Default: all.
    #[must_use]
    pub fn with_filter(mut self, filter: Predicate) -> Self {
        self.filter = Some(filter);
        self
    }

    /// At most this many rows. Default: all.
    #[must_use]
    pub fn with_limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// At most this many rows in a batch of CSV or JSON; batches of Arrow IPC stay as they are. Default: 8,192.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Finds the files and their columns. Of CSV and JSON, a sample is read.
    ///
    /// # Errors
    ///
    /// [`Error::NoFiles`] if nothing is there, [`Error::NoSuchColumn`], [`Error::Option`], [`Error::Text`] if a text is
    /// not what it should be, and what storage says.
    pub async fn plan(&self, cache: &Cache) -> Result<SequentialScan> {
        let mut files = Vec::new();
        for source in &self.sources {
            for (store, path) in source.files(cache).await? {
                files.push(store.open_object(&path).await?);
            }
        }
        let (request, runtime) = (self.clone(), Handle::current());
        let open = move || -> Result<_> {
            let Self { format, columns, filter, .. } = request;
            let open = || SequentialFiles::open(files, format, columns.as_deref(), filter.as_ref(), &runtime);
            let opened = guarded(open)?;
            let selection = SequentialProjection::new(opened.schema(), columns.as_deref(), filter.as_ref())?;
            Ok((Arc::new(opened), selection))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let (files, selection) = opened.map_err(|error| Error::Ended { reason: error.to_string() })??;
        Ok(SequentialScan { files, selection, limit: self.limit, batch_rows: self.batch_rows })
    }
}

/// Files that were found, and what comes out of them. Cheap to clone; each stream reads the files again, in the
/// versions that they had when they were found.
#[derive(Clone)]
pub struct SequentialScan {
    files: Arc<SequentialFiles>,
    selection: SequentialProjection,
    limit: Option<u64>,
    batch_rows: usize,
}

impl SequentialScan {
    /// The columns that come out.
    pub fn schema(&self) -> &SchemaRef {
        self.selection.schema()
    }

    /// How many rows come out; `None` unless all of them were the sample and no filter is given.
    pub fn rows(&self) -> Option<u64> {
        let rows = self.files.rows().filter(|_| !self.selection.has_filter())?;
        Some(self.limit.map_or(rows, |limit| rows.min(limit)))
    }

    /// The rows, read on a thread of its own. Dropped, reading ends. Must be called within a runtime.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (scan, runtime) = (self.clone(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let emit = |batch| match sender.blocking_send(Ok(batch)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            if let Err(error) = guarded(|| scan.read(&runtime, emit)) {
                // Without a receiver no task waits for the error either.
                let _ = sender.blocking_send(Err(error));
            }
        });
        let next = |mut receiver: mpsc::Receiver<_>| async move { Some((receiver.recv().await?, receiver)) };
        futures::stream::unfold(receiver, next).boxed()
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

/// Makes an error of a panic: readers of other crates may not have foreseen what is in a file.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded::guarded(work).unwrap_or_else(|_| {
        Err(Error::Ended { reason: "the reader failed: the file is probably corrupt".to_owned() })
    })
}
