"""Memory of a load by the command: little more than its limit, regardless of how many threads took turns."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from writes import MIB, peak_until_end, run, start

BUDGET = 64 * MIB
# The process itself, decoded columns of a source, and memory of threads that are about to exit.
MORE = 120 * MIB


def test_a_load_takes_little_more_than_it_was_given(tmp_path: Path) -> None:
    tables = "persons,posts,comments,knows,has_creator"
    made = run("generate", "snb", "--scale", "10", "--tables", tables, "--output", tmp_path, "--quiet")
    assert made == (0, "", "")
    # Posts and comments have creators, and their keys have different prefixes.
    created = pq.read_table(tmp_path / "has_creator.parquet")
    posts = pc.starts_with(created["src"], pattern="4f")
    pq.write_table(created.filter(posts), tmp_path / "posted.parquet")
    pq.write_table(created.filter(pc.invert(posts)), tmp_path / "commented.parquet")
    vertices = {"Person": "persons", "Post": "posts", "Comment": "comments"}
    edges = {
        "Person_KNOWS_Person": "knows",
        "Post_HAS_CREATOR_Person": "posted",
        "Comment_HAS_CREATOR_Person": "commented",
    }
    args = ["--memory", str(BUDGET), "--threads", "2", "--quiet"]
    for name, table in vertices.items():
        args += ["--vertices", f"{name}={tmp_path / table}.parquet:id"]
    for name, table in edges.items():
        args += ["--edges", f"{name}={tmp_path / table}.parquet"]
    process = start("graph", "store", "create", tmp_path / "store", *args)
    peak = peak_until_end(process)
    assert process.communicate() == ("", "") and process.returncode == 0
    print(f"peak {peak >> 20} MiB with {BUDGET >> 20} MiB")
    assert 0 < peak < BUDGET + MORE
