"""`generate_tpch`, `generate_tpcds` and `generate_snb`, which make the tables of benchmarks, and what they return."""

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
    """A file: its `path` or URL, its `table`, which `part` of it, its `rows` and `bytes`."""

    path: str
    table: str
    part: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Generated:
    """What was made: the `files`, also those that an earlier run had made already."""

    files: list[GeneratedFile]

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)


class GeneratedStream:
    """Where the rows of a generated table come from: an Arrow stream."""

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
    """A table of a benchmark, made again each time that it is read.

    Like a `Scan` it is an Arrow stream, which pyarrow, pandas, Polars and DuckDB read.

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
        """What it is called."""
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
    """Makes the eight tables of TPC-H: files in `output`, or without it streams.

    Files are Parquet with snappy unless something else is asked for, one for each table, with a manifest
    beside them: `manifest.json` holds row counts and checksums. The same call, repeated after it was
    interrupted, goes on with the files that are missing. Rows are the same whatever the number of threads.
    Repeated strings are dictionaries from the beginning, decimals and dates are what the benchmark says.

    Args:
        scale_factor: How large: at 1, about 1 GB of text. Fractions from 0.001 on.
        output: A folder, which is made if it is missing, or a URL: `s3://`, `gs://` or `az://`. Without it,
            nothing is written: the tables are returned as Arrow streams, by name.
        tables: Only these.
        parts: Cut each table into so many parts, with a file for each.
        part: Make only this part, from 1.
        format: `"parquet"`, `"orc"`, `"csv"` or `"arrow"` (Arrow IPC).
        compression: Of Parquet and ORC: `"snappy"`, `"zstd(3)"` and so on; see `write_parquet` and `write_orc`.
        row_group_size: Of Parquet: rows of a row group at most. Default: 1,048,576.
        sink: How local files are written.
        durability: `"fsync"`: the files survive a loss of power; `"none"`: the end of the process.
        overwrite: Begin anew, and replace files that are there.
        threads: Threads that make rows, and as many that encode them. Default: one for each core.
        storage_options: Options of the store, as of `scan`.
        progress: Called now and then with the rows and bytes so far, and at the end. What it raises ends the
            work.
        row_group_rows: An old name of `row_group_size`.

    Raises:
        AlreadyExistsError: Something else is in the folder.
        ConfigError: There is no such scale, part or table.
        StorageError: The disk is full, the store refuses.

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
    """Makes the 24 tables of TPC-DS and `dbgen_version`: files in `output`, or without it streams.

    All is as with `generate_tpch`. TPC-DS defines the scales 1, 10, 100 and so on; between them its tables grow
    by leaps.

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
    """Makes the seven tables of a social network, as graph stores are measured with.

    All is as with `generate_tpch`, but that CSV has `|` between its fields, and that `seed` says which network is
    made. At scale 1 there are 10,000 `persons`, 100,000 `posts`, 50,000 `comments`, and as edges 100,000 `knows`,
    150,000 `has_creator`, 100,000 `likes` and 30,000 `reply_of`; fractions from 0.001 on. Some pairs have several
    edges. Edges of `has_creator` come from posts and comments, those of `likes` and `reply_of` lead to both: by
    type of their ends, the same are in `post_has_creator`, `comment_has_creator`, `likes_post`, `likes_comment`,
    `reply_of_post` and `reply_of_comment`, which are made where `tables` names them.

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
