"""Random reads of data in the disk tier: beside fio on the same disk, nginx and cachey, and while the tier is being
filled.

The object is far larger than memory and has just been read through each cache, so that all of it is on disk. The page
cache is dropped before each run: what a server reads after that comes from the device, or from its own memory. The
column `from device` shows where the page cache refills during a run.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import threading
import time
from pathlib import Path

import hot
import servers
from reader import Reader
from suite import Bar, is_wanted, progress
from tools import fail

# Programs that each server needs, besides stylobate and wrk. cachey's origin is nginx.
NEEDED = {"stylobate": ["fio"], "cachey": ["cachey", "nginx"], "nginx": ["nginx"],
          "nginx-direct": ["nginx"]}
SEED = 29
KIB, MIB = 1 << 10, 1 << 20
MEMORY = "64MiB"
KEY = "hot.bin"
PATH = f"/{servers.BUCKET}/{KEY}"
LOADS = [MIB, 64 * KIB]
CONNECTIONS = [8, 64]
# The tier's own headers and the block to be reclaimed next take some of its capacity.
SLACK = 1 / 8
WARM_PASSES = 4
MIN_OF_FIO, MIN_OF_PEERS = 0.85, 1.0
# Maximum share of bytes from the origin once all of the object should be on disk.
MAX_FROM_ORIGIN = 0.01

# The tier is filled at the rate of one connection to an object store.
FILL_MB = 100
FILL_LOAD, FILL_CONNECTIONS = ("64 KiB", 64 * KIB), 8
MAX_FILL_P99 = 2.0


def programs(options):
    return ["wrk", *(program for name, needed in NEEDED.items() if is_wanted(options, name) for program in needed)]


def run(programs, folder, options):
    capacity = (512 if options.quick else 4096) * MIB
    rounds, seconds = (1, 1) if options.quick else (options.rounds, options.seconds)
    size = int(capacity * (1 - SLACK)) // (8 * MIB) * 8 * MIB
    bench = Bench(programs, folder, size, capacity, rounds, seconds)
    results = bench.node_beside_fio() if is_wanted(options, "stylobate") else {}
    results |= {name: measure() for name, measure in {
        "cachey": bench.cachey, "nginx": bench.nginx, "nginx-direct": bench.nginx_direct,
    }.items() if is_wanted(options, name)}
    filling = bench.filling() if is_wanted(options, "filling") else None
    shutil.rmtree(bench.lake)
    return {"object_bytes": size, "memory": MEMORY, "capacity": f"{capacity // MIB} MiB", "rounds": rounds,
            "seconds_per_run": seconds, "peers": results, "filling": filling,
            "page_cache": "is dropped" if os.geteuid() == 0 else "could NOT be dropped (that takes root)"}


def drop_page_cache():
    if os.geteuid() == 0:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3\n")


class Bench:
    """The object, and one cache at a time in front of it."""

    def __init__(self, programs, folder, size, capacity, rounds, seconds):
        self.programs, self.folder, self.size, self.capacity = programs, folder, size, capacity
        self.rounds, self.seconds = rounds, seconds
        self.lake, self.tier = folder / "lake", folder / "tier"
        bucket = self.lake / servers.BUCKET
        bucket.mkdir(parents=True)
        self.object = bucket / KEY
        numbers = random.Random(SEED)
        with self.object.open("wb") as file:
            for _ in range(size // MIB):
                file.write(numbers.randbytes(MIB))
        # Another object with the same bytes, to fill the tier.
        os.link(self.object, bucket / "fill.bin")

    def node_beside_fio(self):
        """Runs the node and fio in turns, round by round: the throughput of a virtual machine's device varies from
        minute to minute."""
        fio = {}

        def run_fio(length, depth):
            engines = fio.setdefault(_load_name(length, depth), {})
            for engine, run in self._fio(length, depth).items():
                engines.setdefault(engine, []).append(run)

        with self._start_node() as node:
            figures = self._measure(hot.Peer("stylobate", node, lambda _: (PATH, {})), run_fio)
        shutil.rmtree(self.tier)
        return {"fio": {load: _best(engines) for load, engines in fio.items()}, "stylobate": figures}

    def cachey(self):
        self.tier.mkdir()
        with servers.nginx_files(self.programs, self.folder, self.lake) as origin, servers.cachey(
                self.programs, self.folder, origin.port, MEMORY, self.tier, f"{self.capacity // MIB}MiB") as cachey:
            figures = self._measure(hot.Peer("cachey", cachey, lambda _: (
                f"/fetch/{servers.BUCKET}/{KEY}", {"C0-Config": "fps=true"})))
        shutil.rmtree(self.tier)
        return figures

    def nginx(self, direct=False):
        with servers.nginx_files(self.programs, self.folder, self.lake) as origin, servers.nginx_cache(
                self.programs, self.folder, origin.port, PATH, PATH, f"{self.capacity // MIB}m", direct) as nginx:
            return self._measure(hot.Peer(nginx.name, nginx, lambda _: (PATH, {})))

    def nginx_direct(self):
        return self.nginx(direct=True)

    def filling(self):
        """Returns p99 of hot reads with and without another reader that brings new data into the tier."""
        name, length = FILL_LOAD
        held = self.size // 4
        with self._start_node() as node:
            peer = hot.Peer("stylobate", node, lambda _: (PATH, {}))
            self._warm(peer, held)
            requests = hot.write_requests(self.folder, peer, _starts(held, length), length)
            runs = []
            for _ in range(self.rounds):
                drop_page_cache()
                runs.append(hot.load(self.programs, peer, requests, length, self.seconds, FILL_CONNECTIONS))
            filler = Filler(node, self.size - held)
            written = node.document()["cache"]["disk_written"]
            filler.start()
            time.sleep(0.5)
            filled = []
            for _ in range(self.rounds):
                drop_page_cache()
                if filler.is_done():
                    break
                filled.append(hot.load(self.programs, peer, requests, length, self.seconds, FILL_CONNECTIONS))
            filler.stop()
            written = node.document()["cache"]["disk_written"] - written
        shutil.rmtree(self.tier)
        return {"range": name, "connections": FILL_CONNECTIONS, "idle_p99_us": _middle(runs, "p99_us"),
                "filling_p99_us": _middle(filled, "p99_us"), "fill_read_bytes": filler.position,
                "fill_written_bytes": written}

    def _start_node(self):
        shutil.rmtree(self.tier, ignore_errors=True)
        return servers.Node(
            self.programs, self.folder, servers.BUCKET, self.lake / servers.BUCKET, memory=MEMORY,
            more=["--disk", f"{self.tier}={self.capacity // MIB}MiB", "--consistency", "immutable"])

    def _warm(self, peer, size):
        """Reads the object until a pass fetches nothing: then all of it is on disk."""
        node = peer.server if isinstance(peer.server, servers.Node) else None
        path, headers = peer.request("")
        reader = Reader(peer.server, path, headers)
        into = memoryview(bytearray(8 * MIB))
        with self.object.open("rb") as file:
            for _ in range(WARM_PASSES if node else 2):
                before = node.origin_bytes() if node else 0
                file.seek(0)
                for first in range(0, size, len(into)):
                    reader.get(into, first)
                    if into.obj != file.read(len(into)):
                        fail(f"{peer.name} sent other bytes than those at {first}")
                if node:
                    node.settle()
                    if node.origin_bytes() == before:
                        break
        reader.close()

    def _measure(self, peer, beside=None):
        self._warm(peer, self.size)
        return {_load_name(length, depth): self._load(peer, length, depth, beside)
                for length in LOADS for depth in CONNECTIONS}

    def _load(self, peer, length, connections, beside):
        node = peer.server if isinstance(peer.server, servers.Node) else None
        requests = hot.write_requests(self.folder, peer, _starts(self.size, length), length)
        runs = []
        for _ in range(self.rounds):
            if beside:
                beside(length, connections)
            drop_page_cache()
            device, origin = peer.server.device_bytes(), node.origin_bytes() if node else 0
            run = hot.load(self.programs, peer, requests, length, self.seconds, connections)
            run["from_device"] = (peer.server.device_bytes() - device) / run["bytes"]
            run["from_origin"] = (node.origin_bytes() - origin) / run["bytes"] if node else None
            run["requests_per_second"] = run["requests"] / run["duration_us"] * 1e6
            runs.append(run)
        rates = " ".join(f"{run['requests_per_second']:,.0f}" for run in runs)
        progress(f"{peer.name}, {length >> 10} KiB, {connections} connections: {rates} requests/s")
        names = ["requests_per_second", "p50_us", "p99_us", "from_device", "cpu_us_per_request"]
        return {name: _middle(runs, name) for name in names} | {
            "from_origin": _middle(runs, "from_origin") if node else None}

    def _fio(self, length, depth):
        """Runs each fio engine once. Engines that the system does not allow are skipped."""
        engines = {"io_uring": ["--iodepth", depth, "--numjobs", 1],
                   "psync": ["--thread", "--iodepth", 1, "--numjobs", depth, "--group_reporting"]}
        found = {}
        for engine, how in engines.items():
            command = [
                self.programs["fio"], "--name=hits", f"--filename={self.object}", "--readonly", "--rw=randread",
                f"--bs={length}", "--direct=1", f"--ioengine={engine}", *how, "--time_based",
                f"--runtime={self.seconds}", "--output-format=json",
            ]
            shown = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                                   cwd=self.folder)
            if shown.returncode == 0:
                read = json.loads(shown.stdout[shown.stdout.index("{"):])["jobs"][0]["read"]
                found[engine] = {
                    "requests_per_second": read["iops"],
                    "p50_us": read["clat_ns"]["percentile"]["50.000000"] / 1e3,
                    "p99_us": read["clat_ns"]["percentile"]["99.000000"] / 1e3,
                }
        if not found:
            fail(f"fio: {shown.stderr or shown.stdout}")
        return found


class Filler:
    """Reads `fill.bin` through a node at `FILL_MB`, until it is stopped or the object ends."""

    def __init__(self, node, size):
        self.reader, self.size = Reader(node, f"/{servers.BUCKET}/fill.bin"), size
        self.position, self.stopped = 0, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def start(self):
        self.thread.start()

    def _run(self):
        into = memoryview(bytearray(MIB))
        begun = time.monotonic()
        while self.position + len(into) <= self.size and not self.stopped.is_set():
            self.reader.get(into, self.position)
            self.position += len(into)
            self.stopped.wait(max(0.0, begun + self.position / (FILL_MB * 1e6) - time.monotonic()))

    def is_done(self):
        return not self.thread.is_alive()

    def stop(self):
        self.stopped.set()
        self.thread.join()
        self.reader.close()


def _load_name(length, connections):
    size = f"{length // MIB} MiB" if length >= MIB else f"{length // KIB} KiB"
    return f"{size}, {connections}"


def _best(engines):
    """Returns the medians of the fastest fio engine."""
    found = [{name: _middle(runs, name) for name in runs[0]} | {
        "engine": engine, "from_device": 1.0, "from_origin": None, "cpu_us_per_request": None}
        for engine, runs in engines.items()]
    return max(found, key=lambda figures: figures["requests_per_second"])


def _starts(size, length):
    """Returns every aligned range once, in random order."""
    starts = list(range(0, size, length))
    random.Random(f"{SEED} {length}").shuffle(starts)
    return starts


def _middle(runs, name):
    return statistics.median(run[name] for run in runs) if runs else None


def bars(result):
    peers = result["peers"]
    for name, ours in peers.get("stylobate", {}).items():
        yield Bar(f"{name}, from the origin", ours["from_origin"], "at most", MAX_FROM_ORIGIN)
        for peer in ("fio", "nginx", "nginx-direct", "cachey"):
            if peer in peers:
                ratio = ours["requests_per_second"] / peers[peer][name]["requests_per_second"]
                yield Bar(f"{name}, stylobate / {peer}", ratio, "at least",
                          MIN_OF_FIO if peer == "fio" else MIN_OF_PEERS)
    if filling := result["filling"]:
        ratio = filling["filling_p99_us"] and filling["filling_p99_us"] / filling["idle_p99_us"]
        yield Bar(f"{filling['range']}, {filling['connections']}, p99 while filled / idle", ratio, "at most",
                  MAX_FILL_P99)


def rows(result):
    """Returns the table: a row per load and server."""
    yield ["range, connections", "server", "req/s", "MB/s", "p50 µs", "p99 µs", "CPU µs", "from device",
           "from origin"]
    lengths = {_load_name(length, depth): length for length in LOADS for depth in CONNECTIONS}
    for load, length in lengths.items():
        for peer, loads in result["peers"].items():
            figures = loads[load]
            rate = figures["requests_per_second"]
            yield [
                load, f"{peer} {figures['engine']}" if "engine" in figures else peer, f"{rate:,.0f}",
                f"{rate * length / 1e6:,.0f}", f"{figures['p50_us']:,.0f}", f"{figures['p99_us']:,.0f}",
                _or_blank(figures["cpu_us_per_request"], ",.1f"), _or_blank(figures["from_device"], ".2f"),
                _or_blank(figures["from_origin"], ".3f"),
            ]
    if filling := result["filling"]:
        for way in ("idle", "filling"):
            yield [f"{filling['range']}, {filling['connections']}", f"stylobate, {way}", "", "", "",
                   _or_blank(filling[f"{way}_p99_us"], ",.0f"), "", "", ""]


def _or_blank(value, form):
    return "" if value is None else format(value, form)
