"""Every official sample compared with the raw tables that it was made from, and with itself in each of the formats."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from functools import cache as remembered
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, INDEX, SOURCE, EdgeType, assert_same, plain
from graphar_random import LISTS

MODERN = "modern_graph/modern_graph"
MOVIES = "neo4j/MovieGraph"
LDBC = "ldbc_sample/parquet/ldbc_sample"
# Graphs whose edges store their creation time as a string, a date or a timestamp.
TIMES = ["", "_date", "_timestamp"]
FORMATS = ["parquet", "orc", "csv", "json"]
PERSON = ("id", "firstName", "lastName", "gender")


@pytest.fixture(scope="session")
def graphs(samples: Path) -> Path:
    return samples / "graphar"


def opened(graphs: Path, name: str) -> Any:
    return st.open_graph(graphs / f"{name}.graph.yml")


@remembered
def raw(path: Path, delimiter: str = ",") -> pa.Table:
    """Reads a raw table: values that look like times stay strings."""
    if path.suffix == ".json":
        return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])
    if path.suffix == ".orc":
        return pa.orc.ORCFile(path).read()
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    return pa.csv.read_csv(
        path,
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(column_types={"creationDate": pa.string()}),
    )


def columns(table: pa.Table, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Returns the rows of some columns."""
    return list(zip(*(table[name].to_pylist() for name in names)))


def by_key(graph: Any, edge: EdgeType, keys: tuple[str, str], found: pa.Table) -> list[tuple[Any, ...]]:
    """Returns edges as raw tables identify them: by the keys of their ends, with their properties."""
    ends = [plain(graph.vertices(end).select([key]).to_arrow())[key] for end, key in zip(edge[::2], keys)]
    named = [end.take(found[side]).to_pylist() for end, side in zip(ends, (SOURCE, DESTINATION))]
    rest = [found[name].to_pylist() for name in found.column_names if name not in (SOURCE, DESTINATION)]
    return list(zip(*named, *rest))


def assert_edges(graph: Any, edge: EdgeType, keys: tuple[str, str], expected: list[tuple[Any, ...]]) -> None:
    """Checks that each list has the edges of the raw table, and that so do the neighbors found through it."""
    edges = graph.edges(*edge)
    assert edges.count == len(expected)
    for order in map(str, edges.adjacency_lists):
        found = plain(graph.edges(*edge, order=order).to_arrow())
        assert Counter(by_key(graph, edge, keys, found)) == Counter(expected), order
        if order.startswith("unordered"):
            continue
        direction, own, far = ("out", 0, 2) if order.endswith("source") else ("in", 2, 0)
        count = graph.vertices(edge[own]).count
        near = plain(edges.neighbors(range(count), properties=list(edges.properties), direction=direction))
        sides = {own: near["position"].cast(pa.int64()), far: near["neighbor"]}
        rest = {name: near[name] for name in edges.properties}
        walked = pa.table({SOURCE: sides[0], DESTINATION: sides[2]} | rest)
        assert Counter(by_key(graph, edge, keys, walked)) == Counter(expected), f"neighbours {direction}"


# The modern graph: CSV in, CSV out, in chunks of two.


@pytest.mark.parametrize(("type_", "names"), [("person", ("id", "name", "age")), ("software", ("id", "name", "lang"))])
def test_vertices_of_the_modern_graph_are_those_of_its_tables(
    graphs: Path, type_: str, names: tuple[str, ...]
) -> None:
    expected = raw(graphs / f"modern_graph/original_dataset/{type_}.csv", "|")
    vertices = opened(graphs, MODERN).vertices(type_)
    assert vertices.count == expected.num_rows
    assert columns(plain(vertices.to_arrow()), names) == columns(expected, names)


@pytest.mark.parametrize(
    ("edge", "count"), [(("person", "knows", "person"), 2), (("person", "created", "software"), 4)]
)
def test_edges_and_weights_of_the_modern_graph_are_those_of_its_tables(
    graphs: Path, edge: EdgeType, count: int
) -> None:
    table = raw(graphs / f"modern_graph/original_dataset/{edge[1]}.csv", "|")
    expected = columns(table, ("src_id", "dst_id", "weight"))
    assert len(expected) == count
    assert_edges(opened(graphs, MODERN), edge, ("id", "id"), expected)


# The movies: Parquet, ORC, CSV and JSON in, Parquet out.


@pytest.mark.parametrize(
    ("type_", "file", "names", "count"),
    [
        ("Person", "Person.parquet", ("name", "born"), 133),
        ("Movie", "Movie.orc", ("title", "tagline"), 38),
    ],
)
def test_people_and_movies_are_those_of_their_tables(
    graphs: Path, type_: str, file: str, names: tuple[str, ...], count: int
) -> None:
    expected = raw(graphs / "neo4j/data" / file)
    assert expected.num_rows == count
    found = plain(opened(graphs, MOVIES).vertices(type_).to_arrow())
    assert found[INDEX].to_pylist() == list(range(count))
    assert columns(found, names) == columns(expected, names)


@pytest.mark.parametrize(
    ("edge", "file", "properties", "count"),
    [
        ("WROTE", "Person_WROTE_Movie.csv", (), 10),
        ("ACTED_IN", "Person_ACTED_IN_Movie.json", (), 172),
        ("REVIEWED", "Person_REVIEWED_Movie.csv", ("rating", "summary"), 9),
    ],
)
def test_edges_of_the_movies_are_those_of_their_tables(
    graphs: Path, edge: str, file: str, properties: tuple[str, ...], count: int
) -> None:
    expected = columns(raw(graphs / "neo4j/data" / file), ("name", "title", *properties))
    assert len(expected) == count
    graph = opened(graphs, MOVIES)
    assert list(graph.edges("Person", edge, "Movie").properties) == list(properties)
    assert_edges(graph, ("Person", edge, "Movie"), ("name", "title"), expected)


