"""Loads one engine, or runs one query on it, in a process of its own, and prints the figures as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prepare", "load", "ask"])
    parser.add_argument("engine", help="stylobate, kuzu, ladybug or namidb, and how: prepared, elementId")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--query")
    parser.add_argument("--persons", type=lambda text: text.split(","))
    parser.add_argument("--runs", type=int)
    arguments = parser.parse_args()

    figures = {"prepare": prepare, "load": load, "ask": ask}[arguments.what](arguments)
    print(json.dumps(figures | {"peak_kib": peak()}))
    return 0


def prepare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Converts the tables into the files that an engine loads, if it cannot load the tables themselves. Not timed."""
    if arguments.engine == "namidb":
        peers.Nami.prepare(arguments.folder / "prepared", arguments.data)
    return {}


def load(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a load, and the bytes of the files that it wrote. Imports of the engine are not timed."""
    graph = arguments.folder / "graph"
    if arguments.engine == "stylobate":
        queries = importlib.import_module("queries")
        run: Callable[[], None] = lambda: queries.load(graph, arguments.data)
    elif arguments.engine == "namidb":
        importlib.import_module("namidb")
        run = lambda: peers.Nami.load(graph, arguments.folder / "prepared")
    else:
        module = importlib.import_module(arguments.engine)
        run = lambda: peers.Kuzu.load(module, graph, arguments.data)
    if arguments.engine != "stylobate":
        graph.mkdir()

    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start

    size = sum(file.stat().st_size for file in graph.rglob("*") if file.is_file())
    return {"seconds": seconds, "bytes": size}


def ask(arguments: argparse.Namespace) -> dict[str, Any]:
    """Times of opening the graph, and of a query: first cold, then `--runs` times per person up to the engine's own
    form of the answer, and `--runs` times up to rows as Python tuples."""
    name, _, how = arguments.engine.partition(" ")
    start = opener(name, how, arguments.folder / "graph")
    opening = time.perf_counter()
    engine = start()
    query = engine.query(arguments.query)
    opened = time.perf_counter() - opening

    figures: dict[str, Any] = {"open_us": 1e6 * opened, "persons": []}
    for person in arguments.persons:
        first = timed(lambda: query(person))
        figures.setdefault("cold_us", first)

        answers = [timed(lambda: query(person)) for _ in range(arguments.runs)]
        rows = [timed(lambda: engine.rows(query(person))) for _ in range(arguments.runs)]

        answer = engine.rows(query(person))
        figures["persons"].append({"person": person, "answer_us": answers, "rows_us": rows, "answer": answer})

    return figures


def opener(name: str, how: str, graph: Path) -> Callable[[], Any]:
    """Imports the engine, and returns a function that opens its graph: the import is not timed."""
    if name == "stylobate":
        queries = importlib.import_module("queries")
        return lambda: queries.Network(graph, how == "prepared")
    module = importlib.import_module(name)
    if name == "namidb":
        return lambda: peers.Nami(graph, how == "elementId")
    return lambda: peers.Kuzu(module, graph, how == "prepared")


def timed(run: Callable[[], Any]) -> float:
    """Microseconds of one run. Its answer is dropped only after the clock has stopped."""
    start = time.perf_counter_ns()
    answer = run()
    taken = time.perf_counter_ns() - start
    del answer
    return taken / 1e3


def peak() -> int:
    """Peak resident memory of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main())
