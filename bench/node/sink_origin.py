"""An origin that receives data at network speed and discards it. Answers other requests with a listing of a thousand
keys. Prints its port once it listens."""

import argparse
import hashlib
import socket
import threading
import time

PIECE = 256 * 1024
KEYS = 1000
LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    f"<Name>bench</Name><Prefix/><KeyCount>{KEYS}</KeyCount><MaxKeys>{KEYS}</MaxKeys><IsTruncated>false</IsTruncated>"
    + "".join(
        f"<Contents><Key>table/day=2026-01-01/part-{number:05}.parquet</Key>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;{number:032x}&quot;</ETag><Size>{number << 20}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for number in range(KEYS))
    + "</ListBucketResult>").encode()


def serve(client, megabytes_per_second):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = client.makefile("rb")
    buffer = bytearray(PIECE)
    while line := lines.readline():
        headers = {}
        while (field := lines.readline()) not in (b"\r\n", b""):
            name, _, value = field.partition(b":")
            headers[name.strip().lower()] = value.strip()
        if headers.get(b"expect"):
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        left = int(headers.get(b"content-length", 0))
        free_at = time.monotonic()
        while left:
            count = lines.readinto(memoryview(buffer)[:min(left, PIECE)])
            if not count:
                return
            left -= count
            free_at += count / megabytes_per_second / 1e6
            time.sleep(max(0, free_at - time.monotonic()))
        if line.startswith(b"PUT"):
            tag = hashlib.md5(line).hexdigest().encode()
            client.sendall(b'HTTP/1.1 200 OK\r\nETag: "' + tag + b'"\r\nContent-Length: 0\r\n\r\n')
        else:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(LISTING), LISTING))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes-per-second", type=float, required=True)
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, options.megabytes_per_second), daemon=True).start()


main()
