"""Output of `write_graph` with the smallest chunks and the most unusual edges, as the official package reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, SOURCE, plain
from graphar_random import FORMATS, LISTS
from test_graphar_write import HAS_OFFICIAL, KNOWS, graph_file

PARTS = Path(__file__).with_name("graphar_official_parts.py")
# Chunk sizes of vertices and of edges.
SIZES = [(1, 1), (2, 2), (3, 3), (1, 3), (50, 1)]
Written: TypeAlias = "list[tuple[tuple[int, int], Path, dict[str, Any]]]"
LIKES = ("person", "likes", "post")
PEOPLE = pa.table({"id": list(range(10, 80, 10)), "name": ["Ada", "", "Ben", "Cid", "ü", "a,b", "Eva"]})
POSTS = pa.table({"id": [5, 6, 7], "text": ["x y", 'q"u', "it's"]})
# Loops, double and triple edges, edges in both directions between two vertices, and vertices without edges: 1, 3 and 5.
PAIRS = [(0, 0), (0, 2), (2, 0), (2, 2), (2, 2), (2, 4), (2, 4), (2, 4), (6, 0), (4, 6), (6, 6)]
# As passed in: not in the order of any list.
SHUFFLED = [PAIRS[at * 7 % len(PAIRS)] for at in range(len(PAIRS))]
GIVEN = [(3, 2), (0, 2), (0, 0), (3, 2)]

pytestmark = pytest.mark.skipif(not HAS_OFFICIAL, reason="the official package has no wheel for this machine")


def edges_of(pairs: list[tuple[int, int]], kind: str) -> pa.Table:
    """Returns edges by index; each has a distinct weight and note."""
    count = len(pairs)
    return pa.table({
        "src": pa.array([pair[0] for pair in pairs], pa.int64()),
        "dst": pa.array([pair[1] for pair in pairs], pa.int64()),
        "weight": pa.array([1_000 + at for at in range(count)], pa.int64()),
        "note": pa.array([f"{kind} no {at}" for at in range(count)], pa.string()),
        "share": pa.array([at / 8 for at in range(count)], pa.float64()),
    })


def write(folder: Path, sizes: tuple[int, int], format: str, empty: bool = False) -> Path:
    """Writes the graph of people and posts in all lists; one edge type is directed, and the other is not."""
    few = 0 if empty else None
    vertices = {
        "person": {"data": PEOPLE.slice(0, few), "key": "id"},
        "post": {"data": POSTS.slice(0, few), "key": "id"},
    }
    given = {KNOWS: (SHUFFLED, False), LIKES: (GIVEN, True)}
    edges = {
        name: {"data": edges_of(pairs[:few], name[1]), "by": "index", "lists": LISTS, "directed": directed}
        for name, (pairs, directed) in given.items()
    }
    options = {"vertex_chunk_size": sizes[0], "edge_chunk_size": sizes[1], "format": format}
    st.write_graph(folder, name="small", vertices=vertices, edges=edges, **options)
    return graph_file(folder)


def officially(paths: list[Path]) -> list[dict[str, Any]]:
    """Returns the graphs as the official package reads them."""
    done = subprocess.run([sys.executable, str(PARTS), *map(str, paths)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns ends, weight and note: the types that the official package supports."""
    names = [*table.column_names[:2], "weight", "note"]
    return list(zip(*(table[name].to_pylist() for name in names)))


def edge_differences(path: Path, read: dict[str, Any], given: list[tuple[Any, ...]]) -> Iterator[str]:
    """Yields the edges that the official package reads differently, or finds at other positions than we do."""
    edges = st.open_graph(path).edges(*read["name"])
    if read["lists"].keys() != set(LISTS):
        yield f"lists {list(read['lists'])}"
    for order, found in read["lists"].items():
        ours = rows_of(plain(st.open_graph(path).edges(*read["name"], order=order).to_arrow()))
        theirs = [tuple(row) for part in found["parts"] for row in part]
        if Counter(theirs) != Counter(given):
            yield f"{order}: other edges than were given"
        if theirs != ours:
            yield f"{order}: in another order than ours"
        if found["count"] != len(given):
            yield f"{order}: {found['count']} edges"
        if not order.startswith("ordered"):
            continue
        own, direction = (0, "out") if order.endswith("source") else (1, "in")
        near = plain(edges.neighbors(range(found["vertices"]), properties=["weight", "note"], direction=direction))
        walked = list(zip(*(column.to_pylist() for column in near.columns)))
        for vertex, rows in enumerate(found["of_vertices"]):
            if [tuple(row) for row in rows] != [row for row in ours if row[own] == vertex]:
                yield f"{order}: edges of vertex {vertex}: {rows}"
            if [(vertex, row[1 - own], *row[2:]) for row in rows] != [row for row in walked if row[0] == vertex]:
                yield f"{order}: our neighbours of vertex {vertex} differ"


