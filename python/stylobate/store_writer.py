"""`StoreWriter`: takes changes to a graph store, and commits them as a version or not at all."""

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
    """The writer of a graph store, from `GraphStore.writer`. What it is given is seen by nobody before it is
    committed.

    The last writer that was asked for is the writer: commits of those before raise `WriterFencedError`. As a context
    manager it commits at the end, or gives up whatever is pending where an exception ends it.

    Rows are whatever gives Arrow data, a dictionary of columns, or a list of dictionaries. All rows of a call are
    taken, or none.

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
        """Which writer it is: each one's number is greater than those before."""
        return self._local.epoch

    @property
    def has_pending(self) -> bool:
        """Whether there is something to commit."""
        return self._local.has_pending

    def snapshot(self) -> Snapshot:
        """The version that the next commit follows: what was committed, and nothing that was not."""
        return Snapshot(self._local.snapshot())

    def add_vertices(self, type: str, data: Any) -> range:
        """Adds vertices: a column for the key, and one for each property that is not null throughout. Returns the
        indexes that they get, in the order of rows.

        Raises:
            InvalidDataError: A key is null or there already, or a value does not fit; none of the rows are pending.
        """
        return range(*self._local.add_vertices(type, rows(data)))

    def update_vertices(self, type: str, data: Any) -> None:
        """Changes properties of vertices: the column of the key, or `_index`, says which; all other columns are new
        values. Where a vertex is there twice, the last row holds."""
        self._local.update_vertices(type, rows(data))

    def delete_vertices(self, type: str, keys: Any = None, *, ids: Any = None) -> None:
        """Deletes vertices, with all edges that begin or end there. Their indexes are never given again, and their
        keys may be."""
        self._local.delete_vertices(
            type,
            None if ids is None else numbers(ids),
            None if keys is None else plain_keys(keys),
        )

    def add_edges(self, edge: Edge, data: Any, *, by: By = "key") -> int:
        """Adds edges, which may run parallel to others: the columns `src` and `dst` name their ends by key or by
        index, the others are properties. Returns how many there were."""
        return self._local.add_edges(edge_name(edge), rows(data), by)

    def delete_edges(self, edge: Edge, data: Any, *, by: By = "key") -> None:
        """Deletes edges: columns `src` and `dst` name the ends. All parallel edges between them are deleted; where
        there are none, nothing happens."""
        self._local.delete_edges(edge_name(edge), rows(data), by)

    def alter(
        self,
        schema: Schema | None = None,
        *,
        vertex_properties: Mapping[str, Mapping[str, str]] | None = None,
        edge_properties: Mapping[Edge, Mapping[str, str]] | None = None,
    ) -> None:
        """Lets the schema grow, with the next commit: by types, as `GraphStore.create` takes them, and by properties
        of types that are there. What was written before has null for a new property.

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
        """Commits what is pending as a version, and returns its number; where nothing is pending, that of the last
        one. After an error nothing of it is visible and all of it is still pending: commit again, add to it, or roll
        back.

        Raises:
            WriterFencedError: A later writer took over.
            ConflictError: A commit that had been changed or given up was done after all.
        """
        return self._local.commit()

    def rollback(self) -> None:
        """Gives up whatever is pending."""
        self._local.rollback()

    def load(
        self,
        vertices: Mapping[str, Any] | None = None,
        edges: Mapping[tuple[str, str, str], Any] | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Loaded:
        """As `GraphStore.load`, by this writer. Nothing may be pending."""
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
