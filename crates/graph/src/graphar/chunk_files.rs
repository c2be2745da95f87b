//! The chunk files of one folder: each opened once, and then found by its number.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::FieldRef};
use stylobate_columnar::{Columns, FileColumns};

use super::{
    info::FileType,
    place::Place,
    slots::{MOST, Slots},
};
use crate::{Error, Result};

/// Files with the same columns, numbered from 0.
pub(crate) struct ChunkFiles {
    place: Place,
    file_type: FileType,
    fields: Arc<[FieldRef]>,
    files: Slots<Box<FileColumns>>,
}

impl ChunkFiles {
    pub(crate) fn new(place: Place, file_type: FileType, fields: Arc<[FieldRef]>) -> Self {
        Self { place, file_type, fields, files: Slots::default() }
    }

    /// All rows of a column of a file, if the file is open and the column in the cache.
    #[inline]
    pub(crate) fn cached(&self, number: u64, column: usize) -> Option<ArrayRef> {
        self.files.get(number)?.cached(column)
    }

    /// The file of a number, which has so many rows.
    pub(crate) async fn open(
        &self,
        number: u64,
        path: impl FnOnce() -> String,
        rows: Rows,
    ) -> Result<&FileColumns> {
        if let Some(file) = self.files.get(number) {
            return Ok(file);
        }
        let open = async {
            let path = path();
            let file = self.place.open(&path, self.file_type, &self.fields).await?;
            rows.check(file.rows()).map_err(|reason| Error::Data { file: file.name(), reason })?;
            Ok(Box::new(file))
        };
        let opened = Box::pin(self.files.get_or_try_make(number, open)).await;
        let outside =
            || Error::OutOfRange { of: "chunk files".to_owned(), index: number as i64, count: MOST };
        opened.ok_or_else(outside)?.map(|file| &**file)
    }

    /// All rows of some columns of a file.
    pub(crate) async fn get(
        &self,
        number: u64,
        path: impl FnOnce() -> String,
        rows: Rows,
        columns: &[usize],
    ) -> Result<Columns> {
        Ok(self.open(number, path, rows).await?.get(columns).await?)
    }
}

/// How many rows a file must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Exactly(u64),
    /// From the first number on, up to the second.
    Between(u64, u64),
}

impl Rows {
    fn check(self, rows: usize) -> Result<(), String> {
        let rows = rows as u64;
        match self {
            Self::Exactly(wanted) if rows != wanted => Err(format!("{rows} rows, not {wanted}")),
            Self::Between(least, most) if rows < least || rows > most => {
                Err(format!("{rows} rows, not {least} to {most}"))
            }
            Self::Exactly(_) | Self::Between(..) => Ok(()),
        }
    }
}
