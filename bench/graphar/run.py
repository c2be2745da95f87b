#!/usr/bin/env python3
"""`make bench-graphar`: graphs in GraphAr, read beside the official Python package, in one run on one machine.

The graphs are the official sample of a social network in three formats, and a random R-MAT graph with 2^16 vertices and
a million edges. Both packages answer the same questions, and every answer is compared. Figures are medians over rounds
in which the packages take turns; ratios are of medians. The official package has no cache but the page cache. Ours
starts empty in lines marked cold; elsewhere it keeps what it read before, within the memory limit given.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graphar
import numpy as np
import pyarrow as pa
import stylobate as st
from graphar.types import AdjListType

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT.parent / "shared" / "data" / "graphar" / "ldbc_sample"
BUDGETS = [0.1, 0.5, 2.0]
# The probabilities of R-MAT: the quadrant of the adjacency matrix in which an edge falls, at each level.
QUARTERS = [0.57, 0.19, 0.19, 0.05]
Run = Callable[[], Any]
# Nanoseconds of the official C++ reader in its own benchmarks over `ldbc_sample`, on another machine.
IN_CPP = {
    "a cached chunk of an adjacency list with": "250,000",
    "a cached chunk of an adjacency list": "216,000",
    "a cached chunk of": "127,000 to 864,000",
    "create a reader": "2,200 to 4,060",
    "open a graph": "169,000",
}


@dataclass
class Graph:
    """The subject of the questions: a graph, one of its vertex types, one of their properties, one of its edge types."""

    title: str
    path: Path
    vertex: str
    property: str
    edge: tuple[str, str, str]


def main() -> int:
    arguments = parse()
    folder = arguments.data
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    official = importlib.metadata.version("graphar")
    print(f"stylobate {st.__version__}, graphar {official}, pyarrow {pa.__version__}, cpus {os.cpu_count()}\n")
    report: dict[str, Any] = {}
    samples = graphs(arguments, folder)
    for graph in samples:
        report[graph.title] = compare(arguments, graph)
    made = r_mat(arguments, folder)
    report[made.title] = compare(arguments, made)
    report["budgets"] = budgets(arguments, made)
    # The loops of the official C++ benchmarks, over their data set and over the larger graph.
    for graph in [*samples[:1], made]:
        report[f"rust, {graph.title}"] = rust(arguments, graph)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    shutil.rmtree(folder)
    return 0


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=200, help="random vertices queried in each round")
    parser.add_argument("--scale", type=int, default=16, help="log2 of the random graph's number of vertices")
    parser.add_argument("--degree", type=int, default=16, help="edges per vertex of the random graph")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-graphar", help="a folder for files; emptied first")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="the official sample `ldbc_sample`")
    parser.add_argument("--rust", type=Path, default=target / "release" / "stylobate-bench-graphar")
    return parser.parse_args()


# The graphs.


def graphs(arguments: argparse.Namespace, folder: Path) -> list[Graph]:
    """Returns the graphs; the official sample only if it exists."""
    if not arguments.samples.is_dir():
        print(f"{arguments.samples} is missing: the official sample is left out\n")
        return []
    # A copy with modification times in the past, so that the files have versions that can be trusted.
    shutil.copytree(arguments.samples, folder / "ldbc_sample", copy_function=shutil.copyfile)
    settle(folder)
    return [
        Graph(f"ldbc_sample, {format}", folder / f"ldbc_sample/{format}/ldbc_sample.graph.yml", "person", "firstName",
              ("person", "knows", "person"))
        for format in ("parquet", "orc", "csv")
    ]


def r_mat(arguments: argparse.Namespace, folder: Path) -> Graph:
    """Generates a graph with degrees as skewed as those of social networks."""
    vertices, edges = 1 << arguments.scale, arguments.degree << arguments.scale
    rng = np.random.default_rng(7)
    sources, destinations = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(arguments.scale):
        quarter = rng.choice(4, edges, p=QUARTERS)
        sources = sources * 2 + quarter // 2
        destinations = destinations * 2 + quarter % 2
    # Without this, the low numbers would be the well-connected vertices.
    names = rng.permutation(vertices)
    texts = [f"node {at * 7919}" for at in range(vertices)]
    nodes = pa.table({"id": pa.array(range(vertices), pa.int64()), "name": texts})
    links = pa.table({"src": names[sources], "dst": names[destinations]})
    st.write_graph(
        folder / "r_mat",
        name="r_mat",
        vertices={"node": {"data": nodes, "key": "id"}},
        edges={("node", "links", "node"): {"data": links, "by": "index"}},
        vertex_chunk_size=1 << 10,
        edge_chunk_size=1 << 16,
    )
    settle(folder / "r_mat")
    title = f"R-MAT, {vertices:,} vertices, {edges:,} edges, parquet"
    return Graph(title, folder / "r_mat" / "r_mat.graph.yml", "node", "name", ("node", "links", "node"))


def settle(folder: Path) -> None:
    then = time.time() - 60
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


# The questions.


def compare(arguments: argparse.Namespace, graph: Graph) -> list[dict[str, Any]]:
    """Compares both packages on one graph."""
    ids, starts = chosen(arguments, graph)
    cache = st.Cache(memory="1GiB")
    ours, theirs = Ours(graph, cache), Official(graph)
    opened = {"stylobate": lambda: opened_by_us(graph, cache), "official": lambda: opened_by_them(graph)}
    questions: list[tuple[str, int, dict[str, Run]]] = [
        ("open the graph", 1, opened),
        ("make a reader of vertices", 1, {"stylobate": ours.count_vertices, "official": theirs.count_vertices}),
        ("make a reader of edges", 1, {"stylobate": ours.count_edges, "official": theirs.count_edges}),
        (
            "a property of a random vertex", len(ids),
            {
                "stylobate, in one question": lambda: ours.properties(ids),
                "stylobate, one by one": lambda: [name for id in ids for name in ours.properties([id])],
                "stylobate, one by one, cold": lambda: cold(
                    graph, lambda fresh: [fresh.properties([id])[0] for id in ids]
                ),
                "official": lambda: theirs.properties(ids),
            },
        ),
        (
            "neighbours of a random vertex", len(starts),
            {
                "stylobate, in one question": lambda: ours.neighbours(starts),
                "stylobate, one by one": lambda: [ours.neighbours([id])[0] for id in starts],
                "stylobate, one by one, cold": lambda: cold(
                    graph, lambda fresh: [fresh.neighbours([id])[0] for id in starts]
                ),
                "official": lambda: theirs.neighbours(starts),
            },
        ),
    ]
    if graph.vertex == "person":
        questions.append(
            ("all edges, each", ours.count_edges(), {"stylobate": ours.all_edges, "official": theirs.all_edges})
        )
    print(f"{graph.title + ', µs':<62}{'stylobate':>12}{'official':>12}{'ratio':>10}")
    rows = [row for title, each, runs in questions for row in asked(arguments, title, each, runs)]
    print()
    cache.close()
    return rows


def asked(arguments: argparse.Namespace, title: str, each: int, runs: dict[str, Run]) -> list[dict[str, Any]]:
    """Measures one question on all engines, after checking that their answers are equal."""
    answers = {name: run() for name, run in runs.items()}
    for name, answer in answers.items():
        if answer != answers["official"]:
            raise SystemExit(f"{title}: {name} answers {str(answer)[:200]}, not {str(answers['official'])[:200]}")
    seconds = in_turns(arguments.rounds, runs)
    rows = []
    for name, taken in seconds.items():
        if name == "official":
            continue
        ratio = seconds["official"] / taken
        how = name.removeprefix("stylobate")
        micros = [1e6 * found / each for found in (taken, seconds["official"])]
        print(f"{title + how:<62}{micros[0]:>12,.2f}{micros[1]:>12,.2f}{ratio:>9,.1f}x")
        rows.append({"question": title + how, "stylobate_us": micros[0], "official_us": micros[1], "ratio": ratio})
    return rows


def budgets(arguments: argparse.Namespace, graph: Graph) -> list[dict[str, Any]]:
    """Measures neighbors one by one, with less cache memory than the adjacency list takes."""
    _, starts = chosen(arguments, graph)
    edges = st.open_graph(graph.path).edges(*graph.edge)
    # One column of neighbors, and an offset for each vertex.
    working_set = 8 * (edges.count + st.open_graph(graph.path).vertices(graph.vertex).count)
    expected = Official(graph).neighbours(starts)
    caches = {share: st.Cache(memory=int(share * working_set)) for share in BUDGETS}
    readers = {share: Ours(graph, cache) for share, cache in caches.items()}
    runs: dict[str, Run] = {
        str(share): lambda reader=reader: [reader.neighbours([id])[0] for id in starts]
        for share, reader in readers.items()
    }
    for share, run in runs.items():
        if run() != expected:
            raise SystemExit(f"neighbours differ where the cache has {share} of what they take")
    print(f"{'neighbours, one by one, µs; ' + graph.title:<74}{'stylobate':>12}")
    rows = []
    for share, taken in in_turns(arguments.rounds, runs).items():
        micros = 1e6 * taken / len(starts)
        memory = f"memory for {float(share):.0%} of {working_set / 1e6:.1f} MB"
        print(f"{memory:<74}{micros:>12,.2f}")
        rows.append({"share": float(share), "working_set": working_set, "stylobate_us": micros})
    print()
    for cache in caches.values():
        cache.close()
    return rows


def rust(arguments: argparse.Namespace, graph: Graph) -> dict[str, float] | None:
    """Returns figures of the Rust library without Python, if that binary was built."""
    if not arguments.rust.is_file():
        return None
    command = [arguments.rust, graph.path, graph.vertex, ",".join(graph.edge)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    print(f"{'without Python, ns; ' + graph.title:<74}{'stylobate':>12}{'official, C++':>20}")
    for what, figure in found.items():
        theirs = next((known for start, known in IN_CPP.items() if what.startswith(start)), "")
        print(f"{what:<74}{figure:>12,.1f}{theirs:>20}")
    print()
    return found


def chosen(arguments: argparse.Namespace, graph: Graph) -> tuple[list[int], list[int]]:
    """Returns random vertices, and random vertices with edges for which the official package does not run past the
    list's end."""
    opened = st.open_graph(graph.path)
    count = opened.vertices(graph.vertex).count
    rng = np.random.default_rng(11)
    ids = rng.integers(0, count, arguments.queries).tolist()
    degrees = np.asarray(opened.edges(*graph.edge).degrees(range(count)))
    linked = np.flatnonzero(degrees)
    starts = rng.choice(linked[linked < linked[-1]], arguments.queries).tolist()
    return ids, starts


