"""`GraphStore` under any memory limit, after a kill, and in a bucket with two writers; each base is a graph."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import stylobate as st

from conftest import settle
from proxy import Proxy
from servers import Origin, origin_options

KNOWS = ("Person", "KNOWS", "Person")
SCHEMA = {
    "vertices": {"Person": {"key": "id", "properties": {"id": "int64", "name": "string"}}},
    "edges": {KNOWS: {"since": "int64"}},
}
PERSONS = 60


def lived_in(path: Path, cache: st.Cache) -> st.GraphStore:
    """A base, commits in the log and in files, updates and deletions; parallel edges, and loops."""
    store = st.GraphStore.create(
        path, SCHEMA, cache=cache, durability="none", vertex_chunk_size=16, edge_chunk_size=32, inline_limit=1_500
    )
    names = [f"person {n}" for n in range(PERSONS)]
    edges = [(n, n * 7 % PERSONS) for n in range(PERSONS)] * 2 + [(n, n) for n in range(0, PERSONS, 5)]
    knows = {"src": [a for a, _ in edges], "dst": [b for _, b in edges], "since": range(len(edges))}
    store.load({"Person": {"id": range(PERSONS), "name": names}}, {KNOWS: knows})
    with store.writer() as writer:
        writer.delete_vertices("Person", [11, 12])
        writer.delete_edges("KNOWS", {"src": [5, 6], "dst": [5, 42]})
        writer.update_vertices("Person", {"id": [1, 2], "name": ["one", None]})
    with store.writer() as writer:
        writer.add_vertices("Person", {"id": range(100, 200), "name": ["new"] * 100})
        writer.add_edges("KNOWS", {"src": [1] * 150, "dst": [100] * 150, "since": range(150)})
        writer.add_edges("KNOWS", {"src": [100], "dst": [100], "since": [-1]})
    return store


def answers(snapshot: st.Snapshot) -> dict[str, Any]:
    """Returns the contents of a version, queried in every way."""
    persons = snapshot.vertices("Person").to_pydict()
    everyone, keys = persons["_index"], persons["id"]
    hops = snapshot.start("Person", [1, 7]).out("KNOWS", columns=["since"], name="friend").in_("KNOWS", name="other")
    lookups = [snapshot.edge_lookup("KNOWS", a, b)["since"].to_pylist() for a in everyone[:9] for b in everyone[:9]]
    return {
        "persons": persons,
        "by key": snapshot.vertices("Person", keys=keys[::-1]).to_pydict(),
        "found": snapshot.find("Person", [*keys, 11, -1]).to_pylist(),
        "edges": Counter(zip(*snapshot.edges("KNOWS").to_pydict().values())),
        "some edges": Counter(snapshot.edges("KNOWS", filter=st.col("since") < 9)["since"].to_pylist()),
        "out": snapshot.expand("KNOWS", everyone).to_pydict(),
        "in": snapshot.expand("KNOWS", everyone, direction="in", columns=[]).to_pydict(),
        "out of one": snapshot.out_edges("KNOWS", key=1).to_pydict(),
        "degrees": snapshot.degrees("KNOWS", everyone, direction="in").to_pylist(),
        "lookups": lookups,
        "hops": hops.top(50, by="since").select(["since", "friend.name", "other.name"]).to_arrow().to_pydict(),
    }


def test_without_memory_for_a_cache_all_answers_are_the_same(tmp_path: Path, cache: st.Cache) -> None:
    expected = answers(lived_in(tmp_path / "store", cache).snapshot())
    assert len(expected["persons"]["id"]) == PERSONS - 2 + 100
    assert sum(expected["edges"].values()) == len(expected["out"]["position"]) == len(expected["in"]["position"])
    assert expected["out of one"]["since"].count(None) == 0 and len(expected["out of one"]["neighbor"]) == 152
    settle(*[path for path in (tmp_path / "store").rglob("*") if path.is_file()])
    for memory in ["0B", "300kB", "64MiB"]:
        with st.Cache(memory=memory) as other:
            store = st.GraphStore.open(tmp_path / "store", cache=other)
            for _ in range(2):
                assert answers(store.snapshot()) == expected, memory
            assert store.verify().is_sound


def test_compaction_and_time_travel_change_no_answer_of_any_version(tmp_path: Path, cache: st.Cache) -> None:
    store = lived_in(tmp_path / "store", cache)
    versions = [entry.version for entry in store.log() if entry.vertices]
    before = {version: answers(store.snapshot(version)) for version in versions}
    done = store.compact(force=True)
    assert {one.type for one in done} == {"Person", "Person_KNOWS_Person"} and all(one.rewritten for one in done)
    last = answers(store.snapshot())
    # A vertex's rows come part by part: within one base they are in the order of neighbors.
    assert last["edges"] == before[versions[-1]]["edges"] and last["persons"] == before[versions[-1]]["persons"]
    with st.Cache(memory="16MiB") as other:
        opened = st.GraphStore.open(tmp_path / "store", cache=other)
        for version in versions:
            assert answers(opened.snapshot(version)) == before[version]


def test_each_base_is_a_graph_that_opens_by_itself(tmp_path: Path, cache: st.Cache) -> None:
    store = lived_in(tmp_path / "store", cache)
    store.compact(force=True)
    store.gc(0, even_young=True)
    snapshot = store.snapshot()
    found = {path.parent.parent.name: path for path in (tmp_path / "store").glob("*/*/*.graph.yml")}
    assert set(found) == {"vertices", "edges"}
    persons = st.open_graph(found["vertices"]).vertices("Person").select(["id", "name"]).to_arrow()
    kept = snapshot.vertices("Person").to_pydict()
    names = dict(zip(persons["id"].to_pylist(), persons["name"].to_pylist()))
    assert {key: names[key] for key in kept["id"]} == dict(zip(kept["id"], kept["name"]))
    edges = st.open_graph(found["edges"]).edges(*KNOWS)
    whole = snapshot.edges("KNOWS").to_pydict()
    read = edges.to_arrow().to_pydict()
    ends = [name for name in read if name != "since"]
    assert Counter(zip(*(read[name] for name in [*ends, "since"]))) == Counter(zip(*whole.values()))
    around = edges.neighbors([1])["neighbor"].to_pylist()
    assert sorted(around) == sorted(snapshot.out_edges("KNOWS", 1)["neighbor"].to_pylist())


COMMITS = """
import sys
import stylobate as st
store = st.GraphStore.open(sys.argv[1], inline_limit=int(sys.argv[2]))
writer = store.writer()
for n in range(100_000):
    writer.add_vertices("Person", {"id": [2 * n, 2 * n + 1]})
    writer.add_edges("KNOWS", {"src": [2 * n], "dst": [2 * n + 1], "since": [n]})
    print(writer.commit(), flush=True)
    if n % 7 == 6:
        store.compact(force=True)
