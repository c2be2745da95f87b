"""A proxy that slows down a fast origin: a delay before each answer, and a bandwidth limit.

It relays HTTP/1.1 GET and HEAD, one thread per connection, and moves bodies inside the kernel (splice), so that only
the configured limits apply. Listings, with which a storage node checks that the bucket exists, get an empty answer.
Prints its port once it listens. `COUNTS_PATH` returns the counts so far, without delay.
"""

import argparse
import json
import os
import socket
import threading
import time

COUNTS_PATH = "/.counts"
PIECE = 256 * 1024
# Maximum time by which a connection that was woken late may catch up.
CREDIT_SECONDS = 0.01
LISTING = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>data</Name><Prefix></Prefix>\
<KeyCount>0</KeyCount><MaxKeys>1</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"""


class Pace:
    """A rate limit in bytes per second, shared by all callers."""

    def __init__(self, megabytes_per_second):
        self.seconds_per_byte = 1 / (megabytes_per_second * 1e6) if megabytes_per_second else 0
        self.free_at = 0.0
        self.lock = threading.Lock()

    def book(self, count):
        """Returns the time at which `count` more bytes have passed."""
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic() - CREDIT_SECONDS) + count * self.seconds_per_byte
            return self.free_at


class Counts:
    """Requests and body bytes over all connections."""

    def __init__(self):
        self.lock = threading.Lock()
        self.totals = {"gets": 0, "heads": 0, "listings": 0, "bytes": 0}

    def add(self, name, count=1):
        with self.lock:
            self.totals[name] += count

    def answer(self):
        with self.lock:
            body = json.dumps(self.totals).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Relay:
    """A client's connection, and its own connection to the origin."""

    def __init__(self, client, options, shared, counts):
        self.client, self.options, self.counts = client, options, counts
        self.paces = [Pace(options.connection_mb), shared]
        self.upstream = socket.create_connection(("127.0.0.1", options.upstream))
        self.pipe = os.pipe()
        for end in (client, self.upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self):
        try:
            while self.answer():
                pass
        except OSError:
            pass  # Either side disconnected.
        finally:
            for end in (self.client, self.upstream):
                end.close()
            for end in self.pipe:
                os.close(end)

    def answer(self):
        head, _ = read_head(self.client)
        if head is None:
            return False
        line = head.split(b"\r\n", 1)[0]
        if line.split(b" ")[1] == COUNTS_PATH.encode():
            self.client.sendall(self.counts.answer())
            return True
        time.sleep(self.options.delay_ms / 1e3)
        if b"list-type=2" in line:
            self.counts.add("listings")
            self.client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s"
                                % (len(LISTING), LISTING))
            return True
        self.counts.add("heads" if line.startswith(b"HEAD") else "gets")
        self.upstream.sendall(head)
        head, body = read_head(self.upstream)
        if head is None:
            return False
        self.client.sendall(head)
        status = int(head.split(b" ", 2)[1])
        if not line.startswith(b"HEAD") and status not in (204, 304):
            self.relay(body, content_length(head))
        return True

    def relay(self, body, length):
        self.counts.add("bytes", len(body))
        self.wait(len(body))
        self.client.sendall(body)
        left = length - len(body)
        source, sink = self.pipe
        while left:
            moved = os.splice(self.upstream.fileno(), sink, min(left, PIECE))
            if not moved:
                raise ConnectionError("the origin ended early")
            self.counts.add("bytes", moved)
            self.wait(moved)
            left -= moved
            while moved:
                moved -= os.splice(source, self.client.fileno(), moved)

    def wait(self, count):
        due = max(pace.book(count) for pace in self.paces)
        if (seconds := due - time.monotonic()) > 0:
            time.sleep(seconds)


def read_head(connection):
    """Returns a message's head, and what arrived of its body; (None, b"") once the peer has disconnected."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(16 * 1024)
        if not piece:
            return None, b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", body


def content_length(head):
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError("an answer without Content-Length")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", type=int, required=True, help="port of the origin")
    parser.add_argument("--delay-ms", type=float, default=30)
    parser.add_argument("--connection-mb", type=float, default=0, help="MB/s of each connection; 0: no limit")
    parser.add_argument("--total-mb", type=float, default=0, help="MB/s of all connections; 0: no limit")
    options = parser.parse_args()
    shared = Pace(options.total_mb)
    counts = Counts()
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _ = listener.accept()
            relay = Relay(client, options, shared, counts)
            threading.Thread(target=relay.run, daemon=True).start()


if __name__ == "__main__":
    main()
