"""`GraphStore`: reads return what was written, in each version; writers, errors, traversals, maintenance, S3."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle
from proxy import Proxy
from servers import Origin, origin_options

KNOWS = ("Person", "KNOWS", "Person")
PERSON = {"key": "id", "properties": {"id": "int64", "name": "string", "born": "date"}}
POST = {"key": "id", "properties": {"id": "string", "content": "string", "at": "timestamp"}}
SCHEMA = {
    "vertices": {"Person": PERSON, "Post": POST},
    "edges": {
        KNOWS: {"since": "int64"},
        ("Post", "HAS_CREATOR", "Person"): {},
        ("Person", "LIKES", "Post"): {"at": "timestamp"},
    },
}
NAMES = ["Al", "Bo", "Cy", "Di"]


def at(minute: int) -> datetime:
    return datetime(2024, 1, 1, 12, minute)


@pytest.fixture
def store(tmp_path: Path, cache: st.Cache) -> st.GraphStore:
    """Four persons who know each other, and three posts."""
    store = st.GraphStore.create(tmp_path / "store", SCHEMA, cache=cache, durability="none")
    with store.writer() as writer:
        writer.add_vertices("Person", {"id": [10, 20, 30, 40], "name": NAMES, "born": [date(2000, 1, 1)] * 4})
        writer.add_edges("KNOWS", {"src": [10, 10, 20, 10], "dst": [20, 30, 30, 20], "since": [1, 2, 3, 4]})
        writer.add_vertices("Post", {"id": ["a", "b", "c"], "content": ["A", "B", None]})
        writer.add_edges("HAS_CREATOR", {"src": ["a", "b", "c"], "dst": [10, 10, 20]})
        likes = {"src": [20, 30, 40, 40], "dst": ["a", "a", "b", "c"], "at": [at(1), at(4), at(3), at(9)]}
        writer.add_edges("LIKES", likes)
    return store


def settled(store: st.GraphStore, is_compact: bool) -> st.Snapshot:
    """Returns the newest version, uncompacted or compacted into bases."""
    if is_compact:
        store.compact(force=True)
    return store.snapshot()


# Lookups.


@pytest.mark.parametrize("is_compact", [False, True])
def test_edges_are_found_from_both_ends(store: st.GraphStore, is_compact: bool) -> None:
    snapshot = settled(store, is_compact)
    out = snapshot.out_edges("KNOWS", 0)
    assert out.column_names == ["neighbor", "since"]
    assert sorted(zip(*out.to_pydict().values())) == [(1, 1), (1, 4), (2, 2)]
    assert snapshot.in_edges("KNOWS", key=30, columns=[]).to_pydict() == {"neighbor": [0, 1]}
    assert sorted(snapshot.edge_lookup("KNOWS", 0, 1)["since"].to_pylist()) == [1, 4]
    assert snapshot.edge_lookup(KNOWS, 20, 10, by="key").num_rows == 0
    expanded = snapshot.expand("KNOWS", [3, 1, 0, 1], columns=["since"]).to_pydict()
    assert expanded["position"] == [1, 2, 2, 2, 3]
    assert (expanded["neighbor"], sorted(expanded["since"])) == ([2, 1, 1, 2, 2], [1, 2, 3, 3, 4])
    assert snapshot.degrees("KNOWS", [0, 1, 2, 3]).to_pylist() == [3, 1, 0, 0]
    assert snapshot.degrees("KNOWS", keys=[30, 20], direction="in").to_pylist() == [2, 2]


@pytest.mark.parametrize("is_compact", [False, True])
def test_vertices_are_found_by_index_by_key_and_by_filter(store: st.GraphStore, is_compact: bool) -> None:
    snapshot = settled(store, is_compact)
    found = snapshot.vertices("Person", keys=[30, 10], columns=["name"])
    assert found.to_pydict() == {"_index": [2, 0], "name": ["Cy", "Al"]}
    assert snapshot.vertices("Person", ids=[1, 1], columns=["id"])["id"].to_pylist() == [20, 20]
    assert snapshot.vertices("Post", keys=pa.array(["c", "a"]))["content"].to_pylist() == [None, "A"]
    assert snapshot.vertices("Person", filter=st.col("name") > "Bo", columns=["id"])["id"].to_pylist() == [30, 40]
    assert snapshot.vertices("Person", filter="id = 20")["name"].to_pylist() == ["Bo"]
    assert snapshot.find("Person", [40, 41]).to_pylist() == [3, None]
    assert snapshot.vertices("Person").schema.field("born").type == pa.date32()
    batches = list(snapshot.scan_vertices("Person", columns=["name"]).batches())
    assert [name for batch in batches for name in batch["name"].to_pylist()] == NAMES


def test_scans_of_edges_stream(store: st.GraphStore) -> None:
    edges = store.snapshot().scan_edges("KNOWS", filter=st.col("since") >= 3)
    assert edges.schema.names == ["src", "dst", "since"]
    assert sorted(zip(*edges.to_arrow().to_pydict().values())) == [(0, 1, 4), (1, 2, 3)]
    assert pa.RecordBatchReader.from_stream(edges).read_all().num_rows == 2
    assert edges.to_polars()["since"].sum() == 7


def test_counts_and_the_schema_are_known(store: st.GraphStore) -> None:
    snapshot = store.snapshot()
    assert snapshot.schema == SCHEMA
    assert (snapshot.vertex_count("Person"), snapshot.edge_count(KNOWS), snapshot.edge_count("LIKES")) == (4, 4, 4)
    stats = store.stats()
    assert stats["vertices"] == {"Person": 4, "Post": 3} and stats["edges"][KNOWS] == 4
    assert stats["version"] == snapshot.version == store.version and "hits" in stats["cache"]
    assert stats["memory"]["deltas"]["open"] >= 0 and set(stats["memory"]["offsets"]) >= {"hits", "decoded", "bytes"}


# Traversals.


@pytest.mark.parametrize("is_compact", [False, True])
def test_a_traversal_of_two_hops_finds_the_newest_likes(store: st.GraphStore, is_compact: bool) -> None:
    snapshot = settled(store, is_compact)
    likes = (
        snapshot.start("Person", keys=[10], name="author")
        .in_("HAS_CREATOR", "Post")
        .in_("LIKES", "Person", columns=["at"], name="fan")
        .top(2, by="at")
        .select(["fan.name", "at", "Post.content"])
    )
    rows = likes.to_arrow()
    assert [list(row.values()) for row in rows.to_pylist()] == [["Cy", at(4), "A"], ["Di", at(3), "B"]]
    assert isinstance(likes.to_pandas(), pd.DataFrame) and isinstance(likes.to_polars(), pl.DataFrame)
    assert likes.to_polars().height == 2
    assert pa.record_batch(likes).num_rows == 2
    oldest = snapshot.start("Person", [10]).in_("HAS_CREATOR").in_("LIKES", columns=["at"])
    assert oldest.top(1, "at", descending=False).select(["at"]).to_arrow()["at"].to_pylist() == [at(1)]


def test_without_select_a_traversal_says_where_it_went(store: st.GraphStore) -> None:
    rows = store.snapshot().start("Person", ids=[0, 1]).out(KNOWS, columns=["since"]).to_arrow()
    assert rows.num_rows == 4
    assert rows.column_names[:2] == ["position", "since"]
    assert rows["position"].to_pylist() == [0, 0, 0, 1]


def test_a_prepared_traversal_runs_from_any_vertices(store: st.GraphStore) -> None:
    friends = store.snapshot().start("Person").out("KNOWS").select(["name"]).prepare()
    assert friends(keys=[20])["name"].to_pylist() == ["Cy"]
    assert friends(ids=[3]).num_rows == 0
    assert sorted(friends([10])["name"].to_pylist()) == ["Bo", "Bo", "Cy"]
    assert friends.batch([20]).num_rows == 1


def test_a_traversal_is_explained(store: st.GraphStore) -> None:
    text = store.snapshot().start("Person", [10]).out("KNOWS", columns=["since"]).top(2, by="name").explain()
    assert "KNOWS" in text and "since" in text and "top 2" in text


def test_what_a_traversal_does_not_know_is_named(store: st.GraphStore) -> None:
    snapshot = store.snapshot()
    with pytest.raises(st.NotFoundError, match="KNWS"):
        snapshot.start("Person", [10]).out("KNWS").to_arrow()
    with pytest.raises(st.ColumnNotFoundError, match="nme"):
        snapshot.start("Person", [10]).out("KNOWS").select(["nme"]).to_arrow()
    with pytest.raises(st.ColumnNotFoundError, match="content"):
        snapshot.start("Post", ["a"]).out("HAS_CREATOR").select(["content"]).to_arrow()  # of the posts: Post.content
    with pytest.raises(st.NotFoundError, match="11"):
        snapshot.start("Person", [11]).out("KNOWS").to_arrow()
    with pytest.raises(TypeError, match="list"):
        snapshot.start("Person", 10).out("KNOWS").to_arrow()
    with pytest.raises(TypeError, match="keys"):
        snapshot.start("Person").out("KNOWS").to_arrow()


def test_a_warm_traversal_costs_microseconds(store: st.GraphStore, tmp_path: Path, cache: st.Cache) -> None:
    store.compact(force=True)
    settle(*[path for path in (tmp_path / "store").rglob("*") if path.is_file()])
    snapshot = st.GraphStore.open(tmp_path / "store", cache=cache).snapshot()

    def likes() -> pa.Table:
        return (
            snapshot.start("Person", keys=[10])
            .in_("HAS_CREATOR", "Post")
            .in_("LIKES", "Person", columns=["at"])
            .top(20, by="at")
            .select(["Person_2.name", "at", "Post.content"])
            .to_arrow()
        )

    assert likes().num_rows == 3
    took = []
    for _ in range(300):
        begin = time.perf_counter()
        likes()
        took.append(time.perf_counter() - begin)
    # Much more than it takes: test machines are shared, and uncached reads take milliseconds.
    assert sorted(took)[len(took) // 2] < 500e-6


# Versions.


def test_a_snapshot_never_changes(store: st.GraphStore) -> None:
    before = store.snapshot()
    with store.writer() as writer:
        writer.update_vertices("Person", {"id": [10], "name": ["Alma"]})
        writer.delete_vertices("Person", [20])
        writer.add_vertices("Person", [{"id": 50, "name": "Ed"}])
        writer.add_edges("KNOWS", {"src": [50], "dst": [10], "since": [5]})
        writer.delete_edges("KNOWS", {"src": [10], "dst": [30]})
    after = store.snapshot()
    for _ in range(2):
        assert before.vertices("Person", columns=["name"])["name"].to_pylist() == NAMES
        assert before.degrees("KNOWS", [0, 1, 2, 3]).to_pylist() == [3, 1, 0, 0]
        assert after.vertices("Person", columns=["name"])["name"].to_pylist() == ["Alma", "Cy", "Di", "Ed"]
        assert after.degrees("KNOWS", [0, 2, 3, 4]).to_pylist() == [0, 0, 0, 1]
        assert (after.vertex_count("Person"), after.index_count("Person"), after.edge_count("KNOWS")) == (4, 5, 1)
        with pytest.raises(st.NotFoundError, match="20"):
            after.vertices("Person", keys=[20])
        store.compact(force=True)
        after = store.snapshot()
    again = store.snapshot(before.version)
    assert again.vertices("Person", columns=["name"])["name"].to_pylist() == NAMES


def test_the_log_says_what_was_done(store: st.GraphStore) -> None:
    entries = store.log()
    assert [entry.operation for entry in entries] == ["create", "writer", "write"]
    assert [entry.version for entry in entries] == [0, 1, 2]
    assert (entries[-1].vertices, entries[-1].edges) == (7, 11)
    assert abs(entries[-1].time.timestamp() - time.time()) < 300
    assert store.snapshot().entry == entries[-1]


def test_another_opening_sees_versions_when_it_looks(store: st.GraphStore, tmp_path: Path, cache: st.Cache) -> None:
    other = st.GraphStore.open(tmp_path / "store", cache=cache)
    with store.writer() as writer:
        writer.add_vertices("Person", {"id": [50]})
    assert other.snapshot().vertex_count("Person") == 4
    assert other.refresh().vertex_count("Person") == 5
    assert other.version == store.version


def test_a_version_that_is_not_kept_is_not_found(store: st.GraphStore, tmp_path: Path) -> None:
    with pytest.raises(st.NotFoundError, match="99"):
        store.snapshot(99)
    with pytest.raises(st.NotFoundError, match="nothing"):
        st.GraphStore.open(tmp_path / "nothing")
    with pytest.raises(st.AlreadyExistsError):
        st.GraphStore.create(tmp_path / "store", SCHEMA)


# Writers.


def test_an_exception_rolls_back(store: st.GraphStore) -> None:
    version = store.version
    with pytest.raises(ZeroDivisionError), store.writer() as writer:
        writer.add_vertices("Person", {"id": [50]})
        assert writer.has_pending
        raise ZeroDivisionError
    assert not writer.has_pending
    assert store.snapshot().vertex_count("Person") == 4
    assert store.version == version + 1  # the writer's own


def test_rows_are_taken_together_or_not_at_all(store: st.GraphStore) -> None:
    with store.writer() as writer:
        assert writer.add_vertices("Person", {"id": [50, 60]}) == range(4, 6)
        for wrong, match in [
            ({"id": [70, 10]}, "id.*row 1.*10"),
            ({"id": [70, None]}, "row 1.*null"),
            ({"id": [70, 70]}, "row 1.*70"),
            ({"id": [70], "nme": ["x"]}, "nme"),
            ({"name": ["x"]}, "id"),
            ({"id": [70], "born": ["x"]}, "born"),
        ]:
            with pytest.raises(st.InvalidDataError, match=match):
                writer.add_vertices("Person", wrong)
        for ends, match in [((50, 99), "dst.*99"), ((99, 50), "src.*99")]:
            with pytest.raises(st.InvalidDataError, match=match):
                writer.add_edges("KNOWS", {"src": [10, ends[0]], "dst": [10, ends[1]]})
        assert writer.add_edges("KNOWS", {"src": [4], "dst": [5]}, by="index") == 1
        with pytest.raises(st.NotFoundError, match="Robot"):
            writer.add_vertices("Robot", {"id": [1]})
    snapshot = store.snapshot()
    assert (snapshot.vertex_count("Person"), snapshot.edge_count("KNOWS")) == (6, 5)
    assert snapshot.out_edges("KNOWS", key=50)["neighbor"].to_pylist() == [5]


def test_a_later_writer_fences_the_one_before(store: st.GraphStore) -> None:
    first = store.writer()
    first.add_vertices("Person", {"id": [50]})
    second = store.writer()
    assert second.epoch > first.epoch
    with pytest.raises(st.WriterFencedError, match="epoch"):
        first.commit()
    assert issubclass(st.WriterFencedError, st.ConflictError)
    second.add_vertices("Person", {"id": [50]})
    assert second.commit() == store.version
    assert store.snapshot().vertex_count("Person") == 5
    assert second.snapshot().version == second.commit()


def test_the_schema_grows(store: st.GraphStore) -> None:
    before = store.snapshot()
    with store.writer() as writer:
        cities = {"vertices": {"City": {"key": "name", "properties": {"name": "string"}}}}
        cities |= {"edges": {("Person", "LIVES_IN", "City"): {"since": "date"}}}
        tags, how = {"Person": {"tags": "list<string>"}}, {KNOWS: {"how": "string"}}
        writer.alter(cities, vertex_properties=tags, edge_properties=how)
        writer.add_vertices("City", {"name": ["Oslo"]})
        writer.add_edges("LIVES_IN", {"src": [10], "dst": ["Oslo"]})
        writer.update_vertices("Person", {"id": [20], "tags": [["a", "b"]]})
        writer.add_edges("KNOWS", {"src": [40], "dst": [10], "how": ["well"]})
    snapshot = store.snapshot()
    assert snapshot.start("City", ["Oslo"]).in_("LIVES_IN").select(["name"]).to_arrow()["name"].to_pylist() == ["Al"]
    assert snapshot.vertices("Person", columns=["tags"])["tags"].to_pylist() == [None, ["a", "b"], None, None]
    assert snapshot.edges("KNOWS", columns=["how"])["how"].to_pylist() == [None] * 4 + ["well"]
    assert before.schema == SCHEMA and "City" in snapshot.schema["vertices"]
    with store.writer() as writer:
        with pytest.raises(st.SchemaError, match="City"):
            writer.alter(cities)
        with pytest.raises(st.UnsupportedError, match="list<bool>"):
            writer.alter(vertex_properties={"Person": {"flags": "list<bool>"}})


@pytest.mark.parametrize(
    ("schema", "error", "match"),
    [
        ({"vertices": {"P": {"key": "id", "properties": {"id": "double"}}}}, st.SchemaError, "id"),
        ({"vertices": {"P": {"key": "id", "properties": {"x": "int64"}}}}, st.SchemaError, "id"),
        ({"vertices": {"P": {"key": "id", "properties": {"id": "number"}}}}, st.ConfigError, "number"),
        (
            {"vertices": {"P": {"key": "id", "properties": {"id": "int64", "days": "list<date>"}}}},
            st.UnsupportedError,
            "list<date>",
        ),
        (
            {"vertices": {"P": {"key": "id", "properties": {"id": "int64", "a##b": "string"}}}},
            st.UnsupportedError,
            "a##b",
        ),
        ({"vertices": {"P": {"properties": {"id": "int64"}}}}, TypeError, "key"),
        ({"vertices": {}, "edges": {"KNOWS": {}}}, TypeError, "KNOWS"),
        ({"vertices": {}, "edges": {KNOWS: {}}}, st.NotFoundError, "Person"),
        ({"vertexes": {}}, TypeError, "vertexes"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(
    tmp_path: Path, schema: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        st.GraphStore.create(tmp_path / "wrong", schema)
    assert not (tmp_path / "wrong" / "_log").exists()


# Loads.


def tables(folder: Path) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Returns vertices and edges in files and in memory."""
    people = pa.table({"id": range(1_000), "name": [f"person {n}" for n in range(1_000)]})
    pq.write_table(people, folder / "people.parquet")
    knows = pa.table({"a": [n for n in range(1_000)], "b": [n * 7 % 1_000 for n in range(1_000)]})
    (folder / "posts.csv").write_text("id|content\n" + "".join(f"p{n}|text {n}\n" for n in range(100)))
    creators = pl.DataFrame({"src": [f"p{n}" for n in range(100)], "dst": [n % 10 for n in range(100)]})
    vertices = {
        "Person": {"data": folder / "people.parquet", "key": "id"},
        "Post": {"data": folder / "posts.csv", "key": "id", "delimiter": "|"},
    }
    edges = {
        KNOWS: {"data": knows, "source": "a", "destination": "b", "by": "index"},
        ("Post", "HAS_CREATOR", "Person"): creators,
    }
    return vertices, edges


