"""Errors are exceptions of the package's hierarchy, with a message that says what to do."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle

TREE: dict[type[Exception], tuple[type[Exception], ...]] = {
    st.NotFoundError: (FileNotFoundError,),
    st.CorruptFileError: (),
    st.UnsupportedError: (),
    st.SchemaError: (),
    st.FilterError: (ValueError,),
    st.ColumnNotFoundError: (KeyError,),
    st.ObjectChangedError: (),
    st.StorageError: (OSError,),
    st.ConfigError: (ValueError,),
    st.InvalidDataError: (ValueError,),
    st.QueryError: (ValueError,),
    st.OutOfMemoryError: (MemoryError,),
    st.ConflictError: (),
    st.WriterFencedError: (st.ConflictError,),
}


def test_every_exception_is_below_the_root_and_its_sibling_of_pythons() -> None:
    for error, also in TREE.items():
        assert issubclass(error, st.StylobateError)
        assert all(issubclass(error, other) for other in also)
        assert error.__module__ == "stylobate"
        raised = pickle.loads(pickle.dumps(error("a text")))
        assert str(raised) == "a text"


@pytest.mark.parametrize(
    "missing", ["none.parquet", "none/*.parquet", "none/", "https://127.0.0.1:1/none.parquet"]
)
def test_nothing_there_is_not_found(tmp_path: Path, missing: str) -> None:
    given = missing if "://" in missing else tmp_path / missing
    expected = st.StorageError if "://" in missing else st.NotFoundError
    with pytest.raises(expected, match="none"):
        st.scan(given).count()


def test_a_column_that_is_not_there_is_named_with_those_that_are(path: Path) -> None:
    with pytest.raises(st.ColumnNotFoundError, match="nope.*quantity") as caught:
        st.scan(path, columns=["nope"])
    assert not str(caught.value).startswith(("'", '"'))
    with pytest.raises(st.ColumnNotFoundError, match="nope"):
        st.scan(path, filter=st.col("nope") == 1)


@pytest.mark.parametrize(
    "filter", ["quantity <", "quantity < 'abc'", "count(*) > 1", "", st.col("day") == "yesterday"]
)
def test_a_filter_that_makes_no_sense_is_refused(path: Path, filter: Any) -> None:
    with pytest.raises(st.FilterError):
        st.scan(path, filter=filter)


def test_a_filter_of_another_type_is_a_type_error(path: Path) -> None:
    with pytest.raises(TypeError, match="Expr"):
        st.scan(path, filter=3)


def test_a_damaged_file_is_corrupt(files: dict[str, Path], tmp_path: Path) -> None:
    for kind, path in files.items():
        whole = path.read_bytes()
        for name, content in {
            "cut": whole[:-100],
            "footer": whole[:-40] + b"\xff" * 32 + whole[-8:],
            "empty": b"",
        }.items():
            damaged = tmp_path / f"{name}.{kind}"
            damaged.write_bytes(content)
            with pytest.raises(st.CorruptFileError, match=name):
                st.scan(damaged).to_arrow()


def test_damaged_pages_are_corrupt_and_no_crash(files: dict[str, Path], tmp_path: Path) -> None:
    damaged = tmp_path / "pages.parquet"
    whole = bytearray(files["parquet"].read_bytes())
    whole[10_000:12_000] = b"\xff" * 2_000
    damaged.write_bytes(whole)
    scan = st.scan(damaged)
    with pytest.raises(st.CorruptFileError, match="pages.parquet"):
        scan.to_arrow()
    with pytest.raises(pa.ArrowException, match="pages.parquet"):
        pa.RecordBatchReader.from_stream(scan).read_all()
    with pytest.raises(st.CorruptFileError, match="pages.parquet"):
        list(scan.batches())


def test_what_is_neither_parquet_nor_orc_is_unsupported(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a,b\n1,2\n" * 100)
    with pytest.raises(st.UnsupportedError, match="notes.txt: neither .* scan_csv, scan_json and scan_ipc read other files"):
        st.scan(tmp_path / "notes.txt")


def test_files_whose_types_do_not_go_together_are_a_schema_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [["text"]]}), tmp_path / "b.parquet")
    with pytest.raises(st.SchemaError, match=f"file://{tmp_path}/b.parquet: column x: .* in file://{tmp_path}/a.parquet"):
        st.scan(tmp_path).to_arrow()


def test_a_file_that_is_replaced_while_it_is_read_has_changed(
    tmp_path: Path, table: pa.Table, cache: st.Cache
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, row_group_size=1_000)
    settle(path)
    batches = st.scan(path, threads=1, columns=["comment"], cache=cache).batches()
    next(batches)
    pq.write_table(table.slice(7), tmp_path / "y.parquet", row_group_size=1_000)
    (tmp_path / "y.parquet").rename(path)
    with pytest.raises(st.ObjectChangedError, match=f"file://{path}: object changed"):
        list(batches)


def test_options_that_cannot_be_used_are_config_errors(files: dict[str, Path], tmp_path: Path) -> None:
    path = files["parquet"]
    for wrong in ({"threads": 0}, {"batch_rows": 0}, {"storage_options": {"regoin": "x"}}):
        given = "s3://bucket/x.parquet" if "storage_options" in wrong else path
        with pytest.raises(st.ConfigError):
            st.scan(given, **wrong)
    for wrong in ({"memory": "many"}, {"memory": -1}, {"policy": "best"}, {"disk_capacity": "1GiB"}):
        with pytest.raises(st.ConfigError):
            st.Cache(**wrong)
    with pytest.raises(st.ConfigError, match="empty"):
        st.scan([])
    with pytest.raises(st.ConfigError):
        st.scan("ftp://host/x.parquet")
    with pytest.raises(TypeError, match="dictionary"):
        st.scan(path, dictionary="yes")
    with pytest.raises(st.ConfigError, match="127.0.0.1:0"):
        st.Node(tmp_path, listen="here")


def test_credentials_are_in_no_error_and_not_in_what_is_shown(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(st.StorageError) as caught:
        st.scan("http://user:hunter2@127.0.0.1:1/x.parquet").count()
    assert "hunter2" not in str(caught.value)
    with st.Node({"lake": tmp_path}) as node:
        address = node.s3_endpoint.removeprefix("http://")
        url = f"http://user:hunter2@{address}/lake/orders.parquet"
        shutil.copy(files["parquet"], tmp_path / "orders.parquet")
        assert repr(st.scan(url)) == f"Scan('http://{address}/lake/orders.parquet')"


@pytest.mark.parametrize("scheme", ["s3", "gs", "http", "https"])
@pytest.mark.parametrize("password", ["hun/ter2", "hun?ter2", "hun#ter2", "hun@/ter2"])
def test_a_password_that_is_not_encoded_is_in_no_error(scheme: str, password: str) -> None:
    url = f"{scheme}://user:{password}@host/x.parquet"
    table = pa.table({"a": [1]})
    for fails in (lambda: st.scan(url).count(), lambda: st.write_parquet(table, url), lambda: st.GraphStore.open(url)):
        with pytest.raises(st.StylobateError) as caught:
            fails()
        assert "hun" not in str(caught.value)
        assert "ter2" not in str(caught.value)


@pytest.mark.parametrize("second", ["x", 2], ids=["another type", "the same type"])
@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_columns_of_one_name_are_told_by_their_place(second: object, memory: str, tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([second]), pa.array([3])], names=["x", "x", "y"])
    pq.write_table(table, tmp_path / "a.parquet")
    st.write_parquet(table, tmp_path / "own.parquet")
    pa.orc.write_table(table, tmp_path / "a.orc")
    cache = st.Cache(memory=memory)
    for name in ("a.parquet", "own.parquet", "a.orc"):
        assert st.scan(tmp_path / name, cache=cache).to_arrow().equals(table)
        assert st.scan(tmp_path / name, columns=["y"], filter="y = 3", cache=cache).to_arrow()["y"].to_pylist() == [3]
        for asked in ({"columns": ["x"]}, {"filter": "x = 1"}, {"casts": {"x": "int8"}}):
            with pytest.raises(st.SchemaError, match="column x: several columns have this name: ask for all"):
                st.scan(tmp_path / name, cache=cache, **asked).to_arrow()

    # The same errors in several files, and others.
    two = [tmp_path / "a.parquet", tmp_path / "own.parquet"]
    assert st.scan(two, cache=cache).to_arrow().equals(pa.concat_tables([table, table]))
    for place, columns in enumerate((["y", "x", "x"], ["x", "y"], ["x", "x", "x", "y"])):
        other = pa.Table.from_arrays([pa.array([1])] * len(columns), names=columns)
        pq.write_table(other, tmp_path / f"{place}.parquet")
        scan_of_both = [tmp_path / "a.parquet", tmp_path / f"{place}.parquet"]
        with pytest.raises(st.SchemaError, match="column x: several columns have this name, in other places"):
            st.scan(scan_of_both, cache=cache).to_arrow()
        assert st.scan(scan_of_both, columns=["y"], cache=cache).to_arrow()["y"].to_pylist() == [3, 1]
