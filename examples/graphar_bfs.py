#!/usr/bin/env python3
"""How far each vertex of a GraphAr graph is from one of them: breadth-first search.

    python examples/graphar_bfs.py ldbc.graph.yml person knows person --start 6
    python examples/graphar_bfs.py s3://lake/ldbc.graph.yml person knows person --start 6 --memory 256MiB

The neighbours of all that was found in one step are asked for at once. So each step reads the chunks it needs once, and
the graph may be larger than the memory; what is kept of it in `--memory` is not read again.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import stylobate as st

UNSEEN = -1


def distances(edges: st.Edges, vertices: int, start: int, direction: str) -> np.ndarray:
    """The number of steps to each vertex, `UNSEEN` where no path leads to it."""
    found = np.full(vertices, UNSEEN, np.int32)
    found[start] = 0
    frontier = np.array([start], np.int64)
    step = 0
    while len(frontier):
        step += 1
        neighbours = pa.table(edges.neighbors(frontier, direction=direction))["neighbor"].to_numpy()
        frontier = np.unique(neighbours[found[neighbours] == UNSEEN])
        found[frontier] = step
    return found


def main() -> None:
    arguments = parse()
    with st.Cache(memory=arguments.memory) as cache:
        graph = st.open_graph(arguments.graph, cache=cache)
        edges = graph.edges(arguments.source, arguments.edge, arguments.destination)
        vertices = graph.vertices(arguments.source).count
        began = time.perf_counter()
        found = distances(edges, vertices, arguments.start, arguments.direction)
        took = time.perf_counter() - began
    reached = found[found != UNSEEN]
    print(f"{len(reached):,} of {vertices:,} vertices are reached, in {took:.3f} s")
    print("steps  vertices")
    for step, count in enumerate(np.bincount(reached)):
        print(f"{step:>5}  {count:>8,}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", help="a path or URL of what describes the graph, NAME.graph.yml")
    parser.add_argument("source", help="the type of vertices that edges leave")
    parser.add_argument("edge", help="the type of edges")
    parser.add_argument("destination", help="the type of vertices that edges reach: the same one")
    parser.add_argument("--start", type=int, default=0, help="the index of a vertex (default: 0)")
    parser.add_argument("--direction", choices=["out", "in"], default="out", help="along the edges, or against them")
    parser.add_argument("--memory", default="64MiB", help="for what is kept of the graph (default: 64MiB)")
    arguments = parser.parse_args()
    if arguments.source != arguments.destination:
        parser.error("edges must lead to vertices of the type that they leave")
    return arguments


if __name__ == "__main__":
    main()
