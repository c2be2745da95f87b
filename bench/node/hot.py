"""Hot ranged GETs: the same ranges of one object, from the memory of each peer, measured with wrk.

Each peer reads the whole object first and answers sample ranges, which are compared with the object. Then wrk loads the
peers in turn, round after round. The bytes that wrk received must be at least those that it requested. The server's
processor time per request is reported beside the rate, since it varies less on a machine that does other work.
"""

import hashlib
import http.client
import json
import random
import statistics
import subprocess
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import servers
import sigv4
from suite import Bar, is_wanted, progress
from tools import fail

KEY = "object.bin"
PATH = f"/{servers.BUCKET}/{KEY}"
CONNECTIONS = 8
RANGES = 4096
SEED = 7
KIB, MIB = 1 << 10, 1 << 20
# Name, length of a range in bytes, and alignment of its first byte.
LOADS = [
    ("1 MiB", MIB, MIB), ("64 KiB", 64 * KIB, 64 * KIB), ("1 MiB, unaligned", MIB, 1), ("4 KiB", 4 * KIB, 4 * KIB),
]
MIN_SIGNED, MIN_OF_CACHEY, MIN_OF_BEFORE = 0.9, 1.1, 0.97


@dataclass
class Peer:
    name: str
    server: servers.Server
    # The path, and the headers besides Range, of a request for the range of the second argument.
    request: Callable[[str], tuple]


def programs(options):
    return ["s3s-fs", "wrk", *(name for name in ("cachey", "nginx") if is_wanted(options, name))]