def cold(graph: Graph, ask: Callable[[Ours], Any]) -> Any:
    """Returns the answers of a new reader; opening the graph is included."""
    with st.Cache(memory="1GiB") as cache:
        return ask(Ours(graph, cache))


def opened_by_us(graph: Graph, cache: st.Cache) -> str:
    return st.open_graph(graph.path, cache=cache).name


def opened_by_them(graph: Graph) -> str:
    return graphar.GraphInfo.load(str(graph.path)).get_name()


class Ours:
    """The questions, as put to stylobate."""

    def __init__(self, graph: Graph, cache: st.Cache) -> None:
        self.graph = st.open_graph(graph.path, cache=cache)
        self.asked = graph
        self.vertices = self.graph.vertices(graph.vertex).select([graph.property])
        self.edges = self.graph.edges(*graph.edge)

    def count_vertices(self) -> int:
        return self.graph.vertices(self.asked.vertex).count

    def count_edges(self) -> int:
        return self.graph.edges(*self.asked.edge).count

    def properties(self, ids: list[int]) -> list[str]:
        return self.vertices.take(ids)[self.asked.property].to_pylist()

    def neighbours(self, ids: list[int]) -> list[list[int]]:
        found = self.edges.neighbors(ids)
        neighbours = found["neighbor"].to_numpy()
        if len(ids) == 1:
            return [neighbours.tolist()]
        ends = np.searchsorted(found["position"].to_numpy(), np.arange(1, len(ids)))
        return [part.tolist() for part in np.split(neighbours, ends)]

    def all_edges(self) -> tuple[int, int]:
        found = self.edges.to_arrow(properties=[])
        return int(found.column(0).to_numpy().sum()), int(found.column(1).to_numpy().sum())


