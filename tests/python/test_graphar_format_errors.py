"""ORC, CSV and JSON chunks that are missing, truncated or have other contents: an error that names the file."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, INDEX, OFFSET, SOURCE
from test_graphar_raw import to_json

KNOWS = ("person", "knows", "person")
FILE = "ldbc_sample.graph.yml"
FORMATS = ["orc", "csv", "json"]
VERTICES = "vertex/person"
LIST = "edge/person_knows_person/ordered_by_source"
IDS, ENDS = f"{VERTICES}/id/chunk3", f"{LIST}/adj_list/part2/chunk1"
CHUNKS = [IDS, f"{VERTICES}/firstName_lastName_gender/chunk9", f"{LIST}/offset/chunk4", ENDS]
DATES = f"{LIST}/creationDate/part2/chunk1"
CHUNKS += [DATES, "edge/person_knows_person/ordered_by_dest/offset/chunk9"]


@pytest.fixture(scope="session")
def whole(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample in each format. JSON is converted from its Parquet files."""
    folders = {format: samples / "graphar/ldbc_sample" / format for format in ("orc", "csv")}
    folder = tmp_path_factory.mktemp("json") / "graph"
    shutil.copytree(samples / "graphar/ldbc_sample/parquet", folder, copy_function=shutil.copyfile)
    for path in folder.rglob("*"):
        if path.is_dir() and re.search("unordered|feature|-date|-timestamp", path.name):
            shutil.rmtree(path)
    change(folder / "person_knows_person.edge.yml", "  - ordered: false\n    aligned_by: src\n    file_type: parquet\n")
    to_json(folder)
    return folders | {"json": folder}


def change(path: Path, taken_away: str) -> None:
    text = path.read_text()
    assert taken_away in text
    path.write_text(text.replace(taken_away, ""))


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def graph(whole: dict[str, Path], format: str, tmp_path: Path) -> Path:
    """A copy in one of the formats, to be damaged."""
    return Path(shutil.copytree(whole[format], tmp_path / "graph", copy_function=shutil.copyfile))


def read(path: Path, format: str) -> pa.Table:
    if format == "orc":
        return pa.orc.ORCFile(path).read()
    return pa.csv.read_csv(path) if format == "csv" else pa.json.read_json(path)


def write(path: Path, table: pa.Table, format: str) -> None:
    if format == "orc":
        pa.orc.write_table(table, path)
    elif format == "csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))


def read_all(folder: Path) -> None:
    """Reads everything, in every way."""
    graph = st.open_graph(folder / FILE)
    people, edges = graph.vertices("person"), graph.edges(*KNOWS)
    people.to_arrow()
    people.select(["id"]).filter(st.col("gender") == "female").to_arrow()
    for order in ("ordered_by_source", "ordered_by_dest"):
        graph.edges(*KNOWS, order=order).to_arrow()
    for direction in ("out", "in"):
        edges.neighbors(range(people.count), properties=["creationDate"], direction=direction)
        edges.degrees(range(people.count), direction=direction)
        edges.to_csr(direction=direction)


def refused(folder: Path, *names: str) -> str:
    """Returns the error raised by reading, which names one of the files."""
    with pytest.raises(st.StylobateError, match="|".join(map(re.escape, names))) as caught:
        read_all(folder)
    return str(caught.value)


def test_an_undamaged_copy_is_read(graph: Path) -> None:
    read_all(graph)


# Files.


