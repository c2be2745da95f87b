"""`scan` and its result: a `Scan`, which runs again on each read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeAlias

from stylobate import _html, rows
from stylobate import _optional as optional
from stylobate._stylobate import Cache, Column, LocalScan, RecordBatch, sequential_format
from stylobate.errors import ColumnNotFoundError, ConfigError, UnsupportedError
from stylobate.filters import Filter, Filters, both, from_tuples

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import pyarrow.dataset

__all__ = ["Scan", "col", "scan"]

Path: TypeAlias = "str | os.PathLike[str]"
Data: TypeAlias = "bytes | bytearray | memoryview | BinaryIO"
Dictionary: TypeAlias = "Literal['auto', 'stored'] | bool | Sequence[str] | None"
Partitioning: TypeAlias = (
    "Literal['hive'] | Mapping[str, Any] | pyarrow.Schema | pyarrow.dataset.HivePartitioning | None"
)

NAMED = 30
"""Maximum number of names that an error lists."""

MAX_WHOLE = 2**63 - 1
"""Maximum value of an option that is a whole number."""

ARROW_MAGIC = b"ARROW1"
"""First bytes of an Arrow IPC file."""


class Source(rows.Source, Protocol):
    """Source of a scan's rows: this process, or a node."""

    def count(self) -> int: ...


