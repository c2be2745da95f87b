//! Errors of corrupt bytes: raised by decoders, and located by callers that know the column and offset.

use std::sync::Arc;

use crate::Error;

/// Reason without its object and stripe.
#[derive(Debug)]
pub(super) struct OrcReadError {
    kind: OrcReadErrorKind,
    reason: String,
    column: Option<Arc<str>>,
    offset: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum OrcReadErrorKind {
    Corrupt,
    Unsupported,
}

impl OrcReadError {
    pub(super) fn corrupt(reason: impl Into<String>) -> Self {
        Self { kind: OrcReadErrorKind::Corrupt, reason: reason.into(), column: None, offset: None }
    }

    pub(super) fn unsupported(reason: impl Into<String>) -> Self {
        Self { kind: OrcReadErrorKind::Unsupported, reason: reason.into(), column: None, offset: None }
    }

    pub(super) fn encrypted() -> Self {
        Self::unsupported("the file is encrypted, and encrypted ORC files cannot be read")
    }

    /// Names the column, unless one of its fields has been named already.
    pub(super) fn of_column(mut self, column: &Arc<str>) -> Self {
        self.column.get_or_insert_with(|| column.clone());
        self
    }

    /// Prefixes the reason with the part of the file.
    pub(super) fn prefixed(mut self, part: &str) -> Self {
        self.reason.insert_str(0, ": ");
        self.reason.insert_str(0, part);
        self
    }

    /// Sets the offset of the bytes in the object, unless it is set already.
    pub(super) fn at(mut self, offset: Option<u64>) -> Self {
        self.offset = self.offset.or(offset);
        self
    }

    /// Returns the error, of a stripe or of the file's tail.
    pub(super) fn into_error(self, object: &str, stripe: Option<usize>) -> Error {
        let object = object.to_owned();
        let column = self.column.map(|column| column.to_string());
        match self.kind {
            OrcReadErrorKind::Corrupt => {
                Error::Corrupt { object, row_group: stripe, column, offset: self.offset, reason: self.reason }
            }
            OrcReadErrorKind::Unsupported => Error::Unsupported { object, column, reason: self.reason },
        }
    }
}
