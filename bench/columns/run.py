#!/usr/bin/env python3
"""`make bench-columns`: scans beside pyarrow, the parquet crate, Polars and DuckDB, in one run on one machine.

The tables are ten columns of three million strings of 32 bytes with few or many distinct values, and TPC-H lineitem at
scale 1. All files are local and in the page cache. Figures are medians over rounds in which the engines take turns;
ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.flight as fl
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
ROWS, COLUMNS = 3_000_000, 10
NAMES = [f"c{column}" for column in range(COLUMNS)]
Q6_COLUMNS = ["l_extendedprice", "l_discount"]
Q6 = ("l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
      "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24")
Q6_ROWS = 114_160


def main() -> int:
    arguments = parse()
    folder = arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    make(folder, arguments.binary)
    versions()
    rows = []
    for threads in (1, 2):
        for name, dictionary, title in [
            ("few", True, "1,000 distinct, as dictionary"),
            ("few", False, "1,000 distinct, dense"),
            ("many", True, "100,000 distinct, as dictionary"),
            ("fallback", True, "100,000 distinct, file fell back, as dictionary"),
            ("fallback", False, "100,000 distinct, file fell back, dense"),
        ]:
            rows.append(reading(arguments, folder / f"{name}.parquet", dictionary, threads, title))
    for threads in (1, 2):
        here = filtered(arguments, folder / "lineitem.parquet", threads)
        rows.append(here)
        if threads == os.cpu_count():
            through = {"title": "Q6 over lineitem, warm, through Flight", "stylobate": flight(arguments, folder)}
            rows.append(here | through)
    table(rows)
    memory(arguments, folder / "many.parquet")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    return 0


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-columns", help="folder of the generated files")
    parser.add_argument("--binary", type=Path, default=target / "release/stylobate-bench-columns")
    parser.add_argument("--node", type=Path, default=target / "release/stylobate")
    return parser.parse_args()


def versions() -> None:
    for module in (pa, pl, duckdb):
        print(f"{module.__name__:<10} {module.__version__}")
    print(f"{'cpus':<10} {os.cpu_count()}\n")


def make(folder: Path, binary: Path) -> None:
    """Writes the files that do not exist yet."""
    few, many, fallback, lineitem = (folder / f"{name}.parquet" for name in ("few", "many", "fallback", "lineitem"))
    if not few.exists():
        pq.write_table(strings(1_000), few, compression="snappy")
    if not (many.exists() and fallback.exists()):
        values = strings(100_000)
        pq.write_table(values, fallback, compression="snappy")
        pq.write_table(values, many, compression="snappy", dictionary_pagesize_limit=64 << 20)
    if not lineitem.exists():
        subprocess.run([binary, lineitem, "--generate", "1"], check=True)
    for file in (few, many, fallback, lineitem):
        # Files modified less than 2 s ago are not cached.
        os.utime(file, (time.time() - 3600,) * 2)


def strings(distinct: int) -> pa.Table:
    random = np.random.default_rng(7)
    letters = random.integers(33, 126, (distinct, 32), dtype=np.uint8)
    values = pa.array([bytes(row).decode("ascii") for row in letters])
    codes = (random.integers(0, distinct, ROWS, dtype=np.int32) for _ in NAMES)
    return pa.table({name: values.take(pa.array(column)) for name, column in zip(NAMES, codes)})


def reading(arguments, file: Path, dictionary: bool, threads: int, title: str) -> dict:
    pa.set_cpu_count(threads)
    flags = ["--dictionary"] if dictionary else []
    ours = run(arguments, file, threads, *flags)

    def pyarrow() -> None:
        pq.read_table(file, read_dictionary=NAMES if dictionary else None, use_threads=threads > 1)

    return {"title": title, "threads": threads, "stylobate": ours["stylobate_s"], "parquet-rs": ours["parquet_rs_s"],
            "pyarrow": timed(arguments.rounds, pyarrow)}


def filtered(arguments, file: Path, threads: int) -> dict:
    pa.set_cpu_count(threads)
    ours = run(arguments, file, threads, "--warm", "--columns", ",".join(Q6_COLUMNS), "--where", Q6)
    assert ours["rows"] == Q6_ROWS, ours
    date, money = __import__("datetime").date, __import__("decimal").Decimal
    field = pc.field
    condition = ((field("l_shipdate") >= date(1994, 1, 1)) & (field("l_shipdate") < date(1995, 1, 1))
                 & (field("l_discount") >= money("0.05")) & (field("l_discount") <= money("0.07"))
                 & (field("l_quantity") < money("24")))

    def pyarrow() -> None:
        table = ds.dataset(file).to_table(columns=Q6_COLUMNS, filter=condition, use_threads=threads > 1)
        assert table.num_rows == Q6_ROWS

    connection = duckdb.connect(config={"threads": threads})

    def duck() -> None:
        sql = f"SELECT {', '.join(Q6_COLUMNS)} FROM '{file}' WHERE {Q6}"
        assert connection.sql(sql).to_arrow_table().num_rows == Q6_ROWS

    return {"title": "Q6 over lineitem, warm", "threads": threads, "stylobate": ours["stylobate_s"],
            "pyarrow": timed(arguments.rounds, pyarrow), "duckdb": timed(arguments.rounds, duck),
            "polars": polars(arguments, file, threads)}


def flight(arguments, folder: Path) -> float:
    """Scans through a node on this machine, over loopback: the plan and all of its tickets, one after another."""
    flags = ("--listen", "--admin", "--flight")
    addresses = [f"127.0.0.1:{free_port()}" for _ in flags]
    command = [arguments.node, "serve", "--origin", f"lake={folder}"]
    command += [part for pair in zip(flags, addresses) for part in pair]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in node.stdout:
            if line.startswith("flight"):
                break
        client = fl.connect(f"grpc://{addresses[2]}")
        asked = {"version": 1, "path": "lake/lineitem.parquet", "columns": Q6_COLUMNS, "where": Q6}
        descriptor = fl.FlightDescriptor.for_command(json.dumps(asked))

        def scan() -> None:
            endpoints = client.get_flight_info(descriptor).endpoints
            assert sum(client.do_get(endpoint.ticket).read_all().num_rows for endpoint in endpoints) == Q6_ROWS

        return timed(arguments.rounds, scan)
    finally:
        node.terminate()
        node.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


POLARS = """
import sys, time, statistics, datetime, decimal, polars as pl
file, columns, rows, rounds = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])
date, money, c = datetime.date, decimal.Decimal, pl.col
condition = (c("l_shipdate") >= date(1994, 1, 1)) & (c("l_shipdate") < date(1995, 1, 1)) \\
    & c("l_discount").is_between(money("0.05"), money("0.07")) & (c("l_quantity") < money("24"))
