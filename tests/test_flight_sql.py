"""Flight SQL: the ADBC driver against a node, compared with DuckDB on the same files."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flight_sql
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_data
from servers import AccessKey, Bucket, Node, Origin, wait_for
from test_flight import active, settle

ADMIN = AccessKey("admin", "s3cr3t-of-admin-77", write=True, token="t0ken-of-admin-11")
READER = AccessKey("reader", "s3cr3t-of-reader-88", ["lake"])

# Returns its first row at its end, which is hours away.
ENDLESS = """SELECT count(*) FROM {0} a JOIN (SELECT b.name FROM {0} b JOIN {0} c ON b.name = c.name) d
             ON a.name = d.name"""

QUERIES = [
    'SELECT name, count(*), sum(price), min(id), max("when") FROM {0} GROUP BY name ORDER BY name',
    "SELECT id, name, price, flag FROM {0} WHERE small BETWEEN 10 AND 12 AND flag ORDER BY id LIMIT 50",
    "SELECT a.name, count(*) FROM {0} a JOIN {0} b ON a.id = b.id + 1 WHERE b.half_null IS NULL GROUP BY 1 ORDER BY 1",
    "SELECT avg(ratio), stddev(small), sum(half_null) FROM {0}",
    "SELECT id, tags, half_null FROM {0} WHERE id < 7 ORDER BY id",
    "SELECT id, row_number() OVER (PARTITION BY name ORDER BY id) FROM {0} WHERE id < 1000 ORDER BY id",
    "WITH few AS (SELECT * FROM {0} WHERE id % 1000 = 0) SELECT comment FROM few WHERE name LIKE 'name-1%' ORDER BY id",
    "SELECT count(*) FROM {0} WHERE price > (SELECT avg(price) FROM {0})",
    "SELECT id FROM {0} WHERE id < 0",
    "SELECT CAST(NULL AS INT), 1 = 1, 'é', DATE '2026-02-03', 1.5 FROM {0} LIMIT 1",
]


@pytest.fixture(scope="module")
def files(origin: Origin, table: pa.Table) -> Path:
    """The folder of the bucket `lake` that these tests read."""
    folder = origin.bucket("lake") / "flight-sql"
    parquet_data.write(table, folder / "mixed.parquet")
    half = table.num_rows // 2
    parquet_data.write(table.slice(0, half), folder / "parts/1.parquet")
    parquet_data.write(table.slice(half), folder / "parts/2.parquet")
    for path in folder.rglob("*.parquet"):
        settle(path)
    return folder


@pytest.fixture
def lake(tmp_path: Path, table: pa.Table) -> list[Bucket]:
    """Two buckets of folders, for one test."""
    parquet_data.write(table, tmp_path / "lake/mixed.parquet")
    parquet_data.write(table.slice(0, 10), tmp_path / "pond/few.parquet")
    for path in tmp_path.rglob("*.parquet"):
        settle(path)
    return [Bucket("lake", str(tmp_path / "lake")), Bucket("pond", str(tmp_path / "pond"))]


def connect(node: Node, **options: str) -> flight_sql.Connection:
    return flight_sql.connect(node.flight, db_kwargs=options, autocommit=True)


def shown(key: AccessKey) -> dict[str, str]:
    header = adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value
    return {header: f"Bearer {key.token or key.secret}"}


def logged_in(key: AccessKey) -> dict[str, str]:
    return {"username": key.id, "password": key.secret}


@pytest.fixture(scope="module")
def connection(node: Node) -> Iterator[flight_sql.Connection]:
    with connect(node) as connected:
        yield connected


def rows(connection: flight_sql.Connection, sql: str, parameters: Any = None) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(float(one), float(other), rel_tol=1e-9)
    return one == other


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_duckdb(connection: flight_sql.Connection, files: Path, query: str) -> None:
    expected = duckdb.sql(query.format(f"'{files}/mixed.parquet'")).fetchall()
    for table in ('lake."flight-sql/mixed"', "'lake/flight-sql/parts/*.parquet'", "'s3://lake/flight-sql/parts'"):
        got = rows(connection, query.format(table))
        assert len(got) == len(expected)
        for row, other in zip(got, expected):
            assert len(row) == len(other) and all(map(same, row, other)), (row, other)


def test_a_table_arrives_with_its_types(connection: flight_sql.Connection, files: Path, node: Node) -> None:
    expected = pq.read_table(files / "mixed.parquet")
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM 'lake/flight-sql/mixed.parquet' ORDER BY id")
        got = cursor.fetch_arrow_table()
    assert got.column_names == expected.column_names
    for name in expected.column_names:
        assert got[name].type == expected[name].type, name
        assert got[name].combine_chunks().equals(expected[name].combine_chunks()), name
    wait_for("the streams to end", lambda: active(node) == 0)


def test_parameters_are_bound(connection: flight_sql.Connection, files: Path) -> None:
    table = 'lake."flight-sql/mixed"'
    expected = pq.read_table(files / "mixed.parquet", columns=["id", "name", "price", "when", "flag"]).slice(41, 1)
    row = expected.to_pylist()[0]
    by_all = f'SELECT id FROM {table} WHERE name = ? AND price = ? AND "when" = ? AND flag = ? AND id = ?'
    values = (row["name"], row["price"], row["when"], row["flag"], row["id"])
    assert rows(connection, by_all, values) == [(41,)]
    assert rows(connection, f"SELECT id FROM {table} WHERE id = $2 OR id = $1 ORDER BY id", (7, 3)) == [(3,), (7,)]
    assert rows(connection, f"SELECT count(*) FROM {table} WHERE id < ?", (2.5,)) == [(3,)]
    assert rows(connection, f"SELECT id FROM {table} ORDER BY id LIMIT ?", (2,)) == [(0,), (1,)]
    assert rows(connection, f"SELECT id FROM {table} WHERE name = ?", (None,)) == []
    assert rows(connection, f"SELECT id FROM {table} WHERE id = ?", pa.record_batch({"id": [5, 3]})) == [(5,), (3,)]
    assert rows(connection, "SELECT 'it''s ?', ?", ("x",)) == [("it's ?", "x")]

    with connection.cursor() as cursor:
        prepared = cursor.adbc_prepare(f"SELECT id FROM {table} WHERE id = ? AND name = ?")
        assert [field.type for field in prepared] == [pa.int64(), pa.string()]
        assert cursor.adbc_execute_schema(f"SELECT id, name FROM {table}").names == ["id", "name"]
        # One statement with different values each time.
        for number in range(3):
            cursor.execute(f"SELECT id FROM {table} WHERE id = ?", (number,))
            assert cursor.fetchall() == [(number,)]

    with pytest.raises(flight_sql.Error, match="parameters"):
        rows(connection, f"SELECT id FROM {table} WHERE id = ?", (1, 2))


def test_objects_are_buckets_and_tables(lake: list[Bucket], start: Callable[..., Node]) -> None:
    with connect(start(lake)) as connection:
        [catalog] = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        assert catalog["catalog_name"] == "stylobate"
        schemas = {found["db_schema_name"]: found["db_schema_tables"] for found in catalog["catalog_db_schemas"]}
        names = {bucket: [table["table_name"] for table in tables] for bucket, tables in schemas.items()}
        assert names == {"lake": ["mixed"], "pond": ["few"]}
        columns = [column["column_name"] for column in schemas["lake"][0]["table_columns"]]
        assert columns[:3] == ["id", "number", "ratio"]

        assert connection.adbc_get_table_types() == ["TABLE"]
        schema = connection.adbc_get_table_schema("mixed", db_schema_filter="lake")
        assert (schema.field("name").type, schema.field("price").type) == (pa.string(), pa.decimal128(12, 2))
        assert connection.adbc_get_info()["vendor_name"] == "Stylobate"
        listed = [row[2] for row in rows(connection, "SHOW TABLES") if row[1] in ("lake", "pond")]
        assert sorted(listed) == ["few", "mixed"]


def test_a_user_and_a_password_log_in(lake: list[Bucket], start: Callable[..., Node]) -> None:
    node = start(lake, keys=[ADMIN, READER])
    for options in (shown(ADMIN), logged_in(ADMIN)):
        with connect(node, **options) as connection:
            assert rows(connection, "SELECT count(*) FROM pond.few") == [(10,)]
    for options in (shown(READER), logged_in(READER)):
        with connect(node, **options) as connection:
            # In the only bucket that this key may access.
            assert rows(connection, "SELECT min(id) FROM mixed") == [(0,)]
            for table in ("pond.few", "'pond/few.parquet'", "'s3://pond/*'"):
                with pytest.raises(flight_sql.Error, match="does not allow"):
                    rows(connection, f"SELECT * FROM {table}")

    for options in ({}, {"username": "reader", "password": ADMIN.secret}, shown(AccessKey("x", "unknown"))):
        with pytest.raises(flight_sql.Error):
            with connect(node, **options) as connection:
                rows(connection, "SELECT count(*) FROM lake.mixed")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "does not parse"),
        ("SELECT * FROM lake.mixd", "did you mean lake.mixed"),
        ("SELECT nothing FROM lake.mixed", "nothing"),
        ("INSERT INTO lake.mixed SELECT * FROM lake.mixed", "only queries run here"),
        ("COPY lake.mixed TO '{outside}.csv'", "only queries run here"),
        ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{outside}'", "only queries run here"),
        ("SET datafusion.execution.batch_size = 1", "only queries run here"),
        ("SELECT * FROM '{outside}'", ""),
        ("SELECT * FROM 'file://{outside}'", ""),
        ("SELECT * FROM lake.\"{outside}\"", ""),
        ("SELECT * FROM 'lake/../outside.parquet'", ""),
        ("SELECT 1 / (id - id) FROM lake.mixed", "ivide by zero"),
    ],
)
def test_errors_say_what_to_do(
    lake: list[Bucket], start: Callable[..., Node], tmp_path: Path, table: pa.Table, sql: str, said: str
) -> None:
    outside = tmp_path / "outside.parquet"
    parquet_data.write(table.slice(0, 10), outside)
    with connect(start(lake)) as connection:
        with pytest.raises(flight_sql.Error, match=said or "."):
            rows(connection, sql.format(outside=outside))
    assert not Path(f"{outside}.csv").exists()


def test_what_does_not_fit_is_spilled_and_removed(
    lake: list[Bucket], start: Callable[..., Node], tmp_path: Path, table: pa.Table
) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    node = start(lake, "--memory", "64MiB", env={"TMPDIR": str(spill)})
    with connect(node) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, comment, tags FROM lake.mixed ORDER BY comment DESC")
            got = cursor.fetch_arrow_table()
        comments = table["comment"].combine_chunks()
        order = pc.array_sort_indices(comments, order="descending")
        assert got["comment"].combine_chunks().equals(comments.take(order))
        assert got["id"].combine_chunks().equals(table["id"].combine_chunks().take(order))
        assert [path.name[:14] for path in spill.iterdir()] == ["stylobate-sql-"]
        assert [path.name for path in spill.rglob("*") if path.is_file()] == ["lock"]
    assert node.stop() == 0
    assert list(spill.iterdir()) == []


def test_a_query_ends_with_its_client(lake: list[Bucket], start: Callable[..., Node]) -> None:
    node = start(lake)
    with connect(node) as connection:
        cursor = connection.cursor()
        cursor.execute(ENDLESS.format("lake.mixed"))
        wait_for("the query to run", lambda: active(node) == 1)
        cursor.close()
        wait_for("the query to end", lambda: active(node) == 0)

    with connect(node) as connection:
        cursor = connection.cursor()
        cursor.execute(ENDLESS.format("lake.mixed"))
        [read] = wait_for("the query to run", lambda: node.ask("GET", "/api/reads").json()["reads"])
        assert read["kind"] == "query"
        assert node.ask("POST", "/api/reads/cancel", {"id": read["id"]}).json() == {"cancelled": True}
        with pytest.raises(flight_sql.Error, match="cancelled"):
            cursor.fetchall()
        cursor.close()


def test_values_of_all_kinds_come_back(connection: flight_sql.Connection) -> None:
    sql = """SELECT CAST(1 AS TINYINT), 2.50, 'text', TIMESTAMP '2026-02-03 04:05:06', TIME '01:02:03', true,
             make_array(1, NULL), named_struct('a', 1), X'00ff'"""
    [row] = rows(connection, sql)
    assert row[0] == 1 and Decimal(str(row[1])) == Decimal("2.5") and row[2] == "text"
    assert row[3] == datetime.datetime(2026, 2, 3, 4, 5, 6)
    assert row[4:6] == (datetime.time(1, 2, 3), True)
    assert row[6:] == ([1, None], {"a": 1}, b"\x00\xff")


def test_updates_are_refused(connection: flight_sql.Connection) -> None:
    with connection.cursor() as cursor:
        with pytest.raises(flight_sql.Error, match="queries"):
            cursor.executemany("DELETE FROM lake.t WHERE id = ?", [(1,)])
