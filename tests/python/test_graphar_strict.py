"""Deviations of official data from the format: accepted by default, refused in strict mode."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, INDEX, OFFSET, SOURCE, EdgeType, plain

KNOWS = ("person", "knows", "person")
FILE = "ldbc_sample.graph.yml"
GRAPH, PERSON, EDGE = FILE, "person.vertex.yml", "person_knows_person.edge.yml"
LIST = "edge/person_knows_person/ordered_by_source"
# Makes a graph deviate, and returns the file to open.
Deviation: TypeAlias = Callable[[Path], Path]


@pytest.fixture
def graph(samples: Path, tmp_path: Path) -> Path:
    """A copy of the sample in Parquet, to be modified."""
    source = samples / "graphar/ldbc_sample/parquet"
    return Path(shutil.copytree(source, tmp_path / "graph", copy_function=shutil.copyfile))


def everything(file: Path, strict: bool) -> dict[str, Any]:
    """Returns everything in a graph, each list's edges in no particular order."""
    graph = st.open_graph(file, strict=strict)
    found: dict[str, Any] = {name: plain(graph.vertices(name).to_arrow()).to_pydict() for name in graph.vertex_types}
    for edge in graph.edge_types:
        for order in map(str, graph.edges(*edge).adjacency_lists):
            found[f"{edge} {order}"] = rows(plain(graph.edges(*edge, order=order).to_arrow()))
        found[f"neighbours {edge}"] = neighbours(graph, tuple(edge))
    return found


def neighbours(graph: Any, edge: EdgeType) -> list[Any]:
    edges = graph.edges(*edge)
    found = edges.neighbors(range(graph.vertices(edge[0]).count), properties=list(edges.properties))
    return rows(plain(found))


def rows(table: pa.Table) -> list[Any]:
    return sorted(zip(*(column.to_pylist() for column in table.columns)), key=repr)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{old!r} is not in {path.name}"
    path.write_text(text.replace(old, new))


def text(name: str, old: str, new: str) -> Deviation:
    """Edits a description."""

    def deviate(folder: Path) -> Path:
        change(folder / name, old, new)
        return folder / FILE

    return deviate


def chunks(pattern: str, made: Callable[[pa.Table], pa.Table]) -> Deviation:
    """Replaces the contents of Parquet files."""

    def deviate(folder: Path) -> Path:
        files = [path for path in folder.glob(pattern) if path.is_file()]
        assert files
        for path in files:
            pq.write_table(made(pq.ParquetFile(path).read()), path)
        return folder / FILE

    return deviate


def narrow(table: pa.Table) -> pa.Table:
    return pa.table({OFFSET: table[OFFSET].cast(pa.int32())})


def padded(table: pa.Table) -> pa.Table:
    """Pads to as many rows as the offsets of a full part have."""
    offsets = table[OFFSET].to_pylist()
    return pa.table({OFFSET: pa.array(offsets + [offsets[-1]] * (101 - len(offsets)), pa.int64())})


def without_index(table: pa.Table) -> pa.Table:
    return table.drop_columns([INDEX])


def without_files_of_a_part(folder: Path) -> Path:
    """Removes all edges that leave persons 600 to 699, so that their part of each list by source has only counts."""
    kept = 6
    for order in ("ordered_by_dest", "unordered_by_source"):
        shutil.rmtree(folder / f"edge/person_knows_person/{order}")
    change(folder / EDGE, "  - ordered: true\n    aligned_by: dst\n    file_type: parquet\n", "")
    change(folder / EDGE, "  - ordered: false\n    aligned_by: src\n    file_type: parquet\n", "")
    for name in ("adj_list", "creationDate", "creationDate-date", "creationDate-timestamp"):
        if (folder / LIST / name).is_dir():
            shutil.rmtree(folder / LIST / name / f"part{kept}")
    (folder / LIST / f"offset/chunk{kept}").unlink()
    (folder / LIST / f"edge_count{kept}").write_bytes(bytes(8))
    return folder / FILE


