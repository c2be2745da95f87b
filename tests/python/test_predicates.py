"""Random filters keep the rows that pyarrow keeps, whatever the file's statistics.

Each is built three times: with `stylobate.col`, as SQL, and as a pyarrow expression.

pyarrow's expression is evaluated on the table in memory, not by `pyarrow.dataset` on the file. These differ for NaN,
for which every comparison is false except `<>`: a dataset skips row groups by bounds that exclude NaN, and so loses the
rows with NaN that match `NOT (a < 5)`.

Columns, filters and checks are in one file: each kind of filter applies to some columns only.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import math
import operator
import pickle
import random
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle
from matrix import Case, first_seeds, null_mask, orc_options, parquet_options, read_parquet
from test_matrix import column_differs

PARQUET_FILES = 280
ORC_FILES = 120
BLOCK = 20
LARGE_FILES = 40
LARGE_BLOCK = 5
PREDICATES = 8
SMALL_ROWS = [1, 50, 400, 1_500, 3_000]
NOISE = 48
TOLD = 5
# Result types of strings and bytes: as written, dictionaries or views.
MODES: list[dict[str, Any]] = [
    *[{"dictionary": mode} for mode in (None, "auto", "stored", True, False)],
    *[{"dictionary": mode, "strings": "view"} for mode in (None, False)],
]

WORDS = [
    *["", "a", "air", "AIR", "airmail", "mail", "rail", "100%", "a_b", "back\\slash"],
    *["Ålesund", "日本語", "it's"],
]
EPOCH = dt.datetime(2024, 2, 28)
UTC = dt.timezone.utc
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0]


@dataclass(frozen=True)
class Filter:
    """The same condition for Stylobate, as SQL and for pyarrow."""

    ours: Any
    sql: str
    theirs: pc.Expression

    def negated(self, sql: Callable[[str], str]) -> Filter:
        """Returns the negation: true where this is false, but not where it is unknown."""
        return Filter(~self.ours, sql(self.sql), ~self.theirs)


def joined(word: str, parts: list[Filter]) -> Filter:
    """Joins filters with AND or OR."""
    join = {"AND": operator.and_, "OR": operator.or_}[word]
    ours, theirs = reduce(join, [part.ours for part in parts]), reduce(join, [part.theirs for part in parts])
    return Filter(ours, f" {word} ".join(f"({part.sql})" for part in parts), theirs)


# Tables.

# Each column: its type, and a generator of values; values are near each other, so that literals hit them.
COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "small": (pa.int16(), lambda rng: rng.randint(-20, 20)),
    "count": (pa.int32(), lambda rng: rng.choice([rng.randint(-100, 100), -(2**31), 2**31 - 1])),
    "total": (pa.int64(), lambda rng: rng.choice([rng.randint(-100, 100), -(2**63), 2**63 - 1])),
    "byte": (pa.uint8(), lambda rng: rng.randint(0, 255)),
    "huge": (pa.uint64(), lambda rng: rng.choice([rng.randint(0, 50), 2**64 - 1 - rng.randint(0, 50)])),
    "ratio": (pa.float32(), lambda rng: rng.choice([rng.randint(-20, 20) / 8, 0.1, rng.choice(SPECIAL)])),
    "fare": (pa.float64(), lambda rng: rng.choice([rng.randint(-20, 20) / 10, rng.choice(SPECIAL), 1e300])),
    "plain": (pa.float64(), lambda rng: rng.randint(-40, 40) / 10),
    "price": (pa.decimal128(12, 2), lambda rng: decimal.Decimal(rng.randint(-2_000, 2_000)) / 100),
    "exact": (pa.decimal128(38, 4), lambda rng: decimal.Decimal(rng.randint(-(10**30), 10**30)).scaleb(-4)),
    "mode": (pa.string(), lambda rng: rng.choice(WORDS)),
    "comment": (
        pa.large_string(),
        lambda rng: f"{rng.choice(WORDS)} {rng.choice(WORDS)}{rng.randint(0, 99)}",
    ),
    "raw": (pa.binary(), lambda rng: bytes(rng.choices([0, 1, 97, 255], k=rng.randint(0, 3)))),
    "fixed": (pa.binary(2), lambda rng: bytes(rng.choices([0, 97, 127, 128, 255], k=2))),
    "flag": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "day": (pa.date32(), lambda rng: EPOCH.date() + dt.timedelta(days=rng.randint(-30_000, 60))),
    "until": (pa.date32(), lambda rng: EPOCH.date() + dt.timedelta(days=rng.randint(-60, 60))),
    "at": (pa.timestamp("us"), lambda rng: EPOCH + dt.timedelta(microseconds=rng.randint(-100, 100))),
    "second": (
        pa.timestamp("ms"),
        lambda rng: dt.datetime(1970, 1, 1) + dt.timedelta(0, rng.randint(-50, 50)),
    ),
    "utc": (
        pa.timestamp("us", "UTC"),
        lambda rng: EPOCH.replace(tzinfo=UTC) + dt.timedelta(rng.randint(-9, 9)),
    ),
    "clock": (
        pa.time64("us"),
        lambda rng: dt.time(rng.randint(0, 23), rng.randint(0, 59), 1, rng.randint(0, 2)),
    ),
}
NOT_IN_ORC = ["byte", "huge", "clock"]
# Columns that pyarrow compares with each other without loss.
PAIRS = [
    *[("small", "count"), ("count", "total"), ("ratio", "fare"), ("plain", "fare")],
    *[("mode", "place.city"), ("day", "until")],
]


def values(rng: random.Random, column: str, rows: int) -> list[Any]:
    """Returns values of a column; few or many, sorted so that bounds are selective, or in runs."""
    make = COLUMNS[column][1]
    made = [make(rng) for _ in range(rng.choice([1, 5, 40, 400, min(rows, 20_000)]))]
    made = rng.choices(made, k=rows)
    order = rng.randrange(4)
    if order == 0:
        return made
    if order == 1:
        # NaN is unordered, so this leaves it in place.
        return sorted(made)
    runs = rng.choice([10, 100, max(1, rows // 50)])
    return [made[row // runs] for row in range(rows)]


def table(rng: random.Random, names: list[str], rows: int) -> pa.Table:
    """Returns numbered rows of some columns, with nulls."""
    columns: dict[str, pa.Array] = {"row": pa.array(range(rows), pa.int64())}
    for name in names:
        columns[name] = pa.array(values(rng, name, rows), COLUMNS[name][0], mask=null_mask(rng, rows))
    city = pa.array(values(rng, "mode", rows), pa.string(), mask=null_mask(rng, rows))
    code = pa.array(values(rng, "count", rows), pa.int32(), mask=null_mask(rng, rows))
    places, mask = pa.struct([("city", pa.string()), ("code", pa.int32())]), null_mask(rng, rows)
    mask = None if mask is None else pa.array(mask)
    columns["place"] = pa.StructArray.from_arrays([city, code], fields=list(places), mask=mask)
    lists = [None, [], ["air"], ["mail", None], ["Ålesund", "rail"]]
    columns["tags"] = pa.array(rng.choices(lists, k=rows), pa.list_(pa.string()))
    # A name that SQL must quote.
    columns["group by"] = pa.array(values(rng, "small", rows), pa.int16(), mask=null_mask(rng, rows))
    if rows > max(SMALL_ROWS):
        # Incompressible bytes: single pages are read only if that saves a megabyte.
        noise = pa.py_buffer(rng.randbytes(NOISE * rows))
        columns["noise"] = pa.Array.from_buffers(pa.binary(NOISE), rows, [None, noise])
    return pa.table(columns)


# Filters.


class Maker:
    """Generates filters for a table: literals are values of its columns, or close to them."""

    def __init__(self, rng: random.Random, data: pa.Table) -> None:
        self.rng = rng
        self.data = data
        leaves = {name: data.column(name).combine_chunks() for name in data.column_names}
        place = leaves["place"]
        leaves |= {"place.city": pc.struct_field(place, "city"), "place.code": pc.struct_field(place, "code")}
        self.leaves = leaves

    def filter(self, depth: int) -> Filter:
        """Returns a filter with at most `depth` levels of AND, OR and NOT."""
        kind = self.rng.random()
        if depth == 0 or kind < 0.3:
            return self.leaf(self.rng.choice(list(self.leaves)))
        if kind < 0.5:
            return self.filter(depth - 1).negated(lambda sql: f"NOT ({sql})")
        parts = [self.filter(depth - 1) for _ in range(self.rng.choice([2, 2, 3]))]
        return joined(self.rng.choice(["AND", "OR"]), parts)

    def narrow(self) -> Filter:
        """Returns a filter that matches only rows in one or two places, with or without another condition."""
        start = self.rng.randrange(self.data.num_rows)
        low, high = pa.scalar(start), pa.scalar(start + self.rng.choice([0, 10, 3_000]))
        made = Filter(
            st.col("row").between(low.as_py(), high.as_py()),
            f"row BETWEEN {low} AND {high}",
            (field("row") >= low) & (field("row") <= high),
        )
        kind = self.rng.randrange(3)
        if kind == 0:
            return made
        return joined("OR", [made, self.narrow()]) if kind == 1 else joined("AND", [made, self.filter(1)])

    def leaf(self, name: str) -> Filter:
        """Returns a condition on one column, or on two."""
        type_ = self.leaves[name].type
        kinds = [self.is_null]
        if not pa.types.is_nested(type_):
            kinds += [self.compare, self.compare, self.compare, self.between, self.is_in]
        if pa.types.is_string(type_) or pa.types.is_large_string(type_):
            kinds += [self.like, self.like, self.starts_with, self.contains]
        if pa.types.is_boolean(type_):
            kinds = [self.is_null, self.alone, self.compare, self.is_in]
        if pa.types.is_integer(type_) and not pa.types.is_uint64(type_) and not pa.types.is_int64(type_):
            kinds += [self.compare_other_number]
        if pa.types.is_decimal(type_):
            kinds += [self.compare_other_decimal]
        if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
            kinds += [self.compare_other_moment]
        pairs = [pair for pair in PAIRS if name in pair and all(other in self.leaves for other in pair)]
        if pairs and self.rng.random() < 0.2:
            return self.compare_columns(self.rng.choice(pairs))
        return self.rng.choice(kinds)(name)

    def literal(self, name: str) -> pa.Scalar:
        """Returns a value of the column, one next to it, or any of its type; never null."""
        column, rng = self.leaves[name], self.rng
        type_ = column.type
        base = "mode" if name == "place.city" else "count" if name == "place.code" else name
        base = "small" if name in ("group by", "row") else base
        found = column[rng.randrange(len(column))]
        if not found.is_valid or (rng.random() < 0.3 and name != "noise"):
            found = pa.scalar(COLUMNS[base][1](rng), type_)
        if rng.random() < 0.7:
            return found
        # The limits of types are left alone: values beyond them do not exist.
        step = rng.choice([-1, 1])
        value = found.as_py()
        if pa.types.is_integer(type_) and abs(value) < 2**15 - 1 and value + step >= 0:
            return pa.scalar(value + step if type_ != pa.uint8() or value < 255 else value, type_)
        if isinstance(value, str):
            return pa.scalar(rng.choice([value[:-1], value + "a"]), type_)
        if isinstance(value, dt.datetime):
            return pa.scalar(value + dt.timedelta(milliseconds=step), type_)
        if isinstance(value, dt.date):
            return pa.scalar(value + dt.timedelta(days=step), type_)
        return found

    def compare(self, name: str) -> Filter:
        """Compares a column and a literal, either of which may be on the left."""
        sign, op = self.rng.choice(list(OPERATORS.items()))
        value = self.literal(name)
        theirs = op(field(name), pc.scalar(value))
        if self.rng.random() < 0.2:
            turned = TURNED.get(sign, sign)
            ours = OPERATORS[turned](value.as_py(), st.col(name))
            return Filter(ours, f"{sql(value)} {turned} {quoted(name)}", theirs)
        return Filter(op(st.col(name), value.as_py()), f"{quoted(name)} {sign} {sql(value)}", theirs)

    def compare_other_number(self, name: str) -> Filter:
        """Compares integers with a literal between them, or beyond all of them."""
        sign, op = self.rng.choice(list(OPERATORS.items()))
        value = self.rng.choice(
            [-0.5, 2.5, 7.0, -1e10, 1e10, decimal.Decimal("2.50"), decimal.Decimal(3), -(2**40), 300, 2**70]
        )
        theirs = op(field(name).cast(pa.float64()), pc.scalar(float(value)))
        return Filter(op(st.col(name), value), f"{quoted(name)} {sign} {value}", theirs)

    def compare_other_decimal(self, name: str) -> Filter:
        """Compares decimals with a literal that has more fraction digits, or none."""
        sign, op = self.rng.choice(list(OPERATORS.items()))
        value = decimal.Decimal(self.rng.choice(["0.00501", "-3.14159", "1.10000", "7"]))
        # Of a type that can hold both.
        both = pa.decimal256(60, 5)
        theirs = op(field(name).cast(both), pc.scalar(pa.scalar(value, both)))
        ours = op(st.col(name), int(value) if value == 7 else value)
        return Filter(ours, f"{quoted(name)} {sign} {value}", theirs)

    def compare_other_moment(self, name: str) -> Filter:
        """Compares days with a literal within a day, or timestamps with a day."""
        sign, op = self.rng.choice(list(OPERATORS.items()))
        if pa.types.is_date(self.leaves[name].type):
            value = EPOCH + dt.timedelta(hours=12 * self.rng.randint(-20, 20))
            theirs = op(field(name).cast(pa.timestamp("s")), pc.scalar(pa.scalar(value, pa.timestamp("s"))))
            return Filter(op(st.col(name), value), f"{quoted(name)} {sign} TIMESTAMP '{value}'", theirs)
        value = self.rng.choice([EPOCH.date(), dt.date(1970, 1, 1)])
        midnight = dt.datetime.combine(value, dt.time(), UTC)
        theirs = op(field(name), pc.scalar(pa.scalar(midnight, self.leaves[name].type)))
        return Filter(op(st.col(name), value), f"{quoted(name)} {sign} DATE '{value}'", theirs)

    def compare_columns(self, pair: tuple[str, str]) -> Filter:
        """Compares two columns of a row."""
        left, right = self.rng.sample(pair, 2)
        sign, op = self.rng.choice(list(OPERATORS.items()))
        ours = op(st.col(left), st.col(right))
        return Filter(ours, f"{quoted(left)} {sign} {quoted(right)}", op(field(left), field(right)))

    def between(self, name: str) -> Filter:
        """Both ends are inclusive; if the lower one is greater, no row matches."""
        low, high = self.literal(name), self.literal(name)
        theirs = (field(name) >= pc.scalar(low)) & (field(name) <= pc.scalar(high))
        ours = st.col(name).between(low.as_py(), high.as_py())
        made = Filter(ours, f"{quoted(name)} BETWEEN {sql(low)} AND {sql(high)}", theirs)
        return self.perhaps_not(made, "BETWEEN")

    def is_in(self, name: str) -> Filter:
        """One of some values, or none.

        pyarrow's `is_in` is false for null, so its negation is true. In SQL neither is true, as for the chain of
        equalities that IN stands for.
        """
        literals = [self.literal(name) for _ in range(self.rng.choice([0, 1, 2, 3, 12]))]
        equals = [field(name) == pc.scalar(value) for value in literals]
        theirs = reduce(operator.or_, equals) if equals else pc.scalar(False)
        ours = st.col(name).is_in([value.as_py() for value in literals])
        made = Filter(ours, f"{quoted(name)} IN ({', '.join(map(sql, literals))})", theirs)
        return self.perhaps_not(made, "IN")

    def is_null(self, name: str) -> Filter:
        """Tests for null; NaN is a value."""
        if self.rng.random() < 0.5:
            return Filter(st.col(name).is_null(), f"{quoted(name)} IS NULL", field(name).is_null())
        return Filter(st.col(name).is_not_null(), f"{quoted(name)} IS NOT NULL", field(name).is_valid())

    def alone(self, name: str) -> Filter:
        """Returns a boolean column by itself, or one of SQL's tests of it that are never unknown."""
        column, theirs = st.col(name), field(name)
        kind = self.rng.randrange(3)
        if kind == 0:
            return Filter(column, quoted(name), theirs)
        if kind == 1:
            return Filter(
                column.is_not_null() & column,
                f"{quoted(name)} IS TRUE",
                pc.coalesce(theirs, pc.scalar(False)),
            )
        return Filter(
            column.is_null() | column, f"{quoted(name)} IS NOT FALSE", pc.coalesce(theirs, pc.scalar(True))
        )

    def perhaps_not(self, made: Filter, word: str) -> Filter:
        """Returns the filter, or its negation as SQL writes it, with NOT before the word."""
        if self.rng.random() < 0.7:
            return made
        return made.negated(lambda sql: sql.replace(f" {word} ", f" NOT {word} ", 1))

    def text(self, name: str) -> str:
        """Returns a substring of a string of the column."""
        text = self.literal(name).as_py()
        start = self.rng.randint(0, len(text))
        return text[start : self.rng.randint(start, len(text))] if self.rng.random() < 0.7 else text

    def starts_with(self, name: str) -> Filter:
        """Matches a prefix."""
        text = self.literal(name).as_py()[: self.rng.randint(0, 4)]
        ours = st.col(name).starts_with(text)
        return Filter(
            ours, f"starts_with({quoted(name)}, {sql_text(text)})", pc.starts_with(field(name), text)
        )

    def contains(self, name: str) -> Filter:
        """Matches a substring."""
        text = self.text(name)
        ours = st.col(name).contains(text)
        return Filter(
            ours, f"contains({quoted(name)}, {sql_text(text)})", pc.match_substring(field(name), text)
        )

    def like(self, name: str) -> Filter:
        """Matches a pattern of substrings, `%` and `_`, case-sensitive or not."""
        parts = [self.text(name), self.text(name)]
        escaped = [
            "".join(f"\\{letter}" if letter in "%_\\" else letter for letter in part) for part in parts
        ]
        pattern = self.rng.choice(["%s", "%s%%", "%%%s", "%%%s%%", "_%s", "%s_", "%%_%s%%"]) % escaped[0]
        if self.rng.random() < 0.3:
            pattern = f"{escaped[0]}{self.rng.choice(['%', '_', '%_', '%%'])}{escaped[1]}"
        ignore_case = self.rng.random() < 0.3 and pattern.isascii()
        if "\\\\" in pattern:
            theirs = pc.match_substring_regex(field(name), regex(pattern), ignore_case=ignore_case)
        else:
            theirs = pc.match_like(field(name), pattern, ignore_case=ignore_case)
        word, make = ("ILIKE", st.col(name).ilike) if ignore_case else ("LIKE", st.col(name).like)
        return self.perhaps_not(
            Filter(make(pattern), f"{quoted(name)} {word} {sql_text(pattern)}", theirs), word
        )


