//! Errors of the crates below as the exceptions of `stylobate.errors`.

use std::fmt;

use arrow::error::ArrowError;
use pyo3::{PyTypeInfo, exceptions::PyRuntimeError, prelude::*, types::PyType};
use stylobate_columnar as columnar;
use stylobate_datagen as datagen;
use stylobate_graph as graph;
use stylobate_server::ServerError;
use stylobate_storage as storage;

/// The classes of `stylobate.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    Stylobate,
    NotFound,
    AlreadyExists,
    CorruptFile,
    Unsupported,
    Schema,
    Filter,
    ColumnNotFound,
    ObjectChanged,
    Storage,
    Config,
    Conflict,
    Fenced,
    InvalidData,
}

impl ErrorClass {
    fn name(self) -> &'static str {
        match self {
            Self::Stylobate => "StylobateError",
            Self::NotFound => "NotFoundError",
            Self::AlreadyExists => "AlreadyExistsError",
            Self::CorruptFile => "CorruptFileError",
            Self::Unsupported => "UnsupportedError",
            Self::Schema => "SchemaError",
            Self::Filter => "FilterError",
            Self::ColumnNotFound => "ColumnNotFoundError",
            Self::ObjectChanged => "ObjectChangedError",
            Self::Storage => "StorageError",
            Self::Config => "ConfigError",
            Self::Conflict => "ConflictError",
            Self::Fenced => "WriterFencedError",
            Self::InvalidData => "InvalidDataError",
        }
    }

    /// An exception of this class.
    pub(crate) fn error(self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        let class = py.import("stylobate.errors").and_then(|errors| errors.getattr(self.name()));
        match class.and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from)) {
            Ok(class) => PyErr::from_type(class, (message.into(),)),
            // The package is being torn down with the interpreter.
            Err(_) => PyErr::from_type(PyRuntimeError::type_object(py), (message.into(),)),
        }
    }
}

/// An error that is not Python's yet: it may have come up where the interpreter's lock is not held.
#[derive(Debug)]
pub(crate) struct UnraisedError {
    class: ErrorClass,
    message: String,
    /// What code of the user raised, which is raised again as it is.
    python: Option<PyErr>,
}

impl UnraisedError {
    /// A failure whose message names URLs without their credentials.
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: storage::redacted(&message.into()).into_owned(), python: None }
    }

    /// What code of the user raised.
    pub(crate) fn of_python(error: PyErr) -> Self {
        Self { class: ErrorClass::Stylobate, message: error.to_string(), python: Some(error) }
    }

    /// The exception.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self.python {
            Some(error) => error,
            None => self.class.error(py, self.message),
        }
    }

    /// The error of an Arrow stream, whose text may hold no zero byte. Consumers make an OSError of what is
    /// about bytes, and of all else their own error for what is invalid.
    pub(crate) fn of_stream(&self) -> ArrowError {
        let message = self.message.replace('\0', "\u{fffd}");
        match self.class {
            ErrorClass::NotFound | ErrorClass::ObjectChanged | ErrorClass::Storage => {
                ArrowError::IoError(message.clone(), std::io::Error::other(message))
            }
            _ => ArrowError::ExternalError(message.into()),
        }
    }
}

