"""Valid graphs that look unusual: other prefixes, labels, JSON, chunks without an index; and graphs over S3."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle
from graphar_oracle import DESTINATION, INDEX, TYPES, Oracle, assert_same, plain
from proxy import Proxy
from servers import ORIGIN_SECRET, Origin, origin_options

KNOWS = ("person", "knows", "person")
FILE = "ldbc_sample.graph.yml"


@pytest.fixture
def ldbc(samples: Path) -> Oracle:
    return Oracle(samples / "graphar" / "ldbc_sample/parquet" / FILE)


@pytest.fixture
def graph(ldbc: Oracle, tmp_path: Path) -> Path:
    """A copy of the sample, to be modified."""
    return copied(ldbc.path.parent, tmp_path / "graph")


def copied(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder, copy_function=shutil.copyfile)
    return folder


def change(path: Path, *replacements: tuple[str, str]) -> None:
    """Replaces all occurrences in a text file."""
    text = path.read_text()
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


def assert_whole(graph: Any, expected: Oracle) -> None:
    """Checks that all people and edges are found, and that each has its neighbors."""
    assert_same(graph.vertices("person").to_arrow(), expected.vertices("person"))
    for order in ("ordered_by_source", "ordered_by_dest"):
        assert_same(graph.edges(*KNOWS, order=order).to_arrow(), expected.edges(KNOWS, order))
    found = plain(graph.edges(*KNOWS).neighbors(range(903), properties=["creationDate"]))
    edges = expected.edges(KNOWS, "ordered_by_source")
    assert found["neighbor"].equals(edges[DESTINATION])
    assert found["creationDate"].equals(edges["creationDate"])


# Locations of files.


@pytest.mark.parametrize("prefix", ["./", ".", "data/", "data", "./data/", "a b/ü/"])
def test_files_are_below_the_prefix(prefix: str, graph: Path, ldbc: Oracle) -> None:
    data = graph / prefix
    for name in ("vertex", "edge"):
        if data != graph:
            data.mkdir(parents=True, exist_ok=True)
            (graph / name).rename(data / name)
    change(graph / FILE, ("name: ldbc_sample", f"name: ldbc_sample\nprefix: {prefix}"))
    assert_whole(st.open_graph(graph / FILE), ldbc)


def test_a_prefix_may_be_absolute(graph: Path, ldbc: Oracle) -> None:
    change(graph / FILE, ("name: ldbc_sample", f"name: ldbc_sample\nprefix: {ldbc.path.parent}/"))
    shutil.rmtree(graph / "vertex")
    shutil.rmtree(graph / "edge")
    assert_whole(st.open_graph(graph / FILE), ldbc)


def test_a_prefix_that_has_grown_stale_is_overridden(graph: Path, ldbc: Oracle) -> None:
    change(graph / FILE, ("name: ldbc_sample", "name: ldbc_sample\nprefix: /nowhere/at/all/"))
    assert_whole(st.open_graph(graph / FILE), ldbc)  # files beside the description take precedence
    elsewhere = graph.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("vertex", "edge"):
        (graph / name).rename(elsewhere / name)
    with pytest.raises(st.StylobateError, match="nowhere"):
        st.open_graph(graph / FILE).vertices("person").to_arrow()
    for given in (elsewhere, str(elsewhere), f"{elsewhere}/"):
        assert_whole(st.open_graph(graph / FILE, prefix=given), ldbc)


def test_prefixes_of_vertices_and_edges_need_no_slash(graph: Path, ldbc: Oracle) -> None:
    change(graph / "person.vertex.yml", ("prefix: vertex/person/", "prefix: vertex/person"))
    edges = "prefix: edge/person_knows_person"
    change(graph / "person_knows_person.edge.yml", (f"{edges}/", edges))
    assert_whole(st.open_graph(graph / FILE), ldbc)


def test_descriptions_may_be_named_yaml_and_lie_elsewhere(graph: Path, ldbc: Oracle) -> None:
    (graph / "described").mkdir()
    names = {"person.vertex": "described/person.vertex", "person_knows_person.edge": "described/knows.edge"}
    for old, new in names.items():
        (graph / f"{old}.yml").rename(graph / f"{new}.yaml")
        change(graph / FILE, (f"{old}.yml", f"{new}.yaml"))
    (graph / FILE).rename(graph / "any.graph.yaml")
    assert_whole(st.open_graph(graph / "any.graph.yaml"), ldbc)


def test_a_path_may_be_relative_or_a_url(graph: Path, ldbc: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(graph.parent)
    for given in ("graph/ldbc_sample.graph.yml", Path("graph") / FILE, (graph / FILE).as_uri()):
        assert_whole(st.open_graph(given), ldbc)


# Contents of files.


def test_vertices_without_an_index_column_are_counted(graph: Path, ldbc: Oracle) -> None:
    for path in (graph / "vertex/person").rglob("chunk*"):
        pq.write_table(pq.ParquetFile(path).read().drop_columns([INDEX]), path)
    assert_whole(st.open_graph(graph / FILE), ldbc)


def test_columns_may_be_in_another_order_and_more_than_described(graph: Path, ldbc: Oracle) -> None:
    for path in graph.rglob("chunk*"):
        table = pq.ParquetFile(path).read()
        reordered = table.select(table.column_names[::-1])
        pq.write_table(reordered.append_column("more", pa.array(["x"] * len(table))), path, row_group_size=7)
    assert_whole(st.open_graph(graph / FILE), ldbc)


def test_offsets_may_be_narrow_and_padded(graph: Path, ldbc: Oracle) -> None:
    for path in graph.rglob("offset/chunk*"):
        offsets = pq.ParquetFile(path).read().column(0).to_pylist()
        padded = offsets + [offsets[-1]] * (101 - len(offsets))
        pq.write_table(pa.table({"_graphArOffset": pa.array(padded, pa.int32())}), path)
    assert_whole(st.open_graph(graph / FILE), ldbc)


def without_index(path: Path) -> None:
    pq.write_table(pq.ParquetFile(path).read().drop_columns([INDEX]), path)


def with_narrow_offsets(path: Path) -> None:
    offsets = pq.ParquetFile(path).read().column(0)
    pq.write_table(pa.table({"_graphArOffset": offsets.cast(pa.int32())}), path)


def with_padded_offsets(path: Path) -> None:
    offsets = pq.ParquetFile(path).read().column(0).to_pylist()
    pq.write_table(pa.table({"_graphArOffset": [*offsets, offsets[-1]]}), path)


@pytest.mark.parametrize(
    ("file", "deviate"),
    [
        ("vertex/person/id/chunk2", without_index),
        ("edge/person_knows_person/ordered_by_source/offset/chunk2", with_narrow_offsets),
        ("edge/person_knows_person/ordered_by_source/offset/chunk9", with_padded_offsets),
    ],
)
def test_what_deviates_is_read_unless_readers_are_strict(
    file: str, deviate: Callable[[Path], None], graph: Path, ldbc: Oracle
) -> None:
    assert_whole(st.open_graph(graph / FILE, strict=True), ldbc)
    deviate(graph / file)
    assert_whole(st.open_graph(graph / FILE), ldbc)
    with pytest.raises(st.StylobateError, match=file):
        assert_whole(st.open_graph(graph / FILE, strict=True), ldbc)


def test_a_part_without_edges_needs_no_files_unless_readers_are_strict(tmp_path: Path) -> None:
    people = pa.table({"id": list(range(30))})
    edges = {KNOWS: {"data": pa.table({"src": [1, 25], "dst": [2, 3]}), "by": "index"}}
    st.write_graph(tmp_path / "g", name="g", vertices={"person": people}, edges=edges, vertex_chunk_size=10)
    (offsets,) = (tmp_path / "g").rglob("ordered_by_source/offset/chunk1")
    offsets.unlink()
    for parts in (tmp_path / "g").rglob("ordered_by_source/adj_list/part1"):
        shutil.rmtree(parts)
    found = st.open_graph(tmp_path / "g/g.graph.yml").edges(*KNOWS).neighbors([1, 15, 25])
    assert plain(found).to_pydict() == {"position": [0, 2], "neighbor": [2, 3]}
    with pytest.raises(st.StylobateError, match="ordered_by_source/offset/chunk1"):
        st.open_graph(tmp_path / "g/g.graph.yml", strict=True).edges(*KNOWS).neighbors([15])


def test_chunks_may_be_lines_of_json(graph: Path, ldbc: Oracle) -> None:
    for path in graph.rglob("chunk*"):
        rows = pq.ParquetFile(path).read().to_pylist()
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    for name in ("person.vertex.yml", "person_knows_person.edge.yml"):
        change(graph / name, ("file_type: parquet", "file_type: json"))
    assert_whole(st.open_graph(graph / FILE), ldbc)


def test_texts_of_csv_stay_what_they_are(tmp_path: Path) -> None:
    words = ["007", "1.50", "true", "NA", "null", "NaN", " x ", "", None, "a,b", 'q"u', "l\nf", "ü", "2010-01-01"]
    lines = ["" if word is None else '"' + word.replace('"', '""') + '"' for word in words]
    rows = "".join(f"{at},{line},\n" for at, line in enumerate(lines))
    description(tmp_path, "csv", len(words), {"word": "string", "number": "int64"})
    chunk = tmp_path / "vertex/thing/word_number/chunk0"
    for header, end in (('"_graphArVertexIndex","word","number"\n', ""), ("_graphArVertexIndex,word,number\n", "\n")):
        chunk.write_text(header + (rows if end else rows.rstrip("\n")))
        found = plain(st.open_graph(tmp_path / "things.graph.yml").vertices("thing").to_arrow())
        assert found["word"].to_pylist() == words
        assert found["number"].null_count == len(words)


def description(
    folder: Path, file_type: str, count: int, properties: dict[str, str], labels: tuple[str, ...] = ()
) -> None:
    """Returns a graph of one vertex type in one chunk."""
    described = "".join(f"      - name: {name}\n        data_type: {kind}\n" for name, kind in properties.items())
    labelled = "".join(f"  - {label}\n" for label in labels)
    prefix = "_".join(properties)
    (folder / f"vertex/thing/{prefix}").mkdir(parents=True)
    (folder / "vertex/thing/vertex_count").write_bytes(count.to_bytes(8, "little"))
    (folder / "things.graph.yml").write_text("name: things\nversion: gar/v1\nvertices:\n  - thing.vertex.yml\n")
    (folder / "thing.vertex.yml").write_text(
        "type: thing\nchunk_size: 100\nprefix: vertex/thing/\nversion: gar/v1\n"
        + (f"labels:\n{labelled}" if labels else "")
        + f"property_groups:\n  - file_type: {file_type}\n    prefix: {prefix}/\n    properties:\n{described}"
    )


@pytest.mark.parametrize("kind", ["list<int32>", "list<int64>", "list<float>", "list<double>", "list<string>"])
def test_lists_of_every_kind_are_read(kind: str, tmp_path: Path) -> None:
    word = kind == "list<string>"
    lists: list[Any] = [[], None, ["a", ""] if word else [1, 2], ["ü"] if word else [3]]
    description(tmp_path, "parquet", 4, {"values": kind})
    expected = pa.table({INDEX: pa.array(range(4), pa.int64()), "values": pa.array(lists, list_type(kind))})
    pq.write_table(expected, tmp_path / "vertex/thing/values/chunk0")
    assert_same(st.open_graph(tmp_path / "things.graph.yml").vertices("thing").to_arrow(), expected)


def list_type(kind: str) -> pa.DataType:
    return pa.list_(TYPES[kind.removeprefix("list<").removesuffix(">")])


# Labels.


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Sixty things: every second is even, every third threefold, none is odd and even."""
    labels = {"even": 2, "threefold": 3, "none": 100}
    description(tmp_path, "parquet", 60, {"id": "int64", "name": "string"}, tuple(labels))
    ids = list(range(60))
    table = pa.table({INDEX: ids, "id": ids, "name": [f"thing {id % 7}" for id in ids]})
    pq.write_table(table, tmp_path / "vertex/thing/id_name/chunk0")
    (tmp_path / "vertex/thing/labels").mkdir()
    columns = {name: [id % step == step - 1 for id in ids] for name, step in labels.items()}
    pq.write_table(pa.table(columns), tmp_path / "vertex/thing/labels/chunk0")
    return tmp_path / "things.graph.yml"


