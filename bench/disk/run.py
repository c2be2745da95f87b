#!/usr/bin/env python3
"""`make bench-disk`: bytes fetched per byte requested with little memory, and the disk tier beside fio and its peers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node"))

import disk_hits  # noqa: E402
import origin_bytes  # noqa: E402
import start  # noqa: E402
import suite  # noqa: E402

# The part start keeps a tier of 22 GiB; the others an object of at most 4 GiB at the origin and in each cache, one
# cache at a time.
NEEDED_BYTES = 26 << 30

PARTS = {
    "bytes": (origin_bytes, "Bytes that a node fetches from its origin, over those of the object", lambda r: (
        f"An object of {r['object_bytes'] >> 20} MiB in a folder. again: over the object in the second pass or, of a "
        f"cycle, in the last of {r['cycle_passes']}.\nReaders: all together, each byte compared; the whole is what "
        f"at least one of them reads. Flight door: {r['flight']}.")),
    "hot": (disk_hits, "Random reads of data in the disk tier", lambda r: (
        f"wrk, 1 thread; an object of {r['object_bytes'] >> 20} MiB, memory {r['memory']}, {r['capacity']} of disk "
        f"each; {r['rounds']} rounds of {r['seconds_per_run']} s; medians.\nfio: O_DIRECT, the same sizes and depths, "
        f"in turns with stylobate, the better of io_uring and psync. The system's page cache {r['page_cache']} before each run.\nfrom device: "
        "share of the bytes sent that the server read from the device, not from memory.\nnginx: "
        "proxy_cache, slice 1m, with the system's page cache; nginx-direct: directio and threads.")),
    "start": (start, "Starts of a node over a full disk tier", lambda r: (
        "Seconds from the start of the process to the first read of 64 KiB that needs no byte of the origin; then more "
        "random reads.\nThe system's page cache is dropped before each start, if the benchmark runs as root.")),
}


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the part hot (default: 3)")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of each hot run (default: 4)")
    parser.add_argument("--flight", choices=["on", "off"], default="off",
                        help="whether the nodes of the part bytes have a Flight door (default: off)")


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, PARTS, NEEDED_BYTES, add_options))
