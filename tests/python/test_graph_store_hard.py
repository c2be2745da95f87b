"""Difficult cases of `GraphStore`: garbage collection beside operations that take hours, failed loads, text that looks
like numbers, forged logs, the size of small chunks."""

from __future__ import annotations

import base64
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
import stylobate as st

from conftest import settle
from servers import wait_for

KNOWS = ("Person", "KNOWS", "Person")
SCHEMA = {
    "vertices": {"Person": {"key": "id", "properties": {"id": "int64", "name": "string"}}},
    "edges": {KNOWS: {"since": "int64"}},
}
PEOPLE = {"id": [1, 2, 3], "name": ["Al", "Bo", "Cy"]}
EDGES = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("since", pa.int64())])
HOUR = 3600.0


@pytest.fixture
def create(tmp_path: Path, cache: st.Cache) -> Callable[..., st.GraphStore]:
    """Creates a store in the folder `store`."""

    def create_store(schema: dict[str, Any] | None = SCHEMA, **options: Any) -> st.GraphStore:
        return st.GraphStore.create(tmp_path / "store", schema, cache=cache, durability="none", **options)

    return create_store


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def hours_pass(folder: Path) -> None:
    """Backdates files by two hours."""
    then = time.time() - 2 * HOUR
    for path in files(folder):
        os.utime(path, (then, then))


def signed(path: Path, record: dict[str, Any]) -> None:
    """Writes a log record with its trailing checksum."""
    text = json.dumps({name: value for name, value in record.items() if name != "crc32"}, separators=(",", ":"))
    begin = text.encode()[:-1]
    path.write_bytes(begin + b',"crc32":"%08x"}' % zlib.crc32(begin))


# Garbage, and operations that take longer than the minimum age of garbage.


def test_a_load_that_takes_hours_loses_nothing_to_a_collection(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    store, folder = create(), tmp_path / "store"

    def are_written() -> bool:
        # The keys are written last, each file under a hidden name until it is complete.
        return any(folder.glob("vertices/*/keys/chunk0")) and not any(folder.glob("vertices/**/.*"))

    def edges() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"src": [1], "dst": [2], "since": [3]}, schema=EDGES)
        wait_for("the vertices to be written", are_written, timeout=30)
        hours_pass(folder / "vertices")
        st.GraphStore.open(folder).gc(HOUR)
        yield pa.record_batch({"src": [1], "dst": [3], "since": [3]}, schema=EDGES)

    reader = pa.RecordBatchReader.from_batches(EDGES, edges())
    try:
        store.load({"Person": PEOPLE}, {KNOWS: reader})
    except st.StylobateError:
        pass  # The error is detected in time.
    opened = st.GraphStore.open(folder)
    assert opened.verify().flaws == []


