"""`scan_csv`, `scan_json` and `scan_ipc`: scans of files that are read from their beginning to their end."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from stylobate._stylobate import Cache, Column, LocalSequentialScan, sequential_format
from stylobate.errors import ConfigError
from stylobate.filters import Filter, from_tuples
from stylobate.scan import Data, Path, Scan, column_names, listed, located, scan, whole

__all__ = ["scan_csv", "scan_ipc", "scan_json"]

Types: TypeAlias = "Mapping[str, Any]"
"""By column the name of its type, such as `"int64"`, `"string"`, `"date"`, `"timestamp[ms]"` or `"decimal(10, 2)"`, or
a type of pyarrow."""

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
    batch_rows: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Scan:
    """Scans CSV files: local paths or URLs, folders or patterns, compressed by gzip or Zstandard or not.

    An empty field is null, and `""` an empty text. Types are found by looking at values: int64, float64, bool, date,
    timestamp, else text. A value that would not be written again as it is, such as `01234` or `+1`, makes its column
    text. Columns of several files meet by name.

    Args:
        paths: A file, folder or pattern, or a list of them, which are read one after another.
        columns: Only these, in this order. Default: all.
        filter: Only rows for which this holds: conditions on `col`, or the text of a SQL `WHERE`.
        limit: At most so many rows.
        delimiter: What stands between fields. Default: a comma, and a tab in `.tsv` files.
        header: Whether the first line names the columns, or their names, where the first line has values. Without names
            they are `column0`, `column1` and so on; a name that is there twice becomes `a_1`.
        quote: What stands around fields that hold delimiters or ends of lines; None if quotes stand for themselves.
        escape: What takes the next character within quotes as it is. A quote that is written twice is always one.
        null_values: Fields without quotes that are null beside the empty one.
        types: Types of columns, which are not found by looking at values then: names such as `"string"`, `"int32"`,
            `"timestamp[ms]"` or `"decimal(10, 2)"`, or types of pyarrow.
        sample_rows: By how many rows types are found, or `"all"`, which reads the files twice. A later value that does
            not fit is an error. Default: the rows of the first 64 MiB.
        max_record: Bytes of a row at most, so that one stray quote does not take the rest of a file into memory.
            Default: 16 MiB.
        batch_rows: At most so many rows in a batch.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`.
        cache: What to keep pages of files in. Default: the one of `default_cache`.

    Raises:
        NotFoundError: Nothing is there.
        ColumnNotFoundError: A column of `columns`, `filter` or `types` is in no file.
        InvalidDataError: A line is no CSV, or a value does not fit the type of its column. The message names the line.

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
    return begun(
        "csv",
        given,
        paths,
        columns=columns,
        filter=filter,
        limit=limit,
        batch_rows=batch_rows,
        storage_options=storage_options,
        cache=cache,
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
    batch_rows: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Scan:
    """Scans JSON files, in which each line is an object, or all of a file is an array of objects; compressed by gzip or
    Zstandard or not.

    Keys are columns, and one that an object does not have is null. Types are found by looking at values: int64,
    float64, bool, text, lists and structs. Numbers that 64 bits do not hold are texts.

    Args:
        types: Types of columns, which are not found by looking at values then, such as `"timestamp[us]"` for texts.
        max_record: Bytes of an object at most. Default: 16 MiB.

    The other arguments, and what is raised, are those of `scan_csv`; in `columns` a dot reaches into a struct.

    >>> import pathlib, stylobate as st
    >>> _ = pathlib.Path("people.jsonl").write_text('{"name": "Al", "pets": ["cat"]}\\n{"name": "Bo", "age": 7}\\n')
    >>> st.scan_json("people.jsonl").to_arrow().to_pylist()[0]
    {'name': 'Al', 'pets': ['cat'], 'age': None}
    """
    given = text_options(types, sample_rows, max_record)
    return begun(
        "json",
        given,
        paths,
        columns=columns,
        filter=filter,
        limit=limit,
        batch_rows=batch_rows,
        storage_options=storage_options,
        cache=cache,
    )


def scan_ipc(
    paths: Path | Data | Sequence[Path | Data],
    *,
    columns: Sequence[str | Column] | None = None,
    filter: Filter | None = None,
    limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Scan:
    """Scans Arrow IPC files and streams, which include Feather files of version 2. Batches stay as they are.

    The arguments, and what is raised, are those of `scan_csv`; in `columns` a dot reaches into a struct.

    >>> import pyarrow as pa, pyarrow.feather, stylobate as st
    >>> pa.feather.write_feather(pa.table({"x": [1, 2, 3]}), "numbers.feather")
    >>> st.scan_ipc("numbers.feather", filter="x > 1").to_arrow()["x"].to_pylist()
    [2, 3]
    """
    return begun(
        "ipc",
        {},
        paths,
        columns=columns,
        filter=filter,
        limit=limit,
        batch_rows=None,
        storage_options=storage_options,
        cache=cache,
    )


def text_options(
    types: Types | None, sample_rows: SampleRows | None, max_record: int | str | None
) -> dict[str, Any]:
    """The options that CSV and JSON have in common."""
    given = {"types": None if types is None else dict(types), "sample_rows": sample_rows, "max_record": max_record}
    return {name: value for name, value in given.items() if value is not None}


def begun(
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
) -> Scan:
    """A scan of files in a format."""
    sources, shown = listed(paths)
    arguments: dict[str, Any] = {
        "columns": None if columns is None else column_names(columns),
        "filter": filter,
        "limit": None if limit is None else whole("limit", limit, 0),
        "batch_rows": None if batch_rows is None else whole("batch_rows", batch_rows, 1),
        "storage_options": None if storage_options is None else dict(storage_options),
        "cache": cache,
    }
    located_sources = [located(path) for path in sources]
    source = LocalSequentialScan(format, located_sources, given, **arguments)
    return Scan(source, begun, {"format": format, "given": given, "paths": located_sources, **arguments}, shown)


def as_scan_asks(format: Literal["csv", "json", "ipc"], arguments: Mapping[str, Any]) -> Scan:
    """The scan that the arguments of `scan` ask for."""
    taken = ("columns", "limit", "batch_rows", "storage_options", "cache")
    # One thread reads such files, however many may.
    known = {"paths", "filter", "filters", "threads", *taken}
    for name, parameter in inspect.signature(scan).parameters.items():
        value = arguments[name]
        if name not in known and value is not False and value is not parameter.default and value != "hive":
            raise TypeError(f"{name}: it is for Parquet and ORC files")
    filter = arguments["filter"]
    if arguments["filters"] is not None:
        if filter is not None:
            raise ConfigError("filters: give filter or filters, not both")
        filter = from_tuples(arguments["filters"])
    return begun(format, {}, arguments["paths"], filter=filter, **{name: arguments[name] for name in taken})


def graph_table(path: Path, types: Mapping[str, str], delimiter: str | None) -> LocalSequentialScan | None:
    """The rows of a CSV, JSON or Arrow IPC file for a graph, if the path ends as such a file does. All values are
    looked at to find types, but for columns that have one already."""
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
