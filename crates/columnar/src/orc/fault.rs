//! Errors of corrupt bytes: raised by decoders, and located by callers that know the column and offset.

use std::{borrow::Cow, sync::Arc};

use stylobate_storage::Corrupt;

use crate::Error;

/// Corrupt bytes, or bytes of a feature that cannot be read, without their object and stripe.
#[derive(Debug)]
pub(super) struct OrcReadError {
    kind: OrcReadErrorKind,
    corrupt: Corrupt,
    column: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug)]
enum OrcReadErrorKind {
    Corrupt,
    Unsupported,
    BatchTooLong,
}

impl OrcReadError {
    pub(super) fn corrupt(corrupt: impl Into<Corrupt>) -> Self {
        Self { kind: OrcReadErrorKind::Corrupt, corrupt: corrupt.into(), column: None }
    }

    pub(super) fn unsupported(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: OrcReadErrorKind::Unsupported, corrupt: Corrupt::new(reason), column: None }
    }

    pub(super) fn batch_too_long() -> Self {
        let reason = "the values of one batch are longer than 2 GiB, or more than 2 billion in lists";
        Self { kind: OrcReadErrorKind::BatchTooLong, corrupt: Corrupt::new(reason), column: None }
    }

    pub(super) fn encrypted() -> Self {
        Self::unsupported("the file is encrypted, and encrypted ORC files cannot be read")
    }

    /// Names the column, unless one of its fields was named already.
    pub(super) fn of_column(mut self, column: &Arc<str>) -> Self {
        self.column.get_or_insert_with(|| column.clone());
        self
    }

    /// Prefixes the reason with the part of the file.
    pub(super) fn prefixed(mut self, part: &str) -> Self {
        self.corrupt.reason = format!("{part}: {}", self.corrupt.reason).into();
        self
    }

    /// Sets the offset of the bytes in the object, unless it is set already.
    pub(super) fn at(mut self, offset: Option<u64>) -> Self {
        self.corrupt.offset = self.corrupt.offset.or(offset);
        self
    }

    /// Returns the error, of a stripe or of the file's tail.
    pub(super) fn into_error(self, object: &str, stripe: Option<usize>) -> Error {
        let object = object.to_owned();
        let column = self.column.map(|column| column.to_string());
        let Corrupt { offset, reason } = self.corrupt;
        let reason = reason.into_owned();
        match self.kind {
            OrcReadErrorKind::Corrupt => Error::Corrupt { object, row_group: stripe, column, offset, reason },
            OrcReadErrorKind::Unsupported => Error::Unsupported { object, column, reason },
            OrcReadErrorKind::BatchTooLong => Error::BatchTooLong { object, column, reason },
        }
    }
}

impl From<Corrupt> for OrcReadError {
    fn from(corrupt: Corrupt) -> Self {
        Self::corrupt(corrupt)
    }
}
