"""The contents of a graph when its files are read one after another with pyarrow: the expected results for the package."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq
import yaml

INDEX = "_graphArVertexIndex"
SOURCE = "_graphArSrcIndex"
DESTINATION = "_graphArDstIndex"
OFFSET = "_graphArOffset"

EdgeType: TypeAlias = "tuple[str, str, str]"

TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ms"),
}


class Oracle:
    """A graph on the local disk; each of its lists is read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info = yaml.safe_load(path.read_text())
        self._lists: dict[tuple[EdgeType, str], pa.Table] = {}
        vertices = [self._described(name) for name in self.info.get("vertices") or []]
        edges = [self._described(name) for name in self.info.get("edges") or []]
        self.vertex_infos = {info["type"]: info for info in vertices}
        self.edge_infos = {(info["src_type"], info["edge_type"], info["dst_type"]): info for info in edges}

    def _described(self, name: str) -> dict[str, Any]:
        return yaml.safe_load((self.path.parent / name).read_text())

    @cached_property
    def root(self) -> Path:
        return self.path.parent / self.info.get("prefix", "")

    # Vertices.

    def vertex_count(self, type_: str) -> int:
        return number(self._vertex_folder(type_) / "vertex_count")

    def vertices(self, type_: str) -> pa.Table:
        """Returns all properties, after the index."""
        info = self.vertex_infos[type_]
        count = self.vertex_count(type_)
        columns = {INDEX: pa.chunked_array([pa.array(range(count), pa.int64())])}
        for group in groups(info):
            folder = self._vertex_folder(type_) / prefix_of(group)
            kinds = kinds_of(group)
            chunks = [
                chunk(folder / f"chunk{at}", group["file_type"], kinds)
                for at in range(-(-count // info["chunk_size"]))
            ]
            columns |= {name: joined(chunks, name, kind) for name, kind in kinds.items()}
        return pa.table(columns)

    def labels(self, type_: str) -> dict[str, list[bool]]:
        """Returns, for each label, whether each vertex has it."""
        info = self.vertex_infos[type_]
        folder = self._vertex_folder(type_) / "labels"
        kinds = dict.fromkeys(info.get("labels") or [], pa.bool_())
        parts = range(-(-self.vertex_count(type_) // info["chunk_size"]))
        chunks = [chunk(folder / f"chunk{at}", "parquet", kinds) for at in parts] if kinds else []
        return {name: joined(chunks, name, pa.bool_()).to_pylist() for name in kinds}

    def _vertex_folder(self, type_: str) -> Path:
        return self.root / self.vertex_infos[type_].get("prefix", f"{type_}/")

    # Edges.

    def orders(self, edge: EdgeType) -> dict[str, dict[str, Any]]:
        """Returns the adjacency lists by name."""
        return {order_of(found): found for found in self.edge_infos[edge]["adj_lists"]}

    def edges(self, edge: EdgeType, order: str) -> pa.Table:
        """Returns both indices and all properties, in the order of the list."""
        if (edge, order) not in self._lists:
            self._lists[edge, order] = self._read_edges(edge, order)
        return self._lists[edge, order]

    def _read_edges(self, edge: EdgeType, order: str) -> pa.Table:
        info, adjacency = self.edge_infos[edge], self.orders(edge)[order]
        folder = self._list_folder(edge, order)
        found = self._edge_columns(edge, order, folder / "adj_list", adjacency["file_type"], ENDS)
        for group in groups(info):
            kinds = kinds_of(group)
            found |= self._edge_columns(edge, order, folder / prefix_of(group), group["file_type"], kinds)
        return pa.table(found)

    def part_counts(self, edge: EdgeType, order: str) -> list[int]:
        """Returns the number of edges of each part."""
        return [number(self._list_folder(edge, order) / f"edge_count{part}") for part in self._parts(edge, order)]

    def offsets(self, edge: EdgeType, order: str) -> list[list[int]]:
        """Returns the contents of each offset file, unmodified."""
        kind = self.orders(edge)[order]["file_type"]
        folder = self._list_folder(edge, order) / "offset"
        return [
            chunk(folder / f"chunk{part}", kind, {OFFSET: pa.int64()})[OFFSET].to_pylist()
            for part in self._parts(edge, order)
        ]

    def rows_of(self, edge: EdgeType, order: str) -> list[list[int]]:
        """Returns, for each vertex, the rows of its edges, found without offsets."""
        key = SOURCE if order.endswith("source") else DESTINATION
        rows: list[list[int]] = [[] for _ in range(number(self._list_folder(edge, order) / "vertex_count"))]
        for row, vertex in enumerate(self.edges(edge, order)[key].to_pylist()):
            rows[vertex].append(row)
        return rows

    def _parts(self, edge: EdgeType, order: str) -> range:
        side = "src" if order.endswith("source") else "dst"
        vertices = number(self._list_folder(edge, order) / "vertex_count")
        return range(-(-vertices // self.edge_infos[edge][f"{side}_chunk_size"]))

    def _edge_columns(
        self, edge: EdgeType, order: str, folder: Path, file_type: str, kinds: dict[str, pa.DataType]
    ) -> dict[str, pa.ChunkedArray]:
        size = self.edge_infos[edge]["chunk_size"]
        chunks = [
            chunk(folder / f"part{part}" / f"chunk{at}", file_type, kinds)
            for part, count in enumerate(self.part_counts(edge, order))
            for at in range(-(-count // size))
        ]
        return {name: joined(chunks, name, kind) for name, kind in kinds.items()}

    def _list_folder(self, edge: EdgeType, order: str) -> Path:
        default = "_".join(edge) + "/"
        return self.root / self.edge_infos[edge].get("prefix", default) / self.orders(edge)[order].get("prefix", order)


ENDS = {SOURCE: pa.int64(), DESTINATION: pa.int64()}


def order_of(adjacency: dict[str, Any]) -> str:
    ordered = "ordered" if adjacency["ordered"] else "unordered"
    return f"{ordered}_by_{'source' if adjacency['aligned_by'] == 'src' else 'dest'}"


def groups(info: dict[str, Any]) -> list[dict[str, Any]]:
    return info.get("property_groups") or []


def property_names(info: dict[str, Any]) -> list[str]:
    return [name for group in groups(info) for name in kinds_of(group)]


def prefix_of(group: dict[str, Any]) -> str:
    return group.get("prefix") or "_".join(kinds_of(group)) + "/"


def kinds_of(group: dict[str, Any]) -> dict[str, pa.DataType]:
    """Returns the types of a group's properties by name."""
    return {found["name"]: kind_of(found) for found in group["properties"]}


def kind_of(described: dict[str, Any]) -> pa.DataType:
    name = described["data_type"]
    is_list = name.startswith("list<") or described.get("cardinality", "single") != "single"
    kind = TYPES[name.removeprefix("list<").removesuffix(">")]
    return pa.list_(kind) if is_list else kind


def number(path: Path) -> int:
    """Returns the number in a file of counts."""
    return struct.unpack("<q", path.read_bytes())[0]


def chunk(path: Path, file_type: str, kinds: dict[str, pa.DataType]) -> pa.Table:
    """Returns the columns of one file, in the types that the graph declares."""
    if file_type == "parquet":
        table = pq.ParquetFile(path).read()
    elif file_type == "orc":
        table = pa.orc.ORCFile(path).read()
    elif file_type == "csv":
        table = read_csv(path, kinds)
    else:
        # Dates and times are strings in JSON, and pyarrow would return dates as numbers.
        texts = {name: pa.string() if pa.types.is_temporal(kind) else kind for name, kind in kinds.items()}
        options = pa.json.ParseOptions(explicit_schema=pa.schema(list(texts.items())))
        table = pa.json.read_json(path, parse_options=options)
    return pa.table({name: table[name].cast(kind) for name, kind in kinds.items()})


def read_csv(path: Path, kinds: dict[str, pa.DataType]) -> pa.Table:
    """Reads CSV; empty is null unless it is quoted."""
    return pa.csv.read_csv(
        path,
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        ),
    )


def joined(chunks: list[pa.Table], name: str, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([part for table in chunks for part in table[name].chunks], kind)


# Output of the package.


def plain(data: Any) -> pa.Table:
    """Returns output of the package as a table without dictionaries and views."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    table.validate(full=True)
    return table.cast(pa.schema([pa.field(field.name, plain_kind(field.type)) for field in table.schema]))


def plain_kind(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return plain_kind(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_kind(kind.value_type))
    if pa.types.is_timestamp(kind):
        # Declared in milliseconds, but in microseconds in official files: read as they are.
        return pa.timestamp("us", kind.tz)
    return pa.string() if kind in (pa.large_string(), pa.string_view()) else kind


def values(array: Any) -> list[Any]:
    """Returns the values of an array of any package."""
    return array.to_pylist() if hasattr(array, "to_pylist") else list(map(int, array))


def differences(found: Any, expected: pa.Table) -> Iterator[str]:
    """Yields short descriptions of the differences from the expected table."""
    found = plain(found)
    if found.column_names != expected.column_names:
        yield f"columns {found.column_names}, not {expected.column_names}"
        return
    if found.num_rows != expected.num_rows:
        yield f"{found.num_rows} rows, not {expected.num_rows}"
        return
    for field in expected.schema:
        if found[field.name].type != plain_kind(field.type):
            yield f"{field.name} is {found[field.name].type}, not {field.type}"
        pairs = zip(found[field.name].to_pylist(), expected[field.name].to_pylist())
        wrong = next(((row, ours, theirs) for row, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        if wrong:
            yield f"{field.name} in row {wrong[0]} is {wrong[1]!r}, not {wrong[2]!r}"


def assert_same(found: Any, expected: pa.Table) -> None:
    assert not (wrong := list(differences(found, expected))), wrong
