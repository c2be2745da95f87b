//! Conversion of the errors of the Rust crates to the exceptions of `stylobate.errors`.

use std::fmt;

use arrow::error::ArrowError;
use pyo3::{PyTypeInfo, exceptions::PyRuntimeError, prelude::*, types::PyType};
use stylobate_columnar as columnar;
use stylobate_datafusion::Error as SqlError;
use stylobate_datagen as datagen;
use stylobate_graph as graph;
use stylobate_server::ServerError;
use stylobate_storage as storage;

/// The exception classes of `stylobate.errors`.
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
    Query,
    OutOfMemory,
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
            Self::Query => "QueryError",
            Self::OutOfMemory => "OutOfMemoryError",
        }
    }

    /// Creates an exception of this class.
    pub(crate) fn error(self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        let class = py.import("stylobate.errors").and_then(|errors| errors.getattr(self.name()));
        match class.and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from)) {
            Ok(class) => PyErr::from_type(class, (message.into(),)),
            // The interpreter is shutting down.
            Err(_) => PyErr::from_type(PyRuntimeError::type_object(py), (message.into(),)),
        }
    }
}

/// An error that is not a Python exception yet, because it may occur without the GIL.
#[derive(Debug)]
pub(crate) struct UnraisedError {
    class: ErrorClass,
    message: String,
    /// The exception that user code raised; it is raised again unchanged.
    python: Option<PyErr>,
}

impl UnraisedError {
    /// Creates an error; credentials in URLs of the message are redacted.
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: storage::redacted(&message.into()).into_owned(), python: None }
    }

    /// Wraps an exception that user code raised.
    pub(crate) fn of_python(error: PyErr) -> Self {
        Self { class: ErrorClass::Stylobate, message: error.to_string(), python: Some(error) }
    }

    /// Converts to the exception.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self.python {
            Some(error) => error,
            None => self.class.error(py, self.message),
        }
    }

    /// Converts to the error of an Arrow stream, whose text must not contain NUL. Consumers raise I/O errors as
    /// OSError, and all others as their error for invalid data.
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

/// Conversion of results of the Rust crates to results of Python.
pub(crate) trait ResultExt<T> {
    /// Converts the error to its exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<UnraisedError>> ResultExt<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().raised(py))
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
            // The extension says Parquet or ORC: the file was truncated or overwritten.
            Error::Format { object } if has_columns_by_name(object) => ErrorClass::CorruptFile,
            Error::Format { .. }
            | Error::Encrypted { .. }
            | Error::Unsupported { .. }
            | Error::BatchTooLong { .. }
            | Error::Unwritable { .. } => ErrorClass::Unsupported,
            Error::Corrupt { .. } => ErrorClass::CorruptFile,
            Error::Text { .. } => ErrorClass::InvalidData,
            Error::NoSuchColumn { .. } => ErrorClass::ColumnNotFound,
            Error::Schema { .. } => ErrorClass::Schema,
            Error::Predicate { .. } => ErrorClass::Filter,
            Error::Arrow { .. } | Error::Ended { .. } => ErrorClass::Stylobate,
            _ => ErrorClass::Stylobate,
        };

        let message = match &error {
            Error::Format { object } if !has_columns_by_name(object) => {
                format!("{error}: scan_csv, scan_json and scan_ipc read other files")
            }
            error => error.to_string(),
        };

        Self::new(class, message)
    }
}

impl From<storage::Error> for UnraisedError {
    fn from(error: storage::Error) -> Self {
        Self::new(class_of(&error), error.to_string())
    }
}

impl From<SqlError> for UnraisedError {
    fn from(error: SqlError) -> Self {
        let class = match &error {
            SqlError::Scan(error) => return error.clone().into(),
            SqlError::Query { .. } | SqlError::Value { .. } => ErrorClass::Query,
            SqlError::NoSuchTable { .. } => ErrorClass::NotFound,
            SqlError::Memory { .. } => ErrorClass::OutOfMemory,
            SqlError::Spill { .. } => ErrorClass::Config,
            _ => ErrorClass::Stylobate,
        };

        Self::new(class, error.to_string())
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