def test_a_load_makes_types_after_its_data(tmp_path: Path, cache: st.Cache) -> None:
    store = st.GraphStore.create(tmp_path / "store", cache=cache, durability="none", edge_chunk_size=128)
    told: list[tuple[int, int]] = []
    loaded = store.load(*tables(tmp_path), progress=lambda rows, bytes: told.append((rows, bytes)))
    assert (loaded.vertices, loaded.edges) == (1_100, 1_100) and loaded.bytes > 0
    assert told[-1][0] == 2_200
    snapshot = store.snapshot()
    assert snapshot.version == loaded.version and snapshot.entry.operation == "load"
    assert snapshot.schema["vertices"]["Post"] == {"key": "id", "properties": {"id": "string", "content": "string"}}
    assert snapshot.out_edges("KNOWS", 3)["neighbor"].to_pylist() == [21]
    posts = snapshot.start("Person", [7]).in_("HAS_CREATOR").select(["content"]).to_arrow()["content"].to_pylist()
    assert sorted(posts) == sorted(f"text {n}" for n in range(7, 100, 10))
    with store.writer() as writer:
        writer.add_edges("KNOWS", {"src": [3], "dst": [4]})
    assert sorted(store.snapshot().out_edges("KNOWS", 3)["neighbor"].to_pylist()) == [4, 21]
    assert store.verify().is_sound


