"""The exceptions of this package: a tree below `StylobateError`, with Python's own classes beside it."""

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
    """Any error of this package.

    >>> import stylobate as st
    >>> try:
    ...     st.scan("no/such/*.parquet")
    ... except st.StylobateError as error:
    ...     type(error).__name__
    'NotFoundError'
    """


class NotFoundError(StylobateError, FileNotFoundError):
    """No file or object is where it was looked for. Correct the path or the pattern."""


class AlreadyExistsError(StylobateError, FileExistsError):
    """A file or object is there that was not to be replaced. Give another name, or allow it."""


class CorruptFileError(StylobateError):
    """The bytes of a file are not what its format says they are. Write it again from its source."""


class UnsupportedError(StylobateError):
    """A file that is right uses something that cannot be read, such as encryption; or data has a type or a value
    that cannot be written."""


class SchemaError(StylobateError):
    """Files that are scanned together have types that do not go together: scan them apart. Or the types of a graph store
    cannot be as they were given."""


class FilterError(StylobateError, ValueError):
    """A filter cannot be understood, or does not fit the columns. Correct it."""


class ColumnNotFoundError(StylobateError, KeyError):
    """No file has such a column. The message names those that there are."""

    def __str__(self) -> str:
        # A KeyError shows its message in quotes.
        return str(self.args[0]) if self.args else ""


class ObjectChangedError(StylobateError):
    """An object was replaced while it was read. Read it again: both versions are never mixed."""


class StorageError(StylobateError, OSError):
    """Bytes could not be had or written: the store refused, failed or did not answer in time."""


class ConfigError(StylobateError, ValueError):
    """An option, a URL or a configuration file cannot be used. The message says what to write instead."""


class InvalidDataError(StylobateError, ValueError):
    """Rows cannot be taken as they were given, and none of them were. The message names type, column and row; of a CSV or
    JSON file, the line."""


class QueryError(StylobateError, ValueError):
    """SQL cannot be understood, names what is not there, has types that do not fit, or computes a value that there is not,
    such as a division by zero. Correct it."""


class OutOfMemoryError(StylobateError, MemoryError):
    """A query needs more memory than its cache has, and cannot store more on disk. Give it a larger cache, or read fewer
    columns or rows."""


class ConflictError(StylobateError):
    """Somebody else committed to the graph store first. Nothing of this commit is visible: refresh, and commit again."""


class WriterFencedError(ConflictError):
    """A later writer of the graph store took over. Nothing of this commit is visible: ask for a writer anew."""


for _name in __all__:
    globals()[_name].__module__ = "stylobate"
