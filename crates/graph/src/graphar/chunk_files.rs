//! Chunk files of one folder, each opened once and then looked up by number.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::FieldRef};
use stylobate_columnar::{Columns, ColumnsUse, FileColumns};

use super::{
    graph_folder::GraphFolder,
    info::FileType,
    slots::{MAX_SLOTS, OnceCellVec},
};
use crate::{Error, Result};

/// Files with the same columns, numbered from 0.
pub(crate) struct ChunkFiles {
    folder: GraphFolder,
    file_type: FileType,
    fields: Arc<[FieldRef]>,
    files: OnceCellVec<Box<FileColumns>>,
}

impl ChunkFiles {
    pub(crate) fn new(folder: GraphFolder, file_type: FileType, fields: Arc<[FieldRef]>) -> Self {
        Self { folder, file_type, fields, files: OnceCellVec::default() }
    }

    /// Returns a column of a file if the file is open and the column is cached.
    #[inline]
    pub(crate) fn cached(&self, number: u64, column: usize) -> Option<ArrayRef> {
        self.files.get(number)?.cached(column)
    }

    /// Returns usage statistics of the columns of open files.
    pub(crate) fn usage(&self) -> ColumnsUse {
        self.files.made().map(|file| file.usage()).sum()
    }

    /// Reads columns of file `number`, which must have `rows` rows.
    pub(crate) async fn get(
        &self,
        number: u64,
        path: impl FnOnce() -> String,
        rows: ExpectedRowCount,
        columns: &[usize],
    ) -> Result<Columns> {
        match self.files.get(number) {
            Some(file) => Ok(file.get(columns).await?),
            None => Box::pin(self.open_and_get(number, path(), rows, columns)).await,
        }
    }

    async fn open_and_get(
        &self,
        number: u64,
        path: String,
        rows: ExpectedRowCount,
        columns: &[usize],
    ) -> Result<Columns> {
        let open = async {
            let file = self.folder.open(&path, self.file_type, &self.fields).await?;
            rows.check(file.rows()).map_err(|reason| Error::Data { file: file.name(), reason })?;
            Ok::<_, Error>(Box::new(file))
        };
        // A file written moments ago is not kept open: its columns would never be cached.
        if !self.folder.is_settled(&path).await? {
            return Ok(open.await?.get(columns).await?);
        }

        let outside =
            || Error::OutOfRange { of: "chunk files".to_owned(), index: number as i64, count: MAX_SLOTS };
        let opened = self.files.get_or_try_make(number, open).await.ok_or_else(outside)?;
        Ok(opened?.get(columns).await?)
    }
}

/// Expected number of rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedRowCount {
    Exactly(u64),
    /// From the first number to the second, inclusive.
    Between(u64, u64),
}

impl ExpectedRowCount {
    fn check(self, rows: usize) -> Result<(), String> {
        let rows = rows as u64;
        match self {
            Self::Exactly(wanted) if rows != wanted => Err(format!("{rows} rows, not {wanted}")),
            Self::Between(min, max) if rows < min || rows > max => {
                Err(format!("{rows} rows, not {min} to {max}"))
            }
            Self::Exactly(_) | Self::Between(..) => Ok(()),
        }
    }
}