@pytest.fixture(scope="module", params=FORMATS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The graph in one of the formats and chunks of each of the sizes, and as the official package reads it."""
    folder = tmp_path_factory.mktemp(request.param)
    paths = [write(folder / str(at), sizes, request.param) for at, sizes in enumerate(SIZES)]
    return list(zip(SIZES, paths, officially(paths), strict=True))


def test_chunks_of_any_size_hold_for_others_the_edges_that_were_given(written: Written) -> None:
    given = {KNOWS: rows_of(edges_of(SHUFFLED, "knows")), LIKES: rows_of(edges_of(GIVEN, "likes"))}
    told = []
    for sizes, path, read in written:
        assert [tuple(edge["name"]) for edge in read["edges"]] == [KNOWS, LIKES]
        assert [edge["directed"] for edge in read["edges"]] == [False, True]
        for edge in read["edges"]:
            told += [f"{sizes} {wrong}" for wrong in edge_differences(path, edge, given[tuple(edge["name"])])]
    assert not told, told[:5]


def test_chunks_of_any_size_hold_for_others_the_vertices_that_were_given(written: Written) -> None:
    for _, _, read in written:
        assert read["name"] == "small"
        for type_, table in (("person", PEOPLE), ("post", POSTS)):
            assert read["vertices"][type_] == {"count": table.num_rows, "properties": table.to_pydict()}


def test_all_properties_stay_with_their_edges_in_every_list(written: Written) -> None:
    given = edges_of(SHUFFLED, "knows").rename_columns([SOURCE, DESTINATION, "weight", "note", "share"])
    expected = Counter(zip(*(column.to_pylist() for column in given.columns)))
    for sizes, path, _ in written:
        graph = st.open_graph(path)
        assert [edge["directed"] for edge in graph.info()["edges"]] == [False, True]
        for order in LISTS:
            found = plain(graph.edges(*KNOWS, order=order).to_arrow()).select(given.column_names)
            assert Counter(zip(*(column.to_pylist() for column in found.columns))) == expected, (sizes, order)


@pytest.mark.parametrize("format", FORMATS)
def test_a_graph_without_anything_is_one_for_others(tmp_path: Path, format: str) -> None:
    paths = [write(tmp_path / str(size), (size, size), format, empty=True) for size in (1, 3)]
    for read in officially(paths):
        assert {name: found["count"] for name, found in read["vertices"].items()} == {"person": 0, "post": 0}
        for edge in read["edges"]:
            assert edge["lists"].keys() == set(LISTS)
            for found in edge["lists"].values():
                assert (found["vertices"], found["count"], found["parts"]) == (0, 0, [])


@pytest.mark.parametrize("format", FORMATS)
def test_vertices_without_any_edges_have_none_for_others(tmp_path: Path, format: str) -> None:
    vertices = {"person": {"data": PEOPLE, "key": "id"}}
    paths = []
    for size in (1, 3):
        edges = {KNOWS: {"data": edges_of([], "knows"), "by": "index", "lists": LISTS}}
        options = {"vertex_chunk_size": size, "edge_chunk_size": size, "format": format}
        st.write_graph(tmp_path / str(size), name="lonely", vertices=vertices, edges=edges, **options)
        paths.append(graph_file(tmp_path / str(size)))
    for size, read in zip((1, 3), officially(paths), strict=True):
        assert read["vertices"]["person"]["properties"] == PEOPLE.to_pydict()
        for found in read["edges"][0]["lists"].values():
            assert (found["vertices"], found["count"]) == (7, 0)
            assert found["parts"] == [[]] * -(-7 // size)
            assert not any(found["of_vertices"])
