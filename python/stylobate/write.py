"""`write_parquet`, which writes Arrow data to Parquet files, and its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stylobate import _optional as optional
from stylobate import _stylobate
from stylobate.errors import ConfigError
from stylobate.scan import Path, whole
from stylobate.write_source import Data, arrow_source, is_instance
from stylobate.write_target import Mode, one_of, placement, renamed

if TYPE_CHECKING:
    import pyarrow.parquet

__all__ = ["Written", "write_parquet"]

Encoding: TypeAlias = (
    "Literal['plain', 'delta_binary_packed', 'delta_length_byte_array', 'delta_byte_array', 'byte_stream_split']"
)
Statistics: TypeAlias = "bool | Literal['none', 'chunk', 'page']"
Sorting: TypeAlias = "Sequence[str | tuple[str, ...] | pyarrow.parquet.SortingColumn]"


@dataclass(frozen=True)
class Written:
    """Result of a write: `rows`, `bytes` and `row_groups` of all `files`, which are paths or URLs."""

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
    """Writes Arrow data to a Parquet file; with `max_file_bytes` or `partition_by`, to a folder of files.

    Rows are streamed. A column that arrives dictionary-encoded stays so: its codes are written as they are. Files
    appear only when they are complete: after an error or Ctrl-C, the destination is unchanged.

    Args:
        data: Object with `__arrow_c_stream__` or `__arrow_c_array__`: a pyarrow table, batch or reader, a Polars or
            pandas data frame, a DuckDB relation, a `scan`. Also a Polars lazy frame, whose rows are written as they are
            computed; a pyarrow dataset or scanner; an iterator or generator of record batches, the first of which
            defines the schema. With pyarrow, also a dict of lists or arrays by column name; a list of dicts, one per
            row; or an iterator of them, the first 65,536 of which define the columns and their types.
        path: File, folder, or URL: `s3://`, `gs://`, `az://`, `http(s)://` or `file://`. Missing folders are created.
        compression: Codec: `"snappy"`, `"zstd"`, `"lz4"`, `"gzip"`, `"brotli"` or `"none"`; some take a level, as in
            `"zstd(3)"`. Like all column options, a mapping sets it by column, and other columns have the default.
            Default: `"snappy"`.
        compression_level: Compression level, or a mapping by column, if `compression` has none.
        dictionary: Columns to dictionary-encode. True: all; False: none; a list: these and no others; or a mapping by
            column. Default: columns that arrive dictionary-encoded, and others as long as the dictionary of a row group
            has at most 1 MiB.
        use_dictionary: pyarrow's form of `dictionary`. True: the default; False: none; a list: the default for these
            columns, and none for others.
        encoding: Encoding of values without a dictionary: `"plain"`, `"delta_binary_packed"` and so on, for the types
            that support it. A column with an encoding has no dictionary.
        column_encoding: The same under pyarrow's name, in lower or upper case.
        statistics: Minimum, maximum and null count. True or `"page"`: of row groups and pages; `"chunk"`: of row groups
            only; False: none. Default: True.
        write_statistics: pyarrow's form of `statistics`: True, False, or a list of columns.
        bloom_filter_columns: Columns with bloom filters, or a mapping of columns to false positive rates. Default rate:
            0.01.
        row_group_size: Maximum rows per row group. Default: 1,048,576.
        row_group_bytes: Approximate bytes at which the next row group is started. Default: 128 MiB.
        data_page_size: Approximate bytes before compression at which the next page is started. Default: 1 MiB.
        max_rows_per_page: Maximum rows per page. Default: 20,000.
        max_file_bytes: Approximate bytes at which the next file is started: `part-00000.parquet` and so on.
        partition_by: Columns that are stored in folder names, `day=2024-05-01/part-00000.parquet`, and not in the
            files. `scan` restores them.
        data_page_version: `"1.0"` or `"2.0"`, which does not compress the levels of pages. Default: `"1.0"`.
        sorting_columns: Columns that the rows are sorted by, which is not verified: names, or tuples of a name and
            `"descending"`, `"nulls_first"`; or pyarrow's `SortingColumn`, for data with a schema, such as a table or a
            data frame.
        metadata: Key-value pairs for the file footer and its Arrow schema; they take precedence over those of `data`.
        index: Whether to write the index of a pandas data frame as columns. Default: None, any index but a plain range,
            which is stored as metadata only.
        sink: Writer of local files: `"auto"`, `"thread"`, `"io_uring"` or `"io_uring_direct"`. Default: `"auto"`.
        durability: `"fsync"`: the file survives a power loss; `"none"`: only the end of the process. Default:
            `"fsync"`.
        mode: Handling of existing files. In a folder, `"error"` fails if there is any visible data file, the default
            with `partition_by`; `"append"` adds files, and is safe for several processes at once; `"overwrite"` removes
            files that earlier calls wrote, once the new ones are in place; `"overwrite_partitions"` does so only in
            folders that receive rows. Files of other writers are never replaced or removed, regardless of their names.
            For one file: `"error"` or `"overwrite"`.
        overwrite: Whether to replace an existing file, or the files of a folder with `max_file_bytes` alone. Default:
            True. With `partition_by`, deprecated: use `mode="overwrite"` or `mode="error"`.
        memory: Memory limit of the encoders of all files in bytes. Default: 256 MiB.
        threads: Number of threads that encode columns. Default: one per core.
        storage_options: Options of the store, as for `scan`.
        progress: Function that is called periodically and at the end with the rows and bytes so far. An exception in it
            ends the write.
        row_group_rows: Deprecated name of `row_group_size`.
        sorted_by: Deprecated name of `sorting_columns`.

    Raises:
        AlreadyExistsError: The destination exists and must not be replaced.
        ColumnNotFoundError: An option names a column that the data does not have.
        UnsupportedError: Parquet does not support a type.
        StorageError: The disk is full, or the store refused the write.
        StylobateError: Any other error; see its subclasses.

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
    source = arrow_source(data, index, "write_parquet")
    given: dict[str, Any] = {
        "columns": columns,
        "row_group_size": at_least("row_group_size", row_group_size, 1),
        "row_group_bytes": row_group_bytes,
        "data_page_size": data_page_size,
        "max_rows_per_page": at_least("max_rows_per_page", max_rows_per_page, 1),
        "max_file_bytes": max_file_bytes,
        "data_page_version": data_page_version,
        "sorting_columns": [sorting(column, source) for column in names("sorting_columns", sorting_columns)],
        "metadata": None if metadata is None else list(metadata.items()),
        "sink": sink,
        "durability": durability,
        "memory": memory,
        "threads": at_least("threads", threads, 1),
        **placement(mode, overwrite, max_file_bytes, partition_by),
    }
    if partition_by is not None:
        given["partition_by"] = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    rows, size, row_groups, files = _stylobate.write_parquet(
        source,
        os.fspath(path),
        {name: value for name, value in given.items() if value is not None},
        None if storage_options is None else dict(storage_options),
        progress,
    )
    return Written(rows, size, row_groups, files)


