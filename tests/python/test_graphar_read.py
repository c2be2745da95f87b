"""`open_graph` reads the official samples as their files have them, in any format and order."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache as remembered
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, INDEX, SOURCE, EdgeType, Oracle, assert_same, plain, property_names, values

GRAPHS = [
    "ldbc_sample/parquet/ldbc_sample",
    "ldbc_sample/parquet/ldbc_sample_date",
    "ldbc_sample/parquet/ldbc_sample_timestamp",
    "ldbc_sample/parquet/ldbc_sample_with_feature",
    "ldbc_sample/orc/ldbc_sample",
    "ldbc_sample/csv/ldbc_sample",
    "modern_graph/modern_graph",
    "neo4j/MovieGraph",
]
FORMATS = ["parquet", "orc", "csv"]
KNOWS = ("person", "knows", "person")
DIRECTIONS = {"out": ("ordered_by_source", SOURCE, DESTINATION), "in": ("ordered_by_dest", DESTINATION, SOURCE)}
# Persons who joined early have small ids.
EARLY_MEN = (st.col("gender") == "male", st.col("id") < 5_000_000_000)
EARLY_MEN_OF_PYARROW = (pc.field("gender") == "male") & (pc.field("id") < 5_000_000_000)


@pytest.fixture(scope="session", params=GRAPHS)
def oracle(request: pytest.FixtureRequest, samples: Path) -> Oracle:
    """Each of the samples, as read from its files."""
    return sample(samples / "graphar" / f"{request.param}.graph.yml")


@remembered
def sample(path: Path) -> Oracle:
    return Oracle(path)


@pytest.fixture
def ldbc(samples: Path) -> Callable[[str], Oracle]:
    """The social network, in one of the formats."""
    return lambda format: sample(samples / "graphar" / f"ldbc_sample/{format}/ldbc_sample.graph.yml")


def people(oracle: Oracle, **options: Any) -> Any:
    return st.open_graph(oracle.path, **options).vertices("person")


def test_a_graph_names_what_it_has(oracle: Oracle) -> None:
    graph = st.open_graph(oracle.path)
    assert graph.name == oracle.info["name"]
    assert list(graph.vertex_types) == list(oracle.vertex_infos)
    assert [tuple(edge) for edge in graph.edge_types] == list(oracle.edge_infos)
    assert graph.info()["name"] == oracle.info["name"]
    for type_, info in oracle.vertex_infos.items():
        vertices = graph.vertices(type_)
        assert vertices.count == oracle.vertex_count(type_)
        assert list(vertices.properties) == property_names(info)
    for edge in oracle.edge_infos:
        edges = graph.edges(*edge)
        assert sorted(map(str, edges.adjacency_lists)) == sorted(oracle.orders(edge))
        assert edges.count == sum(oracle.part_counts(edge, next(iter(oracle.orders(edge)))))


def test_vertices_are_those_of_the_files(oracle: Oracle) -> None:
    graph = st.open_graph(oracle.path)
    for type_ in oracle.vertex_infos:
        expected = oracle.vertices(type_)
        assert_same(graph.vertices(type_).to_arrow(), expected)
        assert_same(graph.vertices(type_), expected)
        assert_same(graph.vertices(type_).to_arrow(with_index=False), expected.drop_columns([INDEX]))


def test_edges_are_those_of_the_files_in_the_order_of_each_list(oracle: Oracle) -> None:
    graph = st.open_graph(oracle.path)
    for edge in oracle.edge_infos:
        for order in oracle.orders(edge):
            expected = oracle.edges(edge, order)
            assert_same(graph.edges(*edge, order=order).to_arrow(), expected)
            ends = graph.edges(*edge, order=order).to_arrow(properties=[])
            assert_same(ends, expected.select([SOURCE, DESTINATION]))


def test_a_strict_reader_takes_what_is_by_the_book(ldbc: Callable[[str], Oracle]) -> None:
    for format in FORMATS:
        assert people(ldbc(format), strict=True).count == 903


def test_all_formats_hold_the_same_graph(ldbc: Callable[[str], Oracle]) -> None:
    first, *others = [st.open_graph(ldbc(format).path) for format in FORMATS]
    for other in others:
        assert_same(other.vertices("person").to_arrow(), plain(first.vertices("person").to_arrow()))
        for order in ("ordered_by_source", "ordered_by_dest"):
            expected = plain(first.edges(*KNOWS, order=order).to_arrow())
            assert_same(other.edges(*KNOWS, order=order).to_arrow(), expected)


@pytest.mark.parametrize("format", FORMATS)
def test_the_graph_is_what_it_was_imported_from(format: str, ldbc: Callable[[str], Oracle], samples: Path) -> None:
    def raw(name: str, **types: pa.DataType) -> pa.Table:
        return pa.csv.read_csv(
            samples / "graphar" / "ldbc_sample" / name,
            parse_options=pa.csv.ParseOptions(delimiter="|"),
            convert_options=pa.csv.ConvertOptions(column_types=types),
        )

    persons, knows = raw("person_0_0.csv"), raw("person_knows_person_0_0.csv", creationDate=pa.string())
    graph = st.open_graph(ldbc(format).path)
    found = plain(graph.vertices("person").to_arrow())
    assert found.drop_columns([INDEX]).equals(persons)
    key = persons["id"].to_numpy()
    edges = plain(graph.edges(*KNOWS).to_arrow())
    ids = [key[edges[end].to_numpy()].tolist() for end in (SOURCE, DESTINATION)]
    expected = zip(*(knows[name].to_pylist() for name in ("src", "dst", "creationDate")))
    assert sorted(zip(*ids, edges["creationDate"].to_pylist())) == sorted(expected)


# Some of the vertices.


@pytest.mark.parametrize("format", FORMATS)
def test_selected_properties_come_in_the_order_that_was_asked_for(
    format: str, ldbc: Callable[[str], Oracle]
) -> None:
    expected = ldbc(format).vertices("person")
    for names in (["firstName"], ["gender", "id"], ["id", "lastName", "firstName"], []):
        found = people(ldbc(format)).select(names).to_arrow()
        assert_same(found, expected.select([INDEX, *names]))


@pytest.mark.parametrize("format", FORMATS)
def test_a_filter_leaves_the_rows_that_pyarrow_leaves(format: str, ldbc: Callable[[str], Oracle]) -> None:
    everybody = ldbc(format).vertices("person")
    names = ["Jose", "Wei", "nobody"]
    ours_and_theirs = [
        (st.col("gender") == "female", pc.field("gender") == "female"),
        (st.col("gender") == "nobody", pc.field("gender") == "nobody"),
        (st.col("id") >= 0, pc.field("id") >= 0),
        (st.col("id") > 10_000_000_000, pc.field("id") > 10_000_000_000),
        (st.col("firstName").is_in(names), pc.field("firstName").isin(names)),
        (EARLY_MEN[0] & EARLY_MEN[1], EARLY_MEN_OF_PYARROW),
    ]
    for ours, theirs in ours_and_theirs:
        expected = everybody.filter(theirs)
        assert_same(people(ldbc(format)).filter(ours).to_arrow(), expected)
        narrow = people(ldbc(format)).select(["lastName"]).filter(ours).to_arrow()
        assert_same(narrow, expected.select([INDEX, "lastName"]))


def test_filters_that_follow_one_another_all_hold(ldbc: Callable[[str], Oracle]) -> None:
    found = people(ldbc("parquet")).filter(EARLY_MEN[0]).filter(EARLY_MEN[1]).to_arrow()
    assert_same(found, ldbc("parquet").vertices("person").filter(EARLY_MEN_OF_PYARROW))


def test_nulls_pass_no_comparison(samples: Path) -> None:
    oracle = sample(samples / "graphar" / "neo4j/MovieGraph.graph.yml")
    found = st.open_graph(oracle.path).vertices("Person").filter(st.col("born") < 1950).to_arrow()
    assert_same(found, oracle.vertices("Person").filter(pc.field("born") < 1950))
    nulls = st.open_graph(oracle.path).vertices("Person").filter(st.col("born").is_null()).to_arrow()
    assert nulls.num_rows == 5


def test_what_was_read_before_changes_nothing(ldbc: Callable[[str], Oracle]) -> None:
    everybody = people(ldbc("parquet"))
    expected = ldbc("parquet").vertices("person")
    assert_same(everybody.to_arrow(), expected)
    women = everybody.filter(st.col("gender") == "female")
    assert_same(women.to_arrow(), expected.filter(pc.field("gender") == "female"))
    names = everybody.select(["firstName"])
    assert_same(names.to_arrow(), expected.select([INDEX, "firstName"]))
    assert_same(women.select(["id"]).to_arrow(), expected.filter(pc.field("gender") == "female").select([INDEX, "id"]))
    assert_same(everybody.to_arrow(), expected)
    assert everybody.count == 903


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_taken_in_the_order_of_their_ids(format: str, ldbc: Callable[[str], Oracle]) -> None:
    expected = ldbc(format).vertices("person")
    shuffled = list(range(903))
    random.Random(4).shuffle(shuffled)
    for ids in ([], [0], [902], [5, 5, 5], [99, 100, 101], [902, 0, 450, 0], shuffled):
        wanted = expected.take(pa.array(ids, pa.int64()))
        assert_same(people(ldbc(format)).take(ids), wanted)
        assert_same(people(ldbc(format)).select(["gender"]).take(ids), wanted.select([INDEX, "gender"]))
    for ids in (np.array([7, 3]), pa.array([7, 3], pa.int64()), np.array([7, 3], np.uint32), range(3, 9, 2)):
        wanted = expected.take(pa.array(list(map(int, values(ids))), pa.int64()))
        assert_same(people(ldbc(format)).take(ids), wanted)


def test_a_range_is_a_slice(ldbc: Callable[[str], Oracle]) -> None:
    expected = ldbc("parquet").vertices("person")
    for start, end in ((0, 903), (0, 1), (99, 101), (100, 200), (850, 903), (7, 7), (903, 903)):
        found = people(ldbc("parquet")).range(start, end)
        assert_same(found, expected.slice(start, end - start))


# Edges of some of the vertices.


def test_neighbours_of_every_vertex_in_both_directions(oracle: Oracle) -> None:
    for edge in oracle.edge_infos:
        for direction, (order, _, far) in DIRECTIONS.items():
            if order in oracle.orders(edge):
                assert_neighbours(oracle, edge, direction, order, far)


def assert_neighbours(oracle: Oracle, edge: EdgeType, direction: str, order: str, far: str) -> None:
    rows = oracle.rows_of(edge, order)
    table = oracle.edges(edge, order)
    names = property_names(oracle.edge_infos[edge])
    edges = st.open_graph(oracle.path).edges(*edge)
    everyone = list(range(len(rows)))
    shuffled = random.Random(1).choices(everyone, k=2 * len(everyone))
    for ids in ([], everyone, shuffled, *[[vertex] for vertex in everyone[:150]]):
        flat = [row for vertex in ids for row in rows[vertex]]
        positions = [at for at, vertex in enumerate(ids) for _ in rows[vertex]]
        expected = table.take(pa.array(flat, pa.int64()))
        found = plain(edges.neighbors(ids, properties=names, direction=direction))
        assert found.column_names == ["position", "neighbor", *names]
        assert found["position"].to_pylist() == positions
        wanted = expected.select([far, *names]).rename_columns(["neighbor", *names])
        assert_same(found.drop_columns(["position"]), wanted)
        assert plain(edges.neighbors(ids, direction=direction)).column_names == ["position", "neighbor"]
        assert values(edges.degrees(ids, direction=direction)) == [len(rows[vertex]) for vertex in ids]


def test_compressed_rows_are_those_of_the_list(oracle: Oracle) -> None:
    graph = st.open_graph(oracle.path)
    for edge in oracle.edge_infos:
        for direction, (order, _, far) in DIRECTIONS.items():
            if order not in oracle.orders(edge):
                continue
            offsets, neighbours = graph.edges(*edge).to_csr(direction=direction)
            degrees = [len(rows) for rows in oracle.rows_of(edge, order)]
            assert values(offsets) == np.cumsum([0, *degrees]).tolist()
            assert values(neighbours) == oracle.edges(edge, order)[far].to_pylist()


@pytest.mark.parametrize("format", FORMATS)
def test_a_sparse_matrix_has_an_entry_for_each_edge(format: str, ldbc: Callable[[str], Oracle]) -> None:
    pytest.importorskip("scipy")
    edges = ldbc(format).edges(KNOWS, "ordered_by_source")
    matrix = st.open_graph(ldbc(format).path).edges(*KNOWS).to_scipy_csr()
    assert matrix.shape == (903, 903) and matrix.nnz == 6_626
    entries = matrix.tocoo()
    assert set(zip(entries.row.tolist(), entries.col.tolist())) == set(
        zip(edges[SOURCE].to_pylist(), edges[DESTINATION].to_pylist())
    )
    neighbour_counts = np.asarray((matrix != 0).sum(axis=1)).ravel().tolist()
    assert neighbour_counts == [len(rows) for rows in ldbc(format).rows_of(KNOWS, "ordered_by_source")]


def test_a_matrix_of_two_types_is_as_wide_as_the_other_type(samples: Path) -> None:
    pytest.importorskip("scipy")
    graph = st.open_graph(samples / "graphar" / "neo4j/MovieGraph.graph.yml")
    assert graph.edges("Person", "ACTED_IN", "Movie").to_scipy_csr().shape == (133, 38)


def test_networkx_gets_all_edges_or_a_refusal(ldbc: Callable[[str], Oracle]) -> None:
    pytest.importorskip("networkx")
    edges = st.open_graph(ldbc("parquet").path).edges(*KNOWS)
    made = edges.to_networkx(limit=6_626)
    assert (made.number_of_nodes(), made.number_of_edges()) == (903, 6_626)
    with pytest.raises((st.StylobateError, ValueError), match=r"6[_,]?626"):
        edges.to_networkx(limit=6_625)


def test_torch_geometric_gets_the_edge_index(ldbc: Callable[[str], Oracle]) -> None:
    pytest.importorskip("torch_geometric")
    data = st.open_graph(ldbc("parquet").path).edges(*KNOWS).to_pyg()
    expected = ldbc("parquet").edges(KNOWS, "ordered_by_source")
    assert data.edge_index.tolist() == [expected[SOURCE].to_pylist(), expected[DESTINATION].to_pylist()]


@pytest.mark.parametrize("wrong", [[0.5], (1.5,), ["1"], {None}], ids=repr)
def test_indexes_are_whole_numbers(wrong: Any, ldbc: Callable[[str], Oracle]) -> None:
    graph = st.open_graph(ldbc("parquet").path)
    for ask in (graph.edges(*KNOWS).neighbors, graph.edges(*KNOWS).degrees, graph.vertices("person").take):
        with pytest.raises(TypeError):
            ask(wrong)
    numbers = [np.int64(3), np.uint8(5)]
    assert graph.vertices("person").take(numbers).equals(graph.vertices("person").take((3, 5)))


# Memory, and several readers.


@pytest.mark.parametrize("memory", [0, "64KiB", "64MiB"])
def test_the_memory_of_the_cache_changes_no_answer(memory: int | str, ldbc: Callable[[str], Oracle]) -> None:
    oracle = ldbc("parquet")
    with st.Cache(memory=memory) as cache:
        graph = st.open_graph(oracle.path, cache=cache)
        for _ in range(2):
            assert_same(graph.vertices("person").to_arrow(), oracle.vertices("person"))
            assert_same(graph.edges(*KNOWS).to_arrow(), oracle.edges(KNOWS, "ordered_by_source"))
            for direction, (order, _, far) in DIRECTIONS.items():
                found = plain(graph.edges(*KNOWS).neighbors(range(903), direction=direction))
                assert found["neighbor"].to_pylist() == oracle.edges(KNOWS, order)[far].to_pylist()


def test_threads_share_a_graph(ldbc: Callable[[str], Oracle]) -> None:
    oracle = ldbc("parquet")
    rows = oracle.rows_of(KNOWS, "ordered_by_source")
    targets = oracle.edges(KNOWS, "ordered_by_source")[DESTINATION].to_pylist()
    with st.Cache(memory="256KiB") as cache:
        edges = st.open_graph(oracle.path, cache=cache).edges(*KNOWS)

        def asked(seed: int) -> bool:
            ids = random.Random(seed).choices(range(903), k=40)
            found = plain(edges.neighbors(ids))["neighbor"].to_pylist()
            return found == [targets[row] for vertex in ids for row in rows[vertex]]

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(asked, range(200)))