def regex(pattern: str) -> str:
    """Converts a LIKE pattern to a regular expression.

    pyarrow 26 takes an escaped backslash for two in `%text%`, `text%` and `%text`, which it does not convert to a
    regular expression.
    """
    parts = []
    letters = iter(pattern)
    for letter in letters:
        parts.append(
            {"%": ".*", "_": "."}.get(letter) or re.escape(next(letters) if letter == "\\" else letter)
        )
    return f"(?s)^{''.join(parts)}$"


OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def field(name: str) -> pc.Expression:
    """Returns a column for pyarrow; a dot selects a struct field."""
    return pc.field(*name.split("."))


def quoted(name: str) -> str:
    """Returns a column name in SQL."""
    return f'"{name}"' if " " in name else name


def sql_text(text: str) -> str:
    """Returns a string literal in SQL."""
    return "'" + text.replace("'", "''") + "'"


def sql(scalar: pa.Scalar) -> str:
    """Returns a literal in SQL."""
    value = scalar.as_py()
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value) if abs(value) < float("inf") else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, str):
        return sql_text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return f"TIME '{value}'" if isinstance(value, dt.time) else str(value)


# Tests.


@pytest.mark.parametrize("first", first_seeds(PARQUET_FILES, BLOCK))
def test_filters_of_parquet_files_keep_the_rows_that_pyarrow_keeps(tmp_path: Path, first: int) -> None:
    seeds = range(first, first + BLOCK)
    check(failure for seed in seeds for failure in failures("parquet", tmp_path, seed))


