"""Predicates that the reference reader in Java pushes down into files by `write_orc`: with row indexes and bloom
filters it skips row groups, and those that it reads have all matching rows. And bounds of times, as it prints them."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest
import stylobate as st

from orc_files import Judge, compiled, needs_java, reports
from orc_printed import PER_SECOND, clock
from test_orc_times import FRACTIONS, plain

pytestmark = needs_java

ROWS = 1_000
# A value has a rank among those of its type. Rows have even ranks, so that odd ones are absent.
RANKS = range(0, 200, 2)
ZERO = 100
UTC = datetime.timezone.utc
# Rows among which some floats are NaN.
ODD_ROWS = range(200, 300)


class Kind(NamedTuple):
    type_: pa.DataType
    # The name in predicates, and the value of each rank.
    java: str
    value: Callable[[int], Any]
    orc: str = ""


def number(rank: int) -> float:
    return {RANKS[0]: -math.inf, RANKS[-1]: math.inf}.get(rank, (rank - ZERO) * 0.25)


def digits(scale: int, step: int) -> Callable[[int], decimal.Decimal]:
    return lambda rank: decimal.Decimal((rank - ZERO) * step).scaleb(-scale, decimal.Context(prec=40))


def time(rank: int) -> datetime.datetime:
    return datetime.datetime(1931, 5, 17, 13, 59, 7, 1_001 * rank) + datetime.timedelta(days=211 * rank)


KINDS = {
    "tinyint": Kind(pa.int8(), "LONG", lambda rank: rank - ZERO),
    "smallint": Kind(pa.int16(), "LONG", lambda rank: (rank - ZERO) * 327),
    "int": Kind(pa.int32(), "LONG", lambda rank: (rank - ZERO) * 21_000_001),
    "bigint": Kind(pa.int64(), "LONG", lambda rank: (rank - ZERO) * 92_000_000_000_000_001),
    "float": Kind(pa.float32(), "FLOAT", number),
    "double": Kind(pa.float64(), "FLOAT", lambda rank: number(rank) * 64),
    "short_decimal": Kind(pa.decimal128(9, 2), "DECIMAL", digits(2, 9_999_970)),
    "long_decimal": Kind(pa.decimal128(38, 10), "DECIMAL", digits(10, 10**36 - 7)),
    "date": Kind(pa.date32(), "DATE", lambda rank: time(rank).date()),
    "timestamp": Kind(pa.timestamp("us"), "TIMESTAMP", time),
    "instant": Kind(pa.timestamp("us", "UTC"), "TIMESTAMP", lambda rank: time(rank).replace(tzinfo=UTC)),
    "string": Kind(pa.string(), "STRING", lambda rank: f"{rank:03d}" + "🙂ä" * (rank // 20)),
    "char": Kind(pa.string(), "STRING", lambda rank: f"{rank:03d} chär", "char(8)"),
    # Shorter than its declared length: Java expects the literal to be padded, too.
    "filled": Kind(pa.string(), "STRING", lambda rank: f"{rank:03d}".ljust(10), "char(10)"),
    "varchar": Kind(pa.string(), "STRING", lambda rank: f"{rank:03d}" + "x" * (rank % 7), "varchar(10)"),
    "binary": Kind(pa.binary(), "STRING", lambda rank: f"\0{rank:03d}".encode()),
    "boolean": Kind(pa.bool_(), "BOOLEAN", lambda rank: rank >= ZERO),
}
# Columns of sorted values, and others whose row groups have a few scattered values each.
COLUMNS = {name + order: kind for name, kind in KINDS.items() for order in ("", "_any")}
NESTED = {
    "s.whole": KINDS["bigint"], "s.text": KINDS["string"], "s.deep.money": KINDS["long_decimal"],
    "s.deep.day_any": KINDS["date"], "s.deep.double_any": KINDS["double"], "s.deep.text_any": KINDS["varchar"],
    "maybe.whole": KINDS["int"], "maybe.text_any": KINDS["string"],
}
ALL = COLUMNS | NESTED
# Options, and the columns with bloom filters, which booleans cannot have.
Layout = tuple[dict[str, Any], list[str]]
FILTERED = [name for name in COLUMNS if not name.startswith("boolean")]
LAYOUTS: dict[str, Layout] = {
    "dense": ({"compression": "zstd", "row_index_stride": 50, "dictionary": False}, []),
    "coded": ({"compression": "snappy", "row_index_stride": 100, "dictionary": True}, FILTERED),
    "stripes": ({"compression": "lz4", "row_index_stride": 25, "stripe_size": 50_000}, FILTERED),
    "plain": ({"compression": "none", "row_index_stride": 40}, FILTERED),
    "fields": ({"compression": "zstd(1)", "row_index_stride": 80}, list(NESTED)),
    "large": ({"compression": "zlib", "row_index_stride": 300, "compression_block_size": 700}, []),
}


def values(at: int, name: str) -> list[Any]:
    """Returns the values of a column, whose number determines the nulls."""
    rng, made, few = random.Random(name), [], []
    for row in range(ROWS):
        if row % 25 == 0:
            few = [RANKS[1], RANKS[-2], *rng.sample(RANKS, 6)]
        value = ALL[name].value(rng.choice(few) if name.endswith("_any") else RANKS[row * len(RANKS) // ROWS])
        if isinstance(value, float) and row % 2:
            value = math.nan if row in ODD_ROWS else -value if value == 0 else value
        made.append(None if row % 11 == at % 11 or row // 100 == at % 9 else value)
    return made


def is_there(row: int, column: str) -> bool:
    """Returns whether the row has the column, which may be in a nullable struct."""
    return not column.startswith("maybe.") or row % 5 != 0 and row // 50 != 4


def struct(columns: dict[str, pa.Array], prefix: str) -> pa.StructArray:
    names = dict.fromkeys(name.removeprefix(prefix).split(".")[0] for name in columns if name.startswith(prefix))
    parts = [columns.get(prefix + name) or struct(columns, f"{prefix}{name}.") for name in names]
    return pa.StructArray.from_arrays(parts, names, mask=pa.array([not is_there(row, prefix) for row in range(ROWS)]))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    columns = {name: pa.array(values(at, name), kind.type_) for at, (name, kind) in enumerate(ALL.items())}
    fields = [pa.field(name, kind.type_, metadata={"orc.type": kind.orc or "string"}) for name, kind in COLUMNS.items()]
    arrays = [pa.array(range(ROWS)), *map(columns.get, COLUMNS)]
    made = pa.table(arrays, schema=pa.schema([pa.field("id", pa.int64()), *fields]))
    return made.append_column("s", struct(columns, "s.")).append_column("maybe", struct(columns, "maybe."))


@pytest.fixture(scope="module")
def columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns, including nested ones, by name."""
    nested = {name: pc.struct_field(table[name.split(".")[0]], name.split(".")[1:]) for name in NESTED}
    return {name: table[name] for name in COLUMNS} | nested


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("classes"))


