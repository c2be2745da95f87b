"""Filters built from columns: operators, literals of every type, and their printed form."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import operator
import pickle
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import stylobate as st
from stylobate.filters import from_tuples

UTC = dt.timezone.utc
OSLO = ZoneInfo("Europe/Oslo")
NOON = dt.datetime(2024, 5, 1, 12, 0, 0, 250_000)

a, b = st.col("a"), st.col("b")


def test_operators_make_sql() -> None:
    assert repr(a) == "a"
    assert repr(a == 1) == "a = 1"
    assert repr(a != "x") == "a <> 'x'"
    assert repr((a < 1) & (b <= 2) & (a > 3)) == "a < 1 AND b <= 2 AND a > 3"
    assert repr((a >= 1) & ((b == 2) | (b == 3))) == "a >= 1 AND (b = 2 OR b = 3)"
    assert repr(a < b) == "a < b"
    assert repr(a.is_in([1, 2])) == "a IN (1, 2)"
    assert repr(~a.is_in([1])) == "NOT a IN (1)"
    assert repr((a + b) * 2 > 3) == "(a + b) * 2 > 3"
    assert repr(1 - a / 2 <= -b % 3) == "1 - a / 2 <= (0 - b) % 3"
    assert repr(a.lower() == "x") == "lower(a) = 'x'"
    assert repr(a.upper().like("X%")) == "upper(a) LIKE 'X%'"
    assert repr(abs(a) > 1) == repr(a.abs() > 1) == "abs(a) > 1"
    assert repr(a.year().is_in([2023, 2024])) == "year(a) IN (2023, 2024)"
    assert repr((a.month() == 2) & (a.day() == 29)) == "month(a) = 2 AND day(a) = 29"
    assert repr(a.is_nan()) == "isnan(a)"
    assert repr(a.ends_with("5%")) == "a LIKE '%5\\%'"
    assert repr(np.float32(0.5) * a > decimal.Decimal("0.5")) == "5e-1 * a > 0.5"


def test_reversed_comparisons_turn_around() -> None:
    assert repr(1 < a) == "a > 1"
    assert repr(1 >= a) == "a <= 1"
    assert repr(1 == a) == "a = 1"
    assert repr(np.int64(1) < a) == "a > 1"
    assert repr(np.datetime64("2024-05-01") >= a) == repr(a <= dt.date(2024, 5, 1))
    assert repr(decimal.Decimal("1.50") != a) == "a <> 1.50"
    assert repr(dt.date(2024, 5, 1) < a) == repr(a > dt.date(2024, 5, 1))
    assert repr(pd.Timestamp(NOON) < a) == repr(a > NOON)


def test_what_is_printed_is_read_back_as_the_same() -> None:
    odd = "it's 100%_\\\n☃"
    literals = [
        1,
        -(2**127),
        2**127 - 1,
        1.5,
        -1e300,
        0.1,
        odd,
        b"\x00\xff",
        True,
        decimal.Decimal("-1.05"),
    ]
    for value in [
        *literals,
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
        NOON,
        NOON.replace(tzinfo=OSLO),
        dt.time(1, 2, 3, 4),
    ]:
        shown = repr(a == value)
        assert repr(st.Expr.parse(shown)) == shown
    for expr in [
        a.like(odd),
        a.ilike("x"),
        a.starts_with(odd),
        a.contains(odd),
        a.is_null(),
        a.is_not_null(),
        a < b,
        a.ends_with(odd),
        a.is_nan(),
        a.eq_missing(None),
        a.eq_missing(1),
        a.ne_missing(b),
        a.lower() == odd,
        (a + 1) * b / 2.5 % -3 < abs(-a),
        a.year().between(2000, 2024),
    ]:
        assert repr(st.Expr.parse(repr(expr))) == repr(expr)
        assert repr(pickle.loads(pickle.dumps(expr))) == repr(expr)
    for column in (a, st.col("odd name"), a + b * 2, a.lower()):
        again = pickle.loads(pickle.dumps(column))
        assert repr(again) == repr(column) == repr(copy.deepcopy(column))
        assert repr(again == 1) == repr(column == 1)


def test_an_expression_has_no_truth_and_says_what_to_write() -> None:
    for use in (
        lambda: bool(a < 1),
        lambda: (a < 1) and (b < 2),
        lambda: 1 < a < 2,
        lambda: a in [1, 2],
        lambda: not a,
    ):
        with pytest.raises(TypeError, match="use|write &"):
            use()
    with pytest.raises(TypeError, match="parentheses"):
        a < 1 & b  # noqa: B015
    with pytest.raises(TypeError, match="parentheses"):
        (a < 1) & 3
    with pytest.raises(TypeError):
        hash(a)


def test_what_no_column_can_be_compared_with_is_a_type_error() -> None:
    for value in (object(), {}, [1], np.timedelta64(1, "M"), np.timedelta64(1), 1j):
        with pytest.raises(TypeError, match="cannot be compared"):
            a == value  # noqa: B015
    with pytest.raises(TypeError, match=r"is_in\(\[…\]\)"):
        a.is_in("text")


def test_numbers_that_no_column_can_hold_are_filter_errors() -> None:
    for value in (
        2**127,
        -(2**127) - 1,
        decimal.Decimal("NaN"),
        decimal.Decimal("1e39"),
        decimal.Decimal(10) ** -300,
    ):
        with pytest.raises(st.FilterError):
            a == value  # noqa: B015


ROWS = {
    "i": (pa.int64(), [1, 2, 3, None]),
    "u": (pa.uint8(), [1, 2, 255, None]),
    "f": (pa.float64(), [0.5, 2.0, 3.25, None]),
    "f32": (pa.float32(), [0.5, 0.1, 3.25, None]),
    "s": (pa.string(), ["x", "y's", "zæ", None]),
    "raw": (pa.binary(), [b"\x00", b"ab", b"\xff", None]),
    "flag": (pa.bool_(), [True, False, True, None]),
    "dec": (pa.decimal128(20, 3), [decimal.Decimal(x) for x in ("1.000", "2.125", "-3.5")] + [None]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 5, 1), dt.date(2024, 5, 2), None]),
    "at": (pa.timestamp("us"), [NOON, NOON + dt.timedelta(hours=1), dt.datetime(1960, 1, 1), None]),
    "utc": (
        pa.timestamp("ns", "UTC"),
        [
            NOON.replace(tzinfo=UTC),
            (NOON + dt.timedelta(hours=1)).replace(tzinfo=UTC),
            dt.datetime(1960, 1, 1, tzinfo=UTC),
            None,
        ],
    ),
    "clock": (pa.time64("us"), [dt.time(0), dt.time(12, 30, 0, 5), dt.time(23, 59, 59), None]),
    "span": (pa.duration("us"), [dt.timedelta(hours=1), dt.timedelta(0), dt.timedelta(-1, 5, 7), None]),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with four rows of every type that literals have."""
    path = tmp_path_factory.mktemp("typed") / "typed.parquet"
    columns = {name: pa.array(values, kind) for name, (kind, values) in ROWS.items()}
    pq.write_table(pa.table({"row": [0, 1, 2, 3], **columns}), path)
    return path


