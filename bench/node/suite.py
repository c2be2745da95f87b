"""Runs the parts of a benchmark: options, versions, a table per part, and a line per bar that a figure must meet."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import servers
import tools

# Load average per core above which the machine counts as busy.
BUSY = 0.5
# Memory that a node may use beyond its configured memory.
RESIDENT_SHARE, RESIDENT_BYTES = 0.25, 150 << 20


@dataclass
class Bar:
    """A figure and its limit, `at most` or `at least`. A figure of `None` could not be measured, which is a miss."""

    name: str
    figure: float | None
    bound: str
    limit: float
    unit: str = ""

    def is_met(self):
        if self.figure is None:
            return False
        if self.bound == "at most":
            return self.figure <= self.limit
        return self.figure >= self.limit

    def cells(self):
        figure = "none" if self.figure is None else _number(self.figure, self.unit)
        sign = "<=" if self.bound == "at most" else ">="
        return ["PASS" if self.is_met() else "MISS", self.name, figure, f"{sign} {_number(self.limit, self.unit)}"]


def _number(value, unit):
    return f"{value:,.0f} {unit}" if unit else f"{value:.3f}"


def main(description, parts, needed_bytes, add_options=lambda parser: None, only_by_name=()):
    """Runs the selected parts. `parts` gives each part's module, title and explanation. A module has `PROGRAMS` or
    `programs`, `run`, `rows` and optionally `bars`. Those `only_by_name` run with `--only` alone. Returns the exit
    code: 1 if a bar is missed."""
    options = _parse(description, parts, add_options)
    if sys.platform != "linux":
        tools.fail("Linux is needed")

    # Terminating the benchmark terminates its servers.
    signal.signal(signal.SIGTERM, lambda *_: tools.fail("told to stop"))
    wanted = options.only or [part for part in parts if part not in only_by_name]
    programs = tools.find(options.binary, {name for part in wanted for name in _programs(parts[part][0], options)})
    versions = tools.versions(programs, options.binary)
    print("\n".join(f"{name:<10} {version}" for name, version in versions.items()))
    results = {"versions": versions, "quick": options.quick, "load_average_before": os.getloadavg()[0]}
    if results["load_average_before"] > BUSY * (os.cpu_count() or 1):
        print(f"\nThe machine is busy: load average {results['load_average_before']:.1f}.")

    folder = Path(tempfile.mkdtemp(prefix="stylobate-bench-"))
    missed = 0
    try:
        if shutil.disk_usage(folder).free < needed_bytes:
            tools.fail(f"{folder}: {needed_bytes >> 30} GiB of free space are needed; set TMPDIR")
        for name in wanted:
            missed += _run_part(parts[name], programs, folder, options, results.setdefault(name, {}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results["load_average_after"] = os.getloadavg()[0]
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 1 if missed else 0


def _programs(module, options):
    """Returns the programs that the part needs besides stylobate. A part that skips servers does not need their
    programs."""
    return module.programs(options) if hasattr(module, "programs") else module.PROGRAMS


def _parse(description, parts, add_options):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smoke run of about a minute, no measurement")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures as JSON")
    parser.add_argument("--only", choices=parts, action="append", help="run this part only; may be repeated")
    parser.add_argument("--match", metavar="TEXT", action="append",
                        help="only cases and servers whose name contains TEXT; may be repeated")
    parser.add_argument("--binary", metavar="FILE", help="the stylobate to measure, instead of building it")
    add_options(parser)
    return parser.parse_args()


def is_wanted(options, name):
    """Returns whether `--match` selects the case."""
    return not options.match or any(text in name for text in options.match)


def progress(text):
    """Prints a line about one case as soon as it is measured."""
    print(text, file=sys.stderr, flush=True)


def _run_part(part, programs, folder, options, results):
    """Returns the number of missed bars."""
    module, title, explain = part
    servers.Node.peaks.clear()
    begun = time.monotonic()
    print(f"\n{title}", flush=True)
    results.update(module.run(programs, folder, options))
    results["took_seconds"] = time.monotonic() - begun
    print(f"{explain(results)}\n")
    print(aligned(module.rows(results)), flush=True)
    bars = [*(module.bars(results) if hasattr(module, "bars") else ()), *_resident_bars()]
    results["bars"] = [vars(bar) | {"met": bar.is_met()} for bar in bars]
    if bars:
        print("\n" + aligned(bar.cells() for bar in bars), flush=True)
    return sum(not bar.is_met() for bar in bars)


def _resident_bars():
    """Returns a bar per configured memory: the largest peak among the nodes that had it."""
    largest = {}
    for memory, peak in servers.Node.peaks:
        largest[memory] = max(peak, largest.get(memory, 0))
    for memory, peak in sorted(largest.items()):
        limit = memory * (1 + RESIDENT_SHARE) + RESIDENT_BYTES
        yield Bar(f"resident, memory {memory >> 20} MiB", peak / 2**20, "at most", limit / 2**20, "MiB")


def aligned(rows):
    """Returns an aligned table: text to the left, figures to the right."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
