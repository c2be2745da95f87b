"""`Traversal`: hops from some vertices on, said first and run in one call."""

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
    """Hops from some vertices on, which are followed when rows are asked for. Begun by `Snapshot.start`; each method
    makes another one.

    The vertices of each step are called by their type, and as `Person_0`, `Person_2` by their type and the number of
    the step where several steps have it, or as `name=` says. So are edges, whose hops are numbered from 1. A column
    is `name` for the columns of edges that were asked for, and else for the properties of the last vertices;
    `Person.name` for a property of the vertices of any step, `Person._index` for their indexes; `KNOWS.since` for a
    column of edges.

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
            edge: The type of the edges.
            to: The type of these vertices. It need only be said where edges to several types have the name.
            columns: Properties of the edges that are read on the way.
            name: What these vertices are called in `top` and `select`.
        """
        return self._hop("out", edge, to, columns, name)

    def in_(
        self, edge: Edge, to: str | None = None, *, columns: Sequence[str] = (), name: str | None = None
    ) -> Traversal:
        """Follows incoming edges. Arguments are those of `out`."""
        return self._hop("in", edge, to, columns, name)

    def top(self, rows: int, by: str, *, descending: bool = True) -> Traversal:
        """Leaves the rows with the greatest values of a column, or the least ones; nulls come last, and rows of equal
        values in the order of the hops."""
        copy = self._copy()
        copy._top = (rows, by, descending)
        return copy

    def select(self, columns: Sequence[str]) -> Traversal:
        """The columns of the answer. Without it: `position`, the number of the vertex that a row began at, the
        columns of edges that were asked for, and the index of the last vertex. Properties of vertices are read for
        the rows alone that are left in the end."""
        copy = self._copy()
        copy._select = tuple(column_names(columns))
        return copy

    def _plan(self) -> LocalTraversal:
        """The names that were found, which the snapshot keeps for the next traversal that says the same."""
        said = (self._start, self._name, self._hops, self._top, self._select)
        return self._snapshot._planned(said)

    def prepare(self) -> PreparedTraversal:
        """Finds everything by its name once, for a traversal that is run from many vertices.

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
        """The rows as a table of pyarrow; without it what any library takes that reads Arrow."""
        return table(self._run())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The rows as a data frame of pandas."""
        optional.pandas("to_pandas")
        return optional.pyarrow("to_pandas").table(self._run()).to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a data frame of Polars."""
        return optional.polars("to_polars").DataFrame(self._run())

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The rows through the Arrow PyCapsule interface."""
        return self._run().__arrow_c_array__(requested_schema)

    def explain(self) -> str:
        """What it will read, a line for each step.

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
    """A traversal of which everything was found by its name: called with `keys=` or `ids=`, it answers with a table of
    pyarrow."""

    __slots__ = ("_local",)

    def __init__(self, local: LocalTraversal) -> None:
        self._local = local

    def __call__(self, keys: Any = None, *, ids: Any = None) -> Any:
        """The rows from these vertices on."""
        return table(run(self._local, ids, keys))

    def batch(self, keys: Any = None, *, ids: Any = None) -> RecordBatch:
        """The same without pyarrow: what any library takes that reads Arrow."""
        return run(self._local, ids, keys)

    def __repr__(self) -> str:
        return f"PreparedTraversal({', '.join(self._local.schema.names)})"


def run(local: LocalTraversal, ids: Any, keys: Any) -> RecordBatch:
    """The rows from vertices on that are named by one of both."""
    return local.run(None if ids is None else numbers(ids), None if keys is None else plain_keys(keys))


def plain_keys(keys: Any) -> Any:
    """Keys as Rust takes them: an Arrow array, or a list."""
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