@pytest.mark.parametrize("name", CHUNKS)
def test_a_missing_chunk_is_named(name: str, graph: Path) -> None:
    (graph / name).unlink()
    with pytest.raises(st.NotFoundError, match=re.escape(name)):
        read_all(graph)


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_that_is_cut_off_is_named(name: str, graph: Path) -> None:
    content = (graph / name).read_bytes()
    # Truncated in the middle of a row too: the rest may be a valid row.
    cuts = {0, 1, 30, len(content) // 3, len(content) // 2, len(content) - 40}
    for cut in sorted(cut for cut in cuts if 0 <= cut < len(content)):
        (graph / name).write_bytes(content[:cut])
        refused(graph, name)
    (graph / name).write_bytes(content)
    read_all(graph)


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_of_other_bytes_is_named(name: str, graph: Path, format: str) -> None:
    content = (graph / name).read_bytes()
    middle = len(content) // 2
    for other in (b"\0" * 500, bytes(range(256)) * 4, content[:middle] + b"\xff\xfe\0" + content[middle + 3 :]):
        # ORC has no checksums: changes within a stripe may be read as other values.
        if format == "orc" and other[:9] == content[:9]:
            continue
        (graph / name).write_bytes(other)
        refused(graph, name)


# Rows.


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_with_more_or_fewer_rows_is_named(name: str, graph: Path, format: str) -> None:
    table = read(graph / name, format)
    changed = [table.slice(1), table.slice(0, table.num_rows - 1), table.slice(0, 0)]
    # Offsets of the last part may be padded.
    changed += [] if name.endswith("offset/chunk9") else [pa.concat_tables([table, table.slice(0, 1)])]
    for other in changed:
        write(graph / name, other, format)
        said = refused(graph, name)
        # A JSON file without rows has no columns, and a list may begin elsewhere than at 0.
        assert re.search("rows|offset|column|edge", said), said
    write(graph / name, table, format)
    read_all(graph)


@pytest.mark.parametrize("count", [0, 1, 500, 800, 899, 904, 1_000, 10**6])
def test_another_number_of_vertices_than_there_are(count: int, graph: Path) -> None:
    (graph / VERTICES / "vertex_count").write_bytes(struct.pack("<q", count))
    refused(graph, f"{VERTICES}/")


@pytest.mark.parametrize("count", [0, 1, 1_000, 1_024, 1_076, 1_078, 2_048, 2_049, 10**9])
def test_another_number_of_edges_than_there_are(count: int, graph: Path) -> None:
    assert (graph / LIST / "edge_count2").read_bytes() == struct.pack("<q", 1_077)
    (graph / LIST / "edge_count2").write_bytes(struct.pack("<q", count))
    refused(graph, f"{LIST}/edge_count2", f"{LIST}/offset/chunk2", f"{LIST}/adj_list/part2/chunk")


@pytest.mark.parametrize("count", [0, 1, 902, 904, 10**6])
def test_a_list_about_another_number_of_vertices_than_there_are(count: int, graph: Path) -> None:
    (graph / LIST / "vertex_count").write_bytes(struct.pack("<q", count))
    refused(graph, f"{LIST}/")


# Columns.


def renamed(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.rename_columns(["other" if found == name else found for found in table.column_names])


def texts(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replaced(table, name, pa.array(["no number"] * table.num_rows))


def with_null(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replaced(table, name, pa.array([None, *table[name].to_pylist()[1:]], pa.int64()))


def replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        (IDS, renamed("id")),
        (IDS, texts("id")),
        (f"{LIST}/offset/chunk4", renamed(OFFSET)),
        (f"{LIST}/offset/chunk4", texts(OFFSET)),
        (f"{LIST}/offset/chunk4", with_null(OFFSET)),
        (ENDS, renamed(SOURCE)),
        (ENDS, renamed(DESTINATION)),
        (ENDS, texts(DESTINATION)),
        (ENDS, with_null(DESTINATION)),
        (DATES, renamed("creationDate")),
    ],
    ids=lambda value: value.rsplit("/", 1)[0].replace("/", "-") if isinstance(value, str) else "",
)
def test_columns_that_are_missing_or_of_other_types_are_refused(
    name: str, changed: Callable[[pa.Table], pa.Table], graph: Path, format: str
) -> None:
    table = changed(read(graph / name, format))
    write(graph / name, table, format)
    if format == "json" and name in (IDS, DATES) and "other" in table.column_names:
        read_all(graph)  # Lines may omit nulls.
    else:
        refused(graph, name)


@pytest.mark.parametrize("value", [10**12, -1, 3])
@pytest.mark.parametrize("at", [0, 50, 100])
def test_offsets_that_lead_elsewhere_are_refused(at: int, value: int, graph: Path, format: str) -> None:
    name = f"{LIST}/offset/chunk4"
    table = read(graph / name, format)
    offsets: list[Any] = table[OFFSET].to_pylist()
    offsets[at] = value
    write(graph / name, pa.table({OFFSET: pa.array(offsets, pa.int64())}), format)
    refused(graph, name, f"{LIST}/edge_count4")


def test_a_chunk_in_another_format_than_is_said_is_named(graph: Path, format: str, whole: dict[str, Path]) -> None:
    for other in FORMATS:
        if other != format:
            shutil.copyfile(whole[other] / IDS, graph / IDS)
            refused(graph, IDS)


def without_indices(graph: Path, format: str) -> None:
    for path in (graph / VERTICES / "id").iterdir():
        write(path, read(path, format).drop_columns([INDEX]), format)


def test_vertices_need_no_index_in_any_format(graph: Path, format: str) -> None:
    everyone = pa.table(st.open_graph(graph / FILE).vertices("person").to_arrow())
    without_indices(graph, format)
    assert pa.table(st.open_graph(graph / FILE).vertices("person").to_arrow()).equals(everyone)


def test_the_strict_need_the_index_where_files_have_columns(graph: Path, format: str) -> None:
    without_indices(graph, format)
    if format == "json":
        st.open_graph(graph / FILE, strict=True).vertices("person").to_arrow()
        return
    with pytest.raises(st.StylobateError, match=rf"id/chunk\d.*{INDEX}"):
        st.open_graph(graph / FILE, strict=True).vertices("person").to_arrow()
