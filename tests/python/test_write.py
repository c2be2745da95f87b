"""`write_parquet`: its inputs, its output files, and no leftovers after errors."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle, wait_until_busy
from orders import orders
from servers import wait_for


def names(folder: Path) -> list[str]:
    """Returns all files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def read(path: Path) -> pa.Table:
    """Reads the table, verifying page checksums."""
    return pq.read_table(path, page_checksum_verification=True)


def numbers(rows: int = 1_000) -> pa.Table:
    return pa.table({"n": pa.array(range(rows), pa.int64())})


# Inputs.


def sources(table: pa.Table) -> dict[str, Any]:
    """Returns the same rows in every form that Python has for them."""
    return {
        "table": table,
        "reader": table.to_reader(max_chunksize=3_000),
        "generator": pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(5_000))),
        "polars": pl.from_arrow(table),
        "pandas": table.to_pandas(types_mapper=pd.ArrowDtype),
        "duckdb": duckdb.from_arrow(table),
    }


@pytest.mark.parametrize("kind", ["table", "reader", "generator", "polars", "pandas", "duckdb"])
def test_any_arrow_data_is_written(kind: str, tmp_path: Path) -> None:
    table = orders(10_000).drop_columns(["tags", "place"])
    written = st.write_parquet(sources(table)[kind], tmp_path / "a.parquet")
    assert (written.rows, written.files) == (10_000, [str(tmp_path / "a.parquet")])
    assert written.bytes == (tmp_path / "a.parquet").stat().st_size
    assert written.row_groups == pq.ParquetFile(tmp_path / "a.parquet").num_row_groups
    found = read(tmp_path / "a.parquet")
    for name in table.column_names:
        ours = found[name].combine_chunks()
        assert ours.cast(table[name].type).equals(table[name].combine_chunks()), name


def test_a_batch_and_a_scan_are_written(tmp_path: Path, files: dict[str, Path], table: pa.Table) -> None:
    batch = table.slice(7, 900).combine_chunks().to_batches()[0]
    assert st.write_parquet(batch, tmp_path / "batch.parquet").rows == 900
    assert read(tmp_path / "batch.parquet").equals(pa.Table.from_batches([batch]))
    for file in files.values():
        scan = st.scan(file, columns=["key", "mode"], filter="key < 20000")
        assert st.write_parquet(scan, tmp_path / "scan.parquet").rows == 20_000
        found = read(tmp_path / "scan.parquet")
        assert found["mode"].cast(pa.string()).equals(table["mode"].slice(0, 20_000))


def test_a_scan_may_be_written_over_the_file_that_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(numbers(), path)
    st.write_parquet(st.scan(path, filter="n < 10"), path)
    assert read(path)["n"].to_pylist() == list(range(10))


def test_pandas_finds_its_index_again(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="key"))
    st.write_parquet(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), frame)


def test_batches_are_written_as_they_come(tmp_path: Path) -> None:
    made = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal made
        for _ in range(200):
            made += 1
            yield pa.record_batch({"x": pa.array(range(100_000), pa.int64())})

    seen = []
    reader = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())
    st.write_parquet(
        reader,
        tmp_path / "a.parquet",
        dictionary=False,
        compression="none",
        progress=lambda rows, size: seen.append((made, rows, size)),
    )
    # A few batches are queued, and no more.
    assert all(made - rows / 100_000 <= 6 for made, rows, _ in seen)
    assert seen[-1][1:] == (20_000_000, (tmp_path / "a.parquet").stat().st_size)
    assert seen == sorted(seen)


