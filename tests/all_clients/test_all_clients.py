"""Clients as processes, through a node with access keys: each runs all operations that it supports at a folder and two
S3 servers.

Objects that a client wrote are checked at the origin itself, and objects that it reads were put there without the node.
With STYLOBATE_CLIENTS_DIRECT=1 the clients use the S3 servers directly, to tell a fault of the node from one of theirs.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from clients import CLIENTS
from harness import MIB, Bucket, Client, ClientFailed, Door, Folder
from limits import LIMITS, LIMITS_WITHOUT_NODE
from servers import ORIGIN_KEY, ORIGIN_SECRET, AccessKey, Moto, Node, VersityGw, s3_client
from servers import Bucket as BucketOfNode
from table import OPERATIONS, VERSIONS

DIRECT = os.environ.get("STYLOBATE_CLIENTS_DIRECT") == "1"
KEY = AccessKey("clients-id", "clients-secret-51c0", write=True)
ORIGINS = ["moto", "versitygw"] if DIRECT else ["folder", "moto", "versitygw"]
LARGE = 21_000_000
ODD = "ü b+c&d=1%2F.bin"
LISTED = {f"listed/many/{n:04}": n % 17 for n in range(1_102)}
LISTED |= {f"listed/{ODD}/x": 3, "listed/a": 0, f"listed/{ODD}2": 5}
LEVEL = {"listed/many/", f"listed/{ODD}/", "listed/a", f"listed/{ODD}2"}


def cases() -> Iterator[Any]:
    """Yields the client, origin and operation of each test."""
    limits = LIMITS | (LIMITS_WITHOUT_NODE if DIRECT else {})
    for kind in CLIENTS:
        for origin in ORIGINS:
            for operation in OPERATIONS:
                needed = "copy" if operation.endswith("copies") else operation
                if needed in kind.OPERATIONS.split():
                    places = [(kind.NAME, place, operation) for place in [origin, "any"]]
                    reason = next((limits[place] for place in places if place in limits), "")
                    marks = pytest.mark.xfail(strict=True, reason=reason, raises=(AssertionError, ClientFailed))
                    name = f"{kind.NAME}-{origin}-{operation}".replace(" ", "-")
                    yield pytest.param(kind, origin, operation, marks=marks if reason else (), id=name)


@pytest.fixture(scope="session")
def folder_of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("all-clients")


@pytest.fixture(scope="session")
def origins(folder_of_run: Path) -> Iterator[dict[str, tuple[Any, Door]]]:
    """Each origin as seen directly, past the node, and the door that its clients use."""
    assert VersityGw.PROGRAM.is_file(), "make test-clients-all installs versitygw"
    with contextlib.ExitStack() as stack:
        moto = Moto(folder_of_run / "moto.log")
        stack.callback(moto.kill)
        versitygw = VersityGw(folder_of_run / "versitygw", folder_of_run / "versitygw.log")
        stack.callback(versitygw.kill)
        # It prints a line for each request, and blocks if they are not read.
        assert versitygw.process.stdout
        threading.Thread(target=versitygw.process.stdout.read, daemon=True).start()
        VERSIONS["moto"] = version("moto")
        VERSIONS["versitygw"] = versitygw_version()

        servers: dict[str, Any] = {"moto": moto, "versitygw": versitygw}
        found: dict[str, tuple[Any, Door]] = {}
        for name, server in servers.items():
            view = Bucket(name, s3_client(server.endpoint, ORIGIN_KEY, ORIGIN_SECRET))
            found[name] = (view, Door(server.endpoint, name, ORIGIN_KEY, ORIGIN_SECRET))

        node = None
        if not DIRECT:
            root = folder_of_run / "folder"
            views: dict[str, Any] = {"folder": Folder(root)} | {name: view for name, (view, _) in found.items()}
            buckets = [BucketOfNode.of_origin(server.endpoint, name) for name, server in servers.items()]
            node = Node(folder_of_run / "node", [BucketOfNode("folder", str(root)), *buckets], keys=[KEY])
            stack.callback(lambda: node.kill() if node.running() else node.end())
            found = {name: (view, Door(node.endpoint, name, KEY.id, KEY.secret)) for name, view in views.items()}

        for view, _ in found.values():
            for key, size in LISTED.items():
                view.put(key, b"x" * size)
        yield found

        if node:
            assert node.running(), f"the node died: {node.log()[-2000:]}"
            assert node.stop() == 0


def versitygw_version() -> str:
    said = subprocess.run(["go", "version", "-m", str(VersityGw.PROGRAM)], capture_output=True, text=True).stdout
    found = re.search(r"^\s*mod\s+\S+\s+v(\S+)", said, re.MULTILINE)
    return found[1] if found else ""


@pytest.fixture(scope="session")
def running(origins: dict[str, tuple[Any, Door]], folder_of_run: Path) -> Iterator[dict[tuple[str, str], Client]]:
    """The clients used so far."""
    started: dict[tuple[str, str], Client] = {}
    yield started
    for client in started.values():
        client.close()


class Trial:
    """A client at an origin, with a prefix and a folder of its own."""

    def __init__(self, client: Any, origin: Any, prefix: str, folder: Path) -> None:
        self.client = client
        self.origin = origin
        self.prefix = prefix
        self.folder = folder
        self.s3 = s3_client(client.door.endpoint, client.door.key, client.door.secret)
        self.random = random.Random(prefix)

    def random_bytes(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def file(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # Some clients send a file again if it is younger than its object, whose time is in whole seconds.
        os.utime(path, (time.time() - 3_600,) * 2)
        return path

    def object(self, name: str, data: bytes) -> str:
        """Puts an object directly at the origin, and returns its key."""
        self.origin.put(self.prefix + name, data)
        return self.prefix + name

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of objects below the prefix at the origin, without the markers that some clients leave."""
        found = self.origin.sizes(self.prefix)
        if self.client.LEAVES_MARKERS:
            return {key: size for key, size in found.items() if not key.endswith("/")}
        return found

    def head(self, key: str) -> dict[str, Any]:
        """Returns the HEAD response of an object for an independent client: from the origin itself, if it is a bucket."""
        s3 = getattr(self.origin, "s3", self.s3)
        return s3.head_object(Bucket=self.client.door.bucket, Key=key)

    def read(self, key: str) -> bytes:
        """Returns the bytes of an object, as the client reads them."""
        target = self.folder / "read"
        target.unlink(missing_ok=True)
        self.client.get(key=key, file=target)
        return target.read_bytes()


