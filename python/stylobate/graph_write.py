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
    """Result of `write_graph`."""

    path: str
    """Path of the graph info file, for `open_graph`."""
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
    """Writes a graph in the GraphAr format.

    Vertex indexes follow the order of the input rows. Edges are sorted into adjacency lists, on disk if they do not fit
    into memory. The graph appears only when it is complete: after an error or Ctrl-C, the destination is unchanged.

    Args:
        path: Folder, or prefix in an object store. The graph info file in it is `NAME.graph.yml`.
        name: Name of the graph.
        vertices: By vertex type: Arrow data, the path of a Parquet, ORC, CSV, JSON or Arrow IPC file, or a dictionary
            of `data` and options: `delimiter` of a CSV file; `key`, the column by which edges refer to vertices;
            `primary`, the primary key column if edges refer to vertices by index; `groups`, lists of columns that are
            stored together; `labels`, a column of lists of strings, or the names of boolean columns; `chunk_size`;
            `format`.
        edges: By `(source, edge, destination)`: data as above, or a dictionary of `data` and options: `delimiter`;
            `source` and `destination`, the columns of the endpoints (default: `"src"` and `"dst"`); `by`, what they
            hold: `"key"` or `"index"`; `directed`; `lists`, the orders to store (default:
            `["ordered_by_source", "ordered_by_dest"]`); `groups`; `chunk_size`; `format`.
        format: Format of files without one of their own. Default: `"parquet"`.
        vertex_chunk_size: Vertices per chunk. Default: 262,144.
        edge_chunk_size: Edges per chunk. Default: 4,194,304.
        compression: Codec of Parquet and ORC files, such as `"zstd(3)"`. Default: `"snappy"` for Parquet, `"zstd(3)"`
            for ORC.
        memory: Memory limit of keys, edge sorting and encoders in bytes. Default: 1 GiB.
        threads: Number of threads that sort and encode. Default: one per core.
        durability: `"fsync"`: returns when a graph in a folder survives a power loss; `"none"`: without waiting for
            that. Default: `"fsync"`.
        temporary_folder: Folder for sorting edges that do not fit into memory. Default: the system's.
        overwrite: Whether to replace existing graphs. Default: False, a destination that is not empty is an error.
        storage_options: Options of the store.
        progress: Function that is called with the rows read and the bytes written so far. An exception in it ends the
            write.

    Raises:
        AlreadyExistsError: The destination is not empty.
        StylobateError: Any other error. The message names the type, column and row.

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
    """Splits a specification into data and options."""
    if not isinstance(spec, Mapping):
        return table(spec, None), {}
    options = {name: plain(value) for name, value in spec.items() if value is not None}
    if "data" not in options:
        raise TypeError("a dictionary for vertices or edges needs data")
    delimiter = options.pop("delimiter", None)
    return table(options.pop("data"), delimiter), options


def table(data: Any, delimiter: str | None) -> Any:
    """Returns Arrow data, or the rows of the files at a path."""
    if not isinstance(data, (str, os.PathLike)):
        return local(data)
    found = graph_table(data, {}, delimiter)
    return local(scan(data, dictionary=False)) if found is None else found


def plain(value: Any) -> Any:
    """Converts sequences other than strings to lists, recursively."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value