times = []
for _ in range(rounds + 1):
    start = time.perf_counter()
    assert pl.scan_parquet(file).filter(condition).select(columns).collect().height == rows
    times.append(time.perf_counter() - start)
print(statistics.median(times[1:]))
"""


def polars(arguments, file: Path, threads: int) -> float:
    """Runs in a process of its own: Polars sets its number of threads once."""
    command = [sys.executable, "-c", POLARS, file, ",".join(Q6_COLUMNS), str(Q6_ROWS), str(arguments.rounds)]
    environment = os.environ | {"POLARS_MAX_THREADS": str(threads)}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def run(arguments, file: Path, threads: int, *flags: str, rounds: int | None = None) -> dict:
    rounds = arguments.rounds if rounds is None else rounds
    command = [arguments.binary, file, "--threads", str(threads), "--rounds", str(rounds), *flags]
    # The cache is emptied between rounds, whereas a cache in use evicts what it replaces. The allocator must not return
    # that memory meanwhile: page faults cost more than any decoding.
    environment = os.environ | {"MIMALLOC_PURGE_DELAY": "60000"}
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(process.stdout)


PYARROW_MEMORY = """
import sys, pyarrow.parquet as pq
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
start = peak()
table = pq.read_table(sys.argv[1], read_dictionary=sys.argv[2].split(","), use_threads=False)
print(peak() - start)
"""


def memory(arguments, file: Path) -> None:
    """Prints the peak memory of a process that reads the strings as dictionaries and keeps them, above its memory at
    start."""
    command = [sys.executable, "-c", PYARROW_MEMORY, file, ",".join(NAMES)]
    pyarrow = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ours = [run(arguments, file, 1, *flags, "--dictionary", "--alone", rounds=0)["peak_kib"]
            for flags in (("--columns", NAMES[0], "--where", f"{NAMES[0]} IS NULL"), ())]
    print(f"\n100,000 distinct, as dictionary, peak memory above that at start: "
          f"stylobate {(ours[1] - ours[0]) / 1024:,.0f} MiB, pyarrow {pyarrow / 1024:,.0f} MiB")


def timed(rounds: int, read) -> float:
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def table(rows: list[dict]) -> None:
    peers = ["parquet-rs", "pyarrow", "polars", "duckdb"]
    print(f"{'milliseconds, and the ratio to ours':<50} {'threads':>7} {'stylobate':>10}"
          + "".join(f"{peer:>18}" for peer in peers))
    for row in rows:
        ours = row["stylobate"]
        cells = "".join(f"{row[peer] * 1e3:>10,.1f} {row[peer] / ours:>6.2f}x" if row.get(peer) else " " * 18
                        for peer in peers)
        print(f"{row['title']:<50} {row['threads']:>7} {ours * 1e3:>10,.1f}{cells}")


if __name__ == "__main__":
    sys.exit(main())