def test_a_commit_that_is_tried_again_hours_later_has_its_files(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    store, folder = create(inline_limit=0), tmp_path / "store"
    writer = store.writer()
    writer.add_vertices("Person", PEOPLE)
    in_the_way = folder / "_log" / f"{2:020}.json"
    in_the_way.mkdir()
    with pytest.raises(st.StylobateError):
        writer.commit()
    in_the_way.rmdir()
    hours_pass(folder / "delta")
    st.GraphStore.open(folder).gc(HOUR)
    assert writer.commit() == 2
    opened = st.GraphStore.open(folder)
    assert opened.verify().flaws == []
    assert opened.snapshot().vertices("Person")["name"].to_pylist() == PEOPLE["name"]


def test_how_old_a_version_is_does_not_depend_on_the_clock_of_whoever_committed_it(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    store, folder = create(), tmp_path / "store"
    store.load({"Person": PEOPLE})
    with store.writer() as writer:
        writer.update_vertices("Person", {"id": [1], "name": ["Alma"]})
    for path in (folder / "_log").iterdir():
        record = json.loads(path.read_bytes())
        signed(path, record | {"time_ms": record["time_ms"] - 2 * int(HOUR) * 1_000})
    with st.Cache(memory="8MiB") as cache:
        collected = st.GraphStore.open(folder, cache=cache).gc(HOUR)
    assert not collected.versions
    assert not files(folder / "leases")


def test_a_lease_of_a_process_that_is_gone_is_removed_by_a_collection(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    store, folder = create(), tmp_path / "store"
    (folder / "leases").mkdir(exist_ok=True)
    (folder / "leases" / "gone").touch()
    (folder / "leases" / "held").touch()
    hours_pass(folder)
    (folder / "leases" / "held").touch()
    store.gc(HOUR)
    assert [path.name for path in files(folder / "leases")] == ["held"]


def test_a_writer_that_waited_goes_on_after_compaction_and_collection(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    store, folder = create(), tmp_path / "store"
    store.load({"Person": PEOPLE})
    with store.writer() as writer:
        writer.update_vertices("Person", {"id": [1], "name": ["Alma"]})
    writer = store.writer()
    with st.Cache(memory="8MiB") as cache:
        assert st.GraphStore.open(folder, cache=cache).compact(force=True)
    hours_pass(folder)
    with st.Cache(memory="8MiB") as cache:
        assert st.GraphStore.open(folder, cache=cache).gc(HOUR).versions
    store.refresh()
    writer.commit()
    writer.add_edges("KNOWS", {"src": [1], "dst": [2]})
    writer.commit()
    assert store.snapshot().edge_count("KNOWS") == 1


# Loads.


def test_texts_that_look_like_numbers_stay_texts(create: Callable[..., st.GraphStore], tmp_path: Path) -> None:
    properties = {"id": "string", "zip": "string"}
    store = create({"vertices": {"Person": {"key": "id", "properties": properties}}})
    (tmp_path / "people.csv").write_text("id,zip\n007,01234\n1e3,00999\n")
    store.load({"Person": tmp_path / "people.csv"})
    found = store.snapshot().vertices("Person")
    assert found["id"].to_pylist() == ["007", "1e3"]
    assert found["zip"].to_pylist() == ["01234", "00999"]


# Wrong arguments.


def test_a_property_has_no_name_that_answers_need(create: Callable[..., st.GraphStore]) -> None:
    person = {"key": "id", "properties": {"id": "int64", "_index": "int64"}}
    with pytest.raises(st.SchemaError, match="_index"):
        create({"vertices": {"Person": person}})


def test_a_log_whose_rows_have_other_types_is_an_error(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    store = create()
    store.load({"Person": PEOPLE}, {KNOWS: {"src": [1, 2], "dst": [2, 3], "since": [1, 2]}})
    with store.writer() as writer:
        writer.add_edges("KNOWS", {"src": [1], "dst": [3], "since": [7]})
    path = sorted((tmp_path / "store" / "_log").iterdir())[-1]
    record = json.loads(path.read_bytes())
    rows = pa.ipc.open_stream(base64.b64decode(record["inline"][0])).read_all()
    rows = rows.set_column(rows.column_names.index("since"), "since", pa.array(["text"]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    record["inline"][0] = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    signed(path, record)
    with st.Cache(memory="8MiB") as cache:
        opened = st.GraphStore.open(tmp_path / "store", cache=cache)
        with pytest.raises(st.StylobateError, match="_log"):
            opened.snapshot().out_edges("KNOWS", 0)
        assert any("_log" in flaw for flaw in opened.verify().flaws)


# Costs.


def test_a_small_chunk_weighs_what_is_in_it(create: Callable[..., st.GraphStore], tmp_path: Path) -> None:
    store = create()
    knows = {"src": range(100), "dst": range(100), "since": range(100)}
    store.load({"Person": {"id": range(100), "name": ["x"] * 100}}, {KNOWS: knows})
    settle(*files(tmp_path / "store"))
    with st.Cache(memory="64MiB") as cache:
        store = st.GraphStore.open(tmp_path / "store", cache=cache)
        assert store.snapshot().edge_lookup("KNOWS", 3, 3)["since"].to_pylist() == [3]
        memory = store.stats()["memory"]
        # 101 offsets, 100 neighbors and 100 days of 8 bytes.
        assert memory["offsets"]["bytes"] < 16 << 10 and memory["edge_columns"]["bytes"] < 32 << 10


def test_many_types_are_compacted_without_a_conflict_for_the_writer(
    create: Callable[..., st.GraphStore], tmp_path: Path
) -> None:
    person = SCHEMA["vertices"]["Person"]
    store = create({"vertices": {f"Type{n}": person for n in range(40)}})
    writer = store.writer()
    for n in range(40):
        writer.add_vertices(f"Type{n}", PEOPLE)
    writer.commit()
    assert len(st.GraphStore.open(tmp_path / "store").compact(force=True)) == 40
    writer.add_vertices("Type0", {"id": [4]})
    assert writer.commit() == 43
    assert store.snapshot().vertex_count("Type0") == 4