@pytest.mark.parametrize(("kind", "origin", "operation"), list(cases()))
def test_a_client_does_what_it_can(
    kind: type[Client],
    origin: str,
    operation: str,
    origins: dict[str, tuple[Any, Door]],
    running: dict[tuple[str, str], Client],
    folder_of_run: Path,
    tmp_path: Path,
    record_property: Any,
) -> None:
    for name, value in [("client", kind.NAME), ("origin", origin), ("operation", operation)]:
        record_property(name, value)
    if reason := kind.missing():
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)

    view, door = origins[origin]
    client = running.get((kind.NAME, origin))
    if client is None:
        client = kind(door, folder_of_run / re.sub(r"\W+", "-", f"{kind.NAME}-{origin}"))
        running[kind.NAME, origin] = client
        VERSIONS[kind.NAME] = client.version
    prefix = re.sub(r"\W+", "-", kind.NAME) + f"/{operation}/".replace(" ", "-")
    getattr(sys.modules[__name__], f"try_{operation.replace(' ', '_')}")(Trial(client, view, prefix, tmp_path))


def try_put(trial: Trial) -> None:
    for name, size in [("small", 1_234), ("deep/er/small", 70_000), (ODD, 345)]:
        data = trial.random_bytes(size)
        trial.client.put(file=trial.file("source", data), key=trial.prefix + name)
        assert trial.origin.read(trial.prefix + name) == data
        assert trial.read(trial.prefix + name) == data

    again = trial.random_bytes(999)
    trial.client.put(file=trial.file("source", again), key=trial.prefix + "small")
    assert trial.origin.read(trial.prefix + "small") == again
    assert trial.read(trial.prefix + "small") == again
    names = {"small": 999, "deep/er/small": 70_000, ODD: 345}
    assert trial.origin.sizes(trial.prefix) == {trial.prefix + name: size for name, size in names.items()}


def try_empty(trial: Trial) -> None:
    trial.client.put(file=trial.file("source", b""), key=trial.prefix + "empty")
    assert trial.origin.read(trial.prefix + "empty") == b""
    assert trial.read(trial.prefix + "empty") == b""


