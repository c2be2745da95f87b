"""`StoreWriter`: collects changes to a graph store, and commits them atomically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from stylobate._arrow import numbers
from stylobate._stylobate import LocalStoreWriter
from stylobate.store_data import Edge, Schema, edge_name, edge_types, parted, rows, schema_lists, triple, vertex_types
from stylobate.store_results import Loaded
from stylobate.store_snapshot import Snapshot
from stylobate.store_traversal import plain_keys

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["StoreWriter"]

By = Literal["key", "index"]


class StoreWriter:
    """The writer of a graph store, from `GraphStore.writer`. Changes are invisible until they are committed.

    Only the latest writer can commit: commits of earlier ones raise `WriterFencedError`. As a context manager, it
    commits at the end of the block, or rolls back if the block raises.

    Rows are any Arrow data, a dictionary of columns, or a list of dictionaries. A call accepts all of its rows, or
    none.

    >>> import stylobate as st
    >>> store = st.GraphStore.open("network")
    >>> with store.writer() as writer:
    ...     added = writer.add_vertices("Person", {"id": [10], "name": ["Di"]})
    ...     edges = writer.add_edges("KNOWS", [{"src": 10, "dst": 7, "since": 2024}])
    >>> added, edges
    (range(3, 4), 1)
    >>> store.snapshot().in_edges("KNOWS", key=7)["since"].to_pylist()
    [2024]
    """

    def __init__(self, local: LocalStoreWriter) -> None:
        self._local = local

    @property
    def epoch(self) -> int:
        """The epoch of the writer, which is greater than that of all earlier writers."""
        return self._local.epoch

    @property
    def has_pending(self) -> bool:
        """True if there are changes to commit."""
        return self._local.has_pending

    def snapshot(self) -> Snapshot:
        """Returns the version that the next commit is based on, without pending changes."""
        return Snapshot(self._local.snapshot())

    def add_vertices(self, type: str, data: Any) -> range:
        """Adds vertices, and returns their indexes, in row order.

        The columns are the key, and the properties; a missing property is null.

        Raises:
            InvalidDataError: A key is null or already exists, or a value does not fit. No row was added.
        """
        return range(*self._local.add_vertices(type, rows(data)))

    def update_vertices(self, type: str, data: Any) -> None:
        """Updates properties of vertices.

        The key column, or `_index`, identifies the vertex; the other columns are new values. If a vertex occurs more
        than once, the last row wins.
        """
        self._local.update_vertices(type, rows(data))

    def delete_vertices(self, type: str, keys: Any = None, *, ids: Any = None) -> None:
        """Deletes vertices, with all their incoming and outgoing edges.

        Their indexes are never reused, but their keys may be added again.
        """
        self._local.delete_vertices(
            type,
            None if ids is None else numbers(ids),
            None if keys is None else plain_keys(keys),
        )

    def add_edges(self, edge: Edge, data: Any, *, by: By = "key") -> int:
        """Adds edges, which may be parallel to existing ones, and returns their number.

        The columns `src` and `dst` are the endpoints, by key or index; the others are properties.
        """
        return self._local.add_edges(edge_name(edge), rows(data), by)

    def delete_edges(self, edge: Edge, data: Any, *, by: By = "key") -> None:
        """Deletes all edges, including parallel ones, between the endpoints in the columns `src` and `dst`.

        Pairs without an edge are ignored.
        """
        self._local.delete_edges(edge_name(edge), rows(data), by)

    def alter(
        self,
        schema: Schema | None = None,
        *,
        vertex_properties: Mapping[str, Mapping[str, str]] | None = None,
        edge_properties: Mapping[Edge, Mapping[str, str]] | None = None,
    ) -> None:
        """Extends the schema with the next commit.

        Adds types, as given to `GraphStore.create`, and properties of existing types. Existing vertices and edges have
        null for a new property.

        Raises:
            SchemaError: The change is invalid. Nothing was changed.
            UnsupportedError: GraphAr cannot represent a type or a name, such as `list<date>`. Nothing was changed.

        >>> import stylobate as st
        >>> store = st.GraphStore.open("network")
        >>> with store.writer() as writer:
        ...     writer.alter(vertex_properties={"Person": {"city": "string"}})
        ...     writer.update_vertices("Person", {"id": [8], "city": ["Oslo"]})
        >>> store.snapshot().vertices("Person", columns=["city"])["city"].to_pylist()
        [None, 'Oslo', None]
        """
        vertices, edges = schema_lists(schema)
        of_vertices = [
            (type, name, of) for type, new in (vertex_properties or {}).items() for name, of in new.items()
        ]
        of_edges = [
            (edge_name(edge), name, of) for edge, new in (edge_properties or {}).items() for name, of in new.items()
        ]
        self._local.alter(vertices, edges, of_vertices, of_edges)

    def commit(self) -> int:
        """Commits the pending changes as one version, and returns its number.

        Without pending changes, returns the number of the last version. After an error, none of the changes are visible
        and all of them are still pending: commit again, add to them, or roll back.

        Raises:
            WriterFencedError: A later writer took over.
            ConflictError: An earlier commit turned out to have succeeded after its changes had been extended or rolled
                back.
        """
        return self._local.commit()

    def rollback(self) -> None:
        """Discards the pending changes."""
        self._local.rollback()

    def load(
        self,
        vertices: Mapping[str, Any] | None = None,
        edges: Mapping[tuple[str, str, str], Any] | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Loaded:
        """Runs `GraphStore.load` with this writer. There must be no pending changes."""
        schema = Snapshot(self._local.snapshot()).schema
        loaded = self._local.load(
            [(type, *parted(spec, vertex_types(schema, type))) for type, spec in (vertices or {}).items()],
            [
                (triple(edge), *parted(spec, edge_types(schema, triple(edge), spec)))
                for edge, spec in (edges or {}).items()
            ],
            progress,
        )
        return Loaded(*loaded)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None = None,
        exception: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        if exception_type is None:
            self.commit()
        else:
            self.rollback()

    def __repr__(self) -> str:
        return f"StoreWriter(epoch={self.epoch})"
