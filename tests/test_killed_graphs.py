"""Graph imports that are killed half-way leave the previous graph or none, and the next import succeeds."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy import Proxy
from servers import Origin, origin_options
from writes import names, run, start, succeed

PERSONS, EDGES = 20_000, 1_000_000
KILLS = 6
GRAPH = "social.graph.yml"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The input of the import: random edges between persons."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(1)
    ids = np.arange(PERSONS) * 7
    pq.write_table(pa.table({"id": ids, "name": [f"name {at}" for at in ids]}), folder / "person.parquet")
    ends = {end: ids[rng.integers(0, PERSONS, EDGES)] for end in ("src", "dst")}
    pq.write_table(pa.table({**ends, "weight": rng.random(EDGES)}), folder / "knows.parquet")
    tables = ["--vertices", f"person={folder}/person.parquet:id", "--edges", f"person_knows_person={folder}/knows.parquet"]
    return ["graph", "import", "--name", "social", *tables, "--edge-chunk-size", 16_384, "--quiet"]


@pytest.fixture(scope="module")
def whole(given: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an undisturbed import."""
    folder = tmp_path_factory.mktemp("whole")
    succeed(*given, "--output", folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def bytes_below(folder: Path) -> int:
    total = 0
    for path, _, inside in os.walk(folder):
        for name in inside:
            # The file may be removed before it is inspected.
            with contextlib.suppress(FileNotFoundError):
                total += (Path(path) / name).stat().st_size
    return total


def kill_at(moment: int, out: Path, *command: object) -> int:
    """Kills the command once `moment` bytes are in the folder; returns its exit code."""
    with start(*command) as process:
        while process.poll() is None and bytes_below(out) < moment:
            time.sleep(0.001)
        process.kill()
    return process.returncode


def assert_no_graph(place: object, *options: str) -> None:
    code, output, said = run("graph", "info", place, *options)
    assert (code != 0, output, len(said.splitlines())) == (True, "", 1)
    assert "graph.yml" in said or "no such file" in said


@pytest.mark.parametrize("is_there", [False, True], ids=["nothing before", "a graph before"])
def test_whenever_an_import_is_killed_there_is_no_half_of_a_graph_and_the_next_one_is_whole(
    is_there: bool, given: list[object], whole: Path, tmp_path: Path
) -> None:
    rng = random.Random(int(is_there))
    out, expected = tmp_path / "out", files(whole)
    before: dict[str, bytes] = {}
    if is_there:
        succeed(*given[:6], "--quiet", "--output", out)
        before = files(out)
    total, killed = bytes_below(whole), 0
    for attempt in range(KILLS):
        # Every other time, the leftovers of the last run are still there.
        if attempt % 2:
            for left in out.glob(".*"):
                shutil.rmtree(left)
        moment = bytes_below(out) + int(rng.uniform(0, 0.9) * total)
        killed += kill_at(moment, out, *given, "--output", out, "--overwrite") == -signal.SIGKILL
        seen = {name: found for name, found in files(out).items() if not name.startswith(".")}
        # A kill while files are renamed leaves no graph: the previous one is removed first.
        assert seen in (before, expected) or not any(name.endswith(".graph.yml") for name in seen)
        if GRAPH not in seen:
            assert_no_graph(out)
        before = seen
    # Otherwise nothing was tested.
    assert killed > 2
    succeed(*given, "--output", out, "--overwrite")
    assert files(out) == expected
    assert [name for name in names(out) if name.startswith(".")] == []


def test_an_import_into_a_bucket_that_is_killed_leaves_no_graph_and_the_next_one_is_whole(
    given: list[object], whole: Path, origin: Origin, proxy: Proxy, prefix: str
) -> None:
    options = [word for name, value in origin_options(proxy.endpoint).items() for word in ("--option", f"{name}={value}")]
    url, expected = f"s3://lake/{prefix}social", files(whole)
    moments = [0, 1, len(expected) // 3, len(expected) - 2]

    def found() -> set[str]:
        pages = origin.s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=f"{prefix}social/")
        return {item["Key"] for page in pages for item in page.get("Contents", [])}

    killed = 0
    for moment in moments:
        before = len(found())
        with start(*given, "--output", url, "--overwrite", *options) as process:
            while process.poll() is None and len(found()) < before + moment:
                time.sleep(0.002)
            process.kill()
        killed += process.returncode == -signal.SIGKILL
        if not any(key.endswith(GRAPH) for key in found()):
            assert_no_graph(url, *options)
    assert killed > 1
    succeed(*given, "--output", url, "--overwrite", *options)
    for name, content in expected.items():
        assert origin.s3.get_object(Bucket="lake", Key=f"{prefix}social/{name}")["Body"].read() == content, name