COMPARED: list[tuple[str, Any, list[int]]] = [
    ("i", 2, [1]),
    ("i", 2.0, [1]),
    ("i", decimal.Decimal("2.0"), [1]),
    ("i", 2.5, []),
    ("i", 10**30, []),
    ("i", np.int8(2), [1]),
    ("i", np.uint64(2), [1]),
    ("i", np.float32(2), [1]),
    ("i", True, None),
    ("u", 255, [2]),
    ("u", -1, []),
    ("u", 256, []),
    ("f", 2, [1]),
    ("f", 3.25, [2]),
    ("f", np.float64(0.5), [0]),
    ("f", decimal.Decimal("0.5"), [0]),
    ("f32", 0.5, [0]),
    ("f32", np.float32(0.1), [1]),
    ("s", "y's", [1]),
    ("s", "zæ", [2]),
    ("s", np.str_("x"), [0]),
    ("raw", b"ab", [1]),
    ("raw", bytearray(b"\xff"), [2]),
    ("raw", memoryview(b"\x00"), [0]),
    ("flag", True, [0, 2]),
    ("flag", np.bool_(False), [1]),
    ("dec", decimal.Decimal("2.125"), [1]),
    ("dec", 1, [0]),
    ("dec", decimal.Decimal("2.1250"), [1]),
    ("dec", -3.5, [2]),
    ("day", dt.date(2024, 5, 1), [1]),
    ("day", "2024-05-02", [2]),
    ("day", np.datetime64("1969-12-31"), [0]),
    ("at", NOON, [0]),
    ("at", pd.Timestamp(NOON), [0]),
    ("at", np.datetime64(NOON, "ns"), [0]),
    ("at", dt.datetime(1960, 1, 1), [2]),
    ("at", pa.scalar(NOON), [0]),
    ("utc", NOON.replace(tzinfo=UTC), [0]),
    ("utc", NOON.replace(hour=14, tzinfo=OSLO), [0]),
    ("utc", NOON, [0]),
    ("utc", pd.Timestamp(NOON, tz="UTC"), [0]),
    ("clock", dt.time(12, 30, 0, 5), [1]),
    ("clock", dt.time(14, 30, 0, 5, dt.timezone(dt.timedelta(hours=2))), [1]),
    ("span", dt.timedelta(minutes=60), [0]),
    ("span", dt.timedelta(-1, 5, 7), [2]),
    ("span", dt.timedelta.max, []),
    ("span", pd.Timedelta(0), [1]),
    ("span", pd.Timedelta(1, "ns"), []),
    ("span", np.timedelta64(3_600, "s"), [0]),
    ("span", np.timedelta64(3_600_000_000_000, "ns"), [0]),
    ("span", pa.scalar(dt.timedelta(hours=1)), [0]),
    ("span", 3_600_000_000, None),
    ("i", dt.timedelta(0), None),
]


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    COMPARED,
    # The address of a memoryview differs between processes.
    ids=[f"{c} = {'memoryview' if isinstance(v, memoryview) else repr(v)}" for c, v, _ in COMPARED],
)
def test_a_literal_is_equal_to_the_values_it_stands_for(
    typed: Path, column: str, value: Any, wanted: Any
) -> None:
    filter = st.col(column) == value
    if wanted is None:
        with pytest.raises(st.FilterError):
            st.scan(typed, filter=filter).count()
        return
    assert st.scan(typed, columns=["row"], filter=filter).to_arrow()["row"].to_pylist() == wanted
    others = [row for row in (0, 1, 2) if row not in wanted]
    negated = st.scan(typed, columns=["row"], filter=~filter).to_arrow()["row"].to_pylist()
    assert negated == others, "a null is neither equal nor not equal"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_compared_with_timedeltas_and_intervals(unit: str, tmp_path: Path) -> None:
    spans = [dt.timedelta(seconds=seconds) for seconds in (-90, 0, 90, 3_600, 86_400)] + [None]
    pq.write_table(pa.table({"d": pa.array(spans, pa.duration(unit))}), tmp_path / "d.parquet", row_group_size=2)
    d = st.col("d")
    for filter, wanted in (
        (d > dt.timedelta(minutes=1), spans[2:5]),
        (d <= dt.timedelta(microseconds=1), spans[:2]),
        (d.between(dt.timedelta(0), dt.timedelta(hours=1)), spans[1:4]),
        (d.is_in([dt.timedelta(days=1), np.timedelta64(90, "s")]), [spans[2], spans[4]]),
        ("d > INTERVAL '1' MINUTE", spans[2:5]),
        ("d = INTERVAL '90 seconds' OR d = INTERVAL '1' DAY", [spans[2], spans[4]]),
        ("d < INTERVAL '1' MILLISECOND AND d > INTERVAL '-90000001' MICROSECOND", spans[:2]),
        ("d >= d AND d <> INTERVAL '1' HOUR", [*spans[:3], spans[4]]),
    ):
        assert st.scan(tmp_path / "d.parquet", filter=filter).to_arrow()["d"].to_pylist() == wanted, filter
        if not isinstance(filter, str):
            assert repr(st.Expr.parse(repr(filter))) == repr(filter)
    for wrong in ("d > 90", "d > '90'", "d > INTERVAL '1' MONTH", "d > DATE '2024-01-01'"):
        with pytest.raises(st.FilterError):
            st.scan(tmp_path / "d.parquet", filter=wrong)


