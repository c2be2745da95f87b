"""`generate_tpch`, `generate_tpcds` and `generate_snb`: generators of benchmark tables, and their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from stylobate import _optional as optional
from stylobate import _stylobate
from stylobate._stylobate import Schema
from stylobate.rows import Rows
from stylobate.scan import Path
from stylobate.write_target import renamed

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Generated", "GeneratedFile", "GeneratedTable", "generate_snb", "generate_tpcds", "generate_tpch"]


@dataclass(frozen=True)
class GeneratedFile:
    """A generated file: its `path` or URL, `table`, `part` number, `rows` and `bytes`."""

    path: str
    table: str
    part: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Generated:
    """Result of a generator: the `files`, including those that an earlier run completed."""

    files: list[GeneratedFile]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The size of all files in bytes."""
        return sum(file.bytes for file in self.files)


class GeneratedStream:
    """Row source of a generated table, as an Arrow stream."""

    def __init__(self, table: _stylobate.GeneratedTable) -> None:
        self._table = table

    @property
    def schema(self) -> Schema:
        return self._table.schema

    def collect(self) -> _stylobate.GeneratedTable:
        return self._table

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        return iter(optional.pyarrow("batches").RecordBatchReader.from_stream(self._table))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class GeneratedTable(Rows):
    """A benchmark table, generated again on each read.

    Like a `Scan`, it is an Arrow stream, which pyarrow, pandas, Polars and DuckDB read.

    >>> import stylobate as st
    >>> nation = st.generate_tpch(0.01, tables="nation")["nation"]
    >>> nation.to_pandas().shape, sum(batch.num_rows for batch in nation.batches())
    ((25, 4), 25)
    """

    def __init__(self, table: _stylobate.GeneratedTable) -> None:
        self._source = GeneratedStream(table)
        self._name = table.name

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._name

    def __repr__(self) -> str:
        return f"GeneratedTable({self._name!r})"


@overload
def generate_tpch(
    scale_factor: float = 1,
    output: None = None,
    *,
    tables: str | Sequence[str] | None = None,
    parts: int = 1,
    part: int | None = None,
    threads: int | None = None,
) -> dict[str, GeneratedTable]: ...
@overload
def generate_tpch(
    scale_factor: float,
    output: Path,
    *,
    tables: str | Sequence[str] | None = None,
    parts: int = 1,
    part: int | None = None,
    format: Literal["parquet", "orc", "csv", "arrow"] = "parquet",
    compression: str | None = None,
    row_group_size: int | None = None,
    sink: Literal["auto", "thread", "io_uring", "io_uring_direct"] = "auto",
    durability: Literal["fsync", "none"] = "fsync",
    overwrite: bool = False,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    row_group_rows: int | None = None,
) -> Generated: ...
def generate_tpch(
    scale_factor: float = 1, output: Path | None = None, **given: Any
) -> Generated | dict[str, GeneratedTable]:
    """Generates the eight tables of TPC-H: files in `output`, or streams without it.

    By default each table is one snappy-compressed Parquet file. `manifest.json` next to the files holds row counts and
    checksums. Repeating an interrupted call generates the missing files. Rows do not depend on the number of threads.
    Repeated strings are dictionary-encoded; decimals and dates have the types of the benchmark.

    Args:
        scale_factor: Scale factor: 1 is about 1 GB of text. The minimum is 0.001. Default: 1.
        output: Folder, which is created if missing, or URL (`s3://`, `gs://` or `az://`) of the files. Default: none,
            the tables are returned as Arrow streams by name.
        tables: Names of the tables to generate. Default: all.
        parts: Number of parts of each table, one file each. Default: 1.
        part: Number of the only part to generate, from 1. Default: all parts.
        format: `"parquet"`, `"orc"`, `"csv"` or `"arrow"` (Arrow IPC). Default: `"parquet"`.
        compression: Codec of Parquet and ORC files, such as `"snappy"` or `"zstd(3)"`; see `write_parquet` and
            `write_orc`.
        row_group_size: Maximum rows per row group of Parquet files. Default: 1,048,576.
        sink: Writer of local files: `"auto"`, `"thread"`, `"io_uring"` or `"io_uring_direct"`. Default: `"auto"`.
        durability: `"fsync"`: files survive a power loss; `"none"`: only the end of the process. Default: `"fsync"`.
        overwrite: Whether to start over and replace existing files. Those of the same tables that only the old manifest
            lists are removed at the end. Default: False.
        threads: Number of threads that generate rows, and of threads that encode them. Default: one per core.
        storage_options: Options of the store, as for `scan`.
        progress: Function that is called periodically and at the end with the rows and bytes so far. An exception in it
            ends the operation.
        row_group_rows: Deprecated name of `row_group_size`.

    Raises:
        AlreadyExistsError: The folder has other contents.
        ConfigError: The scale factor, part or table does not exist.
        StorageError: The disk is full, or the store refused the write.

    >>> import stylobate as st
    >>> made = st.generate_tpch(0.01, "tpch", tables=["nation", "supplier"])
    >>> sorted((file.table, file.rows) for file in made.files)
    [('nation', 25), ('supplier', 100)]
    >>> import pyarrow as pa
    >>> pa.table(st.generate_tpch(0.01, tables="nation")["nation"]).num_rows
    25
    """
    return generated("tpch", scale_factor, output, given)


