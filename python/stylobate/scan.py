"""`scan` and what it gives: a `Scan`, which runs anew whenever it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from stylobate import rows
from stylobate._stylobate import Cache, Column, Expr, LocalScan

__all__ = ["Scan", "col", "scan"]

Path: TypeAlias = "str | os.PathLike[str]"
Filter: TypeAlias = "Expr | Column | str"
Dictionary: TypeAlias = "Literal['auto', 'stored'] | bool | Sequence[str] | None"


class Source(rows.Source, Protocol):
    """Where a scan's rows come from: this process, or a node."""

    def count(self) -> int: ...


class Scan(rows.Rows):
    """Rows of files, not read yet. Made by `scan`, and read anew by each of its methods.

    Anything that reads Arrow streams (`__arrow_c_stream__`) takes it as it is, and pulls batches as it goes:

    >>> import duckdb, pyarrow, stylobate as st
    >>> trips = st.scan("trips.parquet")
    >>> pyarrow.RecordBatchReader.from_stream(trips).read_all().num_rows
    5
    >>> duckdb.sql("SELECT city, count(*) AS trips FROM trips GROUP BY city ORDER BY city").fetchall()
    [('Bergen', 2), ('Oslo', 3)]
    """

    def __init__(self, source: Source, shown: str) -> None:
        self._source: Source = source
        self._shown = shown

    def count(self) -> int:
        """The number of rows.

        >>> import stylobate as st
        >>> st.scan("trips.parquet", filter="city = 'Oslo'").count()
        3
        """
        return self._source.count()

    def __repr__(self) -> str:
        return self._shown


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
    paths: Path | Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,
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
    node: str | None = None,
    token: str | None = None,
) -> Scan:
    """Scans Parquet and ORC files: local paths or URLs, folders, or patterns with `*`, `?`, `[…]` and `**`.

    URLs are `s3://`, `gs://`, `az://`, `http(s)://` and `file://`. In a folder, `name=value` in paths become
    columns, of numbers, dates or times where all values are, and win over columns of the files.

    Columns of several files meet by name, in a type that holds the values of all; a value that it does not hold is an
    error. So are types that do not go together, for those who ask for that column.

    Args:
        paths: A file, folder or pattern, or a list of them, which are read one after another.
        columns: Only these, in this order; a dot reaches into a struct. Default: all.
        filter: Only rows for which this holds: conditions on `col`, or the text of a SQL `WHERE`.
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
            is then a bucket's name and what is in it. Needs pyarrow.
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
    given: list[Path] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = None if columns is None else column_names(columns)
    table = table_options(schema, casts, union_by_name, partitioning, filename, file_row_number, glob)
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
            "batch_rows": batch_rows,
            "threads": threads,
            "storage_options": storage_options,
            "cache": cache,
            **table,
        }
        for name, value in local.items():
            if value is not None:
                raise TypeError(f"{name}: the node decides that")
        from stylobate.flight import FlightScan

        source = FlightScan(node, given, names, filter, dictionary, strings, limit, batch_rows, token)
    said = {"columns": names, "filter": filter, "limit": limit, "node": node}
    shown = "".join(f", {name}={value!r}" for name, value in said.items() if value is not None)
    return Scan(source, re.sub(r"://[^/@\s]*@", "://", f"Scan({paths!r}{shown})"))


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


def column_names(columns: Sequence[str]) -> list[str]:
    """The names, as a list; a single text is a mistake."""
    if isinstance(columns, str):
        raise TypeError(f"columns: give a list, such as [{columns!r}]")
    return [column.name if isinstance(column, Column) else column for column in columns]
