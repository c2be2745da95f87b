"""`write_parquet`, which writes Arrow data to Parquet files, and what it returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from stylobate import _stylobate
from stylobate.scan import Path
from stylobate.write_source import Data, arrow_source
from stylobate.write_target import Mode, one_of, placement, renamed

__all__ = ["Written", "write_parquet"]

Encoding: TypeAlias = (
    "Literal['plain', 'delta_binary_packed', 'delta_length_byte_array', 'delta_byte_array', 'byte_stream_split']"
)
Statistics: TypeAlias = "bool | Literal['none', 'chunk', 'page']"
Sorting: TypeAlias = "Sequence[str | tuple[str, ...]]"


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
    compression_level: int | Mapping[str, int] | None = None,
    dictionary: bool | Sequence[str] | Mapping[str, bool | None] | None = None,
    use_dictionary: bool | Sequence[str] | None = None,
    encoding: Encoding | Mapping[str, Encoding] | None = None,
    column_encoding: str | Mapping[str, str] | None = None,
    statistics: Statistics | Mapping[str, Statistics] = True,
    write_statistics: bool | Sequence[str] | None = None,
    bloom_filter_columns: Sequence[str] | Mapping[str, float] = (),
    row_group_size: int | None = None,
    row_group_bytes: int | str | None = None,
    data_page_size: int | str | None = None,
    max_rows_per_page: int | None = None,
    max_file_bytes: int | str | None = None,
    partition_by: str | Sequence[str] | None = None,
    data_page_version: Literal["1.0", "2.0"] = "1.0",
    sorting_columns: Sorting = (),
    metadata: Mapping[str, str] | None = None,
    index: bool | None = None,
    sink: Literal["auto", "thread", "io_uring", "io_uring_direct"] = "auto",
    durability: Literal["fsync", "none"] = "fsync",
    mode: Mode | None = None,
    overwrite: bool | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    row_group_rows: int | None = None,
    sorted_by: Sorting | None = None,
) -> Written:
    """Writes Arrow data to a Parquet file, or with `max_file_bytes` or `partition_by`, to a folder of them.

    Rows are taken as they come, and not collected. A column that arrives as a dictionary stays one: its codes
    go straight into the file. Nothing appears under the path before all of it is written; after an error or
    Ctrl-C there is what was there before.

    Args:
        data: Whatever has `__arrow_c_stream__` or `__arrow_c_array__`: tables, batches and readers of
            pyarrow, frames of Polars and pandas, relations of DuckDB, a `scan`. Lazy frames of Polars, whose rows are
            written as they are computed; data sets and scanners of pyarrow; iterators and generators of record batches,
            the first of which says which columns there are. With pyarrow, a dict of lists or arrays by the names of
            columns, or a list of dicts.
        path: A file, a folder, or a URL: `s3://`, `gs://`, `az://`, `http(s)://` or `file://`. Folders that
            are missing are made.
        compression: `"snappy"`, `"zstd"`, `"lz4"`, `"gzip"`, `"brotli"` or `"none"`, some with a level:
            `"zstd(3)"`. Like all options of columns, a dictionary says it for some columns by their names, and
            others have the default.
        compression_level: The level, if `compression` names none; of all columns, or a dictionary of them.
        dictionary: Whether columns are stored as dictionaries. By default those are that arrive so, and others
            as long as the dictionary of a row group has 1 MiB at most. `True`: always; `False`: never; names: these
            always and no others; or a dictionary of columns.
        use_dictionary: The same as pyarrow has it: `True`: as by default; `False`: never; names: as by default in these
            columns, and never in others.
        encoding: How values are stored that are no dictionary: `"plain"`, `"delta_binary_packed"` and so on,
            where it fits. A column that is given one has no dictionary.
        column_encoding: The same under pyarrow's name, also in capitals.
        statistics: Bounds and nulls of row groups and pages: `True` or `"page"`; `"chunk"` for those of row
            groups only; `False` for none.
        write_statistics: The same as pyarrow has it: `True`, `False`, or the columns that have statistics.
        bloom_filter_columns: Columns with bloom filters; or for each the share of values that are not there
            and seem to be, which is 0.01 otherwise.
        row_group_size: Rows of a row group at most. Default: 1,048,576.
        row_group_bytes: Bytes of a row group, about, after which the next begins. Default: 128 MiB.
        data_page_size: Bytes of a page before compression, about, after which the next begins. Default: 1 MiB.
        max_rows_per_page: Rows of a page at most. Default: 20,000.
        max_file_bytes: Bytes of a file, about, after which the next begins: `part-00000.parquet` and so on.
        partition_by: Columns whose values name folders, `day=2024-05-01/part-00000.parquet`, instead of being
            in the files. `scan` makes columns of them again.
        data_page_version: Of version 2.0, levels of pages are not compressed.
        sorting_columns: By which columns rows are sorted, which is believed: names, or tuples of a name and words
            out of `"descending"`, `"nulls_first"`.
        metadata: Pairs of texts for the file's footer.
        index: Whether the index of a frame of pandas becomes columns: `True`, `False`, or `None`: all but a plain
            range, which is kept as metadata only.
        sink: How local files are written.
        durability: `"fsync"`: the file survives a loss of power; `"none"`: the end of the process.
        mode: What becomes of files that are there. In a folder: `"error"`: any visible data file is an error, which is
            the default with `partition_by`; `"append"`: new files are added, also by several processes at once;
            `"overwrite"`: files that earlier calls wrote there are removed once the new ones are there;
            `"overwrite_partitions"`: the same in folders that get rows. Files of other writers are never replaced or
            removed, whatever they are called: they stay beside the new ones. For one file: `"error"` or
            `"overwrite"`.
        overwrite: Of one file, or of a folder by `max_file_bytes` alone: whether what is there is replaced, which is
            the default. With `partition_by` it is an old name of `mode="overwrite"` and `mode="error"`.
        memory: Bytes that may be used for what is being encoded, in all files. Default: 256 MiB.
        threads: Threads that encode columns. Default: one for each core.
        storage_options: Options of the store, as of `scan`.
        progress: Called now and then with the rows and bytes so far, and at the end. What it raises ends the
            work.
        row_group_rows: An old name of `row_group_size`.
        sorted_by: An old name of `sorting_columns`.

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
    row_group_size = renamed("row_group_rows", row_group_rows, "row_group_size", row_group_size)
    sorting_columns = renamed("sorted_by", sorted_by, "sorting_columns", sorting_columns)
    columns: dict[str | None, dict[str, Any]] = {None: {}}
    spread(columns, "compression", compression, lambda codec: "none" if codec is None else codec)
    spread_levels(columns, compression_level)
    if use_dictionary is not None:
        if dictionary is not None:
            raise ValueError("dictionary, use_dictionary: give one of them")
        dictionary = as_pyarrow_has_it(columns, use_dictionary)
    if isinstance(dictionary, Mapping) or dictionary is None or isinstance(dictionary, bool):
        spread(columns, "dictionary", dictionary, lambda is_one: is_one)
    else:
        spread(columns, "dictionary", dict.fromkeys(names("dictionary", dictionary), True), bool)
        columns[None]["dictionary"] = False
    if column_encoding is not None:
        if encoding is not None:
            raise ValueError("encoding, column_encoding: give one of them")
        spread(columns, "encoding", column_encoding, str.lower)
    if encoding is not None:
        spread(columns, "encoding", encoding, str)
    if write_statistics is not None:
        if statistics is not True:
            raise ValueError("statistics, write_statistics: give one of them")
        statistics = write_statistics if isinstance(write_statistics, bool) else "none"
        if not isinstance(write_statistics, bool):
            with_statistics = dict.fromkeys(names("write_statistics", write_statistics), "page")
            spread(columns, "statistics", with_statistics, str)
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
        "row_group_size": row_group_size,
        "row_group_bytes": row_group_bytes,
        "data_page_size": data_page_size,
        "max_rows_per_page": max_rows_per_page,
        "max_file_bytes": max_file_bytes,
        "data_page_version": data_page_version,
        "sorting_columns": [sorting(column) for column in names("sorting_columns", sorting_columns)],
        "metadata": None if metadata is None else list(metadata.items()),
        "sink": sink,
        "durability": durability,
        "memory": memory,
        "threads": threads,
        **placement(mode, overwrite, max_file_bytes, partition_by),
    }
    if partition_by is not None:
        given["partition_by"] = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    rows, size, row_groups, files = _stylobate.write_parquet(
        arrow_source(data, index, "write_parquet"),
        os.fspath(path),
        {name: value for name, value in given.items() if value is not None},
        None if storage_options is None else dict(storage_options),
        progress,
    )
    return Written(rows, size, row_groups, files)


