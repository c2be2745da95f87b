"""Graphs in a bucket, in each of the formats: same contents as on the local disk, with each file requested once."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import stylobate as st

from graphar_oracle import assert_same, plain, values
from graphar_random import FORMATS as WRITTEN
from graphar_random import LISTS
from proxy import Proxy
from servers import ORIGIN_SECRET, Origin, origin_options
from test_graphar_raw import to_json

KNOWS = ("person", "knows", "person")
FILE = "ldbc_sample.graph.yml"
FORMATS = ["parquet", "orc", "csv", "json"]
ORDERED = ("ordered_by_source", "ordered_by_dest")
DIRECTIONS = ("out", "in")
# Enough memory for a first page of 1 MiB in flight for each of the files that are opened at once.
ROOM = "256MiB"


class Recorder(Proxy):
    """Records the requested objects and the number of requests of each."""

    def __init__(self, port: int, root: Path) -> None:
        super().__init__(port, root)
        self.asked: Counter[str] = Counter()
        self._asked_lock = threading.Lock()

    def key_lock(self, path: str) -> threading.Lock:
        with self._asked_lock:
            self.asked[path] += 1
        return super().key_lock(path)


@pytest.fixture(scope="module")
def recorder(origin: Origin) -> Iterator[Recorder]:
    with Recorder(origin.port, origin.root) as server:
        yield server


@pytest.fixture
def options(recorder: Recorder) -> dict[str, Any]:
    return origin_options(recorder.endpoint)


@pytest.fixture(scope="module", params=FORMATS)
def local(request: pytest.FixtureRequest, samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The social network on the local disk. JSON is converted from its Parquet files."""
    if request.param != "json":
        return samples / "graphar" / "ldbc_sample" / request.param
    folder = tmp_path_factory.mktemp("json") / "graph"
    shutil.copytree(samples / "graphar" / "ldbc_sample" / "parquet", folder, copy_function=shutil.copyfile)
    to_json(folder)
    return folder


@pytest.fixture(scope="module")
def bucket(local: Path, origin: Origin) -> str:
    """Returns the URL of the same graph in the bucket."""
    prefix = f"graph-{local.name}-{local.parent.name}"
    for path in local.rglob("*"):
        if path.is_file():
            origin.s3.put_object(Bucket="lake", Key=f"{prefix}/{path.relative_to(local)}", Body=path.read_bytes())
    return f"s3://lake/{prefix}"


@pytest.fixture
def graph(bucket: str, options: dict[str, Any]) -> Iterator[Any]:
    with st.Cache(memory=ROOM) as cache:
        yield st.open_graph(f"{bucket}/{FILE}", cache=cache, storage_options=options)


def lists(graph: Any) -> list[str]:
    return sorted(map(str, graph.edges(*KNOWS).adjacency_lists))


def everything(graph: Any) -> dict[str, pa.Table]:
    """Returns everything that can be read, in all ways."""
    people, edges = graph.vertices("person"), graph.edges(*KNOWS)
    everyone = range(people.count)
    found = {
        "vertices": people.to_arrow(),
        "some": people.select(["lastName"]).filter(st.col("gender") == "female").to_arrow(),
        "taken": people.take([902, 0, 450, 0]),
    }
    found |= {order: graph.edges(*KNOWS, order=order).to_arrow() for order in lists(graph)}
    for direction in DIRECTIONS:
        found[direction] = edges.neighbors(everyone, properties=["creationDate"], direction=direction)
        offsets, neighbours = map(values, edges.to_csr(direction=direction))
        found[f"csr {direction}"] = pa.table({"neighbours": neighbours})
        found[f"offsets {direction}"] = pa.table({"offsets": offsets})
        found[f"degrees {direction}"] = pa.table({"degrees": values(edges.degrees(everyone, direction=direction))})
    return {name: plain(table) for name, table in found.items()}