@pytest.mark.parametrize("data", [7, "a", [1, 2], iter([7]), [numbers(1), {"n": 1}]], ids=lambda data: type(data).__name__)
def test_what_is_no_arrow_data_is_a_type_error(data: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        st.write_parquet(data, tmp_path / "a.parquet")
    assert names(tmp_path) == []


def test_lazy_frames_and_data_sets_are_written(tmp_path: Path) -> None:
    table = orders(10_000).select(["key", "mode"])
    lazy = pl.from_arrow(table).lazy().filter(pl.col("key") < 5_000)
    assert st.write_parquet(lazy, tmp_path / "lazy.parquet").rows == 5_000
    assert read(tmp_path / "lazy.parquet")["key"].to_pylist() == list(range(5_000))
    assert st.write_parquet(lazy.filter(pl.col("key") < 0), tmp_path / "none.parquet").rows == 0
    assert read(tmp_path / "none.parquet").column_names == ["key", "mode"]
    pq.write_table(table, tmp_path / "source.parquet")
    dataset = pa.dataset.dataset(tmp_path / "source.parquet")
    for at, source in enumerate([dataset, dataset.scanner(filter=pc.field("key") < 7)]):
        written = st.write_orc(source, tmp_path / f"{at}.orc")
        assert written.rows == [10_000, 7][at]


def test_iterators_of_batches_are_written(tmp_path: Path) -> None:
    batches = numbers(1_000).to_batches(max_chunksize=300)
    path = tmp_path / "a.parquet"
    for source in (batches, tuple(batches), iter(batches), (batch for batch in batches), [numbers(300), numbers(700)]):
        assert st.write_parquet(source, path).rows == 1_000
    polars = (pl.DataFrame({"s": [text]}) for text in "abc")
    assert st.write_parquet(polars, path).rows == 3
    assert read(path)["s"].to_pylist() == ["a", "b", "c"]
    scan = st.scan(path)
    assert st.write_parquet(scan.batches(), tmp_path / "b.parquet").rows == 3


def test_a_generator_that_raises_ends_the_write_with_its_own_error(tmp_path: Path) -> None:
    class Own(Exception):
        pass

    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbers(5).to_batches()
        raise Own("no more")

    for options in ({}, {"max_file_bytes": 1_000}):
        with pytest.raises(Own, match="no more"):
            st.write_parquet(batches(), tmp_path / "a", **options)
    assert names(tmp_path) == []


def test_iterators_of_other_things_are_errors_that_say_so(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for empty in ([], iter(()), (batch for batch in [])):
        with pytest.raises(ValueError, match="no batches"):
            st.write_parquet(empty, path)
    with pytest.raises(TypeError, match="item 1 of the iterator is a int"):
        st.write_parquet([1], path)
    with pytest.raises(TypeError, match="item 2 of the iterator is a str"):
        st.write_parquet([numbers(1), "x"], path)
    for other in (pa.table({"n": ["x"]}), pa.table({"m": pa.array([1], pa.int64())}), pa.table({})):
        with pytest.raises(st.SchemaError, match="batch 2 of the iterator"):
            st.write_parquet([numbers(1), other], path)
    assert names(tmp_path) == []


def test_dicts_and_lists_of_dicts_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    st.write_parquet({"a": [1, 2], "b": np.array([0.5, 1.5]), "c": pl.Series(["x", "y"]), "d": pa.array([True, None])}, path)
    assert read(path).to_pylist() == [
        {"a": 1, "b": 0.5, "c": "x", "d": True},
        {"a": 2, "b": 1.5, "c": "y", "d": None},
    ]
    st.write_parquet([{"a": 1}, {"a": None, "b": "x"}], path)
    assert read(path).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    for nothing in ({}, [{}]):
        with pytest.raises(ValueError, match="without columns"):
            st.write_parquet(nothing, path)


@pytest.mark.parametrize("values", [5, "text", b"bytes", {"k": 1}], ids=lambda values: type(values).__name__)
def test_a_column_that_is_no_list_is_named(values: object, tmp_path: Path) -> None:
    told = f"^data: column b is of type {type(values).__name__}: give a list or an array$"
    with pytest.raises(TypeError, match=told):
        st.write_parquet({"a": ["x"], "b": values}, tmp_path / "a.parquet")
    assert names(tmp_path) == []


def test_iterators_of_dicts_are_written_in_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    made = [{"n": number, "t": None if number % 3 else str(number)} for number in range(150_000)]
    assert st.write_parquet((row for row in made), path, dictionary=False).rows == 150_000
    assert read(path).to_pylist() == made
    whole = chain(({"n": number / 2} for number in range(65_536)), [{"n": 7}])
    assert st.write_parquet(whole, tmp_path / "b.parquet").rows == 65_537
    assert read(tmp_path / "b.parquet")["n"].to_pylist()[-2:] == [32_767.5, 7.0]
    assert st.write_orc(iter(made[:5]), tmp_path / "a.orc").rows == 5
    assert st.sql("SELECT sum(n) AS n FROM t", {"t": iter(made[:5])}).to_arrow().to_pylist() == [{"n": 10}]

    schema = {"vertices": {"P": {"key": "n", "properties": {"n": "int64"}}}}
    with st.GraphStore.create(tmp_path / "g", schema).writer() as writer:
        assert writer.add_vertices("P", ({"n": number} for number in range(4))) == range(4)


@pytest.mark.parametrize(
    ("late", "error", "told"),
    [
        (5, TypeError, "item 65537 of the iterator is of type int, after dicts"),
        ({"n": 1, "m": 2}, st.InvalidDataError, "rows 65537 to 65537 have a column m that the first 65536 rows lack"),
        ({"n": "x"}, st.InvalidDataError, "rows 65537 to 65537: column n, of type int64 in the first 65536 rows"),
        ({"n": 0.5}, st.InvalidDataError, "column n, of type int64 .*: Float value 0.5"),
    ],
)
def test_late_dicts_that_do_not_fit_are_errors(late: Any, error: type[Exception], told: str, tmp_path: Path) -> None:
    rows = chain(({"n": number} for number in range(65_536)), [late])
    with pytest.raises(error, match=f"^data: .*{told}"):
        st.write_parquet(rows, tmp_path / "a.parquet")
    assert names(tmp_path) == []


@pytest.mark.parametrize("write", [st.write_parquet, st.write_orc])
def test_python_objects_of_polars_are_refused_by_column(write: Callable[..., Any], tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [1], "o": [object()]}, schema={"n": pl.Int64, "o": pl.Object})
    for data in (frame, frame.lazy(), iter([frame]), {"n": [1], "o": frame["o"]}):
        with pytest.raises(st.UnsupportedError, match="^data: column o is of Polars' type Object"):
            write(data, tmp_path / "a")
    with pytest.raises(st.UnsupportedError, match="column o"):
        st.sql("SELECT * FROM t", {"t": frame})
    with pytest.raises(st.UnsupportedError, match="column o"):
        st.write_graph(tmp_path / "g", name="g", vertices={"P": frame})
    assert names(tmp_path) == []


ONE_COLUMN = [pl.Series("a", [1]), pd.Series([1]), pa.array([1]), pa.chunked_array([[1]])]


@pytest.mark.parametrize("data", ONE_COLUMN, ids=lambda data: f"{type(data).__module__}.{type(data).__name__}")
def test_one_column_is_no_table(data: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^data: not a table: it is one column of Int64: give a table or a data frame"):
        st.write_parquet(data, tmp_path / "a.parquet")
    assert names(tmp_path) == []


def test_sort_columns_may_be_those_of_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    order = (pq.SortingColumn(2, descending=True, nulls_first=True), pq.SortingColumn(0))
    table = pa.table({"s": [{"x": 1, "y": "a"}], "b": [1], "c": ["x"]})
    frame = pl.DataFrame({"a": [1], "b": [2], "c": [3]})
    for data in (table, table.to_reader(), frame, frame.to_pandas(), st.sql("SELECT 1 AS a, 2 AS b, 3 AS c")):
        st.write_parquet(data, path, sorting_columns=list(order))
        assert pq.ParquetFile(path).metadata.row_group(0).sorting_columns == order
    with pytest.raises(TypeError, match="name the columns"):
        st.write_parquet(iter([table]), path, sorting_columns=list(order))


def test_an_empty_destination_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for options in ({}, {"max_file_bytes": "1MiB"}, {"partition_by": ["n"]}):
        for write in (st.write_parquet, st.write_orc):
            with pytest.raises(st.ConfigError, match="a path is empty"):
                write({"n": [1], "m": [2]}, "", **options)
    with pytest.raises(st.ConfigError, match="a path is empty"):
        st.write_graph("", name="g", vertices={"P": pa.table({"id": [1]})})
    assert names(tmp_path) == []


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import stylobate as st
for data in ({"a": [1]}, [{"a": 1}], iter([{"a": 1}])):
    try:
        st.write_parquet(data, sys.argv[1])
    except ImportError as error:
        assert "write_parquet of " in str(error) and "pip install pyarrow" in str(error), error
    else:
        raise AssertionError(data)
"""


def test_dicts_need_pyarrow_and_say_so(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PYARROW, str(tmp_path / "a")], check=True, timeout=60)
    assert names(tmp_path) == []


def test_the_index_of_a_frame_of_pandas_is_written_as_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    named = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="k"))
    ranged = pd.DataFrame({"x": [1, 2]}, index=pd.RangeIndex(3, 5))
    for frame, index, columns in [
        (named, None, ["x", "k"]),
        (named, True, ["x", "k"]),
        (named, False, ["x"]),
        (ranged, None, ["x"]),
        (ranged, True, ["x", "__index_level_0__"]),
        (ranged, False, ["x"]),
    ]:
        st.write_parquet(frame, path, index=index)
        assert read(path).column_names == columns
        if index is not False:
            pd.testing.assert_frame_equal(pd.read_parquet(path), frame, check_index_type=False)
    with pytest.raises(TypeError, match="pandas"):
        st.write_parquet(numbers(), path, index=True)


def test_options_have_the_names_of_pyarrow(tmp_path: Path) -> None:
    table = orders(3_000).select(["key", "mode", "comment"])
    path = tmp_path / "a.parquet"
    st.write_parquet(
        table, path, compression="zstd", compression_level=1, row_group_size=1_000, sorting_columns=["key"],
        use_dictionary=["mode"], write_statistics=["key"], column_encoding={"comment": "DELTA_LENGTH_BYTE_ARRAY"},
        data_page_size=4_096, max_rows_per_page=100,
    )  # fmt: skip
    metadata = pq.ParquetFile(path).metadata
    assert metadata.num_row_groups == 3
    group = metadata.row_group(0)
    assert [column.column_index for column in group.sorting_columns] == [0]
    assert {group.column(at).compression for at in range(3)} == {"ZSTD"}
    assert [group.column(at).has_dictionary_page for at in range(3)] == [False, True, False]
    assert [group.column(at).is_stats_set for at in range(3)] == [True, False, False]
    assert "DELTA_LENGTH_BYTE_ARRAY" in group.column(2).encodings
    assert read(path).equals(table)
    for options in (
        {"compression": "zstd(3)", "compression_level": 1},
        {"dictionary": True, "use_dictionary": True},
        {"encoding": "plain", "column_encoding": "PLAIN"},
        {"statistics": "chunk", "write_statistics": True},
    ):
        with pytest.raises(ValueError, match="give one of them|has a level"):
            st.write_parquet(table, path, **options)
    with pytest.raises(st.ConfigError, match="snappy"):
        st.write_parquet(table, path, compression_level=3)
    st.write_orc(table, tmp_path / "a.orc", compression="zlib", compression_level=1)
    assert pa.orc.ORCFile(tmp_path / "a.orc").compression == "ZLIB"


def test_old_names_of_options_are_deprecated(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.warns(DeprecationWarning, match="row_group_size now"):
        st.write_parquet(numbers(), path, row_group_rows=100)
    assert pq.ParquetFile(path).num_row_groups == 10
    with pytest.warns(DeprecationWarning, match="sorting_columns now"):
        st.write_parquet(numbers(), path, sorted_by=["n"])
    assert pq.ParquetFile(path).metadata.row_group(0).sorting_columns[0].column_index == 0
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="give one of them"):
        st.write_parquet(numbers(), path, row_group_rows=100, row_group_size=10)


# Destinations.


def test_what_is_there_is_replaced_unless_that_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.parquet"
    st.write_parquet(numbers(5), path)
    st.write_parquet(numbers(7), path)
    with pytest.raises(st.AlreadyExistsError, match=r"a\.parquet: exists already") as raised:
        st.write_parquet(numbers(9), path, overwrite=False)
    assert isinstance(raised.value, FileExistsError)
    assert read(path).num_rows == 7
    assert st.write_parquet(numbers(9), path.with_name("b.parquet"), overwrite=False).rows == 9
    assert names(tmp_path) == ["below/a.parquet", "below/b.parquet"]


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbers(5).to_batches()
        path.write_text("another's")

    reader = pa.RecordBatchReader.from_batches(numbers(0).schema, batches())
    with pytest.raises(st.AlreadyExistsError):
        st.write_parquet(reader, path, overwrite=False)
    assert path.read_text() == "another's"
    assert names(tmp_path) == ["a.parquet"]


def test_places_that_are_no_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, error in [
        (tmp_path, st.ConfigError),
        (str(tmp_path / "new") + "/", st.ConfigError),
        ("/dev/null", st.ConfigError),
        ("ftp://host/a.parquet", st.ConfigError),
        (tmp_path / "file" / "a.parquet", st.StorageError),
    ]:
        with pytest.raises(error):
            st.write_parquet(numbers(), path)
    assert names(tmp_path) == ["file"]


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    link, target = tmp_path / "link.parquet", tmp_path / "target" / "a.parquet"
    target.write_text("before")
    link.symlink_to(target)
    st.write_parquet(numbers(), link)
    assert link.is_symlink()
    assert read(target).num_rows == 1_000


def test_a_url_of_this_machine_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a b.parquet"
    written = st.write_parquet(numbers(), path.as_uri())
    assert written.files == [path.as_uri()]
    assert read(path).num_rows == 1_000


def test_an_object_is_written_through_a_node(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    table = orders(20_000)
    with st.Node(origin={"lake": tmp_path / "lake"}, listen="127.0.0.1:0") as node:
        options = {
            "endpoint": node.s3_endpoint,
            "allow_http": True,
            "access_key_id": "any",
            "secret_access_key": "any",
            "region": "us-east-1",
        }
        st.write_parquet(table, "s3://lake/out/a b.parquet", storage_options=options)
        with pytest.raises(st.AlreadyExistsError):
            st.write_parquet(table, "s3://lake/out/a b.parquet", overwrite=False, storage_options=options)
        written = st.write_parquet(
            table, "s3://lake/parts", partition_by="mode", storage_options=options, mode="append"
        )
        assert written.files[0].startswith("s3://lake/parts/mode=")
        counted = st.scan("s3://lake/parts", storage_options=options).count()
    assert counted == 20_000
    assert read(tmp_path / "lake" / "out" / "a b.parquet").equals(table)


# Errors.


def failing(rows: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in numbers(rows).to_batches(10_000):
            yield batch
        raise ValueError("no more rows")

    return pa.RecordBatchReader.from_batches(numbers(0).schema, batches())


@pytest.mark.parametrize("options", [{}, {"max_file_bytes": 100_000}], ids=["file", "folder"])
def test_data_that_fails_half_way_leaves_what_was_there(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(st.StylobateError, match="no more rows"):
        st.write_parquet(failing(1_000_000), path, **options)
    assert names(tmp_path) == []
    st.write_parquet(numbers(5), path, **options)
    before = names(tmp_path)
    with pytest.raises(st.StylobateError, match="no more rows"):
        st.write_parquet(failing(1_000_000), path, **options)
    assert names(tmp_path) == before
    assert st.scan(path).count() == 5


def test_an_error_of_a_scan_is_raised_as_what_it_is(tmp_path: Path) -> None:
    pq.write_table(orders(50_000), tmp_path / "a.parquet", row_group_size=10_000)
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    group = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(4).column(0)
    start = group.dictionary_page_offset or group.data_page_offset
    data[start : start + 50] = b"\xff" * 50
    (tmp_path / "a.parquet").write_bytes(data)
    settle(tmp_path / "a.parquet")
    with pytest.raises(st.CorruptFileError, match=r"a\.parquet"):
        st.write_parquet(st.scan(tmp_path / "a.parquet"), tmp_path / "b.parquet")
    assert names(tmp_path) == ["a.parquet"]


def test_what_progress_raises_ends_the_work(tmp_path: Path) -> None:
    def progress(rows: int, size: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        st.write_parquet(orders(1_000), tmp_path / "a.parquet", progress=progress)
    # The last call comes when the file exists.
    assert names(tmp_path) in ([], ["a.parquet"])


def test_types_that_parquet_does_not_have_are_errors_that_name_the_column(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    empty = pa.array([{}, {}], pa.struct([]))
    for array in (union, empty):
        with pytest.raises(st.UnsupportedError, match="column x"):
            st.write_parquet(pa.table({"x": array}), tmp_path / "a.parquet")
    assert names(tmp_path) == []


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"compression": "zip"}, st.ConfigError, "zip"),
    ({"compression": {"m": "zstd"}}, st.ColumnNotFoundError, "no column m"),
    ({"dictionary": ["m"]}, st.ColumnNotFoundError, "no column m"),
    ({"dictionary": "n"}, TypeError, "list"),
    ({"encoding": {"n": "delta"}}, st.ConfigError, "delta_binary_packed"),
    ({"encoding": {"n": "delta_byte_array"}}, st.UnsupportedError, "column n"),
    ({"statistics": "all"}, st.ConfigError, "chunk"),
    ({"bloom_filter_columns": {"n": 3.0}}, st.ConfigError, "between 0 and 1"),
    ({"bloom_filter_columns": "n"}, TypeError, "list"),
    ({"row_group_size": 0}, st.ConfigError, "row_group_size: give 1 or more, not 0"),
    ({"row_group_size": -1}, st.ConfigError, "row_group_size: give 1 or more, not -1"),
    ({"row_group_size": 1.5}, TypeError, "row_group_size: give a whole number"),
    ({"max_rows_per_page": -1}, st.ConfigError, "max_rows_per_page: give 1 or more, not -1"),
    ({"row_group_bytes": "many"}, st.ConfigError, "row_group_bytes"),
    ({"max_file_bytes": 0}, st.ConfigError, "at least 1"),
    ({"partition_by": "m"}, st.ColumnNotFoundError, "no column m"),
    ({"partition_by": ["n"]}, st.UnsupportedError, "no column is left"),
    ({"data_page_version": "3.0"}, ValueError, "2.0"),
    ({"sorting_columns": ["m"]}, st.ColumnNotFoundError, "no column m"),
    ({"sorting_columns": [("n", "up")]}, ValueError, "descending"),
    ({"sink": "sieve"}, st.ConfigError, "io_uring"),
    ({"durability": "some"}, ValueError, "fsync"),
    ({"sorting_columns": [5]}, TypeError, "sorting_columns: give a name"),
    ({"sorting_columns": [pq.SortingColumn(1)]}, st.ConfigError, "no column 1: the data has 1"),
    ({"threads": 0}, st.ConfigError, "threads: give 1 or more"),
    ({"threads": 2**80}, st.ConfigError, "threads: give at most"),
]


@pytest.mark.parametrize(("options", "error", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_options_are_errors_that_say_what_is_right(
    options: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=told):
        st.write_parquet(numbers(), tmp_path / "a.parquet", **options)
    assert names(tmp_path) == []


# Threads, signals.

ENDLESS = """
import sys, pyarrow as pa, stylobate as st
def batches():
    batch = pa.record_batch({"x": pa.array(range(100_000)), "k": pa.array([1, 2] * 50_000)})
    while True:
        yield batch
schema = pa.schema([("x", pa.int64()), ("k", pa.int64())])
print("ready", flush=True)
try:
    st.write_parquet(pa.RecordBatchReader.from_batches(schema, batches()), sys.argv[1], OPTIONS)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("options", ["", "partition_by='k', max_file_bytes='1MiB'"], ids=["file", "folder"])
def test_ctrl_c_leaves_no_file(options: str, tmp_path: Path) -> None:
    code = ENDLESS.replace("OPTIONS", options)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_for("the write to begin", lambda: names(tmp_path), timeout=30)
        process.send_signal(2)
        out, err = process.communicate(timeout=30)
        assert out == "interrupted\n", err
        assert names(tmp_path) == []
    finally:
        process.kill()


@pytest.mark.parametrize("options", ["", "max_file_bytes='1MiB'"], ids=["file", "folder"])
def test_what_a_killed_process_leaves_is_removed_by_the_next(options: str, tmp_path: Path) -> None:
    code = ENDLESS.replace("OPTIONS", options)
    for seconds in (0.3, 0.6, 0.9):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_for("the write to begin", lambda: names(tmp_path), timeout=30)
        wait_until_busy(process, seconds)
        process.kill()
        process.wait()
    assert all(Path(name).name.startswith(".") or ".stylobate." in name for name in names(tmp_path))
    kind = {"max_file_bytes": "1MiB"} if options else {}
    written = st.write_parquet(numbers(), tmp_path / "out", **kind)
    assert [str(tmp_path / name) for name in names(tmp_path)] == written.files


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    table, ticks, done = orders(20_000), 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    begun = time.monotonic()
    for _ in range(10):
        st.write_parquet(table, tmp_path / "a.parquet", compression="zstd(15)", durability="none")
    took = time.monotonic() - begun
    done.set()
    thread.join()
    assert ticks > took / 0.005 / 20, f"{ticks} ticks in {took} s"


# Folders.


def test_rows_are_spread_over_folders_by_their_values(tmp_path: Path) -> None:
    table = orders(20_000).select(["key", "mode", "day", "price"])
    days = pc.if_else(pc.less(table["key"], 10_000), pa.scalar(None, pa.date32()), table["day"])
    odd = pa.array(["São Paulo", "a/b=c", "", "__HIVE_DEFAULT_PARTITION__"] * 5_000)
    table = table.set_column(2, "day", days).append_column("odd", odd).set_column(1, "mode", table["mode"].dictionary_encode())
    written = st.write_parquet(table, tmp_path / "out", partition_by=["mode", "odd"])
    assert written.rows == 20_000
    assert len(written.files) == 6 * 4
    found = st.scan(tmp_path / "out", columns=table.column_names).to_arrow().sort_by("key")
    for name in table.column_names:
        assert found[name].cast(pa.string()).equals(table[name].cast(pa.string())), name
    counted = duckdb.sql(
        f"SELECT count(*), count(mode), count(DISTINCT odd) FROM "
        f"read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning = true)"
    ).fetchone()
    assert counted == (20_000, 20_000 - table["mode"].null_count, 4)
    theirs = pl.scan_parquet(tmp_path / "out", hive_partitioning=True).select("key").collect()
    assert sorted(theirs["key"]) == list(range(20_000))
    assert pa.dataset.dataset(tmp_path / "out", partitioning="hive").count_rows() == 20_000


def test_dictionaries_of_a_scan_stay_dictionaries_in_folders(tmp_path: Path) -> None:
    # As values they would take 40 MB, and their dictionary is larger than the one in which values are collected.
    long = [f"{at:04}" * 250 for at in range(1_500)]
    table = pa.table(
        {
            "key": range(40_000),
            "half": [f"half {at % 2}" for at in range(40_000)],
            "text": pa.array(long).take(pa.array([at * 7 % 1_500 for at in range(40_000)])),
        }
    )
    st.write_parquet(table, tmp_path / "all.parquet", dictionary=["half", "text"], compression="none")
    scan = st.scan(tmp_path / "all.parquet")
    written = st.write_parquet(scan, tmp_path / "out", partition_by="half", compression="none")
    assert len(written.files) == 2 and written.bytes < 10_000_000
    found = st.scan(tmp_path / "out", columns=table.column_names).to_arrow().sort_by("key")
    assert found.cast(table.schema).equals(table)
    with_codes = st.write_orc(scan, tmp_path / "orc", partition_by=["half"])
    assert with_codes.rows == 40_000
    assert st.scan(tmp_path / "orc", columns=table.column_names).to_arrow().sort_by("key").cast(table.schema).equals(table)


def test_a_partitioned_day_is_read_as_it_was(tmp_path: Path) -> None:
    table = orders(5_000).select(["key", "day"])
    st.write_parquet(table, tmp_path, partition_by="day")
    found = st.scan(tmp_path, filter="day = '2024-03-01'").count()
    assert found == pc.sum(pc.equal(table["day"].cast(pa.string()), "2024-03-01")).as_py()
    assert (tmp_path / "day=__HIVE_DEFAULT_PARTITION__").is_dir()


def test_files_end_at_their_size_and_rows_keep_their_order(tmp_path: Path) -> None:
    table = orders(100_000)
    limit = 500_000
    written = st.write_parquet(table, tmp_path / "out", max_file_bytes=limit)
    assert names(tmp_path / "out") == [f"part-{at:05}.parquet" for at in range(len(written.files))]
    sizes = [Path(file).stat().st_size for file in written.files]
    assert sum(sizes) == written.bytes
    assert all(limit * 0.6 < size < limit * 1.3 for size in sizes[:-1]), sizes
    assert st.scan(tmp_path / "out").to_arrow()["key"].equals(table["key"])
    again = st.write_parquet(table.slice(0, 1_000), tmp_path / "out", max_file_bytes=limit)
    assert [str(tmp_path / "out" / name) for name in names(tmp_path / "out")] == again.files
    assert len(again.files) == 1
    assert st.scan(tmp_path / "out").count() == again.rows


WRITERS = [(st.write_parquet, "parquet"), (st.write_orc, "orc")]


@pytest.mark.parametrize(("write", "extension"), WRITERS, ids=["parquet", "orc"])
def test_a_folder_is_replaced_as_a_whole_and_other_files_stay(write: Any, extension: str, tmp_path: Path) -> None:
    table = orders(1_000).select(["key", "mode"])
    write(table, tmp_path, partition_by="mode")
    (tmp_path / "mode=AIR" / f"mine.{extension}").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    mail = table.filter(pc.equal(table["mode"], "MAIL"))
    written = write(mail, tmp_path, partition_by="mode", mode="overwrite")
    (file,) = (str(Path(file).relative_to(tmp_path)) for file in written.files)
    assert re.fullmatch(rf"mode=MAIL/part-00000-[0-9a-f]{{16}}\.{extension}", file)
    assert names(tmp_path) == [f"mode=AIR/mine.{extension}", file, "notes.txt"]
    for options in ({}, {"mode": "error"}):
        with pytest.raises(st.AlreadyExistsError):
            write(table, tmp_path, partition_by="mode", **options)


@pytest.mark.parametrize(("write", "extension"), WRITERS, ids=["parquet", "orc"])
@pytest.mark.parametrize("mode", ["error", "append", "overwrite", "overwrite_partitions"])
def test_files_of_other_writers_survive_every_mode(mode: Any, write: Any, extension: str, tmp_path: Path) -> None:
    foreign = pa.table({"n": [9]})
    kept = ["day=z/part-00000." + extension, "day=a/part-00000." + extension, "part-00007." + extension]
    for name in kept:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if extension == "orc":
            pa.orc.write_table(foreign, str(tmp_path / name))
        else:
            pq.write_table(foreign.replace_schema_metadata({"stylobate.dataset": "part"}), tmp_path / name)
    before = {name: (tmp_path / name).read_bytes() for name in kept}
    rows = pa.table({"day": ["a", "b"], "n": [1, 2]})
    for _ in range(2):
        if mode == "error":
            with pytest.raises(st.AlreadyExistsError):
                write(rows, tmp_path, partition_by="day", mode=mode)
        else:
            write(rows, tmp_path, partition_by="day", mode=mode)
    assert {name: (tmp_path / name).read_bytes() for name in kept} == before
    count = {"error": 0, "append": 4, "overwrite": 2, "overwrite_partitions": 2}[mode]
    assert len(names(tmp_path)) == len(kept) + count


@pytest.mark.parametrize(("write", "extension"), WRITERS, ids=["parquet", "orc"])
def test_modes_add_to_what_is_there_or_replace_it(write: Any, extension: str, tmp_path: Path) -> None:
    def rows() -> list[tuple[str, int]]:
        found = st.scan(tmp_path / "t").to_arrow().to_pydict()
        return sorted(zip(map(str, found["day"]), found["n"], strict=True))

    path = tmp_path / "t"
    write({"day": ["a", "b"], "n": [1, 2]}, path, partition_by="day")
    assert names(path) == [f"day=a/part-00000.{extension}", f"day=b/part-00000.{extension}"]
    write({"day": ["b", "c"], "n": [3, 4]}, path, partition_by="day", mode="append")
    assert rows() == [("a", 1), ("b", 2), ("b", 3), ("c", 4)]
    write({"day": ["b"], "n": [5]}, path, partition_by="day", mode="overwrite_partitions")
    assert rows() == [("a", 1), ("b", 5), ("c", 4)]
    write({"day": ["d"], "n": [6]}, path, partition_by="day", mode="overwrite")
    assert rows() == [("d", 6)]
    assert len(names(path)) == 1 and not (path / "day=a").exists()
    with pytest.raises(st.ConfigError, match="partition by"):
        write({"n": [1]}, path, max_file_bytes=1_000, mode="overwrite_partitions")
    with pytest.raises(ValueError, match="none of error, append"):
        write({"n": [1]}, path, partition_by="n", mode="replace")
    with pytest.raises(ValueError, match="for folders"):
        write({"n": [1]}, path / "x", mode="append")
    with pytest.raises(ValueError, match="give one of them"):
        write({"n": [1]}, path / "x", mode="error", overwrite=False)


def test_a_file_that_was_written_again_by_another_writer_is_not_ours_any_more(tmp_path: Path) -> None:
    table = pa.table({"day": ["a"], "n": [1]})
    (file,) = st.write_parquet(table, tmp_path, partition_by="day").files
    pq.write_table(pq.ParquetFile(file).read(), file)
    st.write_parquet(table, tmp_path, partition_by="day", mode="overwrite")
    assert len(names(tmp_path)) == 2
    assert Path(file).exists()


def test_the_old_name_of_modes_is_deprecated_for_partitioned_data_sets(tmp_path: Path) -> None:
    table = pa.table({"day": ["a"], "n": [1]})
    with pytest.warns(DeprecationWarning, match="mode='error'"):
        st.write_parquet(table, tmp_path, partition_by="day", overwrite=False)
    with pytest.warns(DeprecationWarning, match="mode='overwrite'"):
        st.write_parquet(table, tmp_path, partition_by="day", overwrite=True)
    assert len(names(tmp_path)) == 1
    st.write_parquet(table, tmp_path / "x", max_file_bytes=1_000)
    with pytest.raises(st.AlreadyExistsError):
        st.write_parquet(table, tmp_path / "x", max_file_bytes=1_000, overwrite=False)


def test_processes_that_append_at_once_do_not_collide(tmp_path: Path) -> None:
    write = "st.write_parquet({'k': ['a', 'b'], 'n': [1, 2]}, sys.argv[1], partition_by='k', mode='append')"
    code = f"import sys, stylobate as st; {write}"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "t")]) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert len(names(tmp_path / "t")) == 8
    assert st.scan(tmp_path / "t").count() == 8


