"""`open_graph` and its results: a `Graph` in the GraphAr format, its `Vertices` and its `Edges`."""

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
    """Opens a graph in the GraphAr format.

    Each file is read in the version that it had when it was first needed. Open the graph again to see later writes.

    Args:
        url: Path or URL of the graph info file, `NAME.graph.yml`, or of a folder that holds exactly one. URLs are
            `s3://`, `gs://`, `az://`, `http(s)://` and `file://`.
        cache: Cache of decoded columns. Default: `default_cache()`.
        prefix: Location of the vertices and edges. Default: the one in the graph info file, or else its folder.
        strict: Whether to reject deviations from the format. Default: False, everything that the official libraries
            write is accepted.
        storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`.

    Raises:
        NotFoundError: A file does not exist, or the folder has several graph info files.
        CorruptFileError: A file is invalid. The message names the file and the key.

    >>> import stylobate as st
    >>> graph = st.open_graph("social/social.graph.yml")
    >>> graph.vertex_types, graph.edge_types
    (['person'], [('person', 'knows', 'person')])
    """
    options = None if storage_options is None else dict(storage_options)
    local = LocalGraph(url, cache=cache, prefix=prefix, strict=strict, storage_options=options)
    return Graph(local, re.sub(r"://[^/@\s]*@", "://", f"Graph({str(url)!r})"))


