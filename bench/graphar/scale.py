#!/usr/bin/env python3
"""`make bench-graphar-scale`: a graph with ten million edges, imported and traversed in less memory than it takes.

The edges are random (R-MAT: degrees as skewed as those of social networks), in a Parquet file. The command line imports
it with each given memory limit. Then the examples, breadth-first search and PageRank, run in processes of their own,
with a cache that holds a tenth, half and twice of what they read: cold, and once more with what the cache kept. Every
budget must give the same answer. Peaks of memory are those of the whole process, as the kernel counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import stylobate as st

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = [0.1, 0.5, 2.0]
# The probabilities of R-MAT: the quadrant of the adjacency matrix in which an edge falls, at each level.
QUARTERS = [0.57, 0.19, 0.19, 0.05]
EDGE = ("node", "links", "node")


def main() -> int:
    arguments = parse()
    if arguments.walk:
        print(json.dumps(walked(*arguments.walk)))
        return 0
    if arguments.draw:
        draw(arguments, arguments.draw)
        return 0
    folder = arguments.data
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sizes = ["--scale", str(arguments.scale), "--edges", str(arguments.edges)]
    subprocess.run([sys.executable, __file__, *sizes, "--draw", folder], check=True)
    report = {"import": [imported(arguments, folder, memory) for memory in arguments.memory]}
    graph = folder / arguments.memory[0] / "r_mat.graph.yml"
    settle(graph.parent)
    edges = st.open_graph(graph).edges(*EDGE)
    working_set = 8 * (edges.count + (1 << arguments.scale))
    print(f"\n{'cache':<28}{'example':<24}{'cold, s':>10}{'again, s':>10}{'peak, MiB':>12}")
    report["walks"] = []
    for example in ("bfs", "pagerank"):
        answers = set()
        for share in BUDGETS:
            found = child("--walk", graph, example, int(share * working_set))
            title = f"{share:.0%} of {working_set / 1e6:,.0f} MB"
            print(f"{title:<28}{example:<24}{found['cold_s']:>10.2f}{found['again_s']:>10.2f}{found['peak_mib']:>12,.0f}")
            answers.add(found["answer"])
            report["walks"].append({"share": share, "example": example, **found})
        if len(answers) != 1:
            raise SystemExit(f"{example}: answers differ between budgets: {answers}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    shutil.rmtree(folder)
    return 0


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20, help="log2 of the number of vertices (default: 20)")
    parser.add_argument("--edges", type=int, default=10_000_000, help="number of edges (default: 10,000,000)")
    parser.add_argument("--memory", nargs="+", default=["1GiB", "64MiB"], help="memory of each import (default: 1GiB 64MiB)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-graphar-scale", help="a folder; emptied first")
    parser.add_argument("--binary", type=Path, default=target / "release" / "stylobate")
    parser.add_argument("--walk", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--draw", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def draw(arguments: argparse.Namespace, folder: Path) -> None:
    """Writes the vertices and edges to files."""
    rng = np.random.default_rng(7)
    sources, destinations = np.zeros(arguments.edges, np.int64), np.zeros(arguments.edges, np.int64)
    for _ in range(arguments.scale):
        quarter = rng.choice(4, arguments.edges, p=QUARTERS)
        sources = sources * 2 + quarter // 2
        destinations = destinations * 2 + quarter % 2
    # Without this, the low numbers would be the well-connected vertices.
    names = rng.permutation(1 << arguments.scale)
    pq.write_table(pa.table({"id": np.arange(1 << arguments.scale)}), folder / "nodes.parquet")
    links = pa.table({"src": names[sources], "dst": names[destinations]})
    pq.write_table(links, folder / "links.parquet", row_group_size=1 << 20)


def imported(arguments: argparse.Namespace, folder: Path, memory: str) -> dict[str, Any]:
    """Imports the graph and returns the time and peak memory."""
    command: list[Any] = [arguments.binary, "graph", "import", "--quiet", "--by-index", "--name", "r_mat"]
    command += ["--vertices", "node=nodes.parquet:id", "--edges", "node_links_node=links.parquet"]
    command += ["--vertex-chunk-size", 1 << 14, "--edge-chunk-size", 1 << 18, "--memory", memory, "--output", memory]
    began = time.perf_counter()
    child = subprocess.Popen([str(part) for part in command], cwd=folder)
    peak = 0
    while child.poll() is None:
        peak = max(peak, peak_bytes(child.pid))
        time.sleep(0.01)
    if child.returncode:
        raise SystemExit(f"the import ended with {child.returncode}")
    taken = time.perf_counter() - began
    rate = arguments.edges / taken
    print(f"import with {memory}: {taken:.2f} s, {rate:,.0f} edges/s, peak of the process {peak / 2**20:,.0f} MiB")
    return {"memory": memory, "seconds": taken, "peak_bytes": peak}


def peak_bytes(process: int | str) -> int:
    """Returns the peak memory of a process."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(lines[0][1]) if lines else 0


def child(*arguments: Any) -> dict[str, Any]:
    """Runs this program in a new process and returns its JSON output."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def walked(graph: str, example: str, memory: str) -> dict[str, Any]:
    """Runs an example twice over one cache."""
    run = {"bfs": searched, "pagerank": ranked}[example]
    with st.Cache(memory=int(memory)) as cache:
        seconds = []
        for _ in range(2):
            opened = st.open_graph(graph, cache=cache)
            began = time.perf_counter()
            answer = run(opened)
            seconds.append(time.perf_counter() - began)
    peak = peak_bytes("self") / 2**20
    return {"cold_s": seconds[0], "again_s": seconds[1], "peak_mib": peak, "answer": answer}


def searched(graph: st.Graph) -> str:
    found = example("bfs").distances(graph.edges(*EDGE), graph.vertices("node").count, 0, "out")
    return " ".join(map(str, np.bincount(found + 1)))


def ranked(graph: st.Graph) -> str:
    offsets, targets = map(np.asarray, graph.edges(*EDGE).to_csr())
    ranks = example("pagerank").page_rank(offsets, targets, 0.85, 1e-6, 20)
    return " ".join(map(str, np.argsort(-ranks, kind="stable")[:10]))


def example(name: str) -> ModuleType:
    """Imports one of the examples as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"graphar_{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settle(folder: Path) -> None:
    """Sets modification times in the past, so that the files have versions that can be trusted."""
    then = time.time() - 60
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


if __name__ == "__main__":
    sys.exit(main())
