"""One table over many files: columns are matched by name, and their types unified to hold all values."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stylobate as st

UTC = dt.timezone.utc


def write(folder: Path, *columns: pa.Array) -> Path:
    """Writes a file for each array, as its column `c`, with the file's number as `id`."""
    for number, column in enumerate(columns):
        table = pa.table({"id": pa.array([number] * len(column), pa.int64()), "c": column})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    return pa.array(values, data_type)


WIDENED = {
    "ints and floats": (array([10], pa.int64()), array([1.5, None], pa.float64()), pa.float64(), [10.0, 1.5, None]),
    "small ints and float32": (array([10], pa.int8()), array([1.5], pa.float32()), pa.float64(), [10.0, 1.5]),
    "ints": (array([1], pa.int16()), array([1 << 40], pa.int64()), pa.int64(), [1, 1 << 40]),
    "UTC by two names": (
        array([dt.datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        array([dt.datetime(2024, 1, 2, tzinfo=UTC)], pa.timestamp("us", "+00:00")),
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 2, tzinfo=UTC)],
    ),
    "units of timestamps": (
        array([dt.datetime(2024, 1, 1)], pa.timestamp("ms")),
        array([dt.datetime(2024, 1, 1, 0, 0, 0, 5)], pa.timestamp("us")),
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 5)],
    ),
    "dates and timestamps": (
        array([dt.date(2024, 1, 1)], pa.date32()),
        array([dt.datetime(2024, 1, 2, 3)], pa.timestamp("us")),
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 3)],
    ),
    "decimals": (
        array([decimal.Decimal("1.5")], pa.decimal128(2, 1)),
        array([decimal.Decimal("22.25")], pa.decimal128(9, 2)),
        pa.decimal128(9, 2),
        [decimal.Decimal("1.50"), decimal.Decimal("22.25")],
    ),
    "decimals and ints": (
        array([decimal.Decimal("1.5")], pa.decimal128(2, 1)),
        array([3], pa.int32()),
        pa.decimal128(11, 1),
        [decimal.Decimal("1.5"), decimal.Decimal("3.0")],
    ),
    "nulls and anything": (pa.nulls(1), array(["x"], pa.string()), pa.string(), [None, "x"]),
    "lists of any kind": (
        array([[1, 2], None], pa.list_(pa.int32(), 2)),
        array([[3], []], pa.large_list(pa.int64())),
        pa.large_list(pa.int64()),
        [[1, 2], None, [3], []],
    ),
    "structs that grew": (
        array([{"x": 1}, None], pa.struct({"x": pa.int32()})),
        array([{"y": "b", "x": 2}], pa.struct({"y": pa.string(), "x": pa.int64()})),
        pa.struct({"x": pa.int64(), "y": pa.string()}),
        [{"x": 1, "y": None}, None, {"x": 2, "y": "b"}],
    ),
    "structs in lists": (
        array([[{"x": 1}], []], pa.list_(pa.struct({"x": pa.int32()}))),
        array([[{"x": 2, "y": 3}, None]], pa.list_(pa.struct({"x": pa.int32(), "y": pa.int8()}))),
        pa.list_(pa.struct({"x": pa.int32(), "y": pa.int8()})),
        [[{"x": 1, "y": None}], [], [{"x": 2, "y": 3}, None]],
    ),
    "values of maps": (
        array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        array([[("b", 2.5)], None], pa.map_(pa.string(), pa.float64())),
        pa.map_(pa.string(), pa.float64()),
        [[("a", 1.0)], [("b", 2.5)], None],
    ),
}


@pytest.mark.parametrize("kind", WIDENED)
def test_types_meet_where_no_value_is_lost(kind: str, tmp_path: Path) -> None:
    first, second, data_type, values = WIDENED[kind]
    table = st.scan(write(tmp_path, first, second), dictionary=False).to_arrow()
    assert table["c"].type.equals(data_type) or table["c"].to_pylist() == values
    assert table["c"].to_pylist() == values
    assert table["id"].to_pylist() == [0] * len(first) + [1] * len(second)


def test_what_a_type_cannot_hold_is_an_error_and_no_other_value(tmp_path: Path) -> None:
    write(tmp_path, array([(1 << 53) + 1], pa.int64()), array([0.5], pa.float64()))
    with pytest.raises(st.SchemaError, match=rf"0.parquet: column c: {(1 << 53) + 1} cannot be represented exactly as float64"):
        st.scan(tmp_path).to_arrow()
    assert st.scan(tmp_path, columns=["id"]).to_arrow()["id"].to_pylist() == [0, 1]


