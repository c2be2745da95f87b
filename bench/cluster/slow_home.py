"""Latency of reads through one node for objects whose home is slow, compared with the same home at normal speed. The
deputy has the bytes of half of the objects; only the slow home has the others.

Relays in front of the peer doors simulate a network: each answer is delayed by a hop, and those of the slow node by
much more. The reader caches little, so that most of its reads go to peers.
"""

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import servers
from fleet import KIB, OBJECT_BYTES, Fleet, Objects
from placement import home
from reader import Reader
from suite import Bar, progress
from tools import fail

PROGRAMS = ["nginx"]
READER, SLOW, DEPUTY = IDS = ["node-0", "node-1", "node-2"]
HOP_MS, SLOW_MS = 10, 300
LENGTH, CONNECTIONS = 64 * KIB, 4
OBJECTS, QUICK_OBJECTS = 48, 24
READS, QUICK_READS = 600, 100
READER_MEMORY = "64MiB"
MAX_P99 = 1.0


class LateDoor(servers.Server):
    """A relay in front of a peer door, see `late_door.py`. The door must listen at `upstream`."""

    def __init__(self, folder):
        self.name, self.upstream = "late-door", servers.free_port()
        self.log = Path(folder) / f"late-door-{self.upstream}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("late_door.py")), str(self.upstream), str(HOP_MS)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line:
            fail(f"the relay did not start:\n{self.log.read_text()}")
        self.port = int(line)

    def set_delay(self, delay_ms):
        self.process.stdin.write(f"{delay_ms}\n")
        self.process.stdin.flush()


def run(programs, folder, options):
    root = folder / "slow"
    objects = Objects(root, QUICK_OBJECTS if options.quick else OBJECTS)
    keys = [key for key in objects.of(SLOW, IDS) if home(servers.BUCKET, key, 0, [READER, DEPUTY]) == DEPUTY]
    reads = QUICK_READS if options.quick else READS
    with servers.nginx_files(programs, folder, root) as files, LateDoor(folder) as slow, LateDoor(folder) as other:
        doors = {id: (door.port, door.upstream) for id, door in ((SLOW, slow), (DEPUTY, other))}
        with Fleet(programs, folder, files.port, IDS, more=["--consistency", "immutable"],
                   memory={READER: READER_MEMORY}, doors=doors) as fleet:
            had, lacked = keys[::2], keys[1::2]
            # Each node is the home of some objects, and so learns the latency of the origin.
            for id, node in fleet.nodes.items():
                objects.read_all(node, objects.of(id, IDS)[:2])
            objects.read_all(fleet.nodes[SLOW], keys)
            objects.read_all(fleet.nodes[DEPUTY], had)
            fleet.settle()
            # The reader learns the usual latency of its peers.
            _phase(fleet, objects, had, "before", QUICK_READS)
            phases = {"without": _phase(fleet, objects, had, "without", reads)}
            slow.set_delay(SLOW_MS)
            phases["with"] = _phase(fleet, objects, had, "with", reads)
            phases["deputy lacks the bytes"] = _phase(fleet, objects, lacked, "lacks", reads)
    return {"objects": len(keys), "hop_ms": HOP_MS, "slow_ms": SLOW_MS, "connections": CONNECTIONS,
            "reads": reads * CONNECTIONS, "reader_memory": READER_MEMORY, "phases": phases}


def _phase(fleet, objects, keys, name, reads):
    reader = fleet.nodes[READER]
    before = reader.stats()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        runs = pool.map(lambda thread: _times(reader, objects, keys, f"{name} {thread}", reads), range(CONNECTIONS))
        times = sorted(time_ms for run_ in runs for time_ms in run_)
    after = reader.stats()
    counted = ("peer_reads", "deputy_reads", "hedges", "origin_gets")
    found = {f"p{percent}_ms": times[(len(times) - 1) * percent // 100] for percent in (50, 95, 99)}
    found |= {"max_ms": times[-1]} | {counter: after[counter] - before[counter] for counter in counted}
    progress(f"{name}: {found}")
    return found


def _times(server, objects, keys, seed, reads):
    """Returns the milliseconds of random reads, one after another."""
    numbers = random.Random(seed)
    reader = Reader(server, "")
    into = memoryview(bytearray(LENGTH))
    times = []
    for _ in range(reads):
        key = numbers.choice(keys)
        first = numbers.randrange(0, OBJECT_BYTES, LENGTH)
        reader.path = f"/{servers.BUCKET}/{key}"
        begun = time.perf_counter()
        reader.get(into, first)
        times.append((time.perf_counter() - begun) * 1000)
        if into != objects.contents[key][first:first + LENGTH]:
            fail(f"{server.name} sent other bytes than those of {key}")
    reader.close()
    return times


def bars(result):
    without = result["phases"]["without"]
    limit = 2 * without["p95_ms"] + result["hop_ms"]
    for name in ("with", "deputy lacks the bytes"):
        yield Bar(f"slow home, {name}: p99 / (2 p95 without + a hop)", result["phases"][name]["p99_ms"] / limit, "at most",
                  MAX_P99)


def rows(result):
    """Returns the table: a row per phase."""
    yield ["slow home", "p50 ms", "p95 ms", "p99 ms", "max ms", "reads from peers", "of deputies", "hedges", "origin GETs"]
    for name, figures in result["phases"].items():
        yield [name, *(f"{figures[f'{name_}_ms']:.1f}" for name_ in ("p50", "p95", "p99", "max")),
               *(str(figures[counter]) for counter in ("peer_reads", "deputy_reads", "hedges", "origin_gets"))]
