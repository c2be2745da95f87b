"""A fast HTTP/1.1 client for ranged GETs: one connection, and bodies are received into the caller's buffer."""

import socket

from tools import fail

HEAD_BYTES = 4096
TIMEOUT_SECONDS = 120


class Reader:
    """Reads the object at `path` of a server, with `headers` in each request. Not thread-safe."""

    def __init__(self, server, path, headers=None):
        self.server, self.path = server, path
        self.fixed = f"Host: {server.host}\r\n" + "".join(f"{n}: {v}\r\n" for n, v in (headers or {}).items())
        self.connection = socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = bytearray(HEAD_BYTES)

    def get(self, into, first=None):
        """Fills `into`, a memoryview, with the object's bytes from `first` on, or with the whole object."""
        wanted = "" if first is None else f"Range: bytes={first}-{first + len(into) - 1}\r\n"
        self.connection.sendall(f"GET {self.path} HTTP/1.1\r\n{self.fixed}{wanted}\r\n".encode())
        received = self._read_head(into, 200 if first is None else 206)
        while received < len(into):
            count = self.connection.recv_into(into[received:])
            if not count:
                fail(f"{self.server.name} closed the connection after {received} bytes of {len(into)}")
            received += count

    def _read_head(self, into, expected):
        """Returns the number of body bytes that arrived with the head; they are in `into`."""
        view = memoryview(self.head)
        held = 0
        while (end := self.head.find(b"\r\n\r\n", 0, held)) < 0:
            count = self.connection.recv_into(view[held:])
            if not count:
                fail(f"{self.server.name} closed the connection")
            held += count
        lines = bytes(self.head[:end]).lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
        if int(lines[0].split(b" ")[1]) != expected or length != len(into):
            fail(f"{self.server.name} answered {lines[0].decode()} with {length} bytes, not {len(into)}")
        body = held - end - 4
        into[:body] = view[end + 4:held]
        return body

    def close(self):
        self.connection.close()