def test_a_graph_in_a_bucket_is_the_one_on_the_local_disk(graph: Any, local: Path) -> None:
    here = st.open_graph(local / FILE)
    assert (graph.name, graph.vertex_types, graph.edge_types) == (here.name, here.vertex_types, here.edge_types)
    assert lists(graph) == lists(here)
    found, expected = everything(graph), everything(here)
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert_same(found[name], table)
    assert found["vertices"].num_rows == 903
    assert {found[order].num_rows for order in lists(here)} == {6_626}
    assert found["out"].num_rows == found["in"].num_rows == 6_626


def test_all_formats_in_a_bucket_hold_the_same_graph(graph: Any, samples: Path) -> None:
    expected = everything(st.open_graph(samples / "graphar/ldbc_sample/parquet" / FILE))
    for name, table in everything(graph).items():
        assert_same(table, expected[name])


def files_of(local: Path) -> set[str]:
    return {str(path.relative_to(local)) for path in local.rglob("*") if path.is_file()}


def test_each_object_is_asked_for_once_however_much_is_read(graph: Any, recorder: Recorder, local: Path) -> None:
    recorder.asked.clear()
    first = everything(graph)
    asked = Counter(recorder.asked)
    assert set(asked.values()) == {1}, {name: count for name, count in asked.items() if count > 1}
    # All files of the graph, except for those that opening read and those of other graphs in the same folder.
    others = (".yml", "-date/", "-timestamp/", "feature/")
    expected = {name for name in files_of(local) if not any(other in name for other in others)}
    unread = {f"edge/person_knows_person/{order}/edge_count{part}" for order in ORDERED for part in range(10)}
    found = {path.split("/", 3)[3] for path in asked}
    assert found - unread == expected - unread
    recorder.asked.clear()
    for name, table in everything(graph).items():
        assert_same(table, first[name])
    assert not recorder.asked


def test_opening_asks_for_the_descriptions_only(
    bucket: str, options: dict[str, Any], cache: st.Cache, recorder: Recorder
) -> None:
    recorder.asked.clear()
    graph = st.open_graph(f"{bucket}/{FILE}", cache=cache, storage_options=options)
    graph.vertices("person").select(["id"])
    graph.edges(*KNOWS)
    names = Counter(path.rsplit("/", 1)[1] for path in recorder.asked.elements())
    assert names == {FILE: 1, "person.vertex.yml": 1, "person_knows_person.edge.yml": 1}


def test_neighbours_of_one_vertex_ask_for_what_they_need_of_its_part(
    graph: Any, recorder: Recorder, local: Path
) -> None:
    wanted = plain(st.open_graph(local / FILE).edges(*KNOWS).neighbors([201], properties=["creationDate"]))
    assert wanted.num_rows > 0
    recorder.asked.clear()
    assert_same(graph.edges(*KNOWS).neighbors([201], properties=["creationDate"]), wanted)
    folder = "edge/person_knows_person/ordered_by_source"
    names = Counter(path.split("/", 3)[3] for path in recorder.asked.elements())
    assert names == Counter([
        "vertex/person/vertex_count",
        f"{folder}/vertex_count",
        f"{folder}/offset/chunk2",
        f"{folder}/adj_list/part2/chunk0",
        f"{folder}/creationDate/part2/chunk0",
    ])


@pytest.mark.parametrize("name", ["vertex/person/id/chunk3", "ordered_by_source/adj_list/part5/chunk0"])
def test_what_is_missing_in_a_bucket_is_named(
    bucket: str, options: dict[str, Any], origin: Origin, cache: st.Cache, name: str
) -> None:
    prefix = bucket.removeprefix("s3://lake/")
    key = f"{prefix}/{name}" if name.startswith("vertex") else f"{prefix}/edge/person_knows_person/{name}"
    body = origin.s3.get_object(Bucket="lake", Key=key)["Body"].read()
    origin.s3.delete_object(Bucket="lake", Key=key)
    try:
        graph = st.open_graph(f"{bucket}/{FILE}", cache=cache, storage_options=options)
        with pytest.raises(st.NotFoundError, match=name) as caught:
            everything(graph)
        assert ORIGIN_SECRET not in str(caught.value)
    finally:
        origin.s3.put_object(Bucket="lake", Key=key, Body=body)


