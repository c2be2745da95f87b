"""`write_graph`: output is read back unchanged by `open_graph`, by pyarrow and by the official package."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import stylobate as st

from graphar_oracle import (
    DESTINATION,
    INDEX,
    SOURCE,
    EdgeType,
    Oracle,
    assert_same,
    differences,
    groups,
    number,
    plain,
    prefix_of,
    property_names,
    values,
)
from graphar_random import FORMATS, LISTS, Made, made, rows
from proxy import Proxy
from servers import Origin, origin_options

# `make fuzz` runs more of them.
GRAPHS = int(os.environ.get("STYLOBATE_RANDOM_GRAPHS", "10"))
BLOCK = 10
TOLD = 5
OFFICIAL = Path(__file__).with_name("graphar_official.py")
HAS_OFFICIAL = importlib.util.find_spec("graphar") is not None
assert HAS_OFFICIAL or os.environ.get("CI") != "true", "the official package of GraphAr is not installed"
KNOWS = ("person", "knows", "person")
PEOPLE = pa.table({"id": [10, 20, 30, 40, 50], "name": ["Ada", None, "", "Ben", "Cid"]})

# Some of them look like another type, and some need quotes.
TEXTS = ["", None, "null", "NA", "007", "1.5", "true", " x ", "a,b", '"', '""', "l\nf", "cr\r\nlf", "\\", "\t", "🙂"]


def graph_file(folder: Path) -> Path:
    """Returns the file that describes the graph in a folder."""
    (found,) = folder.glob("*.graph.y*ml")
    return found


def knows(pairs: list[tuple[int, int]], **properties: Any) -> pa.Table:
    columns = [pa.array([pair[at] for pair in pairs], pa.int64()) for at in (0, 1)]
    return pa.table({"src": columns[0], "dst": columns[1]} | properties)


# Random graphs.


@pytest.mark.parametrize("first", range(0, GRAPHS, BLOCK))
@pytest.mark.parametrize("format", FORMATS)
def test_graphs_of_all_kinds_come_back(tmp_path: Path, first: int, format: str) -> None:
    told, written = [], []
    for seed in range(first, first + BLOCK):
        graph = made(seed, format)
        try:
            st.write_graph(tmp_path / str(seed), **graph.given())
            found = list(failures(graph, tmp_path / str(seed)))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        told += [f"{failure}\n  {graph}" for failure in found]
        written += [] if found else [graph_file(tmp_path / str(seed))]
    told += official_differences(written)
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])


def failures(graph: Made, folder: Path) -> Iterator[str]:
    """Yields the differences between a written graph and its input."""
    oracle = Oracle(graph_file(folder))
    ours = st.open_graph(oracle.path)
    for name, expected in graph.expected.items():
        for reader, found in (("pyarrow", oracle.vertices(name)), ("ours", ours.vertices(name).to_arrow())):
            # By default the key is in a group of its own, which comes first.
            same = sorted(found.column_names) == sorted(expected.column_names)
            found = found.select(expected.column_names) if same else found
            yield from (f"{reader}: {name}: {wrong}" for wrong in differences(found, expected))
        if oracle.labels(name) != graph.labels[name]:
            yield f"{name}: labels differ"
        for label, has in graph.labels[name].items():
            chosen = plain(ours.vertices(name).labels(any=[label]).to_arrow())[INDEX].to_pylist()
            if chosen != [at for at, holds in enumerate(has) if holds]:
                yield f"{name}: label {label} chooses {chosen}"
    for edge in graph.edges:
        if sorted(oracle.orders(edge)) != sorted(graph.edges[edge].options["lists"]):
            yield f"{edge}: lists {list(oracle.orders(edge))}"
        for order in oracle.orders(edge):
            wrong = [*list_failures(graph, oracle, edge, order), *reading_failures(oracle, ours, edge, order)]
            yield from (f"{edge} {order}: {found}" for found in wrong)


def list_failures(graph: Made, oracle: Oracle, edge: EdgeType, order: str) -> Iterator[str]:
    """Yields the errors in the files of a list, as pyarrow reads them."""
    made_edges = graph.edges[edge]
    found = oracle.edges(edge, order)
    if rows(found) != rows(made_edges.expected.select(found.column_names)):
        yield "other edges than were given"
    if oracle.edge_infos[edge].get("directed", True) != made_edges.options["directed"]:
        yield "directed differs"
    keys = found[SOURCE if order.endswith("source") else DESTINATION].to_pylist()
    size = graph.options["vertex_chunk_size"]
    if [sum(key // size == part for key in keys) for part in range(len(oracle.part_counts(edge, order)))] != (
        oracle.part_counts(edge, order)
    ):
        yield "counts of parts"
    if not order.startswith("ordered"):
        return
    if keys != sorted(keys):
        yield "not ordered"
    vertices = graph.vertices[edge[0] if order.endswith("source") else edge[2]].num_rows
    for part, offsets in enumerate(oracle.offsets(edge, order)):
        held = min(size, vertices - part * size)
        counts = [sum(key < part * size + at for key in keys if key // size == part) for at in range(held + 1)]
        if offsets[: held + 1] != counts or set(offsets[held + 1 :]) - {counts[-1]}:
            yield f"offsets of part {part} are {offsets[:9]}, not {counts[:9]}"


def reading_failures(oracle: Oracle, ours: Any, edge: EdgeType, order: str) -> Iterator[str]:
    """Yields the errors of our reader on a correct list."""
    expected = oracle.edges(edge, order)
    yield from differences(ours.edges(*edge, order=order).to_arrow(), expected)
    if not order.startswith("ordered"):
        return
    direction, far = ("out", DESTINATION) if order.endswith("source") else ("in", SOURCE)
    lists = oracle.rows_of(edge, order)
    names = property_names(oracle.edge_infos[edge])
    found = plain(ours.edges(*edge).neighbors(range(len(lists)), properties=names, direction=direction))
    wanted = expected.select([far, *names]).rename_columns(["neighbor", *names])
    yield from (f"neighbours: {wrong}" for wrong in differences(found.drop_columns(["position"]), wanted))
    if found["position"].to_pylist() != [at for at, own in enumerate(lists) for _ in own]:
        yield "positions of neighbours"
    if values(ours.edges(*edge).degrees(range(len(lists)), direction=direction)) != list(map(len, lists)):
        yield "degrees"


# The official package.


def official_differences(paths: list[Path]) -> Iterator[str]:
    """Yields the differences between the official package and pyarrow; none if the package is not installed."""
    if not HAS_OFFICIAL:
        return
    command = [sys.executable, str(OFFICIAL), *map(str, paths)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if process.returncode:
        yield f"the official package ended with {process.returncode}: {process.stderr[-2000:]}"
        return
    for path, found in zip(paths, json.loads(process.stdout), strict=True):
        yield from (f"official: {wrong} in {path.name}" for wrong in official_graph(Oracle(path), found))


def official_graph(oracle: Oracle, found: dict[str, Any]) -> Iterator[str]:
    if found["name"] != oracle.info["name"]:
        yield f"name {found['name']}"
    for type_, read in found["vertices"].items():
        table = oracle.vertices(type_)
        if read["count"] != table.num_rows:
            yield f"{read['count']} vertices of {type_}"
        for name, column in read["properties"].items():
            if column != spoken(table[name]):
                yield f"{type_}.{name}"
    for read in found["edges"]:
        edge = tuple(read["name"])
        assert set(read["lists"]) == set(oracle.orders(edge))
        for order, edges in read["lists"].items():
            table = oracle.edges(edge, order)
            if edges is None:
                continue
            ends = {SOURCE: edges["sources"], DESTINATION: edges["destinations"]}
            for name, column in (ends | edges["properties"]).items():
                if column != spoken(table[name]):
                    yield f"{edge} {order}: {name}"


def spoken(column: pa.ChunkedArray) -> list[Any]:
    """Returns values as the official package returns them: null strings are empty."""
    return pc.fill_null(column, "").to_pylist() if pa.types.is_string(column.type) else column.to_pylist()


@pytest.mark.skipif(not HAS_OFFICIAL, reason="the official package has no wheel for this machine")
def test_the_official_package_reads_most_of_the_lists(tmp_path: Path) -> None:
    paths = []
    for format in FORMATS:
        for seed in range(10):
            st.write_graph(tmp_path / format / str(seed), **made(seed, format).given())
            paths.append(graph_file(tmp_path / format / str(seed)))
    process = subprocess.run([sys.executable, str(OFFICIAL), *map(str, paths)], capture_output=True, check=True)
    lists = [
        read
        for graph in json.loads(process.stdout)
        for edge in graph["edges"]
        for read in edge["lists"].values()
    ]
    assert sum(read is not None for read in lists) > len(lists) / 2


def test_the_official_package_agrees_on_the_samples(samples: Path) -> None:
    for format in ("parquet", "orc"):
        path = samples / "graphar" / f"ldbc_sample/{format}/ldbc_sample.graph.yml"
        assert not list(official_differences([path]))


# Handwritten graphs.


@pytest.mark.parametrize("format", FORMATS)
def test_a_graph_without_anything_is_a_graph(tmp_path: Path, format: str) -> None:
    edges = {KNOWS: {"data": knows([]), "by": "key", "lists": LISTS}}
    vertices = {"person": {"data": PEOPLE.slice(0, 0), "key": "id"}}
    st.write_graph(tmp_path / "g", name="g", vertices=vertices, edges=edges, format=format)
    graph = st.open_graph(graph_file(tmp_path / "g"))
    assert graph.vertices("person").count == graph.edges(*KNOWS).count == 0
    assert plain(graph.vertices("person").to_arrow()).num_rows == 0
    assert values(graph.edges(*KNOWS).to_csr()[0]) == [0]
    assert plain(graph.edges(*KNOWS).neighbors([])).num_rows == 0
    assert not list(official_differences([graph_file(tmp_path / "g")]))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [1, 2, 1_000])
def test_vertices_without_edges_loops_and_parallel_edges(tmp_path: Path, format: str, size: int) -> None:
    pairs = [(30, 30), (30, 10), (30, 30), (10, 50), (30, 10), (50, 50)]
    edges = {KNOWS: {"data": knows(pairs, weight=[1.0, 2.0, 3.0, None, 5.0, 6.5], note=list("abcdef")), "by": "key"}}
    vertices = {"person": {"data": PEOPLE, "key": "id"}}
    options: dict[str, Any] = {"format": format, "vertex_chunk_size": size, "edge_chunk_size": size}
    st.write_graph(tmp_path / "g", name="g", vertices=vertices, edges=edges, **options)
    found = st.open_graph(graph_file(tmp_path / "g")).edges(*KNOWS)
    assert values(found.degrees(range(5))) == [1, 0, 4, 0, 1]
    assert values(found.degrees(range(5), direction="in")) == [2, 0, 2, 0, 2]
    loops = plain(found.neighbors([2], properties=["weight", "note"]))
    assert sorted(loops["neighbor"].to_pylist()) == [0, 0, 2, 2]
    assert dict(zip(loops["note"].to_pylist(), loops["weight"].to_pylist())) == {"a": 1.0, "b": 2.0, "c": 3.0, "e": 5.0}


def test_a_vertex_may_have_many_chunks_of_edges(tmp_path: Path) -> None:
    people = pa.table({"id": list(range(100))})
    pairs = [(7, at % 100) for at in range(5_000)] + [(at, 7) for at in range(100)]
    edges = {KNOWS: {"data": knows(pairs, at=list(range(len(pairs)))), "by": "index"}}
    options: dict[str, Any] = {"vertex_chunk_size": 10, "edge_chunk_size": 64}
    st.write_graph(tmp_path / "g", name="g", vertices={"person": people}, edges=edges, **options)
    found = st.open_graph(graph_file(tmp_path / "g")).edges(*KNOWS)
    everything = plain(found.neighbors([3, 7, 8], properties=["at"]))
    assert sorted(everything["at"].to_pylist()) == [*range(5_000), 5_003, 5_007, 5_008]
    assert values(found.degrees([7, 8])) == [5_001, 1]


@pytest.mark.parametrize("side", ["source", "dest"])
def test_lists_without_an_order_are_searched(tmp_path: Path, side: str) -> None:
    people = pa.table({"id": list(range(40))})
    pairs = [(at * 7 % 40, at * at % 23) for at in range(300)] + [(3, 3), (3, 3)]
    lists = [f"unordered_by_{side}"]
    edges = {KNOWS: {"data": knows(pairs, at=list(range(len(pairs)))), "by": "index", "lists": lists}}
    options: dict[str, Any] = {"vertex_chunk_size": 10, "edge_chunk_size": 16}
    st.write_graph(tmp_path / "g", name="g", vertices={"person": people}, edges=edges, **options)
    found = st.open_graph(graph_file(tmp_path / "g")).edges(*KNOWS)
    assert found.order == lists[0] and found.count == 302
    direction: Any = "out" if side == "source" else "in"
    own, far = (0, 1) if side == "source" else (1, 0)
    wanted = [3, 39, 3, *range(0, 40, 3)]
    expected = [(at, edge) for at, id in enumerate(wanted) for edge, pair in enumerate(pairs) if pair[own] == id]
    rows = plain(found.neighbors(wanted, properties=["at"], direction=direction))
    assert list(zip(rows["position"].to_pylist(), rows["at"].to_pylist())) == expected
    assert rows["neighbor"].to_pylist() == [pairs[edge][far] for _, edge in expected]
    degrees = [sum(pair[own] == id for pair in pairs) for id in range(40)]
    assert values(found.degrees(list(range(40)), direction=direction)) == degrees
    offsets, neighbours = (values(part) for part in found.to_csr(direction=direction))
    assert [end - start for start, end in zip(offsets, offsets[1:])] == degrees
    assert neighbours == [pair[far] for id in range(40) for pair in pairs if pair[own] == id]
    with pytest.raises(st.StylobateError, match="unordered_by_" + side):
        found.neighbors([1], direction="in" if direction == "out" else "out")


def test_a_matrix_is_as_wide_as_a_type_that_no_list_is_about(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("networkx")
    vertices = {"person": pa.table({"id": [1, 2]}), "post": pa.table({"id": [5, 6, 7, 8]})}
    likes = {"data": knows([(0, 1), (1, 0)]), "by": "index", "lists": ["ordered_by_source"]}
    st.write_graph(tmp_path / "g", name="g", vertices=vertices, edges={("person", "likes", "post"): likes})
    edges = st.open_graph(graph_file(tmp_path / "g")).edges("person", "likes", "post")
    assert edges.to_scipy_csr().shape == (2, 4)
    assert edges.to_networkx().number_of_nodes() == 6


def test_edges_keep_their_order_however_many_chunks_and_vertices_there_are(tmp_path: Path) -> None:
    people = pa.table({"id": list(range(200))})
    pairs = [(at, at * times % 200) for at in range(200) for times in range(1, 6)]
    edges = {KNOWS: {"data": knows(pairs, at=list(range(len(pairs)))), "by": "index"}}
    options: dict[str, Any] = {"vertex_chunk_size": 50, "edge_chunk_size": 3}
    st.write_graph(tmp_path / "g", name="g", vertices={"person": people}, edges=edges, **options)
    found = st.open_graph(graph_file(tmp_path / "g")).edges(*KNOWS)
    each = [found.neighbors([id], properties=["at"])["at"].to_pylist() for id in range(200)]
    for asked in ([*range(199, -1, -1)], [7, 3, 199, 100, 3, *range(0, 200, 2), 0]):
        at_once = found.neighbors(asked, properties=["at"])
        assert at_once["at"].to_pylist() == [at for id in asked for at in each[id]]


@pytest.mark.parametrize("format", FORMATS)
def test_texts_survive_every_format(tmp_path: Path, format: str) -> None:
    table = pa.table({"id": list(range(len(TEXTS))), "word": TEXTS})
    edges = {KNOWS: {"data": knows([(at, at) for at in range(len(TEXTS))], word=TEXTS), "by": "key"}}
    vertices = {"person": {"data": table, "key": "id", "groups": [["id"], ["word"]]}}
    given: dict[str, Any] = {"name": "g", "vertices": vertices, "edges": edges, "format": format}
    if format == "csv":
        # Alone in its file, a null would be an empty line, indistinguishable from an empty string.
        with pytest.raises(st.UnsupportedError, match="another format"):
            st.write_graph(tmp_path / "g", **given)
        return
    st.write_graph(tmp_path / "g", **given, vertex_chunk_size=4)
    graph = st.open_graph(graph_file(tmp_path / "g"))
    assert plain(graph.vertices("person").to_arrow())["word"].to_pylist() == TEXTS
    assert plain(graph.edges(*KNOWS).to_arrow())["word"].to_pylist() == TEXTS


@pytest.mark.parametrize("format", ["parquet", "orc", "csv"])
def test_floats_that_are_not_finite_survive(tmp_path: Path, format: str) -> None:
    floats = [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7976931348623157e308, None, 0.1]
    table = pa.table({"double": floats, "float": pa.array([0.1, None, math.nan, math.inf] * 2, pa.float32())})
    st.write_graph(tmp_path / "g", name="g", vertices={"person": table}, format=format)
    found = plain(st.open_graph(graph_file(tmp_path / "g")).vertices("person").to_arrow())
    for name in table.column_names:
        assert list(map(repr, found[name].to_pylist())) == list(map(repr, table[name].to_pylist()))


def test_any_arrow_data_is_taken(tmp_path: Path) -> None:
    edges = knows([(10, 20), (50, 30)])
    for at, wrap in enumerate([lambda table: table, lambda table: table.to_reader(1), pl.from_arrow]):
        vertices = {"person": {"data": wrap(PEOPLE), "key": "id"}}
        st.write_graph(tmp_path / str(at), name="g", vertices=vertices, edges={KNOWS: {"data": wrap(edges)}})
        graph = st.open_graph(graph_file(tmp_path / str(at)))
        assert plain(graph.vertices("person").to_arrow()).drop_columns([INDEX]).equals(PEOPLE)
        assert sorted(plain(graph.edges(*KNOWS).to_arrow())[DESTINATION].to_pylist()) == [1, 2]


@pytest.mark.parametrize("format", FORMATS)
def test_a_graph_that_was_read_is_written_in_another_format(tmp_path: Path, format: str, samples: Path) -> None:
    oracle = Oracle(samples / "graphar" / "ldbc_sample/parquet/ldbc_sample.graph.yml")
    graph = st.open_graph(oracle.path)
    people = graph.vertices("person").to_arrow(with_index=False)
    ends = {"source": SOURCE, "destination": DESTINATION, "by": "index"}
    edges = {KNOWS: {"data": graph.edges(*KNOWS), "directed": False, **ends}}
    options: dict[str, Any] = {"format": format, "vertex_chunk_size": 100, "edge_chunk_size": 1_000}
    vertices = {"person": {"data": people, "key": "id"}}
    st.write_graph(tmp_path / "g", name="copy", vertices=vertices, edges=edges, **options)
    copy = Oracle(graph_file(tmp_path / "g"))
    assert_same(oracle.vertices("person"), copy.vertices("person"))
    for order in ("ordered_by_source", "ordered_by_dest"):
        assert rows(copy.edges(KNOWS, order)) == rows(oracle.edges(KNOWS, order))
        assert_same(st.open_graph(copy.path).edges(*KNOWS, order=order).to_arrow(), copy.edges(KNOWS, order))
    # The official package infers CSV types, and takes these strings for times.
    assert format == "csv" or not list(official_differences([copy.path]))


def test_there_are_the_files_of_the_graph_and_no_others(tmp_path: Path) -> None:
    graph = made(3, "parquet")
    st.write_graph(tmp_path / "g", **graph.given())
    path = graph_file(tmp_path / "g")
    oracle = Oracle(path)
    expected = {path.name, *oracle.info.get("vertices", []), *oracle.info.get("edges", [])}
    for type_, info in oracle.vertex_infos.items():
        chunks = range(-(-oracle.vertex_count(type_) // info["chunk_size"]))
        parts = [prefix_of(group) for group in groups(info)] + (["labels/"] if info.get("labels") else [])
        expected |= {f"{info['prefix']}{part}chunk{at}" for part in parts for at in chunks}
        expected |= {f"{info['prefix']}vertex_count"}
    for edge, info in oracle.edge_infos.items():
        for order, adjacency in oracle.orders(edge).items():
            base = f"{info['prefix']}{adjacency.get('prefix', order + '/')}"
            expected |= {f"{base}vertex_count"}
            for part, count in enumerate(oracle.part_counts(edge, order)):
                expected |= {f"{base}edge_count{part}"}
                expected |= {f"{base}offset/chunk{part}"} if order.startswith("ordered") else set()
                for prefix in ["adj_list/", *(prefix_of(group) for group in groups(info))]:
                    chunks = range(-(-count // info["chunk_size"]))
                    expected |= {f"{base}{prefix}part{part}/chunk{at}" for at in chunks}
    found = {str(file.relative_to(path.parent)) for file in path.parent.rglob("*") if file.is_file()}
    assert found == expected
    assert all(number(file) >= 0 for file in path.parent.rglob("*_count*"))


def test_a_graph_is_written_to_s3(tmp_path: Path, origin: Origin, proxy: Proxy, prefix: str) -> None:
    options = origin_options(proxy.endpoint)
    vertices = {"person": {"data": PEOPLE, "key": "id"}}
    edges = {KNOWS: {"data": knows([(10, 20), (50, 30)])}}
    given: dict[str, Any] = {"name": "g", "vertices": vertices, "edges": edges, "storage_options": options}
    st.write_graph(f"s3://lake/{prefix}g", **given)
    with pytest.raises(st.AlreadyExistsError):
        st.write_graph(f"s3://lake/{prefix}g", **given)
    graph = st.open_graph(f"s3://lake/{prefix}g/g.graph.yml", storage_options=options)
    assert plain(graph.vertices("person").to_arrow()).drop_columns([INDEX]).equals(PEOPLE)
    assert sorted(plain(graph.edges(*KNOWS).to_arrow())[DESTINATION].to_pylist()) == [1, 2]
