"""Requests of traversals over a graph in a bucket: each file once, and of large files only the requested columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, SOURCE, Oracle, plain
from servers import Origin, origin_options
from test_graphar_s3 import Recorder

KNOWS = ("person", "knows", "person")
FILE = "ldbc_sample.graph.yml"
SOCIAL = "walked/"
LARGE = "large/"
ROOM = "512MiB"
MIB = 1 << 20
# Edges of the large graph, all in one chunk: each of its columns takes 8 bytes per edge.
EDGES = 400_000
WEIGHTS = ["first", "second", "third"]


@pytest.fixture(scope="module")
def recorder(origin: Origin) -> Iterator[Recorder]:
    with Recorder(origin.port, origin.root) as server:
        yield server


def upload(origin: Origin, folder: Path, prefix: str) -> str:
    """Uploads the files of a folder below a prefix of the bucket, and returns the URL of the prefix."""
    for path in folder.rglob("*"):
        if path.is_file():
            origin.s3.put_object(Bucket="lake", Key=f"{prefix}{path.relative_to(folder)}", Body=path.read_bytes())
    return f"s3://lake/{prefix}"


def asked_of(recorder: Recorder, folder: str) -> Counter[str]:
    """Returns the requested files below a folder, with the number of requests of each."""
    start = f"/lake/{folder}"
    return Counter({path.removeprefix(start): n for path, n in recorder.asked.items() if path.startswith(start)})


@pytest.fixture(scope="module")
def social(origin: Origin, samples: Path) -> str:
    return upload(origin, samples / "graphar/ldbc_sample/parquet", SOCIAL)


@pytest.fixture(scope="module")
def oracle(samples: Path) -> Oracle:
    return Oracle(samples / "graphar/ldbc_sample/parquet" / FILE)


def walk(edges: Any, start: int, direction: str, **options: Any) -> dict[int, int]:
    """Returns the distance of each reached vertex."""
    distances, frontier = {start: 0}, [start]
    while frontier:
        found = plain(edges.neighbors(frontier, direction=direction, **options))["neighbor"].to_pylist()
        far = distances[frontier[0]] + 1
        frontier = sorted({vertex for vertex in found if vertex not in distances})
        distances |= dict.fromkeys(frontier, far)
    return distances


def walked(oracle: Oracle, start: int, direction: str) -> dict[int, int]:
    """Computes the same from the pairs of the files."""
    table = oracle.edges(KNOWS, "ordered_by_source")
    ends = [table[name].to_pylist() for name in (SOURCE, DESTINATION)]
    near: dict[int, set[int]] = {}
    for own, far in zip(*(ends if direction == "out" else ends[::-1])):
        near.setdefault(own, set()).add(far)
    distances, frontier = {start: 0}, {start}
    while frontier:
        step = distances[next(iter(frontier))] + 1
        frontier = {far for own in frontier for far in near.get(own, ())} - distances.keys()
        distances |= dict.fromkeys(frontier, step)
    return distances


def needed(oracle: Oracle, reached: dict[int, int], direction: str, groups: list[str]) -> set[str]:
    """Returns the files that a traversal needs: offsets of the parts that it reached, and the chunks of their edges."""
    order = "ordered_by_source" if direction == "out" else "ordered_by_dest"
    folder = f"edge/person_knows_person/{order}"
    files = {f"{folder}/offset/chunk{vertex // 100}" for vertex in reached}
    offsets = oracle.offsets(KNOWS, order)
    for vertex in reached:
        part, at = divmod(vertex, 100)
        rows = range(offsets[part][at], offsets[part][at + 1])
        files |= {f"{folder}/{name}/part{part}/chunk{row // 1_024}" for row in rows for name in ["adj_list", *groups]}
    return files


@pytest.mark.parametrize(("direction", "start"), [("out", 6), ("in", 902)])
@pytest.mark.parametrize("groups", [[], ["creationDate"]], ids=["ends", "properties"])
@pytest.mark.parametrize("memory", ["16MiB", ROOM])
def test_a_walk_asks_once_for_each_file_that_it_needs(
    social: str, oracle: Oracle, recorder: Recorder, direction: str, start: int, groups: list[str], memory: str
) -> None:
    with st.Cache(memory=memory) as cache:
        graph = st.open_graph(f"{social}{FILE}", cache=cache, storage_options=origin_options(recorder.endpoint))
        recorder.asked.clear()
        found = walk(graph.edges(*KNOWS), start, direction, properties=groups)
        asked = asked_of(recorder, SOCIAL)
        assert found == walked(oracle, start, direction) and len(found) > 300
        files = needed(oracle, found, direction, groups)
        counts = {name for name in asked if "_count" in name}
        assert set(asked) - counts == files
        assert set(asked.values()) == {1}, asked.most_common(3)
        assert len([name for name in counts if name.endswith("vertex_count")]) <= 2
        assert len(counts) <= 2 + 10

        recorder.asked.clear()
        assert walk(graph.edges(*KNOWS), start, direction, properties=groups) == found
        assert not recorder.asked


def test_a_second_walk_asks_for_what_the_first_did_not_reach(
    social: str, oracle: Oracle, recorder: Recorder
) -> None:
    with st.Cache(memory=ROOM) as cache:
        graph = st.open_graph(f"{social}{FILE}", cache=cache, storage_options=origin_options(recorder.endpoint))
        edges = graph.edges(*KNOWS)
        recorder.asked.clear()
        edges.neighbors([6, 201])
        first = asked_of(recorder, SOCIAL)
        assert any("part2" in name for name in first) and not any("part5" in name for name in first)
        edges.neighbors(range(903), properties=["creationDate"])
        everyone = dict.fromkeys(range(903), 0)
        both = asked_of(recorder, SOCIAL)
        assert set(both.values()) == {1}
        assert {name for name in both if "_count" not in name} == needed(oracle, everyone, "out", ["creationDate"])


# Columns of files that are larger than a page.


@pytest.fixture(scope="module")
def large(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pa.Table, Path]:
    """A graph with one chunk of edges, of incompressible noise."""
    folder = tmp_path_factory.mktemp("large") / "g"
    random = np.random.default_rng(7)
    table = pa.table(
        {"src": np.sort(random.integers(0, 1_000, EDGES)), "dst": random.integers(0, 1_000, EDGES)}
        | {name: random.integers(-(2**63), 2**63 - 1, EDGES) for name in WEIGHTS}
    )
    vertices = {"person": pa.table({"id": range(1_000)})}
    edges = {KNOWS: {"data": table, "by": "index", "lists": ["ordered_by_source"]}}
    st.write_graph(folder, name="g", vertices=vertices, edges=edges)
    return upload(origin, folder, LARGE), table, folder


def test_of_a_large_file_the_columns_that_are_wanted_come_and_no_others(
    large: tuple[str, pa.Table, Path], recorder: Recorder
) -> None:
    url, table, folder = large
    (file,) = (path for path in folder.rglob("part0/chunk0") if "adj_list" not in str(path))
    sizes = column_sizes(file)
    assert all(size > 3 * MIB for size in sizes.values()) and list(sizes) == WEIGHTS
    name = str(file.relative_to(folder))
    with st.Cache(memory=ROOM) as cache:
        graph = st.open_graph(f"{url}g.graph.yml", cache=cache, storage_options=origin_options(recorder.endpoint))
        edges = graph.edges(*KNOWS)
        edges.neighbors([5])
        assert name not in asked_of(recorder, LARGE)
        # One request for the file's size and columns, and then one for each column.
        for column, requests in (("second", 1 + 2), ("first", 1), ("third", 1)):
            recorder.asked.clear()
            before = recorder.bytes_out
            found = plain(edges.neighbors([5, 999], properties=[column]))
            asked, sent = asked_of(recorder, LARGE), recorder.bytes_out - before
            assert set(asked) == {name}
            assert asked[name] == requests, asked
            assert sent <= sizes[column] + 3 * MIB, f"{column}: {sent} bytes"
            given = Counter(zip(*(table[part].to_pylist() for part in ("src", "dst", column))))
            kept = Counter({row: count for row, count in given.items() if row[0] in (5, 999)})
            sides = [[5, 999][at] for at in found["position"].to_pylist()]
            assert Counter(zip(sides, found["neighbor"].to_pylist(), found[column].to_pylist())) == kept
        recorder.asked.clear()
        edges.neighbors(range(1_000), properties=WEIGHTS)
        edges.to_arrow(properties=["third"])
        assert not [path for path in asked_of(recorder, LARGE) if "chunk" in path]


def column_sizes(file: Path) -> dict[str, int]:
    """Returns the bytes of each column of a file."""
    found: Counter[str] = Counter()
    metadata = pq.ParquetFile(file).metadata
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            column = metadata.row_group(group).column(at)
            found[column.path_in_schema] += column.total_compressed_size
    return dict(found)
