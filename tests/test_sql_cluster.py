"""SQL on the nodes of a cluster as processes of their own: `stylobate sql --cluster` returns DuckDB's answers to all
queries of TPC-H and TPC-DS, over Parquet and ORC, even while a node is killed.

`make test-distributed` runs them at small scales; STYLOBATE_SQL_SCALE sets another.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers import Bucket, Node, environment, stylobate
from sql_answers import POSTGRES_NULL_ORDER, DuckDB, Row
from test_cluster import IDS, Cluster
from test_sql_answers import streams

MINUTES = 60
WITHOUT_FEATURE = "the command was built without the feature `distributed`"
# Part of the message that a node was lost.
LOST = "lost the node"
SCALES = {"tpch": "0.05", "tpcds": "0.01"}
# Set once a cluster has shown that the command cannot distribute queries: other tables need not be generated.
CANNOT_DISTRIBUTE = pytest.StashKey[bool]()
TABLES = [(benchmark, format) for benchmark in SCALES for format in ("parquet", "orc")]


# Tables in folders by day, and the number of days.
DAYS = {"sales": 31, "returns": 24, "few": 3}
# Queries over them. Without exchange of rows: those that only need rows of one day together.
WITHOUT_EXCHANGE = [
    "SELECT sold, count(*), sum(amount) FROM sales GROUP BY sold",
    "SELECT mode, sold, count(*), sum(amount) FROM sales GROUP BY mode, sold",
    "SELECT sold, count(DISTINCT mode) FROM sales WHERE amount > 0 GROUP BY sold",
    "SELECT sold, id FROM (SELECT *, row_number() OVER (PARTITION BY sold ORDER BY id) n FROM sales) s WHERE n <= 2",
    "SELECT s.sold, count(*), sum(s.id), sum(s.amount) FROM sales s JOIN returns r ON s.sold = r.sold GROUP BY s.sold",
    "SELECT s.sold, count(*), sum(r.amount) FROM sales s JOIN (SELECT DISTINCT CAST(sold AS date) d, amount FROM returns) r"
    " ON s.sold = r.d AND s.amount > r.amount GROUP BY s.sold",
    "SELECT sold, max(n) FROM (SELECT mode, sold, count(*) n FROM sales GROUP BY mode, sold) s GROUP BY sold",
    "SELECT sold, sum(n) FROM (SELECT sold, count(*) n FROM sales GROUP BY sold"
    " UNION ALL SELECT sold, count(*) n FROM returns GROUP BY sold) s GROUP BY sold",
]
WITH_EXCHANGE = [
    "SELECT sold, mode, count(*) FROM few GROUP BY sold, mode",
    "SELECT mode, count(*) FROM sales GROUP BY mode",
    "SELECT sold, mode, count(*) FROM sales GROUP BY ROLLUP (sold, mode)",
    "SELECT s.sold a, r.sold b, count(*) FROM sales s FULL JOIN returns r ON s.sold = r.sold GROUP BY s.sold, r.sold",
]


def write_days(lake: Path) -> None:
    """Writes tables in folders by day. The last folder holds the rows without a day."""
    numbers = random.Random(24)
    for table, days in DAYS.items():
        for day in range(days):
            name = "__HIVE_DEFAULT_PARTITION__" if day == days - 1 else f"2024-01-{day + 1:02}"
            folder = lake / table / f"sold={name}"
            folder.mkdir(parents=True)
            for file in range(2):
                rows = {
                    "id": range(file * 100, file * 100 + 60),
                    "mode": [numbers.choice(["AIR", "SHIP", "RAIL", None]) for _ in range(60)],
                    "amount": [numbers.randint(-50, 50) for _ in range(60)],
                }
                pq.write_table(pa.table(rows), folder / f"{file}.parquet", row_group_size=20)


def backdate(folder: Path) -> None:
    """Backdates all files of a folder: a file modified less than 2 s ago has no version."""
    then = time.time() - 3600
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


class SqlCluster(Cluster):
    """Three nodes over the bucket of another node, which has the tables of a benchmark, each in several files, and DuckDB
    over the same rows. Nodes do not share the files of a folder: over a folder, one of them would read all tables."""

    def __init__(self, folder: Path, benchmark: str, format: str) -> None:
        lake = folder / "lake"
        scale = os.environ.get("STYLOBATE_SQL_SCALE", SCALES[benchmark])
        command = [stylobate(), "generate", benchmark, "--scale", scale, "--durability", "none", "--quiet"]
        whole = [*command, "--output", folder / "whole"]
        split = [*command, "--parts", "6", "--format", format, "--output", lake]
        if format == "parquet":
            split += ["--row-group-rows", "5000" if scale == SCALES[benchmark] else "100000"]
        for generate in (whole, split):
            subprocess.run(generate, check=True, env=environment(), timeout=60 * MINUTES)
        write_days(lake)
        backdate(lake)
        self.origin = Node(folder / "origin", [Bucket("lake", str(lake))])
        super().__init__(folder, "--flight", "127.0.0.1:0", bucket=Bucket.of_origin(self.origin.endpoint, "lake"))
        self.days = duckdb.connect()
        for table in DAYS:
            files = f"read_parquet('{lake / table}/*/*.parquet', hive_partitioning = true)"
            self.days.execute(f"CREATE VIEW {table} AS SELECT * FROM {files}")
        self.database = DuckDB(benchmark, folder / "whole", null_order=POSTGRES_NULL_ORDER)
        self.wait_for_all()

    def stop(self) -> None:
        super().stop()
        self.origin.kill()

    def ask(self, id: str, sql: str) -> list[Row] | str:
        """Returns the rows of a query at a node, or the error of the command."""
        door = f"grpc://{self.nodes[id].flight.removeprefix('grpc://')}"
        command = [stylobate(), "sql", "--cluster", door, "--format", "arrow", sql]
        ran = subprocess.run(command, capture_output=True, env=environment(), timeout=5 * MINUTES)
        if ran.returncode != 0:
            return ran.stderr.decode().strip()
        (rows,) = streams(ran.stdout)
        return rows


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlCluster]:
    if CANNOT_DISTRIBUTE in request.config.stash:
        pytest.skip(WITHOUT_FEATURE)
    benchmark, format = getattr(request, "param", TABLES[0])
    with_nodes = SqlCluster(tmp_path_factory.mktemp("sql-cluster"), benchmark, format)
    table, key = ("lineitem", "l_shipmode") if benchmark == "tpch" else ("store_sales", "ss_item_sk")
    plan = with_nodes.ask("a", f"EXPLAIN SELECT {key}, count(*) FROM {table} GROUP BY {key}")
    if "Stage" not in str(plan):
        with_nodes.stop()
        request.config.stash[CANNOT_DISTRIBUTE] = True
        pytest.skip(WITHOUT_FEATURE)
    yield with_nodes
    with_nodes.database.close()
    with_nodes.stop()


@pytest.mark.parametrize("cluster", TABLES, indirect=True, ids="-".join)
def test_queries_at_any_node_have_the_answers_of_duckdb(cluster: SqlCluster) -> None:
    wrong = {}
    for number, expected in cluster.database.answers().items():
        found = cluster.ask(IDS[number % 3], expected.text)
        difference = found if isinstance(found, str) else expected.differs_from(found)
        if difference is not None:
            wrong[number] = difference
    assert not wrong


def test_several_nodes_read_a_table(cluster: SqlCluster) -> None:
    plan = str(cluster.ask("a", "EXPLAIN SELECT sum(l_quantity) FROM lineitem"))
    read = re.findall(r"t(\d): DataSourceExec: .*?row_groups=(\d+)/", plan)
    # Homes of six files are random: one node may have none of them.
    assert sum(int(row_groups) > 0 for _, row_groups in read) >= 2, plan


@pytest.mark.parametrize("query", WITHOUT_EXCHANGE + WITH_EXCHANGE)
def test_rows_are_exchanged_only_if_no_node_has_all_of_a_day(cluster: SqlCluster, query: str) -> None:
    found = cluster.ask("b", query)
    assert not isinstance(found, str), found
    assert Counter(map(str, found)) == Counter(str(row) for row in cluster.days.sql(query).fetchall())
    plan = str(cluster.ask("b", f"EXPLAIN {query}"))
    assert ("NetworkShuffle" in plan) == (query in WITH_EXCHANGE), plan
    assert ("partitioned_by=sold" in plan) or query in WITH_EXCHANGE, plan


def test_a_wrong_statement_is_one_line_and_exit_code_2(cluster: SqlCluster) -> None:
    door = f"grpc://{cluster.nodes['a'].flight.removeprefix('grpc://')}"
    for sql in ("SELECT nothing FROM lineitem", "SELECT 1 FROM lineitems", "SELEC 1"):
        command = [stylobate(), "sql", "--cluster", door, sql]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=MINUTES)
        assert ran.returncode == 2 and len(ran.stderr.strip().splitlines()) == 1, ran.stderr


def test_a_node_killed_in_mid_query_gives_the_right_answer_or_one_error(cluster: SqlCluster) -> None:
    moments = random.Random(31)
    answers = cluster.database.answers()
    for round in range(20):
        expected = answers[moments.choice([1, 5, 9, 13, 18, 21])]
        victim = moments.choice(["b", "c"])
        killer = threading.Timer(moments.uniform(0, 0.6), cluster.nodes[victim].kill)
        killer.start()
        found = cluster.ask("a", expected.text)
        killer.join()

        if isinstance(found, str):
            assert LOST in found and len(found.splitlines()) == 1, f"round {round}: {found}"
        else:
            difference = expected.differs_from(found)
            assert difference is None, f"round {round}: {difference}"
        cluster.start(victim)
        cluster.wait_for_all()


def test_no_node_panicked(cluster: SqlCluster) -> None:
    for node in cluster.nodes.values():
        assert node.running(), node.log()
        assert "panicked" not in node.log(), node.log()
