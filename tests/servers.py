"""The servers of the tests, each a process of its own: an S3 server as the origin, and nodes in front of it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ORIGIN_KEY = "origin-id"
ORIGIN_SECRET = "origin-secret-4f1b"
REGION = "us-east-1"
TIMEOUT = 20.0
PORTS_PER_WORKER = 1000
_first_port = 12_000 + PORTS_PER_WORKER * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_ports = itertools.cycle(random.sample(range(_first_port, _first_port + PORTS_PER_WORKER), PORTS_PER_WORKER))


def origin_options(endpoint: str) -> dict[str, str]:
    """Returns the store options, with credentials, for the S3 server at an endpoint."""
    return {
        "endpoint": endpoint,
        "region": REGION,
        "allow_http": "true",
        "access_key_id": ORIGIN_KEY,
        "secret_access_key": ORIGIN_SECRET,
    }


def target() -> Path:
    """Returns the folder that cargo builds into."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parent.parent / "target").absolute()


def stylobate() -> Path:
    """Returns the command under test."""
    named = os.environ.get("STYLOBATE_BIN")
    path = Path(named) if named else target() / "debug" / "stylobate"
    assert path.is_file(), f"{path} is missing: run `make test`, or set STYLOBATE_BIN"
    return path


def s3s_fs() -> Path:
    """Returns the S3 server that serves as the origin."""
    path = target() / "tools" / "bin" / "s3s-fs"
    assert path.is_file(), f"{path} is missing: run `make test`"
    return path


def environment(**more: str) -> dict[str, str]:
    """Returns the environment without variables that could configure a node or a client unnoticed. A node's Flight door
    listens on any free port."""
    ours = ("AWS_", "STYLOBATE_", "RUST_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | {"STYLOBATE_FLIGHT": "127.0.0.1:0"} | more


def free_port() -> int:
    """Returns a free port outside the ephemeral range, so that no outgoing connection takes it before the server does.
    The processes of a test run use disjoint ports."""
    for port in itertools.islice(_ports, PORTS_PER_WORKER):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def wait_for(what: str, ready: Any, timeout: float = TIMEOUT) -> Any:
    """Polls until the result is true, and returns it."""
    deadline = time.monotonic() + timeout
    while True:
        if answer := ready():
            return answer
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.02)


def s3_client(endpoint: str, key: str = "any", secret: str = "any", style: str = "path", **config: Any) -> Any:
    """Returns a boto3 client without retries, so that a test sees each response."""
    settings = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": style}, "proxies": {}} | config
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name=REGION,
        config=Config(**settings),
    )


class Server:
    """A process that is stopped by its id, and whose log is kept."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str], **options: Any) -> None:
        self.log_path = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, **options
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def running(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def stop(self) -> int:
        """Asks the process to exit, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> int:
        try:
            return self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            if self.process.stdout:
                self.process.stdout.close()

    def memory(self, field: str = "VmHWM") -> int:
        """Returns the memory in bytes as the kernel counts it: `VmRSS` is current, `VmHWM` is the peak."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
        assert found, status
        return int(found[1]) * 1024

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Origin(Server):
    """An S3 server over a folder: `root/bucket/key` is a file."""

    def __init__(self, root: Path, log: Path, port: int | None = None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.port = port or free_port()
        keys = ["--access-key", ORIGIN_KEY, "--secret-key", ORIGIN_SECRET]
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        super().__init__([str(s3s_fs()), *address, *keys, str(root)], log, environment(RUST_LOG="error"))
        self.endpoint = f"http://127.0.0.1:{self.port}"
        wait_for("the origin", self._answers)
        self.s3 = s3_client(self.endpoint, ORIGIN_KEY, ORIGIN_SECRET)

    def _answers(self) -> bool:
        assert self.running(), self.log()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def bucket(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        return folder


class Moto(Server):
    """The S3 server of moto, which keeps everything in memory and accepts any credentials; independent of `Origin`."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        super().__init__(command, log, environment())
        self.endpoint = f"http://127.0.0.1:{self.port}"
        wait_for("moto", lambda: _listens(self.port))
        self.s3 = s3_client(self.endpoint, ORIGIN_KEY, ORIGIN_SECRET)