class Graph:
    """An open graph. Created by `open_graph`."""

    def __init__(self, local: LocalGraph, shown: str) -> None:
        self._local = local
        self._shown = shown
        self._info: dict[str, Any] = local.info()

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._info["name"]

    @property
    def vertex_types(self) -> list[str]:
        """The names of the vertex types."""
        return [vertex["type"] for vertex in self._info["vertices"]]

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """The edge types as `(source, edge, destination)`."""
        return [(edge["src_type"], edge["edge_type"], edge["dst_type"]) for edge in self._info["edges"]]

    def info(self) -> dict[str, Any]:
        """Returns the contents of the info files: types, properties, chunk sizes, adjacency lists, formats."""
        return copy.deepcopy(self._info)

    def vertices(self, type: str) -> Vertices:
        """Returns the vertices of a type.

        >>> import stylobate as st
        >>> people = st.open_graph("social/social.graph.yml").vertices("person")
        >>> people.select(["name"]).filter(st.col("age") > 30).to_arrow().to_pydict()
        {'_graphArVertexIndex': [1, 2], 'name': ['Bo', 'Cy']}
        """
        info: dict[str, Any] = next((vertex for vertex in self._info["vertices"] if vertex["type"] == type), {})
        return Vertices(self._local.vertices(type), info)

    def edges(self, source: str, edge: str, destination: str, order: str | None = None) -> Edges:
        """Returns the edges of a type between two vertex types, in one of the orders that they are stored in.

        The order is `"ordered_by_source"`, `"ordered_by_dest"`, `"unordered_by_source"` or `"unordered_by_dest"`.
        Default: the first of these that exists.

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
    """Returns whether the info is that of this edge type."""
    return (info["src_type"], info["edge_type"], info["dst_type"]) == (source, edge, destination)


def property_names(info: Mapping[str, Any]) -> list[str]:
    """Returns the names of all properties, group by group."""
    return [property["name"] for group in info.get("property_groups", ()) for property in group["properties"]]


class Vertices(Rows):
    """The vertices of one type: all of them, or those that match filters and labels, with the selected properties.

    Creating a view does no I/O. Views read on demand, and share cached data.
    """

    def __init__(self, local: LocalVertices, info: Mapping[str, Any]) -> None:
        self._source: LocalVertices = local
        self._info = info

    @property
    def count(self) -> int:
        """The number of vertices of the type, regardless of filters."""
        return self._source.count()

    @property
    def properties(self) -> list[str]:
        """The names of all properties."""
        return property_names(self._info)

    def select(self, properties: Sequence[str]) -> Vertices:
        """Returns a view with only these properties, in this order."""
        return Vertices(self._source.select(column_names(properties)), self._info)

    def filter(self, condition: Filter) -> Vertices:
        """Returns a view with only the vertices that match: an expression on `col`, or a SQL `WHERE` condition.

        The condition may use properties that are not selected. It is combined by AND with earlier filters.
        """
        return Vertices(self._source.filter(condition), self._info)

    def labels(self, *, any: Sequence[str] | None = None, all: Sequence[str] | None = None) -> Vertices:
        """Returns a view with only the vertices that have any of the labels, or all of them."""
        if (any is None) == (all is None):
            raise TypeError("labels: give any=[…] or all=[…]")
        names = any if any is not None else all
        return Vertices(self._source.labels(column_names(names or ()), all is not None), self._info)

    def to_arrow(self, with_index: bool = True) -> pyarrow.Table:
        """Reads the rows as a pyarrow table. By default the first column is the vertex index."""
        pyarrow = optional.pyarrow("to_arrow")
        return pyarrow.table(self._source.indexed(with_index).collect())

    def take(self, indexes: Any) -> Any:
        """Reads the vertices with these indexes, in this order, with repetitions, regardless of filters.

        Returns a pyarrow table; without pyarrow, an Arrow record batch.

        >>> import stylobate as st
        >>> people = st.open_graph("social/social.graph.yml").vertices("person")
        >>> people.select(["name"]).take([2, 0]).to_pydict()
        {'_graphArVertexIndex': [2, 0], 'name': ['Cy', 'Al']}
        """
        return table(self._source.take(numbers(indexes)))

    def range(self, start: int, end: int) -> Any:
        """Reads the vertices with indexes from `start` to `end` (exclusive) that match filters and labels."""
        found = self._source.range(max(start, 0), max(end, 0))
        pyarrow = optional.pyarrow_or_none()
        return found if pyarrow is None else pyarrow.table(found)

    def __repr__(self) -> str:
        return f"Vertices({self._info.get('type')!r})"


class Edges(Rows):
    """The edges of one type, in one of the orders that they are stored in.

    The columns are `_graphArSrcIndex`, `_graphArDstIndex`, then the properties.
    """

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
        """The number of edges."""
        return self._source.count()

    @property
    def properties(self) -> list[str]:
        """The names of all properties."""
        return property_names(self._info)

    @property
    def adjacency_lists(self) -> list[str]:
        """The orders that the edges are stored in."""
        return [list["order"] for list in self._info.get("adj_lists", ())]

    @property
    def order(self) -> str:
        """The order that the edges are read in."""
        return self._source.order

    def select(self, properties: Sequence[str]) -> Edges:
        """Returns a view with only these properties, in this order."""
        return Edges(self._source.select(column_names(properties)), self._info, self._counted, True)

    def to_arrow(self, properties: Sequence[str] | None = None) -> pyarrow.Table:
        """Reads all edges as a pyarrow table, with these properties. Default: the selected ones, or all."""
        pyarrow = optional.pyarrow("to_arrow")
        return pyarrow.table(self._selected(properties).collect())

    def neighbors(
        self, vertices: Any, properties: Sequence[str] | None = None, direction: Direction = "out"
    ) -> Any:
        """Reads the neighbors of many vertices at once.

        The columns are `position`, the position in `vertices`, which ascends; `neighbor`, the index of the vertex at
        the other end; then `properties`. Default: those of `select`, otherwise none.

        >>> import stylobate as st
        >>> knows = st.open_graph("social/social.graph.yml").edges("person", "knows", "person")
        >>> knows.neighbors([0, 2], properties=["since"]).to_pydict()
        {'position': [0, 0], 'neighbor': [1, 2], 'since': [2001, 2020]}
        """
        source = self._ends() if properties is None and not self._is_selected else self._selected(properties)
        return table(source.neighbors(numbers(vertices), direction))

    def degrees(self, vertices: Any, direction: Direction = "out") -> Any:
        """Returns the number of neighbors of each vertex. Parallel edges count separately."""
        return array(self._source.degrees(numbers(vertices), direction))

    def to_csr(self, direction: Direction = "out") -> tuple[Any, Any]:
        """Reads all edges in CSR form: the neighbors of vertex `v` are `neighbors[offsets[v]:offsets[v + 1]]`.

        With `direction="in"`, offsets are by destination vertex (CSC).
        """
        offsets, neighbors, _ = self._ends().csr(direction)
        return array(offsets), array(neighbors)

    def to_scipy_csr(self, weight: str | None = None, direction: Direction = "out") -> Any:
        """Reads the adjacency matrix as a sparse SciPy array, with one row per source vertex.

        Entries are the property `weight`. Default: 1. Entries of parallel edges are added up. With `direction="in"`,
        rows are destination vertices.
        """
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
        """Reads the edges as a NetworkX graph, with properties.

        Nodes are vertex indexes, or `(type, index)` pairs if the endpoint types differ. Raises ValueError if there are
        more edges than `limit`.
        """
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
        """Reads the edges as PyTorch Geometric data: `edge_index`, and the numeric properties as `edge_attr`.

        The columns of `edge_attr` are in the order of `properties`.
        """
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
        """Returns the edges without properties."""
        self._bare = self._bare or self._source.select([])
        return self._bare

    def _selected(self, properties: Sequence[str] | None) -> LocalEdges:
        return self._source if properties is None else self._source.select(column_names(properties))

    def _vertices(self, side: Direction) -> int:
        """Returns the number of vertices on a side.

        It comes from an adjacency list that is aligned by that side, otherwise from the vertex type.
        """
        count = self._source.vertex_count(side)
        return count if count is not None else self._counted(self._info["src_type" if side == "out" else "dst_type"])

    def __repr__(self) -> str:
        ends = self._info.get("src_type"), self._info.get("edge_type"), self._info.get("dst_type")
        return f"Edges{ends!r}"
