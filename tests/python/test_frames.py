"""Data frames and engines accept a scan: through its methods, and as an Arrow stream."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st


def test_pandas_gets_the_values_and_categories(path: Path, table: pa.Table) -> None:
    frame = st.scan(path, columns=["key", "mode", "price"], dictionary=["mode"]).to_pandas()
    expected = table.select(["key", "mode", "price"]).to_pandas()
    assert isinstance(frame["mode"].dtype, pd.CategoricalDtype)
    frame["mode"] = frame["mode"].astype(expected["mode"].dtype)
    pd.testing.assert_frame_equal(frame, expected)


@pytest.mark.parametrize("index", [["k"], ["k", "b"], [None]])
def test_pandas_gets_its_index_without_asking_for_it(index: list[str | None], tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]}, index=pd.Index(["x", "y", "z"], name="k"))
    if index == [None]:
        frame.index.name = None
    elif len(index) > 1:
        frame = frame.reset_index().set_index(index)
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    scan = st.scan(path, columns=["a"])
    pd.testing.assert_frame_equal(scan.to_pandas(), pd.read_parquet(path, columns=["a"]))
    pd.testing.assert_frame_equal(scan.filter("a > 1").to_pandas(), frame[["a"]][1:])
    assert scan.to_arrow().column_names == ["a"]
    assert list(scan.to_pandas(ignore_metadata=True).index) == [0, 1, 2]


def test_an_index_that_the_file_lacks_is_not_restored(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    pq.write_table(pa.Table.from_pandas(frame).select(["a"]), tmp_path / "a.parquet")
    assert st.scan(tmp_path / "a.parquet", columns=["a"]).to_pandas()["a"].to_list() == [1, 2]


def test_polars_gets_the_values(path: Path, table: pa.Table) -> None:
    columns = ["key", "quantity", "mode", "price", "day", "at"]
    frame = st.scan(path, columns=columns, dictionary=["mode"]).to_polars()
    assert frame.schema["mode"] == pl.Categorical
    assert (
        frame.with_columns(pl.col("mode").cast(pl.String)).to_dict(as_series=False)
        == table.select(columns).to_pydict()
    )


def test_polars_takes_a_scan_as_a_stream(path: Path, table: pa.Table) -> None:
    frame = pl.DataFrame(st.scan(path, columns=["key", "price"]))
    assert frame["price"].to_list() == table["price"].to_pylist()


def test_duckdb_takes_a_scan_as_a_relation_and_as_a_variable(path: Path, table: pa.Table) -> None:
    scan = st.scan(path, columns=["mode", "quantity"])
    expected = sorted(
        (row["mode"], row["quantity_sum"])
        for row in table.group_by("mode").aggregate([("quantity", "sum")]).to_pylist()
        if row["mode"] is not None
    )
    query = "SELECT mode::VARCHAR, sum(quantity)::BIGINT FROM {} WHERE mode IS NOT NULL GROUP BY 1 ORDER BY 1"
    with duckdb.connect() as con:
        relation = scan.to_duckdb(con)
        assert relation.query("orders", query.format("orders")).fetchall() == expected
        assert con.sql(query.format("scan")).fetchall() == expected


def test_a_relation_of_duckdb_is_read_again_and_again(path: Path, table: pa.Table) -> None:
    with duckdb.connect() as con:
        relation = st.scan(path, columns=["quantity"]).to_duckdb(con)
        assert "quantity" in str(relation)
        largest = max(value for value in table["quantity"].to_pylist() if value is not None)
        assert [relation.max("quantity").fetchone() for _ in range(2)] == [(largest,)] * 2
        assert len(relation.fetchall()) == table.num_rows


def test_a_stream_decodes_as_it_is_read(files: dict[str, Path], cache: st.Cache) -> None:
    scan = st.scan([files["parquet"]] * 8, columns=["comment"], dictionary=False, threads=1, cache=cache)
    reader = pa.RecordBatchReader.from_stream(scan)
    assert cache.stats()["decoded_chunks"] == 0
    first = reader.read_next_batch()
    assert 0 < first.num_rows <= 7_000
    few = cache.stats()["decoded_chunks"]
    assert few < 5, "of the 5 row groups in each of 8 files"
    assert sum(batch.num_rows for batch in reader) == 8 * 30_000 - first.num_rows


def test_a_stream_comes_in_the_schema_that_is_asked_for(path: Path, table: pa.Table) -> None:
    wanted = pa.schema([("mode", pa.string()), ("quantity", pa.int64())])
    scan = st.scan(path, columns=["mode", "quantity"])
    read = pa.RecordBatchReader.from_stream(scan, schema=wanted).read_all()
    assert read.schema == wanted
    assert read.to_pydict() == table.select(["mode", "quantity"]).to_pydict()


def test_a_batch_and_a_schema_are_read_by_pyarrow(path: Path) -> None:
    scan = st.scan(path)
    assert scan.schema == next(scan.batches()).schema == pa.schema(scan._source.schema)
    batch = next(iter(scan._source.batches()))
    assert isinstance(batch, st.RecordBatch)
    assert len(batch) == batch.num_rows == pa.record_batch(batch).num_rows
    assert batch.schema == scan._source.schema
    assert batch.schema.names == scan.schema.names


def test_an_empty_scan_has_its_columns(path: Path) -> None:
    scan = st.scan(path, filter="key < 0", columns=["key", "mode"])
    assert scan.to_arrow().column_names == ["key", "mode"]
    assert scan.to_polars().shape == (0, 2)
    assert scan.to_pandas().shape == (0, 2)
    assert list(scan.batches()) == []


WITHOUT = """
import sys
for name in ("pyarrow", "pandas", "polars", "duckdb", "fsspec"):
    sys.modules[name] = None
import stylobate as st
scan = st.scan(sys.argv[1], columns=["key"], batch_rows=10_000)
assert scan.count() == 30_000
assert scan.schema.names == ["key"], scan.schema
assert type(next(scan.batches())) is st.RecordBatch
for name in ("to_arrow", "to_pandas", "to_polars", "to_duckdb"):
    try:
        getattr(scan, name)()
    except ImportError as error:
        assert f"{name} needs" in str(error) and "pip install" in str(error), error
    else:
        raise AssertionError(name)
try:
    st.StylobateFileSystem
except ImportError as error:
    assert "pip install fsspec" in str(error), error
else:
    raise AssertionError("fsspec")
"""


def test_without_other_packages_scans_work_and_the_methods_say_what_they_need(path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT, str(path)], check=True, timeout=60)
