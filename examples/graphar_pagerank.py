#!/usr/bin/env python3
"""PageRank: the most important vertices of a GraphAr graph.

    python examples/graphar_pagerank.py ldbc.graph.yml person knows person --property firstName
    python examples/graphar_pagerank.py s3://lake/ldbc.graph.yml person knows person --memory 256MiB

All edges are read once, in CSR form: an array of offsets and one of neighbours. The ranks are then computed in memory,
and the property of the top vertices is read at the end.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import stylobate as st


def page_rank(
    offsets: np.ndarray, targets: np.ndarray, damping: float, tolerance: float, max_iterations: int
) -> np.ndarray:
    """Returns the rank of each vertex. The ranks add up to 1.

    Vertices without edges distribute their rank evenly among all vertices. Iteration stops when the sum of all changes
    is less than the tolerance.
    """
    vertices = len(offsets) - 1
    degrees = np.diff(offsets)
    is_giving = degrees > 0
    sources = np.repeat(np.arange(vertices), degrees)
    ranks = np.full(vertices, 1 / vertices)
    for _ in range(max_iterations):
        shares = np.divide(ranks, degrees, out=np.zeros(vertices), where=is_giving)
        given = np.bincount(targets, weights=shares[sources], minlength=vertices)
        after = (1 - damping) / vertices + damping * (given + ranks[~is_giving].sum() / vertices)
        change = np.abs(after - ranks).sum()
        ranks = after
        if change < tolerance:
            break
    return ranks


def main() -> None:
    arguments = parse()
    with st.Cache(memory=arguments.memory) as cache:
        graph = st.open_graph(arguments.graph, cache=cache)
        began = time.perf_counter()
        csr = graph.edges(arguments.source, arguments.edge, arguments.destination).to_csr(direction=arguments.direction)
        offsets, targets = map(np.asarray, csr)
        read = time.perf_counter()
        if len(offsets) < 2:
            raise SystemExit("there are no vertices")
        ranks = page_rank(offsets, targets, arguments.damping, arguments.tolerance, arguments.iterations)
        done = time.perf_counter()
        print(f"{len(ranks):,} vertices, {len(targets):,} edges", end=": ")
        print(f"read in {read - began:.3f} s, ranked in {done - read:.3f} s")
        best = np.argsort(-ranks, kind="stable")[: arguments.top]
        names = [arguments.property] if arguments.property else []
        shown = pa.table(graph.vertices(arguments.source).select(names).take(best))
    for at, index in enumerate(best.tolist()):
        print(f"{index:>12,}  {ranks[index]:.6f}  " + "".join(str(shown[name][at]) for name in names))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", help="path or URL of the graph info file, NAME.graph.yml")
    parser.add_argument("source", help="vertex type at the source of the edges")
    parser.add_argument("edge", help="edge type")
    parser.add_argument("destination", help="vertex type at the destination: the same as the source")
    parser.add_argument("--direction", choices=["out", "in"], default="out", help="edge direction (default: out)")
    parser.add_argument("--damping", type=float, default=0.85)
    parser.add_argument("--tolerance", type=float, default=1e-9)
    parser.add_argument("--iterations", type=int, default=100, help="maximum number of iterations (default: 100)")
    parser.add_argument("--top", type=int, default=10, help="number of vertices to print (default: 10)")
    parser.add_argument("--property", help="property to print after the index and the rank")
    parser.add_argument("--memory", default="64MiB", help="size of the cache (default: 64MiB)")
    arguments = parser.parse_args()
    if arguments.source != arguments.destination:
        parser.error("edges must lead to vertices of the type that they leave")
    return arguments


if __name__ == "__main__":
    main()
