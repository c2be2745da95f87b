"""The memory of a graph write depends on its budget and its chunks, not on its edges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stylobate as st

BATCHES, ROWS = 120, 100_000
# Sorted by both ends in memory, the edges would take 576 MB.
MAX_MEBIBYTES = 400
WRITE = """
import re, sys
import numpy as np
import pyarrow as pa
import stylobate as st

VERTICES, (BATCHES, ROWS) = 100_000, map(int, sys.argv[2:])

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) >> 10

def edges():
    for seed in range(BATCHES):
        rng = np.random.default_rng(seed)
        ends = [pa.array(rng.integers(0, VERTICES, ROWS)) for _ in range(2)]
        yield pa.record_batch([*ends, pa.array(rng.random(ROWS))], schema)

schema = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("weight", pa.float64())])
vertices = {"person": {"data": pa.table({"id": np.arange(VERTICES)}), "key": "id"}}
stream = pa.RecordBatchReader.from_batches(schema, edges())
before = peak()
knows = {("person", "knows", "person"): {"data": stream, "by": "key"}}
st.write_graph(sys.argv[1], name="g", vertices=vertices, edges=knows, memory="32MiB")
print(peak() - before)
"""


def test_many_edges_are_sorted_in_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path / "g"), str(BATCHES), str(ROWS)]
    # The freed memory that the allocator keeps depends on how busy the machine is.
    environment = {**os.environ, "MIMALLOC_PURGE_DELAY": "0", "MIMALLOC_ALLOW_THP": "0"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < MAX_MEBIBYTES
    edges = st.open_graph(tmp_path / "g").edges("person", "knows", "person")
    assert edges.count == BATCHES * ROWS
    assert 60 < edges.neighbors([7]).num_rows < 200