# The social network, whose edges have a string, a date or a timestamp.


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").replace(tzinfo=None)


def social_edges(graphs: Path, kind: str) -> list[tuple[Any, ...]]:
    rows = columns(raw(graphs / "ldbc_sample/person_knows_person_0_0.csv", "|"), ("src", "dst", "creationDate"))
    made = {"": str, "_date": lambda text: moment(text).date(), "_timestamp": moment}[kind]
    return [(source, end, made(text)) for source, end, text in rows]


@pytest.mark.parametrize("kind", TIMES)
def test_dates_and_times_of_edges_are_those_of_the_table_in_every_list(graphs: Path, kind: str) -> None:
    expected = social_edges(graphs, kind)
    assert len(expected) == 6_626
    graph = opened(graphs, f"{LDBC}{kind}")
    (edge,) = (tuple(found) for found in graph.edge_types)
    (name,) = graph.edges(*edge).properties
    lists = [str(order) for order in graph.edges(*edge).adjacency_lists]
    assert sorted(lists) == ["ordered_by_dest", "ordered_by_source", "unordered_by_source"]
    assert_edges(graph, edge, ("id", "id"), expected)
    kinds = {"": pa.string(), "_date": pa.date32(), "_timestamp": pa.timestamp("us")}
    assert plain(graph.edges(*edge).to_arrow()).schema.field(name).type == kinds[kind]


@pytest.mark.parametrize("name", ["parquet/ldbc_sample_with_feature", "orc/ldbc_sample", "csv/ldbc_sample"])
def test_people_are_those_of_both_tables(graphs: Path, name: str) -> None:
    found = columns(plain(opened(graphs, f"ldbc_sample/{name}").vertices("person").to_arrow()), PERSON)
    assert found == columns(raw(graphs / "ldbc_sample/person_0_0.csv", "|"), PERSON)
    assert found == columns(raw(graphs / "ldbc_sample/person_0_0_comma.csv"), PERSON)


def test_features_are_those_of_the_files(graphs: Path) -> None:
    found = plain(opened(graphs, f"{LDBC}_with_feature").vertices("person").to_arrow())["feature"]
    files = [graphs / f"ldbc_sample/parquet/vertex/person/feature/chunk{at}" for at in range(10)]
    expected = [row for file in files for row in pq.ParquetFile(file).read()["feature"].to_pylist()]
    assert found.to_pylist() == expected and {len(row) for row in expected} == {3}


# Each sample in each format.


def rewritten(graph: Any, folder: Path, format: str) -> Any:
    """Writes a copy of a graph in another format. JSON cannot be written: its chunks are converted from those of
    Parquet."""
    vertices = {name: graph.vertices(name).to_arrow(with_index=False) for name in graph.vertex_types}
    edges = {
        tuple(edge): {
            "data": graph.edges(*edge, order="ordered_by_source").to_arrow(),
            "source": SOURCE,
            "destination": DESTINATION,
            "by": "index",
            "lists": LISTS,
        }
        for edge in graph.edge_types
    }
    options = {"vertex_chunk_size": 50, "edge_chunk_size": 300}
    as_written = "parquet" if format == "json" else format
    st.write_graph(folder, name="copy", vertices=vertices, edges=edges, format=as_written, **options)
    if format == "json":
        to_json(folder)
    return st.open_graph(folder / "copy.graph.yml")


def to_json(folder: Path) -> None:
    for path in [path for path in folder.rglob("chunk*") if path.is_file()]:
        rows = pq.ParquetFile(path).read().to_pylist()
        path.write_text("".join(json.dumps(row, default=lambda value: value.isoformat()) + "\n" for row in rows))
    for path in folder.glob("*.yml"):
        path.write_text(path.read_text().replace("file_type: parquet", "file_type: json"))


def counted(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, zip(*(column.to_pylist() for column in table.columns))))


# CSV has no lists, so none of the features.
COPIES = [(name, format) for name in (MODERN, MOVIES, *(f"{LDBC}{kind}" for kind in TIMES)) for format in FORMATS]
COPIES += [(f"{LDBC}_with_feature", format) for format in FORMATS if format != "csv"]


@pytest.mark.parametrize(("name", "format"), COPIES)
def test_every_sample_is_the_same_graph_in_every_format(
    graphs: Path, tmp_path: Path, name: str, format: str
) -> None:
    graph = opened(graphs, name)
    copy = rewritten(graph, tmp_path / "copy", format)
    for type_ in graph.vertex_types:
        properties = list(graph.vertices(type_).properties)
        assert sorted(copy.vertices(type_).properties) == sorted(properties)
        expected = plain(graph.vertices(type_).to_arrow())
        assert_same(copy.vertices(type_).select(properties).to_arrow(), expected)
    for edge in graph.edge_types:
        expected = plain(graph.edges(*edge, order="ordered_by_source").to_arrow())
        for order in LISTS:
            found = plain(copy.edges(*edge, order=order).to_arrow())
            assert found.schema.equals(expected.schema)
            assert counted(found) == counted(expected), order
            # The neighbors of one vertex may be in any order.
            own = found[SOURCE if order.endswith("source") else DESTINATION].to_pylist()
            assert not order.startswith("ordered") or own == sorted(own)