# Refused deviations, each with the file and the key or column that the error names. Everything else reads as before,
# except that a part may have lost its edges.
REFUSED: dict[str, tuple[Deviation, str, str]] = {
    "offsets of 32 bits": (chunks(f"{LIST}/offset/chunk*", narrow), f"{LIST}/offset/chunk", OFFSET),
    "offsets that are filled up": (chunks(f"{LIST}/offset/chunk9", padded), f"{LIST}/offset/chunk9", "101 rows, not 4"),
    "vertices without an index": (chunks("vertex/person/id/chunk*", without_index), "vertex/person/id/chunk", INDEX),
    "parts without files": (without_files_of_a_part, f"{LIST}/offset/chunk6", "no such file"),
    "directed is missing": (text(EDGE, "directed: false\n", ""), EDGE, "directed"),
    "a prefix of vertices without a slash": (text(PERSON, "vertex/person/", "vertex/person"), PERSON, "prefix"),
    "a prefix of edges without a slash": (
        text(EDGE, "edge/person_knows_person/", "edge/person_knows_person"), EDGE, "prefix",
    ),
    "a prefix of the graph without a slash": (
        text(GRAPH, "name: ldbc_sample", "name: ldbc_sample\nprefix: ."), GRAPH, "prefix",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_deviation_is_read_by_default_and_refused_by_the_strict(name: str, graph: Path) -> None:
    deviate, file, key = REFUSED[name]
    expected = everything(graph / FILE, strict=True)
    changed = deviate(graph)
    found = everything(changed, strict=False)
    if deviate is without_files_of_a_part:
        ends = expected[f"{KNOWS} ordered_by_source"]
        left = [edge for edge in ends if not 600 <= edge[0] < 700]
        assert 0 < len(left) < len(ends)
        assert found[f"{KNOWS} ordered_by_source"] == left
        assert len(found[f"neighbours {KNOWS}"]) == len(left)
    else:
        assert found == expected
    with pytest.raises(st.StylobateError, match=rf"{re.escape(file)}.*{re.escape(key)}"):
        everything(changed, strict=True)


def test_times_that_are_stored_finer_than_declared_are_refused_by_the_strict(samples: Path, graph: Path) -> None:
    file = "ldbc_sample_timestamp.graph.yml"
    found = everything(graph / file, strict=False)
    with pytest.raises(st.StylobateError, match=r"creationDate-timestamp/part\d+/chunk\d+.*creationDate-timestamp"):
        everything(graph / file, strict=True)
    for path in (graph / "edge").rglob("creationDate-timestamp/part*/chunk*"):
        table = pq.ParquetFile(path).read()
        coarse = table["creationDate-timestamp"].cast(pa.timestamp("ms"))
        pq.write_table(pa.table({"creationDate-timestamp": coarse}), path)
    assert everything(graph / file, strict=True) == found


def test_the_strict_read_every_sample_that_is_by_the_book(samples: Path) -> None:
    names = ["parquet/ldbc_sample", "parquet/ldbc_sample_date", "parquet/ldbc_sample_with_feature"]
    names += ["orc/ldbc_sample", "csv/ldbc_sample"]
    for name in names:
        file = samples / "graphar/ldbc_sample" / f"{name}.graph.yml"
        assert everything(file, strict=True) == everything(file, strict=False)


def test_the_strict_refuse_the_sample_that_does_not_say_whether_edges_are_directed(samples: Path) -> None:
    file = samples / "graphar/neo4j/MovieGraph.graph.yml"
    found = everything(file, strict=False)
    assert (len(found["Person"]["name"]), len(found["Movie"]["title"])) == (133, 38)
    with pytest.raises(st.StylobateError, match=r"Person_\w+_\w+\.edge\.yml: directed: is missing"):
        st.open_graph(file, strict=True)


# Deviations of paths and notation, accepted in strict mode too.


def renamed(name: str, to: str) -> Deviation:
    def deviate(folder: Path) -> Path:
        (folder / name).rename(folder / to)
        if name == FILE:
            return folder / to
        change(folder / GRAPH, name, to)
        return folder / FILE

    return deviate


def with_neighbours_descending(folder: Path) -> Path:
    for path in (folder / LIST / "adj_list").glob("part*/chunk*"):
        table = pq.ParquetFile(path).read()
        order = pc.sort_indices(table, sort_keys=[(SOURCE, "ascending"), (DESTINATION, "descending")])
        pq.write_table(table.take(order), path)
        for name in ("creationDate", "creationDate-date", "creationDate-timestamp"):
            group = folder / LIST / name / path.parent.name / path.name
            if group.is_file():
                pq.write_table(pq.ParquetFile(group).read().take(order), group)
    return folder / FILE


def in_json(folder: Path) -> Path:
    for path in [path for path in folder.rglob("chunk*") if path.is_file()]:
        made = pq.ParquetFile(path).read().to_pylist()
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in made))
    for name in (PERSON, EDGE):
        change(folder / name, "file_type: parquet", "file_type: json")
    return folder / FILE


def in_quoted_csv(folder: Path) -> Path:
    """Rewrites the graph as CSV with quoted headers, as in one of the samples."""
    for path in [path for path in folder.rglob("chunk*") if path.is_file()]:
        table = pq.ParquetFile(path).read()
        header = ",".join(f'"{name}"' for name in table.column_names)
        lines = [",".join(map(str, row.values())) for row in table.to_pylist()]
        path.write_text("\n".join([header, *lines, ""]))
    for name in (PERSON, EDGE):
        change(folder / name, "file_type: parquet", "file_type: csv")
    return folder / FILE


READ_BY_ALL: dict[str, Deviation] = {
    "an absolute prefix that is stale": text(GRAPH, "name: ldbc_sample", "name: ldbc_sample\nprefix: /not/there/"),
    "a prefix of ./": text(GRAPH, "name: ldbc_sample", "name: ldbc_sample\nprefix: ./"),
    "a prefix of vertices that begins with ./": text(PERSON, "vertex/person/", "./vertex/person/"),
    "descriptions that are named with ./": text(GRAPH, f"- {PERSON}", f"- ./{PERSON}"),
    "a description that ends with .yaml": renamed(PERSON, "person.vertex.yaml"),
    "a graph that ends with .yaml": renamed(FILE, "ldbc_sample.graph.yaml"),
    "neighbours in another order": with_neighbours_descending,
    "lines of JSON": in_json,
    "quoted headers of CSV": in_quoted_csv,
}

# Things that the format leaves open, or can express in no other way.
LEFT_OPEN = ("a prefix of ./", "neighbours in another order", "lines of JSON", "quoted headers of CSV")


@pytest.mark.parametrize("name", READ_BY_ALL)
def test_paths_and_notation_may_deviate(name: str, graph: Path) -> None:
    expected = everything(graph / FILE, strict=True)
    changed = READ_BY_ALL[name](graph)
    assert everything(changed, strict=False) == expected


@pytest.mark.parametrize("name", READ_BY_ALL)
def test_paths_that_deviate_are_refused_by_the_strict(name: str, graph: Path) -> None:
    expected = everything(graph / FILE, strict=True)
    changed = READ_BY_ALL[name](graph)
    if name in LEFT_OPEN:
        assert everything(changed, strict=True) == expected
        return
    with pytest.raises(st.StylobateError, match=r"prefix|\./|\.yml|/not/there/"):
        everything(changed, strict=True)
