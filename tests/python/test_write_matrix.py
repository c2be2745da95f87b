"""Written files are read back unchanged by pyarrow, DuckDB, Polars and scans, for all types and options."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle
from matrix import Case, array, first_seeds, leaves, parquet_scalars, plainer, table
from orders import orders
from test_matrix import column_differs

FILES = 240
OTHERS = 120
BLOCK = 40
TOLD = 5
CODECS = ["none", "snappy", "lz4", "zstd(3)", "gzip(1)", "brotli(1)"]
INDEX_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def write_case(seed: int) -> Case:
    """Returns a table, and options of `write_parquet`."""
    rng = random.Random(f"write {seed}")
    made = table(rng, parquet_scalars())
    rows = max(1, made.num_rows)
    flat = [field.name for field in made.schema if not pa.types.is_nested(field.type)]
    options: dict[str, Any] = {
        "compression": rng.choice(CODECS),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "dictionary": rng.choice([None, None, True, True, False, rng.sample(flat, len(flat) // 2)]),
        "row_group_size": rng.choice([rows, rows, rows // 2 + 1, rows // 7 + 1]),
        "statistics": rng.choice([True, True, "chunk", False]),
        "threads": rng.choice([1, 2, 5]),
        "sink": rng.choice(["thread", "io_uring", "io_uring_direct"]),
        "durability": "none",
    }
    if rng.random() < 0.2:
        options["encoding"] = rng.choice(
            ["plain", "delta_binary_packed", "delta_length_byte_array", "delta_byte_array", "byte_stream_split"]
        )
    if rng.random() < 0.2:
        bools = [field.name for field in made.schema if pa.types.is_boolean(field.type)]
        options["bloom_filter_columns"] = [name for name in flat if name not in bools]
    return Case(seed, made, options)


@pytest.mark.parametrize("first", first_seeds(FILES, BLOCK))
def test_tables_of_all_kinds_come_back(tmp_path: Path, first: int) -> None:
    told = []
    for seed in range(first, first + BLOCK):
        case = write_case(seed)
        told += [f"{failure}\n  {case}" for failure in failures(case, tmp_path / "any.parquet")]
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])


def failures(case: Case, path: Path) -> Iterator[str]:
    """Yields the differences from what was written, for each of the readers."""
    try:
        written = st.write_parquet(case.table, path, **case.options)
    except Exception as error:
        yield f"not written: {type(error).__name__}: {error}"
        return
    if written.rows != case.table.num_rows:
        yield f"{written.rows} rows"
    settle(path)
    try:
        theirs = pq.read_table(path, page_checksum_verification=True)
        theirs.validate(full=True)
    except Exception as error:
        yield f"pyarrow: {type(error).__name__}: {error}"
        return
    with st.Cache(memory="64MiB") as own:
        ours = st.scan(path, cache=own, dictionary="stored").to_arrow()
    for reader, found in (("pyarrow", theirs), ("scan", ours)):
        if found.column_names != case.table.column_names or len(found) != len(case.table):
            yield f"{reader}: {len(found)} rows of {found.column_names}"
            continue
        for field in case.table.schema:
            stored, wanted = as_stored(field.type), case.table[field.name]
            wanted = wanted if stored == field.type else wanted.cast(stored)
            difference = column_differs(found[field.name], wanted, wanted.type)
            if difference is not None:
                yield f"{reader}: column {field.name}: {difference}"


@pytest.mark.parametrize("first", first_seeds(OTHERS, BLOCK))
def test_duckdb_and_polars_read_what_they_read_of_the_files_of_pyarrow(tmp_path: Path, first: int) -> None:
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    told, compared = [], 0
    for seed in range(first, first + BLOCK):
        case = write_case(seed)
        # Not every reader supports rarely used encodings.
        case.options.pop("encoding", None)
        st.write_parquet(case.table, ours, **case.options)
        columns = {}
        for field in case.table.schema:
            stored, column = as_stored(field.type), case.table[field.name]
            columns[field.name] = column if stored == field.type else column.cast(stored)
        pq.write_table(pa.table(columns), theirs)
        for name, read in (("DuckDB", duckdb_rows), ("Polars", polars_rows)):
            try:
                wanted = read(theirs)
            except BaseException:  # noqa: BLE001 (Polars panics on types that it does not know)
                continue
            compared += 1
            if read(ours) != wanted:
                told.append(f"{name} reads otherwise:\n  {case}")
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])
    assert compared > BLOCK


def duckdb_rows(path: Path) -> list[Any]:
    return same_nan(duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().to_pylist())


def polars_rows(path: Path) -> list[Any]:
    return same_nan(pl.read_parquet(path).rows())


def same_nan(value: Any) -> Any:
    """Returns the value with NaNs replaced, so that NaN equals NaN."""
    if isinstance(value, dict):
        return {key: same_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [same_nan(inner) for inner in value]
    return "nan" if value != value else value


def as_stored(type_: pa.DataType) -> pa.DataType:
    """Returns the type that Parquet stores it as: without seconds, and with 32-bit days."""
    if pa.types.is_timestamp(type_) and type_.unit == "s":
        return pa.timestamp("ms", type_.tz)
    if type_ == pa.time32("s"):
        return pa.time32("ms")
    if pa.types.is_date64(type_):
        return pa.date32()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(as_stored(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(as_stored(type_.key_type), as_stored(type_.item_type))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(as_stored(type_.value_type), type_.list_size)
    if pa.types.is_large_list(type_):
        return pa.large_list(as_stored(type_.value_type))
    return pa.list_(as_stored(type_.value_type)) if pa.types.is_list(type_) else type_


@pytest.mark.parametrize("type_", dict.fromkeys(parquet_scalars()), ids=str)
@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_every_type_is_written_with_and_without_a_dictionary(
    tmp_path: Path, type_: pa.DataType, rows: int
) -> None:
    path = tmp_path / "a.parquet"
    values = array(random.Random(rows), type_, rows)
    for dictionary in (None, True, False):
        case = Case(0, pa.table({"x": values}), {"dictionary": dictionary, "row_group_size": 3_000})
        wrong = list(failures(case, path))
        assert not wrong, f"dictionary={dictionary}: {wrong}"
    metadata = pq.ParquetFile(path).metadata
    assert rows == 0 or not metadata.row_group(0).column(0).has_dictionary_page


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
def test_dictionaries_of_every_size_and_key_stay_dictionaries(
    tmp_path: Path, index: pa.DataType, version: str
) -> None:
    path = tmp_path / "a.parquet"
    numpy = np.random.default_rng(5)
    max_distinct = 2 ** (index.bit_width - (0 if pa.types.is_unsigned_integer(index) else 1))
    for distinct in [1, 2, 3, 5, 17, 33, 128, 256, 257, 4_000, 70_000, 150_000]:
        if distinct > max_distinct:
            continue
        rows = max(1_000, distinct + 7)
        codes = np.concatenate([np.arange(distinct), numpy.integers(0, distinct, rows - distinct)])
        nulls = numpy.random(rows) < 0.1 if distinct % 2 else None
        keys = pa.array(codes, mask=nulls).cast(index)
        values = pa.array([f"value {at}" for at in range(distinct)])
        column = pa.DictionaryArray.from_arrays(keys, values)
        case = Case(0, pa.table({"x": column}), {"data_page_version": version})
        assert not list(failures(case, path)), distinct
        chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
        assert chunk.has_dictionary_page
        assert "RLE_DICTIONARY" in chunk.encodings
        assert chunk.statistics.distinct_count == len(column.drop_null().unique())


def test_dictionaries_may_change_and_be_odd(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), pa.array(values, pa.string()))
        for keys, values in [
            ([0, 1, None, 1], ["a", "b"]),
            ([2, 0, 0, 3], ["b", "unused", "a", "b"]),
            ([0, 1, 1, None], [None, "c"]),
            ([], []),
            ([None, None], ["never"]),
            ([0] * 40, ["a"]),
        ]
    ]
    given = pa.table({"x": pa.chunked_array(chunks)})
    st.write_parquet(given, path)
    found = pq.read_table(path, page_checksum_verification=True)["x"]
    assert found.cast(pa.string()).to_pylist() == given["x"].cast(pa.string()).to_pylist()
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max, statistics.null_count) == ("a", "c", 5)
    assert statistics.distinct_count == 3


@cache
def mixed(rows: int) -> pa.Table:
    """Returns orders, with the types that statistics treat specially."""
    made = orders(rows).drop_columns(["tags", "place"])
    numpy = np.random.default_rng(1)
    mask = numpy.random(rows) < 0.2
    return pa.table(
        {
            **{name: made[name] for name in made.column_names},
            "u32": pa.array(numpy.integers(0, 2**32, rows, np.uint32), mask=mask),
            "u64": pa.array(numpy.integers(0, 2**64, rows, np.uint64), mask=mask),
            "i8": pa.array(numpy.integers(-128, 128, rows).astype(np.int8), mask=mask),
            "wide": pa.array(numpy.integers(-(2**60), 2**60, rows), mask=mask).cast(pa.decimal128(38, 2)),
            "f32": pa.array(numpy.normal(size=rows).astype(np.float32), mask=mask),
            "time": pa.array(numpy.integers(0, 86_400 * 10**6, rows), mask=mask).cast(pa.time64("us")),
            "nulls": pa.nulls(rows, pa.int32()),
        }
    )


@pytest.mark.parametrize("dictionary", [None, True, False, "arrives"])
def test_statistics_are_those_of_the_values(tmp_path: Path, dictionary: Any) -> None:
    path, given = tmp_path / "a.parquet", mixed(50_000)
    if dictionary == "arrives":
        dictionary = None
        encoded = [
            column if pa.types.is_boolean(column.type) else column.dictionary_encode()
            for column in given.columns
        ]
        written = pa.table(encoded, given.column_names)
    else:
        written = given
    st.write_parquet(written, path, dictionary=dictionary, row_group_size=12_000)
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [12_000] * 4 + [2_000]
    for at in range(metadata.num_row_groups):
        part = given.slice(at * 12_000, 12_000)
        for number, name in enumerate(given.column_names):
            chunk, values = metadata.row_group(at).column(number), part[name].combine_chunks()
            statistics = chunk.statistics
            assert statistics.null_count == values.null_count, name
            assert chunk.has_offset_index, name
            if statistics.distinct_count is not None:
                assert statistics.distinct_count == len(values.drop_null().unique()), name
            if values.null_count == len(values):
                assert not statistics.has_min_max, name
                continue
            assert statistics.has_min_max, name
            assert chunk.has_column_index, name
            bounds = pc.min_max(values)
            assert statistics.min == bounds["min"].as_py(), name
            assert statistics.max == bounds["max"].as_py(), name


@pytest.mark.parametrize("dictionary", [True, False])
def test_bounds_of_odd_floats_and_long_texts_hold(tmp_path: Path, dictionary: bool) -> None:
    path = tmp_path / "a.parquet"
    long = ["b" * 100 + str(at) for at in range(10)] + ["é" * 70, "a" * 65, None]
    floats = [float("nan"), 0.0, -0.0, float("nan"), *[0.0] * 8, None]
    given = pa.table({"long": long, "floats": floats, "nan": [float("nan")] * 13, "f32": pa.array(floats, pa.float32())})
    st.write_parquet(given, path, dictionary=dictionary)
    group = pq.ParquetFile(path).metadata.row_group(0)
    texts, zeros, nan, _ = (group.column(at).statistics for at in range(4))
    assert texts.min <= "a" * 65
    assert texts.max >= "é" * 70
    # A reader must find both zeros between the bounds, whichever it looks for.
    assert str(zeros.min) == "-0.0"
    assert str(zeros.max) == "0.0"
    assert not nan.has_min_max
    for condition, rows in [("floats = 0", 10), ("long > 'b'", 11), ("floats is null", 1)]:
        assert st.scan(path, filter=condition).count() == rows, condition


@pytest.mark.parametrize("options", [{}, {"dictionary": True}, {"dictionary": False}, {"data_page_version": "2.0"}])
def test_filters_find_what_they_should_by_the_index_of_pages(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    given = mixed(100_000).sort_by("price")
    settled = given.append_column("order", pa.array(range(100_000)))
    st.write_parquet(settled, path, row_group_size=70_000, bloom_filter_columns=["order", "comment"], **options)
    settle(path)
    columns = ["order", "price", "mode", "discount", "f32"]
    for condition, mask in [
        ("order >= 41000 AND order < 41100", pc.and_(pc.greater_equal(settled["order"], 41_000), pc.less(settled["order"], 41_100))),
        ("price > 999", pc.greater(settled["price"], 999.0)),
        ("price < 1 AND mode = 'AIR'", pc.and_(pc.less(settled["price"], 1.0), pc.equal(settled["mode"], "AIR"))),
        ("order = 77777", pc.equal(settled["order"], 77_777)),
    ]:
        with st.Cache(memory="64MiB") as own:
            found = st.scan(path, filter=condition, columns=columns, cache=own, dictionary=False).to_arrow()
        wanted = settled.filter(mask).select(columns)
        assert found.equals(wanted.combine_chunks()) or found.to_pydict() == wanted.to_pydict(), condition


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [None, True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_duckdb_and_polars_read_the_same(tmp_path: Path, codec: str, dictionary: Any, version: str) -> None:
    path, given = tmp_path / "a.parquet", orders(4_000)
    encoded = given.set_column(4, "mode", given["mode"].dictionary_encode())
    st.write_parquet(
        encoded, path, compression=codec, dictionary=dictionary, data_page_version=version, row_group_size=1_500
    )
    theirs = duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table()
    polars = pl.read_parquet(path)
    for name in given.column_names:
        wanted = given[name].to_pylist()
        assert theirs[name].to_pylist() == wanted, f"DuckDB: {name}"
        assert polars[name].to_list() == wanted, f"Polars: {name}"


def test_pages_of_version_2_have_no_encodings_that_nobody_asked_for(tmp_path: Path) -> None:
    path, given = tmp_path / "a.parquet", mixed(3_000)
    given = given.append_column("fixed", pa.array([b"four"] * 3_000, pa.binary(4)))
    st.write_parquet(given, path, dictionary=False, data_page_version="2.0")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert {encoding for at in range(group.num_columns) for encoding in group.column(at).encodings} <= {"PLAIN", "RLE"}


def test_options_of_columns_are_in_the_file(tmp_path: Path) -> None:
    path, given = tmp_path / "a.parquet", orders(3_000)
    st.write_parquet(
        given,
        path,
        compression={"comment": "zstd(9)", "tags": None},
        dictionary={"mode": True, "quantity": False, "comment": False},
        encoding={"key": "delta_binary_packed", "price": "byte_stream_split"},
        statistics={"comment": False},
        bloom_filter_columns={"mode": 0.001},
        sorting_columns=["key", ("place.zip", "descending", "nulls_first")],
        metadata={"made by": "a test"},
    )
    file = pq.ParquetFile(path)
    group = file.metadata.row_group(0)
    chunks = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    codecs = {name: chunk.compression for name, chunk in chunks.items()}
    assert codecs["comment"] == "ZSTD"
    assert codecs["tags.list.element"] == "UNCOMPRESSED"
    assert codecs["key"] == "SNAPPY"
    assert chunks["mode"].has_dictionary_page
    assert not chunks["quantity"].has_dictionary_page
    assert "DELTA_BINARY_PACKED" in chunks["key"].encodings
    assert "BYTE_STREAM_SPLIT" in chunks["price"].encodings
    assert not chunks["comment"].is_stats_set
    assert chunks["quantity"].is_stats_set
    at = {group.column(at).path_in_schema: at for at in range(group.num_columns)}
    sorting = group.sorting_columns
    assert [(column.column_index, column.descending, column.nulls_first) for column in sorting] == [
        (at["key"], False, False),
        (at["place.zip"], True, True),
    ]
    assert file.metadata.metadata[b"made by"] == b"a test"
    assert file.read().equals(given)
    assert {path for field in given.schema for path, _ in leaves(field)} == set(chunks)
    assert plainer(pa.large_string()) == pa.string()


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Oslo"])
@pytest.mark.parametrize("unit", UNITS)
def test_times_before_1970_and_parts_of_seconds_come_back(tmp_path: Path, unit: str, zone: str | None) -> None:
    second = UNITS[unit]
    # In ORC, fractions of the last second before 1970 have no representation of their own.
    values = [0, 1, None, -second, -second - 1, -2 * second + second // 3, second - 1, -30 * 365 * 86_400 * second - 1]
    type_ = pa.timestamp(unit, zone)
    times = pa.array(values, type_)
    table = pa.table({"x": times, "d": times.dictionary_encode(), "l": pa.array([[value] for value in values], pa.list_(type_))})
    wanted = times.cast(pa.timestamp("ns", zone)).cast(pa.int64()).to_pylist()
    st.write_parquet(table, tmp_path / "a.parquet")
    st.write_orc(table, tmp_path / "a.orc")
    for found in (pq.read_table(tmp_path / "a.parquet"), pa.orc.read_table(tmp_path / "a.orc")):
        for name in table.column_names:
            column = found[name].combine_chunks()
            column = column.flatten() if name == "l" else column
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            assert column.cast(pa.timestamp("ns", zone)).cast(pa.int64()).to_pylist() == wanted, name


def test_a_part_of_the_last_second_before_1970_is_parquet_only(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([-1], pa.timestamp("us"))})
    st.write_parquet(table, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(table)
    with pytest.raises(st.UnsupportedError, match="column x: -1 µs"):
        st.write_orc(table, tmp_path / "a.orc")


def test_intervals_keep_their_months(tmp_path: Path) -> None:
    values = [(1, 2, 0), None, (0, 0, 1_500_000_000), (14, 0, 1_000_000)]
    table = pa.table({"v": pa.array(values, pa.month_day_nano_interval())})
    path = tmp_path / "a.parquet"
    st.write_parquet(table, path)
    found = duckdb.sql(
        f"SELECT datepart('year', v) * 12 + datepart('month', v), datepart('day', v), datepart('millisecond', v) FROM '{path}'"
    ).fetchall()
    assert found == [(1, 2, 0), (None, None, None), (0, 0, 1_500), (14, 0, 1)]
    stored = pq.read_table(path)["v"].to_pylist()
    assert stored[0] == bytes([1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])
    for value, told in [((0, 0, 1), "whole milliseconds"), ((0, 0, -1_000_000), "-1 ms")]:
        wrong = pa.table({"v": pa.array([value], pa.month_day_nano_interval())})
        with pytest.raises(st.UnsupportedError, match=f"column v: .*{told}"):
            st.write_parquet(wrong, path)


@pytest.mark.parametrize("is_nested", [False, True])
def test_unions_are_errors_that_say_what_to_do(tmp_path: Path, is_nested: bool) -> None:
    values = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    values = pa.StructArray.from_arrays([values], ["u"]) if is_nested else values
    for write in (st.write_parquet, st.write_orc):
        with pytest.raises(st.UnsupportedError, match="column x.*struct"):
            write(pa.table({"x": values}), tmp_path / "a")


EMPTY = pa.binary(0)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"", None], EMPTY),
        pa.array([[b""], None], pa.list_(EMPTY)),
        pa.array([{"x": b""}, None], pa.struct([("x", EMPTY)])),
        pa.array([[("a", b"")], None], pa.map_(pa.string(), EMPTY)),
        pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array([b""], EMPTY)),
    ],
    ids=["flat", "list", "struct", "map", "dictionary"],
)
def test_values_of_no_bytes_are_written_or_errors_that_say_so(
    tmp_path: Path, values: pa.Array, capfd: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"n": [1, 2], "v": values})
    for dictionary in (None, True, False):
        with pytest.raises(st.UnsupportedError, match="column v: Parquet has no values of a fixed length of 0 bytes"):
            st.write_parquet(table, tmp_path / "a.parquet", dictionary=dictionary)
    if pa.types.is_struct(values.type) or pa.types.is_dictionary(values.type):
        with pytest.raises(st.UnsupportedError, match="column v: values of a fixed length of 0 bytes"):
            st.write_orc(table, tmp_path / "a.orc")
    else:
        st.write_orc(table, tmp_path / "a.orc")
        assert pa.orc.read_table(tmp_path / "a.orc").to_pylist() == table.to_pylist()
    assert not (tmp_path / "a.parquet").exists()
    assert capfd.readouterr().err == ""


def test_metadata_is_in_the_footer_and_in_the_arrow_schema(tmp_path: Path) -> None:
    table = pa.table({"x": [1]}).replace_schema_metadata({"kept": "a", "owner": "old"})
    path = tmp_path / "a.parquet"
    st.write_parquet(table, path, metadata={"owner": "new", "more": "b"})
    wanted = {b"kept": b"a", b"owner": b"new", b"more": b"b"}
    assert pq.read_schema(path).metadata == wanted
    assert pq.read_table(path).schema.metadata == wanted
    assert st.scan(path).schema.metadata == wanted
    stored = pq.read_metadata(path).metadata
    assert {key: value for key, value in stored.items() if key != b"ARROW:schema"} == wanted

    # The mark of a data set is about the file, not about its rows.
    parts = pa.table({"x": [1], "k": ["a"]})
    st.write_parquet(parts, tmp_path / "set", partition_by=["k"], metadata={"owner": "new"})
    (part,) = (tmp_path / "set").rglob("*.parquet")
    assert pq.read_schema(part).metadata == {b"owner": b"new"}


def test_json_and_nulls_have_their_logical_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"j": pa.array(['{"a":1}', None], pa.json_()), "n": pa.nulls(2)})
    st.write_parquet(table, path)
    schema = pq.ParquetFile(path).schema
    assert [json.loads(schema.column(at).logical_type.to_json())["Type"] for at in (0, 1)] == ["JSON", "Null"]
    found = pq.read_table(path)
    assert found["j"].type == pa.json_()
    assert found["n"].type == pa.null()
    assert found["j"].to_pylist() == table["j"].to_pylist()
    st.write_orc(table, tmp_path / "a.orc")
    assert pa.orc.read_table(tmp_path / "a.orc")["j"].to_pylist() == ['{"a":1}', None]


def test_columns_of_nulls_of_polars_are_written(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [None, None], "s": [{"n": None}, {"n": None}], "l": [[None], []]})
    assert frame.schema["n"] == pl.Null
    st.write_parquet(frame, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == frame.to_arrow().to_pylist()
    st.write_orc(frame, tmp_path / "a.orc")
    assert pa.orc.read_table(tmp_path / "a.orc").to_pylist() == frame.to_arrow().to_pylist()


@pytest.mark.parametrize("rows", [1_200, 7])
@pytest.mark.parametrize("ordered", [True, False])
def test_categories_come_back_in_their_order(tmp_path: Path, ordered: bool, rows: int) -> None:
    categories = ["low", "mid", "high", "never"]
    values = pd.Categorical((["high", "low", "mid"] * rows)[:rows], categories, ordered=ordered)
    frame = pd.DataFrame({"p": values})
    path = tmp_path / "a.parquet"
    st.write_parquet(frame, path, row_group_size=500)
    found = pd.read_parquet(path)["p"]
    assert list(found.cat.categories) == categories
    assert found.cat.ordered == ordered
    assert list(found) == list(values)
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == ("high", "mid")
    assert pq.read_table(path).schema.field("p").type.ordered == ordered
    st.write_parquet(pl.DataFrame({"p": ["b", "a"]}, schema={"p": pl.Enum(["c", "b", "a"])}), path)
    found = pq.read_table(path, read_dictionary=["p"])["p"].chunk(0)
    assert found.dictionary.to_pylist() == ["c", "b", "a"]
    assert found.to_pylist() == ["b", "a"]
