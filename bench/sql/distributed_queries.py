"""TPC-H's queries on clusters of one, two and three nodes, with one core for each node.

Nodes share the cores of this machine: with two cores, a third node adds memory but no core.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import queries
import servers
import tools
from suite import Bar, is_wanted, progress
from tools import fail

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

from fleet import Fleet  # noqa: E402

PROGRAMS = []
SIZES = [1, 2, 3]
QUERIES = [1, 3, 5, 6, 9, 12, 14, 18]
PARTS, ROW_GROUP_ROWS = 12, 500_000
NODE_MEMORY = "4GiB"
ORIGIN_MEMORY = "128MiB"
MAX_BYTES = 1.02
TIMEOUT_SECONDS = 1800


def run(programs, folder, options):
    scale = queries.QUICK_SCALE if options.quick else options.distributed_scale
    root = _tables(programs, scale)
    texts = queries.query_texts()
    numbers = [number for number in QUERIES if is_wanted(options, f"query {number}")]
    measured, rows_of = [], {}
    # Lists the bucket, too, which a server of files does not.
    with servers.Node(programs, folder, servers.BUCKET, root / servers.BUCKET, memory=ORIGIN_MEMORY) as origin:
        for size in SIZES:
            with _fleet(programs, folder, origin.port, size) as fleet:
                for number in numbers:
                    times, rows = _measure(programs, fleet, texts[number], options.distributed_rounds)
                    if rows_of.setdefault(number, rows) != rows:
                        fail(f"query {number}: {size} nodes have other rows than one")
                    measured.append({"query": number, "nodes": size} | times)
                    progress(f"query {number}, nodes: {size}: {times}")
    return {"scale": scale, "rounds": options.distributed_rounds, "cores": _cores(), "memory": NODE_MEMORY,
            "queries": measured}


def _tables(programs, scale):
    """Returns a folder with the bucket of all tables, in several files each; kept below the target folder for the next
    run."""
    root = tools.target_folder() / "bench-sql" / f"parts-scale-{scale:g}"
    done = root / "done"
    if not done.exists():
        command = [programs["stylobate"], "generate", "tpch", "--scale", f"{scale:g}", "--parts", PARTS, "--row-group-rows",
                   ROW_GROUP_ROWS, "--durability", "none", "--quiet", "--output", root / servers.BUCKET]
        subprocess.run([str(part) for part in command], check=True)
        done.touch()
        # A file modified less than 2 s ago has no version.
        time.sleep(2.1)
    return root


def _fleet(programs, folder, origin_port, size):
    ids = [f"node-{n}" for n in range(size)]
    return Fleet(programs, folder, origin_port, ids, flight=True, memory=dict.fromkeys(ids, NODE_MEMORY),
                 cores={id: n % _cores() for n, id in enumerate(ids)}, more=["--consistency", "immutable"])


def _cores():
    return os.cpu_count() or 1


def _measure(programs, fleet, text, rounds):
    """Returns the seconds of a query whose data the nodes do not have yet, unless former queries read it, and of its
    repetitions."""
    node = fleet.nodes["node-0"]
    command = [programs["stylobate"], "sql", "--cluster", f"grpc://{node.flight}", "--format", "csv", text]

    def ask():
        begun = time.perf_counter()
        ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        seconds = time.perf_counter() - begun
        if ran.returncode != 0:
            fail(ran.stderr)
        return seconds, _rounded(ran.stdout)

    before = sum(node.origin_bytes() for node in fleet.nodes.values())
    cold, rows = ask()
    fleet.settle()
    fetched = sum(node.origin_bytes() for node in fleet.nodes.values()) - before
    warm = [ask()[0] for _ in range(rounds)]
    return {"cold_seconds": cold, "seconds": statistics.median(warm), "origin_bytes": fetched}, rows


def _rounded(csv):
    """Rounds numbers: sums of floating-point numbers depend on the order in which they are added."""
    def plain(cell):
        try:
            return f"{float(cell):.{queries.DIGITS}g}"
        except ValueError:
            return cell

    return sorted([plain(cell) for cell in line.split(",")] for line in csv.splitlines())


def bars(result):
    fetched = {size: sum(one["origin_bytes"] for one in result["queries"] if one["nodes"] == size) for size in SIZES}
    for size in SIZES[1:]:
        if fetched[1]:
            yield Bar(f"distributed, {size} nodes, origin's bytes / those of one", fetched[size] / fetched[1], "at most",
                      MAX_BYTES)


def rows(result):
    """Returns the table: a row per query and number of nodes."""
    yield ["query", "nodes", "cold s", "warm s", "one node / these, cold", "warm", "origin MB"]
    ones = {one["query"]: one for one in result["queries"] if one["nodes"] == 1}
    for one in result["queries"]:
        single = ones[one["query"]]
        yield [str(one["query"]), str(one["nodes"]), f"{one['cold_seconds']:.2f}", f"{one['seconds']:.2f}",
               f"{single['cold_seconds'] / one['cold_seconds']:.2f}", f"{single['seconds'] / one['seconds']:.2f}",
               f"{one['origin_bytes'] / 1e6:.0f}"]
