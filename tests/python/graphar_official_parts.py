"""Reads graphs with the official package part by part and vertex by vertex, so that chunks of any size are read.

python graphar_official_parts.py one.graph.yml two.graph.yml

If the last chunk of a part is full, the package's iterator looks for another chunk after it, and ends the process if
there is none; chunks of one edge are always full. So the package reads a copy of the graph per part, in which the
counts of the other parts are 0 and nothing else is changed, and is stopped after the part's number of edges. Edges of a
vertex are located by the offsets, and are as many as the part has for that vertex; for a vertex without edges the
package returns the first edge of all, so such vertices are not looked up.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import graphar
from graphar.types import AdjListType

from graphar_official import number, read_vertices, spoken, value


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([read(path, Path(folder, str(at))) for at, path in enumerate(sys.argv[1:])]))


def read(path: str, folder: Path) -> dict[str, Any]:
    """Returns one graph: properties by column, edges by list and, for ordered lists, by vertex."""
    shutil.copytree(Path(path).parent, folder)
    copy = str(folder / Path(path).name)
    graph = graphar.GraphInfo.load(copy)
    edges = []
    for info in graph.get_edge_infos():
        lists = [order for order in AdjListType.__members__.values() if info.has_adjacent_list_type(order)]
        edges.append({
            "name": [info.get_src_type(), info.get_edge_type(), info.get_dst_type()],
            "directed": info.is_directed(),
            "lists": {order.name: read_list(graph, info, order) for order in lists},
        })
    vertices = {info.get_type(): read_vertices(graph, info) for info in graph.get_vertex_infos()}
    return {"name": graph.get_name(), "vertices": vertices, "edges": edges}


def read_list(graph: Any, info: Any, order: AdjListType) -> dict[str, Any]:
    vertices = number(graph.get_prefix() + info.get_vertices_num_file_path(order))
    by_source = order.name.endswith("source")
    size = info.get_src_chunk_size() if by_source else info.get_dst_chunk_size()
    files = [
        Path(graph.get_prefix() + info.get_edges_num_file_path(part, order)) for part in range(-(-vertices // size))
    ]
    whole = collection(graph, info, order)
    found: dict[str, Any] = {"vertices": vertices, "count": whole.size(), "parts": [], "of_vertices": []}
    names = spoken(info)
    for file in files:
        found["parts"].append(read_part(graph, info, order, file, files, names))
    if not order.name.startswith("ordered"):
        return found
    degrees = Counter(row[0 if by_source else 1] for rows in found["parts"] for row in rows)
    for vertex in range(vertices):
        find = whole.find_src if by_source else whole.find_dst
        edges = itertools.islice(find(vertex, whole.begin()), degrees[vertex]) if degrees[vertex] else []
        found["of_vertices"].append([row(edge, names) for edge in edges])
    return found


def read_part(
    graph: Any, info: Any, order: AdjListType, file: Path, files: list[Path], names: list[str]
) -> list[list[Any]]:
    """Returns the edges of one part, with the other parts hidden."""
    counts = {other: other.read_bytes() for other in files}
    for other in files:
        if other != file:
            other.write_bytes(bytes(8))
    part = collection(graph, info, order)
    edges = [row(edge, names) for edge in itertools.islice(part, number(str(file)))]
    for other, count in counts.items():
        other.write_bytes(count)
    return edges


def collection(graph: Any, info: Any, order: AdjListType) -> Any:
    name = (info.get_src_type(), info.get_edge_type(), info.get_dst_type())
    return graphar.EdgesCollection.Make(graph, *name, order)


def row(edge: Any, names: list[str]) -> list[Any]:
    return [edge.source(), edge.destination(), *(value(edge, name) for name in names)]


if __name__ == "__main__":
    main()
