"""`write_graph`, which writes Arrow data of vertices and edges as a graph in the GraphAr format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stylobate import _stylobate
from stylobate.scan import Path, scan
from stylobate.sequential import graph_table
from stylobate.write_source import local

__all__ = ["WrittenGraph", "write_graph"]


@dataclass(frozen=True)
class WrittenGraph:
    """A graph that was written."""

    path: str
    """The file that describes it, for `open_graph`."""
    vertices: int
    edges: int
    bytes: int
    files: int


def write_graph(
    path: Path,
    *,
    name: str,
    vertices: Mapping[str, Any],
    edges: Mapping[tuple[str, str, str], Any] | None = None,
    format: Literal["parquet", "orc", "csv"] = "parquet",
    vertex_chunk_size: int | None = None,
    edge_chunk_size: int | None = None,
    compression: str | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    durability: Literal["fsync", "none"] = "fsync",
    temporary_folder: Path | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> WrittenGraph:
    """Writes a graph in the GraphAr format. Vertices have indexes in the order in which they come; edges are sorted
    into lists, on disk where they do not fit into memory.

    Nothing is a graph before all of it is written; after an error or Ctrl-C there is what was there before.

    Args:
        path: A folder, or a prefix of an object store. What describes the graph is `NAME.graph.yml` in it.
        name: The graph's name.
        vertices: By type, Arrow data or a path of Parquet, ORC, CSV, JSON or Arrow IPC files, or a dictionary: `data`;
            `delimiter` of a CSV file; `key`, the column by which edges name vertices;
            `primary`, the same where edges have indexes; `groups`, lists of columns that are stored together;
            `labels`, a column of lists of texts, or the names of columns of true and false; `chunk_size`, `format`.
        edges: By types `(source, edge, destination)`, the same, or a dictionary: `data`; `delimiter`; `source` and
            `destination`, the columns with the ends (`"src"` and `"dst"`); `by`, what these are: `"key"` or
            `"index"`; `directed`; `lists`, the orders that they are kept in (`["ordered_by_source",
            "ordered_by_dest"]`); `groups`, `chunk_size`, `format`.
        format: Of all files that have no other.
        vertex_chunk_size: Vertices of a chunk. Default: 262,144.
        edge_chunk_size: Edges of a chunk. Default: 4,194,304.
        compression: Of Parquet and ORC files, such as `"zstd(3)"`. Default: `"snappy"`, and `"zstd(3)"` for ORC.
        memory: For keys, edges that are being sorted, and encoders. Default: 1 GiB.
        threads: Threads that sort and encode. Default: one for each core.
        durability: `"none"` does not wait until a graph in a folder would survive a loss of power.
        temporary_folder: Where edges are sorted that do not fit into memory. Default: the system's.
        overwrite: Replaces graphs that are there. By default a place that is not empty is refused.
        storage_options: Options of the store.
        progress: Is called with the rows that were taken in and the bytes that were written; what it raises ends the
            work.

    Raises:
        AlreadyExistsError: Something is there.
        StylobateError: Anything else; the message names type, column and row.

    >>> import pyarrow as pa, stylobate as st
    >>> people = pa.table({"id": [7, 9], "name": ["Al", "Bo"]})
    >>> knows = pa.table({"src": [9, 9], "dst": [7, 9], "since": [2001, 2002]})
    >>> written = st.write_graph(
    ...     "friends",
    ...     name="friends",
    ...     vertices={"person": {"data": people, "key": "id"}},
    ...     edges={("person", "knows", "person"): knows},
    ...     overwrite=True,
    ... )
    >>> st.open_graph(written.path).edges("person", "knows", "person").neighbors([1])["neighbor"].to_pylist()
    [0, 1]
    """
    given: dict[str, Any] = {"format": format, "overwrite": overwrite, "durability": durability}
    sizes = {"vertex_chunk_size": vertex_chunk_size, "edge_chunk_size": edge_chunk_size}
    others = {"memory": memory, "threads": threads, "temporary_folder": temporary_folder}
    given |= {name: value for name, value in {**sizes, **others}.items() if value is not None}
    if compression is not None:
        given["orc_compression" if format == "orc" else "compression"] = compression
    file, *counts = _stylobate.write_graph(
        path,
        name,
        [(type, *parted(spec)) for type, spec in vertices.items()],
        [((source, edge, target), *parted(spec)) for (source, edge, target), spec in (edges or {}).items()],
        given,
        None if storage_options is None else dict(storage_options),
        progress,
    )
    shown = os.fsdecode(path)
    return WrittenGraph(f"{shown.rstrip('/')}/{file}", *counts)


def parted(spec: Any) -> tuple[Any, dict[str, Any]]:
    """Data and options."""
    if not isinstance(spec, Mapping):
        return table(spec, None), {}
    options = {name: plain(value) for name, value in spec.items() if value is not None}
    if "data" not in options:
        raise TypeError("a dictionary for vertices or edges needs data")
    delimiter = options.pop("delimiter", None)
    return table(options.pop("data"), delimiter), options


def table(data: Any, delimiter: str | None) -> Any:
    """Arrow data, or that of the files at a path."""
    if not isinstance(data, (str, os.PathLike)):
        return local(data)
    found = graph_table(data, {}, delimiter)
    return local(scan(data, dictionary=False)) if found is None else found


def plain(value: Any) -> Any:
    """Lists for any sequence that is no text."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value
