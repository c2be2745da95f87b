"""The graph examples give the same results as networkx."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import networkx as nx
import numpy as np
import pytest
import stylobate as st

from graphar_oracle import DESTINATION, SOURCE, Oracle

EXAMPLES = Path(__file__).parents[2] / "examples"
KNOWS = ("person", "knows", "person")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def oracle(samples: Path) -> Oracle:
    return Oracle(samples / "graphar" / "ldbc_sample/parquet/ldbc_sample.graph.yml")


@pytest.fixture
def theirs(oracle: Oracle) -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_nodes_from(range(903))
    edges = oracle.edges(KNOWS, "ordered_by_source")
    made.add_edges_from(zip(edges[SOURCE].to_pylist(), edges[DESTINATION].to_pylist()))
    return made


@pytest.mark.parametrize("direction", ["out", "in"])
def test_breadth_first_search_finds_the_shortest_paths(oracle: Oracle, theirs: nx.DiGraph, direction: str) -> None:
    walked = theirs if direction == "out" else theirs.reverse()
    edges = st.open_graph(oracle.path).edges(*KNOWS)
    for start in (0, 2, 6, 902):
        found = example("graphar_bfs").distances(edges, 903, start, direction)
        expected = nx.single_source_shortest_path_length(walked, start)
        assert found.tolist() == [expected.get(vertex, -1) for vertex in range(903)]


def test_page_rank_finds_the_ranks(oracle: Oracle, theirs: nx.DiGraph) -> None:
    csr = map(np.asarray, st.open_graph(oracle.path).edges(*KNOWS).to_csr())
    found = example("graphar_pagerank").page_rank(*csr, damping=0.85, tolerance=1e-12, max_iterations=500)
    expected = nx.pagerank(theirs, tol=1e-12, max_iter=500)
    assert found == pytest.approx([expected[vertex] for vertex in range(903)], abs=1e-9)


@pytest.mark.parametrize(
    ("name", "flags", "said"),
    [
        ("graphar_bfs", ["--start", "6"], "381 of 903 vertices"),
        ("graphar_pagerank", ["--property", "firstName", "--memory", "1MiB"], "Emperor of Brazil"),
    ],
)
def test_an_example_runs_from_the_command_line(oracle: Oracle, name: str, flags: list[str], said: str) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), str(oracle.path), *KNOWS, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert said in done.stdout
