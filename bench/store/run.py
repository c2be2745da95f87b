#!/usr/bin/env python3
"""`make bench-store`: four queries over a social network, beside Kùzu, Ladybug and NamiDB, in one run on one machine.

The network comes from `stylobate generate snb`; all engines load the same Parquet files into a local folder, one after
another, and each query runs in a process of its own: first right after opening, then 50 times for each of three
persons. Every answer is compared with the full result, which DuckDB computes from the same files; among rows of equal
dates, either is right. The clock stops when an engine holds its answer in full, in the form that it returns to its
caller (ours is an Arrow table); a second time includes the conversion to Python rows. Ratios are of medians: of the 50
runs, and then of the persons. A prepared query is planned once and then run for each person. NamiDB looks up a person
by a unique property, or by element id. Then the same queries run for many persons, on ours alone, with caches that hold
a tenth, half and twice of what they read.

The persons are the first in each third of all persons who have answers to all queries, and around whom no two edges
connect the same two vertices, since NamiDB keeps only one of those.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import sweep

ROOT = Path(__file__).resolve().parents[2]
MEASURE = Path(__file__).with_name("measure.py")
PEERS = ["kuzu==0.11.3", "ladybug==0.22.0", "namidb==2.0.6", "pyarrow"]
TABLES = ["persons", "posts", "comments", "knows", "post_has_creator", "comment_has_creator", "likes_post",
          "likes_comment", "reply_of_post", "reply_of_comment"]  # fmt: skip
ENGINES = ["stylobate", "stylobate prepared", "kuzu", "kuzu prepared", "ladybug", "ladybug prepared", "namidb",
           "namidb elementId"]  # fmt: skip
OURS = "stylobate"
# Minimum speed relative to the better of Kùzu's two variants, and of NamiDB's.
BARS = {"IC02": (20, 5), "IC07": (50, 5), "IC08": (50, 5), "IC09": (20, 5)}
NEWEST = 20
# Of each query, all rows of a person, and which column is the date.
POSTS = """SELECT firstName, lastName, content, posts.creationDate FROM {0}
    JOIN persons ON persons.id = friend JOIN post_has_creator AS created ON created.dst = friend
    JOIN posts ON posts.id = created.src"""
ALL = {
    "IC02": (3, POSTS.format("(SELECT dst AS friend FROM knows WHERE src = $person)")),
    "IC07": (2, """SELECT firstName, lastName, likes_post.creationDate, content FROM post_has_creator AS created
        JOIN likes_post ON likes_post.dst = created.src JOIN persons ON persons.id = likes_post.src
        JOIN posts ON posts.id = created.src WHERE created.dst = $person"""),
    "IC08": (1, """SELECT comments.content, comments.creationDate, posts.content FROM post_has_creator AS created
        JOIN reply_of_post AS reply ON reply.dst = created.src JOIN comments ON comments.id = reply.src
        JOIN posts ON posts.id = created.src WHERE created.dst = $person"""),
    "IC09": (3, POSTS.format("""(SELECT further.dst AS friend FROM knows JOIN knows AS further
        ON further.src = knows.dst WHERE knows.src = $person)""")),
}  # fmt: skip


def main() -> int:
    arguments = parse()
    folder = arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    tables = arguments.tables or make(arguments)
    peers = installed(folder / "venv")
    network = Network(tables)
    persons = network.persons(arguments.persons)
    expected = {name: [network.all(name, person) for person in persons] for name in ALL}
    print(f"scale {arguments.scale}, {arguments.runs} runs, persons {', '.join(persons)}, cpus {os.cpu_count()}\n")
    report: dict[str, Any] = {"scale": arguments.scale, "persons": persons, "load": {}, "queries": {}}
    for engine in dict.fromkeys(name.partition(" ")[0] for name in arguments.engines):
        python = Path(sys.executable) if engine == OURS else peers
        home = folder / engine
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        measured(python, "prepare", engine, home, "--data", tables)
        report["load"][engine] = measured(python, "load", engine, home, "--data", tables)
        for way in (name for name in arguments.engines if name.partition(" ")[0] == engine):
            for query in ALL:
                figures = asked(arguments, python, way, home, query, persons)
                check(way, query, figures, expected[query])
                report["queries"].setdefault(query, {})[way] = figures
        if engine == OURS and arguments.sweep:
            swept(arguments, home / "graph", network.some(arguments.sweep), report)
        shutil.rmtree(home)
    loads(report)
    for query, ways in report["queries"].items():
        table(query, ways)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    return 0


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--persons", type=int, default=3)
    parser.add_argument("--sweep", type=int, default=300, metavar="PERSONS",
                        help="number of persons to query with little memory; 0 for none (default: 300)")  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a chart of that, as SVG")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=ENGINES, metavar="NAMES",
                        help=f"comma-separated, of {', '.join(ENGINES)}")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-store", help="folder of tables, graphs and peers")
    parser.add_argument("--tables", type=Path, help="folder of existing tables to use instead of generating them")
    parser.add_argument("--binary", type=Path, default=target / "release/stylobate")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.engines if name not in ENGINES]:
        parser.error(f"no engine {', '.join(unknown)}: there are {', '.join(ENGINES)}")
    return arguments


def swept(arguments: argparse.Namespace, graph: Path, persons: list[str], report: dict[str, Any]) -> None:
    report["sweep"] = sweep.swept(graph, persons)
    if arguments.plot:
        arguments.plot.write_text(sweep.drawn(report["sweep"]))


def make(arguments: argparse.Namespace) -> Path:
    """Generates the tables if they do not exist."""
    output = arguments.data / f"snb-{arguments.scale:g}"
    command = [arguments.binary, "generate", "snb", "--scale", f"{arguments.scale:g}", "--output", output]
    subprocess.run([*command, "--tables", ",".join(TABLES)], check=True)
    return output


def installed(folder: Path) -> Path:
    """Installs the peers into a Python environment of their own, since their dependencies may conflict with ours."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS], check=True)
    return python