def try_multipart(trial: Trial) -> None:
    data = trial.random_bytes(LARGE)
    trial.client.put(file=trial.file("large.bin", data), key=trial.prefix + "large.bin")
    assert trial.origin.read(trial.prefix + "large.bin") == data
    assert re.fullmatch(r'"[0-9a-f]{32}-\d+"', trial.head(trial.prefix + "large.bin")["ETag"])
    assert trial.read(trial.prefix + "large.bin") == data
    uploads = trial.s3.list_multipart_uploads(Bucket=trial.client.door.bucket, Prefix=trial.prefix)
    assert uploads.get("Uploads", []) == []


def try_get(trial: Trial) -> None:
    for name, size in [("empty", 0), ("small", 1_234), ("deep/er/small", 70_000), (ODD, 345), ("large", LARGE)]:
        data = trial.random_bytes(size)
        key = trial.object(name, data)
        for _ in range(2):
            assert trial.read(key) == data
    with pytest.raises(ClientFailed):
        trial.read(trial.prefix + "missing")


def try_range(trial: Trial) -> None:
    data = trial.random_bytes(LARGE)
    key = trial.object("large", data)
    if hasattr(trial.client, "read_end"):
        for first in [LARGE - 1_000, MIB, 5 * MIB - 3]:
            file = trial.file("part", data[:first])
            trial.client.read_end(key=key, file=file)
            assert file.read_bytes() == data
        return

    file = trial.folder / "part"
    for first, length in [(0, 1), (LARGE - 1_000, 1_000), (5 * MIB - 3, 7), (MIB, 9 * MIB), (0, LARGE)]:
        for _ in range(2):
            file.unlink(missing_ok=True)
            trial.client.read_range(key=key, first=first, length=length, file=file)
            assert file.read_bytes() == data[first : first + length]


def try_list(trial: Trial) -> None:
    assert trial.client.list_all(prefix="listed/") == LISTED
    assert trial.client.list_all(prefix="listed/many/") == {k: v for k, v in LISTED.items() if "/many/" in k}
    if trial.client.can("list_level"):
        level = trial.client.list_level(prefix="listed/")
        assert set(level) == LEVEL
        assert len(level) == len(LEVEL)


def described(trial: Trial, name: str, data: bytes) -> str:
    """Puts an object with a content type and metadata, and returns its key."""
    s3 = getattr(trial.origin, "s3", trial.s3)
    key = trial.prefix + name
    s3.put_object(
        Bucket=trial.client.door.bucket, Key=key, Body=data, ContentType="text/x-odd", Metadata={"who": "me", "n": "17"}
    )
    return key


def description(trial: Trial, key: str) -> tuple[str, dict[str, str]]:
    """Returns content type and metadata of an object, without what clients add by themselves."""
    found = trial.head(key)
    added = ["mtime", "s3cmd-attrs", "md5chksum"]
    return found["ContentType"], {name: value for name, value in found["Metadata"].items() if name not in added}


DESCRIPTION = ("text/x-odd", {"who": "me", "n": "17"})


def try_copy(trial: Trial) -> None:
    for name, size in [("small", 1_234), ("empty", 0), ("large", LARGE), (ODD, 345)]:
        data = trial.random_bytes(size)
        source = described(trial, name, data)
        target = f"{trial.prefix}copies/{name}"
        trial.client.copy(source=source, target=target)
        assert trial.origin.read(target) == data
        assert trial.origin.read(source) == data


def try_move(trial: Trial) -> None:
    for name, size in [("small", 1_234), ("empty", 0), ("large", LARGE), (ODD, 345)]:
        data = trial.random_bytes(size)
        source = described(trial, name, data)
        target = f"{trial.prefix}moved/{name}"
        trial.client.move(source=source, target=target)
        assert trial.origin.read(target) == data
        assert trial.origin.read(source) is None


def try_metadata_of_copies(trial: Trial, size: int = 1_234) -> None:
    source = described(trial, "source", trial.random_bytes(size))
    trial.client.copy(source=source, target=f"{trial.prefix}copy")
    assert description(trial, f"{trial.prefix}copy") == DESCRIPTION

    if trial.client.can("move"):
        trial.client.move(source=source, target=f"{trial.prefix}moved")
        assert description(trial, f"{trial.prefix}moved") == DESCRIPTION


def try_metadata_of_large_copies(trial: Trial) -> None:
    """The same with objects that a client may copy in parts."""
    try_metadata_of_copies(trial, LARGE)


