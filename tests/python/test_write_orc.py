"""`write_orc`: output is read back unchanged by pyarrow and by scans, and errors say what is wrong."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle
from matrix import Case, array, first_seeds, orc_scalars, table
from orders import orders
from test_matrix import column_differs
from test_write import failing, names, numbers

FILES = 240
BLOCK = 40
TOLD = 5
CODECS = ["none", "snappy", "lz4", "zstd", "zstd(1)", "zlib", "zlib(1)"]


def scalars() -> list[pa.DataType]:
    """Returns the types without children whose values ORC can all store."""
    return [
        *orc_scalars(),
        *[pa.uint8(), pa.uint16(), pa.uint32(), pa.float16(), pa.null()],
        *[pa.decimal32(7, 2), pa.decimal64(15, 3), pa.decimal128(1, 0), pa.decimal128(9, 9), pa.decimal256(5, 1)],
        *[pa.string_view(), pa.binary_view(), pa.binary(40)],
        *[pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.uint16(), pa.int32(), pa.int64())],
        *[pa.dictionary(pa.int32(), pa.large_string()), pa.dictionary(pa.uint8(), pa.binary())],
        *[pa.dictionary(pa.int16(), pa.int64()), pa.dictionary(pa.int32(), pa.decimal128(12, 2))],
    ]


def stored(type_: pa.DataType) -> pa.DataType:
    """Returns the type that ORC stores, as pyarrow reads it."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(stored(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(stored(type_.key_type), stored(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(stored(type_.value_type))
    if pa.types.is_dictionary(type_):
        return stored(type_.value_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ns", type_.tz and "UTC")
    if pa.types.is_decimal(type_):
        return pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    return {
        pa.null(): pa.bool_(),
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
        pa.large_string(): pa.string(),
        pa.string_view(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.binary_view(): pa.binary(),
    }.get(type_, type_)


def has_more_than_booleans(type_: pa.DataType) -> bool:
    """Returns whether something in a column can have a bloom filter."""
    if type_.num_fields == 0:
        return type_ != pa.bool_()
    return any(has_more_than_booleans(type_.field(at).type) for at in range(type_.num_fields))


def write_case(seed: int) -> Case:
    """Returns a table, and options of `write_orc`."""
    rng = random.Random(f"write orc {seed}")
    made = table(rng, scalars())
    names = made.column_names
    options: dict[str, Any] = {
        "compression": rng.choice(CODECS),
        "dictionary": rng.choice([0.8, 0.8, True, False, 0.1, rng.sample(names, len(names) // 2)]),
        "row_index_stride": rng.choice([0, 10, 100, 1_000, 10_000]),
        "stripe_size": rng.choice([1, 4_096, 65_536, None, None]),
        "compression_block_size": rng.choice([64, 4_096, None, None]),
        "memory": rng.choice([1, "64KiB", None, None]),
        "threads": rng.choice([1, 2, 5]),
        "sink": rng.choice(["thread", "io_uring", "io_uring_direct"]),
        "durability": "none",
    }
    if rng.random() < 0.2 and options["row_index_stride"]:
        able = [field.name for field in made.schema if has_more_than_booleans(field.type)]
        options["bloom_filter_columns"] = rng.sample(able, len(able) // 2)
    return Case(seed, made, options)


@pytest.mark.parametrize("first", first_seeds(FILES, BLOCK))
def test_tables_of_all_kinds_come_back(tmp_path: Path, first: int) -> None:
    told = []
    for seed in range(first, first + BLOCK):
        case = write_case(seed)
        told += [f"{failure}\n  {case}" for failure in failures(case, tmp_path / "any.orc")]
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])


def failures(case: Case, path: Path) -> Iterator[str]:
    """Yields the differences from what was written, for each of the readers."""
    try:
        written = st.write_orc(case.table, path, **case.options)
    except Exception as error:
        yield f"not written: {type(error).__name__}: {error}"
        return
    if written.rows != case.table.num_rows:
        yield f"{written.rows} rows"
    settle(path)
    file = pa.orc.ORCFile(path)
    if file.nstripes != written.row_groups:
        yield f"{written.row_groups} stripes, not {file.nstripes}"
    with st.Cache(memory="64MiB") as own:
        ours = st.scan(path, cache=own, dictionary=False).to_arrow()
    for reader, found in (("pyarrow", file.read()), ("scan", ours)):
        found.validate(full=True)
        if found.column_names != case.table.column_names or len(found) != len(case.table):
            yield f"{reader}: {len(found)} rows of {found.column_names}"
            continue
        for field in case.table.schema:
            type_ = stored(field.type)
            difference = column_differs(found[field.name].cast(type_), case.table[field.name].cast(type_), type_)
            # Conversions between float widths make every NaN quiet; so does pyarrow when it reads.
            is_cast = reader == "pyarrow" or "halffloat" in str(field.type)
            is_quieted = is_cast and str(difference).endswith("nan, not nan")
            if difference is not None and not is_quieted:
                yield f"{reader}: column {field.name}: {difference}"


@pytest.mark.parametrize("type_", dict.fromkeys(scalars()), ids=str)
@pytest.mark.parametrize("rows", [0, 1, 25_000])
def test_every_type_is_written(tmp_path: Path, type_: pa.DataType, rows: int) -> None:
    values = array(random.Random(rows), type_, rows)
    for options in ({}, {"dictionary": False, "compression": "none"}, {"dictionary": True, "compression": "snappy"}):
        wrong = list(failures(Case(0, pa.table({"x": values}), options), tmp_path / "a.orc"))
        assert not wrong, f"{options}: {wrong}"


@pytest.mark.parametrize("index", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()], ids=str)
def test_dictionaries_of_every_size_and_key_stay_dictionaries(tmp_path: Path, index: pa.DataType) -> None:
    numpy = np.random.default_rng(5)
    max_distinct = 2 ** (index.bit_width - (0 if pa.types.is_unsigned_integer(index) else 1))
    for distinct in [1, 2, 3, 128, 256, 257, 4_000, 70_000]:
        if distinct > max_distinct:
            continue
        rows = max(1_000, 2 * distinct)
        codes = np.concatenate([np.arange(distinct), numpy.integers(0, distinct, rows - distinct)])
        keys = pa.array(codes, mask=numpy.random(rows) < 0.1 if distinct % 2 else None).cast(index)
        values = pa.array([f"value {at}" for at in range(distinct)])
        column = pa.DictionaryArray.from_arrays(keys, values)
        case = Case(0, pa.table({"x": column}), {})
        assert not list(failures(case, tmp_path / "a.orc")), distinct
        found = st.scan(tmp_path / "a.orc", dictionary=True).to_arrow()["x"]
        assert pa.types.is_dictionary(found.type)
        assert found.cast(pa.string()).to_pylist() == column.cast(pa.string()).to_pylist()


def test_options_are_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    st.write_orc(orders(30_000), path, compression="zlib(9)", row_index_stride=1_000, metadata={"a": "b", "ß": "🙂"})
    file = pa.orc.ORCFile(path)
    assert (file.compression, file.row_index_stride, file.nrows) == ("ZLIB", 1_000, 30_000)
    assert file.metadata[b"a"] == b"b" and file.metadata["ß".encode()] == "🙂".encode()
    one = st.write_orc(orders(30_000), path)
    many = st.write_orc(orders(30_000), path, stripe_size=20_000)
    assert one.row_groups == 1 < many.row_groups == pa.orc.ORCFile(path).nstripes


def test_dictionaries_and_bloom_filters_are_for_the_columns_that_were_named(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    table = pa.table({"a": ["x", "y"] * 5_000, "b": ["y", "z"] * 5_000, "c": [f"v{at}" for at in range(10_000)]})
    st.write_orc(table, path, dictionary=["a"], bloom_filter_columns={"c": 0.1})
    found = {column["name"]: column for column in st.inspect(path)["columns"]}
    assert [found[name]["dictionary_chunks"] for name in "abc"] == [1, 0, 0]
    assert [found[name]["bloom_filter_chunks"] for name in "abc"] == [0, 0, 1]
    size = path.stat().st_size
    st.write_orc(table, path, dictionary=["a"], bloom_filter_columns={"c": 0.0001})
    assert path.stat().st_size > size + 10_000
    assert pa.orc.read_table(path).equals(table)


def test_options_have_the_names_of_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    table = pa.table({"a": ["x", "y"] * 5_000, "b": [f"v{at}" for at in range(10_000)]})
    st.write_orc(table, path, dictionary_key_size_threshold=0.0, bloom_filter_columns=["b"], bloom_filter_fpp=0.1)
    found = {column["name"]: column for column in st.inspect(path)["columns"]}
    assert found["a"]["dictionary_chunks"] == 0 and found["b"]["bloom_filter_chunks"] == 1
    size = path.stat().st_size
    st.write_orc(table, path, dictionary_key_size_threshold=0.0, bloom_filter_columns=["b"], bloom_filter_fpp=0.0001)
    assert path.stat().st_size > size + 10_000
    st.write_orc(table, path, dictionary_key_size_threshold=1.0, compression_block_size=4_096)
    assert pa.orc.ORCFile(path).compression_size == 4_096
    assert st.inspect(path)["columns"][0]["dictionary_chunks"] == 1


def test_old_names_of_options_are_deprecated(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    with pytest.warns(DeprecationWarning, match="stripe_size now"):
        assert st.write_orc(orders(30_000), path, stripe_bytes=20_000).row_groups > 1
    with pytest.warns(DeprecationWarning, match="compression_block_size now"):
        st.write_orc(numbers(), path, compression_chunk_bytes=4_096)
    assert pa.orc.ORCFile(path).compression_size == 4_096
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="give one of them"):
        st.write_orc(numbers(), path, stripe_bytes=20_000, stripe_size=20_000)


def test_any_arrow_data_is_written(tmp_path: Path) -> None:
    made = orders(3_000).drop_columns(["tags", "place"])
    pq.write_table(made, tmp_path / "a.parquet")
    settle(tmp_path / "a.parquet")
    for data in (made, made.to_reader(700), pl.from_arrow(made), st.scan(tmp_path / "a.parquet")):
        assert st.write_orc(data, tmp_path / "a.orc").rows == 3_000
        found = pa.orc.read_table(tmp_path / "a.orc")
        for name in made.column_names:
            type_ = stored(made[name].type)
            assert column_differs(found[name].cast(type_), made[name].cast(type_), type_) is None, name


def test_a_file_by_pyarrow_is_written_anew(tmp_path: Path) -> None:
    given = pa.table({"text": ["a", None, "c"], "list": [["a"], [], None]})
    pa.orc.write_table(given, tmp_path / "theirs.orc")
    settle(tmp_path / "theirs.orc")
    st.write_orc(st.scan(tmp_path / "theirs.orc"), tmp_path / "ours.orc")
    assert pa.orc.read_table(tmp_path / "ours.orc").equals(given)


def test_texts_have_the_length_that_metadata_says(tmp_path: Path) -> None:
    fields = [pa.field(name, pa.string(), metadata={"orc.type": name}) for name in ("char(4)", "varchar(4)")]
    given = pa.table([["ab", None, "æøåß"], ["ab", None, "æøåß"]], schema=pa.schema(fields))
    st.write_orc(given, tmp_path / "a.orc")
    found = pa.orc.read_table(tmp_path / "a.orc")
    assert found.column(0).to_pylist() == ["ab  ", None, "æøåß"]
    assert found.column(1).to_pylist() == ["ab", None, "æøåß"]
    longer = pa.table([["abcde"]], schema=pa.schema(fields[1:]))
    with pytest.raises(st.UnsupportedError, match=r"varchar\(4\)"):
        st.write_orc(longer, tmp_path / "b.orc")
    assert names(tmp_path) == ["a.orc"]


def test_the_last_second_before_1970_has_no_fractions(tmp_path: Path) -> None:
    for value in (-1_000, -1_001, 0):
        st.write_orc(pa.table({"x": pa.array([value], pa.timestamp("ms"))}), tmp_path / "a.orc")
        assert pa.orc.read_table(tmp_path / "a.orc")["x"].cast(pa.int64()).to_pylist() == [value * 1_000_000]
    with pytest.raises(st.UnsupportedError, match="fraction of the last second"):
        st.write_orc(pa.table({"x": pa.array([-1], pa.timestamp("ms"))}), tmp_path / "b.orc")
    assert names(tmp_path) == ["a.orc"]


# Errors.


class NullKeys:
    """A batch whose map has a null key, which pyarrow does not create: the rows of a list, declared as a map."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        entries = pa.StructArray.from_arrays([pa.array(["a", None, "b"]), pa.array([1, 2, 3])], ["key", "value"])
        rows = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 2, 3], entries)], ["x"])
        schema = pa.struct([("x", pa.map_(pa.string(), pa.int64()))])
        return schema.__arrow_c_schema__(), rows.__arrow_c_array__()[1]


def test_a_null_key_of_a_map_is_an_error_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(st.UnsupportedError, match="column x.*null"):
        st.write_orc(NullKeys(), tmp_path / "a.orc")
    assert names(tmp_path) == []


IMPOSSIBLE: list[tuple[pa.Array, str]] = [
    (pa.array([2**63], pa.uint64()), "column x"),
    (pa.array([10**39], pa.decimal256(40, 0)), "column x"),
    (pa.array([1], pa.time64("us")), "no Time64"),
    (pa.array([1], pa.duration("s")), "no Duration"),
    (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "unions"),
    (pa.array([2**61], pa.timestamp("s")), "column x"),
]


@pytest.mark.parametrize(("values", "told"), IMPOSSIBLE, ids=lambda value: str(value)[:24] if isinstance(value, str) else "")
def test_what_orc_cannot_hold_is_an_error_and_no_file(values: pa.Array, told: str, tmp_path: Path) -> None:
    with pytest.raises(st.UnsupportedError, match=told):
        st.write_orc(pa.table({"x": values}), tmp_path / "a.orc")
    assert names(tmp_path) == []


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"compression": "brotli"}, st.ConfigError, "zlib"),
    ({"dictionary": ["m"]}, st.ColumnNotFoundError, "no column m"),
    ({"dictionary": "n"}, TypeError, "list"),
    ({"dictionary": 1.5}, st.ConfigError, "from 0 to 1"),
    ({"dictionary": True, "dictionary_key_size_threshold": 0.5}, ValueError, "give one of them"),
    ({"bloom_filter_columns": {"n": 0.1}, "bloom_filter_fpp": 0.1}, ValueError, "a rate for each column"),
    ({"bloom_filter_columns": {"n": 3.0}}, st.ConfigError, "between 0 and 1"),
    ({"bloom_filter_columns": ["n"], "row_index_stride": 0}, st.ConfigError, "no row index"),
    ({"bloom_filter_columns": "n"}, TypeError, "list"),
    ({"bloom_filter_columns": ["n.x"]}, st.ColumnNotFoundError, "no column n.x"),
    ({"stripe_size": 0}, st.ConfigError, "at least 1"),
    ({"stripe_size": "many"}, st.ConfigError, "stripe_size"),
    ({"sink": "sieve"}, st.ConfigError, "io_uring"),
    ({"durability": "some"}, ValueError, "fsync"),
    ({"threads": 0}, st.ConfigError, "threads: give 1 or more"),
    ({"row_index_stride": -1}, st.ConfigError, "row_index_stride: give 0 or more, not -1"),
]


@pytest.mark.parametrize(("options", "error", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_options_are_errors_that_say_what_is_right(
    options: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=told):
        st.write_orc(numbers(), tmp_path / "a.orc", **options)
    assert names(tmp_path) == []


def test_data_that_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(st.StylobateError, match="no more rows"):
        st.write_orc(failing(1_000_000), tmp_path / "a.orc")
    assert names(tmp_path) == []
    st.write_orc(numbers(5), tmp_path / "a.orc")
    with pytest.raises(st.StylobateError, match="no more rows"):
        st.write_orc(failing(1_000_000), tmp_path / "a.orc")
    with pytest.raises(st.AlreadyExistsError):
        st.write_orc(numbers(5), tmp_path / "a.orc", overwrite=False)
    assert pa.orc.read_table(tmp_path / "a.orc").num_rows == 5 and names(tmp_path) == ["a.orc"]
    with pytest.raises(st.ConfigError, match="is a folder: name a file in it, or give max_file_bytes or partition_by$"):
        st.write_orc(numbers(), tmp_path)


def test_what_progress_raises_ends_the_work(tmp_path: Path) -> None:
    def progress(rows: int, size: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        st.write_orc(orders(1_000), tmp_path / "a.orc", progress=progress)


LONG_TEXTS = """
import re, sys
import stylobate as st

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) >> 10

before = peak()
with st.Cache(memory=sys.argv[2]) as cache:
    scan = st.scan(sys.argv[1], cache=cache, dictionary=False, batch_rows=1000, threads=1, filter=sys.argv[3] or None)
    rows = sum(len(batch) for batch in scan.batches())
print(rows, peak() - before)
"""


@pytest.mark.parametrize("memory", ["0", "64MiB", "1GiB"])
def test_long_texts_that_compress_to_nothing_are_read_in_little_memory(memory: str, tmp_path: Path) -> None:
    path, schema = tmp_path / "a.orc", pa.schema([("row", pa.int64()), ("text", pa.string())])
    # More bytes than one array can hold.
    rng = random.Random(1)
    texts = pa.array([rng.randbytes(200).hex() + "q" * 40_000 for _ in range(500)])
    batches = (pa.record_batch([pa.array(range(at, at + 500)), texts], schema) for at in range(0, 60_000, 500))
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    st.write_orc(reader, path, dictionary=False, stripe_size="1GiB", memory="8GiB")
    settle(path)
    # Some row groups are read alone.
    for filter_, expected in [("", 60_000), ("row >= 10000 and row < 20000", 10_000)]:
        command = [sys.executable, "-c", LONG_TEXTS, str(path), memory, filter_]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        rows, mebibytes = map(int, run.stdout.split())
        assert rows == expected and mebibytes < 300


WRITTEN = """
import re, sys
import numpy as np
import pyarrow as pa
import stylobate as st

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) >> 10

kind, path = sys.argv[1:]
options = dict(memory="64MiB", threads=1)
if kind in ("texts", "bytes"):
    value = "x" * 1000 if kind == "texts" else b"x" * 1000
    data = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_200_000, np.int8)), pa.array([value]))
    options |= dict(dictionary=False, row_index_stride=0) if kind == "texts" else {}
elif kind == "late":
    codes = np.zeros(4_000_000, np.int32)
    codes[-180_000:] = np.arange(180_000)
    values = [f"{value:0100}" for value in range(180_000)]
    data = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(values))
elif kind == "strides":
    data = pa.array(np.arange(1_000_000))
    options |= dict(row_index_stride=1, bloom_filter_columns=["x"])
elif kind == "runs":
    data = pa.RunEndEncodedArray.from_arrays(pa.array([20_000_000], pa.int32()), pa.array([1.5]))
else:
    data = pa.array(["y" * 600_000] * 500)
before = peak()
st.write_orc(pa.table({"x": data}), path, **options)
print(peak() - before)
"""


@pytest.mark.parametrize("kind", ["texts", "bytes", "late", "runs", "wide", "strides"])
def test_what_grows_when_it_is_written_takes_little_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    run = subprocess.run([sys.executable, "-c", WRITTEN, kind, str(path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    rows = {
        "texts": 2_200_000, "bytes": 2_200_000, "late": 4_000_000, "runs": 20_000_000, "wide": 500, "strides": 1_000_000,
    }[kind]
    assert pyarrow.orc.ORCFile(path).nrows == rows
    assert int(run.stdout) < 400, f"{run.stdout} MiB"
