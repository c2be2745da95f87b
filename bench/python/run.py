#!/usr/bin/env python3
"""`make bench-python`: reads from Python beside pyarrow, Polars and DuckDB, in one run on one machine.

Each engine and number of threads has a process of its own, and they take turns: a round is one read by each. Files are
in the page cache. Stylobate has a fresh cache for each read, except where a read is called warm. Figures are medians of
milliseconds; a bar is a ratio of medians.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import data
import reads

ROOT = Path(__file__).resolve().parents[2]
# Load average per core above which the machine counts as busy.
BUSY = 0.5
# Reads that are too short to gain from a second thread.
LONG_MS = 100.0


class Worker:
    """A process that runs one engine with a fixed number of threads."""

    def __init__(self, engine: str, threads: int, folder: Path) -> None:
        environment = {**os.environ, "POLARS_MAX_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, str(Path(reads.__file__)), engine, str(threads), str(folder)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns the time and the answer of one read; `None` if the engine does not have that read."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker ended in {name}")
        found: dict[str, Any] | None = json.loads(answer)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def main() -> int:
    arguments = parse()
    arguments.data.mkdir(parents=True, exist_ok=True)
    versions()
    try:
        print("writing the files")
        data.write(arguments.data, arguments.scale)
        workers = {
            (engine, threads): Worker(engine, threads, arguments.data)
            for engine in reads.ENGINES
            for threads in arguments.threads
        }
        load = os.getloadavg()[0]
        if load > BUSY * (os.cpu_count() or 1):
            print(f"The machine is busy: load average {load:.1f}.")
        names = [name for name in reads.NAMES if not arguments.only or name in arguments.only]
        figures = {}
        for name in names:
            figures[name] = measure(name, workers, arguments.rounds)
            show(name, figures[name], arguments.threads)
            sys.stdout.flush()
        for worker in workers.values():
            worker.close()
    finally:
        shutil.rmtree(arguments.data, ignore_errors=True)
    missed = bars(figures, arguments.threads)
    if arguments.json:
        said = {name: {f"{engine} {threads}": ms for (engine, threads), ms in figure.items()} for name, figure in figures.items()}
        arguments.json.write_text(json.dumps(said, indent=1) + "\n")
    return 1 if missed else 0


def versions() -> None:
    for name in reads.ENGINES:
        print(f"{name:<10} {importlib.metadata.version(name)}")
    print(f"{'Python':<10} {platform.python_version()}")
    print(f"{'cpus':<10} {os.cpu_count()}\n")


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="reads of each engine (default: 9)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the rows of files (default: 1)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", choices=reads.NAMES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-python", help="a folder for files; removed after")
    return parser.parse_args()


Key = tuple[str, int]


def measure(name: str, workers: dict[Key, Worker], rounds: int) -> dict[Key, float]:
    """Returns the median milliseconds of each worker; all must give the same answer."""
    took: dict[Key, list[float]] = {key: [] for key in workers}
    answers: dict[str, list[Key]] = {}
    for number in range(rounds + 1):
        for key, worker in workers.items():
            read = worker.read(name)
            # The first read warms up the code and the allocator.
            if read is not None and number > 0:
                took[key].append(read["milliseconds"])
                answers.setdefault(read["answer"], []).append(key)
    if len(answers) != 1:
        raise SystemExit(f"{name}: answers differ: {answers}")
    return {key: statistics.median(times) for key, times in took.items() if times}


def show(name: str, figure: dict[Key, float], threads: list[int]) -> None:
    print(f"\n{name}, ms")
    engines = list(dict.fromkeys(engine for engine, _ in figure))
    print(f"{'':<24}" + "".join(f"{f'{count} thread' + ('s' if count > 1 else ''):>14}" for count in threads))
    for engine in engines:
        cells = "".join(f"{figure.get((engine, count), float('nan')):>14,.1f}" for count in threads)
        print(f"{engine:<24}{cells}")


def bars(figures: dict[str, dict[Key, float]], threads: list[int]) -> int:
    """Prints a line per bar; returns the number of missed bars."""
    print()
    missed = 0

    def bar(name: str, figure: float | None, bound: str, limit: float) -> None:
        nonlocal missed
        is_met = figure is not None and (figure <= limit if bound == "<=" else figure >= limit)
        missed += not is_met
        shown = "none" if figure is None else f"{figure:.2f}"
        print(f"{'PASS' if is_met else 'MISS'}  {name:<64}{shown:>8}  {bound} {limit:g}")

    for name, peer, limit in reads.BARS:
        figure = figures.get(name)
        for count in threads if figure else []:
            assert figure is not None
            ours, theirs = figure.get(("stylobate", count)), figure.get((peer, count))
            ratio = theirs / ours if ours and theirs else None
            bar(f"{name}, {count} threads: {peer} / stylobate", ratio, ">=", limit)
    for name in reads.TWO_THREADS if {1, 2} <= set(threads) else []:
        one, two = (figures.get(name, {}).get(("stylobate", count)) for count in (1, 2))
        if one and two and one > LONG_MS:
            bar(f"{name}: one thread / two", one / two, ">=", 1.6)
    for name, without in reads.WITHOUT_MEMORY.items():
        for count in threads if {name, without} <= figures.keys() else []:
            ours, other = (figures[of][("stylobate", count)] for of in (without, name))
            bar(f"{without}, {count} threads: without memory / with", ours / other, "<=", 1.5)
    return missed


if __name__ == "__main__":
    sys.exit(main())
