"""The exceptions of this package: subclasses of `StylobateError`, and of the matching built-in exceptions."""

__all__ = [
    "AlreadyExistsError",
    "ColumnNotFoundError",
    "ConfigError",
    "ConflictError",
    "CorruptFileError",
    "FilterError",
    "InvalidDataError",
    "NotFoundError",
    "ObjectChangedError",
    "OutOfMemoryError",
    "QueryError",
    "SchemaError",
    "StorageError",
    "StylobateError",
    "UnsupportedError",
    "WriterFencedError",
]


class StylobateError(Exception):
    """Base class of all errors of this package.

    >>> import stylobate as st
    >>> try:
    ...     st.scan("no/such/*.parquet")
    ... except st.StylobateError as error:
    ...     type(error).__name__
    'NotFoundError'
    """


class NotFoundError(StylobateError, FileNotFoundError):
    """A file or object does not exist. Correct the path or the pattern."""


class AlreadyExistsError(StylobateError, FileExistsError):
    """A file or object already exists and must not be replaced. Use another name, or allow overwriting."""


class CorruptFileError(StylobateError):
    """The contents of a file violate its format. Write the file again from its source."""


class UnsupportedError(StylobateError):
    """A valid file uses an unsupported feature, such as encryption; or a type or value of the data cannot be written.
    """


class SchemaError(StylobateError):
    """Files that are scanned together have incompatible types, or the schema of a graph store is invalid.

    Scan incompatible files separately.
    """


class FilterError(StylobateError, ValueError):
    """A filter cannot be parsed, or does not match the types of the columns. Correct it."""


class ColumnNotFoundError(StylobateError, KeyError):
    """No file has the column. The message lists the existing ones."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0]) if self.args else ""


class ObjectChangedError(StylobateError):
    """An object was replaced while it was read. Read it again: versions are never mixed."""


class StorageError(StylobateError, OSError):
    """A read or a write failed: the store refused the request, failed or timed out."""


class ConfigError(StylobateError, ValueError):
    """An option, a URL or a configuration file is invalid. The message says what to write instead."""


class InvalidDataError(StylobateError, ValueError):
    """Rows are invalid, and none were accepted. The message names type, column and row; for CSV and JSON, the line."""


class QueryError(StylobateError, ValueError):
    """A SQL query is invalid, or a computation in it fails.

    It has a syntax error, an unknown name, incompatible types, or a value that cannot be computed, such as a division
    by zero. Correct it.
    """


class OutOfMemoryError(StylobateError, MemoryError):
    """A query needs more memory than its cache has, and cannot spill more to disk.

    Use a larger cache, or read fewer columns or rows.
    """


class ConflictError(StylobateError):
    """Another process committed to the graph store first. Nothing of this commit is visible: refresh, and commit again.
    """


class WriterFencedError(ConflictError):
    """A later writer of the graph store took over. Nothing of this commit is visible: request a new writer."""


for _name in __all__:
    globals()[_name].__module__ = "stylobate"
