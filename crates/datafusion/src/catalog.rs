//! Tables named by their path in queries, and those of CREATE EXTERNAL TABLE.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider, TableProviderFactory, UrlTableFactory},
    common::Result,
    error::DataFusionError,
    logical_expr::CreateExternalTable,
};
use futures::future::join_all;
use stylobate_columnar::{
    Cache, Error as ScanError, ScanRequest, SequentialFormat, SequentialRequest, Source,
};
use stylobate_storage::without_credentials;

use crate::{
    error::{Error, external},
    tables::provider::ScanTable,
    tables::sequential::sequential_table,
};

tokio::task_local! {
    /// Tables opened for the statement being planned, by path.
    static OPENED: HashMap<String, Arc<dyn TableProvider>>;
}

/// Opens tables at paths and URLs.
#[derive(Clone, Debug)]
pub(crate) struct PathTables {
    cache: Cache,
    threads: usize,
    options: Vec<(String, String)>,
}

impl PathTables {
    pub(crate) fn new(cache: Cache, threads: usize, options: Vec<(String, String)>) -> Self {
        Self { cache, threads, options }
    }

    /// Opens the files at these paths, folders or patterns as one table. The format follows from their extensions, or
    /// else from their bytes.
    pub(crate) async fn open(&self, paths: &[String]) -> Result<Arc<dyn TableProvider>, Error> {
        let source = |path: &String| Source::Url { url: path.clone(), options: self.options.clone() };
        let sources: Vec<Source> = paths.iter().map(source).collect();
        if let Some(format) = paths.first().and_then(|path| SequentialFormat::of_path(path)) {
            return self.open_sequential(sources, format).await;
        }

        let request = ScanRequest::over(sources.clone()).with_threads(self.threads);
        let error = match ScanTable::open(request, &self.cache).await {
            Ok(table) => return Ok(Arc::new(shared_by_name(table, paths))),
            Err(error) => error,
        };
        if matches!(error, Error::Scan(ScanError::Format { .. }))
            && let Some(first) = sources.first()
            && let Some(format) = SequentialFormat::detect(first, &self.cache).await?
        {
            return self.open_sequential(sources, format).await;
        }
        Err(error)
    }

    /// Opens tables concurrently, and makes them available while `planning` looks up their paths. The planner
    /// retries those that cannot be opened, and reports the reason.
    pub(crate) async fn opened_together<T>(
        &self,
        paths: BTreeSet<String>,
        planning: impl Future<Output = T>,
    ) -> T {
        let opening = paths.into_iter().map(async |path| {
            let table = self.open(std::slice::from_ref(&path)).await.ok()?;
            Some((path, table))
        });
        let opened = join_all(opening).await.into_iter().flatten().collect();
        OPENED.scope(opened, planning).await
    }

    async fn open_sequential(
        &self,
        sources: Vec<Source>,
        format: SequentialFormat,
    ) -> Result<Arc<dyn TableProvider>, Error> {
        let scan = SequentialRequest::over(sources, format).plan(&self.cache).await?;
        sequential_table(scan)
    }
}

/// Lets other nodes open the table by its paths, unless these contain credentials.
fn shared_by_name(table: ScanTable, paths: &[String]) -> ScanTable {
    if paths.iter().all(|path| without_credentials(path) == *path) {
        table.with_source_names(paths.iter().cloned())
    } else {
        table
    }
}

/// Returns whether a name in FROM is a path: it contains folders, an extension or wildcards, or it exists.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains(['/', '.', '*', '?', '[']) || Path::new(name).exists()
}

/// Wraps an error for DataFusion.
fn passed(error: Error) -> DataFusionError {
    match error {
        Error::Scan(error) => external(error),
        other => DataFusionError::External(Box::new(other)),
    }
}

#[async_trait]
impl UrlTableFactory for PathTables {
    async fn try_new(&self, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !is_path(path) {
            return Ok(None);
        }
        if let Ok(Some(table)) = OPENED.try_with(|opened| opened.get(path).cloned()) {
            return Ok(Some(table));
        }
        match self.open(&[path.to_owned()]).await {
            Ok(table) => Ok(Some(table)),
            Err(error) => Err(passed(error)),
        }
    }
}

#[async_trait]
impl TableProviderFactory for PathTables {
    async fn create(
        &self,
        _state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        self.open(&command.locations).await.map_err(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_a_name() {
        for path in ["a.parquet", "data/a", "s3://lake/*.orc", "part-*", "/"] {
            assert!(is_path(path), "{path}");
        }
        for name in ["lineitem", "no_such_table", ""] {
            assert!(!is_path(name), "{name}");
        }
    }
}
