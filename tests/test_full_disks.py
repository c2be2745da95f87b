"""Writes to full disks and to files at their size limit: one line that names the file, and no unfinished files."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers import wait_for
from writes import FORMATS, MIB, SINKS, failure, names, noise, read, succeed

LIMIT = 4 * MIB
DISK = 4 * MIB
# Two tables in the order in which they are generated. Uncompressed, the first fits on the disk, and the second does not
# fit beside it.
FITS, DOES_NOT = "part", "customer"
GENERATE = ["generate", "tpch", "--scale", "0.16", "--compression", "none", "--durability"]


def limited() -> None:
    """Limits the size of files to 4 MiB, with an error instead of a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return noise(tmp_path_factory.mktemp("source") / "noise.parquet", 32 * MIB)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB, if the tests may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs more rights")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,size={32 * DISK}", str(disk)], check=True)


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_converted_file_that_may_not_grow_is_not_there(
    tmp_path: Path, source: Path, format: str, sink: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    file = out / f"a.{format}"
    convert = ["convert", source, file, "--sink", sink]
    line = failure(*convert, preexec_fn=limited)
    assert str(file) in line and "File too large" in line, line
    assert names(out) == []
    file.write_text("before")
    failure(*convert, "--force", preexec_fn=limited)
    assert (names(out), file.read_text()) == ([file.name], "before")


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_generated_file_that_may_not_grow_is_not_there(tmp_path: Path, format: str, sink: str) -> None:
    out = tmp_path / "out"
    args = ["--tables", "orders", "--format", format, "--sink", sink, "--output", out]
    line = failure(*GENERATE, "fsync", *args, preexec_fn=limited)
    assert str(out / f"orders.{format}") in line and "File too large" in line, line
    assert names(out) == ["manifest.json"]
    assert json.loads((out / "manifest.json").read_text())["files"] == []


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_convert_to_a_disk_that_fills_leaves_it_as_it_was(
    small_disk: Path, source: Path, format: str, sink: str
) -> None:
    free = os.statvfs(small_disk).f_bavail
    for durability in ("fsync", "none"):
        file = small_disk / f"a.{format}"
        line = failure("convert", source, file, "--sink", sink, "--durability", durability)
        assert str(file) in line and "No space left on device" in line, line
        assert names(small_disk) == []
        # The kernel tears down an io_uring a little after its process.
        wait_for("the room to be free again", lambda: os.statvfs(small_disk).f_bavail == free)
    grow(small_disk)
    succeed("convert", source, file, "--sink", sink, "--quiet")
    assert read(file).equals(read(source))


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_generate_to_a_disk_that_fills_keeps_what_is_whole_and_goes_on_when_there_is_room(
    small_disk: Path, format: str, sink: str
) -> None:
    tables = ["--tables", f"{FITS},{DOES_NOT}", "--format", format, "--sink", sink, "--output", small_disk]
    line = failure(*GENERATE, "none", *tables)
    fits, does_not = f"{FITS}.{format}", f"{DOES_NOT}.{format}"
    assert str(small_disk / does_not) in line and "No space left on device" in line, line
    assert names(small_disk) == ["manifest.json", fits]
    assert read(small_disk / fits).num_rows == 32_000
    told = json.loads((small_disk / "manifest.json").read_text())
    assert (told["complete"], [file["path"] for file in told["files"]]) == (False, [fits])
    grow(small_disk)
    before = (small_disk / fits).stat()
    succeed(*GENERATE, "none", *tables, "--quiet")
    assert (small_disk / fits).stat().st_mtime_ns == before.st_mtime_ns
    assert names(small_disk) == sorted([does_not, "manifest.json", fits])
    assert read(small_disk / does_not).num_rows == 24_000
    assert succeed("generate", "verify", small_disk).count("ok ") == 2


@pytest.mark.parametrize("sink", SINKS)
def test_on_a_disk_without_any_room_not_even_a_manifest_is_begun(small_disk: Path, sink: str) -> None:
    with (small_disk / "filler").open("wb") as filler:
        filler.write(bytes(DISK))
    out = small_disk / "out"
    line = failure(*GENERATE, "fsync", "--tables", "region", "--sink", sink, "--output", out)
    assert str(out / "manifest.json") in line and "No space left on device" in line, line
    assert names(out) == []
