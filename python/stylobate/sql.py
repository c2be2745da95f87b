"""`sql` and what it gives: a `Query`, which runs again whenever it is read."""

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
"""A table of a query: paths, a file's bytes, a scan or other rows of this package, or what `write_parquet` takes."""

SHOWN = 60
"""How many letters of a query are shown."""


class Query(rows.Rows):
    """Rows of a SQL query, not computed yet. Made by `sql`, and computed again by each of its methods.

    Anything that reads Arrow streams (`__arrow_c_stream__`) takes it as it is, and pulls batches as it goes.

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
        """The names of the columns that come out."""
        return list(self._source.schema.names)

    def count(self) -> int:
        """The number of rows. The query runs to its end.

        >>> import stylobate as st
        >>> st.sql("SELECT DISTINCT city FROM 'trips.parquet'").count()
        2
        """
        return self._source.count()

    def to_polars(self) -> polars.DataFrame:
        """All rows as a data frame of Polars. Strings and bytes are views, as Polars stores them.

        >>> import stylobate as st
        >>> st.sql("SELECT * FROM 'trips.parquet'").to_polars().shape
        (5, 3)
        """
        return optional.polars("to_polars").DataFrame(self._source.collect(views=True))

    def __iter__(self) -> Iterator[pyarrow.RecordBatch | RecordBatch]:
        return self.batches()

    def __repr__(self) -> str:
        query = " ".join(self._query.split())
        shown = query if len(query) <= SHOWN else f"{query[:SHOWN]}…"
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
    """Plans a SQL query of files, scans and Arrow data. The engine is DataFusion; its reference of SQL is the manual.

    `FROM 'path'` reads files: a path or URL of Parquet, ORC, CSV, JSON or Arrow IPC files, a folder, or a pattern. Names
    are those of `tables`; names without double quotes are read in lower case. Conditions, columns and limits are pushed
    into scans, whose columns stay decoded in the cache. EXPLAIN before the query shows how.

    The query runs when its rows are read, and again with each read. Files are opened now, and again after ten seconds.

    Args:
        query: One SELECT, VALUES, EXPLAIN, DESCRIBE or SHOW.
        tables: Tables by name. Each is a path or a list of paths; a `Scan`, read with its columns, filter and types, or
            other rows of this package, such as a `Query`, read when the query is; the bytes of a file; or data that
            `write_parquet` takes, such as a table or a data frame, which is read once, now, and kept in memory.
        threads: At most so many threads, and partitions. Default: one for each core.
        spill: A folder for what does not fit into memory, in a folder of its own. Default: the system's temporary folder.
        storage_options: Options of the stores of paths, such as `region`, `endpoint` or `access_key_id`.
        cache: What to keep and find decoded columns in. Its memory is that of the query, too: queries of one cache may
            take three quarters of it together. Default: the one of `default_cache`.

    Raises:
        QueryError: The query is no SQL, names a column that is not there, or has types that do not fit.
        NotFoundError: A table or file is not there. The message says which there are.
        OutOfMemoryError: When it is read: the query needs more memory than the cache has, and cannot store more on disk.
        StylobateError: Anything else that went wrong; see the classes below it.

    >>> import stylobate as st
    >>> query = "SELECT city, sum(fare) AS fares FROM trips WHERE day > '2024-05-01' GROUP BY city ORDER BY city"
    >>> st.sql(query, {"trips": "trips.parquet"}).to_arrow().to_pylist()
    [{'city': 'Bergen', 'fares': 30.0}, {'city': 'Oslo', 'fares': 23.5}]
    >>> cheap = st.scan("trips.parquet", filter=st.col("fare") < 10)
    >>> tables = {"cheap": cheap, "cities": {"city": ["Oslo", "Bergen"]}}
    >>> st.sql("SELECT fare FROM cheap JOIN cities USING (city) ORDER BY fare", tables).to_arrow()["fare"].to_pylist()
    [7.5, 9.0]
    """
    given = [(name, *kind_of(table, cache)) for name, table in ({} if tables is None else tables).items()]
    source = LocalQuery(
        query,
        given,
        threads=None if threads is None else whole("threads", threads, 1),
        spill=spill,
        storage_options=None if storage_options is None else dict(storage_options),
        cache=cache,
    )
    return Query(source, query)


def kind_of(table: Any, cache: Cache | None) -> tuple[str, Any]:
    """A table as Rust takes it: its kind and value."""
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
    """Whether it is a list of paths, and of at least one."""
    is_list = isinstance(table, (list, tuple)) and len(table) > 0
    return is_list and all(isinstance(path, (str, os.PathLike)) for path in table)