@pytest.mark.parametrize("first", first_seeds(ORC_FILES, BLOCK))
def test_filters_of_orc_files_keep_the_rows_that_pyarrow_keeps(tmp_path: Path, first: int) -> None:
    seeds = range(first, first + BLOCK)
    check(failure for seed in seeds for failure in failures("orc", tmp_path, seed))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize("first", first_seeds(LARGE_FILES, LARGE_BLOCK))
def test_filters_that_an_index_narrows_keep_the_rows_that_pyarrow_keeps(
    tmp_path: Path, kind: str, first: int
) -> None:
    seeds = range(first, first + LARGE_BLOCK)
    check(failure for seed in seeds for failure in failures(kind, tmp_path, seed, is_large=True))


STRUCT = pa.struct([("city", pa.string()), ("code", pa.int32())])
PLACES = [{"city": "Oslo", "code": 1}, {"city": "Bergen", "code": 2}, None, {"city": None, "code": 3}]


@pytest.mark.parametrize("memory", [0, "64MiB"])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_field_comes_out_where_another_field_of_its_struct_is_filtered(
    tmp_path: Path, kind: str, memory: Any
) -> None:
    path = tmp_path / f"places.{kind}"
    rows = {"place": pa.array(PLACES, STRUCT), "count": [1, 2, 3, 4], "size": [9, 9, 9, 9]}
    {"parquet": pq, "orc": orc}[kind].write_table(pa.table(rows), path)
    settle(path)
    with st.Cache(memory=memory) as cache:
        for filter, wanted in [
            ("place.city = 'Oslo'", [0]),
            ("place.city >= 'A' AND count > 1", [1]),
            ("place IS NOT NULL", [0, 1, 3]),
            ("place.city IS NULL OR count = 1", [0, 2, 3]),
        ]:
            scan = st.scan(path, columns=["place.code", "size"], filter=filter, cache=cache)
            places = [PLACES[row] and {"code": PLACES[row]["code"]} for row in wanted]
            assert scan.to_arrow().to_pylist() == [{"place": place, "size": 9} for place in places], filter


