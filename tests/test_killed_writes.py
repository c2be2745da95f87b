"""Writes that are killed or interrupted half-way: every file with its final name is complete, and the next run succeeds."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import wait_for
from writes import (
    FORMATS,
    MIB,
    SINKS,
    end,
    kill,
    names,
    noise,
    read,
    start,
    succeed,
    visible,
    wait_until_written,
    written,
)

SCALE = ["--scale", "0.05"]
TABLES = 8
KILLS_IN_A_ROW = 4
ROUNDS = {"parquet": 3, "orc": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the output of an undisturbed run, one per format."""
    made: dict[str, Path] = {}

    def make(format: str) -> Path:
        if format not in made:
            made[format] = tmp_path_factory.mktemp(format)
            succeed("generate", "tpch", *SCALE, "--format", format, "--output", made[format])
        return made[format]

    return make


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return noise(tmp_path_factory.mktemp("source") / "noise.parquet", 96 * MIB)


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The same source repeated so often that no machine finishes before it is stopped."""
    folder = tmp_path_factory.mktemp("endless")
    for number in range(50):
        (folder / f"{number}.parquet").hardlink_to(source)
    return folder


def check(folder: Path, whole: Path) -> None:
    """Checks that each file with its final name is complete, and that the manifest lists no others."""
    rows = {entry["path"]: entry["rows"] for entry in json.loads((whole / "manifest.json").read_text())["files"]}
    found = set(visible(folder))
    for name in found - {"manifest.json"}:
        assert read(folder / name).num_rows == rows[name], name
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    if "manifest.json" in found:
        told = json.loads((folder / "manifest.json").read_text())
        assert {entry["path"] for entry in told["files"]} <= found
        assert all(entry["rows"] == rows[entry["path"]] for entry in told["files"])
        assert not told["complete"] or len(told["files"]) == TABLES


@pytest.mark.parametrize("format", FORMATS)
def test_whenever_generate_is_killed_files_are_whole_and_the_next_run_completes(
    tmp_path: Path, whole: Callable[[str], Path], format: str
) -> None:
    rng = random.Random(format)
    expected = whole(format)
    total = written(expected)
    moments, killed, leftovers = [], 0, 0
    for round_ in range(ROUNDS[format]):
        out = tmp_path / f"out-{round_}"
        generate = ["generate", "tpch", *SCALE, "--format", format, "--output", out, "--sink", SINKS[round_ % 3]]
        # Kill points are byte counts rather than times, so that a slow machine is not killed too early. The first is
        # at the start of a table: a small ORC file is written in one go at its end, where later ones often fall.
        for moment in [0.0, *sorted(rng.uniform(0, 0.97 * total) for _ in range(KILLS_IN_A_ROW - 1))]:
            process = start(*generate)
            if moment == 0:
                wait_for("an unfinished table", lambda: any(name.startswith(".lineitem") for name in names(out)))
            wait_until_written(process, out, int(moment))
            time.sleep(rng.uniform(0, 0.02))
            code = kill(process, out)
            moments.append(moment / total)
            killed += code == -signal.SIGKILL
            leftovers += len(names(out)) - len(visible(out))
            check(out, expected)
        succeed(*generate, "--quiet")
        check(out, expected)
        assert names(out) == names(expected)
        verified = succeed("generate", "verify", out).splitlines()
        assert len(verified) == TABLES and all(line.startswith("ok ") for line in verified), verified
    shown = ", ".join(f"{moment:.0%}" for moment in moments)
    print(f"{format}: killed {killed} of {len(moments)} times, at {shown} of the bytes; {leftovers} unfinished files")
    # Otherwise nothing was tested.
    assert killed > len(moments) // 2
    assert leftovers > 0


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("sink", SINKS)
def test_a_convert_that_is_killed_leaves_the_file_that_was_there_and_the_next_one_tidies_up(
    tmp_path: Path, source: Path, endless: Path, format: str, sink: str
) -> None:
    rng = random.Random(format + sink)
    out = tmp_path / "out"
    out.mkdir()
    file = out / f"a.{format}"
    file.write_text("before")
    for _ in range(2):
        process = start("convert", endless, file, "--force", "--sink", sink)
        wait_until_written(process, out, rng.randrange(MIB, 64 * MIB))
        assert kill(process, out) == -signal.SIGKILL
        assert visible(out) == [file.name] and file.read_text() == "before"
        # The second run removed what the first left.
        assert len(names(out)) == 2
    succeed("convert", source, file, "--force", "--quiet", "--sink", sink)
    assert names(out) == [file.name]
    assert read(file).equals(read(source))


@pytest.mark.parametrize(
    ("format", "by"), [("parquet", signal.SIGINT), ("orc", signal.SIGINT), ("orc", signal.SIGTERM)]
)
def test_a_generate_that_is_told_to_stop_leaves_whole_files_and_nothing_else(
    tmp_path: Path, format: str, by: signal.Signals
) -> None:
    args = ["generate", "tpch", "--scale", "10", "--tables", "lineitem,orders", "--format", format]
    process = start(*args, "--output", tmp_path / "out")
    wait_until_written(process, tmp_path / "out", 4 * MIB)
    assert end(process, by) == (128 + by, "")
    assert names(tmp_path / "out") == ["manifest.json"]
    told = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (told["complete"], told["files"]) == (False, [])


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_convert_that_is_told_to_stop_leaves_nothing(
    tmp_path: Path, endless: Path, format: str, sink: str, by: signal.Signals
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    process = start("convert", endless, out / f"a.{format}", "--sink", sink)
    wait_until_written(process, out, 4 * MIB)
    assert end(process, by) == (128 + by, "")
    assert names(out) == []