def test_columns_that_do_not_go_together_are_an_error_for_those_who_ask_for_them(tmp_path: Path) -> None:
    write(tmp_path, array([1], pa.int64()), array(["x"], pa.string()))
    for options in ({}, {"columns": ["c"]}, {"columns": ["id"], "filter": "c = 1"}):
        with pytest.raises(st.SchemaError, match=r"1.parquet: column c: it is Utf8 here and Int64 in .*0.parquet"):
            st.scan(tmp_path, **options).to_arrow()
    assert st.scan(tmp_path, columns=["id"]).to_arrow()["id"].to_pylist() == [0, 1]
    assert st.scan(tmp_path, columns=["id"], filter="id = 1").count() == 1


NUMBERS = {
    pa.int8(): [-1],
    pa.uint64(): [7],
    pa.float64(): [0.5],
    pa.decimal128(5, 2): [decimal.Decimal("2.25")],
    pa.string(): ["x"],
}


@pytest.mark.parametrize(
    ("data_types", "expected"),
    [
        ((pa.int8(), pa.uint64(), pa.float64()), pa.float64()),
        ((pa.int8(), pa.uint64(), pa.decimal128(5, 2)), pa.decimal128(22, 2)),
        ((pa.int8(), pa.uint64()), pa.decimal128(20, 0)),
        ((pa.int8(), pa.float64(), pa.decimal128(5, 2)), pa.float64()),
        ((pa.int8(), pa.string()), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "lists"])
def test_whether_numbers_meet_does_not_depend_on_the_order_of_files(
    data_types: tuple[pa.DataType, ...], expected: pa.DataType | None, nested: bool, tmp_path: Path
) -> None:
    for order, ordered in enumerate(itertools.permutations(data_types)):
        folder = tmp_path / str(order)
        folder.mkdir()
        values = [NUMBERS[data_type] for data_type in ordered]
        if nested:
            write(folder, *(array([some], pa.list_(one)) for some, one in zip(values, ordered, strict=True)))
        else:
            write(folder, *(array(some, one) for some, one in zip(values, ordered, strict=True)))
        if expected is None:
            with pytest.raises(st.SchemaError, match=r"column c: it is \w+.* here and \w+.* in .*\d.parquet"):
                st.scan(folder).to_arrow()
            continue
        table = st.scan(folder).to_arrow()
        found = table.schema.field("c").type
        assert (found.value_type if nested else found) == expected
        assert table["c"].to_pylist() == (values if nested else list(itertools.chain(*values)))


def test_durations_meet_in_the_finest_unit(tmp_path: Path) -> None:
    write(tmp_path, array([1, None], pa.duration("s")), array([2], pa.duration("us")))
    table = st.scan(tmp_path).to_arrow()
    assert table.schema.field("c").type == pa.duration("us")
    assert table["c"].cast(pa.int64()).to_pylist() == [1_000_000, None, 2]

    far = tmp_path / "far"
    far.mkdir()
    write(far, array([1 << 62], pa.duration("s")), array([2], pa.duration("us")))
    with pytest.raises(st.SchemaError, match="0.parquet: column c: "):
        st.scan(far).to_arrow()


def test_unsigned_and_signed_integers_lose_nothing(tmp_path: Path) -> None:
    write(tmp_path, array([(1 << 64) - 1], pa.uint64()), array([-(1 << 63)], pa.int64()))
    assert st.scan(tmp_path).to_arrow()["c"].to_pylist() == [(1 << 64) - 1, -(1 << 63)]
    assert st.scan(tmp_path, filter="c < 0").to_arrow()["c"].to_pylist() == [-(1 << 63)]
    assert st.scan(tmp_path, filter="c > 9223372036854775807").count() == 1


def test_decimals_and_floats_meet_unless_digits_are_lost(tmp_path: Path) -> None:
    price = decimal.Decimal("0.10")
    write(tmp_path, array([price], pa.decimal128(38, 18)), array([0.5], pa.float64()))
    assert st.scan(tmp_path).to_arrow()["c"].to_pylist() == [0.1, 0.5]
    assert st.scan(tmp_path, filter="c < 0.2").count() == 1

    long = tmp_path / "long"
    long.mkdir()
    digits = array([decimal.Decimal("1.2345678901234567891")], pa.decimal128(38, 19))
    write(long, digits, array([0.5], pa.float64()))
    with pytest.raises(st.SchemaError, match="0.parquet: column c: 1.2345678901234567891 cannot be represented exactly as float64"):
        st.scan(long).to_arrow()


def test_nested_fields_that_are_never_null_in_any_file_stay_so(tmp_path: Path) -> None:
    def nested(number: pa.DataType, *more: pa.Field) -> pa.DataType:
        fields = [pa.field("x", number, nullable=False), *more]
        return pa.list_(pa.field("item", pa.struct(fields), nullable=False))

    rows = [[{"x": 1}, {"x": 2}], None, []]
    more = pa.field("y", pa.string(), nullable=False)
    others = [[{"x": 3, "y": "a"}]]
    write(tmp_path, array(rows, nested(pa.int32())), array(others, nested(pa.int64(), more)))
    table = st.scan(tmp_path).to_arrow()
    item = table.schema.field("c").type.value_field
    assert not item.nullable
    assert [(field.name, field.type, field.nullable) for field in item.type] == [
        ("x", pa.int64(), False),
        ("y", pa.string(), True),
    ]
    assert table["c"].to_pylist() == [[{"x": 1, "y": None}, {"x": 2, "y": None}], None, [], *others]


def test_fields_of_structs_are_found_wherever_they_are_in_a_file(tmp_path: Path) -> None:
    shapes = [{"x": 1}, {"y": "b", "x": 2}, {"z": True}, None]
    types = [
        pa.struct({"x": pa.int64()}),
        pa.struct({"y": pa.string(), "x": pa.int64()}),
        pa.struct({"z": pa.bool_()}),
        pa.struct({"y": pa.string()}),
    ]
    write(tmp_path, *(array([shape], data_type) for shape, data_type in zip(shapes, types, strict=True)))
    scan = st.scan(tmp_path, columns=["id", "c.y"], dictionary=False)
    assert scan.to_arrow()["c"].to_pylist() == [{"y": None}, {"y": "b"}, {"y": None}, None]
    for condition, expected in [("c.x >= 2", [1]), ("c.y = 'b'", [1]), ("c.y IS NULL", [0, 2, 3]), ("c.z", [2])]:
        found = st.scan(tmp_path, columns=["id"], filter=condition).to_arrow()["id"].to_pylist()
        assert found == expected, condition


def test_filters_are_right_whatever_type_a_file_has(tmp_path: Path) -> None:
    numbers = [array([1, 2, 3], pa.int64()), array([1.5, 2.5, None], pa.float64()), array([2], pa.uint8())]
    write(tmp_path, *numbers)
    all_values = [value for numbers in numbers for value in numbers.to_pylist()]
    for literal in (0, 1, 1.5, 2, 2.5, 3.5):
        for op, holds in (("=", lambda a, b: a == b), ("<", lambda a, b: a < b), (">=", lambda a, b: a >= b)):
            expected = [float(v) for v in all_values if v is not None and holds(v, literal)]
            found = st.scan(tmp_path, columns=["c"], filter=f"c {op} {literal}").to_arrow()["c"].to_pylist()
            assert found == expected, (op, literal)


def test_a_field_that_a_file_lacks_leaves_lists_and_structs_as_they_are(tmp_path: Path) -> None:
    old = pa.struct({"m": pa.int64(), "l": pa.list_(pa.struct({"b": pa.int64()})), "n": pa.struct({"b": pa.int64()})})
    inner = pa.struct({"b": pa.int64(), "c": pa.int64()})
    new = pa.struct({"m": pa.int64(), "l": pa.list_(inner), "n": inner})
    before = {"m": 1, "l": [{"b": 1}, {"b": 2}], "n": {"b": 3}}
    after = {"m": 2, "l": [{"b": 1, "c": 5}], "n": {"b": 3, "c": 4}}
    write(tmp_path, array([before], old), array([after], new))
    table = st.scan(tmp_path, columns=["c.m", "c.l.c", "c.n.c"]).to_arrow()
    assert table["c"].to_pylist() == [
        {"m": 1, "l": [{"c": None}, {"c": None}], "n": {"c": None}},
        {"m": 2, "l": [{"c": 5}], "n": {"c": 4}},
    ]


def test_bounds_that_a_wider_type_rounds_rule_out_nothing(tmp_path: Path) -> None:
    write(tmp_path, array([(1 << 53) + 3], pa.int64()), array([0.5], pa.float64()))
    with pytest.raises(st.SchemaError, match="cannot be represented exactly as float64"):
        st.scan(tmp_path, filter=f"c <= {(1 << 53) + 3}").to_arrow()


def test_what_paths_and_files_say_meets_or_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x=1").mkdir()
    pq.write_table(pa.table({"n": [0]}), tmp_path / "x=1" / "a.parquet")
    pq.write_table(pa.table({"n": [1, 2], "x": [1.5, 9.9]}), tmp_path / "b.parquet")
    table = st.scan(tmp_path, dictionary=False).to_arrow()
    assert sorted(table["x"].to_pylist()) == [1.0, 1.5, 9.9]
    pq.write_table(pa.table({"n": [1], "x": ["100"]}), tmp_path / "b.parquet")
    with pytest.raises(st.SchemaError, match="column x"):
        st.scan(tmp_path, filter="x = 100").to_arrow()
    assert st.scan(tmp_path, columns=["n"]).to_arrow().num_rows == 2


def test_of_several_files_only_what_all_say_is_kept(tmp_path: Path) -> None:
    for number, said in enumerate(["a", "b"]):
        schema = pa.schema({"x": pa.int64()}, metadata={"same": "1", "other": said})
        pq.write_table(pa.table({"x": [number]}, schema=schema), tmp_path / f"{number}.parquet")
    assert st.scan(tmp_path).to_arrow().schema.metadata == {b"same": b"1"}


@pytest.mark.parametrize("kind", ["ints and floats", "structs that grew", "dates and timestamps", "decimals and ints"])
def test_the_table_is_the_one_that_duckdb_makes_of_the_files(kind: str, tmp_path: Path) -> None:
    write(tmp_path, *WIDENED[kind][:2])
    files = f"read_parquet('{tmp_path}/*.parquet', union_by_name=true)"
    expected = duckdb.sql(f"SELECT c FROM {files} ORDER BY id").fetchall()
    assert [(value,) for value in st.scan(tmp_path, dictionary=False).to_arrow()["c"].to_pylist()] == expected


def test_partitions_have_the_type_of_their_values(tmp_path: Path) -> None:
    days = [dt.date(2024, 5, 1), dt.date(2024, 5, 2)]
    st.write_parquet(pa.table({"day": days, "n": [1, 2]}), tmp_path / "days", partition_by="day")
    for condition in (st.col("day") == days[0], "day < DATE '2024-05-02'", "day = '2024-05-01'"):
        assert st.scan(tmp_path / "days", filter=condition).to_arrow()["n"].to_pylist() == [1]
    assert pl.scan_parquet(tmp_path / "days").filter(pl.col("day") == days[0]).collect()["n"].to_list() == [1]

    st.write_parquet(pa.table({"y": [2023, 2024], "n": [1, 2]}), tmp_path / "years", partition_by="y")
    frame = st.scan(tmp_path / "years", dictionary=False).to_pandas()
    assert ((frame["y"] >= 2024).sum(), frame["y"].sum()) == (1, 4047)

    for name in ("at=2024-05-01 10%3A00%3A00", "at=2024-05-01 10%3A00%3A00.5"):
        (tmp_path / "times" / name).mkdir(parents=True)
        pq.write_table(pa.table({"n": [1]}), tmp_path / "times" / name / "a.parquet")
    moments = st.scan(tmp_path / "times", dictionary=False).to_arrow()["at"]
    assert moments.type == pa.timestamp("us")
    assert sorted(moments.to_pylist()) == [dt.datetime(2024, 5, 1, 10), dt.datetime(2024, 5, 1, 10, 0, 0, 500_000)]


KEYS = {
    "bool": (pa.array([True, False]), pa.bool_()),
    **{
        f"{sign}int{bits}": (pa.array([low, high], getattr(pa, f"{sign}int{bits}")()), None)
        for bits in (8, 16, 32, 64)
        for sign, low, high in (("", -(1 << bits - 1), (1 << bits - 1) - 1), ("u", 0, (1 << bits) - 1))
    },
    "text": (pa.array(["São Paulo", "a/b=c"]), None),
    "coded": (pa.array(["01", "2"]).dictionary_encode(), None),
    "date32": (pa.array([dt.date(1, 1, 1), dt.date(2024, 2, 29)]), None),
    "date64": (pa.array([dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date64()), None),
    **{
        f"{unit} {zone}": (pa.array([-1, 1_714_564_800 * per + 1], pa.timestamp(unit, zone)), None)
        for unit, per in (("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000))
        for zone in (None, "UTC", "Europe/Oslo", "Europe/Amsterdam", "-03:30")
    },
    "before 1895": (pa.array([-(1 << 32), 1 - (1 << 32)], pa.timestamp("s", "Europe/Amsterdam")), None),
    "after 9999": (pa.array([253_402_300_800, 0], pa.timestamp("s")), None),
    "decimal": (pa.array([decimal.Decimal("1.50"), decimal.Decimal("-0.01")]), pa.decimal128(3, 2)),
    "whole decimal": (pa.array([decimal.Decimal(15), decimal.Decimal(-1)], pa.decimal128(5, 0)), None),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_come_back_from_folders(kind: str, tmp_path: Path) -> None:
    keys, given = KEYS[kind]
    # Nulls have a folder of their own.
    keys = pa.concat_arrays([keys, pa.nulls(1, keys.type)])
    table = pa.table({"n": range(len(keys)), "k": keys})
    options: dict[str, Any] = {} if given is None else {"partitioning": {"k": given}}
    for save in (st.write_parquet, st.write_orc):
        folder = tmp_path / save.__name__
        save(table, folder, partition_by="k")
        found = st.scan(folder, dictionary=False, **options).to_arrow().sort_by("n")["k"].combine_chunks()
        if pa.types.is_timestamp(keys.type):
            unit = "ns" if keys.type.unit == "ns" else "us"
            assert found.type == pa.timestamp(unit, keys.type.tz and "UTC")
            assert found.cast(keys.type).equals(keys)
        else:
            assert found.to_pylist() == keys.to_pylist()


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (["2024-05-01T12%3A00%3A00", "2024-05-01 12%3A00%3A00.5"], pa.timestamp("us")),
        (["2024-05-02", "2024-05-01 12%3A00%3A00"], pa.timestamp("us")),
        (["2024-05-01T12%3A00%3A00.000000001", "2024-05-02"], pa.timestamp("ns")),
        (["2024-05-01T12%3A00%3A00Z", "2024-05-01T12%3A00%3A00%2B02%3A00"], pa.timestamp("us", "UTC")),
        (["2024-05-01T12%3A00%3A00Z", "2024-05-01T12%3A00%3A00"], pa.string()),
        (["2024-05-01T12%3A00%3A00Z", "2024-05-02"], pa.string()),
    ],
)
def test_timestamps_of_folders_are_alike_in_zone(folders: list[str], expected: pa.DataType, tmp_path: Path) -> None:
    for folder in folders:
        (tmp_path / f"at={folder}").mkdir()
        pq.write_table(pa.table({"n": [1]}), tmp_path / f"at={folder}" / "a.parquet")
    assert st.scan(tmp_path, dictionary=False).schema.field("at").type == expected


def test_a_timestamp_that_was_written_is_found_by_a_filter(tmp_path: Path) -> None:
    moments = [dt.datetime(2024, 5, 1, 12), dt.datetime(2024, 5, 1, 13)]
    st.write_parquet(pa.table({"ts": moments, "n": [1, 2]}), tmp_path, partition_by="ts")
    assert st.scan(tmp_path, filter=st.col("ts") == moments[0]).to_arrow()["n"].to_pylist() == [1]
    assert st.scan(tmp_path, filter="ts > TIMESTAMP '2024-05-01 12:00:00'").to_arrow()["n"].to_pylist() == [2]


@pytest.fixture
def months(tmp_path: Path) -> Path:
    """Files whose column `n` is the number of their month, which is null for one of them."""
    null = "__HIVE_DEFAULT_PARTITION__"
    for month, day in (("01", "2024-5-1"), ("02", "2024-05-02"), ("10", "2024-05-03"), (null, "2024-05-04")):
        folder = tmp_path / "y=2024" / f"m={month}" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [0 if month == null else int(month)]}), folder / "a.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("m = 1", [1]),
        ("m != 1", [2, 10]),
        ("m < 2", [1]),
        ("m <= 2", [1, 2]),
        ("m > 2", [10]),
        ("m >= 1.5", [2, 10]),
        ("m IN (1, 10, 99)", [1, 10]),
        ("m NOT IN (1, 10)", [2]),
        ("m BETWEEN 2 AND 11", [2, 10]),
        ("NOT (m = 99)", [1, 2, 10]),
        ("m = 99", []),
        ("m = '01'", [1]),
        ("y = 2024 AND m = 1", [1]),
        ("day = DATE '2024-05-01' OR m = 2", [1, 2]),
        (st.col("m") == 10, [10]),
        (st.col("m").is_in([1, 2]), [1, 2]),
    ],
)
def test_folders_with_leading_zeros_are_compared_with_numbers(
    condition: Any, expected: list[int], months: Path
) -> None:
    """`m=01` is text, since a number would lose the zero. A null is neither."""
    scan = st.scan(months, filter=condition, dictionary=False)
    assert scan.schema.field("m").type == pa.string()
    assert sorted(scan.to_arrow()["n"].to_pylist()) == expected


