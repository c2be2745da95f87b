"""`write_orc`, which writes Arrow data to ORC files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from stylobate import _stylobate
from stylobate.scan import Path
from stylobate.write import Written, names, spread, with_level
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
    """Writes Arrow data to an ORC file, or with `max_file_bytes` or `partition_by`, to a folder of them.

    Rows are taken as they come, and not collected. A column of strings that arrives as a dictionary stays one: its
    codes are renumbered, and no string is looked at twice. Nothing appears under the path before all of it is
    written; after an error or Ctrl-C there is what was there before.

    Args:
        data: Whatever has `__arrow_c_stream__` or `__arrow_c_array__`: tables, batches and readers of
            pyarrow, frames of Polars and pandas, relations of DuckDB, a `scan`; and all else that `write_parquet`
            takes. Metadata of a field may say `varchar(n)` or `char(n)` under `orc.type`.
        path: A file, a folder, or a URL: `s3://`, `gs://`, `az://`, `http(s)://` or `file://`. Folders that
            are missing are made.
        compression: `"snappy"`, `"lz4"`, `"zstd"`, `"zlib"` or `"none"`, some with a level: `"zlib(9)"`.
        compression_level: The level, if `compression` names none.
        dictionary: Up to how many distinct values for each value a stripe stores strings as a dictionary:
            from 0, which is never and the same as `False`, to 1, which is always and the same as `True`.
            Names: these always and no others; or a dictionary of columns.
        dictionary_key_size_threshold: The same number for all columns, under pyarrow's name.
        bloom_filter_columns: Columns with bloom filters, or the false positive rate of each. Here and above, a field of
            a struct is `"address.city"`, the values of a list `"tags.item"`, of a map `"prices.key"` or
            `"prices.value"`.
        bloom_filter_fpp: The false positive rate of `bloom_filter_columns` that are given by name only. Default: 0.01.
        row_index_stride: Rows of a row group, which readers can leave out; 0 for a file without row index.
        stripe_size: Bytes of a stripe, encoded, after which the next begins. Default: 64 MiB.
        compression_block_size: Bytes that are compressed together. Default: 256 KiB.
        max_file_bytes: Bytes of a file, about, after which the next begins: `part-00000.orc` and so on.
        partition_by: Columns whose values name folders, `day=2024-05-01/part-00000.orc`, instead of being in the
            files. `scan` makes columns of them again.
        metadata: Pairs of texts for the file's footer.
        index: Whether the index of a frame of pandas becomes columns, as of `write_parquet`.
        sink: How local files are written.
        durability: `"fsync"`: the file survives a loss of power; `"none"`: the end of the process.
        mode: What becomes of files that are there, as of `write_parquet`: `"error"`, `"append"`, `"overwrite"` or
            `"overwrite_partitions"`.
        overwrite: Of one file, or of a folder by `max_file_bytes` alone: whether what is there is replaced, which is
            the default. With `partition_by` it is an old name of `mode="overwrite"` and `mode="error"`.
        memory: Bytes that may be used for what is being encoded. Default: 256 MiB.
        threads: Threads that encode columns. Default: one for each core.
        storage_options: Options of the store, as of `scan`.
        progress: Called now and then with the rows and bytes so far, and at the end. What it raises ends the
            work.
        stripe_bytes: An old name of `stripe_size`.
        compression_chunk_bytes: An old name of `compression_block_size`.

    Returns:
        What was written; its `row_groups` are the file's stripes.

    Raises:
        AlreadyExistsError: Something is there, and is not to be replaced.
        ColumnNotFoundError: An option names a column that the data does not have.
        UnsupportedError: ORC has no such type, or cannot hold a value.
        StorageError: The disk is full, the store refuses.
        StylobateError: Anything else that went wrong; see the classes below it.

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
        "row_index_stride": row_index_stride,
        "stripe_size": stripe_size,
        "compression_block_size": compression_block_size,
        "metadata": None if metadata is None else list(metadata.items()),
        "sink": sink,
        "durability": durability,
        "max_file_bytes": max_file_bytes,
        "memory": memory,
        "threads": threads,
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
