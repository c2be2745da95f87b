//! Reads the files of a run back and compares them with its manifest.

use std::{fmt::Display, io::Read};

use arrow::datatypes::SchemaRef;
use futures::{StreamExt, future::BoxFuture};
use serde::Serialize;
use stylobate_columnar::{Cache, CsvReader, Dictionaries, Error as ColumnarError, ScanRequest, Source};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Error as StorageError, FolderReads, ReadOptions,
    ReadThrough, run_blocking,
};

use crate::{
    Checksums, Error, FileFormat, Manifest, Output, Result, Run, Table,
    chunk::BATCH_ROWS,
    files::{
        manifest::{FileEntry, hexadecimal},
        read_arrow::{check, read_arrow},
    },
};

/// Memory of the cache through which files are read.
const MEMORY: ByteSize = ByteSize::mib(256);
/// Result of reading a file back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Path relative to the folder of the manifest.
    pub path: String,
    /// Number of rows, according to the manifest.
    pub rows: u64,
    /// Size in bytes, according to the manifest.
    pub bytes: u64,
    /// True if the file matches the manifest.
    pub ok: bool,
    /// Differences from the manifest.
    pub differences: Vec<String>,
}

/// Reads back all files of the runs in `output`: first their sizes and bytes, then their rows, through the reader of
/// their format. Passes the verdict on each to `observe`.
///
/// # Errors
///
/// [`Error::Manifest`] if there is no run.
pub fn verify<'a>(
    output: &'a Output,
    observe: impl FnMut(&Verdict) + Send + 'a,
) -> BoxFuture<'a, Result<Vec<Verdict>>> {
    Box::pin(verdicts(output, Box::new(observe)))
}

async fn verdicts(
    output: &Output,
    mut observe: Box<dyn FnMut(&Verdict) + Send + '_>,
) -> Result<Vec<Verdict>> {
    let names = output.names().await?.into_iter();
    let names = names.filter(|name| name.starts_with("manifest.") && name.ends_with(".json"));
    let mut verdicts = Vec::new();
    let mut has_manifest = false;
    let cache = Cache::open(CacheOptions::new(MEMORY)).await?;

    for name in names {
        let Some(manifest) = Manifest::read(output, &name).await? else { continue };
        has_manifest = true;

        for planned in manifest.run.files()? {
            let entry = manifest.files.iter().find(|entry| entry.path == planned.path);
            let verdict = match entry {
                Some(entry) => {
                    let read = TableFileVerifier {
                        output,
                        cache: &cache,
                        run: &manifest.run,
                        table: planned.table,
                        entry,
                    };
                    read.verdict().await?
                }
                None => Verdict {
                    path: planned.path,
                    rows: 0,
                    bytes: 0,
                    ok: false,
                    differences: vec!["not made yet".to_owned()],
                },
            };

            observe(&verdict);
            verdicts.push(verdict);
        }
    }

    if has_manifest {
        Ok(verdicts)
    } else {
        Err(Error::Manifest {
            manifest: output.name_of("manifest.json"),
            reason: "no such file: nothing was generated here".to_owned(),
        })
    }
}

/// A file to verify.
struct TableFileVerifier<'a> {
    output: &'a Output,
    cache: &'a Cache,
    run: &'a Run,
    table: Table,
    entry: &'a FileEntry,
}