def test_many_folders_are_written_in_little_memory(tmp_path: Path) -> None:
    rows = 60_000
    table = pa.table(
        {
            "k": pa.array([at * 7919 % 300 for at in range(rows)]),
            "x": pa.array([f"{at} is a long text that does not repeat" for at in range(rows)]),
        }
    )
    reader = table.to_reader(max_chunksize=30_000)
    written = st.write_parquet(reader, tmp_path, partition_by="k", memory="4MiB", durability="none")
    assert written.rows == rows
    found = st.scan(tmp_path).to_arrow()
    assert sorted(found["x"].to_pylist()) == sorted(table["x"].to_pylist())
    assert {Path(file).parent.name for file in written.files} == {f"k={at}" for at in range(300)}


def test_no_rows_are_a_file_without_rows_and_no_folders(tmp_path: Path) -> None:
    empty = orders(5).slice(0, 0)
    written = st.write_parquet(empty, tmp_path / "a", max_file_bytes=1_000)
    assert names(tmp_path / "a") == ["part-00000.parquet"]
    assert read(tmp_path / "a" / "part-00000.parquet").schema.equals(empty.schema)
    assert written.rows == 0
    assert st.write_parquet(empty, tmp_path / "b", partition_by="mode").files == []
    assert names(tmp_path / "b") == []