def test_a_field_comes_out_where_single_pages_are_read_for_another_field(tmp_path: Path) -> None:
    path, rows = tmp_path / "places.parquet", 400_000
    numbers = pa.array(range(rows), pa.int32())
    place = pa.StructArray.from_arrays([numbers.cast(pa.string()), numbers], fields=list(STRUCT))
    table = pa.table({"place": place, "count": numbers, "size": pa.array([9] * rows)})
    pq.write_table(table, path, write_page_index=True, use_dictionary=False)
    settle(path)
    with st.Cache(memory="64MiB") as cache:
        for filter in (
            "place.code = 77",
            "place.code = 77 AND count = 77",
            "count = 77 AND place IS NOT NULL",
        ):
            scan = st.scan(path, columns=["place.city", "size"], filter=filter, cache=cache)
            assert scan.to_arrow().to_pylist() == [{"place": {"city": "77"}, "size": 9}], filter


@pytest.mark.parametrize("at", [0, 10, 15, 20])
def test_rows_beside_nan_are_found_in_orc_files(tmp_path: Path, at: int) -> None:
    # An index entry that begins with NaN has NaN bounds, and pyarrow's writer then excludes its values from the bounds
    # of the stripe. Readers detect this by the sum of the values, which is NaN.
    values = [5.0] * 10 + [-2.0] * 10 + [7.0] * 10
    values[at] = float("nan")
    path = tmp_path / "nan.orc"
    orc.write_table(pa.table({"fare": values}), path, row_index_stride=10, batch_size=10)
    settle(path)
    for filter, wanted in (("fare < 0", -2.0), ("fare > 6", 7.0), ("fare = 5", 5.0), ("fare <= -2", -2.0)):
        assert st.scan(path, filter=filter).count() == values.count(wanted), filter