impl TableFileVerifier<'_> {
    async fn verdict(&self) -> Result<Verdict> {
        let FileEntry { path, rows, bytes, .. } = self.entry;
        let mut differences = Vec::new();
        match self.output.digest(path).await? {
            None => differences.push("missing".to_owned()),
            Some(digest) => {
                if digest.bytes != *bytes {
                    differences.push(format!("{} bytes, not {bytes}", digest.bytes));
                } else if hexadecimal(digest.xxh3) != self.entry.xxh3 {
                    differences.push("other bytes".to_owned());
                }
                match self.sums().await {
                    Ok(sums) => self.compare(&sums, &mut differences),
                    Err(Error::Unreadable { reason, .. }) => differences.push(reason),
                    Err(error) => return Err(error),
                }
            }
        }

        Ok(Verdict {
            path: path.clone(),
            rows: *rows,
            bytes: *bytes,
            ok: differences.is_empty(),
            differences,
        })
    }

    fn compare(&self, sums: &Checksums, differences: &mut Vec<String>) {
        if sums.rows() != self.entry.rows {
            differences.push(format!("{} rows, not {}", sums.rows(), self.entry.rows));
        }
        let mut sums = sums.sums();
        sums.resize(self.entry.columns.len().max(sums.len()), 0);
        for (column, sum) in self.entry.columns.iter().zip(sums) {
            if hexadecimal(sum) != column.checksum {
                differences.push(format!("column {}: other values", column.name));
            }
        }
    }

    /// Returns the checksums of the file's rows.
    async fn sums(&self) -> Result<Checksums> {
        let schema = self.run.format.written(&self.table.schema(self.run.scale));
        match self.run.format {
            FileFormat::Parquet { .. } | FileFormat::Orc { .. } => self.scanned(&schema).await,
            FileFormat::Csv => {
                let delimiter = self.run.benchmark.delimiter();
                self.read(move |input, sums| csv_sums(input, delimiter, &schema, sums)).await
            }
            FileFormat::Arrow => {
                self.read(move |input, sums| {
                    read_arrow(input, &schema, |batch| sums.add(batch).map_err(reason_of))
                })
                .await
            }
        }
    }

    /// Reads the file with a scan.
    async fn scanned(&self, schema: &SchemaRef) -> Result<Checksums> {
        let origin = self.output.origin()?;
        let options = ReadOptions { folders: FolderReads::PastPages, ..ReadOptions::default() };
        let rules = ConsistencyRules::new(Consistency::Strict);
        let store = ReadThrough::new(origin, self.cache.pages().clone(), rules, options);
        let source = Source::Store { store, pattern: self.entry.path.clone() };
        let request = ScanRequest::over([source]).with_dictionary(Dictionaries::Auto);
        let unreadable =
            |reason: String| Error::Unreadable { file: self.output.name_of(&self.entry.path), reason };
        let told = |error: ColumnarError| match error {
            // The file exists, so the error comes from the store.
            ColumnarError::Storage(error @ (StorageError::Origin { .. } | StorageError::Deadline { .. })) => {
                error.into()
            }
            other => unreadable(other.to_string()),
        };

        let scan = request.plan(self.cache).await.map_err(told)?;
        let mut sums = Checksums::with_columns(schema.fields().len());
        let mut batches = scan.stream();
        while let Some(batch) = batches.next().await.transpose().map_err(told)? {
            check(&batch, schema).and_then(|()| sums.add(&batch).map_err(reason_of)).map_err(unreadable)?;
        }
        Ok(sums)
    }

    /// Reads the file sequentially, on a dedicated thread.
    async fn read(
        &self,
        read: impl FnOnce(&mut dyn Read, &mut Checksums) -> Result<(), String> + Send + 'static,
    ) -> Result<Checksums> {
        let mut input = self.output.reader(&self.entry.path).await?;
        let mut sums = Checksums::with_columns(self.entry.columns.len());
        let read = run_blocking(move || read(&mut *input, &mut sums).map(|()| sums));
        let unreadable = |reason| Error::Unreadable { file: self.output.name_of(&self.entry.path), reason };
        read.await?.map_err(unreadable)
    }
}

/// Adds the rows of a CSV file, whose header must name exactly these columns.
fn csv_sums(
    input: &mut dyn Read,
    delimiter: u8,
    schema: &SchemaRef,
    sums: &mut Checksums,
) -> Result<(), String> {
    let mut reader = CsvReader::with_delimiter(input, delimiter, BATCH_ROWS).map_err(reason_of)?;
    if !schema.fields().iter().map(|field| field.name()).eq(reader.header()) {
        return Err("its header names other columns".to_owned());
    }

    reader.select(schema).map_err(reason_of)?;
    while let Some(batch) = reader.next_batch().map_err(reason_of)? {
        sums.add(&batch).map_err(reason_of)?;
    }
    Ok(())
}

/// Formats an error as the reason of [`Error::Unreadable`], which names the file.
fn reason_of(error: impl Display) -> String {
    error.to_string()
}
