"""SQL from Python: answers equal to DuckDB's, tables of every kind, errors, memory, threads, signals, and the package
datafusion."""

from __future__ import annotations

import importlib.metadata
import io
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import stylobate as st
from stylobate import _datafusion

from conftest import settle, wait_until_busy

QUERIES = [
    "SELECT * FROM orders WHERE key < 50 ORDER BY key",
    "SELECT mode, count(*) AS n, sum(quantity) AS q, min(price) AS low, max(day) AS last FROM orders GROUP BY mode ORDER BY mode",
    "SELECT count(*) AS n FROM orders WHERE mode IN ('AIR', 'SHIP') AND quantity BETWEEN 5 AND 20 AND NOT returned",
    "SELECT a.mode, count(*) AS n FROM orders a JOIN orders b ON a.key = b.key + 1 AND a.quantity < b.quantity GROUP BY 1 ORDER BY 1",
    "SELECT day, sum(discount) AS d FROM orders WHERE comment LIKE 'a%' GROUP BY day HAVING count(*) > 2 ORDER BY day",
    "SELECT key, row_number() OVER (PARTITION BY mode ORDER BY key) AS r FROM orders WHERE key % 1000 = 7 ORDER BY key",
    "WITH t AS (SELECT quantity, avg(price) AS p FROM orders GROUP BY quantity) SELECT * FROM t WHERE p > 500 ORDER BY quantity",
    "SELECT key FROM orders WHERE quantity = (SELECT max(quantity) FROM orders) ORDER BY key LIMIT 20",
    "SELECT mode FROM orders UNION ALL SELECT upper(comment) FROM orders WHERE key < 5 ORDER BY 1 LIMIT 9",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(x, y)",
]


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) or isinstance(expected, float):
        return math.isclose(float(found), float(expected), rel_tol=1e-9)
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns)) if columns else []


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_duckdbs(path: Path, table: pa.Table, query: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("orders", table)
        expected = connection.execute(query).fetchall()
    found = rows_of(st.sql(query, {"orders": path}).to_arrow())
    assert len(found) == len(expected)
    for row, other in zip(found, expected):
        assert same(row, other), (row, other)


def test_types_are_those_of_the_files_and_no_views(files: dict[str, Path], table: pa.Table) -> None:
    query = st.sql("SELECT * FROM orders", {"orders": files["parquet"]})
    assert query.columns == table.column_names
    assert query.schema == query.to_arrow().schema
    for field in table.schema:
        found = query.schema.field(field.name).type
        assert found == field.type, field.name
    # Threads share the row groups, so rows come in any order.
    assert query.to_arrow().sort_by("key").equals(table)
    assert query.to_polars().sort("key").equals(pl.DataFrame(table))


def test_paths_are_tables_in_from(tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for day, part in (("2024-01-01", table.slice(0, 100)), ("2024-01-02", table.slice(100, 50))):
        folder = tmp_path / "lake" / f"sent={day}"
        folder.mkdir(parents=True)
        pq.write_table(part.select(["key", "mode"]), folder / "a.parquet")
        settle(folder / "a.parquet")
    (tmp_path / "people.csv").write_text("name,age\nAl,7\nBo,9\n")
    monkeypatch.chdir(tmp_path)

    counts = st.sql("SELECT sent, count(*) AS n FROM 'lake' GROUP BY sent ORDER BY sent").to_arrow()
    assert counts["n"].to_pylist() == [100, 50]
    one = st.sql("SELECT max(key) AS k FROM 'lake/*/*.parquet' WHERE sent = DATE '2024-01-02'").to_arrow()
    assert one["k"].to_pylist() == [149]
    assert st.sql(f"SELECT sum(age) AS a FROM '{tmp_path}/people.csv'").to_arrow()["a"].to_pylist() == [16]
    joined = "SELECT count(*) AS n FROM 'people.csv' CROSS JOIN lake"
    assert st.sql(joined, {"lake": [tmp_path / "lake/sent=2024-01-01/a.parquet", "lake/sent=2024-01-02"]}).count() == 1


def tables() -> dict[str, Callable[[Path], Any]]:
    """Returns everything that can be a table: the rows of `orders.parquet` with a mode of AIR, built from its path."""
    air = "mode = 'AIR'"
    return {
        "scan": lambda path: st.scan(path, filter=air),
        "scan with columns": lambda path: st.scan(path, columns=["mode", "key", "quantity"], filter=air),
        "scan with dictionaries": lambda path: st.scan(path, filter=air, dictionary=True, strings="view"),
        "bytes": lambda path: st.scan(path.read_bytes(), filter=air),
        "query": lambda path: st.sql(f"SELECT * FROM orders WHERE {air}", {"orders": path}),
        "pyarrow": lambda path: st.scan(path, filter=air).to_arrow(),
        "reader": lambda path: pa.RecordBatchReader.from_stream(st.scan(path, filter=air)),
        "batches": lambda path: list(st.scan(path, filter=air).batches()),
        "polars": lambda path: pl.read_parquet(path).filter(pl.col("mode") == "AIR"),
        "lazy polars": lambda path: pl.scan_parquet(path).filter(pl.col("mode") == "AIR"),
        "pandas": lambda path: st.scan(path, columns=["key", "quantity", "mode"], filter=air).to_pandas(),
        "dict": lambda path: st.scan(path, columns=["key", "quantity", "mode"], filter=air).to_arrow().to_pydict(),
        "duckdb": lambda path: duckdb.sql(f"SELECT * FROM read_parquet('{path}') WHERE {air}"),
    }


@pytest.mark.parametrize("kind", tables())
def test_every_kind_of_table_gives_its_rows(kind: str, files: dict[str, Path], table: pa.Table) -> None:
    air = [row for row in table.select(["key", "quantity", "mode"]).to_pylist() if row["mode"] == "AIR"]
    given = tables()[kind](files["parquet"])
    query = st.sql("SELECT count(*) AS n, sum(key) AS k, count(quantity) AS q FROM t WHERE key >= 0", {"t": given})
    expected = [(len(air), sum(row["key"] for row in air), sum(row["quantity"] is not None for row in air))]
    assert rows_of(query.to_arrow()) == expected
    # One-shot inputs were read when the query was created.
    assert rows_of(query.to_arrow()) == expected


def test_a_file_may_be_given_as_bytes_or_as_a_file_object(files: dict[str, Path], table: pa.Table) -> None:
    content = files["parquet"].read_bytes()
    for given in (content, io.BytesIO(content)):
        assert st.sql("SELECT key FROM t", {"t": given}).count() == table.num_rows


def test_a_scan_with_a_limit_keeps_its_first_rows(path: Path) -> None:
    head = st.scan(path).head(500)
    for query, expected in {
        "SELECT count(*) FROM t": 500,
        "SELECT max(key) FROM t": 499,
        "SELECT count(*) FROM t WHERE key >= 400": 100,
        "SELECT key FROM t ORDER BY key DESC LIMIT 1": 499,
    }.items():
        assert st.sql(query, {"t": head}).to_arrow().column(0).to_pylist() == [expected], query


def test_scans_of_a_node_and_rows_of_graphs_are_tables(trips: Path, tmp_path: Path) -> None:
    with st.Node({"lake": tmp_path}, memory="64MiB") as node:
        remote = st.scan("lake/trips.parquet", node=node.flight_endpoint, filter="fare < 10")
        people = st.GraphStore.open(tmp_path / "network").snapshot().scan_vertices("Person")
        query = "SELECT count(*) AS n, count(DISTINCT p.name) AS p FROM t CROSS JOIN p"
        assert rows_of(st.sql(query, {"t": remote, "p": people}).to_arrow()) == [(6, 3)]


def test_a_query_is_read_in_every_way_and_again(path: Path, tmp_path: Path) -> None:
    query = st.sql("SELECT mode, key FROM orders WHERE key < 1000", {"orders": path})
    expected = query.to_arrow()
    assert query.to_arrow().sort_by("key").equals(expected.sort_by("key"))
    assert query.count() == 1000
    assert sum(batch.num_rows for batch in query.batches()) == sum(batch.num_rows for batch in query) == 1000
    assert pa.RecordBatchReader.from_stream(query).read_all().num_rows == 1000
    assert query.to_pandas()["key"].sum() == query.to_polars()["key"].sum() == 499_500
    assert query.to_duckdb().sum("key").fetchall() == [(499_500,)]
    assert duckdb.sql("SELECT max(key) FROM query").fetchall() == [(999,)]
    written = st.write_parquet(query, tmp_path / "of-a-query.parquet")
    assert written.rows == 1000
    assert repr(query) == "Query('SELECT mode, key FROM orders WHERE key < 1000')"


def test_files_are_opened_again_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    settle(path)
    query = st.sql("SELECT sum(x) AS s FROM t", {"t": path})
    twice = st.sql("SELECT sum(s) AS s FROM (SELECT s FROM q UNION ALL SELECT s FROM q)", {"q": query}, threads=2)
    assert query.to_arrow()["s"].to_pylist() == [3]
    assert twice.to_arrow()["s"].to_pylist() == [6]
    time.sleep(10.5)
    path.unlink()
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    settle(path)
    # The threads of the outer query plan the inner one again.
    assert twice.to_arrow()["s"].to_pylist() == [12]
    assert query.to_arrow()["s"].to_pylist() == [6]


def test_explain_and_show_give_rows(path: Path) -> None:
    plans = st.sql("EXPLAIN SELECT count(*) FROM t WHERE mode = 'AIR'", {"t": path}).to_arrow()
    assert any("DataSourceExec" in plan and "filter=mode" in plan for plan in plans["plan"].to_pylist())
    names = st.sql("SHOW TABLES", {"t": path, "Other": path}).to_arrow()["table_name"].to_pylist()
    assert {"t", "Other"} <= set(names)
    assert st.sql('SELECT * FROM "Other"', {"Other": path}).count() == 30_000


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        ("SELEC 1", st.QueryError, "does not parse"),
        ("", st.QueryError, "no statement"),
        ("SELECT 1; SELECT 2", st.QueryError, "several"),
        ("SELECT nope FROM orders", st.QueryError, "nope"),
        ("SELECT sum(mode, 1) FROM orders", st.QueryError, "sum"),
        ("CREATE VIEW v AS SELECT 1", st.QueryError, "no rows"),
        ("SET datafusion.execution.batch_size = 1", st.QueryError, "no rows"),
        ("INSERT INTO orders SELECT * FROM orders", st.QueryError, "write"),
        ("SELECT * FROM ordres", st.NotFoundError, "did you mean orders"),
        ("SELECT * FROM zebra", st.NotFoundError, "available tables: orders"),
        ("SELECT * FROM a.parquet", st.NotFoundError, "quotes"),
        ("SELECT * FROM 'no/such.parquet'", st.NotFoundError, "no/such.parquet"),
    ],
)
def test_a_query_that_cannot_be_run_is_refused_when_it_is_made(
    path: Path, query: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        st.sql(query, {"orders": path})
    assert "\n" not in str(caught.value)


def test_errors_of_a_run_are_raised_by_it(path: Path, tmp_path: Path) -> None:
    with pytest.raises(st.QueryError, match="(?i)zero"):
        st.sql("SELECT 1 / (quantity - quantity) FROM t WHERE quantity > 1", {"t": path}).to_arrow()
    with pytest.raises(st.QueryError):
        st.sql("SELECT CAST(mode AS INT) FROM t", {"t": path}).count()

    damaged = tmp_path / "damaged.parquet"
    whole = bytearray((path.parent / "orders.parquet").read_bytes())
    whole[10_000:12_000] = b"\xff" * 2_000
    damaged.write_bytes(whole)
    with pytest.raises(st.CorruptFileError, match="damaged"):
        st.sql("SELECT * FROM t", {"t": damaged}).to_arrow()


def test_arguments_that_cannot_be_used_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(st.ConfigError, match="threads"):
        st.sql("SELECT 1", threads=0)
    with pytest.raises(st.ConfigError, match="spill folder .*missing"):
        st.sql("SELECT 1", spill=tmp_path / "missing")
    with pytest.raises(st.NotFoundError, match="missing"):
        st.sql("SELECT 1", {"t": tmp_path / "missing.parquet"})
    with pytest.raises(TypeError, match="int"):
        st.sql("SELECT 1", {"t": 3})
    with st.Cache() as cache:
        query = st.sql("SELECT key FROM t", {"t": path}, cache=cache)
    with pytest.raises(st.ConfigError, match="closed"):
        st.sql("SELECT key FROM t", {"t": path}, cache=cache)
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(query)


def test_credentials_are_not_shown() -> None:
    url = "http://user:hunter2@127.0.0.1:1/x.parquet"
    with pytest.raises(st.StorageError) as caught:
        st.sql(f"SELECT * FROM '{url}'")
    assert "hunter2" not in str(caught.value)


def soon(is_so: Callable[[], bool]) -> bool:
    """Returns whether the condition holds within ten seconds: tasks of a cancelled query end a little later."""
    deadline = time.monotonic() + 10
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def sorted_in(cache: st.Cache, path: Path, spill: Path) -> st.Query:
    query = "SELECT comment, price, key FROM t ORDER BY comment, price"
    return st.sql(query, {"t": [path] * 20}, cache=cache, spill=spill, threads=2)


def test_what_does_not_fit_is_spilled_and_leaves_no_file(files: dict[str, Path], tmp_path: Path) -> None:
    with st.Cache(memory="64MiB") as cache:
        query = sorted_in(cache, files["parquet"], tmp_path)
        used = 0
        comments: list[str] = []
        for batch in query.batches():
            used = max(used, sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))
            comments.extend(comment for comment in batch["comment"].to_pylist() if comment is not None)
        assert len(comments) > 500_000
        assert comments == sorted(comments)
        assert used > 1 << 20, "nothing was spilled"

        # A cancelled run.
        begun = query.batches()
        next(begun)
        del begun, query
        assert soon(lambda: list(tmp_path.iterdir()) == [])
        assert soon(lambda: cache.stats()["held_bytes"] == 0)


