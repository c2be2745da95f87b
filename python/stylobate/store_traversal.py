"""`Traversal`: hops from start vertices, built up first and run in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stylobate import _optional as optional
from stylobate._arrow import numbers, table
from stylobate._stylobate import LocalTraversal, RecordBatch
from stylobate.scan import column_names
from stylobate.store_data import Edge, edge_name

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from stylobate.store_snapshot import Snapshot

__all__ = ["PreparedTraversal", "Traversal"]

Hop = tuple[str, str, "str | None", tuple[str, ...], "str | None"]


class Traversal:
    """Hops from start vertices, run on demand. Created by `Snapshot.start`; each method returns a new traversal.

    Step 0 is the start, and each hop is the next step. The vertices of a step are named by `name=`; otherwise by their
    type, or by type and step number (`Person_0`, `Person_2`) if several steps have the same type. Edges are named by
    type in the same way, with hops numbered from 1.

    Columns are named as follows. `name`: an edge column that a hop requested, otherwise a property of the last
    vertices. `Person.name`: a property of the vertices of any step. `Person._index`: their index. `KNOWS.since`: an
    edge column.

    >>> import stylobate as st
    >>> snapshot = st.GraphStore.open("network").snapshot()
    >>> newest = snapshot.start("Person", keys=[7]).out("KNOWS", columns=["since"]).top(1, by="since")
    >>> newest.select(["name", "since"]).to_arrow().to_pydict()
    {'name': ['Cy'], 'since': [2020]}
    """

    __slots__ = ("_hops", "_ids", "_keys", "_name", "_select", "_snapshot", "_start", "_top")

    def __init__(self, snapshot: Snapshot, start: str, ids: Any, keys: Any, name: str | None) -> None:
        self._snapshot = snapshot
        self._start = start
        self._name = name
        self._ids = ids
        self._keys = keys
        self._hops: tuple[Hop, ...] = ()
        self._top: tuple[int, str, bool] | None = None
        self._select: tuple[str, ...] | None = None

    def _copy(self) -> Traversal:
        copy = Traversal(self._snapshot, self._start, self._ids, self._keys, self._name)
        copy._hops, copy._top, copy._select = self._hops, self._top, self._select
        return copy

    def _hop(self, way: str, edge: Edge, to: str | None, columns: Sequence[str], name: str | None) -> Traversal:
        if not isinstance(edge, str):
            source, _, destination = edge
            to = to or (destination if way == "out" else source)
        copy = self._copy()
        copy._hops = (*self._hops, (way, edge_name(edge), to, tuple(column_names(columns)), name))
        return copy

    def out(
        self, edge: Edge, to: str | None = None, *, columns: Sequence[str] = (), name: str | None = None
    ) -> Traversal:
        """Follows outgoing edges.

        Args:
            edge: Edge type.
            to: Type of the vertices at the other end. Required only if edges of this name end at several types.
            columns: Properties of the edges to read. Default: none.
            name: Name of the vertices at the other end, for `top` and `select`.
        """
        return self._hop("out", edge, to, columns, name)

    def in_(
        self, edge: Edge, to: str | None = None, *, columns: Sequence[str] = (), name: str | None = None
    ) -> Traversal:
        """Follows incoming edges. The arguments are those of `out`."""
        return self._hop("in", edge, to, columns, name)

    def top(self, rows: int, by: str, *, descending: bool = True) -> Traversal:
        """Keeps the `rows` rows with the greatest values of a column; with `descending=False`, the smallest.

        Nulls come last. Rows with equal values stay in hop order.
        """
        copy = self._copy()
        copy._top = (rows, by, descending)
        return copy

    def select(self, columns: Sequence[str]) -> Traversal:
        """Sets the output columns.

        Without it they are `position`, the position of the start vertex in the input; the requested edge columns; and
        the index of the last vertex. Vertex properties are read only for the rows of the final result.
        """
        copy = self._copy()
        copy._select = tuple(column_names(columns))
        return copy

    def _plan(self) -> LocalTraversal:
        """Returns the plan, which the snapshot caches for equal traversals."""
        key = (self._start, self._name, self._hops, self._top, self._select)
        return self._snapshot._planned(key)

    def prepare(self) -> PreparedTraversal:
        """Resolves all names once, for a traversal that is run from many start vertices.

        >>> import stylobate as st
        >>> snapshot = st.GraphStore.open("network").snapshot()
        >>> friends = snapshot.start("Person").out("KNOWS").select(["name"]).prepare()
        >>> friends(keys=[7])["name"].to_pylist(), friends(keys=[8])["name"].to_pylist()
        (['Bo', 'Cy'], ['Cy'])
        """
        return PreparedTraversal(self._plan())

    def _run(self) -> RecordBatch:
        return run(self._plan(), self._ids, self._keys)

    def to_arrow(self) -> pyarrow.Table:
        """Runs the traversal, and returns a pyarrow table; without pyarrow, an Arrow record batch."""
        return table(self._run())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Runs the traversal, and returns a pandas data frame."""
        optional.pandas("to_pandas")
        return optional.pyarrow("to_pandas").table(self._run()).to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Runs the traversal, and returns a Polars data frame."""
        return optional.polars("to_polars").DataFrame(self._run())

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Runs the traversal, and exports the rows through the Arrow PyCapsule interface."""
        return self._run().__arrow_c_array__(requested_schema)

    def explain(self) -> str:
        """Describes the plan, with one line per step.

        >>> import stylobate as st
        >>> snapshot = st.GraphStore.open("network").snapshot()
        >>> plan = snapshot.start("Person", keys=[7]).out("KNOWS").top(2, by="name").explain()
        >>> [line.split()[0] for line in plan.splitlines()]
        ['version', 'start', 'out', 'top', 'select']
        """
        return self._plan().explain()

    def __repr__(self) -> str:
        hops = "".join(f".{'out' if way == 'out' else 'in_'}({edge!r})" for way, edge, *_ in self._hops)
        return f"Traversal({self._start!r}){hops}"


class PreparedTraversal:
    """A traversal with all names resolved. Call it with `keys=` or `ids=`; it returns a pyarrow table."""

    __slots__ = ("_local",)

    def __init__(self, local: LocalTraversal) -> None:
        self._local = local

    def __call__(self, keys: Any = None, *, ids: Any = None) -> Any:
        """Runs the traversal from these vertices."""
        return table(run(self._local, ids, keys))

    def batch(self, keys: Any = None, *, ids: Any = None) -> RecordBatch:
        """Runs the traversal, and returns an Arrow record batch, without pyarrow."""
        return run(self._local, ids, keys)

    def __repr__(self) -> str:
        return f"PreparedTraversal({', '.join(self._local.schema.names)})"


def run(local: LocalTraversal, ids: Any, keys: Any) -> RecordBatch:
    """Runs a plan from the vertices with these indexes or keys."""
    return local.run(None if ids is None else numbers(ids), None if keys is None else plain_keys(keys))


def plain_keys(keys: Any) -> Any:
    """Converts keys to an Arrow array or a list, as the extension takes them."""
    if isinstance(keys, (str, int)):
        raise TypeError(f"keys: give a list, such as [{keys!r}]")
    if isinstance(keys, list) or hasattr(keys, "__arrow_c_array__"):
        return keys
    pyarrow = optional.pyarrow_or_none()
    if pyarrow is not None and hasattr(keys, "__arrow_c_stream__"):
        return pyarrow.chunked_array(keys).combine_chunks()
    if pyarrow is not None and hasattr(keys, "__array__"):
        return pyarrow.array(keys)
    return list(keys)
