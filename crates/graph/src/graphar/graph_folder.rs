//! Location of a graph's files, and the cache that they are opened through.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use async_recursion::async_recursion as boxed;
use object_store::path::Path;
use stylobate_columnar::{Cache, FileColumns, FileKind, TextKind};
use stylobate_storage::{Error as StorageError, ReadThrough};

use super::info::{FileType, Strictness};
use crate::{Error, Result};

/// Folder of a store, and the cache for reading its files.
#[derive(Clone, Debug)]
pub(crate) struct GraphFolder {
    pub(crate) cache: Cache,
    pub(crate) store: ReadThrough,
    /// Empty, or with a trailing slash.
    pub(crate) base: String,
    pub(crate) strictness: Strictness,
}

/// Size of a file with a count, in bytes.
const COUNT_BYTES: usize = 8;

impl GraphFolder {
    pub(crate) fn path(&self, file: &str) -> Result<Path> {
        let path = format!("{}{file}", self.base);
        Path::parse(&path).map_err(|error| Error::Data { file: path, reason: error.to_string() })
    }

    /// Returns the name of a file for errors.
    pub(crate) fn name(&self, file: &str) -> String {
        match self.path(file) {
            Ok(path) => self.store.origin().name_of(&path),
            Err(_) => file.to_owned(),
        }
    }

    /// Opens a file for some of its columns.
    #[boxed]
    pub(crate) async fn open(
        &self,
        file: &str,
        file_type: FileType,
        fields: &Arc<[FieldRef]>,
    ) -> Result<FileColumns> {
        let kind = match file_type {
            FileType::Parquet | FileType::Orc => FileKind::Columnar,
            FileType::Csv => FileKind::Text(TextKind::Csv),
            FileType::Json => FileKind::Text(TextKind::JsonLines),
        };
        let opened = FileColumns::open(&self.cache, &self.store, &self.path(file)?, kind, fields).await;
        let columns = opened.map_err(|error| self.missing(file, error.into()))?;
        if self.strictness == Strictness::Strict {
            self.check_types(file, file_type, fields, &columns)?;
        }

        Ok(columns)
    }

    /// Returns the same folder, but does not cache decoded columns.
    pub(crate) fn passing(&self) -> Self {
        let cache = Cache::passing(self.cache.pages().clone());
        Self { cache, ..self.clone() }
    }

    /// Returns the same folder, for files that appear complete under their names and never change.
    pub(crate) fn of_final_files(self) -> Self {
        if !self.is_folder() {
            return self;
        }
        let origin = self.store.origin().clone().of_final_files();
        Self { store: self.store.with_origin(origin, self.cache.pages().clone()), ..self }
    }

    fn is_folder(&self) -> bool {
        self.store.origin().folder().is_some()
    }

    /// Returns true if the cache has room for a scan; otherwise a scan would evict data that is read repeatedly.
    pub(crate) fn has_room(&self) -> bool {
        let stats = self.cache.stats();
        stats.bytes < stats.capacity / 8 * 7
    }

    /// Returns true if a file's version identifies its content. Shortly after a write to a local folder it does
    /// not: nothing may be cached from a file opened at that time, and the file must be reopened later.
    #[boxed]
    pub(crate) async fn is_settled(&self, file: &str) -> Result<bool> {
        if !self.is_folder() {
            return Ok(true);
        }
        let opened = self.store.open_object(&self.path(file)?).await;
        let opened = opened.map_err(|error| self.missing(file, error.into()))?;
        Ok(opened.version().is_some())
    }

    /// Returns true if the file exists.
    #[boxed]
    pub(crate) async fn has(&self, file: &str) -> Result<bool> {
        let opened = self.store.open_object(&self.path(file)?).await;
        match opened.map_err(|error| self.missing(file, error.into())) {
            Ok(_) => Ok(true),
            Err(Error::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Checks that `next`, the first chunk beyond the number in `count`, does not exist. Needed only if the number is a
    /// multiple of the chunk size: otherwise a number that is too low contradicts the rows of the last chunk.
    pub(crate) async fn ends_before(&self, next: &str, count: &str) -> Result<()> {
        if self.has(next).await? {
            let reason = format!("it follows the last that {} speaks of", self.name(count));
            Err(Error::Data { file: self.name(next), reason })
        } else {
            Ok(())
        }
    }

    /// Reads a small file.
    #[boxed]
    pub(crate) async fn read(&self, file: &str) -> Result<Vec<u8>> {
        let read = async {
            let object = self.store.open_whole(&self.path(file)?).await?;
            let size = object.meta().size;
            let bytes = object.read(std::slice::from_ref(&(0..size))).await?.pop();
            Ok(bytes.unwrap_or_default().to_vec())
        };
        read.await.map_err(|error| self.missing(file, error))
    }

    /// Reads a file that holds a number.
    #[boxed]
    pub(crate) async fn count(&self, file: &str) -> Result<u64> {
        let bytes = self.read(file).await?;
        let count = <[u8; COUNT_BYTES]>::try_from(bytes.as_slice()).map(i64::from_le_bytes);
        let wrong = |reason: String| Error::Data { file: self.name(file), reason };
        let count = count.map_err(|_| wrong(format!("a count of {} bytes, not 8", bytes.len())))?;
        u64::try_from(count).map_err(|_| wrong(format!("a count of {count}")))
    }

    fn missing(&self, file: &str, error: Error) -> Error {
        let is_missing = |error: &StorageError| matches!(error, StorageError::NotFound { .. });
        let is_missing = match &error {
            Error::Storage(error) | Error::Columnar(stylobate_columnar::Error::Storage(error)) => {
                is_missing(error)
            }
            _ => false,
        };
        if is_missing { Error::Missing { file: self.name(file) } } else { error }
    }

    fn check_types(
        &self,
        file: &str,
        file_type: FileType,
        fields: &[FieldRef],
        columns: &FileColumns,
    ) -> Result<()> {
        for (at, field) in fields.iter().enumerate() {
            let reason = match columns.stored_as(at) {
                _ if !columns.has(at) => format!("there is no column {}", field.name()),
                stored if is_declared(stored, field.data_type(), file_type) => continue,
                stored => {
                    let stored = stored.unwrap_or(field.data_type());
                    format!("column {} is {stored}, which is not what was declared", field.name())
                }
            };
            return Err(Error::Data { file: self.name(file), reason });
        }

        Ok(())
    }
}

/// Returns true if a column is stored as declared. Timestamps are declared in milliseconds, and read in microseconds.
fn is_declared(stored: Option<&DataType>, read: &DataType, file_type: FileType) -> bool {
    match (stored, read) {
        (None, DataType::Timestamp(..)) => matches!(file_type, FileType::Csv | FileType::Json),
        (Some(DataType::Timestamp(TimeUnit::Millisecond, _)), DataType::Timestamp(..)) => true,
        // ORC has no other unit.
        (Some(DataType::Timestamp(..)), DataType::Timestamp(..)) => file_type == FileType::Orc,
        (stored, _) => stored.is_none(),
    }
}
