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
Dictionary: TypeAlias = "Literal['auto', 'stored'] | bool | Sequence[str]"


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
    dictionary: Dictionary = "auto",
    limit: int | None = None,
    batch_rows: int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
    node: str | None = None,
    token: str | None = None,
) -> Scan:
    """Scans Parquet and ORC files: local paths or URLs, folders, or patterns with `*`, `?`, `[…]` and `**`. Paths that
    end as CSV, JSON or Arrow IPC files do are scanned as by `scan_csv`, `scan_json` and `scan_ipc`.

    URLs are `s3://`, `gs://`, `az://`, `http(s)://` and `file://`. In a folder, `name=value` in paths become
    columns, of numbers, dates or times where all values are, and win over columns of the files.

    Columns of several files meet by name, in a type that holds the values of all; a value that it does not hold is an
    error. So are types that do not go together, for those who ask for that column.

    Args:
        paths: A file, folder or pattern, or a list of them, which are read one after another.
        columns: Only these, in this order; a dot reaches into a struct. Default: all.
        filter: Only rows for which this holds: conditions on `col`, or the text of a SQL `WHERE`.
        dictionary: Which columns come out as dictionaries: `"auto"` those of texts whose values repeat,
            `"stored"` those of any type that the files store as nothing else, `True` all of texts and bytes,
            `False` none, or the names of some.
        limit: At most so many rows.
        batch_rows: At most so many rows in a batch, up to 65,536.
        threads: At most so many threads that decode. Default: one for each core.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`. What they
            leave out comes from the usual environment variables.
        cache: What to keep and find decoded columns in. Default: the one of `default_cache`.
        node: A storage node that scans instead of this process: `grpc://HOST:PORT`, its Flight door. `paths`
            is then a bucket's name and what is in it. Needs pyarrow.
        token: What lets in to a node with access keys.

    Raises:
        NotFoundError: Nothing is there.
        ColumnNotFoundError: A column of `columns` or `filter` is in no file.
        FilterError: The filter cannot be understood, or does not fit the columns.
        StylobateError: Anything else that went wrong; see the classes below it.

    >>> import stylobate as st
    >>> st.scan("trips.parquet", filter="fare > 10", columns=["fare"]).to_arrow()["fare"].to_pylist()
    [12.0, 30.0, 14.5]
    """
    given: list[Path] = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    options = (columns, filter, dictionary, limit, batch_rows, storage_options, cache)
    if node is None and (found := by_ending(given, *options)) is not None:
        return found
    names = None if columns is None else column_names(columns)
    source: Source
    if node is None:
        if token is not None:
            raise TypeError("token: it lets in to a node; give node as well")
        source = LocalScan(
            given,
            columns=names,
            filter=filter,
            dictionary=dictionary if isinstance(dictionary, (bool, str)) else list(dictionary),
            limit=limit,
            batch_rows=batch_rows,
            threads=threads,
            storage_options=None if storage_options is None else dict(storage_options),
            cache=cache,
        )
    else:
        local = {
            "batch_rows": batch_rows,
            "threads": threads,
            "storage_options": storage_options,
            "cache": cache,
        }
        for name, value in local.items():
            if value is not None:
                raise TypeError(f"{name}: the node decides that")
        from stylobate.flight import FlightScan

        source = FlightScan(node, given, names, filter, dictionary, limit, batch_rows, token)
    said = {"columns": names, "filter": filter, "limit": limit, "node": node}
    shown = "".join(f", {name}={value!r}" for name, value in said.items() if value is not None)
    return Scan(source, re.sub(r"://[^/@\s]*@", "://", f"Scan({paths!r}{shown})"))


def by_ending(paths: Sequence[Path], *options: Any) -> Scan | None:
    """A scan of CSV, JSON or Arrow IPC files, if the paths end as such files do."""
    from stylobate.sequential import scan_by_ending

    return scan_by_ending(paths, *options)


def column_names(columns: Sequence[str]) -> list[str]:
    """The names, as a list; a single text is a mistake."""
    if isinstance(columns, str):
        raise TypeError(f"columns: give a list, such as [{columns!r}]")
    return [column.name if isinstance(column, Column) else column for column in columns]