def test_a_query_larger_than_the_memory_says_so(files: dict[str, Path], tmp_path: Path) -> None:
    with st.Cache(memory="4MiB") as cache:
        query = st.sql("SELECT a.comment FROM t a JOIN t b ON a.comment = b.comment", {"t": [files["parquet"]] * 4},
                       cache=cache, spill=tmp_path, threads=1)
        with pytest.raises(st.OutOfMemoryError, match="out of memory") as caught:
            query.count()
        assert isinstance(caught.value, MemoryError) and "\n" not in str(caught.value)
        del query, caught
        assert soon(lambda: list(tmp_path.iterdir()) == [])


def test_nothing_is_left_when_the_interpreter_ends(files: dict[str, Path], tmp_path: Path) -> None:
    code = """
import sys, stylobate as st
cache = st.Cache(memory="64MiB")
query = st.sql("SELECT comment, key FROM t ORDER BY comment", {"t": [sys.argv[1]] * 20}, cache=cache, spill=sys.argv[2])
batches = query.batches()
next(batches)
kept = st.sql("SELECT 1", spill=sys.argv[2])
"""
    subprocess.run([sys.executable, "-c", code, str(files["parquet"]), str(tmp_path)], check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


def test_threads_run_queries_at_once(path: Path, table: pa.Table) -> None:
    with st.Cache(memory="256MiB") as cache:
        shared = st.sql("SELECT mode, count(*) AS n FROM t GROUP BY mode ORDER BY mode", {"t": path}, cache=cache)
        expected = rows_of(shared.to_arrow())

        def work(number: int) -> None:
            assert rows_of(shared.to_arrow()) == expected
            own = st.sql(f"SELECT count(*) AS n FROM t WHERE key < {number}", {"t": path}, cache=cache)
            assert own.to_arrow()["n"].to_pylist() == [number]

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(40)))
        assert soon(lambda: cache.stats()["held_bytes"] == 0)


