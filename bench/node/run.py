#!/usr/bin/env python3
"""`make bench-node`: a storage node beside nginx, cachey and the origin itself, in one run on one machine."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import cold
import hot
import tools
import traces

NEEDED_BYTES = 3 << 30
# Load average above which the figures are those of a busy machine.
BUSY = 0.5

PARTS = {
    "hot": (hot, "Hot ranged GETs, from memory, over loopback", lambda r: (
        f"wrk, 1 thread, {r['connections']} connections; an object of {r['object_bytes'] >> 20} MiB, memory "
        f"{r['memory']} each; {r['rounds']} rounds of {r['seconds_per_run']} s, in turns; medians.\n"
        "CPU µs: the server's processor time per request. signed: a presigned URL per request, its range signed "
        "too.\nnginx: proxy_cache, slice 1m. stylobate / it: requests per second of the unsigned node over the "
        "row's.")),
    "cold": (cold, "Cold sequential read, from a slow origin and through a node without anything", lambda r: (
        f"{r['object_bytes'] >> 20} MiB; the origin waits {r['delay_ms']} ms before each answer and sends "
        f"{r['megabytes_per_second']} MB/s; {r['pairs']} pairs; medians. ratio: node / direct; the goal is <= 1.1.")),
    "traces": (traces, "Traces of Parpulse's kinds, through a cold node and from the slow origin", lambda r: (
        f"The origin waits {r['delay_ms']} ms before each answer and sends "
        f"{r['megabytes_per_second_of_a_connection']} MB/s per connection, {r['megabytes_per_second_in_all']} MB/s "
        f"in all;\nthe node has {r['memory']}; files at {r['scale']:g} of their size. Parpulse's means are those its "
        "authors published, for files of\nfull size, on AWS c5.xlarge against S3: context, not a comparison.")),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run of about a minute, no measurement")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures as JSON")
    parser.add_argument("--only", choices=PARTS, action="append", help="run this part only; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="hot rounds, and cold pairs (default: 5)")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of each hot run (default: 4)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the sizes of the traces' files")
    parser.add_argument("--binary", metavar="FILE", help="the stylobate to measure, instead of building it")
    options = parser.parse_args()
    if sys.platform != "linux":
        tools.fail("Linux is needed")

    # So that whoever ends the benchmark ends its servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-node: told to stop"))
    programs = tools.find(options.binary)
    versions = tools.versions(programs, options.binary)
    print("\n".join(f"{name:<10} {version}" for name, version in versions.items()))
    results = {"versions": versions, "quick": options.quick, "load_average_before": os.getloadavg()[0]}
    if results["load_average_before"] > BUSY * (os.cpu_count() or 1):
        print(f"\nThe machine is busy: load average {results['load_average_before']:.1f}.")

    folder = Path(tempfile.mkdtemp(prefix="stylobate-bench-"))
    try:
        if shutil.disk_usage(folder).free < NEEDED_BYTES:
            tools.fail(f"{folder}: {NEEDED_BYTES >> 30} GiB of free space are needed; set TMPDIR")
        for name in options.only or PARTS:
            part, title, explain = PARTS[name]
            begun = time.monotonic()
            results[name] = part.run(programs, folder, options)
            results[name]["took_seconds"] = time.monotonic() - begun
            print(f"\n{title}\n{explain(results[name])}\n")
            print(aligned(part.rows(results[name])), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results["load_average_after"] = os.getloadavg()[0]
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def aligned(rows):
    """A table: text to the left, figures to the right."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    main()
