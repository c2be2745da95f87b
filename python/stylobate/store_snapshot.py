"""`Snapshot`: an immutable version of a graph store."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from stylobate import _html
from stylobate._arrow import array, numbers, table
from stylobate._stylobate import LocalEdgeView, LocalSnapshot, LocalStoreScan, LocalTraversal, LocalVertexView
from stylobate.filters import Filter
from stylobate.graph import Direction
from stylobate.graph_write import WrittenGraph
from stylobate.rows import Rows
from stylobate.scan import Path, column_names
from stylobate.store_data import Edge, edge_name, shown_schema
from stylobate.store_results import LogEntry, Verification, log_entry
from stylobate.store_traversal import Traversal, plain_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Snapshot", "StoreRows"]

# Maximum views and plans of each kind that a snapshot caches.
KEPT = 256


class StoreRows(Rows):
    """The vertices or edges of a version, all of them or those that match a filter, read on demand."""

    def __init__(self, source: LocalStoreScan) -> None:
        self._source: LocalStoreScan = source


class Snapshot:
    """An immutable version of a graph store, from `GraphStore.snapshot`.

    Later commits do not affect it. While it is referenced, `GraphStore.gc` of the same store object retains its files.

    A vertex has a key, one of its properties, and an index, which the store assigned. Access by key needs a lookup,
    access by index does not. Results are pyarrow tables; without pyarrow, Arrow record batches.

    >>> import stylobate as st
    >>> snapshot = st.GraphStore.open("network").snapshot()
    >>> snapshot.vertex_count("Person"), snapshot.edge_count("KNOWS")
    (3, 3)
    >>> snapshot.out_edges("KNOWS", key=7).to_pydict()
    {'neighbor': [1, 2], 'since': [2001, 2020]}
    """

    def __init__(self, local: LocalSnapshot) -> None:
        self._local = local
        self._vertex_types, self._edge_types = local.schema()
        self._vertex_views: dict[Hashable, LocalVertexView] = {}
        self._edge_views: dict[Hashable, LocalEdgeView] = {}
        self._plans: dict[Hashable, LocalTraversal] = {}

    @property
    def version(self) -> int:
        """The version number."""
        return self._local.version

    @property
    def entry(self) -> LogEntry:
        """The log entry of the version."""
        return log_entry(self._local.entry())

    @property
    def schema(self) -> dict[str, Any]:
        """The vertex and edge types, in the form that `GraphStore.create` takes.

        >>> import stylobate as st
        >>> st.GraphStore.open("network").snapshot().schema["edges"]
        {('Person', 'KNOWS', 'Person'): {'since': 'int64'}}
        """
        return shown_schema(self._vertex_types, self._edge_types)

    def vertex_count(self, type: str) -> int:
        """Returns the number of vertices of a type."""
        return self._local.vertex_count(type)

    def index_count(self, type: str) -> int:
        """Returns the number of indexes assigned to vertices of a type. Indexes of deleted vertices are never reused.
        """
        return self._local.index_count(type)

    def edge_count(self, edge: Edge) -> int:
        """Returns the number of edges of a type."""
        return self._local.edge_count(edge_name(edge))

    # Vertices

    def vertices(
        self,
        type: str,
        *,
        ids: Any = None,
        keys: Any = None,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
    ) -> Any:
        """Reads vertices of a type. The columns are `_index`, then the properties.

        With `ids` (indexes) or `keys`, returns these vertices, in this order, with repetitions; otherwise all vertices,
        or those that match `filter`.

        >>> import stylobate as st
        >>> snapshot = st.GraphStore.open("network").snapshot()
        >>> snapshot.vertices("Person", keys=[9, 7], columns=["name"]).to_pydict()
        {'_index': [2, 0], 'name': ['Cy', 'Al']}
        >>> snapshot.vertices("Person", columns=["name"], filter=st.col("id") < 9).to_pydict()
        {'_index': [0, 1], 'name': ['Al', 'Bo']}
        """
        if ids is None and keys is None:
            return self.scan_vertices(type, columns=columns, filter=filter).to_arrow()
        if filter is not None:
            raise TypeError("vertices: give ids or keys, or a filter")
        view = self._vertex_view(type, columns)
        if keys is None:
            return table(view.take(numbers(ids)))
        if ids is not None:
            raise TypeError("vertices: give ids or keys")
        return table(view.by_keys(plain_keys(keys)))

    def scan_vertices(
        self, type: str, *, columns: Sequence[str] | None = None, filter: Filter | None = None
    ) -> StoreRows:
        """Scans the vertices of a type, or those that match a filter, batch by batch.

        The columns are `_index`, then the properties. The filter may use properties that are not selected.
        """
        names = None if columns is None else column_names(columns)
        return StoreRows(self._local.scan("vertices", type, names, filter))

    def find(self, type: str, keys: Any) -> Any:
        """Returns the vertex index of each key; null if there is no such vertex.

        >>> import stylobate as st
        >>> st.GraphStore.open("network").snapshot().find("Person", [9, 5]).to_pylist()
        [2, None]
        """
        return array(self._vertex_view(type, ()).find(plain_keys(keys)))

    # Edges

    def scan_edges(
        self, edge: Edge, *, columns: Sequence[str] | None = None, filter: Filter | None = None
    ) -> StoreRows:
        """Scans the edges of a type, or those that match a filter, batch by batch.

        The columns are `src` and `dst`, the indexes of the endpoints, then the properties.
        """
        names = None if columns is None else column_names(columns)
        return StoreRows(self._local.scan("edges", edge_name(edge), names, filter))

    def edges(
        self, edge: Edge, *, columns: Sequence[str] | None = None, filter: Filter | None = None
    ) -> Any:
        """Reads the rows of `scan_edges` as a table.

        >>> import stylobate as st
        >>> snapshot = st.GraphStore.open("network").snapshot()
        >>> snapshot.edges("KNOWS", filter=st.col("since") >= 2010).to_pydict()
        {'src': [0, 1], 'dst': [2, 2], 'since': [2020, 2010]}
        """
        return self.scan_edges(edge, columns=columns, filter=filter).to_arrow()

    def out_edges(
        self, edge: Edge, id: int | None = None, *, key: Any = None, columns: Sequence[str] | None = None
    ) -> Any:
        """Reads the outgoing edges of a vertex, given by index or key. The columns are `neighbor`, then the properties.
        """
        return table(self._edge_view(edge, columns).around(self._index(edge, "out", id, key), "out"))

    def in_edges(
        self, edge: Edge, id: int | None = None, *, key: Any = None, columns: Sequence[str] | None = None
    ) -> Any:
        """Reads the incoming edges of a vertex, given by index or key. The columns are `neighbor`, then the properties.
        """
        return table(self._edge_view(edge, columns).around(self._index(edge, "in", id, key), "in"))

    def edge_lookup(
        self,
        edge: Edge,
        source: Any,
        destination: Any,
        *,
        by: str = "index",
        columns: Sequence[str] | None = None,
    ) -> Any:
        """Reads the edges from one vertex to another: none, one, or several parallel ones.

        The vertices are given by index, or with `by="key"` by key.

        >>> import stylobate as st
        >>> snapshot = st.GraphStore.open("network").snapshot()
        >>> snapshot.edge_lookup("KNOWS", 7, 9, by="key")["since"].to_pylist()
        [2020]
        """
        if by not in ("index", "key"):
            raise ValueError(f'by: "index" or "key", not {by!r}')
        if by == "key":
            source = self._index(edge, "out", None, source)
            destination = self._index(edge, "in", None, destination)
        return table(self._edge_view(edge, columns).lookup(source, destination))

    def expand(
        self,
        edge: Edge,
        ids: Any = None,
        *,
        keys: Any = None,
        direction: Direction = "out",
        columns: Sequence[str] | None = None,
    ) -> Any:
        """Reads the edges of many vertices at once.

        The columns are `position`, the position of the vertex in the input, which ascends; `neighbor`, the index of the
        vertex at the other end; then the properties.

        >>> import stylobate as st
        >>> snapshot = st.GraphStore.open("network").snapshot()
        >>> snapshot.expand("KNOWS", keys=[8, 7], columns=[]).to_pydict()
        {'position': [0, 1, 1], 'neighbor': [2, 1, 2]}
        """
        indexes = self._indexes(edge, direction, ids, keys)
        return table(self._edge_view(edge, columns).expand(indexes, direction))

    def degrees(
        self, edge: Edge, ids: Any = None, *, keys: Any = None, direction: Direction = "out"
    ) -> Any:
        """Returns the number of edges of each vertex. Parallel edges count separately."""
        indexes = self._indexes(edge, direction, ids, keys)
        return array(self._edge_view(edge, ()).degrees(indexes, direction))

    # Traversals

    def start(self, type: str, keys: Any = None, *, ids: Any = None, name: str | None = None) -> Traversal:
        """Starts a traversal from vertices of a type, given by key or index."""
        if keys is not None and ids is not None:
            raise TypeError("start: give keys or ids")
        return Traversal(self, type, ids, keys, name)

    # Whole versions

    def verify(self) -> Verification:
        """Reads the whole version, and reports its flaws."""
        return Verification(*self._local.verify())

    def export_graphar(
        self,
        path: Path,
        name: str,
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> WrittenGraph:
        """Writes the version as a graph in the GraphAr format, for `open_graph`.

        Vertices keep their order, and get consecutive indexes.

        >>> import stylobate as st
        >>> written = st.GraphStore.open("network").snapshot().export_graphar("exported", "network")
        >>> st.open_graph(written.path).vertices("Person").select(["name"]).to_arrow()["name"].to_pylist()
        ['Al', 'Bo', 'Cy']
        """
        options = None if storage_options is None else dict(storage_options)
        file, *counts = self._local.export(path, name, overwrite, options)
        return WrittenGraph(f"{os.fsdecode(path).rstrip('/')}/{file}", *counts)

    def _repr_html_(self) -> str:
        return _html.snapshot_html(self)

    def __repr__(self) -> str:
        return f"Snapshot({self.version})"

    # Cached views and plans

    def _vertex_view(self, type: str, columns: Sequence[str] | None) -> LocalVertexView:
        key = (type, None if columns is None else tuple(column_names(columns)))
        view = self._vertex_views.get(key)
        if view is None:
            names = None if columns is None else column_names(columns)
            view = remember(self._vertex_views, key, self._local.vertices(type, names))
        return view

    def _edge_view(self, edge: Edge, columns: Sequence[str] | None) -> LocalEdgeView:
        key = (edge, None if columns is None else tuple(column_names(columns)))
        view = self._edge_views.get(key)
        if view is None:
            names = None if columns is None else column_names(columns)
            view = remember(self._edge_views, key, self._local.edges(edge_name(edge), names))
        return view

    def _planned(self, key: tuple[Any, ...]) -> LocalTraversal:
        plan = self._plans.get(key)
        if plan is None:
            start, name, hops, top, select = key
            columns = None if select is None else list(select)
            plan = remember(self._plans, key, LocalTraversal(self._local, start, list(hops), name, top, columns))
        return plan

    def _end(self, edge: Edge, direction: Direction) -> str:
        """Returns the type of the vertices that edges are followed from."""
        name = edge_name(edge)
        named = [ends for ends, _ in self._edge_types if "_".join(ends) == name]
        named = named or [ends for ends, _ in self._edge_types if ends[1] == name]
        if len(named) != 1:
            self._local.edges(name, [])  # Raises the error.
        return named[0][0 if direction == "out" else 2]

    def _index(self, edge: Edge, direction: Direction, id: int | None, key: Any) -> int:
        if id is not None:
            if key is not None:
                raise TypeError("name the vertex by its index or by its key")
            return id
        if key is None:
            raise TypeError("name the vertex by its index or by its key")
        return self._vertex_view(self._end(edge, direction), ()).indexes([key])[0]

    def _indexes(self, edge: Edge, direction: Direction, ids: Any, keys: Any) -> Any:
        if (ids is None) == (keys is None):
            raise TypeError("name vertices by ids=[…] or by keys=[…]")
        if ids is not None:
            return numbers(ids)
        return self._vertex_view(self._end(edge, direction), ()).indexes(plain_keys(keys))


def remember(views: dict[Hashable, Any], key: Hashable, view: Any) -> Any:
    """Caches a view or plan, and clears the cache when it is full."""
    if len(views) >= KEPT:
        views.clear()
    views[key] = view
    return view
