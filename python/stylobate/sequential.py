"""`scan_csv`, `scan_json` and `scan_ipc`: scans of files that are read sequentially."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from stylobate._stylobate import Cache, Column, LocalSequentialScan, sequential_format
from stylobate.errors import ConfigError
from stylobate.filters import Filter, from_tuples
from stylobate.scan import (
    Data,
    Partitioning,
    Path,
    Scan,
    column_names,
    listed,
    located,
    partition_types,
    scan,
    table_options,
    whole,
)

__all__ = ["scan_csv", "scan_ipc", "scan_json"]

Types: TypeAlias = "Mapping[str, Any]"
"""Types by column: pyarrow types, or names such as `"int64"`, `"date"`, `"timestamp[ms]"` or `"decimal(10, 2)"`."""

SampleRows: TypeAlias = "int | Literal['all']"


def scan_csv(
    paths: Path | Data | Sequence[Path | Data],
    *,
    columns: Sequence[str | Column] | None = None,
    filter: Filter | None = None,
    limit: int | None = None,
    delimiter: str | None = None,
    header: bool | Sequence[str] = True,
    quote: str | None = '"',
    escape: str | None = None,
    null_values: str | Sequence[str] = (),
    types: Types | None = None,
    sample_rows: SampleRows | None = None,
    max_record: int | str | None = None,
    schema: Any = None,
    casts: Types | None = None,
    partitioning: Partitioning = "hive",
    filename: bool | str = False,
    file_row_number: bool | str = False,
    glob: bool = True,
    batch_rows: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Scan:
    """Scans CSV files: local paths or URLs, folders or patterns; uncompressed, or compressed with gzip or Zstandard.

    An empty field is null, and `""` is an empty string. Types are inferred from values: int64, float64, bool, date,
    timestamp, otherwise string. A value whose text would change, such as `01234` or `+1`, makes its column a string
    column; so does `-0`, unless the column has floating-point numbers. Columns of several files are matched by name, and
    folders named `name=value` become columns.

    Args:
        paths: File, folder or pattern, or a list of them, read in order.
        columns: Names of the columns to return, in this order. Default: all.
        filter: Filter of the rows: an expression on `col`, or a SQL `WHERE` condition. Default: all rows.
        limit: Maximum number of rows to return. Default: all.
        delimiter: Field delimiter. Default: a comma, or a tab for `.tsv` files.
        header: Whether the first line has the column names; or the names, if the first line has values. With False, the
            names are `column0`, `column1` and so on. A duplicate name gets a suffix: `a_1`. Default: True.
        quote: Quote character of fields that contain delimiters or line ends; None disables quoting. Default: `"`.
        escape: Escape character within quotes. A doubled quote is always a quote. Default: none.
        null_values: Unquoted fields that are null, in addition to the empty field.
        types: Types of columns, instead of inferred ones: names such as `"string"`, `"int32"`, `"timestamp[ms]"` or
            `"decimal(10, 2)"`, or pyarrow types.
        sample_rows: Number of rows from which types are inferred, or `"all"`, which reads the files twice. A later
            value that does not fit is an error. Default: the rows of the first 64 MiB.
        max_record: Maximum bytes of a row, so that a stray quote does not read the rest of a file into memory. Default:
            16 MiB.
        schema: Schema of the result, from pyarrow or as a dictionary of names and types. Columns that a file lacks are
            null, and others are ignored. Fields are parsed as these types. Default: the columns of the files.
        casts: Types of some columns, as in `scan`. Unless `types` gives another one, a field is parsed as this type.
        partitioning: `"hive"`: folders named `name=value` become columns of inferred types; a dictionary of types or a
            schema sets some types; None: folders do not become columns. Default: `"hive"`.
        filename: Adds a column `filename`, or one with the given name, with the path or URL of the file of each row.
        file_row_number: Adds a column `file_row_number`, or one with the given name, with the position of the row in
            its file, from 0.
        glob: Whether `*`, `?` and `[…]` in paths are wildcards. Default: True.
        batch_rows: Maximum rows per batch. Default: 8,192.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`.
        cache: Cache of file pages. Default: `default_cache()`.

    Raises:
        NotFoundError: No file was found.
        ColumnNotFoundError: A column of `columns`, `filter` or `types` is in no file.
        InvalidDataError: A line is not valid CSV, or a value does not fit the type of its column. The message has the
            line number.

    >>> import pathlib, stylobate as st
    >>> _ = pathlib.Path("people.csv").write_text("name,zip,born\\nAl,01234,2001-02-03\\nBo,,1999-12-31\\n")
    >>> st.scan_csv("people.csv", filter="born > '2000-01-01'").to_arrow().to_pylist()
    [{'name': 'Al', 'zip': '01234', 'born': datetime.date(2001, 2, 3)}]
    >>> st.write_parquet(st.scan_csv("people.csv"), "people.parquet").rows
    2
    """
    given: dict[str, Any] = {"header": header if isinstance(header, bool) else list(header)}
    given |= {"quote": quote, "escape": escape}
    given["null_values"] = [null_values] if isinstance(null_values, str) else list(null_values)
    given |= text_options(types, sample_rows, max_record)
    if delimiter is not None:
        given["delimiter"] = delimiter
    return open_scan(
        "csv",
        given,
        paths,
        columns=columns,
        filter=filter,
        limit=limit,
        batch_rows=batch_rows,
        storage_options=storage_options,
        cache=cache,
        table=table_options(
            schema, casts, True, partition_types(partitioning), filename, file_row_number, glob
        ),
    )


def scan_json(
    paths: Path | Data | Sequence[Path | Data],
    *,
    columns: Sequence[str | Column] | None = None,
    filter: Filter | None = None,
    limit: int | None = None,
    types: Types | None = None,
    sample_rows: SampleRows | None = None,
    max_record: int | str | None = None,
    schema: Any = None,
    casts: Types | None = None,
    partitioning: Partitioning = "hive",
    filename: bool | str = False,
    file_row_number: bool | str = False,
    glob: bool = True,
    batch_rows: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Scan:
    """Scans JSON files with one object per line, or one array of objects; plain, or compressed with gzip or Zstandard.

    Keys become columns; a key that an object lacks is null. Types are inferred from values: int64, float64, bool,
    string, lists and structs. Integers that do not fit into int64 become strings, as do integers beyond 2**53 in a
    column that also has floating-point numbers.

    Args:
        types: Types of columns, instead of inferred ones, such as `"timestamp[us]"` for strings. A column that no
            object has raises `ColumnNotFoundError`; if types are inferred from a sample only, at the end of the files.
        max_record: Maximum bytes of an object. Default: 16 MiB.

    The other arguments and exceptions are those of `scan_csv`. In `columns`, a dot reaches into a struct.

    >>> import pathlib, stylobate as st
    >>> _ = pathlib.Path("people.jsonl").write_text('{"name": "Al", "pets": ["cat"]}\\n{"name": "Bo", "age": 7}\\n')
    >>> st.scan_json("people.jsonl").to_arrow().to_pylist()[0]
    {'name': 'Al', 'pets': ['cat'], 'age': None}
    """
    given = text_options(types, sample_rows, max_record)
    return open_scan(
        "json",
        given,
        paths,
        columns=columns,
        filter=filter,
        limit=limit,
        batch_rows=batch_rows,
        storage_options=storage_options,
        cache=cache,
        table=table_options(
            schema, casts, True, partition_types(partitioning), filename, file_row_number, glob
        ),
    )


def scan_ipc(
    paths: Path | Data | Sequence[Path | Data],
    *,
    columns: Sequence[str | Column] | None = None,
    filter: Filter | None = None,
    limit: int | None = None,
    schema: Any = None,
    casts: Types | None = None,
    partitioning: Partitioning = "hive",
    filename: bool | str = False,
    file_row_number: bool | str = False,
    glob: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Scan:
    """Scans Arrow IPC files and streams, including Feather version 2. Batches keep their boundaries.

    The arguments and exceptions are those of `scan_csv`. In `columns`, a dot reaches into a struct.

    >>> import pyarrow as pa, pyarrow.feather, stylobate as st
    >>> pa.feather.write_feather(pa.table({"x": [1, 2, 3]}), "numbers.feather")
    >>> st.scan_ipc("numbers.feather", filter="x > 1").to_arrow()["x"].to_pylist()
    [2, 3]
    """
    return open_scan(
        "ipc",
        {},
        paths,
        columns=columns,
        filter=filter,
        limit=limit,
        batch_rows=None,
        storage_options=storage_options,
        cache=cache,
        table=table_options(
            schema, casts, True, partition_types(partitioning), filename, file_row_number, glob
        ),
    )


def text_options(
    types: Types | None, sample_rows: SampleRows | None, max_record: int | str | None
) -> dict[str, Any]:
    """Returns the options that CSV and JSON share."""
    given = {"types": None if types is None else dict(types), "sample_rows": sample_rows, "max_record": max_record}
    return {name: value for name, value in given.items() if value is not None}


def open_scan(
    format: Literal["csv", "json", "ipc"],
    given: dict[str, Any],
    paths: Path | Data | Sequence[Path | Data],
    *,
    columns: Sequence[str | Column] | None,
    filter: Filter | None,
    limit: int | None,
    batch_rows: int | None,
    storage_options: Mapping[str, Any] | None,
    cache: Cache | None,
    table: dict[str, Any],
) -> Scan:
    """Creates a scan of files in a format."""
    sources, shown = listed(paths)
    arguments: dict[str, Any] = {
        "columns": None if columns is None else column_names(columns),
        "filter": filter,
        "limit": None if limit is None else whole("limit", limit, 0),
        "batch_rows": None if batch_rows is None else whole("batch_rows", batch_rows, 1),
        "storage_options": None if storage_options is None else dict(storage_options),
        "cache": cache,
        "table": table,
    }
    located_sources = [located(path) for path in sources]
    source = LocalSequentialScan(format, located_sources, given, **arguments)
    return Scan(source, open_scan, {"format": format, "given": given, "paths": located_sources, **arguments}, shown)


def scan_of_format(format: Literal["csv", "json", "ipc"], arguments: Mapping[str, Any]) -> Scan:
    """Creates a scan from the arguments of `scan`."""
    taken = ("columns", "limit", "batch_rows", "storage_options", "cache")
    of_table = ("schema", "casts", "union_by_name", "partitioning", "filename", "file_row_number", "glob")
    # `threads` is ignored: these files are read by one thread.
    known = {"paths", "filter", "filters", "threads", *taken, *of_table}
    for name, parameter in inspect.signature(scan).parameters.items():
        value = arguments[name]
        if name not in known and value is not False and value is not parameter.default:
            raise TypeError(f"{name}: it is for Parquet and ORC files")
    filter = arguments["filter"]
    if arguments["filters"] is not None:
        if filter is not None:
            raise ConfigError("filters: give filter or filters, not both")
        filter = from_tuples(arguments["filters"])
    given = {name: arguments[name] for name in of_table}
    table = table_options(**given | {"partitioning": partition_types(given["partitioning"])})
    others = {name: arguments[name] for name in taken}
    return open_scan(format, {}, arguments["paths"], filter=filter, table=table, **others)


def graph_table(path: Path, types: Mapping[str, str], delimiter: str | None) -> LocalSequentialScan | None:
    """Returns the rows of a CSV, JSON or Arrow IPC file for a graph; None for other extensions.

    Types are inferred from all values, except for columns in `types`.
    """
    format = sequential_format(os.fsdecode(path))
    if format is None or format == "ipc":
        return None if format is None else LocalSequentialScan(format, path, {})
    given: dict[str, Any] = {"delimiter": delimiter} if format == "csv" and delimiter is not None else {}
    if format == "csv" and types:
        there = LocalSequentialScan(format, path, given | {"sample_rows": 1}).schema.names
        given["types"] = {name: type for name, type in types.items() if name in there}
    if format == "csv":
        given["graph"] = True
    return LocalSequentialScan(format, path, given | {"sample_rows": "all"})
