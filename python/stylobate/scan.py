"""`scan` and what it gives: a `Scan`, which runs again whenever it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeAlias

from stylobate import _html, rows
from stylobate._stylobate import Cache, Column, LocalScan, RecordBatch, sequential_format
from stylobate.errors import ColumnNotFoundError, ConfigError
from stylobate.filters import Filter, Filters, both, from_tuples

if TYPE_CHECKING:
    import polars
    import pyarrow

__all__ = ["Scan", "col", "scan"]

Path: TypeAlias = "str | os.PathLike[str]"
Data: TypeAlias = "bytes | bytearray | memoryview | BinaryIO"
Dictionary: TypeAlias = "Literal['auto', 'stored'] | bool | Sequence[str] | None"


NAMED = 30
"""How many names an error lists."""


class Source(rows.Source, Protocol):
    """Where a scan's rows come from: this process, or a node."""

    def count(self) -> int: ...


class Scan(rows.Rows):
    """Rows of files, not read yet. Made by `scan`, and read again by each of its methods.

    A scan never changes: `select`, `filter`, `limit` and `head` return another one. It can be pickled, with what it was
    made from and without its cache: elsewhere it reads through the default cache of that process.

    Anything that reads Arrow streams (`__arrow_c_stream__`) takes it as it is, and pulls batches as it goes:

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
        # Opens the scan again.
        self._opener = opener
        # Those of the opener, with paths that mean the same wherever they are used.
        self._arguments = arguments
        # The paths as they were given, to show.
        self._paths = paths

    @property
    def columns(self) -> list[str]:
        """The names of the columns that come out.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", columns=["fare"]).columns
        ['fare']
        """
        return list(self._source.schema.names)

    def select(self, *columns: str | Column | Sequence[str | Column]) -> Scan:
        """Only these of the columns, in this order: names, or one list of names. Filters stay.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").select("fare", "city").columns
        ['fare', 'city']
        """
        is_list = len(columns) == 1 and not isinstance(columns[0], (str, Column))
        wanted: Any = columns[0] if is_list else columns
        return self._with(columns=self._narrowed(column_names(list(wanted))))

    def filter(self, filter: Filter) -> Scan:
        """Only rows for which this holds too. It may name any column of the files, selected or not.

        >>> import stylobate as st
        >>> cheap = st.scan("trips.parquet").filter(st.col("fare") < 10)
        >>> cheap.filter("city = 'Oslo'").count()
        2
        """
        if self._arguments["limit"] is not None:
            raise ConfigError("filter: filter before limit, which keeps the first rows that pass")
        return self._with(filter=both(self._arguments["filter"], filter))

    def limit(self, limit: int) -> Scan:
        """At most this many rows, the first ones; of several limits the smallest holds."""
        limit = whole("limit", limit, 0)
        present = self._arguments["limit"]
        return self._with(limit=limit if present is None else min(present, limit))

    def head(self, n: int = 5) -> Scan:
        """The first `n` rows, as a scan.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").head(2).to_arrow().num_rows
        2
        """
        return self.limit(whole("n", n, 0))

    def count(self) -> int:
        """The number of rows, as `len` gives it. Of Parquet and ORC files without a filter only footers are read, with one
        the columns that it names, and all of other files.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", filter="city = 'Oslo'").count()
        3
        """
        return self._source.count()

    def to_polars(self) -> polars.DataFrame:
        """All rows as a data frame of Polars; dictionaries become categories. Strings and bytes of Parquet and ORC files
        are read as views, as Polars stores them.

        >>> import stylobate as st
        >>> st.scan("trips.parquet").to_polars().shape
        (5, 3)
        """
        if isinstance(self._source, LocalScan) and self._arguments["strings"] is None:
            return self._with(strings="view").to_polars()
        return super().to_polars()

    def __datafusion_table_provider__(self, session: Any = None) -> object:
        """The scan as a table of the package `datafusion`, of the major version that this package was built with:
        `datafusion.SessionContext().register_table("trips", scan)`. Columns and filters of queries are pushed into it."""
        from stylobate._datafusion import table_provider

        return table_provider(self._source, session)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        # Otherwise Python would count the rows.
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

    def _narrowed(self, names: list[str]) -> list[str]:
        """These of the columns that come out now; a struct is what is left of it."""
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
                raise ColumnNotFoundError(f"no column {name}: there are {', '.join(present[:NAMED])}{more}")
        return narrowed


def reopened(opener: Callable[..., Scan], arguments: dict[str, Any], paths: str) -> Scan:
    """The scan of these arguments, shown with the paths of another one."""
    made = opener(**arguments)
    made._paths = paths
    return made


def col(name: str) -> Column:
    """A column, to make a filter of. Dots reach into structs.

    Compare it with numbers, texts, bytes, bools, dates, times, decimals or another column; join what comes
    out with `&` for and, `|` for or, `~` for not, with parentheses around each comparison.

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
    partitioning: Literal["hive"] | Mapping[str, Any] | None = "hive",
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
    """Scans Parquet and ORC files: local paths or URLs, folders, or patterns with `*`, `?`, `[…]` and `**`. Paths that
    end as CSV, JSON or Arrow IPC files do are scanned as by `scan_csv`, `scan_json` and `scan_ipc`.

    URLs are `s3://`, `gs://`, `az://`, `http(s)://` and `file://`. In a folder, `name=value` in paths become
    columns, of numbers, dates or times where all values are, and win over columns of the files.

    Columns of several files meet by name, in a type that holds the values of all; a value that it does not hold is an
    error. So are types that do not go together, for those who ask for that column.

    Args:
        paths: A file, folder or pattern, or a list of them, which are read one after another. A file may also be given
            as its bytes, or as a file object, which is read into memory.
        columns: Only these, in this order; a dot reaches into a struct. Default: all.
        filter: Only rows for which this holds: conditions on `col`, or the text of a SQL `WHERE`.
        filters: The same in the form that pyarrow and pandas take: `[("fare", "<", 24), ("city", "in", ["Oslo"])]`, or
            a list of such lists, one of which must hold.
        dictionary: Which columns come out as dictionaries. By default those that were written from dictionaries or
            categoricals: every column has the type that it was written with. `"auto"`: columns of strings whose values
            repeat; `"stored"`: columns of any type that the files store as nothing else; `True`: all columns of
            strings and bytes; `False`: none; or the names of some.
        strings: `"view"`: strings and bytes that are not dictionaries come out as views (`string_view`), which are made
            faster and share the bytes of the file's dictionary.
        schema: The columns of the table, as a schema of pyarrow or a dictionary of names and types, whatever the files
            have: columns that a file lacks are null, others are left out, values are cast as by `casts`.
        casts: Types of some columns, as pyarrow's or by name: `{"fare": "decimal(10, 2)", "day": "date"}`. A value that
            the type does not hold is an error.
        union_by_name: Columns of several files meet by name, always: `False` is an error.
        partitioning: `"hive"`: folders named `name=value` give columns whose types are inferred; a dictionary gives the
            types of some, `{"day": "date"}`; `None`: folders give no columns.
        filename: Adds a column `filename`, or of this name, with the path or URL of each row's file.
        file_row_number: Adds a column `file_row_number`, or of this name: the row's number within its file, from 0.
        glob: `False`: `*`, `?` and `[…]` in paths are no wildcards. A path that exists is never taken for a pattern.
        limit: At most so many rows.
        batch_rows: At most so many rows in a batch, up to 65,536.
        threads: At most so many threads that decode. Default: one for each core.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`. What they
            leave out comes from the usual environment variables.
        decryption: The keys of encrypted Parquet files: `{"footer_key": bytes, "column_keys": {"name": bytes},
            "aad_prefix": bytes}`, the latter two if the files have such. Files that are not encrypted are read as they
            are. What was decrypted is cached nowhere.
        cache: What to keep and find decoded columns in. Default: the one of `default_cache`.
        node: A storage node that scans instead of this process: `grpc://HOST:PORT`, its Flight door. `paths`
            is then a bucket's name and what is in it. Of a list of nodes of a cluster, the first that answers plans, and
            each part comes from the node that keeps its bytes, or from another one if that fails. Needs pyarrow.
        token: What lets in to a node with access keys.

    Raises:
        NotFoundError: Nothing is there.
        ColumnNotFoundError: A column of `columns` or `filter` is in no file.
        ConfigError: The keys of `decryption` do not decrypt a file, or another argument cannot be used.
        UnsupportedError: A file is encrypted, and there is no `decryption`.
        FilterError: The filter cannot be understood, or does not fit the columns.
        StylobateError: Anything else that went wrong; see the classes below it.

    >>> import stylobate as st
    >>> st.scan("trips.parquet", filter="fare > 10", columns=["fare"]).to_arrow()["fare"].to_pylist()
    [12.0, 30.0, 14.5]
    """
    arguments = dict(locals())
    given, shown = listed(paths)
    if node is None:
        if (format := format_by_ending(given)) is not None:
            from stylobate.sequential import as_scan_asks

            return as_scan_asks(format, arguments)
        given = [located(path) for path in given]
    elif any(map(is_data, given)):
        raise TypeError("paths: a node reads what is in its buckets, and no bytes from elsewhere")
    names = None if columns is None else column_names(columns)
    table = table_options(schema, casts, union_by_name, partitioning, filename, file_row_number, glob)

    if filters is not None:
        if filter is not None:
            raise ConfigError("filters: give filter or filters, not both")
        filter = from_tuples(filters)
    limit = None if limit is None else whole("limit", limit, 0)
    batch_rows = None if batch_rows is None else whole("batch_rows", batch_rows, 1)
    threads = None if threads is None else whole("threads", threads, 1)
    arguments |= {"paths": given, "columns": names, "filter": filter, "filters": None}
    arguments |= {"limit": limit, "batch_rows": batch_rows, "threads": threads}
    if not (node is None or isinstance(node, str)):
        arguments["node"] = node = list(node)

    source: Source
    if node is None:
        if token is not None:
            raise TypeError("token: it lets in to a node; give node as well")
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
    """The paths as a list, and as they are shown."""
    is_one = isinstance(paths, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(paths, "read")
    given: list[Any] = [paths] if is_one else list(paths)  # type: ignore[arg-type]
    shown = [f"<{type(path).__name__}>" if is_data(path) else repr(path) for path in given]
    return given, shown[0] if is_one else f"[{', '.join(shown)}]"


def format_by_ending(paths: Sequence[Any]) -> Literal["csv", "json", "ipc"] | None:
    """CSV, JSON or Arrow IPC, if the paths end as such files do."""
    formats = {None if is_data(path) else sequential_format(os.fsdecode(path)) for path in paths}
    if len(formats) > 1:
        raise TypeError("paths: they have several formats: scan them apart")
    return formats.pop() if formats else None


def table_options(
    schema: Any,
    casts: Mapping[str, Any] | None,
    union_by_name: bool,
    partitioning: Literal["hive"] | Mapping[str, Any] | None,
    filename: bool | str,
    file_row_number: bool | str,
    glob: bool,
) -> dict[str, Any]:
    """What was said of the table, less what is the default."""
    if not union_by_name:
        raise ValueError("union_by_name: columns always meet by name; give schema= to choose the columns")
    if isinstance(partitioning, str) and partitioning != "hive":
        raise ValueError(f"partitioning: give 'hive', a dictionary of types or None, not {partitioning!r}")
    options: dict[str, Any] = {}
    if schema is not None:
        options["schema"] = dict(schema) if isinstance(schema, Mapping) else schema
    if casts is not None:
        options["casts"] = dict(casts)
    if partitioning is None:
        options["hive"] = False
    elif not isinstance(partitioning, str):
        options["partition_types"] = dict(partitioning)
    if filename:
        options["filename"] = filename if isinstance(filename, str) else "filename"
    if file_row_number:
        options["file_row_number"] = file_row_number if isinstance(file_row_number, str) else "file_row_number"
    if not glob:
        options["glob"] = False
    return options


def plain_dictionary(dictionary: Dictionary) -> bool | str | list[str] | None:
    """The option as a bool, a word or a list."""
    if dictionary is None or isinstance(dictionary, (bool, str)):
        return dictionary
    return list(dictionary)


def keys_of(decryption: Mapping[str, Any]) -> dict[str, Any]:
    """The keys, with plain dicts."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in decryption.items()}


def is_data(path: Any) -> bool:
    """Whether it is what a file holds, and not where it is."""
    return isinstance(path, (bytes, bytearray, memoryview)) or hasattr(path, "read")


def located(path: Any) -> str | bytes:
    """A path from the root, or a URL; or the bytes of a file."""
    if is_data(path):
        return content(path)

    text = os.fsdecode(path)
    return text if "://" in text else os.path.join(os.getcwd(), os.path.expanduser(text))


def content(data: Any) -> bytes:
    """The bytes, or all bytes of a file object, wherever in it that stands."""
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


def whole(name: str, value: object, least: int) -> int:
    """A whole number that is not too small."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name}: give a whole number, not {value!r}")
    if number < least:
        raise ConfigError(f"{name}: give {least} or more, not {number}")
    return number


def column_names(columns: Sequence[str | Column]) -> list[str]:
    """The names, as a list; a single text is a mistake."""
    if isinstance(columns, str):
        raise TypeError(f"columns: give a list, such as [{columns!r}]")
    return [column.name if isinstance(column, Column) else column for column in columns]
