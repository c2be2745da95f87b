"""Overhead of a node on requests that it forwards: a large PUT to an origin limited to network speed, and a listing of
a thousand keys. Direct and through a node, in turns. The origin costs next to nothing, so the difference is the
node's."""

import http.client
import socket
import statistics
import time

import servers
import sigv4
from suite import Bar
from tools import fail

PROGRAMS = []
MIB = 1 << 20
MEGABYTES_PER_SECOND = 250
KEYS = 1000
LISTINGS = 200
MAX_PUT_RATIO, MAX_LISTING_MS = 1.05, 1.0


def run(programs, folder, options):
    size = (64 if options.quick else 1024) * MIB
    pairs = 2 if options.quick else options.rounds
    return {"put_bytes": size, "pairs": pairs, "megabytes_per_second": MEGABYTES_PER_SECOND,
            "put": _puts(programs, folder, size, pairs), "listing": _listings(programs, folder)}


def _puts(programs, folder, size, pairs):
    with servers.SinkOrigin(folder, MEGABYTES_PER_SECOND) as origin, \
            servers.s3_node(programs, folder, servers.BUCKET, origin.port, memory="64MiB") as node:
        taken = {"direct": [], "node": []}
        for _ in range(pairs):
            for way, server in (("direct", origin), ("node", node)):
                taken[way].append(_put(server, size))
    return taken


def _put(server, size):
    """Returns the seconds until the response."""
    piece = bytes(MIB)
    with socket.create_connection(("127.0.0.1", server.port), 120) as connection:
        begun = time.perf_counter()
        connection.sendall(f"PUT /{servers.BUCKET}/large HTTP/1.1\r\nHost: {server.host}\r\n"
                           f"Content-Length: {size}\r\n\r\n".encode())
        for _ in range(size // MIB):
            connection.sendall(piece)
        answer = connection.recv(65536)
        taken = time.perf_counter() - begun
    if not answer.startswith(b"HTTP/1.1 200"):
        fail(f"{server.name} answered {answer[:500]!r}")
    return taken


def _listings(programs, folder):
    taken = {"direct": [], "node": []}
    with servers.SinkOrigin(folder, MEGABYTES_PER_SECOND) as origin, \
            servers.s3_node(programs, folder, servers.BUCKET, origin.port, signed=True) as node:
        for _ in range(LISTINGS):
            for way, server in (("direct", origin), ("node", node)):
                taken[way].append(_list(server))
    return taken


def _list(server):
    """Returns the seconds from the request to the end of the response, on an established connection."""
    signer = sigv4.Signer(server.host, servers.ACCESS_KEY, servers.SECRET_KEY)
    path = signer.presign("GET", f"/{servers.BUCKET}", query={"list-type": "2"})
    connection = http.client.HTTPConnection(server.host, timeout=60)
    connection.connect()
    begun = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    taken = time.perf_counter() - begun
    connection.close()
    if answer.status != 200 or body.count(b"<Contents>") != KEYS:
        fail(f"{server.name} answered {answer.status} {body[:500]!r}")
    return taken


def bars(result):
    put, listing = ({way: statistics.median(runs) for way, runs in result[name].items()} for name in ("put", "listing"))
    yield Bar("PUT, through a node / direct", put["node"] / put["direct"], "at most", MAX_PUT_RATIO)
    yield Bar("listing of 1,000 keys, added ms", (listing["node"] - listing["direct"]) * 1e3, "at most", MAX_LISTING_MS)


def rows(result):
    """Returns the table: a row per request and way."""
    yield ["request", "way", "median", "min", "max"]
    for name, unit, factor in (("put", "s", 1), ("listing", "ms", 1e3)):
        for way, runs in result[name].items():
            figures = (statistics.median(runs), min(runs), max(runs))
            yield [name, way, *(f"{figure * factor:.3f} {unit}" for figure in figures)]
