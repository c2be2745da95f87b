"""Runs the queries for random persons with caches of a tenth, half and twice of the working set; prints a table and
draws an SVG chart. The working set is what an unbounded cache would hold.

As a program, makes one measurement: `sweep.py GRAPH MEMORY` reads persons from standard input, and prints JSON.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

# Cache sizes, as shares of the working set, and the color of each in the chart.
BUDGETS = [0.1, 0.5, 2.0]
COLORS = ["#c08a3e", "#7d8f69", "#2f6f73"]
# Powers of ten on the axis of the chart, in µs: from 10 µs to 1 s.
DECADES = range(1, 7)
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 904, 380, 84, 64, 44


def swept(graph: Path, persons: list[str]) -> dict[str, Any]:
    """Runs all queries for these persons with each budget, each in a new process. Prints a table, and returns its
    figures."""
    everything = ask_in_new_process(graph, persons, "8GiB")
    working_set = everything["bytes"]
    report: dict[str, Any] = {"bytes": working_set, "persons": len(persons), "budgets": {}}

    print(f"{len(persons)} random persons, each queried again after all were; the working set is "
          f"{working_set / 1e6:,.0f} MB decoded\n")  # fmt: skip
    head = "".join(f"{name:>20}" for name in everything["queries"])
    print(f"{'cache':<8}{'MB':>8}{'peak, MiB':>12}  {'µs: p50, p95 of':<16}{head}")

    for share in BUDGETS:
        measured = ask_in_new_process(graph, persons, str(int(share * working_set)))
        figures = {name: percentiles(times) for name, times in measured["queries"].items()}
        report["budgets"][f"{share:.0%}"] = figures

        pairs = [f"{one['p50']:,.0f}, {one['p95']:,.0f}" for one in figures.values()]
        cells = "".join(f"{pair:>20}" for pair in pairs)
        print(f"{share:<8.0%}{share * working_set / 1e6:>8,.0f}{measured['peak_kib'] / 1024:>12,.0f}  {'':<16}{cells}")
    print()
    return report


def percentiles(times: list[float]) -> dict[str, float]:
    times = sorted(times)
    return {"p50": statistics.median(times), "p95": times[round(0.95 * (len(times) - 1))]}


def ask_in_new_process(graph: Path, persons: list[str], memory: str) -> dict[str, Any]:
    """Runs `ask` in a new process, so that its peak memory is that of this budget."""
    command = [sys.executable, __file__, graph, memory]
    done = subprocess.run(command, input="\n".join(persons), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def ask(graph: Path, memory: str, persons: list[str]) -> dict[str, Any]:
    """Runs all queries twice for each person: the first pass fills the cache, the second counts. Returns the times in
    µs, the bytes that the cache holds, and the peak memory."""
    import queries
    import stylobate as st

    from measure import peak, timed

    network = queries.Network(graph, prepared=False, cache=st.Cache(memory=memory))
    times: dict[str, list[float]] = {}
    for _ in range(2):
        for name in queries.QUERIES:
            query = network.query(name)
            times[name] = [timed(lambda: query(person)) for person in persons]

    held = network.store.stats()["memory"]
    return {"queries": times, "bytes": sum(kind["bytes"] for kind in held.values()), "peak_kib": peak()}


def drawn(report: dict[str, Any]) -> str:
    """Returns an SVG chart of a report: a bar from the median to the 95th percentile per query and budget, on a
    logarithmic axis."""
    top, bottom = TOP, HEIGHT - BOTTOM

    def y_of(us: float) -> float:
        share = (math.log10(max(us, 10.0**DECADES[0])) - DECADES[0]) / (DECADES[-1] - DECADES[0])
        return bottom - share * (bottom - top)

    names = list(next(iter(report["budgets"].values())))
    step = (WIDTH - LEFT - 24) / len(names)
    parts = []

    for power in DECADES:
        label = f"{10**power} µs" if power < 3 else f"{10 ** (power - 3)} ms" if power < 6 else "1 s"
        y = y_of(10.0**power)
        parts += [f'<path class="line" d="M{LEFT} {y:.1f} H{WIDTH - 24}"/>',
                  f'<text class="soft" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{label}</text>']  # fmt: skip

    for series, (budget, figures) in enumerate(report["budgets"].items()):
        x = LEFT + 150 * series
        parts += [f'<rect x="{x}" y="28" width="14" height="14" rx="3" fill="{COLORS[series]}"/>',
                  f'<text x="{x + 22}" y="40">cache of {budget}</text>']  # fmt: skip
        for column, name in enumerate(names):
            x = LEFT + column * step + step / 2 + (series - 1) * 44
            y50, y95 = y_of(figures[name]["p50"]), y_of(figures[name]["p95"])
            box = f'x="{x - 14:.1f}" y="{y95:.1f}" width="28" height="{max(y50 - y95, 2):.1f}"'
            median = format_time(figures[name]["p50"])
            parts += [f'<rect {box} rx="4" fill="{COLORS[series]}"/>',
                      f'<text class="soft" x="{x:.1f}" y="{y50 + 16:.1f}" text-anchor="middle">{median}</text>']  # fmt: skip

    for column, name in enumerate(names):
        x = LEFT + column * step + step / 2
        parts.append(f'<text class="head" x="{x:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{name}</text>')

    title = "Four queries over a graph store in less memory than they need"
    text = (f"From the median to the 95th percentile, for {report['persons']} random persons, with a cache of a "
            f"tenth, half and twice of the {report['bytes'] / 1e6:,.0f} MB that they read.")  # fmt: skip
    style = """
    text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #22252b }
    .head { font-weight: 600 }
    .soft { fill: #6c7280; font-size: 12.5px }
    .line { stroke: #d8d5ce }
  """
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [f'<title id="title">{title}</title>', f'<desc id="desc">{text}</desc>', f"<style>{style}</style>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#f7f6f3"/>', *parts]  # fmt: skip
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">'
    return "\n  ".join([head, *parts]) + "\n</svg>\n"


def format_time(us: float) -> str:
    return f"{us:,.0f} µs" if us < 1_000 else f"{us / 1_000:,.1f} ms"


if __name__ == "__main__":
    print(json.dumps(ask(Path(sys.argv[1]), sys.argv[2], sys.stdin.read().split())))