JOINS = {
    "cross join": "SELECT max(a.key * b.key) FROM t a CROSS JOIN t b CROSS JOIN t c",
    "nested loops": "SELECT count(*) FROM many a JOIN many b ON a.key * b.key >= 0",
    "nested loops without rows": "SELECT count(*) FROM many a JOIN many b ON a.key * b.key < -1",
    "skewed join": "SELECT count(*) FROM many a JOIN many b ON a.returned = b.returned AND a.key * b.key < -1",
    "skewed join with rows": "SELECT count(*) FROM many a JOIN many b ON a.returned = b.returned",
    "rows that are read": "SELECT a.key FROM many a CROSS JOIN many b",
}

# No join: one thread computes rows of data in memory.
JOINS["one thread"] = "SELECT count(*) FROM memory WHERE regexp_like(repeat(comment, 100), '(a|b|c)*x.*y$')"

INTERRUPTED = """
import sys, stylobate as st
memory = st.scan([sys.argv[1]] * 200, columns=["comment"]).to_arrow()
tables = {"t": sys.argv[1], "many": [sys.argv[1]] * 20, "memory": memory}
query = st.sql(sys.argv[2], tables, threads=1 if "memory" in sys.argv[2] else 2)
print("ready", flush=True)
try:
    query.count()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(st.sql("SELECT count(*) AS n FROM t", tables).to_arrow()["n"][0], flush=True)
"""


