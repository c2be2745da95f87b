"""`sql` and its result: a `Query`, which runs again on each read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from stylobate import _optional as optional
from stylobate import rows
from stylobate._stylobate import Cache, LocalQuery, RecordBatch
from stylobate.scan import Data, Path, is_data, located, scan, whole
from stylobate.write_source import Data as ArrowData
from stylobate.write_source import arrow_source

if TYPE_CHECKING:
    import polars
    import pyarrow

__all__ = ["Query", "sql"]

Table: TypeAlias = "Path | Data | Sequence[Path] | rows.Rows | ArrowData"
"""Table of a query: paths, the bytes of a file, a scan or other rows of this package, or an input of `write_parquet`.
"""

MAX_REPR_CHARS = 60
"""Maximum characters of a query in its `repr`."""


class Query(rows.Rows):
    """A lazy SQL query. Created by `sql`, and run again by each of its methods.

    Every consumer of Arrow streams (`__arrow_c_stream__`) accepts a query, and pulls batches on demand.

    >>> import stylobate as st
    >>> cheap = st.sql("SELECT city, fare FROM 'trips.parquet' WHERE fare < 10 ORDER BY fare")
    >>> cheap.columns
    ['city', 'fare']
    >>> cheap.to_arrow()["fare"].to_pylist()
    [7.5, 9.0]
    """

    def __init__(self, source: LocalQuery, query: str) -> None:
        self._source: LocalQuery = source
        self._query = query

    @property
    def columns(self) -> list[str]:
        """The names of the output columns."""
        return list(self._source.schema.names)

    def count(self) -> int:
        """Runs the query to its end, and counts its rows.

        >>> import stylobate as st
        >>> st.sql("SELECT DISTINCT city FROM 'trips.parquet'").count()
        2
        """
        return self._source.count()

    def to_polars(self) -> polars.DataFrame:
        """Reads all rows as a Polars data frame. Strings and bytes are views, the representation that Polars uses.

        >>> import stylobate as st
        >>> st.sql("SELECT * FROM 'trips.parquet'").to_polars().shape
        (5, 3)
        """
        return optional.polars("to_polars").DataFrame(self._source.collect(views=True))

    def __iter__(self) -> Iterator[pyarrow.RecordBatch | RecordBatch]:
        return self.batches()

    def __repr__(self) -> str:
        query = " ".join(self._query.split())
        shown = query if len(query) <= MAX_REPR_CHARS else f"{query[:MAX_REPR_CHARS]}…"
        return re.sub(r"://[^/@\s]*@", "://", f"Query({shown!r})")


def sql(
    query: str,
    tables: Mapping[str, Table] | None = None,
    *,
    threads: int | None = None,
    spill: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: Cache | None = None,
) -> Query:
    """Plans a SQL query over files, scans and Arrow data, in the SQL dialect of DataFusion.

    `FROM 'path'` reads files: the path or URL of a Parquet, ORC, CSV, JSON or Arrow IPC file, a folder, or a pattern.
    Other names are those of `tables`; unquoted names are folded to lower case. Filters, projections and limits are
    pushed down into scans, whose decoded columns are cached. EXPLAIN before the query shows the plan.

    Each read runs the query. Files are opened now, and reopened by reads more than ten seconds later.

    Args:
        query: One SELECT, VALUES, EXPLAIN, DESCRIBE or SHOW statement.
        tables: Tables by name. Each is a path or a list of paths; a `Scan`, with its columns, filter and types, or
            other rows of this package, such as a `Query`, read when the query is; the bytes of a file; or an input of
            `write_parquet`, such as a table or a data frame, which is read immediately and kept in memory.
        threads: Maximum number of threads, and of partitions. Default: one per core.
        spill: Folder in which a spill folder is created for data that does not fit into memory. Default: the system's
            temporary folder.
        storage_options: Options of the stores of paths, such as `region`, `endpoint` or `access_key_id`.
        cache: Cache of decoded columns; all queries of a cache together may use three quarters of its memory.
            Default: `default_cache()`.

    Raises:
        QueryError: The query is not valid SQL, names a column that does not exist, or has incompatible types.
        NotFoundError: A table or file does not exist. The message lists the existing tables.
        OutOfMemoryError: On read: the query needs more memory than the cache has, and cannot spill more to disk.
        StylobateError: Any other error; see its subclasses.

    >>> import stylobate as st
    >>> query = "SELECT city, sum(fare) AS fares FROM trips WHERE day > '2024-05-01' GROUP BY city ORDER BY city"
    >>> st.sql(query, {"trips": "trips.parquet"}).to_arrow().to_pylist()
    [{'city': 'Bergen', 'fares': 30.0}, {'city': 'Oslo', 'fares': 23.5}]
    >>> cheap = st.scan("trips.parquet", filter=st.col("fare") < 10)
    >>> tables = {"cheap": cheap, "cities": {"city": ["Oslo", "Bergen"]}}
    >>> st.sql("SELECT fare FROM cheap JOIN cities USING (city) ORDER BY fare", tables).to_arrow()["fare"].to_pylist()
    [7.5, 9.0]
    """
    given = [(name, *extension_table(table, cache)) for name, table in ({} if tables is None else tables).items()]
    source = LocalQuery(
        query,
        given,
        threads=None if threads is None else whole("threads", threads, 1),
        spill=spill,
        storage_options=None if storage_options is None else dict(storage_options),
        cache=cache,
    )
    return Query(source, query)


def extension_table(table: Any, cache: Cache | None) -> tuple[str, Any]:
    """Returns the kind and the value that the extension takes for a table."""
    if isinstance(table, rows.Rows):
        return "rows", table._source
    if is_data(table):
        return "rows", scan(table, cache=cache)._source
    if isinstance(table, (str, os.PathLike)):
        return "paths", [located(table)]
    if is_list_of_paths(table):
        return "paths", [located(path) for path in table]
    return "data", arrow_source(table, None, "sql")


def is_list_of_paths(table: Any) -> bool:
    """Returns whether the value is a non-empty list or tuple of paths."""
    is_list = isinstance(table, (list, tuple)) and len(table) > 0
    return is_list and all(isinstance(path, (str, os.PathLike)) for path in table)
