"""Benchmark tables, in files and streams, compared with the reference generator's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc
import pytest
import stylobate as st

from matrix import only_in_matrix

TPCHGEN = Path(sys.executable).parent / "tpchgen-cli"
TABLES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]


def summed(connection: duckdb.DuckDBPyConnection, file: Path) -> tuple[list[tuple[str, str]], tuple[int, ...]]:
    """Returns the columns and their types; the row count, the sum of the hashes of each column, and that of whole rows."""
    described = connection.sql(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
    columns = [(name, kind) for name, kind, *_ in described]
    sums = [f"sum(hash({name}))" for name, _ in columns]
    whole = f"sum(hash({', '.join(name for name, _ in columns)}))"
    row = connection.sql(f"SELECT count(*), {', '.join(sums)}, {whole} FROM '{file}'").fetchone()
    assert row is not None
    return columns, row


@pytest.mark.parametrize("scale", [0.01, 0.1, pytest.param(1, marks=only_in_matrix)])
def test_tpch_is_what_the_reference_generator_makes(tmp_path: Path, scale: float) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made = st.generate_tpch(scale, ours, durability="none")
    assert {file.table for file in made.files} == set(TABLES)
    command = [TPCHGEN, "parquet", "-s", str(scale), "--output-dir", theirs, "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    connection = duckdb.connect()
    for table in TABLES:
        one, other = (summed(connection, folder / f"{table}.parquet") for folder in (ours, theirs))
        assert one == other, table


def test_all_formats_hold_the_same(tmp_path: Path) -> None:
    sums = []
    for format in ("parquet", "orc", "csv", "arrow"):
        made = st.generate_tpch(0.01, tmp_path / format, format=format, threads=1 if format == "csv" else 2)
        assert [Path(file.path).suffix for file in made.files] == [f".{format}"] * 8
        manifest = json.loads((tmp_path / format / "manifest.json").read_text())
        assert manifest["complete"]
        sums.append({file["table"]: (file["rows"], file["columns"]) for file in manifest["files"]})
    assert all(sums_of_format == sums[0] for sums_of_format in sums)
    assert sums[0]["lineitem"][0] == 60_175


def test_streams_are_the_tables_without_files(tmp_path: Path) -> None:
    tables = st.generate_tpch(0.01)
    assert set(tables) == set(TABLES)
    lineitem = tables["lineitem"]
    assert lineitem.name == "lineitem" and "l_comment" in lineitem.schema.names
    first, second = pa.table(lineitem), pa.table(lineitem)
    assert first.num_rows == 60_175 and first.schema == second.schema
    assert pa.types.is_dictionary(first.schema.field("l_shipmode").type)
    assert first.schema.field("l_extendedprice").type == pa.decimal128(15, 2)
    st.generate_tpch(0.01, tmp_path, tables="lineitem")
    plain = pa.schema([field.with_type(pa.string()) if pa.types.is_dictionary(field.type) or
                       field.type == pa.string_view() else field for field in first.schema])
    written = pq.read_table(tmp_path / "lineitem.parquet")
    for name in plain.names:
        kind = plain.field(name).type
        texts = [table[name].cast(kind).combine_chunks() for table in (first, second, written)]
        assert texts[0].equals(texts[1]) and texts[0].equals(texts[2]), name
    parts = [pa.table(st.generate_tpch(0.01, tables=["orders"], parts=3, part=part)["orders"]) for part in (1, 2, 3)]
    whole = pa.table(tables["orders"])
    assert [row for part in parts for row in part["o_orderkey"].to_pylist()] == whole["o_orderkey"].to_pylist()


def test_the_size_of_row_groups_is_called_as_pyarrow_has_it(tmp_path: Path) -> None:
    st.generate_tpch(0.01, tmp_path / "new", tables="customer", row_group_size=500)
    assert pq.ParquetFile(tmp_path / "new" / "customer.parquet").num_row_groups >= 3
    with pytest.warns(DeprecationWarning, match="row_group_size now") as warned:
        st.generate_tpch(0.01, tmp_path / "old", tables="customer", row_group_rows=500)
    assert warned[0].filename == __file__
    assert pq.ParquetFile(tmp_path / "old" / "customer.parquet").num_row_groups >= 3


@pytest.mark.parametrize("make", [st.generate_tpch, pytest.param(st.generate_tpcds, marks=only_in_matrix)])
def test_orc_and_parquet_scan_to_the_same_rows(tmp_path: Path, make: Any) -> None:
    for format in ("parquet", "orc"):
        make(0.01, tmp_path / format, format=format)
    tables = [path.stem for path in (tmp_path / "orc").glob("*.orc")]
    assert len(tables) == {st.generate_tpch: 8, st.generate_tpcds: 25}[make]
    for table in tables:
        one, other = (
            st.scan(tmp_path / format / f"{table}.{format}", dictionary=False).to_arrow() for format in ("parquet", "orc")
        )
        assert one.column_names == other.column_names
        for name in one.column_names:
            # ORC has no times of day.
            wanted = one[name].cast(other[name].type)
            assert wanted.combine_chunks().equals(other[name].combine_chunks()), f"{table}.{name}"
        for dictionary in ("auto", "stored", True):
            coded = st.scan(tmp_path / "orc" / f"{table}.orc", dictionary=dictionary).to_arrow()
            assert coded.cast(other.schema).equals(other), f"{table}, {dictionary}"
        for name in {other.column_names[0], other.column_names[-1]}:
            # Half of the rows, by their first column or their last.
            values = other[name].drop_null()
            if len(values) == 0 or pa.types.is_time(one[name].type):
                continue
            half = values.take(pc.sort_indices(values))[len(values) // 2].as_py()
            found = [
                st.scan(tmp_path / format / f"{table}.{format}", dictionary=False, filter=st.col(name) <= half)
                for format in ("parquet", "orc")
            ]
            rows = [scan.to_arrow().cast(other.schema) for scan in found]
            assert rows[0].equals(rows[1]) and rows[0].num_rows == pc.sum(pc.less_equal(other[name], half)).as_py()
        theirs = orc.read_table(tmp_path / "orc" / f"{table}.orc")
        assert theirs.num_rows == one.num_rows
        for name in theirs.column_names:
            wanted = one[name].cast(theirs[name].type)
            assert wanted.combine_chunks().equals(theirs[name].combine_chunks()), f"{table}.{name}"


def test_of_tpcds_all_tables_are_there() -> None:
    tables = st.generate_tpcds(1)
    assert len(tables) == 25
    for name, rows in [("store", 12), ("date_dim", 73_049), ("reason", 75), ("dbgen_version", 1)]:
        assert pa.table(tables[name]).num_rows == rows


def test_a_social_network_has_edges_between_what_is_there(tmp_path: Path) -> None:
    made = st.generate_snb(0.1, tmp_path, format="csv")
    rows = {"persons": 1_000, "posts": 10_000, "comments": 5_000, "knows": 10_000, "has_creator": 15_000,
            "likes": 10_000, "reply_of": 3_000}  # fmt: skip
    assert {file.table: file.rows for file in made.files} == rows
    connection = duckdb.connect()
    for name in rows:
        connection.sql(f"CREATE TABLE {name} AS FROM read_csv('{tmp_path}/{name}.csv', delim = '|', header = true)")
        assert connection.sql(f"SELECT count(*) FROM {name}").fetchone() == (rows[name],)
    connection.sql("CREATE VIEW ids AS SELECT id FROM persons UNION ALL FROM (SELECT id FROM posts UNION ALL "
                   "SELECT id FROM comments)")
    for name in ("knows", "has_creator", "likes", "reply_of"):
        for end in ("src", "dst"):
            assert connection.sql(f"FROM {name} ANTI JOIN ids ON {end} = id").fetchall() == []
    streams = st.generate_snb(0.1, tables=["persons", "likes_post", "likes_comment"])
    both = pa.concat_tables([pa.table(streams[name]) for name in ("likes_post", "likes_comment")])
    found = connection.sql("FROM likes").fetchall()
    assert found == list(zip(*(both[name].to_pylist() for name in both.column_names)))
    assert pa.types.is_dictionary(pa.schema(streams["persons"].schema).field("firstName").type)
    assert pa.table(st.generate_snb(0.1, seed=7)["likes"])["src"] != pa.table(st.generate_snb(0.1)["likes"])["src"]
    with pytest.raises(TypeError, match="seed"):
        st.generate_tpch(0.1, seed=7)  # type: ignore[call-overload]


def test_a_run_goes_on_where_it_ended_and_leaves_others_alone(tmp_path: Path) -> None:
    first = st.generate_tpch(0.01, tmp_path, tables=["orders", "customer"])
    orders = tmp_path / "orders.parquet"
    before = (tmp_path / "customer.parquet").stat().st_mtime_ns
    orders.unlink()
    told: list[tuple[int, int]] = []
    again = st.generate_tpch(0.01, tmp_path, tables=["orders", "customer"], progress=lambda *far: told.append(far))
    assert again == first and orders.exists()
    assert (tmp_path / "customer.parquet").stat().st_mtime_ns == before
    assert told[-1][0] == first.rows
    with pytest.raises(st.AlreadyExistsError, match="scale 0.01"):
        st.generate_tpch(0.02, tmp_path, tables=["orders", "customer"])
    assert st.generate_tpch(0.02, tmp_path, tables=["orders", "customer"], overwrite=True).rows == 2 * first.rows


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    for scale in (0, -1, float("nan")):
        with pytest.raises(st.ConfigError, match="0.001"):
            st.generate_tpch(scale, tmp_path)
    with pytest.raises(st.ConfigError, match="no table lineitems"):
        st.generate_tpch(1, tmp_path, tables=["lineitems"])
    with pytest.raises(st.ConfigError, match="parts are numbered"):
        st.generate_tpch(1, tmp_path, parts=2, part=3)
    with pytest.raises(st.ConfigError, match="orc"):
        st.generate_tpch(1, tmp_path, format="avro")  # type: ignore[arg-type]
    with pytest.raises(st.ConfigError, match="zlib"):
        st.generate_tpch(1, tmp_path, format="orc", compression="brotli")
    with pytest.raises(st.ConfigError, match="compression"):
        st.generate_tpch(1, tmp_path, format="csv", compression="zstd")
    with pytest.raises(TypeError, match="without output"):
        st.generate_tpch(1, compression="zstd")  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(st.AlreadyExistsError, match="mine.txt"):
        st.generate_tpch(0.01, tmp_path)


def test_an_interrupt_leaves_whole_files_only(tmp_path: Path) -> None:
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        st.generate_tpch(5, tmp_path, tables=["lineitem", "orders"])
    timer.join()
    for file in tmp_path.glob("*.parquet"):
        pq.ParquetFile(file).metadata
    assert not (tmp_path / "lineitem.parquet").exists()


def test_what_progress_raises_ends_the_work(tmp_path: Path) -> None:
    def enough(rows: int, size: int) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        st.generate_tpch(1, tmp_path, tables=["lineitem"], progress=enough)
    assert not list(tmp_path.glob("*.parquet"))


def test_a_generated_table_is_read_like_a_scan() -> None:
    nation = st.generate_tpch(0.01, tables="nation")["nation"]
    table = nation.to_arrow()
    assert repr(nation) == "GeneratedTable('nation')"
    assert nation.schema == table.schema
    assert table.num_rows == 25
    assert nation.to_pandas()["n_nationkey"].tolist() == list(range(25))
    assert nation.to_polars()["n_nationkey"].to_list() == list(range(25))
    assert nation.to_duckdb().count("*").fetchone() == (25,)
    assert [row for batch in nation.batches() for row in batch.to_pylist()] == table.to_pylist()