class Network:
    """The tables, queried with DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.connection = duckdb.connect()
        for name in TABLES:
            self.connection.execute(f"CREATE TABLE {name} AS FROM '{folder}/{name}.parquet'")

    def all(self, query: str, person: str) -> list[tuple[Any, ...]]:
        """Returns the full result of a query, without its limit."""
        return self.connection.execute(ALL[query][1], {"person": person}).fetchall()

    def some(self, count: int) -> list[str]:
        """Returns random persons, the same in each run."""
        query = "SELECT id FROM persons ORDER BY hash(id) LIMIT $count"
        return [id for (id,) in self.connection.execute(query, {"count": count}).fetchall()]

    def persons(self, count: int) -> list[str]:
        """Returns the first person in each share of all persons who has answers, and no parallel edges around them."""
        created = "post_has_creator AS created JOIN {0} ON {0}.dst = created.src"
        likes, replies = created.format("likes_post"), created.format("reply_of_post")
        near = f"""
            WITH pairs AS (
                SELECT src AS person FROM knows GROUP BY src, dst HAVING count(*) > 1
                UNION SELECT dst FROM post_has_creator GROUP BY src, dst HAVING count(*) > 1
                UNION SELECT created.dst FROM {likes} GROUP BY created.dst, created.src, likes_post.src
                    HAVING count(*) > 1
                UNION SELECT created.dst FROM {replies} GROUP BY created.dst, created.src, reply_of_post.src
                    HAVING count(*) > 1
            ), near AS (SELECT person FROM pairs UNION SELECT src FROM knows JOIN pairs ON dst = person)
            SELECT person FROM near UNION SELECT src FROM knows JOIN near ON dst = person"""
        chosen = []
        ids = [id for (id,) in self.connection.execute("SELECT id FROM persons ORDER BY id").fetchall()]
        excluded = {id for (id,) in self.connection.execute(near).fetchall()}
        for share in range(count):
            rest = (id for id in ids[share * len(ids) // count :] if id not in excluded)
            chosen.append(next(id for id in rest if all(self.all(query, id) for query in ALL)))
        return chosen


def measured(python: Path, *command: str | Path) -> dict[str, Any]:
    done = subprocess.run([python, MEASURE, *command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def asked(arguments: argparse.Namespace, python: Path, way: str, home: Path, query: str, persons: list[str]) -> dict:
    options = ["--query", query, "--persons", ",".join(persons), "--runs", str(arguments.runs)]
    figures = measured(python, "ask", way, home, *options)
    for person in figures["persons"]:
        for kind in ("answer_us", "rows_us"):
            runs = sorted(person[kind])
            person[kind] = {"p50": statistics.median(runs), "p95": runs[round(0.95 * (len(runs) - 1))]}
    return figures


def check(way: str, query: str, figures: dict[str, Any], expected: list[list[tuple[Any, ...]]]) -> None:
    """Checks that the answer has the newest dates, in order, and for each date only rows of the full result."""
    date = ALL[query][0]
    for found, whole in zip(figures["persons"], expected):
        rows = [tuple(row) for row in found.pop("answer")]
        dates = sorted((row[date] for row in whole), reverse=True)[:NEWEST]
        if [row[date] for row in rows] != dates or Counter(rows) - Counter(whole):
            raise SystemExit(f"{way}, {query}, {found['person']}: a wrong answer: {rows}")
        found["rows"] = len(rows)


def median(figures: dict[str, Any], kind: str, share: str) -> float:
    return statistics.median(person[kind][share] for person in figures["persons"])


def loads(report: dict[str, Any]) -> None:
    print(f"{'loading':<20}{'s':>10}{'ratio':>10}{'MiB, peak':>14}{'MiB, on disk':>14}{'MiB, queries':>14}")
    ours = report["load"].get(OURS, {}).get("seconds")
    for engine, figures in report["load"].items():
        ways = [found for ways in report["queries"].values() for name, found in ways.items() if name.startswith(engine)]
        asking = max(found["peak_kib"] for found in ways) / 1024
        print(f"{engine:<20}{figures['seconds']:>10,.1f}{ratio(figures['seconds'], ours):>10}"
              f"{figures['peak_kib'] / 1024:>14,.0f}{figures['bytes'] / 2**20:>14,.0f}{asking:>14,.0f}")  # fmt: skip
    print()


def table(query: str, ways: dict[str, Any]) -> None:
    rows = "/".join(str(person["rows"]) for person in next(iter(ways.values()))["persons"])
    title = f"{query}, {rows} rows, µs"
    print(f"{title:<26}{'open':>11}{'cold':>11}{'p50 of each person':>28}{'p50':>11}{'p95':>11}{'ratio':>9}"
          f"{'as rows':>11}")  # fmt: skip
    ours = median(ways[OURS], "answer_us", "p50") if OURS in ways else None
    for way, figures in ways.items():
        each = " / ".join(f"{person['answer_us']['p50']:,.0f}" for person in figures["persons"])
        p50, p95 = (median(figures, "answer_us", share) for share in ("p50", "p95"))
        print(f"{way:<26}{figures['open_us']:>11,.0f}{figures['cold_us']:>11,.0f}{each:>28}{p50:>11,.0f}{p95:>11,.0f}"
              f"{ratio(p50, ours):>9}{median(figures, 'rows_us', 'p50'):>11,.0f}")  # fmt: skip
    if ours is not None:
        bars = zip(("kuzu", "namidb"), BARS[query])
        for peer, bar in bars:
            medians = [median(figures, "answer_us", "p50") for way, figures in ways.items() if way.startswith(peer)]
            if medians:
                reached = min(medians) / ours
                print(f"  {reached:,.1f} times as fast as {peer}, where {bar} is wanted")
    print()


def ratio(theirs: float, ours: float | None) -> str:
    return "" if ours is None else f"{theirs / ours:,.2f}x"


if __name__ == "__main__":
    sys.exit(main())