@pytest.mark.parametrize("format", WRITTEN)
def test_a_graph_is_written_into_a_bucket_as_onto_the_local_disk(
    format: str, tmp_path: Path, options: dict[str, Any], prefix: str, samples: Path
) -> None:
    given = st.open_graph(samples / "graphar/ldbc_sample/parquet" / FILE)
    people = plain(given.vertices("person").to_arrow(with_index=False))
    edges = plain(given.edges(*KNOWS).to_arrow()).rename_columns(["src", "dst", "creationDate"])
    written: dict[str, Any] = {
        "name": "ldbc_sample",
        "vertices": {"person": {"data": people, "key": "id"}},
        "edges": {KNOWS: {"data": edges, "by": "index", "directed": False, "lists": LISTS}},
        "format": format,
        "vertex_chunk_size": 300,
        "edge_chunk_size": 1_000,
    }
    st.write_graph(tmp_path / "g", **written)
    url = f"s3://lake/{prefix}g"
    st.write_graph(url, storage_options=options, **written)
    found = everything(st.open_graph(f"{url}/{FILE}", storage_options=options))
    expected = everything(st.open_graph(tmp_path / "g" / FILE))
    for name, table in expected.items():
        assert_same(found[name], table)
    assert expected["vertices"].drop_columns(["_graphArVertexIndex"]).select(people.column_names).equals(people)
    with pytest.raises(st.AlreadyExistsError):
        st.write_graph(url, storage_options=options, **written)


# Folders.


@pytest.fixture(params=["local", "bucket"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "graphs") if request.param == "local" else f"s3://lake/{tmp_path.name}/graphs"


def write(folder: str, name: str, options: dict[str, Any]) -> None:
    people = {"data": pa.table({"id": [1, 2, 3]}), "key": "id"}
    st.write_graph(folder, name=name, vertices={"person": people}, storage_options=bucket_only(folder, options))


def bucket_only(folder: str, options: dict[str, Any]) -> dict[str, Any] | None:
    return options if folder.startswith("s3:") else None


def test_a_folder_stands_for_the_only_graph_in_it(folder: str, options: dict[str, Any]) -> None:
    write(f"{folder}/one", "one", options)
    for place in (f"{folder}/one", f"{folder}/one/", f"{folder}/one/one.graph.yml"):
        graph = st.open_graph(place, storage_options=bucket_only(folder, options))
        assert (graph.name, graph.vertices("person").count) == ("one", 3)


def test_a_folder_of_none_or_several_graphs_is_refused(
    folder: str, options: dict[str, Any], origin: Origin, tmp_path: Path
) -> None:
    given = bucket_only(folder, options)
    write(f"{folder}/one", "one", options)
    no_graph = r"graphs: this folder holds no graph: no file there ends in \.graph\.yml"
    with pytest.raises(st.NotFoundError, match=no_graph):
        st.open_graph(folder, storage_options=given)
    with pytest.raises(st.NotFoundError, match="graphs/two: there is no such file"):
        st.open_graph(f"{folder}/two", storage_options=given)
    if given is None:
        (tmp_path / "graphs/empty").mkdir()
        with pytest.raises(st.NotFoundError, match="graphs/empty: this folder holds no graph"):
            st.open_graph(f"{folder}/empty")
        (tmp_path / "graphs/one/two.graph.yml").write_text("name: two\n")
    else:
        key = f"{tmp_path.name}/graphs/one/two.graph.yml"
        origin.s3.put_object(Bucket="lake", Key=key, Body=b"name: two\n")
    with pytest.raises(st.NotFoundError, match=r"one: name one of one\.graph\.yml, two\.graph\.yml"):
        st.open_graph(f"{folder}/one", storage_options=given)
