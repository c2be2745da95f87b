"""`write_graph` on invalid input: the error says what is wrong, and existing files are kept."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, INDEX, OFFSET, SOURCE, plain
from test_graphar_write import KNOWS, PEOPLE, graph_file, knows
from test_write import names

PAIRS = [(10, 20), (20, 30), (50, 50)]


def write(folder: Path, edges: Any = None, people: Any = PEOPLE, **options: Any) -> None:
    """Writes a small graph with some arguments changed."""
    vertices = options.pop("vertices", {"person": {"data": people, "key": "id"}})
    given = {KNOWS: {"data": knows(PAIRS) if edges is None else edges} | options.pop("edge_options", {})}
    st.write_graph(folder, name="g", vertices=vertices, edges=options.pop("all_edges", given), **options)


def refused(folder: Path, match: str, errors: Any = st.StylobateError, **changed: Any) -> None:
    """Checks that nothing is written, and that the error matches."""
    before = names(folder.parent)
    with pytest.raises(errors, match=match):
        write(folder, **changed)
    assert names(folder.parent) == before


# Existing files.


def test_a_graph_is_not_overwritten_unless_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "g")
    refused(tmp_path / "g", "g", st.AlreadyExistsError)
    assert st.open_graph(graph_file(tmp_path / "g")).vertices("person").count == 5


def test_nothing_of_the_graph_before_stays(tmp_path: Path) -> None:
    write(tmp_path / "g", vertex_chunk_size=1, edge_chunk_size=1)
    few = {"person": {"data": PEOPLE.slice(0, 2), "key": "id"}}
    options: dict[str, Any] = {"vertices": few, "edges": knows([(10, 20)]), "overwrite": True}
    write(tmp_path / "g", **options)
    write(tmp_path / "fresh", **options)
    assert names(tmp_path / "g") == names(tmp_path / "fresh")
    assert st.open_graph(graph_file(tmp_path / "g")).edges(*KNOWS).count == 1


def test_files_of_others_are_not_taken_away(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g/letter.txt").write_text("dear")
    refused(tmp_path / "g", "g", st.AlreadyExistsError)
    assert (tmp_path / "g/letter.txt").read_text() == "dear"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    write(tmp_path / "g")
    assert st.open_graph(graph_file(tmp_path / "g")).vertices("person").count == 5


# Input that ends with an error, and a caller who cancels.


def failing(table: pa.Table, times: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(times):
            yield from table.to_batches()
        raise ValueError("no more rows")

    return pa.RecordBatchReader.from_batches(table.schema, batches())


@pytest.mark.parametrize("times", [0, 1, 2_000])
def test_data_that_fails_half_way_leaves_what_was_there(tmp_path: Path, times: int) -> None:
    many = knows([(10, 20)] * 100)
    refused(tmp_path / "g", "no more rows", edges=failing(many, times), memory="1MiB")
    refused(tmp_path / "g", "no more rows", vertices={"person": failing(PEOPLE, min(times, 1))}, all_edges={})
    write(tmp_path / "g")
    refused(tmp_path / "g", "no more rows", edges=failing(many, times), overwrite=True)
    assert st.open_graph(graph_file(tmp_path / "g")).edges(*KNOWS).count == len(PAIRS)


def test_progress_is_told_and_can_end_the_work(tmp_path: Path) -> None:
    told: list[Any] = []
    write(tmp_path / "told", progress=lambda *so_far: told.append(so_far))
    assert told

    def enough(*_: Any) -> None:
        raise RuntimeError("enough")

    refused(tmp_path / "g", "enough", RuntimeError, progress=enough)


# Keys and indices.


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"edges": knows([(10, 20), (10, 77)])}, r"77"),
        ({"edges": pa.table({"src": [10, None], "dst": [20, 30]})}, r"null|src"),
        ({"people": pa.table({"id": [10, 20, 10]})}, r"10"),
        ({"people": pa.table({"id": [10, None, 20]})}, r"null|id"),
        ({"people": PEOPLE.rename_columns(["other", "name"])}, r"id.*other"),
        ({"vertices": {"person": PEOPLE}}, r"key"),
        ({"edges": pa.table({"src": ["10"], "dst": ["20"]})}, r"src|dst|type"),
        ({"edges": knows([(0, 5)]), "edge_options": {"by": "index"}}, r"5"),
        ({"edges": knows([(-1, 0)]), "edge_options": {"by": "index"}}, r"-1"),
        ({"edges": pa.table({"src": ["a"], "dst": ["b"]}), "edge_options": {"by": "index"}}, r"src|dst"),
        ({"edges": knows(PAIRS), "edge_options": {"by": "guess"}}, r"by|guess"),
        ({"edges": knows(PAIRS), "edge_options": {"source": "origin"}}, r"origin.*src"),
        ({"edges": knows(PAIRS), "edge_options": {"destination": "src"}}, r"src"),
        ({"edges": knows(PAIRS), "edge_options": {"lists": ["sideways"]}}, r"sideways"),
        ({"edges": knows(PAIRS), "edge_options": {"lists": []}}, r"list"),
        ({"edges": knows(PAIRS), "edge_options": {"lists": ["ordered_by_source"] * 2}}, r"ordered_by_source"),
    ],
)
def test_edges_that_do_not_fit_the_vertices_are_refused(tmp_path: Path, changed: dict[str, Any], match: str) -> None:
    refused(tmp_path / "g", match, (st.StylobateError, ValueError), **changed)


def test_edges_of_types_that_are_not_there_are_refused(tmp_path: Path) -> None:
    for edge in (("person", "likes", "cat"), ("cat", "likes", "person")):
        refused(tmp_path / "g", "cat", all_edges={edge: {"data": knows([])}})


# Options, types and names.


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "xml"},
        {"vertex_chunk_size": 0},
        {"edge_chunk_size": 0},
        {"vertex_chunk_size": -1},
        {"memory": "much"},
        {"vertices": {"person": {"data": PEOPLE, "key": "id", "gruops": []}}},
        {"edge_options": {"directd": True}},
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    refused(tmp_path / "g", ".", (st.StylobateError, ValueError, TypeError, OverflowError), **changed)


@pytest.mark.parametrize(
    "values",
    [
        [b"bytes"] * 5,
        [decimal.Decimal("1.5")] * 5,
        [{"a": 1}] * 5,
        [datetime.time(12)] * 5,
        pa.array([2**63] * 5, pa.uint64()),
    ],
    ids=["binary", "decimal", "struct", "time", "uint64"],
)
def test_types_that_graphar_does_not_have_are_refused(tmp_path: Path, values: Any) -> None:
    refused(tmp_path / "g", "odd", people=PEOPLE.append_column("odd", pa.array(values)))


@pytest.mark.parametrize("name", [INDEX, SOURCE, DESTINATION, OFFSET])
def test_names_that_graphar_uses_are_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path / "g", re.escape(name), people=PEOPLE.append_column(name, PEOPLE["id"]))
    refused(tmp_path / "g", re.escape(name), edges=knows(PAIRS, **{name: [1, 2, 3]}))


# Each of them has a meaning in YAML.
NAMES = ["ü", "a b", "yes", "null", "1.5", "- x", "'", '"', "[x]", "{x}", "&x", "*x", "~", "%", "@"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_yaml_would_take_for_something_else_survive(tmp_path: Path, name: str) -> None:
    people = PEOPLE.append_column(name, PEOPLE["id"])
    vertices = {name: {"data": people, "key": "id", "groups": [["id", "name"], [name]]}}
    edges = {(name, name, name): {"data": knows(PAIRS, **{name: ["a", "b", "c"]})}}
    st.write_graph(tmp_path / "g", name=name, vertices=vertices, edges=edges)
    graph = st.open_graph(graph_file(tmp_path / "g"))
    assert (graph.name, list(graph.vertex_types), list(graph.edge_types)) == (name, [name], [(name, name, name)])
    assert plain(graph.vertices(name).select([name]).to_arrow())[name].to_pylist() == PEOPLE["id"].to_pylist()
    found = plain(graph.edges(name, name, name).neighbors([0, 1, 4], properties=[name]))
    assert found[name].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["..", "../up", "/abs", "a/../../b", "", ".", "a/b", "x\0y", "x\ny"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    people = PEOPLE.append_column(name, PEOPLE["id"])
    ways: list[dict[str, Any]] = [
        {"vertices": {name: PEOPLE}, "edges": {}},
        {"vertices": {"person": {"data": people, "key": "id", "groups": [["id", "name"], [name]]}}, "edges": {}},
        {
            "vertices": {"person": {"data": PEOPLE, "key": "id"}},
            "edges": {("person", name, "person"): {"data": knows(PAIRS)}},
        },
    ]
    for at, way in enumerate(ways):
        folder = tmp_path / str(at) / "deep" / "g"
        folder.parent.mkdir(parents=True)
        try:
            st.write_graph(folder, name="g", **way)
        except (st.StylobateError, ValueError):
            assert names(tmp_path / str(at)) == []
            continue
        assert all(path.startswith("deep/g/") for path in names(tmp_path / str(at)))
        assert st.open_graph(graph_file(folder)).vertex_types


def test_a_graph_needs_a_name_that_can_be_a_file(tmp_path: Path) -> None:
    for name in ("", "../up", "a/b"):
        with pytest.raises((st.StylobateError, ValueError)):
            st.write_graph(tmp_path / "g", name=name, vertices={"person": PEOPLE}, edges={})
        assert names(tmp_path) == []


def test_lists_are_refused_in_csv_or_survive(tmp_path: Path) -> None:
    tags = [["a", "b"], [], None, [""], ["c;d,e"]]
    people = PEOPLE.append_column("tags", pa.array(tags, pa.list_(pa.string())))
    try:
        write(tmp_path / "g", people=people, format="csv")
    except st.StylobateError as error:
        assert "tags" in str(error) and names(tmp_path) == []
        return
    found = plain(st.open_graph(graph_file(tmp_path / "g")).vertices("person").to_arrow())
    assert found["tags"].to_pylist() == tags
