"""Cold sequential reads of an object: from a slow origin, and through a node with an empty cache."""

import http.client
import random
import statistics
import time

import servers
from tools import fail

PROGRAMS = ["nginx"]
DELAY_MS = 30
CONNECTION_MB = 100
SEED = 11
MIB = 1 << 20
PIECE = MIB
# Name, and MB/s of all connections together; 0: no limit.
LINKS = [("each connection has its own", 0), ("all connections share", CONNECTION_MB)]


def run(programs, folder, options):
    size = (20 if options.quick else 100) * MIB
    pairs = 2 if options.quick else options.rounds
    content = random.Random(SEED).randbytes(size)
    root = folder / "cold"
    (root / servers.BUCKET).mkdir(parents=True)
    (root / servers.BUCKET / "cold.bin").write_bytes(content)
    links = []
    with servers.nginx_files(programs, folder, root) as files:
        for name, total_mb in LINKS:
            with servers.SlowOrigin(folder, files.port, DELAY_MS, CONNECTION_MB, total_mb) as origin:
                links.append({"name": name, **_pairs(programs, folder, origin, content, pairs)})
    return {"object_bytes": size, "pairs": pairs, "delay_ms": DELAY_MS, "megabytes_per_second": CONNECTION_MB,
            "links": links}


def _pairs(programs, folder, origin, content, pairs):
    into = bytearray(len(content))
    direct, node = [], []
    for _ in range(pairs):
        direct.append(_read(origin, content, into))
        # A new node has nothing cached.
        with servers.s3_node(programs, folder, servers.BUCKET, origin.port) as fresh:
            node.append(_read(fresh, content, into))
            fetched = fresh.stats()["bytes_origin"]
        if fetched != len(content):
            fail(f"the node fetched {fetched} bytes of an object of {len(content)}")

    def figures(runs):
        totals, firsts = [total for total, _ in runs], [first for _, first in runs]
        return {"seconds": statistics.median(totals), "min": min(totals), "max": max(totals),
                "first_byte_ms": statistics.median(firsts) * 1e3}

    direct, node = figures(direct), figures(node)
    return {"direct": direct, "node": node, "ratio": node["seconds"] / direct["seconds"]}


def _read(server, content, into):
    """Returns the seconds until the last byte, and until the first. The bytes are compared after the clock has stopped."""
    view = memoryview(into)
    into[:] = bytes(len(into))
    connection = http.client.HTTPConnection(server.host, timeout=120, blocksize=PIECE)
    connection.connect()
    begun = time.perf_counter()
    connection.request("GET", f"/{servers.BUCKET}/cold.bin")
    answer = connection.getresponse()
    position = answer.readinto(view[:1])
    first = time.perf_counter() - begun
    while received := answer.readinto(view[position:position + PIECE]):
        position += received
    total = time.perf_counter() - begun
    connection.close()
    if answer.status != 200 or position != len(content) or into != content:
        fail(f"{server.name} answered {answer.status} with {position} bytes that are not the object's")
    return total, first


def rows(result):
    """Returns the table: a row per kind of link and way."""
    yield ["bandwidth", "way", "seconds", "min", "max", "MB/s", "first byte ms", "ratio"]
    for link in result["links"]:
        for way in ("direct", "node"):
            figures = link[way]
            yield [
                link["name"], way, f"{figures['seconds']:.3f}", f"{figures['min']:.3f}", f"{figures['max']:.3f}",
                f"{result['object_bytes'] / figures['seconds'] / 1e6:.0f}", f"{figures['first_byte_ms']:.1f}",
                f"{link['ratio']:.3f}" if way == "node" else "",
            ]