@overload
def generate_tpcds(
    scale_factor: float = 1,
    output: None = None,
    *,
    tables: str | Sequence[str] | None = None,
    parts: int = 1,
    part: int | None = None,
    threads: int | None = None,
) -> dict[str, GeneratedTable]: ...
@overload
def generate_tpcds(
    scale_factor: float,
    output: Path,
    *,
    tables: str | Sequence[str] | None = None,
    parts: int = 1,
    part: int | None = None,
    format: Literal["parquet", "orc", "csv", "arrow"] = "parquet",
    compression: str | None = None,
    row_group_size: int | None = None,
    sink: Literal["auto", "thread", "io_uring", "io_uring_direct"] = "auto",
    durability: Literal["fsync", "none"] = "fsync",
    overwrite: bool = False,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    row_group_rows: int | None = None,
) -> Generated: ...
def generate_tpcds(
    scale_factor: float = 1, output: Path | None = None, **given: Any
) -> Generated | dict[str, GeneratedTable]:
    """Generates the 24 tables of TPC-DS and `dbgen_version`: files in `output`, or streams without it.

    Arguments and results are those of `generate_tpch`. TPC-DS defines the scale factors 1, 10, 100 and so on; between
    them table sizes grow in steps.

    >>> import stylobate as st
    >>> st.generate_tpcds(1, "tpcds", tables=["store", "warehouse"]).rows
    17
    """
    return generated("tpcds", scale_factor, output, given)


@overload
def generate_snb(
    scale_factor: float = 1,
    output: None = None,
    *,
    seed: int = 42,
    tables: str | Sequence[str] | None = None,
    parts: int = 1,
    part: int | None = None,
    threads: int | None = None,
) -> dict[str, GeneratedTable]: ...
@overload
def generate_snb(
    scale_factor: float,
    output: Path,
    *,
    seed: int = 42,
    tables: str | Sequence[str] | None = None,
    parts: int = 1,
    part: int | None = None,
    format: Literal["parquet", "orc", "csv", "arrow"] = "parquet",
    compression: str | None = None,
    row_group_size: int | None = None,
    sink: Literal["auto", "thread", "io_uring", "io_uring_direct"] = "auto",
    durability: Literal["fsync", "none"] = "fsync",
    overwrite: bool = False,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    row_group_rows: int | None = None,
) -> Generated: ...
def generate_snb(
    scale_factor: float = 1, output: Path | None = None, **given: Any
) -> Generated | dict[str, GeneratedTable]:
    """Generates the seven tables of a social network, a benchmark for graph stores.

    Arguments and results are those of `generate_tpch`, except that CSV fields are separated by `|`, and that `seed`
    selects the network. Scale factor 1 has 10,000 `persons`, 100,000 `posts` and 50,000 `comments`; and as edges
    100,000 `knows`, 150,000 `has_creator`, 100,000 `likes` and 30,000 `reply_of`. The minimum is 0.001. Some pairs have
    parallel edges. Edges of `has_creator` start at posts and comments; those of `likes` and `reply_of` end at both. The
    same edges by endpoint type are in `post_has_creator`, `comment_has_creator`, `likes_post`, `likes_comment`,
    `reply_of_post` and `reply_of_comment`, which are generated only if `tables` names them.

    >>> import stylobate as st
    >>> import pyarrow as pa
    >>> likes = pa.table(st.generate_snb(0.01)["likes"])
    >>> likes.num_rows, likes.column_names
    (1000, ['src', 'dst', 'creationDate'])
    >>> st.generate_snb(0.01, "snb", seed=7, format="csv").rows
    5400
    """
    return generated("snb", scale_factor, output, given)


FOR_STREAMS = {"tables", "parts", "part", "threads"}
FOR_FILES = FOR_STREAMS | {
    "format", "compression", "row_group_size", "row_group_rows", "sink", "durability", "overwrite", "storage_options",
    "progress",
}  # fmt: skip


def generated(
    benchmark: str, scale_factor: float, output: Path | None, given: dict[str, Any]
) -> Generated | dict[str, GeneratedTable]:
    known = FOR_STREAMS if output is None else FOR_FILES
    if benchmark == "snb":
        known = known | {"seed"}
    for name in given:
        if name not in known:
            where = "" if name not in FOR_FILES else " without output"
            raise TypeError(f"generate_{benchmark}() got an unexpected keyword argument {name!r}{where}")
    rows = given.pop("row_group_rows", None)
    given["row_group_size"] = renamed(
        "row_group_rows", rows, "row_group_size", given.get("row_group_size"), stacklevel=4
    )
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(given.get("tables"), str):
        given["tables"] = [given["tables"]]
    elif "tables" in given:
        given["tables"] = list(given["tables"])
    if output is None:
        tables = _stylobate.GeneratedTable.all(benchmark, scale_factor, **given)
        return {table.name: GeneratedTable(table) for table in tables}
    storage_options = given.pop("storage_options", None)
    progress = given.pop("progress", None)
    store = None if storage_options is None else dict(storage_options)
    files = _stylobate.generate(benchmark, scale_factor, os.fspath(output), given, store, progress)
    return Generated([GeneratedFile(*file) for file in files])
