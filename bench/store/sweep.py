"""The queries in less memory than they need: for persons by chance, with a tenth, half and twice of what is held when
all of it is in memory. As a table, and as a picture."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

BUDGETS = [0.1, 0.5, 2.0]
COLORS = ["#c08a3e", "#7d8f69", "#2f6f73"]
# What is in the picture, in µs: from 10 to 1 s.
DECADES = range(1, 7)
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 904, 380, 84, 64, 44


def swept(graph: Path, persons: list[str]) -> dict[str, Any]:
    """Asks all queries for these persons with each budget, in processes of their own, and prints a table."""
    everything = asked(graph, persons, "8GiB")
    working_set = everything["bytes"]
    report: dict[str, Any] = {"bytes": working_set, "persons": len(persons), "budgets": {}}
    print(f"{len(persons)} persons by chance, each asked for once more after all were; all that is read takes "
          f"{working_set / 1e6:,.0f} MB decoded\n")  # fmt: skip
    head = "".join(f"{name:>20}" for name in everything["queries"])
    print(f"{'cache':<8}{'MB':>8}{'peak, MiB':>12}  {'µs: p50, p95 of':<16}{head}")
    for share in BUDGETS:
        found = asked(graph, persons, str(int(share * working_set)))
        figures = {name: shares(times) for name, times in found["queries"].items()}
        report["budgets"][f"{share:.0%}"] = figures
        pairs = [f"{one['p50']:,.0f}, {one['p95']:,.0f}" for one in figures.values()]
        cells = "".join(f"{pair:>20}" for pair in pairs)
        print(f"{share:<8.0%}{share * working_set / 1e6:>8,.0f}{found['peak_kib'] / 1024:>12,.0f}  {'':<16}{cells}")
    print()
    return report


def shares(times: list[float]) -> dict[str, float]:
    times = sorted(times)
    return {"p50": statistics.median(times), "p95": times[round(0.95 * (len(times) - 1))]}


def asked(graph: Path, persons: list[str], memory: str) -> dict[str, Any]:
    command = [sys.executable, __file__, graph, memory]
    done = subprocess.run(command, input="\n".join(persons), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def ask(graph: Path, memory: str, persons: list[str]) -> dict[str, Any]:
    """Twice for each person, so that what fits is in memory; the second time counts."""
    import queries
    import stylobate as st

    from measure import peak, timed

    network = queries.Network(graph, prepared=False, cache=st.Cache(memory=memory))
    found: dict[str, list[float]] = {}
    for _ in range(2):
        for name in queries.QUERIES:
            query = network.query(name)
            found[name] = [timed(lambda: query(person)) for person in persons]
    held = network.store.stats()["memory"]
    return {"queries": found, "bytes": sum(kind["bytes"] for kind in held.values()), "peak_kib": peak()}


def drawn(report: dict[str, Any]) -> str:
    """A picture of it: from the median to the time within which 95 of 100 are, on a scale of powers of ten."""
    top, bottom = HEIGHT - BOTTOM, TOP

    def height(us: float) -> float:
        share = (math.log10(max(us, 10.0**DECADES[0])) - DECADES[0]) / (DECADES[-1] - DECADES[0])
        return top - share * (top - bottom)

    names = list(next(iter(report["budgets"].values())))
    step = (WIDTH - LEFT - 24) / len(names)
    parts = []
    for power in DECADES:
        label = f"{10**power} µs" if power < 3 else f"{10 ** (power - 3)} ms" if power < 6 else "1 s"
        y = height(10.0**power)
        parts += [f'<path class="line" d="M{LEFT} {y:.1f} H{WIDTH - 24}"/>',
                  f'<text class="soft" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{label}</text>']  # fmt: skip
    for at, (budget, figures) in enumerate(report["budgets"].items()):
        x = LEFT + 150 * at
        parts += [f'<rect x="{x}" y="28" width="14" height="14" rx="3" fill="{COLORS[at]}"/>',
                  f'<text x="{x + 22}" y="40">cache of {budget}</text>']  # fmt: skip
        for place, name in enumerate(names):
            x = LEFT + place * step + step / 2 + (at - 1) * 44
            p50, p95 = height(figures[name]["p50"]), height(figures[name]["p95"])
            box = f'x="{x - 14:.1f}" y="{p95:.1f}" width="28" height="{max(p50 - p95, 2):.1f}"'
            median = brief(figures[name]["p50"])
            parts += [f'<rect {box} rx="4" fill="{COLORS[at]}"/>',
                      f'<text class="soft" x="{x:.1f}" y="{p50 + 16:.1f}" text-anchor="middle">{median}</text>']  # fmt: skip
    for place, name in enumerate(names):
        x = LEFT + place * step + step / 2
        parts.append(f'<text class="head" x="{x:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{name}</text>')
    title = "Four queries over a graph store in less memory than they need"
    text = (f"From the median to the 95th percentile, for {report['persons']} persons by chance, where the cache is a "
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


def brief(us: float) -> str:
    return f"{us:,.0f} µs" if us < 1_000 else f"{us / 1_000:,.1f} ms"


if __name__ == "__main__":
    print(json.dumps(ask(Path(sys.argv[1]), sys.argv[2], sys.stdin.read().split())))
