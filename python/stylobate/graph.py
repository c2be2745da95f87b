"""`open_graph` and what it gives: a `Graph` in the GraphAr format, its `Vertices` and its `Edges`."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stylobate import _html
from stylobate import _optional as optional
from stylobate._arrow import array, numbers, table
from stylobate._stylobate import Cache, LocalEdges, LocalGraph, LocalVertices
from stylobate.filters import Filter
from stylobate.rows import Rows
from stylobate.scan import Path, column_names

if TYPE_CHECKING:
    import networkx
    import pyarrow

__all__ = ["Edges", "Graph", "Vertices", "open_graph"]

Direction: TypeAlias = Literal["out", "in"]
INDEX = "_graphArVertexIndex"
SOURCE, DESTINATION = "_graphArSrcIndex", "_graphArDstIndex"


def open_graph(
    url: Path,
    *,
    cache: Cache | None = None,
    prefix: Path | None = None,
    strict: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Graph:
    """Opens a graph in the GraphAr format: a path or URL of the file that describes it, `NAME.graph.yml`, or of the
    folder of the only one.

    Each file of the graph is read in the version that it had when it was first needed: open the graph anew to see
    what was written since.

    Args:
        url: The file, or its folder. URLs are `s3://`, `gs://`, `az://`, `http(s)://` and `file://`.
        cache: What to keep and find decoded columns in. Default: the one of `default_cache`.
        prefix: Where vertices and edges are. Default: what the file says, or else where it is itself.
        strict: Refuses what deviates from the format. By default all is read that official libraries wrote.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`.

    Raises:
        NotFoundError: A file is not there, or there are several to choose from.
        CorruptFileError: A file is wrong; the message names it, and the key.

    >>> import stylobate as st
    >>> graph = st.open_graph("social/social.graph.yml")
    >>> graph.vertex_types, graph.edge_types
    (['person'], [('person', 'knows', 'person')])
    """
    options = None if storage_options is None else dict(storage_options)
    local = LocalGraph(url, cache=cache, prefix=prefix, strict=strict, storage_options=options)
    return Graph(local, re.sub(r"://[^/@\s]*@", "://", f"Graph({str(url)!r})"))


class Graph:
    """A graph that is open. Made by `open_graph`."""

    def __init__(self, local: LocalGraph, shown: str) -> None:
        self._local = local
        self._shown = shown
        self._info: dict[str, Any] = local.info()

    @property
    def name(self) -> str:
        """Its name."""
        return self._info["name"]

    @property
    def vertex_types(self) -> list[str]:
        """The types of its vertices."""
        return [vertex["type"] for vertex in self._info["vertices"]]

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """The types of its edges, each between the types of its ends."""
        return [(edge["src_type"], edge["edge_type"], edge["dst_type"]) for edge in self._info["edges"]]

    def info(self) -> dict[str, Any]:
        """What its files say of it: types, properties, chunk sizes, lists, formats."""
        return copy.deepcopy(self._info)

    def vertices(self, type: str) -> Vertices:
        """The vertices of a type.

        >>> import stylobate as st
        >>> people = st.open_graph("social/social.graph.yml").vertices("person")
        >>> people.select(["name"]).filter(st.col("age") > 30).to_arrow().to_pydict()
        {'_graphArVertexIndex': [1, 2], 'name': ['Bo', 'Cy']}
        """
        info: dict[str, Any] = next((vertex for vertex in self._info["vertices"] if vertex["type"] == type), {})
        return Vertices(self._local.vertices(type), info)

    def edges(self, source: str, edge: str, destination: str, order: str | None = None) -> Edges:
        """The edges of a type between vertices of two types, in one of the orders that they are kept in:
        `"ordered_by_source"`, `"ordered_by_dest"`, `"unordered_by_source"` or `"unordered_by_dest"`; by default the
        first of these that there is.

        >>> import stylobate as st
        >>> knows = st.open_graph("social/social.graph.yml").edges("person", "knows", "person")
        >>> knows.count
        3
        """
        found = (info for info in self._info["edges"] if is_edge(info, source, edge, destination))
        info: dict[str, Any] = next(found, {})
        return Edges(
            self._local.edges(source, edge, destination, order), info, lambda type: self._local.vertices(type).count()
        )

    def _repr_html_(self) -> str:
        return _html.graph_html(self)

    def __repr__(self) -> str:
        return self._shown


def is_edge(info: Mapping[str, Any], source: str, edge: str, destination: str) -> bool:
    """Whether it is of this type."""
    return (info["src_type"], info["edge_type"], info["dst_type"]) == (source, edge, destination)


def property_names(info: Mapping[str, Any]) -> list[str]:
    """The names of all properties, group by group."""
    return [property["name"] for group in info.get("property_groups", ()) for property in group["properties"]]


class Vertices(Rows):
    """Vertices of one type: all, or those that filters and labels leave, with the properties that were selected.

    Views cost nothing: they read when they are asked for rows, and share what was read before."""

    def __init__(self, local: LocalVertices, info: Mapping[str, Any]) -> None:
        self._source: LocalVertices = local
        self._info = info

    @property
    def count(self) -> int:
        """How many vertices there are, whatever filters leave."""
        return self._source.count()

    @property
    def properties(self) -> list[str]:
        """The names of all properties."""
        return property_names(self._info)

    def select(self, properties: Sequence[str]) -> Vertices:
        """Only these properties, in this order."""
        return Vertices(self._source.select(column_names(properties)), self._info)

    def filter(self, condition: Filter) -> Vertices:
        """Only vertices for which this holds: conditions on `col`, or the text of a SQL `WHERE`. It may look at
        properties that are not selected. A second filter narrows the first."""
        return Vertices(self._source.filter(condition), self._info)

    def labels(self, *, any: Sequence[str] | None = None, all: Sequence[str] | None = None) -> Vertices:
        """Only vertices that have one of these labels, or all of these."""
        if (any is None) == (all is None):
            raise TypeError("labels: give any=[…] or all=[…]")
        names = any if any is not None else all
        return Vertices(self._source.labels(column_names(names or ()), all is not None), self._info)

    def to_arrow(self, with_index: bool = True) -> pyarrow.Table:
        """The rows as a table of pyarrow, with the index of each vertex in the first column, or without."""
        pyarrow = optional.pyarrow("to_arrow")
        return pyarrow.table(self._source.indexed(with_index).collect())

    def take(self, indexes: Any) -> Any:
        """The vertices with these indexes, in this order and as often as they are given, whatever filters leave: a
        table of pyarrow, or without it what any library takes that reads Arrow.

        >>> import stylobate as st
        >>> people = st.open_graph("social/social.graph.yml").vertices("person")
        >>> people.select(["name"]).take([2, 0]).to_pydict()
        {'_graphArVertexIndex': [2, 0], 'name': ['Cy', 'Al']}
        """
        return table(self._source.take(numbers(indexes)))

    def range(self, start: int, end: int) -> Any:
        """The vertices with indexes from `start` on and below `end` that filters and labels leave."""
        found = self._source.range(max(start, 0), max(end, 0))
        pyarrow = optional.pyarrow_or_none()
        return found if pyarrow is None else pyarrow.table(found)

    def __repr__(self) -> str:
        return f"Vertices({self._info.get('type')!r})"


class Edges(Rows):
    """Edges of one type, in one of the orders that they are kept in. Rows are `_graphArSrcIndex`, `_graphArDstIndex`,
    then properties."""

    def __init__(
        self, local: LocalEdges, info: Mapping[str, Any], counted: Callable[[str], int], is_selected: bool = False
    ) -> None:
        self._source: LocalEdges = local
        self._info = info
        self._counted = counted
        self._is_selected = is_selected
        self._bare: LocalEdges | None = None

    @property
    def count(self) -> int:
        """How many edges there are."""
        return self._source.count()

    @property
    def properties(self) -> list[str]:
        """The names of all properties."""
        return property_names(self._info)

    @property
    def adjacency_lists(self) -> list[str]:
        """The orders that the edges are kept in."""
        return [list["order"] for list in self._info.get("adj_lists", ())]

    @property
    def order(self) -> str:
        """The order that they are read in."""
        return self._source.order

    def select(self, properties: Sequence[str]) -> Edges:
        """Only these properties, in this order."""
        return Edges(self._source.select(column_names(properties)), self._info, self._counted, True)

    def to_arrow(self, properties: Sequence[str] | None = None) -> pyarrow.Table:
        """All edges as a table of pyarrow, with all properties that are selected or only with these."""
        pyarrow = optional.pyarrow("to_arrow")
        return pyarrow.table(self._selected(properties).collect())

    def neighbors(
        self, vertices: Any, properties: Sequence[str] | None = None, direction: Direction = "out"
    ) -> Any:
        """The neighbours of vertices, of many at once: `position` says for which of `vertices` a row is, `neighbor` is
        the index of the vertex at the other end, then come the properties: these, or else those that were selected.
        Positions ascend.

        >>> import stylobate as st
        >>> knows = st.open_graph("social/social.graph.yml").edges("person", "knows", "person")
        >>> knows.neighbors([0, 2], properties=["since"]).to_pydict()
        {'position': [0, 0], 'neighbor': [1, 2], 'since': [2001, 2020]}
        """
        source = self._ends() if properties is None and not self._is_selected else self._selected(properties)
        return table(source.neighbors(numbers(vertices), direction))

    def degrees(self, vertices: Any, direction: Direction = "out") -> Any:
        """How many neighbours each vertex has, counted with parallel edges."""
        return array(self._source.degrees(numbers(vertices), direction))

    def to_csr(self, direction: Direction = "out") -> tuple[Any, Any]:
        """All edges as offsets and neighbours: those of vertex `v` are `neighbors[offsets[v]:offsets[v + 1]]`. With
        `direction="in"`, by the vertex that edges enter (CSC)."""
        offsets, neighbors, _ = self._ends().csr(direction)
        return array(offsets), array(neighbors)

    def to_scipy_csr(self, weight: str | None = None, direction: Direction = "out") -> Any:
        """The adjacency matrix as a sparse array of SciPy: a row for each vertex that edges leave. An entry is the
        property `weight`, or else 1; those of parallel edges are added up."""
        sparse = optional.needed("scipy.sparse", "to_scipy_csr", "scipy")
        numpy = optional.needed("numpy", "to_scipy_csr", "numpy")
        pyarrow = optional.pyarrow("to_scipy_csr")
        offsets, neighbors, columns = self._source.select([] if weight is None else [weight]).csr(direction)
        offsets, neighbors = (pyarrow.array(part).to_numpy() for part in (offsets, neighbors))
        if weight is None:
            values = numpy.ones(len(neighbors), dtype=numpy.int64)
        else:
            values = pyarrow.array(columns[0]).to_numpy(zero_copy_only=False)
        rows = len(offsets) - 1
        wide = max(self._vertices("in" if direction == "out" else "out"), int(neighbors.max(initial=-1)) + 1)
        matrix = sparse.csr_array((values, neighbors, offsets), shape=(rows, wide))
        matrix.sum_duplicates()
        return matrix

    def to_networkx(self, limit: int | None = 1_000_000) -> networkx.MultiDiGraph:
        """The edges as a graph of NetworkX, with properties; vertices are known by their indexes, and where the types
        of both ends differ, by pairs of type and index. With more edges than `limit`, an error."""
        networkx = optional.needed("networkx", "to_networkx", "networkx")
        optional.pyarrow("to_networkx")
        count = self.count
        if limit is not None and count > limit:
            raise ValueError(f"to_networkx: {count} edges are more than the limit of {limit}: raise limit")
        source, destination = self._info["src_type"], self._info["dst_type"]
        is_one = source == destination
        graph = networkx.MultiDiGraph() if self._info.get("directed") else networkx.MultiGraph()
        sides: dict[str, Direction] = {source: "out", destination: "in"}
        for type, side in sides.items():
            vertices = range(self._vertices(side))
            graph.add_nodes_from(vertices if is_one else ((type, vertex) for vertex in vertices))
        for batch in self.batches():
            for row in batch.to_pylist():  # type: ignore[union-attr]
                begin, end = row.pop(SOURCE), row.pop(DESTINATION)
                graph.add_edge(*((begin, end) if is_one else ((source, begin), (destination, end))), **row)
        return graph

    def to_pyg(self) -> Any:
        """The edges as data of PyTorch Geometric: `edge_index`, and numeric properties as `edge_attr`, in the order of
        `properties`."""
        data = optional.needed("torch_geometric.data", "to_pyg", "torch-geometric")
        torch = optional.needed("torch", "to_pyg", "torch")
        pyarrow = optional.pyarrow("to_pyg")
        edges = self.to_arrow()
        ends = [torch.from_numpy(edges[end].to_numpy().copy()) for end in (SOURCE, DESTINATION)]
        numeric = [
            torch.from_numpy(edges[name].to_numpy().astype("float32"))
            for name in edges.column_names[2:]
            if pyarrow.types.is_integer(edges[name].type) or pyarrow.types.is_floating(edges[name].type)
        ]
        attributes = torch.stack(numeric, dim=1) if numeric else None
        vertices = self._vertices("out") if self._info["src_type"] == self._info["dst_type"] else None
        return data.Data(edge_index=torch.stack(ends), edge_attr=attributes, num_nodes=vertices)

    def _ends(self) -> LocalEdges:
        """Edges without properties."""
        self._bare = self._bare or self._source.select([])
        return self._bare

    def _selected(self, properties: Sequence[str] | None) -> LocalEdges:
        return self._source if properties is None else self._source.select(column_names(properties))

    def _vertices(self, side: Direction) -> int:
        """How many vertices there are on a side: a list that is aligned by it tells, or else their type."""
        count = self._source.vertex_count(side)
        return count if count is not None else self._counted(self._info["src_type" if side == "out" else "dst_type"])

    def __repr__(self) -> str:
        ends = self._info.get("src_type"), self._info.get("edge_type"), self._info.get("dst_type")
        return f"Edges{ends!r}"