def check(failures: Iterator[str]) -> None:
    """Fails with the first errors."""
    told = list(failures)
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])


def failures(kind: str, folder: Path, seed: int, is_large: bool = False) -> Iterator[str]:
    """Yields the errors of the filters on one file."""
    rng = random.Random(f"{kind} filters {seed} {is_large}")
    names = rng.sample(
        [name for name in COLUMNS if kind == "parquet" or name not in NOT_IN_ORC], rng.randint(2, 6)
    )
    made = table(rng, names, rng.randint(60_000, 140_000) if is_large else rng.choice(SMALL_ROWS))
    path = folder / f"{seed}.{kind}"
    if kind == "parquet":
        options = parquet_options(rng, made)
        if is_large:
            options |= indexed(rng, made.num_rows)
        pq.write_table(made, path, **options)
        data = read_parquet(Case(seed, made, options), path)
    else:
        if is_large:
            options = strided(rng, made)
            st.write_orc(made, path, **options)
        else:
            options = orc_options(rng, made)
            orc.write_table(made, path, **options)
        data = orc.read_table(path)
    settle(path)
    maker = Maker(rng, data)
    with st.Cache(memory=rng.choice([0, "64MiB"])) as cache:
        for _ in range(PREDICATES):
            asked = maker.narrow() if is_large else maker.filter(3)
            columns = [
                "row",
                *rng.sample([*data.column_names[1:], "place.city", "place.code"], rng.randint(0, 2)),
            ]
            if is_large and rng.random() < 0.7:
                columns = ["noise", *(column for column in columns if column != "noise")]
            roots = list(dict.fromkeys(column.split(".")[0] for column in columns))
            limit = rng.choice([None, None, rng.randint(0, data.num_rows)])
            kept = data.filter(asked.theirs).select(roots).slice(0, limit)
            # A filter's printed form is valid SQL.
            for given in (asked.ours, asked.sql, repr(asked.ours)):
                if is_large:
                    # Cached data is not read again as single pages.
                    cache.clear()
                mode = rng.choice(MODES)
                scan = st.scan(path, filter=given, columns=columns, limit=limit, cache=cache, **mode)
                wrong = differs(scan, kept, made)
                if wrong:
                    yield f"seed {seed}: {scan!r}, {mode}: {wrong}\n  of {made.num_rows} rows written with {options}"


