"""Hostile input: path traversal, bytes that are not HTTP, and ten thousand corrupted requests."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy import Proxy
from servers import Bucket, Node, Origin, wait_for

CANARY = b"the-canary-that-no-answer-may-hold"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is served as a bucket, surrounded by files that are not in the bucket."""
    served = tmp_path / "served"
    (served / "sub").mkdir(parents=True)
    (served / "ok").write_bytes(b"fine")
    (served / "sub" / "ok").write_bytes(b"fine too")
    for outside in ("canary", "served-not", "lake"):
        (tmp_path / outside).write_bytes(CANARY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "canary").write_bytes(CANARY)
    return served


def talk(port: int, data: bytes, timeout: float = 0.3, until: bytes = b"") -> bytes:
    """Sends raw bytes, and returns the response until the node closes the connection or falls silent."""
    got = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.settimeout(timeout)
            connection.sendall(data)
            while chunk := connection.recv(1 << 16):
                got += chunk
                if until and until in got:
                    break
    except OSError:
        pass
    return got


def climbing(name: str) -> list[str]:
    """Returns spellings of `../name`."""
    up = ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%00", "%c0%ae%c0%ae", "%uff0e%uff0e", "..;", "...", ". ."]
    slash = ["/", "%2f", "%2F", "%5c", "\\", "%252f", "//", "/./", "%c0%af"]
    ways = [f"{dots}{between}{name}" for dots in up for between in slash]
    ways += [f"sub{between}{dots}{between}{dots}{between}{name}" for dots in up for between in slash]
    ways += [f"{between}{name}" for between in slash] + [
        f"ok{between}..{between}..{between}{name}" for between in slash
    ]
    return ways