def try_delete(trial: Trial) -> None:
    inside = [trial.object(f"tree/{n % 3}/{n}", trial.random_bytes(n)) for n in range(25)]
    inside.append(trial.object(f"tree/{ODD}", b"odd"))
    beside = trial.object("tree-beside", b"beside")

    trial.client.delete(key=inside[0])
    trial.client.delete(key=inside.pop())
    assert set(trial.sizes()) == {*inside[1:], beside}

    trial.client.delete_all(prefix=f"{trial.prefix}tree/")
    assert trial.sizes() == {beside: 6}


def try_metadata(trial: Trial) -> None:
    more: dict[str, Any] = {"content_type": "text/x-odd"}
    expected: dict[str, Any] = {"size": 2_345, "content_type": "text/x-odd"}
    if trial.client.NAME != "pyarrow":
        more["metadata"] = expected["metadata"] = {"who": "me", "n": "17"}

    for name, size in [("small", 2_345), ("large", LARGE)]:
        data = trial.random_bytes(size)
        key = trial.prefix + name
        trial.client.put(file=trial.file("source", data), key=key, **more)
        assert description(trial, key) == ("text/x-odd", expected.get("metadata", {}))
        assert trial.client.head(key=key) == expected | {"size": size}


def try_sync(trial: Trial) -> None:
    files = {f"some/{n}.txt": trial.random_bytes(100 + n) for n in range(10)}
    files |= {"empty": b"", f"deep/er/{ODD}": trial.random_bytes(777), "large.bin": trial.random_bytes(LARGE)}
    here = trial.folder / "here"
    for name, data in files.items():
        trial.file(f"here/{name}", data)

    def up(sent: int) -> None:
        assert trial.client.sync_up(folder=here, prefix=trial.prefix) == sent
        there = {key.removeprefix(trial.prefix): trial.origin.read(key) for key in trial.origin.sizes(trial.prefix)}
        assert there == files

    def down(sent: int) -> None:
        there = trial.folder / "there"
        there.mkdir(exist_ok=True)
        assert trial.client.sync_down(prefix=trial.prefix, folder=there) == sent
        assert {str(p.relative_to(there)): p.read_bytes() for p in there.rglob("*") if p.is_file()} == files

    up(len(files))
    up(0)
    down(len(files))
    down(0)

    files["some/3.txt"] = trial.random_bytes(5_000)
    trial.file("here/some/3.txt", files["some/3.txt"])
    up(1)
    down(1)

    del files["some/4.txt"]
    (here / "some/4.txt").unlink()
    up(0)
    down(0)


def rows(*ranges: tuple[int, int]) -> dict[str, list[Any]]:
    """Returns the rows of a table whose ids are in these ranges."""
    ids = [n for first, count in ranges for n in range(first, first + count)]
    return {"id": ids, "name": [f"name-{n % 7}" for n in ids], "value": [n * 0.5 for n in ids]}


def try_table(trial: Trial) -> None:
    client = trial.client
    name = f"{trial.prefix}rows"

    def is_now(*ranges: tuple[int, int]) -> None:
        for _ in range(2):
            assert client.read_table(name=name) == rows(*ranges)
        for at_least in [0, 45_000]:
            expected = sum(n >= at_least for n in rows(*ranges)["id"])
            assert client.count_rows(name=name, at_least=at_least) == expected
        keys = trial.origin.sizes(f"{name}/")
        assert keys
        for key, size in keys.items():
            body = trial.s3.get_object(Bucket=client.door.bucket, Key=key)["Body"].read()
            assert len(body) == size
            assert body == trial.origin.read(key), key

    client.write_table(name=name, mode="new", first=0, count=40_000)
    is_now((0, 40_000))
    client.write_table(name=name, mode="append", first=40_000, count=10_000)
    is_now((0, 50_000))
    if client.can("delete_rows"):
        client.delete_rows(name=name, below=1_000)
        is_now((1_000, 49_000))
    if client.NAME == "polars":
        # It has no tables: the first of its files is replaced by a shorter one.
        client.write_table(name=name, mode="overwrite", first=0, count=30_000)
        is_now((0, 30_000), (40_000, 10_000))
    else:
        client.write_table(name=name, mode="overwrite", first=7, count=30_000)
        is_now((7, 30_000))
    if client.can("clean"):
        client.clean(name=name)
        if client.NAME == "pyiceberg":
            assert trial.sizes() == {}
        else:
            is_now((7, 30_000))