def ids_of(vertices: Any) -> list[int]:
    return plain(vertices.select(["id"]).to_arrow())["id"].to_pylist()


def test_labels_choose_vertices(labelled: Path) -> None:
    things = st.open_graph(labelled).vertices("thing")
    even, threefold = set(range(1, 60, 2)), set(range(2, 60, 3))
    assert ids_of(things.labels(any=["even"])) == sorted(even)
    assert ids_of(things.labels(all=["even", "threefold"])) == sorted(even & threefold)
    assert ids_of(things.labels(any=["even", "threefold"])) == sorted(even | threefold)
    assert ids_of(things.labels(all=["none", "even"])) == []
    assert ids_of(things) == list(range(60))


def test_labels_and_filters_both_hold(labelled: Path) -> None:
    things = st.open_graph(labelled).vertices("thing")
    found = things.labels(all=["even"]).filter(st.col("id") < 10).select(["name"]).to_arrow()
    expected = Oracle(labelled).vertices("thing").filter((pc.field("id") < 10) & pc.field("id").isin(range(1, 60, 2)))
    assert_same(found, expected.select([INDEX, "name"]))


# Replaced graphs, and remote graphs.


def test_a_graph_that_was_replaced_is_read_anew(graph: Path, ldbc: Oracle, cache: st.Cache) -> None:
    settle(*[path for path in graph.rglob("*") if path.is_file()])
    assert_whole(st.open_graph(graph / FILE, cache=cache), ldbc)
    path = graph / "vertex/person/id/chunk3"
    table = pq.ParquetFile(path).read()
    negated = table.set_column(1, "id", pc.negate(table["id"]))
    pq.write_table(negated, path.with_name("new"))
    path.with_name("new").rename(path)
    found = plain(st.open_graph(graph / FILE, cache=cache).vertices("person").to_arrow())["id"].to_pylist()
    assert found[300:400] == negated["id"].to_pylist()
    assert found[:300] == ldbc.vertices("person")["id"].to_pylist()[:300]