def test_a_load_that_fails_leaves_what_was(store: st.GraphStore) -> None:
    before = store.snapshot()
    for edges, match in [
        ({KNOWS: {"src": [10], "dst": [11], "since": [1]}}, "dst.*11"),
        ({KNOWS: {"src": [10], "dst": [20], "until": [1]}}, "until"),
    ]:
        with pytest.raises(st.InvalidDataError, match=match):
            store.load(edges=edges)
    with pytest.raises(st.InvalidDataError, match="10"):
        store.load(vertices={"Person": {"id": [50, 10]}})
    with pytest.raises(st.SchemaError, match="key"):
        store.load(vertices={"Robot": {"id": [1]}})
    with pytest.raises(ZeroDivisionError):
        store.load(vertices={"Person": {"id": [50]}}, progress=lambda rows, bytes: 1 // 0)
    with pytest.raises(st.InvalidDataError, match="row 1: the key 1 is that of row 0 too"):
        store.load(vertices={"Robot": {"data": {"id": [1, 1]}, "key": "id"}})
    store.refresh()
    assert store.snapshot().schema == before.schema
    assert store.snapshot().edge_count("KNOWS") == before.edge_count("KNOWS")


# Maintenance.


def test_compaction_changes_no_answer(store: st.GraphStore) -> None:
    with store.writer() as writer:
        writer.delete_vertices("Person", [30])
        writer.update_vertices("Person", {"_index": [0], "name": [None]})
    before = store.snapshot()

    def answers(snapshot: st.Snapshot) -> list[Any]:
        return [
            snapshot.vertices("Person").to_pydict(),
            sorted(zip(*snapshot.edges("KNOWS").to_pydict().values())),
            sorted(snapshot.in_edges("KNOWS", 1)["since"].to_pylist()),
            snapshot.find("Person", [10, 30]).to_pylist(),
        ]

    done = store.compact(force=True)
    assert {one.type for one in done} >= {"Person", "Person_KNOWS_Person"}
    after = store.snapshot()
    assert after.version > before.version
    assert answers(after) == answers(before) == answers(store.snapshot(before.version))
    assert store.compact(force=True) == []
    assert after.verify().is_sound


def test_a_compaction_of_another_process_ends_beside_a_busy_writer(store: st.GraphStore, tmp_path: Path) -> None:
    script = "import sys, stylobate as st; print(len(st.GraphStore.open(sys.argv[1]).compact(force=True)))"
    command = [sys.executable, "-c", script, str(tmp_path / "store")]
    writer = store.writer()
    added = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as compacting:
        while compacting.poll() is None:
            writer.add_vertices("Person", {"id": [100 + added]})
            writer.add_edges("KNOWS", {"src": [100 + added], "dst": [10], "since": [added]})
            writer.commit()
            added += 1
        assert compacting.stdout is not None and compacting.stdout.read() == "5\n"

    assert compacting.returncode == 0
    snapshot = store.refresh()
    assert (snapshot.vertex_count("Person"), snapshot.edge_count("KNOWS")) == (4 + added, 4 + added)
    assert snapshot.in_edges("KNOWS", 0).num_rows == added
    assert store.verify().is_sound


def test_garbage_is_collected_but_not_what_a_snapshot_holds(store: st.GraphStore, tmp_path: Path) -> None:
    held = store.snapshot()
    store.compact(force=True)
    with store.writer() as writer:
        writer.add_edges("KNOWS", {"src": [30], "dst": [40]})
    store.compact(force=True)
    assert store.gc().versions == []
    would = store.gc(0, even_young=True, dry_run=True)
    gone = store.gc(timedelta(0), even_young=True)
    assert would == gone and gone.versions
    assert held.version not in gone.versions
    assert held.degrees("KNOWS", [0]).to_pylist() == [3]
    del held
    store.gc(0, even_young=True)
    assert st.GraphStore.open(tmp_path / "store").snapshot().edge_count("KNOWS") == 5
    assert store.verify().is_sound


def test_a_lost_file_is_named(store: st.GraphStore, tmp_path: Path) -> None:
    store.compact(force=True)
    lost = [path for path in (tmp_path / "store" / "edges").rglob("*") if path.is_file() and "KNOWS" in str(path)]
    for path in lost:
        path.unlink()
    with st.Cache(memory="16MiB") as cache:
        fresh = st.GraphStore.open(tmp_path / "store", cache=cache)
        with pytest.raises(st.StylobateError, match="KNOWS"):
            fresh.snapshot().out_edges("KNOWS", 0)
        flaws = fresh.verify().flaws
        assert flaws and any("KNOWS" in flaw for flaw in flaws)


def test_an_exported_version_is_a_graph(store: st.GraphStore, tmp_path: Path) -> None:
    with store.writer() as writer:
        writer.delete_vertices("Person", [20])
    written = store.export_graphar(tmp_path / "exported", "people")
    graph = st.open_graph(written.path)
    assert graph.vertices("Person").select(["name"]).to_arrow()["name"].to_pylist() == ["Al", "Cy", "Di"]
    assert graph.edges(*KNOWS).neighbors([0])["neighbor"].to_pylist() == [1]
    assert (written.vertices, written.edges) == (6, 6)


def test_prewarming_brings_columns_into_the_cache(store: st.GraphStore, tmp_path: Path) -> None:
    store.compact(force=True)
    settle(*[path for path in (tmp_path / "store").rglob("*") if path.is_file()])
    with st.Cache(memory="16MiB") as cache:
        fresh = st.GraphStore.open(tmp_path / "store", cache=cache)
        bytes, at_limit = fresh.prewarm({"KNOWS": ["since"], "Person": None})
        assert bytes > 0 and not at_limit
        misses = cache.stats()["misses"]
        assert fresh.snapshot().out_edges("KNOWS", key=10).num_rows == 3
        assert cache.stats()["misses"] == misses
        with pytest.raises(st.NotFoundError, match="Robot"):
            fresh.prewarm(["Robot"])
        with pytest.raises(st.NotFoundError, match="Robot"):
            st.GraphStore.open(tmp_path / "store", cache=cache, prewarm=["Robot"])
        with pytest.raises(st.ColumnNotFoundError, match="until"):
            st.GraphStore.open(tmp_path / "store", cache=cache, prewarm={"KNOWS": ["until"]})
        again = st.GraphStore.open(tmp_path / "store", cache=cache, prewarm=["KNOWS"], prewarm_limit="1MiB")
        assert again.snapshot().edge_count("KNOWS") == 4


# Threads and processes.


def test_threads_share_a_snapshot(store: st.GraphStore) -> None:
    store.compact(force=True)
    snapshot, failed = store.snapshot(), []

    def read() -> None:
        try:
            for _ in range(200):
                assert snapshot.out_edges("KNOWS", 0).num_rows == 3
                assert snapshot.start("Person", [10]).out("KNOWS").select(["name"]).to_arrow().num_rows == 3
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("work", ["load", "compact", "verify"])
def test_other_threads_run_during_long_work(tmp_path: Path, cache: st.Cache, work: str) -> None:
    store = st.GraphStore.create(tmp_path / "store", SCHEMA, cache=cache, durability="none")
    persons = pa.table({"id": range(100_000), "name": [str(person) for person in range(100_000)]})
    edges = {"src": [person * 7 % 100_000 for person in range(300_000)], "dst": [5] * 300_000}
    knows = pa.table(edges | {"since": range(300_000)})
    works = {
        "load": lambda: store.load({"Person": persons}, {KNOWS: knows}),
        "compact": lambda: store.compact(force=True),
        "verify": store.verify,
    }
    if work != "load":
        works["load"]()
    if work == "compact":
        with store.writer() as writer:
            writer.delete_vertices("Person", keys=[1, 2, 3])
    began, ended = threading.Event(), threading.Event()

    def run() -> None:
        began.set()
        works[work]()
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    ticks = 0
    while not ended.wait(0.002):
        ticks += 1
    thread.join()
    # A thread that waits for a lock held by the work ticks once or twice.
    assert ticks > 5


def test_a_forked_child_is_told_to_open_anew(store: st.GraphStore, tmp_path: Path) -> None:
    script = f"""
import os, sys
import stylobate as st
store = st.GraphStore.open({str(tmp_path / "store")!r})
snapshot = store.snapshot()
child = os.fork()
if child == 0:
    try:
        snapshot.out_edges("KNOWS", 0)
    except st.StylobateError as error:
        fresh = st.GraphStore.open({str(tmp_path / "store")!r}).snapshot()
        os._exit(0 if "forked" in str(error) and fresh.out_edges("KNOWS", 0).num_rows == 3 else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    assert subprocess.run([sys.executable, "-c", script], env=environment, timeout=60).returncode == 0


def test_without_pyarrow_answers_are_arrow_all_the_same(store: st.GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stylobate._optional.pyarrow_or_none", lambda: None)
    snapshot = store.snapshot()
    found = snapshot.out_edges("KNOWS", 0)
    assert isinstance(found, st.RecordBatch) and found.num_rows == 3
    assert pl.DataFrame(found)["neighbor"].to_list() == [1, 1, 2]
    assert snapshot.start("Person", [10]).out("KNOWS").to_arrow().num_rows == 3


# In a bucket.


@pytest.fixture
def bucket(origin: Origin, proxy: Proxy) -> Callable[[], dict[str, Any]]:
    """Returns the URL and the options of a store in a bucket. The tests' server refuses long keys."""
    options = origin_options(proxy.endpoint)
    return lambda: {"url": "s3://lake/gs", "storage_options": options}


def test_a_store_lives_in_a_bucket(
    bucket: Callable[[], dict[str, Any]], tmp_path: Path, cache: st.Cache, proxy: Proxy
) -> None:
    store = st.GraphStore.create(**bucket(), cache=cache)
    store.load(*tables(tmp_path))
    writer = store.writer()
    writer.add_edges("KNOWS", {"src": [3], "dst": [4]})
    before = proxy.count()
    writer.commit()
    assert proxy.count() - before == 1
    with st.Cache(memory="64MiB") as fresh:
        opened = st.GraphStore.open(**bucket(), cache=fresh)
        snapshot = opened.snapshot()
        assert sorted(snapshot.out_edges("KNOWS", 3)["neighbor"].to_pylist()) == [4, 21]
        posts = snapshot.start("Person", [7]).in_("HAS_CREATOR").select(["content"])
        assert posts.to_arrow().num_rows == 10
        warm = proxy.count()
        assert posts.to_arrow().num_rows == 10
        assert snapshot.edge_lookup("KNOWS", 3, 21).num_rows == 1
        assert sorted(snapshot.out_edges("KNOWS", 3)["neighbor"].to_pylist()) == [4, 21]
        assert proxy.count() == warm
        assert opened.verify().is_sound
    with pytest.raises(st.AlreadyExistsError):
        st.GraphStore.create(**bucket(), cache=cache)
