"""Damaged graphs and invalid queries: an error that names the file or the valid alternatives."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, OFFSET, SOURCE

KNOWS = ("person", "knows", "person")
VERTICES = "vertex/person"
SOURCES = "edge/person_knows_person/ordered_by_source"
DESCRIPTIONS = ["ldbc_sample.graph.yml", "person.vertex.yml", "person_knows_person.edge.yml"]
CHUNKS = [
    f"{VERTICES}/id/chunk3",
    f"{VERTICES}/firstName_lastName_gender/chunk9",
    f"{SOURCES}/offset/chunk4",
    f"{SOURCES}/adj_list/part2/chunk1",
    f"{SOURCES}/creationDate/part2/chunk1",
    "edge/person_knows_person/ordered_by_dest/offset/chunk9",
    "edge/person_knows_person/ordered_by_dest/adj_list/part0/chunk0",
]
COUNTS = [f"{VERTICES}/vertex_count", f"{SOURCES}/vertex_count", f"{SOURCES}/edge_count3"]


@pytest.fixture
def graph(samples: Path, tmp_path: Path) -> Path:
    """A copy of the sample, to be damaged."""
    folder = tmp_path / "graph"
    for path in (samples / "graphar" / "ldbc_sample" / "parquet").rglob("*"):
        if path.is_file():
            copy = folder / path.relative_to(samples / "graphar" / "ldbc_sample" / "parquet")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return folder


def read_all(folder: Path) -> None:
    """Reads everything, in every way."""
    graph = st.open_graph(folder / "ldbc_sample.graph.yml")
    people = graph.vertices("person")
    everyone = range(people.count)
    people.to_arrow()
    for order in ("ordered_by_source", "ordered_by_dest"):
        graph.edges(*KNOWS, order=order).to_arrow()
    for direction in ("out", "in"):
        edges = graph.edges(*KNOWS)
        edges.neighbors(everyone, properties=["creationDate"], direction=direction)
        edges.degrees(everyone, direction=direction)
        edges.to_csr(direction=direction)


def refused(folder: Path, *names: str) -> None:
    """Checks that reading raises an error that names one of the files."""
    with pytest.raises(st.StylobateError, match="|".join(map(re.escape, names))):
        read_all(folder)


def test_an_undamaged_copy_is_read(graph: Path) -> None:
    read_all(graph)


# Files.


@pytest.mark.parametrize("name", [*CHUNKS, *COUNTS, *DESCRIPTIONS])
def test_a_missing_file_is_named(name: str, graph: Path) -> None:
    (graph / name).unlink()
    refused(graph, name)


@pytest.mark.parametrize("name", [*CHUNKS, *COUNTS, *DESCRIPTIONS])
def test_an_empty_file_is_named(name: str, graph: Path) -> None:
    (graph / name).write_bytes(b"")
    refused(graph, name)


@pytest.mark.parametrize("name", CHUNKS)
def test_a_damaged_chunk_is_named(name: str, graph: Path) -> None:
    whole = (graph / name).read_bytes()
    for content in (whole[:-20], whole[len(whole) // 2 :], whole[:4] + b"\xff" * (len(whole) - 12) + whole[-8:]):
        (graph / name).write_bytes(content)
        refused(graph, name)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    "content", [b"1234567", b"123456789", struct.pack("<q", -1)], ids=["short", "long", "negative"]
)
def test_a_count_of_another_size_or_sign_is_named(name: str, content: bytes, graph: Path) -> None:
    (graph / name).write_bytes(content)
    refused(graph, name)


# Counts that disagree with the chunks. It cannot be known which of the two is wrong; either may be named.


@pytest.mark.parametrize("count", [904, 1_000, 1_001, 10**6, 2**62])
def test_more_vertices_than_there_are(count: int, graph: Path) -> None:
    (graph / VERTICES / "vertex_count").write_bytes(struct.pack("<q", count))
    refused(graph, f"{VERTICES}/")


@pytest.mark.parametrize("count", [1_000, 1_076, 1_078, 1_200, 2_048, 10**9, 2**62])
def test_another_number_of_edges_than_there_are(count: int, graph: Path) -> None:
    (graph / SOURCES / "edge_count2").write_bytes(struct.pack("<q", count))
    refused(graph, f"{SOURCES}/edge_count2", f"{SOURCES}/offset/chunk2", f"{SOURCES}/adj_list/part2/chunk")


@pytest.mark.parametrize("count", [0, 100, 800, 900])
def test_vertices_that_a_count_of_whole_chunks_leaves_out_are_not_lost(count: int, graph: Path) -> None:
    (graph / VERTICES / "vertex_count").write_bytes(struct.pack("<q", count))
    vertices = st.open_graph(graph / "ldbc_sample.graph.yml").vertices("person").select(["id"])
    with pytest.raises(st.StylobateError, match=rf"id/chunk{count // 100}\b.*follows the last.*vertex_count"):
        vertices.to_arrow()
    with pytest.raises(st.StylobateError, match="follows the last"):
        vertices.filter(st.col("gender") == "female").to_arrow()


@pytest.mark.parametrize(
    ("order", "count"),
    [
        ("ordered_by_source", 0),
        ("ordered_by_source", 1_024),
        ("ordered_by_dest", 0),
        ("unordered_by_source", 0),
        ("unordered_by_source", 1_024),
    ],
)
def test_edges_that_a_count_of_whole_chunks_leaves_out_are_not_lost(order: str, count: int, graph: Path) -> None:
    name = f"edge/person_knows_person/{order}/edge_count2"
    assert struct.unpack("<q", (graph / name).read_bytes())[0] > count
    (graph / name).write_bytes(struct.pack("<q", count))
    edges = st.open_graph(graph / "ldbc_sample.graph.yml").edges(*KNOWS, order=order)
    found = "offset/chunk2" if order.startswith("ordered") else f"chunk{count // 1_024}.*follows the last.*edge_count2"
    with pytest.raises(st.StylobateError, match=found):
        edges.to_arrow()


@pytest.mark.parametrize("count", [0, 100, 900, 902, 904, 1_000])
def test_a_list_about_other_vertices_than_there_are_is_refused(count: int, graph: Path) -> None:
    (graph / SOURCES / "vertex_count").write_bytes(struct.pack("<q", count))
    edges = st.open_graph(graph / "ldbc_sample.graph.yml").edges(*KNOWS)
    message = f"{SOURCES}/vertex_count: a count of {count}, where there are 903 vertices of type person"
    for ask in (edges.to_arrow, lambda: edges.neighbors([1]), lambda: edges.count):
        with pytest.raises(st.StylobateError, match=message):
            ask()


def test_a_chunk_with_fewer_rows_than_it_should_have(graph: Path) -> None:
    for name in (f"{VERTICES}/id/chunk3", f"{SOURCES}/adj_list/part5/chunk0", f"{SOURCES}/creationDate/part5/chunk0"):
        whole = (graph / name).read_bytes()
        pq.write_table(pq.ParquetFile(graph / name).read().slice(1), graph / name)
        refused(graph, name)
        (graph / name).write_bytes(whole)
    read_all(graph)


# Offsets.


def with_offset(at: int, value: int) -> Callable[[list[int]], list[int]]:
    return lambda offsets: [*offsets[:at], value, *offsets[at:][1:]]


@pytest.mark.parametrize(
    "change",
    [
        with_offset(100, 639),
        with_offset(100, 10**12),
        with_offset(50, 10**12),
        with_offset(50, -1),
        with_offset(0, 3),
        lambda offsets: sorted(offsets, reverse=True),
        lambda offsets: offsets[:-1],
        lambda offsets: offsets[:1],
        lambda offsets: [*offsets[:50], None, *offsets[51:]],
    ],
    ids=["last", "beyond", "inside", "negative", "first", "descending", "short", "one", "null"],
)
def test_offsets_outside_of_the_list_are_refused(change: Callable[[list[int]], list[Any]], graph: Path) -> None:
    name = f"{SOURCES}/offset/chunk4"
    offsets = pq.ParquetFile(graph / name).read()[OFFSET].to_pylist()
    assert offsets[-1] == 638
    pq.write_table(pa.table({OFFSET: pa.array(change(offsets), pa.int64())}), graph / name)
    refused(graph, name, f"{SOURCES}/edge_count4")


# Columns.


@pytest.mark.parametrize(
    ("name", "table"),
    [
        (f"{VERTICES}/id/chunk3", {"id": ["text"] * 100}),
        (f"{VERTICES}/id/chunk3", {"other": list(range(100))}),
        (f"{SOURCES}/offset/chunk4", {OFFSET: ["0"] * 101}),
        (f"{SOURCES}/offset/chunk4", {"other": list(range(101))}),
        (f"{SOURCES}/adj_list/part4/chunk0", {SOURCE: [400] * 638}),
        (f"{SOURCES}/adj_list/part4/chunk0", {SOURCE: [400] * 638, DESTINATION: ["1"] * 638}),
        (f"{SOURCES}/adj_list/part4/chunk0", {SOURCE: [400] * 638, DESTINATION: [None, *range(637)]}),
        (f"{SOURCES}/creationDate/part4/chunk0", {"creationDate": [{"a": 1}] * 638}),
    ],
)
def test_columns_that_are_missing_or_of_other_types_are_refused(name: str, table: dict[str, Any], graph: Path) -> None:
    pq.write_table(pa.table(table), graph / name)
    refused(graph, name)


# Descriptions.


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("person.vertex.yml", "data_type: int64", "data_type: int65"),
        ("person.vertex.yml", "data_type: int64", ""),
        ("person.vertex.yml", "file_type: parquet", "file_type: exe"),
        ("person.vertex.yml", "chunk_size: 100", "chunk_size: 0"),
        ("person.vertex.yml", "chunk_size: 100", "chunk_size: -100"),
        ("person.vertex.yml", "chunk_size: 100", "chunk_size: many"),
        ("person.vertex.yml", "chunk_size: 100", ""),
        ("person.vertex.yml", "type: person", ""),
        ("person.vertex.yml", "version: gar/v1", "version: gar/v9"),
        ("person_knows_person.edge.yml", "aligned_by: src", "aligned_by: sec"),
        ("person_knows_person.edge.yml", "src_chunk_size: 100", "src_chunk_size: 0"),
        ("person_knows_person.edge.yml", "data_type: string", "data_type: text"),
        ("ldbc_sample.graph.yml", "version: gar/v1", "version: 1"),
        ("ldbc_sample.graph.yml", "  - person.vertex.yml", "  person.vertex.yml"),
    ],
)
def test_a_description_that_makes_no_sense_is_named(name: str, old: str, new: str, graph: Path) -> None:
    text = (graph / name).read_text()
    assert old in text
    (graph / name).write_text(text.replace(old, new, 1))
    refused(graph, name)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"vertices: [", b"- a\n- b\n", b"[" * 100_000, b"a: &a [" + b"*a, " * 1_000 + b"]", b"\0" * 100],
    ids=["bytes", "open", "list", "deep", "cycle", "zeros"],
)
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_description_that_is_none_is_named(name: str, content: bytes, graph: Path) -> None:
    (graph / name).write_bytes(content)
    refused(graph, name)


# Queries.


def test_what_is_not_there_is_named_with_what_is(samples: Path) -> None:
    graph = st.open_graph(samples / "graphar" / "ldbc_sample/parquet/ldbc_sample.graph.yml")
    people, edges = graph.vertices("person"), graph.edges(*KNOWS)
    nothing: dict[str, Callable[[], Any]] = {
        "nobody.*person": lambda: graph.vertices("nobody"),
        "likes.*knows": lambda: graph.edges("person", "likes", "person"),
        "age.*firstName": lambda: people.select(["age"]).to_arrow(),
        "weight.*creationDate": lambda: edges.neighbors([1], properties=["weight"]),
        "width.*creationDate": lambda: edges.to_arrow(properties=["width"]),
        "Robot": lambda: people.labels(any=["Robot"]).to_arrow(),
        "unordered_by_dest.*ordered_by_source": lambda: graph.edges(*KNOWS, order="unordered_by_dest").to_arrow(),
    }
    for said, ask in nothing.items():
        with pytest.raises(st.StylobateError, match=said):
            ask()
    with pytest.raises(st.StylobateError, match="age"):
        people.filter(st.col("age") > 3).to_arrow()
    with pytest.raises((st.StylobateError, ValueError), match="sideways"):
        edges.neighbors([1], direction="sideways")


@pytest.mark.parametrize("id", [903, -1, 2**40, 2**63 - 1])
def test_an_id_outside_is_named_with_the_count(id: int, samples: Path) -> None:
    graph = st.open_graph(samples / "graphar" / "ldbc_sample/parquet/ldbc_sample.graph.yml")
    asked: list[Callable[[], Any]] = [
        lambda: graph.vertices("person").take([3, id]),
        lambda: graph.edges(*KNOWS).neighbors([3, id]),
        lambda: graph.edges(*KNOWS).neighbors([id, 3], direction="in"),
        lambda: graph.edges(*KNOWS).degrees([id]),
    ]
    for ask in asked:
        with pytest.raises(st.StylobateError, match=f"{id}.*903"):
            ask()


def test_a_direction_without_a_list_is_refused(samples: Path) -> None:
    graph = st.open_graph(samples / "graphar" / "modern_graph/modern_graph.graph.yml")
    edges = graph.edges("person", "created", "software")
    for ask in (lambda: edges.neighbors([0], direction="in"), lambda: edges.to_csr(direction="in")):
        with pytest.raises(st.StylobateError, match="ordered_by_source"):
            ask()


def test_a_graph_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(st.NotFoundError, match=r"none\.graph\.yml"):
        st.open_graph(tmp_path / "none.graph.yml")
    with pytest.raises(st.StylobateError):
        st.open_graph("ftp://host/none.graph.yml")