def indexed(rng: random.Random, rows: int) -> dict[str, Any]:
    """Returns options for large row groups of many pages with an index."""
    return {
        "compression": rng.choice(["none", "snappy", "zstd"]),
        "write_page_index": True,
        "write_statistics": True,
        "row_group_size": rng.choice([rows, rows // 2 + 1]),
        "data_page_size": rng.choice([4_000, 100_000, None]),
        "write_batch_size": rng.choice([100, 1_000]),
        "max_rows_per_page": rng.choice([500, 5_000, None]),
    }


def strided(rng: random.Random, made: pa.Table) -> dict[str, Any]:
    """Returns options of `write_orc` for large stripes of many strides, with bloom filters for some columns."""
    flat = [field.name for field in made.schema if not pa.types.is_nested(field.type)]
    filtered = [name for name in rng.sample(flat, len(flat) // 2) if made.schema.field(name).type != pa.bool_()]
    return {
        "compression": rng.choice([None, "snappy", "zlib", "zstd"]),
        "row_index_stride": rng.choice([500, 2_000, 10_000]),
        "stripe_size": rng.choice([None, "4MiB"]),
        "dictionary": rng.choice([True, False, 0.8]),
        "bloom_filter_columns": filtered,
    }


def differs(scan: st.Scan, kept: pa.Table, made: pa.Table) -> str | None:
    """Returns the difference between a scan and the rows that it should return."""
    try:
        rows, counted = scan.to_arrow(), scan.count()
    except st.StylobateError as error:
        return f"{type(error).__name__}: {error}"
    got, wanted = rows["row"].to_pylist(), kept["row"].to_pylist()
    if got != wanted:
        missing, extra = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
        return f"rows {missing[:9]} are missing, {extra[:9]} too many"
    if counted != len(wanted):
        return f"{len(wanted)} rows are counted as {counted}"
    columns = zip(kept.column_names, rows.columns, kept.columns, strict=True)
    told = (column_differs(ours, theirs, made.schema.field(name).type) for name, ours, theirs in columns)
    return next(filter(None, told), None)


# Functions and arithmetic.

VALUE_FILES = 30
VALUES_OF_A_FILE = 12
NUMBERS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "small": (pa.int16(), lambda rng: rng.randint(-20, 20)),
    "count": (pa.int64(), lambda rng: rng.randint(-1_000, 1_000)),
    "byte": (pa.uint8(), lambda rng: rng.randint(0, 255)),
    "price": (pa.decimal128(12, 2), lambda rng: decimal.Decimal(rng.randint(-500, 500)) / 100),
    "plain": (pa.float64(), lambda rng: rng.randint(-40, 40) / 10),
}


@dataclass(frozen=True)
class Value:
    """The same number for Stylobate, as SQL and as Python computes it for a row: a Fraction if exact, a float
    otherwise, None if null."""

    ours: Any
    sql: str
    of: Callable[[dict[str, Any]], Any]
    is_float: bool


def apply(sign: str, left: Any, right: Any) -> Any:
    """Applies an operator to two numbers."""
    if left is None or right is None:
        return None
    if sign == "/" or isinstance(left, float) or isinstance(right, float):
        return apply_float(sign, float(left), float(right))
    if sign == "%":
        return None if right == 0 else left - right * math.trunc(left / right)
    return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](left, right)


def apply_float(sign: str, left: float, right: float) -> float:
    """Applies it to floating-point numbers, as in IEEE 754 where Python raises."""
    if sign == "%":
        return math.nan if right == 0 or not math.isfinite(left) or math.isnan(right) else math.fmod(left, right)
    if sign == "/" and right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    signs = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
    return signs[sign](left, right)


def number_of(name: str) -> Value:
    """Returns a numeric column."""
    is_float = pa.types.is_floating(NUMBERS[name][0])

    def of(row: dict[str, Any]) -> Any:
        return row[name] if row[name] is None or is_float else fractions.Fraction(row[name])

    return Value(st.col(name), name, of, is_float)


def literal_number(rng: random.Random) -> Value:
    """Returns a numeric literal."""
    value = rng.choice([0, 1, 2, -3, 7, decimal.Decimal("0.5"), decimal.Decimal("-1.25"), 0.25, -1.5])
    is_float = isinstance(value, float)
    exact = value if is_float else fractions.Fraction(value)
    return Value(value, f"{value:e}" if is_float else str(value), lambda row: exact, is_float)


def computed(rng: random.Random, depth: int) -> Value:
    """Returns an expression computed from columns."""
    if depth == 0 or rng.random() < 0.2:
        return number_of(rng.choice(list(NUMBERS)))
    if rng.random() < 0.2:
        inner = computed(rng, depth - 1)
        return Value(abs(inner.ours), f"abs({inner.sql})", lambda row: absolute(inner.of(row)), inner.is_float)

    sign = rng.choice("+-*/%")
    left, right = computed(rng, depth - 1), computed(rng, depth - 1)
    side = rng.random()
    left = literal_number(rng) if side < 0.2 else left
    right = literal_number(rng) if side > 0.6 else right
    signs = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "%": operator.mod,
    }
    return Value(
        signs[sign](left.ours, right.ours),
        f"({left.sql} {sign} {right.sql})",
        lambda row: apply(sign, left.of(row), right.of(row)),
        sign == "/" or left.is_float or right.is_float,
    )


def compared(op: Callable[[Any, Any], bool], left: Any, right: Any) -> bool | None:
    """Returns whether it holds: in floating point if the left side is a float, otherwise exactly."""
    if left is None or right is None:
        return None
    if isinstance(left, float):
        return op(left, float(right))
    return op(left, fractions.Fraction(right))


def absolute(value: Any) -> Any:
    """Returns a number's absolute value."""
    return None if value is None else abs(value)


@pytest.mark.parametrize("seed", range(VALUE_FILES))
def test_numbers_are_computed_as_python_computes_them(tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"values {seed}")
    rows = [
        {name: None if rng.random() < 0.1 else make(rng) for name, (_, make) in NUMBERS.items()}
        for _ in range(rng.choice([20, 300]))
    ]
    data = pa.Table.from_pylist(rows, pa.schema([(name, kind) for name, (kind, _) in NUMBERS.items()]))
    path = tmp_path / "numbers.parquet"
    pq.write_table(data.add_column(0, "row", pa.array(range(len(rows)))), path, use_dictionary=rng.random() < 0.5)

    for _ in range(VALUES_OF_A_FILE):
        left = computed(rng, rng.randint(1, 3))
        sign, op = rng.choice(list(OPERATORS.items()))
        right = literal_number(rng)
        if not left.is_float and rng.random() < 0.3:
            other = computed(rng, 2)
            right = right if other.is_float else other
        holds = [compared(op, left.of(row), right.of(row)) for row in rows]
        for ours, negated in ((op(left.ours, right.ours), False), (~op(left.ours, right.ours), True)):
            wanted = [at for at, found in enumerate(holds) if found is not None and found != negated]
            text = f"{left.sql} {sign} {right.sql}"
            for given in (ours, f"NOT {text}" if negated else text, repr(ours)):
                found = st.scan(path, columns=["row"], filter=given, dictionary=False).to_arrow()
                assert found["row"].to_pylist() == wanted, f"{seed}: {given}"


CONDITIONS = [
    *["lower(s) = 'air'", "upper(s) LIKE 'A%'", "lower(s) IN ('air', 'mail')", "lower(s) IS NULL"],
    *["ends_with(s, 'l')", "s LIKE '%L'", "NOT contains(lower(s), 'a')", "starts_with(upper(s), 'M')"],
    *["year(born) = 1969", "year(born) BETWEEN 1960 AND 1969", "month(born) IN (2, 12)", "day(born) = 29"],
    *["extract(year FROM moment) < 1970", "month(moment) = 12 AND day(moment) = 31", "NOT year(moment) = 1970"],
    *["isnan(g)", "NOT isnan(g)", "isnan(g + 1)", "abs(f) > 1", "abs(i) = 3", "abs(price) < 1.25"],
    *["i + j > 3", "i * 2 <= 10", "i - j = j - i", "-i > j", "(i + j) * 2 > i * j", "i + j < 3 OR i > j"],
    *["i % 3 = -1", "i % j IS NULL", "i / 4 = 2.5", "i / 2 > j / 3", "f + i > 1.5", "f * 2 = 1"],
    *["price * 2 = 3.50", "price + 1 > price * price", "price % 0.5 = 0", "price - i < 0"],
    *["s IS DISTINCT FROM 'air'", "s IS NOT DISTINCT FROM NULL", "i IS NOT DISTINCT FROM j"],
    *["NOT (i IS DISTINCT FROM j)", "i + 1 IS DISTINCT FROM j", "lower(s) IS DISTINCT FROM s"],
]


def mixed(rng: random.Random, rows: int) -> pa.Table:
    """Returns columns of the types that functions accept."""
    day = dt.date(1970, 1, 1)

    def column(make: Callable[[], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < 0.1 else make() for _ in range(rows)], kind)

    return pa.table(
        {
            "row": pa.array(range(rows), pa.int64()),
            "s": column(lambda: rng.choice(["air", "AIR", "Mail", "MAIL", "rail", ""]), pa.string()),
            "born": column(lambda: day + dt.timedelta(days=rng.randint(-4_000, 4_000)), pa.date32()),
            "moment": column(
                lambda: dt.datetime(1970, 1, 1) + dt.timedelta(hours=rng.randint(-30, 30)), pa.timestamp("us")
            ),
            "g": column(lambda: rng.choice([math.nan, 1.0, -2.0]), pa.float64()),
            "f": column(lambda: rng.randint(-9, 9) / 2, pa.float64()),
            "i": column(lambda: rng.randint(-10, 10), pa.int64()),
            "j": column(lambda: rng.randint(-3, 3), pa.int64()),
            "price": column(lambda: decimal.Decimal(rng.randint(-300, 300)) / 100, pa.decimal128(9, 2)),
        }
    )


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_functions_and_arithmetic_keep_the_rows_that_duckdb_keeps(tmp_path: Path, kind: str) -> None:
    data = mixed(random.Random(7), 600)
    path = tmp_path / f"mixed.{kind}"
    {"parquet": pq, "orc": orc}[kind].write_table(data, path)
    settle(path)
    with duckdb.connect() as con:
        con.register("data", data)
        for condition in CONDITIONS:
            wanted = [row for (row,) in con.execute(f"SELECT row FROM data WHERE {condition} ORDER BY row").fetchall()]
            for given in (condition, repr(st.Expr.parse(condition)), pickle.loads(pickle.dumps(st.Expr.parse(condition)))):
                # The printed and the pickled filter are the same filter, so some of the modes are enough.
                for mode in MODES if given is condition else MODES[1:6:2]:
                    scan = st.scan(path, columns=["row"], filter=given, **mode)
                    assert scan.to_arrow()["row"].to_pylist() == wanted, (given, mode)
            # The filtered strings are returned beside it.
            found = st.scan(path, columns=["s", "row"], filter=condition, strings="view").to_arrow()
            assert (found.schema.field("s").type, found["row"].to_pylist()) == (pa.string_view(), wanted), condition
            assert found["s"].to_pylist() == [data["s"][row].as_py() for row in wanted], condition


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Oslo", "America/New_York", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_years_are_those_of_the_columns_zone(tmp_path: Path, unit: str, zone: str | None) -> None:
    rng = random.Random(f"{unit} {zone}")
    near = [dt.datetime(year, 1, 1) for year in (1900, 1969, 1970, 2000, 2024, 2100)]
    moments = [rng.choice(near) + dt.timedelta(hours=rng.randint(-15, 15), minutes=30) for _ in range(500)]
    path = tmp_path / "at.parquet"
    at = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit))
    at = at.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone)) if zone else at
    pq.write_table(pa.table({"row": range(500), "at": at}), path, version="2.6")
    read = st.scan(path).to_arrow()
    for part, ours in ((pc.year, st.col("at").year()), (pc.month, st.col("at").month()), (pc.day, st.col("at").day())):
        parts = part(read["at"])
        for value in {parts[0].as_py(), parts[1].as_py(), 1}:
            wanted = read.filter(pc.equal(parts, value))["row"].to_pylist()
            assert st.scan(path, columns=["row"], filter=ours == value).to_arrow()["row"].to_pylist() == wanted