@pytest.mark.parametrize("join", JOINS)
def test_ctrl_c_ends_a_join_that_multiplies_rows(files: dict[str, Path], join: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(files["parquet"]), JOINS[join]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until_busy(process)
        assert process.poll() is None, "the query ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, err = process.communicate(timeout=60)
        assert out == "interrupted\n30000\n", err
        assert time.monotonic() - sent < 30
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_runs_the_query_again(files: dict[str, Path], tmp_path: Path) -> None:
    code = """
import os, sys, stylobate as st
query = st.sql("SELECT count(*) AS n FROM t", {"t": sys.argv[1]}, spill=sys.argv[2])
assert query.to_arrow()["n"].to_pylist() == [30_000]
child = os.fork()
if child == 0:
    right = query.to_arrow()["n"].to_pylist() == [30_000]
    sys.exit(0 if right else 1)
assert os.waitpid(child, 0)[1] == 0
assert query.to_arrow()["n"].to_pylist() == [30_000]
assert len(os.listdir(sys.argv[2])) == 1
"""
    command = [sys.executable, "-W", "ignore", "-c", code, str(files["parquet"]), str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


# The package datafusion


@pytest.fixture
def context() -> Iterator[Any]:
    datafusion = pytest.importorskip("datafusion")
    yield datafusion.SessionContext()


@pytest.mark.parametrize("query", QUERIES[:-1])
def test_datafusion_reads_scans_as_tables(context: Any, path: Path, table: pa.Table, query: str) -> None:
    context.register_table("orders", st.scan(path))
    found = rows_of(context.sql(query).to_arrow_table())
    expected = rows_of(st.sql(query, {"orders": path}).to_arrow())
    assert len(found) == len(expected)
    for row, other in zip(found, expected):
        assert same(row, other), (row, other)


def test_datafusion_pushes_columns_filters_and_limits_into_scans(context: Any, files: dict[str, Path]) -> None:
    scan = st.scan(files["parquet"], filter="key < 20000")
    context.register_table("t", scan)
    context.register_table("head", scan.head(10))
    context.register_table("csv", st.scan_csv(io.BytesIO(b"mode,x\nAIR,1\nSHIP,2\n")))
    plan = str(context.sql("SELECT key FROM t WHERE mode = 'AIR' AND key >= 14000").execution_plan())
    # Only the scan evaluates the filter.
    assert "FFI_ExecutionPlan: DataSourceExec" in plan and "FilterExec" not in plan, plan

    def one(query: str) -> Any:
        return context.sql(query).to_arrow_table().column(0).to_pylist()

    assert one("SELECT count(*) FROM t") == [20_000]
    assert one("SELECT count(*) FROM t WHERE key >= 14000") == [6_000]
    assert one("SELECT count(*) FROM head WHERE key > 4") == [5]
    assert one("SELECT count(*) FROM csv JOIN t USING (mode) WHERE x = 3") == [0]
    assert one("SELECT count(*) FROM t WHERE abs(quantity) = quantity AND upper(mode) = 'AIR'") == one(
        "SELECT count(*) FROM t WHERE quantity >= 0 AND mode = 'AIR'"
    )
    context.catalog().schema().register_table("again", scan)
    assert one("SELECT count(*) FROM again") == [20_000]


def test_functions_of_datafusion_in_python_filter_scans(context: Any, path: Path) -> None:
    from datafusion import udf

    def longer(texts: pa.Array) -> pa.Array:
        return pc.greater(pc.utf8_length(texts), 3)

    context.register_udf(udf(longer, [pa.string()], pa.bool_(), "immutable", "is_long"))
    context.register_table("t", st.scan(path))
    found = context.sql("SELECT DISTINCT mode FROM t WHERE is_long(arrow_cast(mode, 'Utf8')) ORDER BY 1").to_arrow_table()
    assert found["mode"].to_pylist() == ["MAIL", "RAIL", "SHIP", "TRUCK"]


def test_errors_of_scans_reach_datafusion(context: Any, path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.parquet"
    whole = bytearray((path.parent / "orders.parquet").read_bytes())
    whole[10_000:12_000] = b"\xff" * 2_000
    damaged.write_bytes(whole)
    context.register_table("t", st.scan(damaged))
    with pytest.raises(Exception, match="damaged.parquet"):
        context.sql("SELECT * FROM t").collect()


@pytest.mark.parametrize("version", ["54.1.0", "56.0.0", "43.1.0", None])
def test_another_major_version_of_datafusion_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed)
    scan = st.scan(path)
    with pytest.raises(st.ConfigError, match=version or "not installed") as caught:
        # Old versions pass no session.
        scan.__datafusion_table_provider__()
    text = str(caught.value)
    assert f"pip install 'datafusion=={_datafusion.DATAFUSION_MAJOR}.*'" in text and "\n" not in text


def test_sessions_of_other_packages_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{_datafusion.DATAFUSION_MAJOR}.0.0")
    scan = st.scan(path)
    for session in (None, scan):
        with pytest.raises(st.ConfigError, match="no session"):
            scan.__datafusion_table_provider__(session)
    with pytest.raises((TypeError, ValueError)):
        scan.__datafusion_table_provider__(3)


def test_the_paths_of_a_query_are_opened_together() -> None:
    files = {}
    for name, column in [("/a.parquet", "x"), ("/b.parquet", "y"), ("/c.parquet", "z")]:
        bytes_ = io.BytesIO()
        pq.write_table(pa.table({"key": range(100), column: range(100)}), bytes_)
        files[name] = bytes_.getvalue()
    # The first request for each file is answered when all files have been requested.
    waiting = set(files)
    all_asked = threading.Barrier(len(files))

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            if self.path in waiting:
                waiting.remove(self.path)
                all_asked.wait(20)
            contents = files[self.path]
            start, end = 0, len(contents)
            if "Range" in self.headers:
                first, last = self.headers["Range"].removeprefix("bytes=").split("-")
                start = int(first) if first else len(contents) - int(last)
                end = min(int(last) + 1, end) if first and last else end
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT")
            self.send_header("Content-Length", str(end - start))
            if "Range" in self.headers:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(contents)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(contents[start:end])

        do_GET = do_HEAD

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        joined = " JOIN ".join(f"'{url}{name}' AS {name[1]}" + ("" if name == "/a.parquet" else " USING (key)") for name in files)
        rows = rows_of(st.sql(f"SELECT sum(x + y + z) AS n, count(*) AS c FROM {joined}").to_arrow())
        server.shutdown()

    assert rows == [(3 * sum(range(100)), 100)]
    assert not waiting and not all_asked.broken
