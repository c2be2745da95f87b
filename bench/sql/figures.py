"""Times of queries by each engine: asked for, checked, as a table, and as ratios.

A query by DataFusion's own tables counts with its better time, of filters pushed into the Parquet reader and not.
"""

import math
import statistics
import sys
from pathlib import Path

import engines
import queries
from suite import is_wanted, progress
from tools import fail

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from sql_answers import ExpectedAnswer  # noqa: E402

PEERS = ["datafusion", *engines.IN_PYTHON]


def measure(options, times_of):
    """The median milliseconds of each query and engine. `times_of(text, check)` returns the times of all engines, and
    passes each engine's rows to `check`."""
    texts = queries.query_texts()
    numbers = queries.QUICK_QUERIES if options.quick else range(1, 23)
    measured = []
    for number in numbers:
        if is_wanted(options, f"query {number}"):
            times = times_of(texts[number], _Check(number))
            medians = {name: statistics.median(taken) for name, taken in times.items()}
            measured.append({"query": number, "milliseconds": medians})
            progress("  ".join(_row(str(number), medians)))
    return measured


class _Check:
    """Ends the benchmark if engines return different rows."""

    def __init__(self, number):
        self.number, self.first = number, None

    def __call__(self, name, rows):
        if self.first is None:
            self.first = ExpectedAnswer("", rows, is_ordered=False)
        elif difference := self.first.differs_from(rows):
            fail(f"query {self.number}, {name}: {difference}")


def rows(result):
    """The table: a row per query, the sums, and the geometric means of the ratios."""
    yield ["query", "push-down", *engines.NAMES, *(f"{peer} / ours" for peer in PEERS)]
    for one in result["queries"]:
        yield _row(str(one["query"]), one["milliseconds"])
    if result["queries"]:
        yield _row("sum", sums(result))
        means = [geometric_mean(ratios(result, peer).values()) for peer in PEERS]
        yield ["geometric mean", "", *("" for _ in engines.NAMES), *(f"{mean:.2f}" for mean in means)]


def _row(query, times):
    better = "off" if times["datafusion"] < times["datafusion-pushdown"] else "on"
    return [query, better, *(f"{times[name]:,.1f}" for name in engines.NAMES),
            *(f"{ratio(times, peer):.2f}" for peer in PEERS)]


def sums(result):
    """Per engine, the sum over all queries."""
    return {name: sum(one["milliseconds"][name] for one in result["queries"]) for name in engines.NAMES}


def ratios(result, peer):
    """By query, how many times as long a peer takes as ours."""
    return {one["query"]: ratio(one["milliseconds"], peer) for one in result["queries"]}


def ratio(times, peer):
    theirs = min(times[name] for name in engines.DATAFUSION) if peer == "datafusion" else times[peer]
    return theirs / times[engines.OURS]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))
