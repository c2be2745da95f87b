"""SQL at the admin door: answers equal DuckDB's, keys limit access, and only files of buckets are read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import parquet_data
from servers import AccessKey, Answer, Bucket, Node, wait_for
from test_flight import settle

ADMIN = AccessKey("admin", "s3cr3t-of-admin-77", write=True)
READER = AccessKey("reader", "s3cr3t-of-reader-88", ["lake"])
LIMITED = AccessKey("limited", "s3cr3t-of-limited-99", prefixes=["parts/"])

# Returns its first row at its end, which is hours away.
ENDLESS = """SELECT count(*) FROM lake.mixed a
             JOIN (SELECT b.name FROM lake.mixed b JOIN lake.mixed c ON b.name = c.name) d ON a.name = d.name"""


@pytest.fixture
def lake(tmp_path: Path, table: pa.Table) -> list[Bucket]:
    parquet_data.write(table, tmp_path / "lake/mixed.parquet")
    parquet_data.write(table.slice(0, 10), tmp_path / "lake/parts/1.parquet")
    parquet_data.write(table.slice(0, 10), tmp_path / "pond/few.parquet")
    for path in tmp_path.rglob("*.parquet"):
        settle(path)
    return [Bucket("lake", str(tmp_path / "lake")), Bucket("pond", str(tmp_path / "pond"))]


def ask(node: Node, sql: str, key: AccessKey | None = None, **further: Any) -> Answer:
    headers = {"authorization": f"Bearer {key.secret}"} if key else {}
    return node.ask("POST", "/api/sql", {"sql": sql, **further}, headers)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name, count(*), min(id), max(id) FROM {mixed} GROUP BY name ORDER BY name",
        "SELECT a.id, b.comment FROM {mixed} a JOIN {few} b ON a.id = b.id ORDER BY a.id",
        "SELECT id, name FROM {mixed} WHERE id < 0",
    ],
)
def test_first_rows_are_those_of_duckdb(
    lake: list[Bucket], start: Callable[..., Node], tmp_path: Path, sql: str
) -> None:
    answer = ask(start(lake), sql.format(mixed="lake.mixed", few="'pond/few.parquet'"))
    assert answer.status == 200, answer
    report = answer.json()
    paths = {"mixed": f"'{tmp_path}/lake/mixed.parquet'", "few": f"'{tmp_path}/pond/few.parquet'"}
    expected = duckdb.sql(sql.format(**paths)).fetchall()
    assert report["rows"] == [[None if value is None else str(value) for value in row] for row in expected[:50]]
    assert report["more"] == (len(expected) > 50)
    assert report["columns_total"] == len(report["columns"]) and report["elapsed_ms"] > 0


def test_the_limit_bounds_the_rows(lake: list[Bucket], start: Callable[..., Node]) -> None:
    node = start(lake)
    for limit, rows in [({}, 50), ({"limit": 7}, 7), ({"limit": 500}, 500)]:
        report = ask(node, "SELECT id FROM lake.mixed", **limit).json()
        assert (len(report["rows"]), report["more"]) == (rows, True)
    report = ask(node, "SELECT id FROM lake.mixed LIMIT 7", limit=7).json()
    assert (len(report["rows"]), report["more"]) == (7, False)
    for limit in (0, 501):
        assert ask(node, "SELECT 1", limit=limit).status == 400
    assert node.ask("POST", "/api/sql", {"sql": "SELECT 1"}, {"content-type": "text/plain"}).status == 415


@pytest.mark.parametrize(
    ("sql", "status", "said"),
    [
        ("SELECT id\nFORM lake.mixed", 400, "Line: 2"),
        ("SELECT * FROM lake.mixd", 404, "did you mean lake.mixed"),
        ("SELECT nothing FROM lake.mixed", 400, "nothing"),
        ("INSERT INTO lake.mixed SELECT * FROM lake.mixed", 400, "only queries run here"),
        ("COPY lake.mixed TO '{outside}.csv'", 400, "only queries run here"),
        ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{outside}'", 400, "only queries run here"),
        ("SELECT * FROM '{outside}'", None, ""),
        ("SELECT * FROM 'file://{outside}'", None, ""),
        ("SELECT * FROM lake.\"{outside}\"", None, ""),
        ("SELECT * FROM 'lake/../outside.parquet'", None, ""),
    ],
)
def test_errors_say_what_to_do_and_files_of_the_machine_are_none_of_them(
    lake: list[Bucket],
    start: Callable[..., Node],
    tmp_path: Path,
    table: pa.Table,
    sql: str,
    status: int | None,
    said: str,
) -> None:
    outside = tmp_path / "outside.parquet"
    parquet_data.write(table.slice(0, 10), outside)
    answer = ask(start(lake), sql.format(outside=outside))
    assert answer.status == status if status else 400 <= answer.status < 500, answer
    error = answer.json()["error"]
    assert said in error and "\n" not in error
    assert not Path(f"{outside}.csv").exists()


def test_a_key_queries_what_it_reads(lake: list[Bucket], start: Callable[..., Node]) -> None:
    node = start(lake, keys=[ADMIN, READER, LIMITED])
    for sql, statuses in [
        ("SELECT count(*) FROM lake.mixed", (200, 200, 403)),
        ("SELECT count(*) FROM 'pond/few.parquet'", (200, 403, 403)),
        ("SELECT count(*) FROM lake.mixed a JOIN pond.few b ON a.id = b.id", (200, 403, 403)),
        ("SELECT count(*) FROM 'lake/parts/1.parquet'", (200, 200, 200)),
    ]:
        assert tuple(ask(node, sql, key).status for key in (ADMIN, READER, LIMITED)) == statuses, sql
    assert ask(node, "SELECT 1").status == 401
    assert ask(node, "SELECT 1", AccessKey("admin", "wrong")).status == 401


def test_a_query_is_listed_and_can_be_cancelled(lake: list[Bucket], start: Callable[..., Node]) -> None:
    node = start(lake)
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(ask(node, ENDLESS)))
    asking.start()
    [read] = wait_for("the query to run", lambda: node.ask("GET", "/api/reads").json()["reads"])
    assert (read["kind"], read["text"]) == ("query", ENDLESS)
    assert node.ask("POST", "/api/reads/cancel", {"id": read["id"]}).json() == {"cancelled": True}
    asking.join()
    assert answers[0].status == 409 and "cancelled" in answers[0].json()["error"]
    assert node.ask("GET", "/api/reads").json()["reads"] == []