@pytest.fixture
def uploaded(origin: Origin, proxy: Proxy, ldbc: Oracle, prefix: str) -> dict[str, Any]:
    """Uploads the sample to a bucket; returns its URL and options."""
    folder = ldbc.path.parent
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"{prefix}{path.relative_to(folder)}"
            origin.s3.put_object(Bucket="lake", Key=key, Body=path.read_bytes())
    options = origin_options(proxy.endpoint)
    return {"url": f"s3://lake/{prefix}{FILE}", "storage_options": options}


def test_a_graph_is_read_over_s3(uploaded: dict[str, Any], ldbc: Oracle, cache: st.Cache) -> None:
    assert_whole(st.open_graph(**uploaded, cache=cache), ldbc)


def test_a_second_look_asks_the_store_for_nothing(
    uploaded: dict[str, Any], ldbc: Oracle, cache: st.Cache, proxy: Proxy
) -> None:
    edges = st.open_graph(**uploaded, cache=cache).edges(*KNOWS)
    first = plain(edges.neighbors([6, 250, 901]))
    before = proxy.count()
    assert plain(edges.neighbors([901, 6]))["neighbor"].to_pylist()
    assert plain(edges.neighbors([6, 250, 901])).equals(first)
    assert proxy.count() == before


def test_few_neighbours_cost_few_requests(uploaded: dict[str, Any], cache: st.Cache, proxy: Proxy) -> None:
    before = proxy.count()
    st.open_graph(**uploaded, cache=cache).edges(*KNOWS).neighbors([6])
    assert proxy.count() - before < 30


def test_a_missing_object_is_named(uploaded: dict[str, Any], origin: Origin, prefix: str, cache: st.Cache) -> None:
    origin.s3.delete_object(Bucket="lake", Key=f"{prefix}vertex/person/id/chunk3")
    with pytest.raises(st.StylobateError, match="vertex/person/id/chunk3"):
        st.open_graph(**uploaded, cache=cache).vertices("person").to_arrow()


def test_secrets_are_in_no_error(uploaded: dict[str, Any]) -> None:
    wrong = uploaded | {"url": uploaded["url"].replace(FILE, "none.graph.yml")}
    with pytest.raises(st.StylobateError, match="none") as caught:
        st.open_graph(**wrong)
    assert ORIGIN_SECRET not in str(caught.value)
