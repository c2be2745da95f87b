"""A proxy in front of the origin: counts requests, makes the origin slow, unreachable or failing, and its writes atomic."""

from __future__ import annotations

import enum
import http.client
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}
CHUNK = 1 << 18


class Break(enum.Enum):
    """Moment at which the origin breaks a connection."""

    BEFORE = "reset before the request was carried out"
    AFTER = "reset after the request was carried out"
    SHORT = "reset in the middle of the body of a GET"


class Proxy:
    """Forwards requests to a server on a port of this machine.

    The tests' origin server replaces an object's bytes and its ETag in two steps, ignores If-Match on reads, treats a
    folder as an object that it cannot read, and completes an upload only once. An object store does better, and so does
    the proxy: per key, a write and the beginning of a read exclude each other, a read whose If-Match names another ETag
    is refused, a folder does not exist, and a repeated completion gets the same response.
    """

    def __init__(self, port: int, root: Path, host: str = "127.0.0.1") -> None:
        self.upstream = port
        self.root = root
        self.delay_s = 0.0
        self.bytes_per_s: float | None = None
        self.down = False
        # Called with method, path and query of a request: returns the status with which to refuse it, how to break its
        # connection, or None.
        self.fault: Callable[[str, str, dict[str, str]], int | Break | None] | None = None
        # Called with the path of a replaced or deleted object, and the time at which that began. Until it returns, the
        # object can be neither read nor written.
        self.on_change: Callable[[str, float], None] | None = None
        # Responses to completed uploads, by upload.
        self.completions: dict[str, tuple[http.client.HTTPResponse, bytes]] = {}
        self._lock = threading.Lock()
        self._keys: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._requests: Counter[str] = Counter()
        self._bytes_out = 0
        self._in_flight = 0

        class Handler(_Handler):
            proxy = self

        self._server = _Server((host, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.endpoint = f"http://{host}:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, method: str | None = None) -> int:
        """Returns the number of requests so far: of a method, or all."""
        with self._lock:
            return self._requests[method] if method else self._requests.total()

    @property
    def bytes_out(self) -> int:
        """Returns the body bytes that the origin has sent so far."""
        with self._lock:
            return self._bytes_out

    @property
    def idle(self) -> bool:
        """Returns whether no request is in progress: those that a client abandoned have been carried out or never will
        be."""
        with self._lock:
            return self._in_flight == 0

    def key_lock(self, path: str) -> threading.Lock:
        with self._lock:
            return self._keys[path]

    def note(self, method: str | None = None, in_flight: int = 0, sent: int = 0) -> None:
        with self._lock:
            if method:
                self._requests[method] += 1
            self._in_flight += in_flight
            self._bytes_out += sent


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Prints nothing: disconnecting peers are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream: http.client.HTTPConnection | None = None

    def log_message(self, *_: Any) -> None:
        pass

    def finish(self) -> None:
        self._hang_up()
        super().finish()

    def _hang_up(self) -> None:
        if self.upstream:
            self.upstream.close()
        self.upstream = None

    def _pass_on(self) -> None:
        proxy = self.proxy
        if proxy.down:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        proxy.note(self.command, in_flight=1)
        try:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True
                return
            time.sleep(proxy.delay_s)
            url = urlsplit(self.path)
            path = unquote(url.path)
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            fault = proxy.fault(self.command, path, query) if proxy.fault else None
            if fault is Break.BEFORE:
                self._reset()
                return
            if fault and not isinstance(fault, Break):
                self._refuse(fault)
                return
            if self.command in ("GET", "HEAD") and path.count("/") > 1 and (proxy.root / path[1:]).is_dir():
                self._refuse(404)
                return
            with proxy.key_lock(path):
                answer, body = self._carry_out(body, path, query)
            if fault is Break.AFTER:
                answer.close()
                self._hang_up()
                self._reset()
            elif self._changed(answer):
                answer.close()
                self._hang_up()
                self._refuse(412)
            else:
                self._answer(answer, body, is_cut=fault is Break.SHORT)
            if length and answer.status >= 400:
                # A server that refuses a request without reading its body closes the connection, and may not announce
                # it.
                self._hang_up()
        finally:
            proxy.note(in_flight=-1)

    def _carry_out(
        self, body: bytes, path: str, query: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes | None]:
        """Returns the server's response and its body, which is still to be read if the request is a GET."""
        proxy, upload = self.proxy, query.get("uploadId")
        if self.command == "POST" and upload in proxy.completions:
            return proxy.completions[upload]
        began = time.monotonic()
        answer = self._ask(body)
        if self.command == "GET":
            return answer, None
        said = answer.read()
        if answer.status in (200, 204):
            is_completion = self.command == "POST" and upload is not None
            if is_completion:
                proxy.completions[upload] = (answer, said)
            if proxy.on_change and (is_completion or self.command in ("PUT", "DELETE") and upload is None):
                proxy.on_change(path, began)
        return answer, said

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        if not self.upstream:
            self.upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=60)
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.upstream.putheader(name, value)
        self.upstream.endheaders(body or None)
        return self.upstream.getresponse()

    def _changed(self, answer: http.client.HTTPResponse) -> bool:
        wanted = self.headers.get("if-match") if self.command in ("GET", "HEAD") else None
        tags = [tag.strip() for tag in (wanted or "*").split(",")]
        return answer.status in (200, 206) and "*" not in tags and answer.headers.get("etag") not in tags

    def _reset(self) -> None:
        """Breaks the connection before the response, or in the middle of it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _refuse(self, status: int) -> None:
        self.send_response_only(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def _answer(self, answer: http.client.HTTPResponse, body: bytes | None, is_cut: bool = False) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        chunked = "content-length" not in answer.headers and self.command != "HEAD" and answer.status != 204
        if chunked:
            body = answer.read() if body is None else body
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if is_cut:
            length = len(body) if body is not None else int(answer.headers["content-length"])
            self._send(answer.read(length // 2) if body is None else body[: length // 2])
            answer.close()
            self._hang_up()
            self._reset()
            return
        if body is not None:
            self._send(body)
            return
        while chunk := answer.read(CHUNK):
            self._send(chunk)

    def _send(self, chunk: bytes) -> None:
        if self.command == "HEAD" or not chunk:
            return
        self.wfile.write(chunk)
        self.proxy.note(sent=len(chunk))
        if self.proxy.bytes_per_s:
            time.sleep(len(chunk) / self.proxy.bytes_per_s)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on
