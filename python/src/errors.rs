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
pub(crate) enum Class {
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

impl Class {
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
pub(crate) struct Failure {
    class: Class,
    message: String,
    /// What code of the user raised, which is raised again as it is.
    python: Option<PyErr>,
}

impl Failure {
    /// A failure whose message names URLs without their credentials.
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: storage::redacted(&message.into()).into_owned(), python: None }
    }

    /// What code of the user raised.
    pub(crate) fn of_python(error: PyErr) -> Self {
        Self { class: Class::Stylobate, message: error.to_string(), python: Some(error) }
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
            Class::NotFound | Class::ObjectChanged | Class::Storage => {
                ArrowError::IoError(message.clone(), std::io::Error::other(message))
            }
            _ => ArrowError::ExternalError(message.into()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<columnar::Error> for Failure {
    fn from(error: columnar::Error) -> Self {
        use columnar::Error;
        let class = match &error {
            Error::Storage(error) => class_of(error),
            Error::NoFiles { .. } => Class::NotFound,
            Error::Pattern { .. } | Error::Option { .. } | Error::Decryption { .. } => Class::Config,
            // By its name it should have been one: it was cut off, or something else was written to it.
            Error::Format { object } if has_columns_by_name(object) => Class::CorruptFile,
            Error::Format { .. }
            | Error::Encrypted { .. }
            | Error::Unsupported { .. }
            | Error::Unwritable { .. } => Class::Unsupported,
            Error::Corrupt { .. } => Class::CorruptFile,
            Error::Text { .. } => Class::InvalidData,
            Error::NoSuchColumn { .. } => Class::ColumnNotFound,
            Error::Schema { .. } => Class::Schema,
            Error::Predicate { .. } => Class::Filter,
            Error::Arrow { .. } | Error::Ended { .. } => Class::Stylobate,
            _ => Class::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

impl From<storage::Error> for Failure {
    fn from(error: storage::Error) -> Self {
        Self::new(class_of(&error), error.to_string())
    }
}

impl From<datagen::Error> for Failure {
    fn from(error: datagen::Error) -> Self {
        use datagen::Error;
        let class = match &error {
            Error::Storage(error) => class_of(error),
            Error::Columnar(error) => return error.clone().into(),
            Error::Occupied { .. } => Class::AlreadyExists,
            Error::Scale { .. } | Error::Part { .. } | Error::NoSuchTable { .. } | Error::Output { .. } => {
                Class::Config
            }
            Error::Manifest { .. } | Error::Unreadable { .. } => Class::CorruptFile,
            _ => Class::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

impl From<graph::Error> for Failure {
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
            | Error::NoSuchVertex { .. } => Class::NotFound,
            Error::StoreExists { .. } => Class::AlreadyExists,
            Error::Conflict { .. } => Class::Conflict,
            Error::Fenced { .. } => Class::Fenced,
            Error::Schema { .. } => Class::Schema,
            Error::Row { .. } | Error::Column { .. } => Class::InvalidData,
            Error::NoSuchProperty { .. } => Class::ColumnNotFound,
            Error::Info { .. } | Error::Data { .. } => Class::CorruptFile,
            Error::Unwritable { .. } => Class::Unsupported,
            Error::OutOfRange { .. } => Class::Config,
            _ => Class::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let class = match &error {
            ServerError::Config { .. }
            | ServerError::NothingToServe { .. }
            | ServerError::Exposed { .. }
            | ServerError::PortInUse { .. }
            | ServerError::Bind { .. }
            | ServerError::OwnDoor { .. } => Class::Config,
            ServerError::OriginUnreachable { .. } => Class::Storage,
            ServerError::Cache { source } | ServerError::Storage { source } => class_of(source),
            _ => Class::Stylobate,
        };
        Self::new(class, error.to_string())
    }
}

fn class_of(error: &storage::Error) -> Class {
    use storage::Error;
    match error {
        Error::NotFound { .. } | Error::NoSuchUpload { .. } => Class::NotFound,
        Error::Exists { .. } => Class::AlreadyExists,
        Error::Changed { .. } => Class::ObjectChanged,
        Error::OriginConfig { .. }
        | Error::CacheLocked { .. }
        | Error::CacheFolder { .. }
        | Error::Cache { .. } => Class::Config,
        Error::Precondition { .. }
        | Error::NotModified { .. }
        | Error::Range { .. }
        | Error::Truncated { .. }
        | Error::Deadline { .. }
        | Error::ImpossiblePath { .. }
        | Error::Origin { .. }
        | Error::Write { .. }
        | Error::Unsynced { .. }
        | Error::InvalidUpload { .. } => Class::Storage,
        _ => Class::Storage,
    }
}

fn has_columns_by_name(object: &str) -> bool {
    let name = object.to_ascii_lowercase();
    [".parquet", ".orc"].iter().any(|extension| name.ends_with(extension))
}
