"""Reads and writes Parquet and ORC files on object storage, through a cache of decoded columns.

    >>> import stylobate as st
    >>> scan = st.scan("trips.parquet", columns=["city", "fare"], filter=st.col("fare") < 10)
    >>> scan.to_arrow().to_pydict()
    {'city': ['Oslo', 'Oslo'], 'fare': [7.5, 9.0]}

A `Scan` is an Arrow stream, which pyarrow, pandas, Polars and DuckDB read. Dictionary-encoded columns stay encoded, and
filters are pushed down to the files. Repeated reads are served from a `Cache`, which all scans of a process share by
default.

`write_parquet` and `write_orc` write any Arrow data, and preserve its dictionaries. `generate_tpch`, `generate_tpcds`
and `generate_snb` generate benchmark tables, as files or as streams.

`sql` runs SQL on files, scans and Arrow data, and returns a `Query`, which is read like a scan.

`scan_csv`, `scan_json` and `scan_ipc` read CSV, JSON lines and Arrow IPC files. `scan` selects them by file extension.

`open_graph` opens a graph in the GraphAr format, whose chunks share the cache; `write_graph` writes one. `GraphStore`
is a mutable graph.

`Node` is a storage node in this process. `StylobateFileSystem` is a file system for fsspec. `cluster` computes the
placement of objects on the nodes of a cluster.
"""

from typing import TYPE_CHECKING, Any

from stylobate import _optional as optional
from stylobate import cluster
from stylobate._stylobate import (
    Array,
    BatchIterator,
    Batches,
    Cache,
    Column,
    Expr,
    Node,
    ObjectFile,
    ObjectStoreReader,
    RecordBatch,
    Schema,
    __version__,
    default_cache,
    inspect,
    set_default_cache,
)
from stylobate.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    ConfigError,
    ConflictError,
    CorruptFileError,
    FilterError,
    InvalidDataError,
    NotFoundError,
    ObjectChangedError,
    OutOfMemoryError,
    QueryError,
    SchemaError,
    StorageError,
    StylobateError,
    UnsupportedError,
    WriterFencedError,
)
from stylobate.generate import (
    Generated,
    GeneratedFile,
    GeneratedTable,
    generate_snb,
    generate_tpcds,
    generate_tpch,
)
from stylobate.graph import Edges, Graph, Vertices, open_graph
from stylobate.graph_store import GraphStore
from stylobate.graph_write import WrittenGraph, write_graph
from stylobate.orc import write_orc
from stylobate.replay import Replay, replay
from stylobate.scan import Scan, col, scan
from stylobate.sequential import scan_csv, scan_ipc, scan_json
from stylobate.sql import Query, sql
from stylobate.store_results import Compacted, GcReport, Loaded, LogEntry, Verification
from stylobate.store_snapshot import Snapshot, StoreRows
from stylobate.store_traversal import PreparedTraversal, Traversal
from stylobate.store_writer import StoreWriter
from stylobate.write import Written, write_parquet

if TYPE_CHECKING:
    from stylobate.filesystem import StylobateFileSystem

__all__ = [
    "AlreadyExistsError",
    "Array",
    "BatchIterator",
    "Batches",
    "Cache",
    "Column",
    "ColumnNotFoundError",
    "Compacted",
    "ConfigError",
    "ConflictError",
    "CorruptFileError",
    "Edges",
    "Expr",
    "FilterError",
    "GcReport",
    "Generated",
    "GeneratedFile",
    "GeneratedTable",
    "Graph",
    "GraphStore",
    "InvalidDataError",
    "Loaded",
    "LogEntry",
    "Node",
    "NotFoundError",
    "ObjectChangedError",
    "ObjectFile",
    "ObjectStoreReader",
    "OutOfMemoryError",
    "PreparedTraversal",
    "Query",
    "QueryError",
    "RecordBatch",
    "Replay",
    "Scan",
    "Schema",
    "SchemaError",
    "Snapshot",
    "StorageError",
    "StoreRows",
    "StoreWriter",
    "StylobateError",
    "StylobateFileSystem",
    "Traversal",
    "UnsupportedError",
    "Verification",
    "Vertices",
    "WriterFencedError",
    "Written",
    "WrittenGraph",
    "__version__",
    "cluster",
    "col",
    "default_cache",
    "generate_snb",
    "generate_tpcds",
    "generate_tpch",
    "inspect",
    "open_graph",
    "replay",
    "scan",
    "scan_csv",
    "scan_ipc",
    "scan_json",
    "set_default_cache",
    "sql",
    "write_graph",
    "write_orc",
    "write_parquet",
]


def __getattr__(name: str) -> Any:
    # fsspec is imported only if the file system is used.
    if name == "StylobateFileSystem":
        optional.needed("fsspec", name, "fsspec")
        from stylobate.filesystem import StylobateFileSystem

        return StylobateFileSystem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