def run(programs, folder, options):
    size = (64 if options.quick else 256) * MIB
    rounds, seconds = (2, 1) if options.quick else (options.rounds, options.seconds)
    numbers = random.Random(SEED)
    content = b"".join(numbers.randbytes(MIB) for _ in range(size // MIB))
    with servers.s3_origin(programs, folder, folder / "origin") as origin:
        signer = sigv4.Signer(origin.host, servers.ACCESS_KEY, servers.SECRET_KEY)
        _put(origin, signer.presign("PUT", PATH), content)
        started = []
        try:
            peers = _start(programs, folder, options, origin, signer, started)
            for peer in peers:
                _warm(peer, content)
                _check(peer, content)
            before = {peer.name: _origin_requests(peer) for peer in peers}
            results = _measure(programs, folder, peers, size, rounds, seconds)
            for peer in peers:
                if (more := _origin_requests(peer) - before[peer.name]) != 0:
                    fail(f"{peer.name} sent {more} requests to the origin while everything was hot")
        finally:
            for server in started:
                server.stop()
    return {
        "object_bytes": size, "rounds": rounds, "seconds_per_run": seconds, "connections": CONNECTIONS,
        "wrk_threads": 1, "memory": servers.MEMORY, "loads": results,
    }


def _start(programs, folder, options, origin, signer, started):
    """Starts the selected peers. The node without signatures is always one: the others are compared with it."""
    # The other peers do not revalidate the object either.
    immutable = ["--consistency", "immutable"]

    if options.before:
        before = programs | {"stylobate": options.before}
        started.append(servers.s3_node(before, folder, servers.BUCKET, origin.port, more=immutable))

    def node(signed):
        return servers.s3_node(programs, folder, servers.BUCKET, origin.port, signed=signed, more=immutable)

    started.append(node(signed=False))
    peers = [Peer("stylobate", started[-1], lambda _: (PATH, {}))]
    if options.before:
        peers.append(Peer("before", started[0], lambda _: (PATH, {})))
    if is_wanted(options, "stylobate, signed"):
        started.append(node(signed=True))
        door = sigv4.Signer(started[-1].host, servers.ACCESS_KEY, servers.SECRET_KEY)
        # The range is signed too, so every signature is different.
        peers.append(Peer("stylobate, signed", started[-1],
                          lambda asked: (door.presign("GET", PATH, {"range": asked}), {})))
    if is_wanted(options, "cachey"):
        started.append(servers.cachey(programs, folder, origin.port))
        peers.append(Peer("cachey", started[-1],
                          lambda _: (f"/fetch/{servers.BUCKET}/{KEY}", {"C0-Config": "fps=true"})))
    if is_wanted(options, "nginx"):
        started.append(servers.nginx_cache(programs, folder, origin.port, PATH, signer.presign("GET", PATH)))
        peers.append(Peer("nginx", started[-1], lambda _: (PATH, {})))
    return peers


def _put(origin, path, content):
    connection = http.client.HTTPConnection(origin.host, timeout=120)
    connection.request("PUT", path, body=content, headers={"Content-Type": "application/octet-stream"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        fail(f"the origin refused the object: {answer.status} {body[:500]!r}")


def _get(connection, peer, first, last):
    asked = f"bytes={first}-{last}"
    path, headers = peer.request(asked)
    connection.request("GET", path, headers={"Range": asked} | headers)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 206:
        fail(f"{peer.name} answered {answer.status} to {asked}: {body[:500]!r}")
    return body


def _warm(peer, content):
    """Reads the whole object twice: a cache may admit at the second request only."""
    connection = http.client.HTTPConnection(peer.server.host, timeout=120)
    for _ in range(2):
        digest = hashlib.sha256()
        for first in range(0, len(content), 8 * MIB):
            digest.update(_get(connection, peer, first, min(first + 8 * MIB, len(content)) - 1))
        if digest.digest() != hashlib.sha256(content).digest():
            fail(f"{peer.name} sent other bytes than the object's")
    connection.close()


def _check(peer, content):
    """Compares sample ranges of each load with the object."""
    connection = http.client.HTTPConnection(peer.server.host, timeout=60)
    for _, length, step in LOADS:
        for first in _starts(len(content), length, step)[:25]:
            if _get(connection, peer, first, first + length - 1) != content[first:first + length]:
                fail(f"{peer.name} sent other bytes than those at {first}")
    connection.close()


def _starts(size, length, step):
    numbers = random.Random(f"{SEED} {length} {step}")
    return [numbers.randrange(0, size - length + 1, step) for _ in range(RANGES)]


def _origin_requests(peer):
    return peer.server.origin_requests() if isinstance(peer.server, servers.Node) else 0


def _measure(programs, folder, peers, size, rounds, seconds):
    results = []
    for name, length, step in LOADS:
        files = {peer.name: write_requests(folder, peer, _starts(size, length, step), length) for peer in peers}
        runs = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                runs[peer.name].append(load(programs, peer, files[peer.name], length, seconds))
        results.append(_summary(name, length, runs))
        progress(f"{name}: " + ", ".join(f"{peer} {figures['requests_per_second']:,.0f}"
                                         for peer, figures in results[-1]["peers"].items()) + " requests/s")
    return results


def write_requests(folder, peer, starts, length):
    """Writes the requests that load.lua sends."""
    lines = []
    for first in starts:
        asked = f"bytes={first}-{first + length - 1}"
        path, headers = peer.request(asked)
        # Omits what only a miss needs.
        lines.append("\t".join([path, asked, *(f"{n}: {v}" for n, v in headers.items() if n != "C0-Config")]))
    file = folder / f"requests-{urllib.parse.quote_plus(peer.name)}.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def load(programs, peer, requests, length, seconds, connections=CONNECTIONS):
    """Returns wrk's figures for the requests of a file, `length` bytes per request."""
    command = [programs["wrk"], "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s",
               "-s", Path(__file__).with_name("load.lua"), f"http://{peer.server.host}/", "--", requests]
    before = peer.server.cpu_seconds()
    shown = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    cpu = peer.server.cpu_seconds() - before
    if shown.returncode != 0:
        fail(f"wrk: {shown.stderr or shown.stdout}")
    run = json.loads(shown.stdout.splitlines()[-1])
    if run["status_errors"] or run["socket_errors"] or not run["requests"]:
        fail(f"{peer.name}: {run}\n{shown.stdout}")
    if run["bytes"] < run["requests"] * length:
        fail(f"{peer.name} sent {run['bytes']} bytes for {run['requests']} ranges of {length}")
    return run | {"cpu_us_per_request": cpu * 1e6 / run["requests"]}


def _summary(name, length, runs):
    peers = {}
    for peer, measured in runs.items():
        rates = [run["requests"] / run["duration_us"] * 1e6 for run in measured]
        middle = statistics.median(rates)
        peers[peer] = {
            "requests_per_second": middle, "min": min(rates), "max": max(rates),
            "gigabytes_per_second": middle * length / 1e9,
            "p50_us": statistics.median(run["p50_us"] for run in measured),
            "p99_us": statistics.median(run["p99_us"] for run in measured),
            "cpu_us_per_request": statistics.median(run["cpu_us_per_request"] for run in measured),
        }
    ours = peers["stylobate"]["requests_per_second"]
    for figures in peers.values():
        figures["ratio"] = ours / figures["requests_per_second"]
    return {"name": name, "range_bytes": length, "peers": peers}


def bars(result):
    """Yields the bars: a signature may cost a tenth on small ranges; the peer that caches in memory too must be slower."""
    peers = {load["name"]: load["peers"] for load in result["loads"]}
    if "stylobate, signed" in peers["64 KiB"]:
        ratio = 1 / peers["64 KiB"]["stylobate, signed"]["ratio"]
        yield Bar("64 KiB, signed / unsigned", ratio, "at least", MIN_SIGNED)
    for name in ("1 MiB", "64 KiB"):
        if "cachey" in peers[name]:
            yield Bar(f"{name}, stylobate / cachey", peers[name]["cachey"]["ratio"], "at least", MIN_OF_CACHEY)
    for name, load in peers.items():
        if "before" in load:
            yield Bar(f"{name}, stylobate / before", load["before"]["ratio"], "at least", MIN_OF_BEFORE)


def rows(result):
    """Returns the table: a row per load and peer."""
    yield ["range", "server", "req/s", "min", "max", "GB/s", "p50 µs", "p99 µs", "CPU µs", "stylobate / it"]
    for load in result["loads"]:
        for peer, figures in load["peers"].items():
            yield [
                load["name"], peer, f"{figures['requests_per_second']:,.0f}", f"{figures['min']:,.0f}",
                f"{figures['max']:,.0f}", f"{figures['gigabytes_per_second']:.2f}", f"{figures['p50_us']:,.0f}",
                f"{figures['p99_us']:,.0f}", f"{figures['cpu_us_per_request']:,.1f}", f"{figures['ratio']:.2f}",
            ]
