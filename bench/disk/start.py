"""Time until a node over a full disk tier answers its first hit, and resident memory of idle nodes."""

import os
import random
import shutil
import statistics
import time
from pathlib import Path

import servers
from disk_hits import drop_page_cache
from reader import Reader
from suite import Bar, is_wanted, progress
from tools import fail

PROGRAMS = []
SEED = 32
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
OBJECT_BYTES = GIB
# Equal to the capacity, which then holds 20 GiB of pages: the rest is headers and blocks about to be reclaimed.
OBJECTS, QUICK_OBJECTS = 22, 1
READ_BYTES = 64 * KIB
STARTS = 5
MAX_SECONDS = 1.0
# Minimum share of random reads, over everything written to the tier, that hit.
MIN_HITS = 0.8
# Time for background work of the start to complete.
IDLE_SECONDS = 5
MAX_IDLE_BYTES = 80 * MIB


def run(programs, folder, options):
    idle = _idle(programs, folder)
    progress(f"idle: {idle / MIB:.1f} MiB")
    if not is_wanted(options, "start"):
        return {"idle_bytes": idle, "starts": []}

    objects = QUICK_OBJECTS if options.quick else OBJECTS
    lake, tier = folder / "lake", folder / "tier"
    keys, content = _objects(lake / servers.BUCKET, objects)
    more = ["--disk", f"{tier}={objects * OBJECT_BYTES // MIB}MiB", "--consistency", "immutable"]

    def node():
        return servers.Node(programs, folder, servers.BUCKET, lake / servers.BUCKET, more=more)

    with node() as filled:
        for key in keys:
            _read_whole(filled, key)
            filled.settle()
        held = filled.document()["cache"]["disk_used"]
        filled.stop()
    starts = []
    numbers = random.Random(SEED)
    for start in range(STARTS):
        drop_page_cache()
        begun = time.perf_counter()
        with node() as started:
            seconds, from_disk = _first_hits(started, keys, content, numbers, begun)
            time.sleep(IDLE_SECONDS)
            starts.append({"seconds": seconds, "from_disk": from_disk, "killed_before": start % 2 == 0 and start > 0,
                           "resident_bytes": _resident(started)})
            progress(f"start: {starts[-1]}")
            # The next start follows a clean stop, or a kill.
            if start % 2:
                started.kill()
            else:
                started.stop()
    shutil.rmtree(tier)
    shutil.rmtree(lake)
    return {"idle_bytes": idle, "starts": starts, "tier_bytes": held}


def _objects(bucket, count):
    """Writes objects that all have the same bytes; returns their keys and these bytes."""
    bucket.mkdir(parents=True)
    numbers = random.Random(SEED)
    content = b"".join(numbers.randbytes(MIB) for _ in range(OBJECT_BYTES // MIB))
    keys = [f"object-{n:02}.bin" for n in range(count)]
    (bucket / keys[0]).write_bytes(content)
    # Files modified less than 2 s ago are not cached.
    os.utime(bucket / keys[0], (time.time() - 3600,) * 2)
    for key in keys[1:]:
        os.link(bucket / keys[0], bucket / key)
    return keys, content


def _read_whole(node, key):
    reader = Reader(node, f"/{servers.BUCKET}/{key}")
    into = memoryview(bytearray(8 * MIB))
    for first in range(0, OBJECT_BYTES, len(into)):
        reader.get(into, first)
    reader.close()


def _first_hits(node, keys, content, numbers, begun):
    """Returns the seconds from the start of the process to the first hit, and the share of random reads that hit."""
    into = memoryview(bytearray(READ_BYTES))
    seconds, hits, reads = None, 0, 4 * len(keys)
    for read in range(reads):
        before = node.origin_bytes() if read else 0
        first = numbers.randrange(0, OBJECT_BYTES - READ_BYTES, READ_BYTES)
        reader = Reader(node, f"/{servers.BUCKET}/{keys[read % len(keys)]}")
        reader.get(into, first)
        reader.close()
        now = time.perf_counter() - begun
        if into != content[first:first + READ_BYTES]:
            fail(f"the node sent other bytes than those at {first}")
        if node.origin_bytes() == before:
            hits += 1
            seconds = now if seconds is None else seconds
    return seconds, hits / reads


def _idle(programs, folder):
    """Returns the resident bytes of a node with a Flight door that has served nothing but one request for its
    statistics."""
    bucket = folder / "idle"
    bucket.mkdir()
    with servers.Node(programs, folder, servers.BUCKET, bucket, flight=f"127.0.0.1:{servers.free_port()}") as node:
        time.sleep(IDLE_SECONDS)
        node.stats()
        return _resident(node)


def _resident(node):
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def bars(result):
    yield Bar("resident, idle", result["idle_bytes"] / MIB, "at most", MAX_IDLE_BYTES / MIB, "MiB")
    if result["starts"]:
        seconds = [start["seconds"] for start in result["starts"]]
        slowest = None if None in seconds else max(seconds)
        yield Bar(f"first hit over {result['tier_bytes'] / GIB:.1f} GiB of disk, slowest of {len(seconds)}", slowest,
                  "at most", MAX_SECONDS)
        yield Bar("random reads that hit after it", statistics.median(s["from_disk"] for s in result["starts"]),
                  "at least", MIN_HITS)


def rows(result):
    """Returns the table: a row per start."""
    yield ["start", "after", "seconds to the first hit", "of reads from disk", "resident MiB"]
    for n, start in enumerate(result["starts"], 1):
        first = "none" if start["seconds"] is None else f"{start['seconds']:.3f}"
        yield [str(n), "a kill" if start["killed_before"] else "a stop", first, f"{start['from_disk']:.2f}",
               f"{start['resident_bytes'] / MIB:.0f}"]