# Predicates: their form in Java, the rows that match, and the row groups that may have such rows.


class Group:
    """A row group, and what the file says about it."""

    def __init__(self, rows: range, columns: dict[str, pa.Array]) -> None:
        self.rows, self._columns = rows, columns
        self._known: dict[str, tuple[set[Any], bool]] = {}

    def values(self, column: str) -> tuple[set[Any], bool]:
        """Returns the values, and whether there are nulls. If a struct is null, its fields do not even count as null."""
        if column not in self._known:
            found = self._columns[column][self.rows.start : self.rows.stop].to_pylist()
            found = [value for row, value in zip(self.rows, found, strict=True) if is_there(row, column)]
            self._known[column] = {value for value in found if value is not None}, None in found
        return self._known[column]


def order(value: Any, zero: float) -> Any:
    """Returns Java's sort key: the negative zero is less. In bounds, either zero stands for the other."""
    return (value, math.copysign(1, value or zero)) if isinstance(value, float) else value


class Leaf(NamedTuple):
    column: str
    how: str
    literals: tuple[Any, ...] = ()

    def words(self) -> list[str]:
        count = [str(len(self.literals))] if self.how == "in" else []
        return [self.column, self.how, ALL[self.column].java, *count, *map(text, self.literals)]

    def truth(self, columns: dict[str, pa.Array]) -> pa.Array:
        column = columns[self.column]
        if self.how == "null":
            return column.is_null()
        first, *rest = [pa.scalar(literal, column.type) for literal in self.literals]
        if self.how == "between":
            return pc.and_(pc.greater_equal(column, first), pc.less_equal(column, rest[0]))
        if self.how in ("equals", "in"):
            return functools.reduce(pc.or_, [pc.equal(column, literal) for literal in (first, *rest)])
        return {"less": pc.less, "most": pc.less_equal}[self.how](column, first)

    def outcomes(self, group: Group, filtered: list[str]) -> tuple[bool, bool]:
        """Returns whether it may be true of some rows, and false of some, by bounds, and by bloom filters of some
        columns."""
        values, has_null = group.values(self.column)
        if not values:
            return self.how == "null" and has_null, not has_null
        # Bytes have no bounds, nor has anything whose sum is NaN.
        if not all(value == value for value in values) or values >= {math.inf, -math.inf} or self.column[:3] == "bin":
            return True, True
        if self.how == "null":
            return has_null, True
        minimum, maximum = order(min(values), -0.0), order(max(values), 0.0)
        literals = [order(literal, literal) for literal in self.literals]
        first, last = literals[0], literals[-1]
        if self.how == "less":
            return minimum < first, maximum >= first
        if self.how == "most":
            return minimum <= first, maximum > first
        if self.how == "between":
            is_within = first <= minimum and (last > maximum or last == maximum > minimum)
            return first <= maximum and last >= minimum, not is_within
        may_be = any(minimum <= literal <= maximum for literal in literals)
        if may_be and self.column in filtered:
            return not values.isdisjoint(self.literals), True
        return may_be, not (may_be and minimum == maximum)