def test_texts_of_folders_that_are_no_numbers_are_not_compared_with_numbers(months: Path) -> None:
    with pytest.raises(st.FilterError, match="column m"):
        st.scan(months, filter="m = 1", partitioning={"m": "string"})
    (months / "y=2024" / "m=May").mkdir()
    pq.write_table(pa.table({"n": [5]}), months / "y=2024" / "m=May" / "a.parquet")
    with pytest.raises(st.FilterError, match="column m"):
        st.scan(months, filter="m = 1")


def test_a_path_wins_over_a_column_of_the_same_name(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"n": [year], "year": ["other"]}), tmp_path / f"year={year}" / "a.parquet")
    table = st.scan(tmp_path, dictionary=False).to_arrow()
    assert table["year"].to_pylist() == [2023, 2024]
    assert st.scan(tmp_path, filter="year = 2024").to_arrow()["n"].to_pylist() == [2024]


@pytest.mark.parametrize(
    "condition", ["x = 0.1", "x = 1e-1", "x IN (0.1)", st.col("x") == 0.1, st.col("x").is_in([0.1])]
)
def test_a_float32_is_found_by_the_number_that_was_written(condition: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([0.1, 0.2], pa.float32())}), tmp_path / "f.parquet")
    assert st.scan(tmp_path / "f.parquet", filter=condition).count() == 1


