"""Fixtures: an S3 server as the origin, nodes in front of it, and data. Nothing is built here: `make test` does that."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import parquet_data
from proxy import Proxy
from servers import Bucket, Moto, Node, Origin, VersityGw

# Clients must not find credentials, endpoints or proxies other than those of the tests.
for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
    del os.environ[name]
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull

# Tests started in the background may have inherited an ignored SIGINT, and so would every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SAMPLES = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the whole run."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="session")
def origin(scratch: Path) -> Iterator[Origin]:
    """The S3 server that most tests share, with the buckets `lake` and `pond`."""
    server = Origin(scratch / "origin", scratch / "origin.log")
    for name in ("lake", "pond"):
        server.bucket(name)
    yield server
    server.kill()


@pytest.fixture(scope="session")
def moto(scratch: Path) -> Iterator[Moto]:
    """moto, another S3 server, with more features."""
    server = Moto(scratch / "moto.log")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def versitygw(scratch: Path) -> Iterator[VersityGw]:
    """versitygw, a third S3 server: a gateway over a folder."""
    if not VersityGw.PROGRAM.is_file():
        pytest.skip("make test-clients-all installs versitygw")
    server = VersityGw(scratch / "versitygw", scratch / "versitygw.log")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def proxy(origin: Origin) -> Iterator[Proxy]:
    """The proxy that the shared node uses as its origin: it forwards to the S3 server and counts requests."""
    with Proxy(origin.port, origin.root) as server:
        yield server


@pytest.fixture(scope="session")
def node(scratch: Path, proxy: Proxy) -> Iterator[Node]:
    """The node that most tests share. Its bucket `strict` is also the origin's `lake`, revalidated before each read."""
    buckets = [
        Bucket.of_origin(proxy.endpoint, "lake"),
        Bucket.of_origin(proxy.endpoint, "pond"),
        Bucket.of_origin(proxy.endpoint, "strict", at="lake", consistency="strict"),
    ]
    flags = ["--memory", "512MiB", "--domain", "localhost"]
    server = Node(scratch / "node", buckets, *flags)
    yield server
    assert server.running(), f"the shared node died: {server.log()[-2000:]}"
    assert server.stop() == 0


@pytest.fixture
def s3(node: Node) -> Any:
    """boto3 against the shared node."""
    return node.s3


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Starts nodes for one test, and stops them at its end: `start(buckets, *flags, keys=…)`."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start_node(buckets: list[Bucket], *flags: str, **options: Any) -> Node:
            nonlocal count
            count += 1
            started = Node(tmp_path / f"node-{count}", buckets, *flags, **options)
            stack.callback(lambda: started.kill() if started.running() else started.end())
            return started

        yield start_node


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A key prefix for this test, so that tests can share buckets."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-") + "/"


@pytest.fixture(scope="session")
def table() -> Any:
    """A table of mixed types, more than 10 MiB as a Parquet file."""
    return parquet_data.mixed_table(rows=240_000, seed=7)


@pytest.fixture(scope="session")
def samples() -> Path:
    """Real sample files, read in place. If they are missing, their tests are skipped, except in CI."""
    if not SAMPLES.is_dir():
        assert os.environ.get("CI") != "true", f"no sample data in {SAMPLES}"
        pytest.skip(f"no sample data in {SAMPLES}")
    return SAMPLES