class Official:
    """The questions, as put to the official package."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graphar.GraphInfo.load(str(graph.path))
        self.asked = graph
        self.vertices = graphar.VerticesCollection.Make(self.graph, graph.vertex)
        self.edges = graphar.EdgesCollection.Make(self.graph, *graph.edge, AdjListType.ordered_by_source)

    def count_vertices(self) -> int:
        return graphar.VerticesCollection.Make(self.graph, self.asked.vertex).size()

    def count_edges(self) -> int:
        return graphar.EdgesCollection.Make(self.graph, *self.asked.edge, AdjListType.ordered_by_source).size()

    def properties(self, ids: list[int]) -> list[str]:
        # The iterator itself would return the address of a string.
        return [next(self.vertices.find(id)).property(self.asked.property) for id in ids]

    def neighbours(self, ids: list[int]) -> list[list[int]]:
        return [self.walk(id) for id in ids]

    def walk(self, id: int) -> list[int]:
        found = []
        edges = self.edges.find_src(id, self.edges.begin())
        while (edge := next(edges)).source() == id:
            found.append(edge.destination())
        return found

    def all_edges(self) -> tuple[int, int]:
        sources = destinations = 0
        for edge in self.edges:
            sources += edge.source()
            destinations += edge.destination()
        return sources, destinations


def in_turns(rounds: int, runs: dict[str, Run]) -> dict[str, float]:
    """Returns medians over `rounds` rounds, where the runs take turns within a round; quick ones are repeated."""
    repeats = {name: repeated(run) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(taken) for name, taken in times.items()}


def repeated(run: Run) -> int:
    """Returns the number of repetitions that take a twentieth of a second."""
    start = time.perf_counter()
    run()
    return max(1, int(0.05 / (time.perf_counter() - start)))


if __name__ == "__main__":
    sys.exit(main())
