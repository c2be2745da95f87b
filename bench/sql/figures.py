"""Times of queries by each engine: measured, checked, as a table, and as ratios.

A query on DataFusion's own tables counts with the better of two times: with and without filters pushed into the Parquet
reader.
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

def measure(options, times_of):
    """Returns the median milliseconds of each query and engine. `times_of(text, check)` returns the times of all
    engines, and passes each engine's rows to `check`."""
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
    """Returns the table: a row per query, the sums, and the geometric means of the ratios."""
    measured = result["queries"]
    names = measured[0]["milliseconds"] if measured else engines.NAMES
    yield ["query", "push-down", *names, *(f"{peer} / ours" for peer in _peers(names))]
    for one in measured:
        yield _row(str(one["query"]), one["milliseconds"])
    if measured:
        yield _row("sum", sums(result))
        means = [geometric_mean(ratios(result, peer).values()) for peer in _peers(names)]
        yield ["geometric mean", "", *("" for _ in names), *(f"{mean:.2f}" for mean in means)]


def _row(query, times):
    better = "off" if times["datafusion"] < times["datafusion-pushdown"] else "on"
    return [query, better, *(f"{taken:,.1f}" for taken in times.values()),
            *(f"{ratio(times, peer):.2f}" for peer in _peers(times))]


def _peers(names):
    """Returns the other engines; DataFusion's two variants count as one."""
    return [name for name in names if name not in (engines.OURS, "datafusion-pushdown")]


def sums(result):
    """Returns, per engine, the sum over all queries."""
    measured = [one["milliseconds"] for one in result["queries"]]
    return {name: sum(times[name] for times in measured) for name in measured[0]}


def ratios(result, peer):
    """Returns, by query, a peer's time divided by ours; empty if the peer has no times."""
    return {one["query"]: ratio(one["milliseconds"], peer) for one in result["queries"]
            if peer in one["milliseconds"]}


def ratio(times, peer):
    theirs = min(times[name] for name in engines.DATAFUSION) if peer == "datafusion" else times[peer]
    return theirs / times[engines.OURS]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))
