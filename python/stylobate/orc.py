"""`write_orc`, which writes Arrow data to ORC files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from stylobate import _stylobate
from stylobate.scan import Path
from stylobate.write import Written, at_least, names, spread, with_level
from stylobate.write_source import Data, arrow_source
from stylobate.write_target import Mode, one_of, placement, renamed

__all__ = ["write_orc"]


def write_orc(
    data: Data,
    path: Path,
    *,
    compression: str | None = "zstd",
    compression_level: int | None = None,
    dictionary: bool | float | Sequence[str] | Mapping[str, bool | float] = 0.8,
    dictionary_key_size_threshold: float | None = None,
    bloom_filter_columns: Sequence[str] | Mapping[str, float] = (),
    bloom_filter_fpp: float | None = None,
    row_index_stride: int = 10_000,
    stripe_size: int | str | None = None,
    compression_block_size: int | str | None = None,
    max_file_bytes: int | str | None = None,
    partition_by: str | Sequence[str] | None = None,
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
    stripe_bytes: int | str | None = None,
    compression_chunk_bytes: int | str | None = None,
) -> Written:
    """Writes Arrow data to an ORC file; with `max_file_bytes` or `partition_by`, to a folder of files.

    Rows are streamed. A string column that arrives dictionary-encoded stays so: its codes are remapped, and each string
    is read only once. Files appear only when they are complete: after an error or Ctrl-C, the destination is unchanged.

    Args:
        data: Object with `__arrow_c_stream__` or `__arrow_c_array__`: a pyarrow table, batch or reader, a Polars or
            pandas data frame, a DuckDB relation, a `scan`; or any other input of `write_parquet`. The metadata key
            `orc.type` of a field may be `varchar(n)` or `char(n)`.
        path: File, folder, or URL: `s3://`, `gs://`, `az://`, `http(s)://` or `file://`. Missing folders are created.
        compression: Codec: `"snappy"`, `"lz4"`, `"zstd"`, `"zlib"` or `"none"`; some take a level, as in `"zlib(9)"`.
            Default: `"zstd"`.
        compression_level: Compression level, if `compression` has none.
        dictionary: Maximum ratio of distinct values to values at which a stripe stores strings as a dictionary: from 0
            or False (never) to 1 or True (always). A list names the columns that always have a dictionary, and no
            others do; a mapping sets the ratio by column. Default: 0.8.
        dictionary_key_size_threshold: The same ratio for all columns, under pyarrow's name.
        bloom_filter_columns: Columns with bloom filters, or a mapping of columns to false positive rates. Here and
            above, `"address.city"` is a field of a struct, `"tags.item"` the values of a list, `"prices.key"` and
            `"prices.value"` those of a map.
        bloom_filter_fpp: False positive rate of the columns in `bloom_filter_columns` without one. Default: 0.01.
        row_index_stride: Rows per row group, the unit that readers can skip; 0 writes no row index. Default: 10,000.
        stripe_size: Target bytes of a stripe, encoded. Default: 64 MiB.
        compression_block_size: Bytes per compression block. Default: 256 KiB.
        max_file_bytes: Approximate bytes at which the next file is started: `part-00000.orc` and so on.
        partition_by: Columns that are stored in folder names, `day=2024-05-01/part-00000.orc`, and not in the files.
            `scan` restores them.
        metadata: Key-value pairs for the file footer.
        index: Whether to write the index of a pandas data frame, as in `write_parquet`.
        sink: Writer of local files: `"auto"`, `"thread"`, `"io_uring"` or `"io_uring_direct"`. Default: `"auto"`.
        durability: `"fsync"`: the file survives a power loss; `"none"`: only the end of the process. Default:
            `"fsync"`.
        mode: Handling of existing files, as in `write_parquet`: `"error"`, `"append"`, `"overwrite"` or
            `"overwrite_partitions"`.
        overwrite: Whether to replace an existing file, or the files of a folder with `max_file_bytes` alone. Default:
            True. With `partition_by`, deprecated: use `mode="overwrite"` or `mode="error"`.
        memory: Memory limit of encoders in bytes. Default: 256 MiB.
        threads: Number of threads that encode columns. Default: one per core.
        storage_options: Options of the store, as for `scan`.
        progress: Function that is called periodically and at the end with the rows and bytes so far. An exception in it
            ends the write.
        stripe_bytes: Deprecated name of `stripe_size`.
        compression_chunk_bytes: Deprecated name of `compression_block_size`.

    Returns:
        The counts and files that were written. `row_groups` is the number of stripes.

    Raises:
        AlreadyExistsError: The destination exists and must not be replaced.
        ColumnNotFoundError: An option names a column that the data does not have.
        UnsupportedError: ORC does not support a type or a value.
        StorageError: The disk is full, or the store refused the write.
        StylobateError: Any other error; see its subclasses.

    >>> import pyarrow as pa, stylobate as st
    >>> trips = pa.table({"city": ["Oslo", "Bergen", "Oslo"], "fare": [7.5, 30.0, 9.0]})
    >>> st.write_orc(trips, "new.orc", bloom_filter_columns=["city"]).rows
    3
    >>> st.scan("new.orc", filter="city = 'Oslo'").to_arrow()["fare"].to_pylist()
    [7.5, 9.0]
    """
    stripe_size = renamed("stripe_bytes", stripe_bytes, "stripe_size", stripe_size)
    compression_block_size = renamed(
        "compression_chunk_bytes", compression_chunk_bytes, "compression_block_size", compression_block_size
    )
    columns: dict[str | None, dict[str, Any]] = {None: {}}
    if dictionary_key_size_threshold is not None:
        if dictionary != 0.8:
            raise ValueError("dictionary, dictionary_key_size_threshold: give one of them")
        dictionary = dictionary_key_size_threshold
    if isinstance(dictionary, (bool, int, float, Mapping)):
        spread(columns, "dictionary_threshold", dictionary, float)
    else:
        always = dict.fromkeys(names("dictionary", dictionary), 1)
        spread(columns, "dictionary_threshold", always, float)
        columns[None]["dictionary_threshold"] = 0.0
    if not isinstance(bloom_filter_columns, Mapping):
        rate = 0.01 if bloom_filter_fpp is None else bloom_filter_fpp
        bloom_filter_columns = dict.fromkeys(names("bloom_filter_columns", bloom_filter_columns), rate)
    elif bloom_filter_fpp is not None:
        raise ValueError("bloom_filter_fpp: bloom_filter_columns has a rate for each column already")
    spread(columns, "bloom_filter", bloom_filter_columns, float)
    one_of("durability", durability, ("fsync", "none"))
    codec = "none" if compression is None else compression
    given: dict[str, Any] = {
        "columns": columns,
        "compression": codec if compression_level is None else with_level(codec, compression_level),
        "row_index_stride": at_least("row_index_stride", row_index_stride, 0),
        "stripe_size": stripe_size,
        "compression_block_size": compression_block_size,
        "metadata": None if metadata is None else list(metadata.items()),
        "sink": sink,
        "durability": durability,
        "max_file_bytes": max_file_bytes,
        "memory": memory,
        "threads": at_least("threads", threads, 1),
        **placement(mode, overwrite, max_file_bytes, partition_by),
    }
    if partition_by is not None:
        given["partition_by"] = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    rows, size, stripes, files = _stylobate.write_orc(
        arrow_source(data, index, "write_orc"),
        os.fspath(path),
        {name: value for name, value in given.items() if value is not None},
        None if storage_options is None else dict(storage_options),
        progress,
    )
    return Written(rows, size, stripes, files)
