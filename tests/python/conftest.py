"""Fixtures of the tests of the Python package: files, and a cache of a test's own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from orders import TRIPS, orders

# Recently written files may still change, and are not cached.
SETTLED = 10


def settle(*paths: Path) -> None:
    """Backdates files, so that they count as unchanging."""
    for path in paths:
        then = time.time() - SETTLED
        os.utime(path, (then, then))


def wait_until_busy(process: subprocess.Popen[str], seconds: float = 0.5) -> None:
    """Waits until a process has used this much more processor time, or has ended."""
    target = processor_seconds(process) + seconds
    deadline = time.monotonic() + 60
    while process.poll() is None and processor_seconds(process) < target:
        assert time.monotonic() < deadline, "waited 60 s for the process to be busy"
        time.sleep(0.02)


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Returns the processor time that all threads of a process have used so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """A table of mixed types, with nulls and repeated values."""
    return orders(30_000)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> dict[str, Path]:
    """The table as a Parquet and as an ORC file, of several row groups and stripes."""
    folder = tmp_path_factory.mktemp("files")
    paths = {"parquet": folder / "orders.parquet", "orc": folder / "orders.orc"}
    pq.write_table(table, paths["parquet"], row_group_size=7_000, compression="zstd")
    orc.write_table(
        table, paths["orc"], stripe_size=64 << 10, compression="zstd", dictionary_key_size_threshold=0.8
    )
    settle(*paths.values())
    return paths


@pytest.fixture(params=["parquet", "orc"])
def path(request: pytest.FixtureRequest, files: dict[str, Path]) -> Path:
    """Each of the files."""
    return files[request.param]


@pytest.fixture
def cache() -> Iterator[st.Cache]:
    """A cache that no other test uses."""
    with st.Cache(memory="64MiB") as cache:
        yield cache


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the documentation's examples read, a file, a graph and a graph store, in the current folder."""
    path = tmp_path / "trips.parquet"
    pq.write_table(TRIPS, path)
    settle(path)
    people = pa.table({"id": [7, 8, 9], "name": ["Al", "Bo", "Cy"], "age": [20, 31, 40]})
    knows = pa.table({"src": [7, 8, 7], "dst": [8, 9, 9], "since": [2001, 2010, 2020]})
    st.write_graph(
        tmp_path / "social",
        name="social",
        vertices={"person": {"data": people, "key": "id"}},
        edges={("person", "knows", "person"): knows},
    )
    person = {"key": "id", "properties": {"id": "int64", "name": "string"}}
    schema = {"vertices": {"Person": person}, "edges": {("Person", "KNOWS", "Person"): {"since": "int64"}}}
    store = st.GraphStore.create(tmp_path / "network", schema, durability="none")
    with store.writer() as writer:
        writer.add_vertices("Person", people.select(["id", "name"]))
        writer.add_edges("KNOWS", knows)
    monkeypatch.chdir(tmp_path)
    return path
