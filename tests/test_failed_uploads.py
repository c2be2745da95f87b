"""Uploads that fail at part 7, are interrupted or are killed: no object, no parts left, and one line that names it."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy import Proxy
from servers import ORIGIN_KEY, ORIGIN_SECRET, REGION, Origin, wait_for
from writes import FORMATS, MIB, end, failure, noise, read, start, succeed

FAILING = 7
ATTEMPTS = 4
# Enough rows for more than ten parts of 16 MiB in both formats.
GENERATE = ["--scale", "0.65", "--tables", "lineitem", "--compression", "none"]
LINEITEMS = 3_900_000


class Uploads:
    """Records the requests of uploads, and refuses part 7 a given number of times."""

    def __init__(self, status: int = 500, times: float = 0) -> None:
        self.status = status
        self.left = times
        self.parts: Counter[int] = Counter()
        self.begun = self.completed = self.aborted = 0
        self._lock = threading.Lock()

    def __call__(self, method: str, _: str, query: dict[str, str]) -> int | None:
        with self._lock:
            self.begun += method == "POST" and "uploads" in query
            self.completed += method == "POST" and "uploadId" in query
            self.aborted += method == "DELETE" and "uploadId" in query
            if method != "PUT" or "partNumber" not in query:
                return None
            part = int(query["partNumber"])
            self.parts[part] += 1
            if part != FAILING or self.left <= 0:
                return None
            self.left -= 1
            return self.status


class Lake:
    """A bucket of an S3 server, behind a proxy that fails on command."""

    def __init__(self, origin: Origin, proxy: Proxy) -> None:
        self.proxy = proxy
        self.folder = origin.bucket("lake")
        self.root = origin.root
        pairs = [f"endpoint={proxy.endpoint}", f"region={REGION}", "allow_http=true"]
        pairs += [f"access_key_id={ORIGIN_KEY}", f"secret_access_key={ORIGIN_SECRET}"]
        self.options = [word for pair in pairs for word in ("--option", pair)]

    def watch(self, status: int = 500, times: float = 0) -> Uploads:
        self.proxy.fault = uploads = Uploads(status, times)
        return uploads

    def unfinished(self) -> list[str]:
        """Returns the uploads on the server that are neither completed nor aborted."""
        return sorted(path.name for path in self.root.rglob(".upload*") if path.is_file())

    def objects(self, prefix: str) -> list[str]:
        found = (self.folder / prefix).rglob("*")
        return sorted(str(path.relative_to(self.folder / prefix)) for path in found if path.is_file())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("origin")
    origin = Origin(folder / "root", folder / "log")
    with Proxy(origin.port, origin.root) as proxy:
        yield Lake(origin, proxy)
    origin.kill()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return noise(tmp_path_factory.mktemp("source") / "noise.parquet", 180 * MIB)


def check_given_up(lake: Lake, uploads: Uploads) -> None:
    """Checks that the upload was begun and aborted, and that the server has nothing of it."""
    assert (uploads.begun, uploads.completed, uploads.aborted) == (1, 0, 1)
    # Requests in progress when the command gave up complete, or fail, a moment later.
    wait_for("the origin to be idle", lambda: lake.proxy.idle)
    assert lake.unfinished() == []


@pytest.mark.parametrize("status", [500, 403])
@pytest.mark.parametrize("format", FORMATS)
def test_a_convert_whose_part_7_fails_leaves_no_object(
    lake: Lake, source: Path, prefix: str, format: str, status: int
) -> None:
    uploads = lake.watch(status, times=1_000)
    name = f"{prefix}a.{format}"
    line = failure("convert", source, f"s3://lake/{name}", "--compression", "none", *lake.options)
    assert name in line and str(status) in line, line
    assert ORIGIN_SECRET not in line
    # A forbidden request is not retried.
    assert uploads.parts[FAILING] == (ATTEMPTS if status == 500 else 1)
    assert lake.objects(prefix) == []
    check_given_up(lake, uploads)


@pytest.mark.parametrize("format", FORMATS)
def test_a_part_that_fails_once_is_sent_again(lake: Lake, source: Path, prefix: str, format: str) -> None:
    uploads = lake.watch(500, times=1)
    name = f"{prefix}a.{format}"
    succeed("convert", source, f"s3://lake/{name}", "--compression", "none", "--quiet", *lake.options)
    count = len(uploads.parts)
    assert count >= 10
    assert uploads.parts == Counter(range(1, count + 1)) + Counter([FAILING])
    assert (uploads.begun, uploads.completed, uploads.aborted) == (1, 1, 0)
    assert read(lake.folder / name).equals(read(source))
    assert lake.unfinished() == []


@pytest.mark.parametrize(("format", "status"), [("parquet", 500), ("orc", 403)])
def test_a_generate_whose_part_7_fails_leaves_no_object_and_goes_on_when_told_again(
    lake: Lake, prefix: str, format: str, status: int
) -> None:
    uploads = lake.watch(status, times=1_000)
    output = f"s3://lake/{prefix}"
    generate = ["generate", "tpch", *GENERATE, "--format", format, "--output", output, *lake.options]
    line = failure(*generate)
    assert f"{prefix}lineitem.{format}" in line and str(status) in line, line
    assert lake.objects(prefix) == ["manifest.json"]
    told = json.loads((lake.folder / prefix / "manifest.json").read_text())
    assert (told["complete"], told["files"]) == (False, [])
    check_given_up(lake, uploads)
    # Now the part fails once, and is sent again.
    uploads = lake.watch(500, times=1)
    succeed(*generate, "--quiet")
    assert len(uploads.parts) >= 10 and uploads.parts[FAILING] == 2
    assert (uploads.begun, uploads.completed, uploads.aborted) == (1, 1, 0)
    assert lake.objects(prefix) == [f"lineitem.{format}", "manifest.json"]
    told = json.loads((lake.folder / prefix / "manifest.json").read_text())
    assert told["complete"] and abs(told["files"][0]["rows"] - LINEITEMS) < 10_000
    assert read(lake.folder / prefix / f"lineitem.{format}").num_rows == told["files"][0]["rows"]
    assert succeed("generate", "verify", lake.folder / prefix).startswith("ok     lineitem")
    assert lake.unfinished() == []


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("format", FORMATS)
def test_an_upload_that_is_told_to_stop_is_aborted(
    lake: Lake, source: Path, tmp_path: Path, prefix: str, format: str, by: signal.Signals
) -> None:
    for number in range(50):
        (tmp_path / f"{number}.parquet").hardlink_to(source)
    uploads = lake.watch()
    process = start("convert", tmp_path, f"s3://lake/{prefix}a.{format}", *lake.options)
    wait_for("some parts", lambda: len(uploads.parts) > 3, timeout=60)
    assert end(process, by) == (128 + by, "")
    assert lake.objects(prefix) == []
    check_given_up(lake, uploads)


@pytest.mark.parametrize("format", FORMATS)
def test_an_upload_that_is_killed_leaves_no_object_and_the_next_makes_one(
    lake: Lake, source: Path, prefix: str, format: str
) -> None:
    uploads = lake.watch()
    name = f"{prefix}a.{format}"
    convert = ["convert", source, f"s3://lake/{name}", "--compression", "none", "--quiet", *lake.options]
    process = start(*convert)
    wait_for("some parts", lambda: len(uploads.parts) > 3, timeout=60)
    assert end(process, signal.SIGKILL) == (-signal.SIGKILL, "")
    wait_for("the origin to be idle", lambda: lake.proxy.idle)
    assert (lake.objects(prefix), uploads.completed) == ([], 0)
    # The killed process could not abort it: that is left to the bucket's lifecycle rules.
    assert lake.unfinished()
    uploads = lake.watch()
    succeed(*convert)
    assert (uploads.begun, uploads.completed, uploads.aborted) == (1, 1, 0)
    assert read(lake.folder / name).equals(read(source))
    for path in list(lake.root.rglob(".upload*")):
        path.unlink()
