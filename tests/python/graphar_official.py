"""Reads graphs with the official package and prints the contents as JSON; a process of its own, since it may crash.

python graphar_official.py one.graph.yml two.graph.yml

The package returns only 64-bit integers and strings, and null strings as empty ones. So only properties of these types
are printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import graphar
from graphar.types import AdjListType

SPOKEN = ("int64", "string")


def main() -> None:
    print(json.dumps([read(path) for path in sys.argv[1:]]))


def read(path: str) -> dict[str, Any]:
    """Returns one graph: properties by column, edges by list; `None` for a list that the package cannot iterate."""
    graph = graphar.GraphInfo.load(path)
    vertices = {info.get_type(): read_vertices(graph, info) for info in graph.get_vertex_infos()}
    edges = []
    for info in graph.get_edge_infos():
        name = [info.get_src_type(), info.get_edge_type(), info.get_dst_type()]
        edges.append({"name": name, "lists": read_lists(graph, info, name)})
    return {"name": graph.get_name(), "vertices": vertices, "edges": edges}


def read_vertices(graph: Any, info: Any) -> dict[str, Any]:
    names = spoken(info)
    vertices = graphar.VerticesCollection.Make(graph, info.get_type())
    rows = [[value(vertex, name) for name in names] for vertex in vertices]
    return {"count": vertices.size(), "properties": dict(zip(names, columns(rows, len(names))))}


def read_lists(graph: Any, info: Any, name: list[str]) -> dict[str, Any]:
    found = {}
    names = spoken(info)
    for order in AdjListType.__members__.values():
        if not info.has_adjacent_list_type(order):
            continue
        if not is_walked(graph, info, order):
            found[order.name] = None
            continue
        edges = graphar.EdgesCollection.Make(graph, *name, order)
        rows = [[edge.source(), edge.destination(), *(value(edge, name) for name in names)] for edge in edges]
        sources, destinations, *properties = columns(rows, 2 + len(names))
        found[order.name] = {
            "count": edges.size(),
            "sources": sources,
            "destinations": destinations,
            "properties": dict(zip(names, properties)),
        }
    return found


def is_walked(graph: Any, info: Any, order: AdjListType) -> bool:
    """Returns whether the package's iterator reaches the end: it runs past the end of a part whose last chunk is full."""
    by_source = order in (AdjListType.ordered_by_source, AdjListType.unordered_by_source)
    size = info.get_src_chunk_size() if by_source else info.get_dst_chunk_size()
    vertices = number(graph.get_prefix() + info.get_vertices_num_file_path(order))
    parts = range(-(-vertices // size))
    counts = [number(graph.get_prefix() + info.get_edges_num_file_path(part, order)) for part in parts]
    return not any(count and count % info.get_chunk_size() == 0 for count in counts)


def number(path: str) -> int:
    with open(path, "rb") as file:
        return int.from_bytes(file.read(), "little")


def spoken(info: Any) -> list[str]:
    """Returns the properties whose types the package returns."""
    properties = [property for group in info.get_property_groups() for property in group.get_properties()]
    return [property.name for property in properties if property.type.to_type_name() in SPOKEN]


def value(element: Any, name: str) -> Any:
    return element.property(name) if element.IsValid(name) else None


def columns(rows: Iterable[list[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows)] or [[] for _ in range(width)]


if __name__ == "__main__":
    main()
