"""`write_parquet`, which writes Arrow data to Parquet files, and what it returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from stylobate import _stylobate
from stylobate._stylobate import LocalScan, LocalSequentialScan
from stylobate.scan import Path, Scan

__all__ = ["Written", "write_parquet"]


class ArrowStream(Protocol):
    """A table, a frame, a reader, a scan: whatever gives an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


Data: TypeAlias = "ArrowStream | ArrowArray"
Encoding: TypeAlias = (
    "Literal['plain', 'delta_binary_packed', 'delta_length_byte_array', 'delta_byte_array', 'byte_stream_split']"
)
Statistics: TypeAlias = "bool | Literal['none', 'chunk', 'page']"
SortedBy: TypeAlias = "Sequence[str | tuple[str, ...]]"


@dataclass(frozen=True)
class Written:
    """What was written: `rows`, `bytes` and `row_groups` of all `files`, which are paths or URLs."""

    rows: int
    bytes: int
    row_groups: int
    files: list[str]


def write_parquet(
    data: Data,
    path: Path,
    *,
    compression: str | None | Mapping[str, str | None] = "snappy",
    dictionary: bool | Sequence[str] | Mapping[str, bool | None] | None = None,
    encoding: Encoding | Mapping[str, Encoding] | None = None,
    statistics: Statistics | Mapping[str, Statistics] = True,
    bloom_filter_columns: Sequence[str] | Mapping[str, float] = (),
    row_group_rows: int | None = None,
    row_group_bytes: int | str | None = None,
    max_file_bytes: int | str | None = None,
    partition_by: str | Sequence[str] | None = None,
    data_page_version: Literal["1.0", "2.0"] = "1.0",
    sorted_by: SortedBy = (),
    metadata: Mapping[str, str] | None = None,
    sink: Literal["auto", "thread", "io_uring", "io_uring_direct"] = "auto",
    durability: Literal["fsync", "none"] = "fsync",
    overwrite: bool = True,
    memory: int | str | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Written:
    """Writes Arrow data to a Parquet file, or with `max_file_bytes` or `partition_by`, to a folder of them.

    Rows are taken as they come, and not collected. A column that arrives as a dictionary stays one: its codes
    go straight into the file. Nothing appears under the path before all of it is written; after an error or
    Ctrl-C there is what was there before.

    Args:
        data: Whatever has `__arrow_c_stream__` or `__arrow_c_array__`: tables, batches and readers of
            pyarrow, frames of Polars and pandas, relations of DuckDB, a `scan`.
        path: A file, a folder, or a URL: `s3://`, `gs://`, `az://`, `http(s)://` or `file://`. Folders that
            are missing are made.
        compression: `"snappy"`, `"zstd"`, `"lz4"`, `"gzip"`, `"brotli"` or `"none"`, some with a level:
            `"zstd(3)"`. Like all options of columns, a dictionary says it for some columns by their names, and
            others have the default.
        dictionary: Whether columns are stored as dictionaries. By default those are that arrive so, and others
            as long as the dictionary of a row group has 1 MiB at most. `True`: always; `False`: never; names: these
            always and no others; or a dictionary of columns.
        encoding: How values are stored that are no dictionary: `"plain"`, `"delta_binary_packed"` and so on,
            where it fits. A column that is given one has no dictionary.
        statistics: Bounds and nulls of row groups and pages: `True` or `"page"`; `"chunk"` for those of row
            groups only; `False` for none.
        bloom_filter_columns: Columns with bloom filters; or for each the share of values that are not there
            and seem to be, which is 0.01 otherwise.
        row_group_rows: Rows of a row group at most. Default: 1,048,576.
        row_group_bytes: Bytes of a row group, about, after which the next begins. Default: 128 MiB.
        max_file_bytes: Bytes of a file, about, after which the next begins: `part-00000.parquet` and so on.
        partition_by: Columns whose values name folders, `day=2024-05-01/part-00000.parquet`, instead of being
            in the files. `scan` makes columns of them again.
        data_page_version: Of version 2.0, levels of pages are not compressed.
        sorted_by: By which columns rows are sorted, which is believed: names, or tuples of a name and words
            out of `"descending"`, `"nulls_first"`.
        metadata: Pairs of texts for the file's footer.
        sink: How local files are written.
        durability: `"fsync"`: the file survives a loss of power; `"none"`: the end of the process.
        overwrite: Whether what is there is replaced: a file; or in a folder, all files that an earlier call
            wrote.
        memory: Bytes that may be used for what is being encoded, in all files. Default: 256 MiB.
        threads: Threads that encode columns. Default: one for each core.
        storage_options: Options of the store, as of `scan`.
        progress: Called now and then with the rows and bytes so far, and at the end. What it raises ends the
            work.

    Raises:
        AlreadyExistsError: Something is there, and is not to be replaced.
        ColumnNotFoundError: An option names a column that the data does not have.
        UnsupportedError: Parquet has no such type.
        StorageError: The disk is full, the store refuses.
        StylobateError: Anything else that went wrong; see the classes below it.

    >>> import pyarrow as pa, stylobate as st
    >>> trips = pa.table({"city": ["Oslo", "Bergen", "Oslo"], "fare": [7.5, 30.0, 9.0]})
    >>> st.write_parquet(trips, "new.parquet", compression="zstd(3)").rows
    3
    >>> cheap = st.scan("new.parquet", filter="fare < 10")
    >>> st.write_parquet(cheap, "cities", partition_by="city").files[0].rsplit("/", 2)[1:]
    ['city=Oslo', 'part-00000.parquet']
    >>> st.scan("cities").count()
    2
    """
    columns: dict[str | None, dict[str, Any]] = {None: {}}
    spread(columns, "compression", compression, lambda codec: "none" if codec is None else codec)
    if isinstance(dictionary, Mapping) or dictionary is None or isinstance(dictionary, bool):
        spread(columns, "dictionary", dictionary, lambda is_one: is_one)
    else:
        spread(columns, "dictionary", dict.fromkeys(names("dictionary", dictionary), True), bool)
        columns[None]["dictionary"] = False
    if encoding is not None:
        spread(columns, "encoding", encoding, str)
    levels = {True: "page", False: "none"}
    spread(
        columns, "statistics", statistics, lambda level: levels[level] if isinstance(level, bool) else level
    )
    if not isinstance(bloom_filter_columns, Mapping):
        bloom_filter_columns = dict.fromkeys(names("bloom_filter_columns", bloom_filter_columns), 0.01)
    spread(columns, "bloom_filter", bloom_filter_columns, float)
    one_of("data_page_version", data_page_version, ("1.0", "2.0"))
    one_of("durability", durability, ("fsync", "none"))
    given: dict[str, Any] = {
        "columns": columns,
        "row_group_rows": row_group_rows,
        "row_group_bytes": row_group_bytes,
        "max_file_bytes": max_file_bytes,
        "data_page_version": data_page_version,
        "sorted_by": [sorting(column) for column in names("sorted_by", sorted_by)],
        "metadata": None if metadata is None else list(metadata.items()),
        "sink": sink,
        "durability": durability,
        "overwrite": overwrite,
        "memory": memory,
        "threads": threads,
    }
    if partition_by is not None:
        given["partition_by"] = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    rows, size, row_groups, files = _stylobate.write_parquet(
        local(data),
        os.fspath(path),
        {name: value for name, value in given.items() if value is not None},
        None if storage_options is None else dict(storage_options),
        progress,
    )
    return Written(rows, size, row_groups, files)


def local(data: Data) -> Data | LocalScan | LocalSequentialScan:
    """What a scan of this process is made of, so that its errors stay what they are; anything else as it is."""
    source = data._source if isinstance(data, Scan) else None
    return source if isinstance(source, (LocalScan, LocalSequentialScan)) else data


def spread(
    columns: dict[str | None, dict[str, Any]], option: str, given: Any, value: Callable[[Any], Any]
) -> None:
    """Notes an option of all columns, or of those that a dictionary names."""
    if isinstance(given, Mapping):
        for column, own in given.items():
            columns.setdefault(column, {})[option] = value(own)
    else:
        columns[None][option] = value(given)


def sorting(column: str | tuple[str, ...]) -> tuple[str, bool, bool]:
    """A column that rows are sorted by: its name, whether it descends, and whether nulls come first."""
    name, *words = (column,) if isinstance(column, str) else column
    for word in words:
        one_of("sorted_by", word, ("ascending", "descending", "nulls_first", "nulls_last"))
    return name, "descending" in words, "nulls_first" in words


def one_of(option: str, given: object, known: Sequence[str]) -> None:
    """Fails if it is none of these."""
    if given not in known:
        raise ValueError(f"{option}: {given!r} is none of {', '.join(known)}")


def names(option: str, given: Sequence[Any]) -> list[Any]:
    """A list; a single text is a mistake."""
    if isinstance(given, str):
        raise TypeError(f"{option}: give a list, such as [{given!r}]")
    return list(given)
