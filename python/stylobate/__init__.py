"""Scans of Parquet and ORC files on object storage, through a cache of decoded columns; and such files, written.

    >>> import stylobate as st
    >>> scan = st.scan("trips.parquet", columns=["city", "fare"], filter=st.col("fare") < 10)
    >>> scan.to_arrow().to_pydict()
    {'city': ['Oslo', 'Oslo'], 'fare': [7.5, 9.0]}

A `Scan` is read by whatever reads Arrow streams: pyarrow, pandas, Polars, DuckDB. Values that repeat stay the
dictionary that the file stored them as, and filters run where the data is. What is read again comes from a
`Cache`, which all scans of a process share unless they are given another.

`write_parquet` and `write_orc` write whatever gives Arrow data, and keep its dictionaries. `generate_tpch`,
`generate_tpcds` and `generate_snb` make the tables of benchmarks, as files or as streams.

`sql` runs SQL on files, scans and Arrow data; a `Query` is read as a scan is.

`scan_csv`, `scan_json` and `scan_ipc` read CSV, JSON lines and Arrow IPC files, as `scan` does by their endings.

`open_graph` opens a graph in the GraphAr format, whose chunks share that cache; `write_graph` writes one. `GraphStore` is
a graph that can be changed.

`Node` is a storage node inside this process, `StylobateFileSystem` a file system for fsspec. `cluster` tells which node of
a cluster is home of what.
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
from stylobate.scan import Scan, col, scan
from stylobate.sequential import scan_csv, scan_ipc, scan_json
from stylobate.sql import Query, sql
from stylobate.store_results import Collected, Compacted, Loaded, LogEntry, Verification
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
    "Collected",
    "Column",
    "ColumnNotFoundError",
    "Compacted",
    "ConfigError",
    "ConflictError",
    "CorruptFileError",
    "Edges",
    "Expr",
    "FilterError",
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
    # fsspec is needed by those only who ask for the file system.
    if name == "StylobateFileSystem":
        optional.needed("fsspec", name, "fsspec")
        from stylobate.filesystem import StylobateFileSystem

        return StylobateFileSystem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