class VersityGw(Server):
    """The S3 gateway of Versity over a folder; `make test-clients-all` installs it."""

    PROGRAM = target() / "tools" / "bin" / "versitygw"

    def __init__(self, root: Path, log: Path) -> None:
        root.mkdir(parents=True)
        self.port = free_port()
        keys = ["--access", ORIGIN_KEY, "--secret", ORIGIN_SECRET]
        # The log of each request is not read.
        command = [str(self.PROGRAM), *keys, "--quiet", "--port", f"127.0.0.1:{self.port}", "posix", str(root)]
        super().__init__(command, log, environment())
        self.endpoint = f"http://127.0.0.1:{self.port}"
        wait_for("versitygw", lambda: _listens(self.port))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Bucket:
    """A `[[bucket]]` of a node's configuration."""

    name: str
    url: str
    options: dict[str, str] = field(default_factory=dict)
    consistency: str | None = None
    read_only: bool = False
    more: str = ""

    @classmethod
    def of_origin(cls, endpoint: str, name: str, at: str | None = None, **more: Any) -> Bucket:
        """Returns the bucket `at` of an S3 server, or the bucket of the same name."""
        return cls(name, f"s3://{at or name}", origin_options(endpoint), **more)

    def toml(self) -> str:
        lines = ["[[bucket]]", f"name = {json.dumps(self.name)}", f"url = {json.dumps(self.url)}"]
        if self.consistency:
            lines.append(f"consistency = {json.dumps(self.consistency)}")
        if self.read_only:
            lines.append("read_only = true")
        lines += ["[bucket.options]", *(f"{key} = {json.dumps(value)}" for key, value in self.options.items())]
        lines = lines if self.options else lines[:-1]
        return "\n".join([*lines, self.more])


@dataclass
class AccessKey:
    """An `[[access_key]]` of a node's configuration."""

    id: str
    secret: str
    buckets: list[str] = field(default_factory=lambda: ["*"])
    write: bool = False
    token: str | None = None
    prefixes: list[str] = field(default_factory=list)

    def toml(self) -> str:
        values = {"id": self.id, "secret": self.secret, "buckets": self.buckets, "write": self.write}
        if self.prefixes:
            values["prefixes"] = self.prefixes
        if self.token:
            values["token"] = self.token
        return "\n".join(["[[access_key]]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())])


class Node(Server):
    """`stylobate serve`, ready to answer: started through the command `launcher` if given, with its S3 door and its
    admin door at the addresses of `doors`."""

    def __init__(
        self,
        folder: Path,
        buckets: list[Bucket],
        *flags: str,
        keys: list[AccessKey] | None = None,
        env: dict[str, str] | None = None,
        launcher: tuple[str, ...] = (),
        doors: tuple[str, str] = ("127.0.0.1:0", "127.0.0.1:0"),
        **options: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "node.toml"
        config.write_text("\n".join(part.toml() for part in [*buckets, *(keys or [])]) + "\n")
        addresses = ["--listen", doors[0], "--admin", doors[1]]
        command = [*launcher, str(stylobate()), "serve", "--config", str(config), *addresses, *flags]
        env = environment(**(env or {}))
        super().__init__(command, folder / "node.log", env, cwd=folder, **options)
        self.keys = keys or []
        self.endpoint, self.admin, self.flight = self._announced()
        self.port = int(self.endpoint.rsplit(":", 1)[1])
        owner = (self.keys[0].id, self.keys[0].secret) if self.keys else ("any", "any")
        self.s3 = s3_client(self.endpoint, *owner)

    def _announced(self) -> tuple[str, str, str]:
        """Returns the addresses that the node prints."""
        assert self.process.stdout
        found: dict[str, str] = {}
        for line in self.process.stdout:
            name, _, value = line.decode().strip().partition(" ")
            found[name] = value.strip().rstrip("/")
            if name == "export":
                return found["s3"], found["admin"], found.get("flight", "")
        raise AssertionError(f"the node did not start (exit code {self.process.wait()}): {self.log()}")

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Sends a request to the admin door."""
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("content-type", "application/json")
        return request(self.admin, method, path, None if body is None else json.dumps(body), headers)

    def stats(self) -> dict[str, Any]:
        shown = {"authorization": f"Bearer {self.keys[0].secret}"} if self.keys else {}
        answer = self.ask("GET", "/api/stats", headers=shown)
        assert answer.status == 200, answer
        return answer.json()

    def reads(self, bucket: str) -> dict[str, int]:
        """Returns the read counters of a bucket."""
        return next(found["reads"] for found in self.stats()["buckets"] if found["name"] == bucket)

    def origin_requests(self, bucket: str) -> tuple[int, int]:
        """Returns the numbers of GETs and HEADs sent to the origin of a bucket."""
        reads = self.reads(bucket)
        return reads["origin_gets"], reads["origin_heads"]


@dataclass
class Answer:
    """An HTTP response, read to its end."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    endpoint: str,
    method: str,
    path: str,
    body: bytes | str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Sends one request exactly as given: no retries, no normalization."""
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=TIMEOUT)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()