class Scan(rows.Rows):
    """A lazy scan of files. Created by `scan`, and run again by each of its methods.

    A scan is immutable: `select`, `filter`, `limit` and `head` return a new one. It can be pickled, with its arguments
    but without its cache: an unpickled scan reads through the default cache of its process.

    Every consumer of Arrow streams (`__arrow_c_stream__`) accepts a scan, and pulls batches on demand:

    >>> import duckdb, pyarrow, stylobate as st
    >>> trips = st.scan("trips.parquet")
    >>> pyarrow.RecordBatchReader.from_stream(trips).read_all().num_rows
    5
    >>> duckdb.sql("SELECT city, count(*) AS trips FROM trips GROUP BY city ORDER BY city").fetchall()
    [('Bergen', 2), ('Oslo', 3)]
    >>> trips.filter(st.col("fare") > 10).select("fare").head(2).to_arrow()["fare"].to_pylist()
    [12.0, 30.0]
    """

    def __init__(self, source: Source, opener: Callable[..., Scan], arguments: dict[str, Any], paths: str) -> None:
        self._source: Source = source
        # Function that opens the scan again.
        self._opener = opener
        # Arguments of the opener, with paths that do not depend on the working directory.
        self._arguments = arguments
        # The paths as given, for the `repr`.
        self._paths = paths

    @property
    def columns(self) -> list[str]:
        """The names of the output columns.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", columns=["fare"]).columns
        ['fare']
        """
        return list(self._source.schema.names)

    def select(self, *columns: str | Column | Sequence[str | Column]) -> Scan:
        """Returns a scan with only these columns, in this order: names, or one list of names. Filters are kept.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").select("fare", "city").columns
        ['fare', 'city']
        """
        is_list = len(columns) == 1 and not isinstance(columns[0], (str, Column))
        wanted: Any = columns[0] if is_list else columns
        return self._with(columns=self._narrowed(column_names(list(wanted))))

    def filter(self, filter: Filter) -> Scan:
        """Returns a scan whose rows also match this filter. It may use any column of the files, selected or not.

        >>> import stylobate as st
        >>> cheap = st.scan("trips.parquet").filter(st.col("fare") < 10)
        >>> cheap.filter("city = 'Oslo'").count()
        2
        """
        if self._arguments["limit"] is not None:
            raise ConfigError("filter: filter before limit, which keeps the first rows that pass")
        return self._with(filter=both(self._arguments["filter"], filter))

    def limit(self, limit: int) -> Scan:
        """Returns a scan of at most this many rows, from the start. The smallest of several limits applies."""
        limit = whole("limit", limit, 0)
        present = self._arguments["limit"]
        return self._with(limit=limit if present is None else min(present, limit))

    def head(self, n: int = 5) -> Scan:
        """Returns a scan of the first `n` rows. Default: 5.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").head(2).to_arrow().num_rows
        2
        """
        return self.limit(whole("n", n, 0))

    def count(self) -> int:
        """Counts the rows, like `len`.

        For Parquet and ORC files, reads only the footers without a filter, and only the filter's columns with one.
        Other files are read completely.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", filter="city = 'Oslo'").count()
        3
        """
        return self._source.count()

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Reads all rows as a pandas data frame; dictionaries become categoricals.

        The index of a data frame that pandas wrote is restored, also if its columns are not selected. Options are those
        of `pyarrow.Table.to_pandas`.

        >>> import stylobate as st
        >>> float(st.scan("trips.parquet").to_pandas()["fare"].sum())
        73.0
        """
        missing = [] if options.get("ignore_metadata") else self._missing_index_columns()
        if not missing:
            return super().to_pandas(**options)

        try:
            with_index = self._with(columns=[*self._arguments["columns"], *missing])
        except ColumnNotFoundError:
            # The metadata names columns that the files do not have.
            return super().to_pandas(**options)
        return rows.Rows.to_pandas(with_index, **options)

    def to_polars(self) -> polars.DataFrame:
        """Reads all rows as a Polars data frame; dictionaries become categoricals, and JSON becomes strings.

        Strings and bytes of Parquet and ORC files are read as views, the representation that Polars uses.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").to_polars().shape
        (5, 3)
        """
        if isinstance(self._source, LocalScan) and self._arguments["strings"] is None:
            return self._with(strings="view").to_polars()
        return super().to_polars()

    def __datafusion_table_provider__(self, session: Any = None) -> object:
        """Exports the scan as a table of the package `datafusion`, whose major version must match this package's build.

        As in `datafusion.SessionContext().register_table("trips", scan)`. Projections and filters of queries are pushed
        down.
        """
        from stylobate._datafusion import table_provider

        return table_provider(self._source, session)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        # Without this, Python would call `__len__`, which counts the rows.
        return True

    def __iter__(self) -> Iterator[pyarrow.RecordBatch | RecordBatch]:
        return self.batches()

    def __repr__(self) -> str:
        shown = {name: self._arguments.get(name) for name in ("columns", "filter", "limit", "node")}
        given = "".join(f", {name}={value!r}" for name, value in shown.items() if value is not None)
        return re.sub(r"://[^/@\s]*@", "://", f"Scan({self._paths}{given})")

    def _repr_html_(self) -> str:
        return _html.scan_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self._opener, {**self._arguments, "cache": None}, self._paths)

    def __copy__(self) -> Scan:
        return self

    def __deepcopy__(self, memo: object) -> Scan:
        return self

    def _with(self, **changes: Any) -> Scan:
        return reopened(self._opener, {**self._arguments, **changes}, self._paths)

    def _missing_index_columns(self) -> list[str]:
        """Returns the index columns that the metadata of pandas names and that are not selected."""
        if self._arguments["columns"] is None:
            return []

        optional.pandas("to_pandas")
        metadata = optional.pyarrow("to_pandas").schema(self._source.schema).metadata or {}
        try:
            index = json.loads(metadata.get(b"pandas", b"{}")).get("index_columns", [])
        except (ValueError, AttributeError):
            return []
        # A range index is described by a dictionary, and has no column.
        return [name for name in index if isinstance(name, str) and name not in self.columns]

    def _with_categories(self, table: pyarrow.Table) -> pyarrow.Table:
        # Without rows there are no batches, and so no dictionaries: those of the first row group are read.
        if table.num_rows or self._arguments.get("dictionary") is not None:
            return table

        is_dictionary = optional.pyarrow("to_pandas").types.is_dictionary
        coded = [field.name for field in table.schema if is_dictionary(field.type)]
        if not coded or len(set(table.column_names)) < len(table.column_names):
            return table
        return rows.with_dictionaries(table, self._with(columns=coded, filter=None, limit=1).to_arrow())

    def _narrowed(self, names: list[str]) -> list[str]:
        """Restricts the output columns to these; a struct is replaced by its fields that are still selected."""
        present: list[str] = self._arguments["columns"] or self.columns
        narrowed: list[str] = []
        for name in names:
            fields = [column for column in present if column.startswith(f"{name}.")]
            if any(f"{name}.".startswith(f"{column}.") for column in present):
                narrowed.append(name)
            elif fields:
                narrowed.extend(fields)
            else:
                more = f" and {len(present) - NAMED} more" if len(present) > NAMED else ""
                raise ColumnNotFoundError(f"no column {name}; available: {', '.join(present[:NAMED])}{more}")
        return narrowed


def reopened(opener: Callable[..., Scan], arguments: dict[str, Any], paths: str) -> Scan:
    """Opens a scan with these arguments, shown with the paths of another one."""
    made = opener(**arguments)
    made._paths = paths
    return made


def col(name: str) -> Column:
    """Returns a column, to build filters from. Dots reach into structs.

    Compare it with numbers, strings, bytes, bools, dates, times, decimals or another column. Combine comparisons with
    `&` (and), `|` (or) and `~` (not), each in parentheses.

    >>> import stylobate as st
    >>> (st.col("fare") < 24) & st.col("city").is_in(["Oslo", "Bergen"])
    fare < 24 AND city IN ('Oslo', 'Bergen')
    """
    return Column(name)


def scan(
    paths: Path | Data | Sequence[Path | Data],
    *,
    columns: Sequence[str | Column] | None = None,
    filter: Filter | None = None,
    filters: Filters | None = None,
    dictionary: Dictionary = None,
    strings: Literal["view"] | None = None,
    schema: Any = None,
    casts: Mapping[str, Any] | None = None,
    union_by_name: bool = True,
    partitioning: Partitioning = "hive",
    filename: bool | str = False,
    file_row_number: bool | str = False,
    glob: bool = True,
    limit: int | None = None,
    batch_rows: int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    decryption: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    node: str | Sequence[str] | None = None,
    token: str | None = None,
) -> Scan:
    """Scans Parquet and ORC files: local paths or URLs, folders, or patterns with `*`, `?`, `[…]` and `**`.

    Paths with the extensions of CSV, JSON or Arrow IPC files are scanned by `scan_csv`, `scan_json` or `scan_ipc`,
    which do not take `dictionary`, `strings` and `decryption`; Arrow IPC files are also recognized by
    their first bytes if they are local or given as bytes. URLs are `s3://`, `gs://`, `az://`, `http(s)://` and
    `file://`. Hive partition folders, `name=value`, become columns, which are numbers, dates or times if all values
    are, and take precedence over columns of the files.

    Columns of several files are matched by name, and converted to a common type. A value that does not fit that type is
    an error. Incompatible types are an error only if the column is read.

    Args:
        paths: File, folder or pattern, or a list of them, read in order. A file may also be given as its bytes, or as a
            file object, which is read into memory.
        columns: Names of the columns to return, in this order; a dot reaches into a struct. Default: all.
        filter: Filter of the rows: an expression on `col`, or a SQL `WHERE` condition. Default: all rows.
        filters: Filter in the form of pyarrow and pandas: `[("fare", "<", 24), ("city", "in", ["Oslo"])]` is joined by
            AND; a list of such lists is joined by OR. Nulls follow SQL: unlike in pyarrow, `not in` drops them.
        dictionary: Columns to return dictionary-encoded. `"auto"`: string columns with repeated values; `"stored"`:
            columns of any type that the files store only as dictionaries; True: all string and binary columns; False:
            none; or a list of names. Default: columns that were written from dictionaries or categoricals, so that
            every column has the type it was written with.
        strings: `"view"` returns strings and bytes other than dictionaries as views (`string_view`), which are faster
            to create and share the bytes of the file's dictionary. Those within lists, structs and maps are returned
            as `string` and `binary`.
        schema: Schema of the result, from pyarrow or as a dictionary of names and types. Columns that a file lacks are
            null, others are ignored, and values are cast as by `casts`. Default: the schema of the files.
        casts: Types of some columns, as pyarrow types or names: `{"fare": "decimal(10, 2)", "day": "date"}`. A value
            that does not fit the type is an error.
        union_by_name: Must be True: columns of several files are always matched by name.
        partitioning: `"hive"`: folders named `name=value` become columns of inferred types; a dictionary, a pyarrow
            schema or a pyarrow `HivePartitioning` sets some types, `{"day": "date"}`; None: folders do not become
            columns. Default: `"hive"`.
        filename: Adds a column `filename`, or one with the given name, with the path or URL of the file of each row.
            A column of the files must not have that name.
        file_row_number: Adds a column `file_row_number`, or one with the given name, with the position of the row in
            its file, from 0.
        glob: Whether `*`, `?` and `[…]` in paths are wildcards. A path that exists is never treated as a pattern.
            Default: True.
        limit: Maximum number of rows to return. Default: all.
        batch_rows: Maximum rows per batch, up to 65,536. Default: 8,192 when streamed.
        threads: Maximum number of threads that decode. Default: one per core.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`. Default: the usual
            environment variables.
        decryption: Keys of encrypted Parquet files:
            `{"footer_key": bytes, "column_keys": {"name": bytes}, "aad_prefix": bytes}`; the last two only if the files
            use them. Files that are not encrypted are read as usual. Decrypted data is never cached.
        cache: Cache of decoded columns. Default: `default_cache()`.
        node: Storage node that runs the scan instead of this process: the address of its Flight endpoint,
            `grpc://HOST:PORT`. `paths` is then a bucket name and a path in the bucket. With a list of nodes of a
            cluster, the first one that answers plans the scan, and each part is read from the node that caches it, or
            from another one if that fails. Requires pyarrow.
        token: Bearer token for a node with access keys.

    Raises:
        NotFoundError: No file was found.
        ColumnNotFoundError: A column of `columns` or `filter` is in no file.
        ConfigError: The keys of `decryption` do not decrypt a file, or another argument is invalid.
        UnsupportedError: A file is encrypted, and `decryption` was not given.
        FilterError: The filter cannot be parsed, or does not match the types of the columns.
        StylobateError: Any other error; see its subclasses.

    >>> import stylobate as st
    >>> st.scan("trips.parquet", filter="fare > 10", columns=["fare"]).to_arrow()["fare"].to_pylist()
    [12.0, 30.0, 14.5]
    """
    arguments = dict(locals())
    given, shown = listed(paths)
    if node is None:
        given = [located(path) for path in given]
        if (format := sequential_format_of(given)) is not None:
            return sequential_scan(format, {**arguments, "paths": given}, shown)
    elif any(map(is_data, given)):
        raise TypeError("paths: a node reads what is in its buckets, and no bytes from elsewhere")
    names = None if columns is None else column_names(columns)
    partition = partition_types(partitioning)
    table = table_options(schema, casts, union_by_name, partition, filename, file_row_number, glob)

    if filters is not None:
        if filter is not None:
            raise ConfigError("filters: give filter or filters, not both")
        filter = from_tuples(filters)
    limit = None if limit is None else whole("limit", limit, 0)
    batch_rows = None if batch_rows is None else whole("batch_rows", batch_rows, 1)
    threads = None if threads is None else whole("threads", threads, 1)
    arguments |= {"paths": given, "columns": names, "filter": filter, "filters": None}
    arguments |= {"limit": limit, "batch_rows": batch_rows, "threads": threads, "partitioning": partition}
    if not (node is None or isinstance(node, str)):
        arguments["node"] = node = list(node)

    source: Source
    if node is None:
        if token is not None:
            raise TypeError("token: it lets in to a node; give node as well")
        try:
            source = LocalScan(
                given,
                columns=names,
                filter=filter,
                dictionary=plain_dictionary(dictionary),
                strings=strings,
                limit=limit,
                batch_rows=batch_rows,
                threads=threads,
                storage_options=None if storage_options is None else dict(storage_options),
                decryption=None if decryption is None else keys_of(decryption),
                cache=cache,
                table=table,
            )
        except UnsupportedError:
            # Files without an extension are inspected only now, so that other scans do not pay for it.
            if not all(map(is_arrow_file, given)):
                raise
            return sequential_scan("ipc", arguments, shown)
    else:
        if decryption is not None:
            raise TypeError("decryption: keys are not sent to a node")
        local = {
            "threads": threads,
            "storage_options": storage_options,
            "cache": cache,
        }
        for name, value in local.items():
            if value is not None:
                raise TypeError(f"{name}: the node decides that")
        from stylobate.flight import FlightScan

        source = FlightScan(node, given, names, filter, dictionary, strings, limit, batch_rows, table, token)
    return Scan(source, scan, arguments, shown)


def listed(paths: Path | Data | Sequence[Path | Data]) -> tuple[list[Any], str]:
    """Returns the paths as a list, and their `repr`."""
    is_one = is_path_or_data(paths)
    if not is_one and not isinstance(paths, Iterable):
        raise TypeError(f"paths: give a path, the bytes of a file, a file object or a list, not {paths!r}")
    given: list[Any] = [paths] if is_one else list(paths)  # type: ignore[arg-type]
    for path in given:
        check_path(path)
    shown = [f"<{type(path).__name__}>" if is_data(path) else repr(path) for path in given]
    return given, shown[0] if is_one else f"[{', '.join(shown)}]"


def sequential_format_of(paths: Sequence[str | bytes]) -> Literal["csv", "json", "ipc"] | None:
    """Returns the format of CSV, JSON or Arrow IPC files by extension, or by the first bytes of contents; None for
    others.
    """
    formats = {content_format(path) if isinstance(path, bytes) else sequential_format(path) for path in paths}
    if len(formats) > 1:
        raise TypeError("paths: they have several formats: scan them apart")
    return formats.pop() if formats else None


def content_format(content: bytes) -> Literal["ipc"] | None:
    """Returns the format of a file that the sequential readers take, by its first bytes."""
    return "ipc" if content.startswith(ARROW_MAGIC) else None


def is_arrow_file(path: str | bytes) -> bool:
    """Returns whether this is the path of a local Arrow IPC file, by its first bytes."""
    if isinstance(path, bytes) or "://" in path or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return content_format(file.read(len(ARROW_MAGIC))) is not None


def sequential_scan(format: Literal["csv", "json", "ipc"], arguments: Mapping[str, Any], paths: str) -> Scan:
    """Scans CSV, JSON or Arrow IPC files with the arguments of `scan`."""
    from stylobate.sequential import scan_of_format

    made = scan_of_format(format, arguments)
    made._paths = paths
    return made


def table_options(
    schema: Any,
    casts: Mapping[str, Any] | None,
    union_by_name: bool,
    partitioning: str | Mapping[str, Any] | None,
    filename: bool | str,
    file_row_number: bool | str,
    glob: bool,
) -> dict[str, Any]:
    """Returns the table options that differ from their defaults."""
    if not union_by_name:
        raise ValueError("union_by_name: columns always meet by name; give schema= to choose the columns")
    if isinstance(partitioning, str) and partitioning != "hive":
        raise ValueError(f"partitioning: give 'hive', a dictionary of types or None, not {partitioning!r}")
    options: dict[str, Any] = {}
    if schema is not None:
        options["schema"] = dict(schema) if isinstance(schema, Mapping) else schema
    if casts is not None:
        if not isinstance(casts, Mapping):
            raise TypeError(f"casts: give a dictionary of types, not {casts!r}")
        options["casts"] = dict(casts)
    if partitioning is None:
        options["hive"] = False
    elif not isinstance(partitioning, str):
        options["partition_types"] = dict(partitioning)
    if filename:
        options["filename"] = filename if isinstance(filename, str) else "filename"
    if file_row_number:
        options["file_row_number"] = file_row_number if isinstance(file_row_number, str) else "file_row_number"
    if "filename" in options and options["filename"] == options.get("file_row_number"):
        raise ConfigError(f"filename, file_row_number: both columns would have the name {options['filename']!r}")
    if not glob:
        options["glob"] = False
    return options


def partition_types(partitioning: Any) -> str | dict[str, Any] | None:
    """Returns `partitioning` as `"hive"`, a dictionary of types or None. Schemas are those of pyarrow."""
    if partitioning is None or isinstance(partitioning, str):
        return partitioning
    if isinstance(partitioning, Mapping):
        return dict(partitioning)

    schema = partitioning
    if getattr(partitioning, "type_name", None) == "hive":
        # A factory of pyarrow, which infers the types.
        return "hive"
    if type(partitioning).__name__ == "HivePartitioning":
        schema = partitioning.schema
    if not (hasattr(schema, "names") and hasattr(schema, "types")):
        wanted = "'hive', a dictionary of types, a pyarrow schema, a HivePartitioning or None"
        raise TypeError(f"partitioning: give {wanted}, not a {type(partitioning).__qualname__}")
    return dict(zip(schema.names, schema.types, strict=True))


def plain_dictionary(dictionary: Dictionary) -> bool | str | list[str] | None:
    """Returns the option as a bool, a string or a list."""
    if dictionary is None or isinstance(dictionary, (bool, str)):
        return dictionary
    return list(dictionary)


def keys_of(decryption: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys, with mappings converted to dicts."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in decryption.items()}


def is_data(path: Any) -> bool:
    """Returns whether the value is the contents of a file, not its location."""
    return isinstance(path, (bytes, bytearray, memoryview)) or hasattr(path, "read")


def is_path_or_data(path: Any) -> bool:
    """Returns whether the value is one path, or the contents of one file."""
    return isinstance(path, (str, os.PathLike)) or is_data(path)


def check_path(path: Any) -> None:
    """Raises an exception if the value is neither a path nor the contents of a file, or an empty path.

    An empty path would be the current folder, and is usually an unset variable.
    """
    if not is_path_or_data(path):
        raise TypeError(f"paths: give paths, the bytes of files or file objects, not {path!r}")
    if not is_data(path) and not os.fspath(path):
        raise ConfigError("a path is empty: write . for the current folder")


def located(path: Any) -> str | bytes:
    """Returns an absolute path, a URL, or the contents of a file."""
    check_path(path)
    if is_data(path):
        return content(path)

    text = os.fsdecode(path)
    return text if "://" in text else os.path.join(os.getcwd(), os.path.expanduser(text))


def content(data: Any) -> bytes:
    """Returns the bytes, or all bytes of a file object, regardless of its position."""
    if not hasattr(data, "read"):
        return bytes(data)

    is_seekable = hasattr(data, "seekable") and data.seekable()
    position = data.tell() if is_seekable else 0
    if is_seekable:
        data.seek(0)
    read = data.read()
    if is_seekable:
        data.seek(position)
    if isinstance(read, str):
        raise TypeError("paths: open the file in binary mode, \"rb\"")
    return bytes(read)


def whole(name: str, value: object, minimum: int) -> int:
    """Checks that a value is an integer of at least `minimum`."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name}: give a whole number, not {value!r}")
    if number < minimum:
        raise ConfigError(f"{name}: give {minimum} or more, not {number}")
    if number > MAX_WHOLE:
        raise ConfigError(f"{name}: give at most {MAX_WHOLE}, not {number}")
    return number


def column_names(columns: Sequence[str | Column]) -> list[str]:
    """Returns the names as a list. Raises TypeError for a single string."""
    if isinstance(columns, str):
        raise TypeError(f"columns: give a list, such as [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise TypeError(f"columns: give a list of names, not {columns!r}")

    names = [column.name if isinstance(column, Column) else column for column in columns]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns: give names, not {name!r}")
    return names
