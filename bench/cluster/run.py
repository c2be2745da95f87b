#!/usr/bin/env python3
"""`make bench-cluster`: costs and savings of nodes in a cluster, beside nodes without one and nginx, on one machine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node"))

import alone  # noqa: E402
import cold_scan  # noqa: E402
import hot_reads  # noqa: E402
import join_and_drain  # noqa: E402
import slow_home  # noqa: E402
import suite  # noqa: E402

NEEDED_BYTES = 4 << 30

PARTS = {
    "scan": (cold_scan, "Cold scans of lineitem by DuckDB, through clusters of one, two and three nodes", lambda r: (
        f"TPC-H at scale {r['scale']:g}, a file of {r['file_bytes'] >> 20} MiB; {r['readers']} readers at once, spread "
        f"over the nodes. The origin waits {r['delay_ms']} ms before\neach answer and sends "
        f"{r['megabytes_per_second']} MB/s per connection. origin MB: bodies that it sent.")),
    "hot": (hot_reads, "Hot ranged GETs of three nodes, from memory, over loopback", lambda r: (
        f"Three wrk of 1 thread, {r['connections']} connections each; {r['objects']} objects, "
        f"{r['object_bytes'] >> 20} MiB in all, memory {r['memory']} per node; {r['rounds']} rounds of {r['seconds_per_run']} s, in turns; "
        "medians.\nsingly: no cluster, each object from one node. placed: each from its home. hop: any from any node. "
        f"small hop: the same\nwith {r['small_memory']} per node. nginx: three caches behind one nginx that hashes "
        "paths. from peers: share of the bytes. p99: the\nworst of the three.")),
    "join": (join_and_drain, "A fourth node joins three, and drains, under load", lambda r: (
        f"Three wrk read 64 KiB at random through the three, {r['connections']} connections each; {r['objects']} "
        f"objects, {r['object_bytes'] >> 20} MiB in all, {r['share_bytes'] >> 20} MiB of them the fourth's;\nthe "
        f"origin waits {r['delay_ms']} ms. MB moved: what the fourth got from peers since it joined, or gave since it "
        "began to drain.")),
    "slow": (slow_home, "A slow home, read through another node", lambda r: (
        f"{r['reads']} reads of 64 KiB, {r['connections']} at a time, of {r['objects']} objects. "
        f"The deputy has the bytes of one half, too. An answer of a peer takes {r['hop_ms']} ms, one of the slow\nhome {r['slow_ms']} ms. The reader has "
        f"{r['reader_memory']} of memory: it keeps few of the pages.")),
    "alone": (alone, "A cluster of one beside a node without a cluster, hot ranged GETs", lambda r: (
        f"wrk, 1 thread, {r['connections']} connections; {r['object_bytes'] >> 20} MiB; {r['rounds']} rounds of "
        f"{r['seconds_per_run']} s, in turns, over {r['starts']} starts of both; ratio: of the medians.")),
}


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=3, help="rounds of hot reads (default: 3)")
    parser.add_argument("--seconds", type=int, default=3, help="seconds of each hot run (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H (default: 1)")


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, PARTS, NEEDED_BYTES, add_options))