def spread(
    columns: dict[str | None, dict[str, Any]], option: str, given: Any, value: Callable[[Any], Any]
) -> None:
    """Notes an option of all columns, or of those that a dictionary names."""
    if isinstance(given, Mapping):
        for column, own in given.items():
            columns.setdefault(column, {})[option] = value(own)
    else:
        columns[None][option] = value(given)


def spread_levels(columns: dict[str | None, dict[str, Any]], level: int | Mapping[str, int] | None) -> None:
    """Adds levels to the codecs that were noted."""
    if isinstance(level, Mapping):
        usual = columns[None].get("compression", "snappy")
        for column, own in level.items():
            codec = columns.setdefault(column, {}).get("compression", usual)
            columns[column]["compression"] = with_level(codec, own)
    elif level is not None:
        for noted in columns.values():
            if "compression" in noted:
                noted["compression"] = with_level(noted["compression"], level)


def with_level(codec: str, level: int) -> str:
    """A codec with its level."""
    if "(" in codec:
        raise ValueError(f"compression_level: {codec!r} has a level already")
    return f"{codec}({level})"


def as_pyarrow_has_it(
    columns: dict[str | None, dict[str, Any]], use_dictionary: bool | Sequence[str]
) -> bool | Mapping[str, None] | None:
    """pyarrow's `use_dictionary` as `dictionary`."""
    if isinstance(use_dictionary, bool):
        return None if use_dictionary else False
    columns[None]["dictionary"] = False
    return dict.fromkeys(names("use_dictionary", use_dictionary))


def sorting(column: str | tuple[str, ...]) -> tuple[str, bool, bool]:
    """A column that rows are sorted by: its name, whether it descends, and whether nulls come first."""
    name, *words = (column,) if isinstance(column, str) else column
    for word in words:
        one_of("sorting_columns", word, ("ascending", "descending", "nulls_first", "nulls_last"))
    return name, "descending" in words, "nulls_first" in words


def names(option: str, given: Sequence[Any]) -> list[Any]:
    """A list; a single text is a mistake."""
    if isinstance(given, str):
        raise TypeError(f"{option}: give a list, such as [{given!r}]")
    return list(given)