class Join:
    """`and` or `or` of two predicates, or `not` of one."""

    def __init__(self, how: str, *parts: Leaf | Join) -> None:
        self._how, self._parts = how, parts

    def words(self) -> list[str]:
        return [self._how, *(word for part in self._parts for word in part.words())]

    def truth(self, columns: dict[str, pa.Array]) -> pa.Array:
        join = {"and": pc.and_kleene, "or": pc.or_kleene, "not": pc.invert}[self._how]
        return join(*(part.truth(columns) for part in self._parts))

    def outcomes(self, group: Group, filtered: list[str]) -> tuple[bool, bool]:
        trues, falses = zip(*(part.outcomes(group, filtered) for part in self._parts), strict=True)
        if self._how == "not":
            return falses[0], trues[0]
        return (all(trues), any(falses)) if self._how == "and" else (any(trues), all(falses))


def text(value: Any) -> str:
    """Returns a literal in Java's syntax."""
    value = value.decode() if isinstance(value, bytes) else str(value)
    return value.replace("inf", "Infinity").removesuffix("+00:00")


def comparisons(rng: random.Random, name: str) -> list[Leaf | Join]:
    of = ALL[name].value
    here, there = rng.choice(RANKS[2:30]), rng.choice([ZERO, *RANKS[60:90]])
    wanted = [
        ("equals", of(here)), ("equals", of(there)), ("less", of(there)), ("most", of(here)),
        ("between", of(here + 1), of(here + 6)), ("between", of(there), of(there)),
        ("in", of(here), of(here + 3), of(there + 2)),
    ]
    if not name.startswith("boolean"):
        wanted += [("equals", of(here + 1)), ("equals", of(there + 1)), ("in", of(here + 1), of(there + 1))]
    # No writer records the fields of null structs as null.
    wanted += [] if name.startswith("maybe.") else [("null",)]
    leaves = [Leaf(name, how, tuple(literals)) for how, *literals in wanted]
    return [*leaves, *(Join("not", leaf) for leaf in leaves)]