def at_least(name: str, value: int | None, minimum: int) -> int | None:
    """Checks that an option, if given, is an integer of at least `minimum`."""
    return None if value is None else whole(name, value, minimum)


def spread(
    columns: dict[str | None, dict[str, Any]], option: str, given: Any, value: Callable[[Any], Any]
) -> None:
    """Sets an option for all columns, or for the columns of a mapping."""
    if isinstance(given, Mapping):
        for column, own in given.items():
            columns.setdefault(column, {})[option] = value(own)
    else:
        columns[None][option] = value(given)


def spread_levels(columns: dict[str | None, dict[str, Any]], level: int | Mapping[str, int] | None) -> None:
    """Adds levels to the codecs of the columns."""
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
    """Returns a codec with its level."""
    if "(" in codec:
        raise ValueError(f"compression_level: {codec!r} has a level already")
    return f"{codec}({level})"


def as_pyarrow_has_it(
    columns: dict[str | None, dict[str, Any]], use_dictionary: bool | Sequence[str]
) -> bool | Mapping[str, None] | None:
    """Converts pyarrow's `use_dictionary` to `dictionary`."""
    if isinstance(use_dictionary, bool):
        return None if use_dictionary else False
    columns[None]["dictionary"] = False
    return dict.fromkeys(names("use_dictionary", use_dictionary))


def sorting(column: Any, source: Any) -> tuple[str, bool, bool]:
    """Returns the name of a sort column of the data, whether it is descending, and whether nulls come first."""
    if is_instance(column, "pyarrow.parquet", "SortingColumn"):
        return leaf_name(column.column_index, source), column.descending, column.nulls_first
    if not isinstance(column, (str, tuple, list)) or not column or not isinstance(column[0], str):
        wanted = "a name, a tuple of a name and words, or a SortingColumn"
        raise TypeError(f"sorting_columns: give {wanted}, not {column!r}")
    name, *words = (column,) if isinstance(column, str) else column
    for word in words:
        one_of("sorting_columns", word, ("ascending", "descending", "nulls_first", "nulls_last"))
    return name, "descending" in words, "nulls_first" in words


def leaf_name(at: int, source: Any) -> str:
    """Returns the name of a column by its index among the leaves of the schema, as Parquet counts them."""
    pyarrow = optional.pyarrow("a SortingColumn")
    schema = getattr(source, "schema", None)
    if is_instance(source, "pandas", "DataFrame"):
        schema = pyarrow.Schema.from_pandas(source)
    elif hasattr(source, "__arrow_c_schema__"):
        schema = pyarrow.schema(source)
    elif hasattr(schema, "__arrow_c_schema__"):
        schema = pyarrow.schema(schema)
    else:
        kind = type(source).__qualname__
        raise TypeError(f"sorting_columns: a {kind} has no schema: name the columns instead of giving their index")

    leaves = [name for field in schema for name in leaf_names(field.name, field.type, pyarrow.types)]
    if not 0 <= at < len(leaves):
        raise ConfigError(f"sorting_columns: there is no column {at}: the data has {len(leaves)}")
    return leaves[at]


def leaf_names(name: str, type: Any, types: Any) -> list[str]:
    """Returns the names of the leaves of a column."""
    if not types.is_nested(type):
        return [name]
    inner = [type.field(at) for at in range(type.num_fields)]
    return [leaf for field in inner for leaf in leaf_names(f"{name}.{field.name}", field.type, types)]


def names(option: str, given: Sequence[Any]) -> list[Any]:
    """Returns a list. Raises TypeError for a single value."""
    if isinstance(given, str):
        raise TypeError(f"{option}: give a list, such as [{given!r}]")
    if not isinstance(given, Iterable):
        raise TypeError(f"{option}: give a list, not {given!r}")
    return list(given)