impl fmt::Display for UnraisedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<columnar::Error> for UnraisedError {
    fn from(error: columnar::Error) -> Self {
        use columnar::Error;
        let class = match &error {
            Error::Storage(error) => class_of(error),
            Error::NoFiles { .. } => ErrorClass::NotFound,
            Error::Pattern { .. } | Error::Option { .. } | Error::Decryption { .. } => ErrorClass::Config,
            // By its name it should have been one: it was cut off, or something else was written to it.
            Error::Format { object } if has_columns_by_name(object) => ErrorClass::CorruptFile,
            Error::Format { .. }
            | Error::Encrypted { .. }
            | Error::Unsupported { .. }
            | Error::Unwritable { .. } => ErrorClass::Unsupported,
            Error::Corrupt { .. } => ErrorClass::CorruptFile,
            Error::Text { .. } => ErrorClass::InvalidData,
            Error::NoSuchColumn { .. } => ErrorClass::ColumnNotFound,
            Error::Schema { .. } => ErrorClass::Schema,
            Error::Predicate { .. } => ErrorClass::Filter,
            Error::Arrow { .. } | Error::Ended { .. } => ErrorClass::Stylobate,
            _ => ErrorClass::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

impl From<storage::Error> for UnraisedError {
    fn from(error: storage::Error) -> Self {
        Self::new(class_of(&error), error.to_string())
    }
}

impl From<datagen::Error> for UnraisedError {
    fn from(error: datagen::Error) -> Self {
        use datagen::Error;
        let class = match &error {
            Error::Storage(error) => class_of(error),
            Error::Columnar(error) => return error.clone().into(),
            Error::Occupied { .. } => ErrorClass::AlreadyExists,
            Error::Scale { .. } | Error::Part { .. } | Error::NoSuchTable { .. } | Error::Output { .. } => {
                ErrorClass::Config
            }
            Error::Manifest { .. } | Error::Unreadable { .. } => ErrorClass::CorruptFile,
            _ => ErrorClass::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

impl From<graph::Error> for UnraisedError {
    fn from(error: graph::Error) -> Self {
        use graph::Error;
        let class = match &error {
            Error::Storage(error) => class_of(error),
            Error::Columnar(error) => return error.clone().into(),
            Error::Missing { .. }
            | Error::NoGraphFile { .. }
            | Error::NoSuchVertexType { .. }
            | Error::NoSuchEdgeType { .. }
            | Error::NoSuchAdjacency { .. }
            | Error::NoSuchLabel { .. }
            | Error::NoSuchStore { .. }
            | Error::NoSuchVertex { .. } => ErrorClass::NotFound,
            Error::StoreExists { .. } => ErrorClass::AlreadyExists,
            Error::Conflict { .. } => ErrorClass::Conflict,
            Error::Fenced { .. } => ErrorClass::Fenced,
            Error::Schema { .. } => ErrorClass::Schema,
            Error::Row { .. } | Error::Column { .. } => ErrorClass::InvalidData,
            Error::NoSuchProperty { .. } => ErrorClass::ColumnNotFound,
            Error::Info { .. } | Error::Data { .. } => ErrorClass::CorruptFile,
            Error::Unwritable { .. } => ErrorClass::Unsupported,
            Error::OutOfRange { .. } => ErrorClass::Config,
            _ => ErrorClass::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

impl From<ServerError> for UnraisedError {
    fn from(error: ServerError) -> Self {
        let class = match &error {
            ServerError::Config { .. }
            | ServerError::NothingToServe { .. }
            | ServerError::Exposed { .. }
            | ServerError::PortInUse { .. }
            | ServerError::Bind { .. }
            | ServerError::OwnDoor { .. } => ErrorClass::Config,
            ServerError::OriginUnreachable { .. } => ErrorClass::Storage,
            ServerError::Cache { source } | ServerError::Storage { source } => class_of(source),
            _ => ErrorClass::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

fn class_of(error: &storage::Error) -> ErrorClass {
    use storage::Error;
    match error {
        Error::NotFound { .. } | Error::NoSuchUpload { .. } => ErrorClass::NotFound,
        Error::Exists { .. } => ErrorClass::AlreadyExists,
        Error::Changed { .. } => ErrorClass::ObjectChanged,
        Error::OriginConfig { .. }
        | Error::CacheLocked { .. }
        | Error::CacheFolder { .. }
        | Error::Cache { .. } => ErrorClass::Config,
        Error::Precondition { .. }
        | Error::NotModified { .. }
        | Error::Range { .. }
        | Error::Truncated { .. }
        | Error::Deadline { .. }
        | Error::ImpossiblePath { .. }
        | Error::Origin { .. }
        | Error::Write { .. }
        | Error::Unsynced { .. }
        | Error::InvalidUpload { .. } => ErrorClass::Storage,
        _ => ErrorClass::Storage,
    }
}

fn has_columns_by_name(object: &str) -> bool {
    let name = object.to_ascii_lowercase();
    [".parquet", ".orc"].iter().any(|extension| name.ends_with(extension))
}