def predicates(rng: random.Random) -> Iterator[Leaf | Join]:
    """Yields some comparisons of each column, and some combined ones of two or more columns."""
    for name in ALL:
        yield from rng.sample(comparisons(rng, name), 2)
        one, two, three = (rng.choice(comparisons(rng, of)) for of in (name, *rng.choices(list(ALL), k=2)))
        both, either = Join("and", one, two), Join("or", one, two)
        yield rng.choice([both, either, Join("and", one, Join("or", two, three)), Join("not", Join("or", both, three))])


def row_groups(path: Path, stride: int) -> Iterator[range]:
    """Yields the rows of each row group; each stripe begins a new one."""
    reader, start = pa.orc.ORCFile(path), 0
    for stripe in range(reader.nstripes):
        end = start + reader.read_stripe(stripe, columns=["id"]).num_rows
        yield from (range(first, min(first + stride, end)) for first in range(start, end, stride))
        start = end


class Answer(NamedTuple):
    where: str
    predicate: Leaf | Join
    groups: list[Group]
    # The rows of the row groups that Java reads, and the rows that it says match.
    read: set[int]
    returned: set[int] | None

    def left(self, filtered: list[str]) -> set[int]:
        """Returns the rows that bounds, and bloom filters of these columns, leave."""
        return {row for group in self.groups if self.predicate.outcomes(group, filtered)[0] for row in group.rows}


Answers = dict[str, list[Answer]]