"""


@pytest.mark.parametrize("inline", [1 << 16, 0])
def test_whoever_is_killed_leaves_whole_commits(tmp_path: Path, inline: int) -> None:
    st.GraphStore.create(tmp_path / "store", SCHEMA, durability="none")
    told = 0
    for commits in [1, 9, 16]:
        command = [sys.executable, "-c", COMMITS.replace("range(100_000)", f"range({told}, 100_000)")]
        process = subprocess.Popen(
            [*command, str(tmp_path / "store"), str(inline)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(commits):
            assert process.stdout.readline().strip().isdigit()
        process.kill()
        assert process.wait() == -signal.SIGKILL
        told += commits + len(process.stdout.readlines())
        process.stdout.close()
        with st.Cache(memory="16MiB") as cache:
            store = st.GraphStore.open(tmp_path / "store", cache=cache)
            snapshot = store.snapshot()
            done = snapshot.edge_count("KNOWS")
            # One commit may have been made without being acknowledged.
            assert done in (told, told + 1) and snapshot.vertex_count("Person") == 2 * done
            pairs = sorted(zip(*snapshot.edges("KNOWS").to_pydict().values()))
            assert pairs == [(2 * n, 2 * n + 1, n) for n in range(done)]
            assert store.verify().is_sound
            told = done


def test_readers_in_threads_see_whole_commits(tmp_path: Path, cache: st.Cache) -> None:
    store = st.GraphStore.create(tmp_path / "store", SCHEMA, cache=cache, durability="none")
    wrong: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        last = 0
        while not stop.is_set():
            snapshot = store.snapshot()
            persons, edges = snapshot.vertices("Person").num_rows, snapshot.edges("KNOWS").num_rows
            again = (snapshot.vertex_count("Person"), snapshot.edge_count("KNOWS"))
            if persons != 2 * edges or again != (persons, edges) or snapshot.version < last:
                wrong.append((snapshot.version, persons, edges, again))
            last = snapshot.version

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    writer = store.writer()
    for n in range(40):
        writer.add_vertices("Person", {"id": [2 * n, 2 * n + 1]})
        writer.add_edges("KNOWS", {"src": [2 * n], "dst": [2 * n + 1]})
        writer.commit()
        if n % 9 == 8:
            store.compact(force=True)
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong and store.snapshot().edge_count("KNOWS") == 40


# In a bucket.


@pytest.fixture
def bucket(origin: Origin, proxy: Proxy, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Returns the URL and the options of a store of this test alone, in a bucket."""
    options = origin_options(proxy.endpoint)
    return {"url": f"s3://lake/{zlib.crc32(request.node.name.encode())}", "storage_options": options}


