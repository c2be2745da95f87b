"""Web servers as origins, and origins that do not answer: what is refused, and how soon."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers import Bucket, Node, environment, origin_options, request, stylobate

SECRET = "s3cr3t-signature"
ROWS = 1000
DEADLINE = 2


class Web:
    """A plain web server over a folder: `/signed/` requires a signature in the query, and answers GET only."""

    def __init__(self, root: Path) -> None:
        self.requests: list[str] = []

        class Handler(SimpleHTTPRequestHandler):
            web = self

            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(root))

            def do_GET(self) -> None:
                self.web.requests.append(f"{self.command} {self.path}")
                url = urlsplit(self.path)
                is_refused = self.command != "GET" or parse_qs(url.query).get("sig") != [SECRET]
                file = root / unquote(url.path).lstrip("/")
                if url.path.startswith("/signed/") and is_refused:
                    return self.send_error(403)
                if not file.is_file():
                    return self.send_error(404)

                body = file.read_bytes()
                asked = self.headers.get("Range", "").removeprefix("bytes=")
                if asked:
                    first, _, last = asked.partition("-")
                    start = int(first) if first else max(0, len(body) - int(last))
                    end = min(int(last) + 1 if first and last else len(body), len(body))
                    self.send_response(206)
                    self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
                    body = body[start:end]
                else:
                    self.send_response(200)
                self.send_header("ETag", '"one"')
                self.send_header("Last-Modified", "Sat, 01 Jan 2000 00:00:00 GMT")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "site/signed").mkdir(parents=True)
    table = pa.table({"x": pa.array(range(ROWS))})
    for name in ("site/x.parquet", "site/signed/x[1]*.parquet"):
        pq.write_table(table, tmp_path / name)
    server = Web(tmp_path / "site")
    yield server
    server.close()


def scan(url: str) -> subprocess.CompletedProcess[str]:
    command = [stylobate(), "scan", url, "--format", "csv"]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)


def test_a_signed_url_names_one_file_and_is_read_by_get_alone(web: Web) -> None:
    read = scan(f"{web.url}/signed/x[1]*.parquet?sig={SECRET}&x=?*")
    assert read.returncode == 0, read.stderr
    assert len(read.stdout.split()) == ROWS + 1
    assert not any(sent.startswith("PROPFIND") for sent in web.requests)


@pytest.mark.parametrize("path", ["/signed/none.parquet?sig=" + SECRET, "/signed/x[1]*.parquet?sig=wrong" + SECRET])
def test_no_part_of_a_signed_url_that_fails_is_shown(web: Web, path: str) -> None:
    read = scan(web.url + path)
    assert read.returncode != 0
    assert SECRET not in read.stderr + read.stdout
    assert "signed/" in read.stderr
    assert len(read.stderr.splitlines()) == 1


def test_a_file_that_a_web_server_has_not_is_not_looked_for_in_listings_in_vain(web: Web) -> None:
    read = scan(f"{web.url}/none.parquet")
    assert read.returncode != 0
    assert "no such object" in read.stderr


def test_a_plain_web_server_lists_and_takes_nothing(web: Web, start: Callable[..., Node]) -> None:
    node = start([Bucket("web", web.url)])
    read = node.s3.get_object(Bucket="web", Key="x.parquet")
    assert read["ContentLength"] == len(read["Body"].read())
    evicted = node.ask("POST", "/api/evict", {"bucket": "web", "prefix": "x"})
    assert (evicted.status, evicted.json()) == (200, {"objects": 1})
    for method, path in [("GET", "/web?list-type=2"), ("PUT", "/web/new"), ("DELETE", "/web/x.parquet")]:
        answer = request(node.endpoint, method, path, b"x" if method == "PUT" else None)
        assert (answer.status, b"<Code>NotImplemented</Code>" in answer.body) == (501, True), (method, answer)


class Silent:
    """An S3 server that lists an empty bucket once, and from then on accepts requests and answers according to `mode`."""

    LISTING = b"<ListBucketResult><Name>b</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
    DESCRIBED = b'ETag: "x"\r\nLast-Modified: Sat, 01 Jan 2000 00:00:00 GMT\r\n'

    def __init__(self) -> None:
        self.mode = "list"
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for connection in [self._listener, *self._open]:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        lines = connection.makefile("rb")
        while line := lines.readline():
            while lines.readline() not in (b"\r\n", b""):
                pass
            if self.mode == "list":
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.LISTING) + self.LISTING)
            elif self.mode == "head" and line.startswith(b"HEAD"):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n" + self.DESCRIBED + b"\r\n")
            elif self.mode == "begin":
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n" + self.DESCRIBED + b"\r\nbegin")


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


@pytest.mark.parametrize("mode", ["nothing", "head"])
@pytest.mark.parametrize("target", ["/b/cold", "/b/cold?versionId=v", "/b?list-type=2", "/b?tagging"])
def test_the_deadline_holds_for_every_question(
    silent: Silent, start: Callable[..., Node], mode: str, target: str
) -> None:
    node = start([Bucket("b", "s3://b", origin_options(silent.endpoint))], "--deadline", f"{DEADLINE}s")
    silent.mode = mode
    began = time.monotonic()
    answer = request(node.endpoint, "GET", target)
    took = time.monotonic() - began
    assert (answer.status, b"did not answer in time" in answer.body) == (503, True), answer
    assert DEADLINE * 0.9 < took < DEADLINE * 2


def test_an_answer_that_stops_half_way_is_cut_off(silent: Silent, start: Callable[..., Node]) -> None:
    node = start([Bucket("b", "s3://b", origin_options(silent.endpoint))], "--deadline", f"{DEADLINE}s")
    silent.mode = "begin"
    began = time.monotonic()
    assert request(node.endpoint, "GET", "/b?list-type=2").status == 502
    for target in ("/b?tagging", "/b/cold?partNumber=1", "/b/cold"):
        with pytest.raises(http.client.IncompleteRead):
            request(node.endpoint, "GET", target)
    assert time.monotonic() - began < DEADLINE * 10