def test_a_scan_keeps_what_a_schema_says_of_its_columns(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("x", pa.int64(), metadata={"unit": "m"})], metadata={"geo": "{}"})
    pq.write_table(pa.table({"x": [1]}, schema=schema), tmp_path / "a.parquet")
    read = st.scan(tmp_path / "a.parquet").to_arrow().schema
    assert read.metadata[b"geo"] == b"{}"
    assert read.field("x").metadata[b"unit"] == b"m"


def test_texts_of_an_extension_type_come_out_as_dictionaries_or_as_that_type(tmp_path: Path) -> None:
    table = pa.table({"j": pa.array(['{"a":1}', '{"a":2}'] * 500, pa.json_())})
    pq.write_table(table, tmp_path / "j.parquet")
    assert st.scan(tmp_path / "j.parquet", dictionary=False).to_arrow()["j"].type == pa.json_()
    coded = st.scan(tmp_path / "j.parquet", dictionary=True)
    assert coded.schema.field("j").type.value_type == pa.string()
    assert coded.to_pandas().shape == (1000, 1)


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("kind", ["us", "ms", "s", "date"])
def test_timestamps_reach_as_far_as_the_farthest_file(tmp_path: Path, zone: str | None, kind: str) -> None:
    """Nanoseconds end in 2262: later timestamps have the unit of their file."""
    if kind == "date" and zone is not None:
        return
    far = dt.datetime(9999, 1, 1)
    type = pa.date32() if kind == "date" else pa.timestamp(kind, zone)
    near_times = pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("ns", zone))
    far_times = pa.array([far.date() if kind == "date" else far, None], type)
    pq.write_table(pa.table({"id": [1, 2], "t": near_times}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"id": [3, 4], "t": far_times}), tmp_path / "1.parquet")
    for cache in (st.Cache(memory="64MiB"), st.Cache(memory="0B")):
        table = st.scan(tmp_path, cache=cache).to_arrow()
        assert table.schema.field("t").type == pa.timestamp({"date": "us", "s": "ms"}.get(kind, kind), zone)
        assert [time and time.year for time in table["t"].to_pylist()] == [2024, None, 9999, None]
        found = st.scan(tmp_path, filter="t > DATE '2100-01-01'", columns=["id"], cache=cache).to_arrow()
        assert found["id"].to_pylist() == [3]
    # If all fit, nanoseconds are kept.
    near_type = pa.timestamp("us", zone)
    pq.write_table(pa.table({"id": [3], "t": near_times.cast(near_type)[:1]}), tmp_path / "1.parquet")
    assert st.scan(tmp_path).to_arrow().schema.field("t").type == pa.timestamp("ns", zone)