def test_writers_that_race_in_a_bucket_never_both_commit_a_version(bucket: dict[str, Any], cache: st.Cache) -> None:
    store = st.GraphStore.create(**bucket, schema=SCHEMA, cache=cache)
    committed: list[tuple[int, int]] = []
    failed: list[BaseException] = []

    def write(task: int) -> None:
        try:
            opened = st.GraphStore.open(**bucket, cache=cache)
            for round in range(6):
                writer = opened.writer()
                key = task * 100 + round
                writer.add_vertices("Person", {"id": [key]})
                try:
                    committed.append((writer.commit(), key))
                except st.WriterFencedError:
                    pass
        except BaseException as error:
            failed.append(error)

    tasks = [threading.Thread(target=write, args=(task,)) for task in range(3)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert not failed and committed
    assert len({version for version, _ in committed}) == len(committed)
    snapshot = store.refresh()
    assert sorted(snapshot.vertices("Person")["id"].to_pylist()) == sorted(key for _, key in committed)
    entries = store.log()
    assert [entry.version for entry in entries] == list(range(len(entries)))
    assert all(before.epoch <= after.epoch for before, after in zip(entries, entries[1:]))


def test_all_upkeep_is_done_in_a_bucket(bucket: dict[str, Any], cache: st.Cache, tmp_path: Path) -> None:
    store = st.GraphStore.create(**bucket, schema=SCHEMA, cache=cache, inline_limit=0)
    with store.writer() as writer:
        writer.add_vertices("Person", {"id": range(50), "name": [str(n) for n in range(50)]})
        writer.add_edges("KNOWS", {"src": range(50), "dst": [n * 3 % 50 for n in range(50)], "since": range(50)})
    with store.writer() as writer:
        writer.delete_vertices("Person", [9])
    before = store.snapshot()
    expected = Counter(zip(*before.edges("KNOWS").to_pydict().values()))
    assert len(expected) == 48
    assert {one.type for one in store.compact(force=True)} == {"Person", "Person_KNOWS_Person"}
    assert Counter(zip(*store.snapshot().edges("KNOWS").to_pydict().values())) == expected
    # Versions that a writer builds on are kept too.
    del before, writer
    gone = store.gc(0, even_young=True)
    assert gone.versions and gone.files >= 3
    with st.Cache(memory="16MiB") as fresh:
        opened = st.GraphStore.open(**bucket, cache=fresh)
        assert [entry.operation for entry in opened.log()] == ["compact"]
        assert opened.verify().is_sound
        assert Counter(zip(*opened.snapshot().edges("KNOWS").to_pydict().values())) == expected
        written = opened.export_graphar(tmp_path / "exported", "people")
        assert (written.vertices, written.edges) == (49, 48)


def test_a_warm_question_asks_the_bucket_nothing_and_prewarming_asks_once(
    bucket: dict[str, Any], cache: st.Cache, proxy: Proxy
) -> None:
    store = st.GraphStore.create(**bucket, schema=SCHEMA, cache=cache)
    persons = {"id": range(500), "name": [str(n) for n in range(500)]}
    store.load({"Person": persons}, {KNOWS: pa.table({"src": range(500), "dst": range(500), "since": range(500)})})
    with st.Cache(memory="64MiB") as fresh:
        opened = st.GraphStore.open(**bucket, cache=fresh)
        assert not opened.prewarm(["Person", KNOWS])[1]
        warm = proxy.count()
        for _ in range(2):
            snapshot = opened.snapshot()
            assert snapshot.edge_lookup("KNOWS", 3, 3)["since"].to_pylist() == [3]
            assert snapshot.in_edges("KNOWS", key=8).to_pydict() == {"neighbor": [8], "since": [8]}
            assert snapshot.vertices("Person", keys=[4])["name"].to_pylist() == ["4"]
            named = snapshot.start("Person", [5]).out("KNOWS").select(["name"]).to_arrow()
            assert named["name"].to_pylist() == ["5"]
            opened.prewarm(["Person", KNOWS])
        assert proxy.count() == warm