def test_what_has_no_room_is_a_filter_error(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    pq.write_table(pa.table({"a": [2**63 - 1, 2], "s": ["x", "y"]}), path)
    a = st.col("a")
    assert st.scan(path, filter=a + 1 > 2**63 - 1).count() == 1
    assert st.scan(path, filter=a * a == (2**63 - 1) ** 2).count() == 1
    with pytest.raises(st.FilterError, match="128 bits"):
        st.scan(path, filter=a * a * a > 1).count()
    for wrong in ("s + 1 > 2", "lower(a) = 'x'", "year(s) = 1", "abs(s) > 1", "isnan(a)", "a + 1 = 'x'", "a + 'x' > 1"):
        with pytest.raises(st.FilterError):
            st.scan(path, filter=wrong)


def test_uuids_are_found_by_value_and_by_text(tmp_path: Path) -> None:
    ids = [uuid.UUID(int=number) for number in (0, 7, 2**127, 2**128 - 1)]
    path = tmp_path / "ids.parquet"
    values = pa.array([one.bytes for one in ids] + [None], pa.binary(16))
    columns = {"plain": values, "extended": pa.ExtensionArray.from_storage(pa.uuid(), values)}
    pq.write_table(pa.table({"row": range(5), **columns}), path)
    settle(path)
    for name in columns:
        id = st.col(name)
        for row, one in enumerate(ids):
            texts = [str(one), str(one).upper(), one.hex]
            given = [id == one, id.is_in([one, uuid.UUID(int=1)]), id.eq_missing(one), one == id]
            given += [f"{name} = '{text}'" for text in texts] + [f"{name} IN (UUID '{one}')", repr(id == one)]
            for filter in given:
                assert st.scan(path, columns=["row"], filter=filter).to_arrow()["row"].to_pylist() == [row], filter
        assert st.scan(path, filter=id > ids[1]).count() == 2
        assert st.scan(path, filter=f"{name} <= '{ids[1]}'").count() == 2
        for text in (f"{{{ids[1]}}}", f"{{{ids[1]}}}".upper(), f"urn:uuid:{ids[1]}"):
            assert st.scan(path, filter=id == text).count() == 1, text
        for wrong in (id == "nonsense", id != "nonsense", id.is_in([ids[1], "x"]), f"{name} = '{ids[1]}0'"):
            with pytest.raises(st.FilterError, match=f"column {name}"):
                st.scan(path, filter=wrong).count()
        assert st.scan(path, filter=id.starts_with("nonsense")).count() == 0
    with pytest.raises(st.FilterError, match="column extended"):
        st.scan(path, filter="extended < 'x'").count()
