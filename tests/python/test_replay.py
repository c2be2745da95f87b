"""Traces played from Python, against a node in the same process, and their drawings."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import stylobate as st


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace of 20 requests and the files in `data`."""
    path = tmp_path_factory.mktemp("replay") / "1m"
    make = [sys.executable, "-m", "stylobate", "replay", "--make", "zipf", "--kind", "1m", "--output", str(path)]
    subprocess.run(make, check=True, capture_output=True)
    return path


@pytest.fixture
def node(lake: Path) -> Iterator[st.Node]:
    with st.Node(lake / "data") as node:
        yield node


def test_a_trace_is_played_and_drawn(lake: Path, node: st.Node) -> None:
    played = st.replay(lake / "trace.csv", bucket="data", endpoint=node.s3_endpoint, speed=50)

    (run,) = played.report["runs"]
    assert (run["requests"], run["completed"], run["failed"]) == (20, 20, 0)
    assert run["latency_ms"]["p50"] > 0 and run["bytes"] > 10_000_000
    assert played.failed == 0
    assert "20 of 20 requests" in repr(played)

    drawing = ET.fromstring(played._repr_html_())
    assert drawing.tag.endswith("svg")
    assert "Latency of 20 requests" in "".join(drawing.itertext())


def test_two_endpoints_are_compared(lake: Path, node: st.Node) -> None:
    with st.Node(lake / "data") as other:
        played = st.replay(
            lake / "trace.csv",
            bucket="data",
            endpoint=node.s3_endpoint,
            compare=other.s3_endpoint,
            speed=50,
            timeout=10,
            storage_options={"region": "eu-west-1"},
        )

    assert [run["endpoint"] for run in played.report["runs"]] == [node.s3_endpoint, other.s3_endpoint]
    assert played.report["ratio"]["latency"]["p50"] > 0


def test_failed_requests_are_counted(lake: Path, node: st.Node) -> None:
    played = st.replay(lake / "trace.csv", bucket="missing", endpoint=node.s3_endpoint, speed=50)
    assert played.failed == 20


def test_errors_say_what_is_wrong(lake: Path) -> None:
    trace = lake / "trace.csv"
    with pytest.raises(st.StylobateError, match="none.csv: No such file"):
        st.replay(lake / "none.csv", bucket="data")
    with pytest.raises(st.ConfigError, match="--speed -1: a factor above 0"):
        st.replay(trace, bucket="data", speed=-1)
    with pytest.raises(st.ConfigError, match="0ms"):
        st.replay(trace, bucket="data", timeout=0)
    with pytest.raises(st.ConfigError, match="access_key is none of access_key_id"):
        st.replay(trace, bucket="data", storage_options={"access_key": "a"})