def test_no_path_leaves_the_bucket(start: Callable[..., Node], folder: Path) -> None:
    node = start([Bucket("lake", str(folder))], "--memory", "64MiB", "--domain", "localhost")
    whole = str(folder.parent / "canary")
    asked = 0
    for name in ("canary", "other/canary", "served-not", whole, f"..{whole}", f"file://{whole}"):
        for way in climbing(name):
            paths = [f"/lake/{way}", f"/{way}", f"/lake?prefix={way}", f"/lake?list-type=2&prefix={way}&delimiter=/"]
            requests = [f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n" for path in paths for method in ("GET", "HEAD")]
            requests += [
                f"PUT /lake/copied HTTP/1.1\r\nhost: localhost\r\nx-amz-copy-source: /lake/{way}\r\ncontent-length: 0\r\n\r\n",
                f"GET /{way} HTTP/1.1\r\nhost: lake.localhost\r\n\r\n",
                f"GET /ok HTTP/1.1\r\nhost: ../{way}.localhost\r\n\r\n",
                "GET /lake/ok HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            ]
            got = talk(node.port, "".join(requests).encode(), timeout=5)
            assert CANARY not in got, way
            assert b" 500 " not in got, (way, got)
            asked += len(requests)
    assert asked > 10_000
    assert not (folder / "copied").exists()


def test_nothing_is_written_or_deleted_outside_the_bucket(start: Callable[..., Node], folder: Path) -> None:
    node = start([Bucket("lake", str(folder))], "--memory", "64MiB")

    def outside() -> dict[str, bytes]:
        files = (path for path in folder.parent.rglob("*") if path.is_file() and not path.is_relative_to(folder))
        return {str(path): path.read_bytes() for path in files if "node-" not in str(path)}

    before = outside()
    for name in ("canary", "new"):
        for way in climbing(name):
            talk(
                node.port,
                f"PUT /lake/{way} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc"
                f"POST /lake/{way}?uploads HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
                f"DELETE /lake/{way} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode(),
                timeout=5,
            )
    wanted = "".join(f"<Object><Key>../{name}</Key></Object>" for name in ("canary", "other/canary"))
    delete = f"<Delete>{wanted}</Delete>"
    talk(node.port, f"POST /lake?delete HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(delete)}\r\n\r\n{delete}".encode())
    assert outside() == before


def test_a_bucket_of_an_s3_origin_is_not_left_either(
    start: Callable[..., Node], origin: Origin, proxy: Proxy, prefix: str
) -> None:
    (origin.bucket("pond") / "canary").write_bytes(CANARY)
    (origin.root / "canary").write_bytes(CANARY)
    node = start([Bucket.of_origin(proxy.endpoint, "lake")], "--memory", "64MiB")
    for name in ("canary", "pond/canary"):
        for way in climbing(name):
            get = f"GET /lake/{way} HTTP/1.1\r\nhost: localhost\r\n"
            requests = f"{get}\r\n{get}connection: close\r\n\r\n"
            assert CANARY not in talk(node.port, requests.encode(), timeout=5), way


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/lake/" + "k" * 1025, 404),
        ("/lake/" + "k" * 100_000, 404),
        ("/lake/a%00b", 404),
        ("/lake/a%0d%0ab", 404),
        ("/lake/%ff%fe", 400),
        ("/lake/a//b", 404),
        ("/lake/./a", 404),
        ("/lake//", 404),
        ("/lake/" + "a/" * 400 + "b", 404),
        ("/" + "b" * 300 + "/a", 404),
        ("/lake/ok?versionId=x", 501),
        ("/lake/ok?partNumber=x", 400),
        ("/lake?list-type=2&max-keys=x", 400),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_no_key_is_refused_and_not_an_accident(
    start: Callable[..., Node], folder: Path, path: str, status: int
) -> None:
    node = start([Bucket("lake", str(folder))], "--memory", "64MiB")
    got = talk(node.port, f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode(), timeout=5)
    answered = int(got.split(b" ", 2)[1])
    # S3 itself differs from case to case: it only matters that it is a client error.
    assert answered == status or 400 <= answered < 500, got


ODD_HEADERS = [
    b"range: bytes=99999999999999999999-",
    b"range: bytes=-99999999999999999999999",
    b"range: " + b"0-1," * 5_000,
    b"if-match: " + b'"' * 1_000,
    b"if-none-match: \xff\xfe",
    b"if-modified-since: the day before yesterday",
    b"content-length: -1",
    b"content-length: 18446744073709551616",
    b"content-length: 1\r\ncontent-length: 2",
    b"transfer-encoding: chunked\r\ncontent-length: 3",
    b"transfer-encoding: gzip, chunked",
    b"authorization: AWS4-HMAC-SHA256 " + b"x" * 10_000,
    b"authorization: \x00",
    b"x-amz-date: 99999999T999999Z",
    b"x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    b"x-amz-copy-source: %",
    b"x-amz-meta-\xe9: x",
    b"expect: 200-maybe",
    b"connection: upgrade\r\nupgrade: h2c",
    b"host: y",
    b"a: b\r\n c: folded",
    b"\r\n".join(b"h%d: x" % n for n in range(500)),
    b"no colon",
    b": no name",
]


@pytest.mark.parametrize("header", ODD_HEADERS, ids=lambda header: header[:24].decode(errors="replace"))
def test_an_odd_header_is_an_answer_or_an_end_but_no_accident(
    start: Callable[..., Node], folder: Path, header: bytes
) -> None:
    node = start([Bucket("lake", str(folder))], "--memory", "64MiB")
    for line in (b"GET /lake/ok", b"HEAD /lake/ok", b"PUT /lake/new", b"POST /lake?delete", b"GET /lake?list-type=2"):
        got = talk(node.port, line + b" HTTP/1.1\r\nhost: localhost\r\n" + header + b"\r\n\r\n", until=b"\r\n\r\n")
        assert not got.startswith(b"HTTP/1.1 5") or got.startswith(b"HTTP/1.1 501"), got
    assert node.running()
    assert node.s3.get_object(Bucket="lake", Key="ok")["Body"].read() == b"fine"


def test_what_came_before_damage_is_answered_and_the_damage_too(start: Callable[..., Node], folder: Path) -> None:
    node = start([Bucket("lake", str(folder))], "--memory", "64MiB")
    got = talk(node.port, b"GET /lake/ok HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3 + b"\0\r\n\r\n", timeout=5)
    assert got.count(b"HTTP/1.1 200 ") == 3, got
    assert got.count(b"HTTP/1.1 400 ") == 1, got


def test_a_refused_upload_is_told_that_its_connection_ends(start: Callable[..., Node], folder: Path) -> None:
    """A client that holds back the body sends its next request on the same connection, unless the response says close."""
    node = start([Bucket("lake", str(folder), read_only=True)], "--memory", "64MiB")
    put = b"PUT /lake/new HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n"
    got = talk(node.port, put, timeout=5)
    assert got.startswith(b"HTTP/1.1 403 "), got
    assert b"connection: close" in got.lower(), got


def valid_requests() -> list[bytes]:
    def request(line: str, *headers: str, body: str = "") -> bytes:
        lines = [f"{line} HTTP/1.1", "host: 127.0.0.1", *headers]
        if body:
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join([*lines, "", body]).encode()

    signature = (
        "authorization: AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + "0" * 64
    )
    keys = "".join(f"<Object><Key>key-{n}</Key></Object>" for n in range(3))
    parts = "<Part><PartNumber>1</PartNumber><ETag>x</ETag></Part>"
    chunked = "5;chunk-signature=0\r\nhello\r\n0;chunk-signature=0\r\n\r\n"
    return [
        request("GET /lake/ok", "range: bytes=0-2", 'if-none-match: "x"', signature),
        request("GET /lake/sub/ok?response-content-type=text/x&X-Amz-Expires=60&X-Amz-Signature=0"),
        request("HEAD /lake/ok", "if-modified-since: Sat, 21 Nov 2026 00:00:00 GMT"),
        request("GET /lake?list-type=2&prefix=s&delimiter=%2F&max-keys=2&encoding-type=url"),
        request("GET /lake?location"),
        request("GET /"),
        request("PUT /lake/junk", "content-md5: XUFAKrxLKna5cZ2REBfFkg==", "x-amz-meta-a: b", body="hello"),
        request(
            "PUT /lake/junk",
            "content-encoding: aws-chunked",
            "x-amz-decoded-content-length: 5",
            "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            signature,
            body=chunked,
        ),
        request("PUT /lake/junk", "transfer-encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        request("PUT /lake/junk2", "x-amz-copy-source: /lake/ok"),
        request("POST /lake/junk?uploads", "content-length: 0"),
        request("PUT /lake/junk?partNumber=1&uploadId=abc", body="hello"),
        request("POST /lake/junk?uploadId=abc", body=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"),
        request("POST /lake?delete", body=f"<Delete>{keys}</Delete>"),
        request("DELETE /lake/junk"),
    ]


def damaged(rng: random.Random, valid: bytes) -> bytes:
    """Returns a valid request with a few of its bytes replaced, removed, duplicated or moved."""
    data = bytearray(valid)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                del data[at : at + rng.randrange(1, 20)]
            case 2:
                data[at:at] = data[at : at + rng.randrange(1, 60)]
            case 3:
                data[at:at] = rng.choice(
                    [b"\r\n", b"\0", b"%00", b"../", b"%2e%2e%2f", b"\xff", b"\n", b" ", b"999999999999"]
                )
            case 4:
                data[at:at] = rng.randbytes(rng.randrange(1, 200))
            case 5:
                data[at:at] = b"A" * rng.choice([100, 1_000, 9_000])
            case 6:
                del data[at:]
        if not data:
            break
    return bytes(data)


def test_ten_thousand_damaged_requests_do_no_damage(start: Callable[..., Node], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "ok").write_bytes(b"x" * 3_000_000)
    node = start(
        [Bucket("lake", str(folder)), Bucket("safe", str(tmp_path / "safe"), read_only=True)], "--memory", "64MiB"
    )
    pid, total = node.pid, 10_000
    valid = valid_requests()
    sound = b"GET /lake/ok HTTP/1.1\r\nhost: localhost\r\n\r\n"
    statuses: Counter[int] = Counter()

    def attack(seed: int) -> bytes:
        """Sends a valid request, a corrupted one and a valid one, in a single write."""
        rng = random.Random(seed)
        return talk(node.port, sound + damaged(rng, rng.choice(valid)) + sound, timeout=0.1)

    begun = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        for got in pool.map(attack, range(total)):
            assert CANARY not in got
            for line in got.split(b"HTTP/1.1 ")[1:]:
                statuses[int(line[:3])] += 1
    by_status = dict(sorted(statuses.items()))
    print(f"{total} damaged requests in {time.monotonic() - begun:.1f} s; answers by status: {by_status}")
    assert (node.pid, node.running()) == (pid, True)
    assert statuses[500] == 0, f"accidents: {statuses}"
    assert statuses[200] >= total
    assert statuses[400] > total // 10
    assert node.s3.get_object(Bucket="safe", Key="ok")["Body"].read() == b"x" * 3_000_000
    wait_for("requests to end", lambda: node.stats()["requests"]["in_flight"] == 0)
    assert "panicked" not in node.log()
    assert node.open_files() < 100