@pytest.fixture(scope="module")
def answers(
    table: pa.Table, columns: dict[str, pa.Array], classes: Path, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """Returns Java's results on each file, whose rows it compares with those of a file by another writer."""
    folder, reference, asked, commands = tmp_path_factory.mktemp("predicates"), plain(table), [], []
    for at, name in enumerate(table.column_names):
        if name.startswith("filled"):
            # It returns padded strings without their padding.
            reference = reference.set_column(at, name, pc.utf8_rtrim_whitespace(table[name]))
    pa.orc.write_table(reference, folder / "reference.orc")
    for layout, (options, filtered) in LAYOUTS.items():
        path, blooms = folder / f"{layout}.orc", dict.fromkeys(filtered, 0.001)
        written = st.write_orc(table.to_reader(100), path, **options, bloom_filter_columns=blooms)
        assert (written.row_groups > 1) == (layout == "stripes")
        groups = [Group(rows, columns) for rows in row_groups(path, options["row_index_stride"])]
        for predicate in predicates(random.Random(layout)):
            words = predicate.words()
            # For predicates on fields of structs, Java returns wrong rows on its own files, too.
            is_exact = not any(word.startswith(("s.", "maybe.", "filled")) for word in words)
            asked.append((layout, predicate, groups, is_exact))
            commands += [[str(path), *words], [str(path), "where", *words]][: 1 + is_exact]
    judged = Judge(classes, folder / "reference.orc").read(commands)
    found = ({row for part in ranges for row in part} for ranges in judged)
    made: Answers = {layout: [] for layout in LAYOUTS}
    for layout, predicate, groups, is_exact in asked:
        where = " ".join(predicate.words())
        made[layout].append(Answer(where, predicate, groups, next(found), next(found) if is_exact else None))
    return made


def check_row_groups(answers: list[Answer], filtered: list[str]) -> None:
    """Checks that Java reads the row groups that bounds and bloom filters leave, and hardly any others."""
    spared = needless = 0
    for answer in answers:
        left, bounded = answer.left(filtered), answer.left([])
        assert left <= answer.read <= bounded, answer.where
        spared, needless = spared + len(bounded - left), needless + len(answer.read - left)
    assert (spared > 0) == bool(filtered) and needless <= spared // 50, f"{needless} rows of {spared}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_reads_the_row_groups_that_may_match_and_no_others(layout: str, answers: Answers) -> None:
    check_row_groups(answers[layout], LAYOUTS[layout][1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_finds_the_rows_that_match(layout: str, answers: Answers, columns: dict[str, pa.Array]) -> None:
    for answer in answers[layout]:
        truth = answer.predicate.truth(columns).to_pylist()
        matching = {row for row, is_true in enumerate(truth) if is_true}
        assert matching <= answer.read and answer.returned in (None, matching), answer.where
    assert sum(bool(answer.returned) for answer in answers[layout]) > 30


@pytest.mark.parametrize("layout", LAYOUTS)
def test_java_does_not_read_all_of_what_is_sorted(layout: str, answers: Answers) -> None:
    looked = [
        answer for answer in answers[layout]
        if isinstance(answer.predicate, Leaf) and answer.predicate.how in ("equals", "less", "most", "between")
        and not answer.predicate.column.startswith(("boolean", "binary")) and "_any" not in answer.predicate.column
    ]
    assert len(looked) > 5 and not [answer.where for answer in looked if len(answer.read) >= ROWS]


def test_java_goes_by_bloom_filters_of_items_of_lists(classes: Path, tmp_path: Path) -> None:
    rng, each, path = random.Random("lists"), 100, tmp_path / "a.orc"
    items = [rng.sample(range(1, 9_999), 20) for _ in range(10)]
    rows = [[0, *rng.sample(items[at // each], at % 4), 9_999] if at % 7 else None for at in range(1_000)]
    commands = [[str(path), "l._elem", "equals", "LONG", str(some[5] + more)] for some in items for more in (0, 1)]
    having = [{at // each for at, row in enumerate(rows) if int(command[-1]) in (row or [])} for command in commands]
    for rates, expected in (({"l.item": 0.0001}, having), ({}, [set(range(10))] * len(commands))):
        st.write_orc(pa.table({"id": range(1_000), "l": rows}), path, row_index_stride=each, bloom_filter_columns=rates)
        found = [{row // each for part in ranges for row in part} for ranges in Judge(classes, path).read(commands)]
        assert found == expected


# Bounds of times. Seconds since 1970 to draw from: Java prints the years before 1582 in another calendar.
ERAS = {"before": (-12_000_000_000, -2), "after": (0, 250_000_000_000), "around": (-12_000_000_000, 250_000_000_000)}


def times(unit: str, era: str) -> pa.Array:
    """Returns times without a zone: each row group has those of a part of an era, which may contain nulls."""
    rng, made = random.Random(unit + era), []
    first, last = (max(-9_000_000_000, min(end, 9_000_000_000)) if unit == "ns" else end for end in ERAS[era])
    for row in range(1_000):
        start = first + row // 100 * ((last - first) // 10)
        second = rng.randint(start, start + (last - first) // 10)
        value = second * PER_SECOND[unit] + rng.choice(FRACTIONS) * PER_SECOND[unit] // 10**9
        made.append(None if row % 17 == 3 or second == -1 else value)
    return pa.array(made, pa.timestamp(unit))


def test_bounds_of_times_that_java_prints_are_those_of_the_data(tmp_path: Path) -> None:
    made = {f"{unit}_{era}": times(unit, era) for unit in PER_SECOND for era in ERAS}
    made |= {f"{name}_instant": column.cast(pa.timestamp(column.type.unit, "UTC")) for name, column in made.items()}
    path, numbers = tmp_path / "a.orc", ",".join(map(str, range(1, len(made) + 1)))
    st.write_orc(pa.table(made).to_reader(100), path, row_index_stride=100, stripe_size=50_000)
    report, start = reports([path], "-r", numbers)[path], 0
    scopes = [(report["fileStatistics"][1:], range(1_000))]
    for stripe, said in zip(report["stripes"], report["stripeStatistics"], strict=True):
        end = start + stripe["stripeInformation"]["rowCount"]
        scopes.append((said["columnStatistics"][1:], range(start, end)))
        entries = zip(*(index["rowGroupIndexes"] for index in stripe["indexes"]), strict=True)
        scopes += zip(entries, (range(at, min(at + 100, end)) for at in range(start, end, 100)), strict=True)
        start = end
    assert start == 1_000 and len(report["stripes"]) > 1
    for said, rows in scopes:
        for (name, column), one in zip(made.items(), said, strict=True):
            part = column[rows.start : rows.stop]
            bounds = pc.min_max(part.cast(pa.int64())).as_py()
            expected = {how: clock(value, column.type, None) for how, value in bounds.items()}
            expected |= {"count": len(part) - part.null_count, "hasNull": part.null_count > 0}
            assert {how: one[how] for how in expected} == expected, f"{name}: {rows}"