def test_a_negated_float32_is_compared_as_float32(typed: Path) -> None:
    f32 = st.col("f32")
    for filter in (-f32 == -0.1, "-f32 = -0.1", "f32 = 0.1", "abs(-f32) = 0.1"):
        assert st.scan(typed, columns=["row"], filter=filter).to_arrow()["row"].to_pylist() == [1], filter
    assert st.scan(typed, filter="f32 * 1 = 0.1").count() == 0, "arithmetic is in 64 bits"


def test_none_is_compared_by_is_null(typed: Path) -> None:
    for value in (None, pd.NaT, pa.scalar(None, pa.int64())):
        for compare in (operator.eq, operator.ne, operator.lt, operator.ge):
            with pytest.raises(st.FilterError, match=r"\.is_null\(\) or \.is_not_null\(\)"):
                compare(a, value)
    with pytest.raises(st.FilterError, match="is_null"):
        a.between(1, None)
    assert st.scan(typed, filter="i = NULL").count() == 0, "SQL is what it is"
    for column in ROWS:
        assert st.scan(typed, filter=st.col(column).eq_missing(None)).count() == 1
        assert st.scan(typed, filter=st.col(column).ne_missing(None)).count() == 3
        assert st.scan(typed, filter=st.col(column).is_null()).count() == 1
        assert st.scan(typed, filter=st.col(column).is_not_null()).count() == 3


def test_eq_missing_is_never_unknown(typed: Path) -> None:
    i = st.col("i")
    for filter, wanted in (
        (i.eq_missing(1), [0]),
        (i.ne_missing(1), [1, 2, 3]),
        (~i.eq_missing(1), [1, 2, 3]),
        (i.eq_missing(st.col("u")), [0, 1, 3]),
        (i.ne_missing(st.col("u")), [2]),
        ((i + 1).eq_missing(2), [0]),
        ("i IS NOT DISTINCT FROM u", [0, 1, 3]),
    ):
        found = st.scan(typed, columns=["row"], filter=filter).to_arrow()["row"].to_pylist()
        assert found == wanted, filter


