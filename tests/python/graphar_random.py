"""Random graphs, and options to write them: several types, all kinds of properties, loops, parallel edges."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from graphar_oracle import DESTINATION, INDEX, SOURCE, EdgeType, plain_kind

FORMATS = ["parquet", "orc", "csv"]
LISTS = ["ordered_by_source", "ordered_by_dest", "unordered_by_source", "unordered_by_dest"]
SIZES = [1, 2, 3, 7, 50, 1_000]
# None of them looks like a number or a date: readers that infer CSV types would take it for one.
WORDS = ["Oslo", "Bergen", "", "a,b", 'q"u', "ü", " x ", "🙂 smile", "it's"]
DAY = datetime.datetime(2024, 1, 1)

# Input types, and the types that they are stored as.
KINDS: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.timestamp("us"): pa.timestamp("ms"),
    pa.timestamp("s"): pa.timestamp("ms"),
    pa.dictionary(pa.int8(), pa.string()): pa.string(),
    pa.dictionary(pa.int32(), pa.int64()): pa.int64(),
} | {
    kind: kind
    for kind in (
        pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("ms")
    )
}
LIST_KINDS = [pa.list_(kind) for kind in (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string())]


@dataclass
class Edges:
    """Edges as passed in, and as expected back."""

    data: pa.Table
    options: dict[str, Any]
    expected: pa.Table


@dataclass
class Made:
    """A graph as passed to `write_graph`, and as expected back."""

    seed: int
    vertices: dict[str, pa.Table] = field(default_factory=dict)
    vertex_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    expected: dict[str, pa.Table] = field(default_factory=dict)
    labels: dict[str, dict[str, list[bool]]] = field(default_factory=dict)
    edges: dict[EdgeType, Edges] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def given(self) -> dict[str, Any]:
        """Returns the arguments of `write_graph`, except for the path."""
        return {
            "name": f"made_{self.seed}",
            "vertices": {name: {"data": data, **self.vertex_options[name]} for name, data in self.vertices.items()},
            "edges": {name: {"data": edges.data, **edges.options} for name, edges in self.edges.items()},
            **self.options,
        }

    def __str__(self) -> str:
        counts = {name: table.num_rows for name, table in self.vertices.items()}
        edges = {"_".join(name): (made.data.num_rows, made.options) for name, made in self.edges.items()}
        return f"seed {self.seed}: {counts} {edges} {self.options}"


def made(seed: int, format: str) -> Made:
    rng = random.Random(f"graph {seed} {format}")
    graph = Made(seed)
    graph.options = {
        "format": format,
        "vertex_chunk_size": rng.choice(SIZES),
        "edge_chunk_size": rng.choice(SIZES),
        "memory": rng.choice([None, None, "1MiB", "32MiB"]),
    }
    kinds = list(KINDS) + (LIST_KINDS if format != "csv" else [])
    for name in rng.sample(["person", "Movie", "a b", "x.y-z"], rng.choice([1, 1, 2, 3])):
        add_vertices(rng, graph, name, kinds)
    types = list(graph.vertices)
    for at in range(rng.choice([0, 1, 1, 2, 3])):
        add_edges(rng, graph, (rng.choice(types), f"edge-{at}", rng.choice(types)), list(KINDS))
    return graph


def add_vertices(rng: random.Random, graph: Made, name: str, kinds: list[pa.DataType]) -> None:
    count = rng.choice([0, 1, 2, 5, 30, 130])
    key = rng.choice([None, "id", "name"])
    columns: dict[str, pa.Array] = {
        "id": pa.array(rng.sample(range(-500, 500), count), pa.int64()),
        "name": pa.array([f"{name} {at:x}g" for at in rng.sample(range(1000), count)], pa.string()),
    }
    columns |= {f"p{at}": array(rng, rng.choice(kinds), count) for at in range(rng.choice([0, 1, 3, 6]))}
    marks = {f"is_{mark}": [rng.random() < 0.4 for _ in range(count)] for mark in rng.choice([[], [], ["old", "new"]])}
    options: dict[str, Any] = {} if key is None else {"key": key}
    if marks:
        options["labels"] = list(marks)
    if rng.random() < 0.4:
        options["groups"] = partition(rng, list(columns))
    graph.vertices[name] = pa.table(
        columns | {mark: pa.array(held, pa.bool_()) for mark, held in marks.items()}
    )
    graph.vertex_options[name] = options
    graph.labels[name] = marks
    grouped = [column for group in options.get("groups", [list(columns)]) for column in group]
    graph.expected[name] = pa.table(
        {INDEX: pa.array(range(count), pa.int64())} | {column: stored(columns[column]) for column in grouped}
    )


def add_edges(rng: random.Random, graph: Made, name: EdgeType, kinds: list[pa.DataType]) -> None:
    counts = [graph.vertices[end].num_rows for end in (name[0], name[2])]
    count = rng.choice([0, 1, 5, 60, 300]) if all(counts) else 0
    # Only a few vertices have edges, so that there are parts without edges, loops and parallel edges.
    few = [[rng.randrange(among) for _ in range(rng.choice([1, 5, 50]))] if among else [] for among in counts]
    ends = [[rng.choice(among) for _ in range(count)] for among in few]
    key = [graph.vertex_options[end].get("key") for end in (name[0], name[2])]
    by = "key" if all(key) and rng.random() < 0.7 else "index"
    columns = [
        pa.array(rows, pa.int64()) if by == "index" else graph.vertices[end][column].take(pa.array(rows, pa.int64()))
        for rows, end, column in zip(ends, (name[0], name[2]), key)
    ]
    # A CSV edge chunk of one column that contains a null has an empty line, which other readers skip.
    width = rng.choice([0, 2, 4]) if graph.options["format"] == "csv" else rng.choice([0, 1, 2, 4])
    properties = {f"e{at}": array(rng, rng.choice(kinds), count) for at in range(width)}
    names = rng.choice([("src", "dst"), ("from", "to")])
    options: dict[str, Any] = {
        "by": by,
        "directed": rng.random() < 0.5,
        "lists": rng.sample(LISTS, rng.choice([1, 2, 4])),
    }
    if names != ("src", "dst"):
        options |= {"source": names[0], "destination": names[1]}
    graph.edges[name] = Edges(
        pa.table(dict(zip(names, columns)) | properties),
        options,
        pa.table(
            {SOURCE: pa.array(ends[0], pa.int64()), DESTINATION: pa.array(ends[1], pa.int64())}
            | {column: stored(values) for column, values in properties.items()}
        ),
    )


def partition(rng: random.Random, names: list[str]) -> list[list[str]]:
    """Returns the names in random groups and order."""
    shuffled = rng.sample(names, len(names))
    cuts = sorted(rng.sample(range(1, len(names)), rng.randrange(len(names))))
    return [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, len(names)])]


def array(rng: random.Random, kind: pa.DataType, count: int) -> pa.Array:
    """Returns `count` values, a fifth of them null."""
    return pa.array([None if rng.random() < 0.2 else value(rng, plain_kind(kind)) for _ in range(count)], kind)


def value(rng: random.Random, kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return [value(rng, kind.value_type) for _ in range(rng.randrange(4))]
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        # JSON floats hold integers of at most 53 bits.
        low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** min(kind.bit_width - 1, 53))
        return rng.choice([0, 1, rng.randrange(low, 2 ** min(kind.bit_width - 1, 53))])
    if pa.types.is_floating(kind):
        return rng.choice([0.0, -1.5, rng.randrange(1000) / 8])
    if pa.types.is_date(kind):
        return (DAY + datetime.timedelta(days=rng.randrange(-20_000, 9_000))).date()
    if pa.types.is_timestamp(kind):
        fraction = 0 if kind.unit == "s" else rng.randrange(1_000)
        return DAY + datetime.timedelta(seconds=rng.randrange(-(10**9), 10**8), milliseconds=fraction)
    return rng.choice(WORDS)


def stored(values: pa.Array) -> pa.Array:
    """Returns values in the type that they are stored as."""
    return values.cast(KINDS.get(values.type, values.type))


def rows(table: pa.Table) -> Counter[str]:
    """Returns the number of occurrences of each row."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(map(repr, zip(*columns)))
