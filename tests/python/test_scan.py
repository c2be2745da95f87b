"""Scans return what pyarrow reads from the same files."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle


def rows(table: pa.Table) -> dict[str, list[Any]]:
    """Returns the columns as Python values, whatever their encoding."""
    return table.to_pydict()


@pytest.mark.parametrize("dictionary", ["auto", True, False, ["mode", "quantity"]])
def test_a_scan_of_all_columns_is_what_was_written(path: Path, table: pa.Table, dictionary: Any) -> None:
    scanned = st.scan(path, dictionary=dictionary).to_arrow()
    assert scanned.column_names == table.column_names
    assert rows(scanned) == rows(table)


def test_dictionaries_come_out_where_they_are_asked_for(path: Path) -> None:
    def dictionaries(dictionary: Any) -> set[str]:
        schema = st.scan(path, dictionary=dictionary).schema
        return {field.name for field in schema if pa.types.is_dictionary(field.type)}

    assert dictionaries(False) == set()
    assert dictionaries(["quantity"]) == {"quantity"}
    assert {"mode", "comment"} <= dictionaries(True)
    assert "comment" not in dictionaries("auto")
    assert "mode" in dictionaries("auto")


@pytest.mark.parametrize(
    "columns", [["mode"], ["price", "key"], ["place.city", "tags"], ["returned", "raw", "at"]]
)
def test_a_projection_gives_the_columns_in_the_order_asked_for(
    path: Path, table: pa.Table, columns: list[str]
) -> None:
    scanned = st.scan(path, columns=columns).to_arrow()
    for at, name in enumerate(columns):
        column = table.column(name) if "." not in name else None
        if column is None:
            root, field = name.split(".")
            wanted = [value and value[field] for value in table.column(root).to_pylist()]
            got = scanned.column(at).to_pylist()
            got = [value and value[field] if isinstance(value, dict) else value for value in got]
            assert got == wanted
        else:
            assert scanned.column(at).to_pylist() == column.to_pylist()


FILTERS = [
    (st.col("quantity") < 24, pc.field("quantity") < 24),
    (
        (st.col("quantity") >= 10) & (st.col("mode") == "AIR"),
        (pc.field("quantity") >= 10) & (pc.field("mode") == "AIR"),
    ),
    (st.col("mode").is_in(["AIR", "MAIL"]), pc.field("mode").isin(["AIR", "MAIL"])),
    (
        st.col("mode").is_null() | (st.col("price") > 990),
        pc.field("mode").is_null() | (pc.field("price") > 990),
    ),
    (~(st.col("mode") != "RAIL"), pc.field("mode") == "RAIL"),
    (st.col("comment").starts_with("air"), pc.starts_with(pc.field("comment"), "air")),
    (st.col("comment").contains("l 0.1"), pc.match_substring(pc.field("comment"), "l 0.1")),
    (st.col("comment").like("%ail 0.9%"), pc.match_like(pc.field("comment"), "%ail 0.9%")),
    (st.col("comment").ilike("MAIL%"), pc.match_like(pc.field("comment"), "mail%")),
    (
        st.col("key").between(100, 29_000) & ~st.col("returned"),
        (pc.field("key") >= 100) & (pc.field("key") <= 29_000) & ~pc.field("returned"),
    ),
    (
        "quantity < 3 and mode in ('SHIP', 'TRUCK')",
        (pc.field("quantity") < 3) & pc.field("mode").isin(["SHIP", "TRUCK"]),
    ),
    (st.col("quantity") > 1000, pc.field("quantity") > 1000),
]


@pytest.mark.parametrize(("filter", "expected"), FILTERS, ids=[repr(ours) for ours, _ in FILTERS])
def test_a_filter_keeps_the_rows_that_pyarrow_keeps(
    path: Path, table: pa.Table, filter: Any, expected: Any
) -> None:
    kept = table.filter(expected)
    scan = st.scan(path, filter=filter, columns=["key", "mode", "price"])
    assert rows(scan.to_arrow()) == rows(kept.select(["key", "mode", "price"]))
    assert scan.count() == kept.num_rows


def test_a_limit_keeps_the_first_rows(path: Path) -> None:
    for limit in (0, 1, 7_001, 10**9):
        scan = st.scan(path, columns=["key"], limit=limit)
        assert scan.to_arrow()["key"].to_pylist() == list(range(min(limit, 30_000)))
        assert scan.count() == min(limit, 30_000)


def test_batches_have_at_most_the_rows_asked_for(path: Path) -> None:
    batches = list(st.scan(path, batch_rows=1_000, columns=["key"]).batches())
    assert all(isinstance(batch, pa.RecordBatch) and 0 < batch.num_rows <= 1_000 for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 30_000


def test_a_scan_on_one_thread_gives_the_same_rows_in_the_same_order(path: Path, table: pa.Table) -> None:
    for threads in (1, 3):
        assert rows(st.scan(path, threads=threads).to_arrow()) == rows(table)


def test_lists_folders_and_patterns_are_read_in_order(tmp_path: Path) -> None:
    for part in range(3):
        folder = tmp_path / f"year={2020 + part}"
        folder.mkdir()
        pq.write_table(pa.table({"x": [part * 2, part * 2 + 1]}), folder / "part.parquet")
    files = sorted(tmp_path.glob("*/*.parquet"))
    assert st.scan(files).to_arrow()["x"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert st.scan([files[2], str(files[0])]).to_arrow()["x"].to_pylist() == [4, 5, 0, 1]
    assert st.scan(tmp_path / "*" / "*.parquet", columns=["x"]).to_arrow()["x"].to_pylist() == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    folder = st.scan(tmp_path, filter=st.col("year") == 2021).to_arrow()
    assert folder["x"].to_pylist() == [2, 3]
    assert folder["year"].to_pylist() == [2021, 2021]


def test_a_scan_runs_anew_each_time_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    settle(path)
    scan = st.scan(path)
    assert scan.count() == 2
    assert scan.to_arrow()["x"].to_pylist() == [1, 2]
    pq.write_table(pa.table({"x": [3]}), tmp_path / "y.parquet")
    settle(tmp_path / "y.parquet")
    os.replace(tmp_path / "y.parquet", path)
    for _ in range(2):
        assert st.scan(path).to_arrow()["x"].to_pylist() == [3]
        assert scan.to_arrow()["x"].to_pylist() == [3]
        assert scan.count() == 1


def test_paths_may_be_texts_path_objects_and_urls(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files["parquet"]
    monkeypatch.setenv("HOME", str(path.parent))
    for given in (path, str(path), path.as_uri(), [path], (str(path),), f"~/{path.name}"):
        assert st.scan(given).count() == 30_000


def test_a_relative_path_is_of_the_folder_that_was_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(2):
        folder = tmp_path / str(part)
        folder.mkdir()
        pq.write_table(pa.table({"x": [part]}), folder / "x.parquet")
        settle(folder / "x.parquet")
    scans = []
    for part in range(2):
        monkeypatch.chdir(tmp_path / str(part))
        scans.append([st.scan("x.parquet"), st.scan("./"), st.scan(f"../{part}/*.parquet")])
    for _ in range(2):
        for part in range(2):
            assert [scan.to_arrow()["x"].to_pylist() for scan in scans[part]] == [[part]] * 3


def test_a_scan_shows_what_it_is_of(files: dict[str, Path]) -> None:
    scan = st.scan(files["orc"], columns=["key"], filter=st.col("key") < 3, limit=2)
    assert repr(scan) == f"Scan({files['orc']!r}, columns=['key'], filter=key < 3, limit=2)"


def test_columns_as_one_text_are_a_mistake(path: Path) -> None:
    with pytest.raises(TypeError, match="give a list"):
        st.scan(path, columns="key")


def test_inspect_tells_what_a_file_is(files: dict[str, Path]) -> None:
    for kind, path in files.items():
        found = st.inspect(path)
        assert found["format"] == kind
        assert found["rows"] == 30_000
        assert [node["name"] for node in found["schema"]][:2] == ["key", "quantity"]
        assert sum(part["rows"] for part in found["parts"]) == 30_000


def test_each_step_of_a_chain_is_another_scan(path: Path, table: pa.Table) -> None:
    scan = st.scan(path)
    assert scan.columns == table.column_names
    cheap = scan.filter(st.col("quantity") < 10)
    chosen = cheap.filter("mode = 'AIR'").select("price", st.col("key"))
    assert chosen.columns == chosen.schema.names == ["price", "key"]
    kept = table.filter((pc.field("quantity") < 10) & (pc.field("mode") == "AIR"))
    assert rows(chosen.to_arrow()) == rows(kept.select(["price", "key"]))
    assert rows(chosen.select(["key"]).head().to_arrow()) == rows(kept.select(["key"]).slice(0, 5))
    assert scan.count() == len(scan) == table.num_rows, "the first one is what it was"
    assert repr(chosen) == f"Scan({path!r}, columns=['price', 'key'], filter=quantity < 10 AND mode = 'AIR')"


def test_rows_without_a_filter_are_counted_by_footers(path: Path, table: pa.Table) -> None:
    cache = st.Cache(memory="64MiB")
    assert st.scan(path, cache=cache).count() == table.num_rows
    assert st.scan(path, cache=cache, limit=7).count() == 7
    assert st.scan(path, cache=cache, filter="quantity > -1 OR quantity IS NULL").count() == table.num_rows
    assert st.scan(path, cache=cache, filter="quantity < -1").count() == 0


def test_the_smallest_of_several_limits_holds(path: Path) -> None:
    scan = st.scan(path, columns=["key"])
    assert len(scan.limit(10).limit(3)) == len(scan.limit(3).limit(10)) == len(scan.head(3)) == 3
    assert len(scan.limit(0)) == 0
    assert len(scan.head()) == 5
    with pytest.raises(ValueError, match="filter before limit"):
        scan.limit(3).filter("key > 1")
    with pytest.raises(ValueError, match="filter before limit"):
        st.scan(path, limit=3).filter("key > 1")
    assert len(st.scan(path, filter="key > 1", limit=3)) == 3


def test_a_selection_is_of_the_columns_that_are_left(path: Path) -> None:
    scan = st.scan(path).select(["key", "place"])
    with pytest.raises(st.ColumnNotFoundError, match=r"no column mode; available: key, place"):
        scan.select("mode")
    assert scan.filter("mode = 'AIR'").count() == st.scan(path, filter="mode = 'AIR'").count()
    city = scan.select("place.city", "key")
    assert [field.name for field in city.select("place").schema.field("place").type] == ["city"]
    with pytest.raises(st.ColumnNotFoundError):
        city.select("place.code")
    assert scan.select().columns == []


def test_a_scan_is_iterated_by_batches_and_is_true(path: Path) -> None:
    scan = st.scan(path, columns=["key"], batch_rows=7_000)
    assert [key for batch in scan for key in batch.column("key").to_pylist()] == list(range(30_000))
    assert bool(scan.limit(0)), "its truth does not count rows"


def test_a_scan_is_pickled_by_what_it_was_made_from(
    path: Path, cache: st.Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    scan = st.scan(path.name, cache=cache, columns=["key"], filter=st.col("mode") == "AIR", limit=3)
    data = pickle.dumps(scan)
    assert len(data) < 2_000
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert repr(again) == repr(scan)
    assert rows(again.to_arrow()) == rows(scan.to_arrow())
    for copied in (copy.copy(scan), copy.deepcopy({"scan": scan})["scan"]):
        assert rows(copied.to_arrow()) == rows(scan.to_arrow())
    cache.close()
    assert pickle.loads(data).count() == 3, "it reads through the default cache"


def test_a_scan_goes_to_another_process(path: Path) -> None:
    scan = st.scan(path).filter(st.col("quantity") < 10).select("key")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(len, (scan,)) == scan.count()


@pytest.mark.parametrize("name", ["limit", "batch_rows", "threads"])
def test_numbers_that_are_none_or_too_small_are_refused_by_name(path: Path, name: str) -> None:
    minimum = 0 if name == "limit" else 1
    with pytest.raises(ValueError, match=f"^{name}: give {minimum} or more, not -1$"):
        st.scan(path, **{name: -1})
    for wrong in ("3", 1.5, True, [1]):
        with pytest.raises(TypeError, match=f"^{name}: give a whole number"):
            st.scan(path, **{name: wrong})
    with pytest.raises(st.ConfigError, match=f"^{name}: give at most {2**63 - 1}, not {2**80}$"):
        st.scan(path, **{name: 2**80})
    assert st.scan(path, **{name: np.int64(2)}).count() in (2, 30_000)


def test_an_empty_path_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    for given in ("", ["a.parquet", ""]):
        for scan in (st.scan, st.scan_csv, st.scan_json, st.scan_ipc):
            with pytest.raises(st.ConfigError, match="a path is empty: write . for the current folder"):
                scan(given)
    for read in (st.inspect, st.open_graph, st.GraphStore.open, lambda path: st.sql("SELECT * FROM t", {"t": path})):
        with pytest.raises(st.ConfigError, match="a path is empty"):
            read("")
    with pytest.raises(st.ConfigError, match="a path is empty"):
        st.scan("", node="grpc://127.0.0.1:1")
    assert st.scan(".").count() == 1


@pytest.mark.parametrize("paths", [None, 5, [None], ["a.parquet", 5]], ids=repr)
def test_what_is_no_path_is_refused(paths: Any) -> None:
    for scan in (st.scan, st.scan_csv):
        with pytest.raises(TypeError, match="^paths: give "):
            scan(paths)


def test_columns_that_are_no_names_are_refused(path: Path) -> None:
    for columns in (5, ["key", 5]):
        with pytest.raises(TypeError, match="^columns: give "):
            st.scan(path, columns=columns)
    with pytest.raises(TypeError, match="^casts: give a dictionary"):
        st.scan(path, casts=5)


def test_bytes_and_file_objects_are_scanned(path: Path, table: pa.Table, tmp_path: Path) -> None:
    data = path.read_bytes()
    some = table.filter(pc.field("quantity") < 10).select(["key", "mode"])
    buffer = io.BytesIO(data)
    buffer.seek(100)
    with path.open("rb") as file:
        for given in (data, bytearray(data), memoryview(data), buffer, file):
            scan = st.scan(given, columns=["key", "mode"], filter="quantity < 10")
            assert rows(scan.to_arrow()) == rows(some)
            assert rows(scan.head(3).to_arrow()) == rows(some.slice(0, 3))
        assert file.tell() == 0
    assert buffer.tell() == 100
    assert st.scan([data, path, io.BytesIO(data)]).count() == 90_000
    assert repr(st.scan([buffer, "x.parquet"][:1])) == "Scan([<BytesIO>])"
    assert pickle.loads(pickle.dumps(st.scan(data))).count() == 30_000
    reader = pa.RecordBatchReader.from_stream(st.scan(data, columns=["key"]))
    assert reader.read_all().num_rows == 30_000, "the bytes live as long as what reads them"


def test_two_scans_of_bytes_are_never_taken_for_each_other(cache: st.Cache) -> None:
    for number in range(3):
        buffer = io.BytesIO()
        pq.write_table(pa.table({"x": [number]}), buffer)
        assert rows(st.scan(buffer, cache=cache).to_arrow()) == {"x": [number]}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("x")
    with text.open() as file, pytest.raises(TypeError, match="binary mode"):
        st.scan(file)
    with pytest.raises(st.StylobateError):
        st.scan(b"no columns here")
    with pytest.raises(TypeError, match="a node reads"):
        st.scan(b"x", node="grpc://127.0.0.1:1")
