#!/usr/bin/env python3
"""`make bench-sql`: SQL over scans beside DataFusion's own tables, DuckDB and Polars, in one run on one machine."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node"))

import cold_queries  # noqa: E402
import distributed_queries  # noqa: E402
import remote_queries  # noqa: E402
import suite  # noqa: E402
import warm_queries  # noqa: E402

NEEDED_BYTES = 2 << 30
ENGINES = (
    "Medians of milliseconds, in turns.\ndatafusion: its ListingTable; datafusion-pushdown: with filters pushed into its "
    "Parquet reader; push-down: which of both is better,\nwhich datafusion / ours takes. duckdb: with its caches of external "
    "files and of footers.")

PARTS = {
    "warm": (warm_queries, "TPC-H's 22 queries, repeated", lambda r: (
        f"Scale {r['scale']:g}, local Parquet files, {r['threads']} threads each; {r['versions']}. A process per engine; "
        f"stylobate has {r['memory']}\nof memory. Rounds: {r['rounds']}, after one that is not timed. {ENGINES}")),
    "cold": (cold_queries, "TPC-H's 22 queries, each the first of a new process", lambda r: (
        f"Scale {r['scale']:g}, local Parquet files that are in the system's page cache, {r['threads']} threads each; "
        f"{r['versions']}.\nTables are opened within the time, processes are started before. Rounds: {r['rounds']}. "
        f"{ENGINES}")),
    "remote": (remote_queries, "TPC-H's 22 queries over a slow object store, each the first of a new process", lambda r: (
        f"Scale {r['scale']:g}, {r['threads']} threads each; {r['versions']}. The store waits {r['delay_ms']} ms before each "
        f"answer and sends {r['megabytes_per_second']} MB/s\nper connection. Tables are opened within the time. "
        f"Rounds: {r['rounds']}. {ENGINES}")),
    "distributed": (distributed_queries, "TPC-H's queries on the nodes of a cluster", lambda r: (
        f"Scale {r['scale']:g}; nodes have one of {r['cores']} cores and {r['memory']} of memory each, so the third shares the "
        f"core of the first. Cold: the first run in\na new cluster, after the queries above it; warm: medians of "
        f"{r['rounds']} repetitions. Times are those of `stylobate sql --cluster`.")),
}
# Requires a command built with the feature `distributed`.
ONLY_BY_NAME = {"distributed"}


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of warm queries (default: 5)")
    parser.add_argument("--cold-rounds", type=int, default=5, help="rounds of cold queries (default: 5)")
    parser.add_argument("--remote-rounds", type=int, default=1, help="rounds over the slow store (default: 1)")
    parser.add_argument("--distributed-rounds", type=int, default=3, help="warm rounds on clusters (default: 3)")
    parser.add_argument("--distributed-scale", type=float, default=10.0, help="scale factor on clusters (default: 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H (default: 1)")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1),
                        help="threads of each engine (default: 2)")
    parser.add_argument("--memory", metavar="SIZE", default="4GiB", help="memory of stylobate (default: 4GiB)")


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, PARTS, NEEDED_BYTES, add_options, ONLY_BY_NAME))