def test_what_is_computed_has_no_name_and_a_bounded_size() -> None:
    with pytest.raises(TypeError, match="only columns have a name"):
        (a + 1).name  # noqa: B018
    for value in ("x", b"x", True, dt.date(2024, 1, 1), None):
        with pytest.raises(TypeError, match="is computed with numbers and columns"):
            a + value
    with pytest.raises(TypeError, match="cannot be compared with"):
        a + object()
    grown = a
    with pytest.raises(st.FilterError, match="more than 256"):
        for _ in range(1_000):
            grown = grown + 1
    with pytest.raises(st.FilterError, match="more than 256"):
        for _ in range(64):
            grown = grown + grown
    assert repr(st.Column.parse("(a + b) * 2")) == "(a + b) * 2"
    for wrong in ("a < 1", "1", "a b", "a +", ""):
        with pytest.raises(st.FilterError):
            st.Column.parse(wrong)


def test_is_in_takes_whatever_has_values(typed: Path) -> None:
    for values in (
        [1, 3],
        (1, 3),
        {1, 3},
        np.array([1, 3]),
        pa.array([1, 3]),
        pd.Series([1, 3]),
        iter([1, 3, None]),
    ):
        assert st.scan(typed, columns=["i"], filter=st.col("i").is_in(values)).to_arrow()[
            "i"
        ].to_pylist() == [1, 3]
    assert st.scan(typed, filter=st.col("i").is_in([])).count() == 0


def test_a_column_of_booleans_is_a_condition(typed: Path) -> None:
    flag = st.col("flag")
    assert st.scan(typed, filter=flag).count() == 2
    assert st.scan(typed, filter=~flag).count() == 1
    assert st.scan(typed, filter=flag & (st.col("i") > 1)).count() == 1
    assert st.scan(typed, filter=(st.col("i") == 2) | flag).count() == 3


def test_a_naive_time_with_a_zone_of_no_fixed_offset_is_refused() -> None:
    with pytest.raises(st.FilterError, match="offset"):
        a == dt.time(1, tzinfo=OSLO)  # noqa: B015


FORMS: list[tuple[Any, str]] = [
    ([("a", "=", 1)], "a = 1"),
    ([("a", "==", 1), ("b", "!=", "x")], "a = 1 AND b <> 'x'"),
    ([[("a", "<", 1)], [("a", ">=", 2), ("b", "<=", 3)]], "a < 1 OR (a >= 2 AND b <= 3)"),
    ((("a", ">", 1), ["b", "in", {2}]), "a > 1 AND b IN (2)"),
    ([[("a", "not in", [1, 2])]], "NOT a IN (1, 2)"),
    ([(a, "=", dt.date(2024, 5, 1))], "a = DATE '2024-05-01'"),
]


@pytest.mark.parametrize(("filters", "sql"), FORMS)
def test_filters_of_tuples_are_those_of_pyarrow(filters: Any, sql: str) -> None:
    assert repr(from_tuples(filters)) == sql


def test_filters_of_tuples_keep_the_rows_that_pyarrow_keeps(typed: Path) -> None:
    for filters in (
        [("i", ">", 1)],
        [("i", "in", [1, 3]), ("f", "<", 3)],
        [[("s", "=", "x")], [("u", ">=", 255), ("flag", "!=", False)]],
        [("day", "<", dt.date(2024, 5, 2))],
        [("i", "not in", [1])],
    ):
        expected = pq.read_table(typed, filters=filters, columns=["row"]).to_pydict()
        if "not in" in str(filters):
            expected = {"row": [1, 2]}  # pyarrow finds the null not in the list; SQL does not
        assert st.scan(typed, filters=filters, columns=["row"]).to_arrow().to_pydict() == expected
    assert repr(st.scan(typed, filters=[("i", ">", 1)])).endswith("filter=i > 1)")


def test_filters_of_another_form_are_refused(typed: Path) -> None:
    for filters in ([], [[]], [("a", "like", 1)], [("a", "=")], ["a = 1"], [[("a", "=", 1)], []]):
        with pytest.raises(st.FilterError, match="^filters: "):
            st.scan(typed, filters=filters)
    with pytest.raises(TypeError, match="as filter"):
        st.scan(typed, filters="i > 1")
    for filters in (pc.field("i") == 1, 5, {"i": 1}):
        with pytest.raises(TypeError, match=r"^filters: give a list of .* or filter=st.col\("):
            st.scan(typed, filters=filters)
    with pytest.raises(ValueError, match="filter or filters"):
        st.scan(typed, filter="i > 1", filters=[("i", ">", 1)])
