#!/usr/bin/env python3
"""Breadth-first search: the distance of each vertex of a GraphAr graph from a start vertex.

    python examples/graphar_bfs.py ldbc.graph.yml person knows person --start 6
    python examples/graphar_bfs.py s3://lake/ldbc.graph.yml person knows person --start 6 --memory 256MiB

Each step looks up the neighbours of all vertices of the frontier in one call, so it reads each chunk at most once. The
graph may be larger than `--memory`; chunks that are still cached are not read again.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import stylobate as st

UNSEEN = -1


def distances(edges: st.Edges, vertices: int, start: int, direction: str) -> np.ndarray:
    """Returns the number of steps to each vertex; `UNSEEN` if it cannot be reached."""
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
    parser.add_argument("graph", help="path or URL of the graph info file, NAME.graph.yml")
    parser.add_argument("source", help="vertex type at the source of the edges")
    parser.add_argument("edge", help="edge type")
    parser.add_argument("destination", help="vertex type at the destination: the same as the source")
    parser.add_argument("--start", type=int, default=0, help="index of the start vertex (default: 0)")
    parser.add_argument("--direction", choices=["out", "in"], default="out", help="edge direction (default: out)")
    parser.add_argument("--memory", default="64MiB", help="size of the cache (default: 64MiB)")
    arguments = parser.parse_args()
    if arguments.source != arguments.destination:
        parser.error("edges must lead to vertices of the type that they leave")
    return arguments


if __name__ == "__main__":
    main()
