"""Flight SQL: the JDBC driver against a node, compared with DuckDB on the same files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import parquet_data
from servers import AccessKey, Bucket, Node
from test_flight import settle

DRIVER = os.environ.get("STYLOBATE_JDBC_DRIVER", "")
PROGRAM = Path(__file__).parent / "java" / "QueryByJdbc.java"
READER = AccessKey("reader", "s3cr3t-of-reader-88", ["lake"])

HAS_JAVA = shutil.which("javac") is not None and Path(DRIVER).is_file()

# In CI, a missing driver is a failure.
pytestmark = pytest.mark.skipif(
    not (HAS_JAVA or (DRIVER and "CI" in os.environ)),
    reason="needs a JDK and the JDBC driver, which make test-clients downloads",
)

QUERIES = [
    "SELECT name, count(*) AS n, sum(price) AS p FROM {0} GROUP BY name ORDER BY name",
    "SELECT id, number, small, half_null, name, comment, price, flag FROM {0} ORDER BY id LIMIT 3000",
    "SELECT a.name, count(*) AS n FROM {0} a JOIN {0} b ON a.id = b.id + 1 WHERE b.half_null IS NULL GROUP BY 1 ORDER BY 1",
]


@pytest.fixture
def buckets(tmp_path: Path, table: pa.Table) -> list[Bucket]:
    parquet_data.write(table, tmp_path / "lake/mixed.parquet")
    parquet_data.write(table.slice(0, 10), tmp_path / "pond/few.parquet")
    for path in tmp_path.rglob("*.parquet"):
        settle(path)
    return [Bucket("lake", str(tmp_path / "lake")), Bucket("pond", str(tmp_path / "pond"))]


class Answer:
    """Rows as the driver prints them, or its error."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self.error = lines[0].removeprefix("error: ") if lines[0].startswith("error: ") else None
        self.names, self.types, *self.rows = [line.split("\t") for line in lines] if self.error is None else [[], []]

    def column(self, name: str) -> list[str]:
        return [row[self.names.index(name)] for row in self.rows]


def ask(node: Node, *requests: str, key: AccessKey | None = None) -> list[Answer]:
    """Sends requests in one connection; see `QueryByJdbc.java`."""
    url = f"jdbc:arrow-flight-sql://{node.flight.removeprefix('grpc://')}/?useEncryption=false"
    command = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", DRIVER, str(PROGRAM), url]
    login = [key.id, key.secret] if key else []
    given = "".join(f"{request}\n" for request in requests)
    done = subprocess.run([*command, *login], input=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [Answer(text) for text in done.stdout.removesuffix("\n\n").split("\n\n")]


def test_rows_are_those_of_duckdb(buckets: list[Bucket], start: Callable[..., Node], tmp_path: Path) -> None:
    node = start(buckets)
    prepared = "prepared\tSELECT id, name FROM lake.mixed WHERE id >= ? AND name <> ? ORDER BY id LIMIT 2\t41\tname-00"
    wrong = "query\tSELECT nope FROM lake.mixed"
    queries = [f"query\t{query.format('lake.mixed')}" for query in QUERIES]
    # The driver lists the columns of other statements twice if there are no rows.
    empty = "prepared\tSELECT id FROM lake.mixed WHERE id < 0"
    *answers, bound, none, error = ask(node, *queries, prepared, empty, wrong)

    for query, answer in zip(QUERIES, answers, strict=True):
        found = duckdb.sql(query.format(f"'{tmp_path}/lake/mixed.parquet'"))
        assert answer.names == found.columns
        assert answer.rows == [[shown(value) for value in row] for row in found.fetchall()]
    assert answers[1].types == ["BIGINT", "BIGINT", "INTEGER", "INTEGER", "VARCHAR", "VARCHAR", "DECIMAL", "BOOLEAN"]
    assert bound.column("id") == ["41", "42"]
    assert (none.names, none.rows) == (["id"], [])
    assert error.error is not None and "No field named nope" in error.error


def shown(value: object) -> str:
    """Formats the value as Java prints it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_tables_and_columns_are_listed(buckets: list[Bucket], start: Callable[..., Node], table: pa.Table) -> None:
    schemas, tables, columns = ask(start(buckets), "schemas", "tables\t%", "columns\tmixed")
    assert schemas.column("TABLE_SCHEM") == ["lake", "pond"]
    assert list(zip(tables.column("TABLE_SCHEM"), tables.column("TABLE_NAME"))) == [("lake", "mixed"), ("pond", "few")]
    assert columns.column("COLUMN_NAME") == table.column_names
    types = dict(zip(columns.column("COLUMN_NAME"), columns.column("TYPE_NAME")))
    assert (types["id"], types["price"], types["when"], types["tags"]) == ("BIGINT", "DECIMAL", "TIMESTAMP", "ARRAY")


def test_a_key_reads_its_buckets_only(buckets: list[Bucket], start: Callable[..., Node]) -> None:
    node = start(buckets, keys=[READER])
    count, refused, tables = ask(
        node, "query\tSELECT count(*) AS n FROM lake.mixed", "query\tSELECT * FROM pond.few", "tables\t%", key=READER
    )
    assert count.rows == [["240000"]]
    assert refused.error is not None
    assert tables.column("TABLE_NAME") == ["mixed"]
