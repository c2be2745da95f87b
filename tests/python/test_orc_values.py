"""Integers that need runs of every kind and width, decimals of every size and floats of every kind, written by
`write_orc` and read by others."""

from __future__ import annotations

import decimal
import itertools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
import stylobate as st

from matrix import Case
from orc_files import Judge, compiled, needs_java, printed_rows, reports
from orc_printed import unlike
from orc_runs import WIDTHS, Run, runs, streams
from test_write_orc import failures, stored

# Numbers in the longest run.
RUN = 512


def check(table: pa.Table, folder: Path, *options: dict[str, Any]) -> list[Path]:
    """Writes a table with each of the options; checks that Java, pyarrow and a scan read what was written."""
    paths = [folder / f"{at}.orc" for at in range(len(options))]
    for path, chosen in zip(paths, options, strict=True):
        assert not list(failures(Case(0, table, chosen), path)), chosen
    for path, rows in printed_rows(paths).items():
        assert not unlike(rows, table), options[paths.index(path)]
    return paths


# With compression, runs have widths whose numbers end at byte boundaries.
PLAIN = {"compression": "none", "row_index_stride": 1_000}
PRESSED = {"compression": "zstd", "row_index_stride": 1_000}


# Integers.


def of_width(rng: random.Random, width: int, is_signed: bool) -> int:
    """Returns a number that takes exactly `width` bits, including the sign if it is signed."""
    # 0 takes a bit, too.
    if not is_signed:
        return rng.getrandbits(1) if width == 1 else 1 << width - 1 | rng.getrandbits(width - 1)
    size = 0 if width == 1 else 1 << width - 2 | rng.getrandbits(width - 2) if width > 2 else 1
    return -1 - size if rng.random() < 0.5 else size


def wide_runs(rng: random.Random, max_width: int, is_signed: bool = True) -> dict[str, list[int]]:
    """Returns numbers of up to `max_width` bits, in blocks that are one run each: of every kind and width."""
    low, high = (-1 << max_width - 1, (1 << max_width - 1) - 1) if is_signed else (0, (1 << max_width) - 1)

    def any_number(width: int) -> int:
        return of_width(rng, width, is_signed)

    def patched(width: int, patch: int) -> list[int]:
        # Readers accept a base of 56 bits at most.
        base = max(-1 << 55, min(rng.choice([low, low // 3, low // 1_000, 0, 1, high // 5]), 1 << 55))
        top = min((1 << width + patch) - 1, high - base)
        numbers = [base + rng.randint(0, (1 << width) - 1) for _ in range(RUN)]
        for at in rng.sample(range(1, RUN), rng.randint(1, 12)):
            numbers[at] = base + rng.randint(top // 2 + 1, top)
        return [base, *numbers[1:]]

    def rising(steps: list[int]) -> list[int]:
        start = rng.randint(low, high - sum(steps))
        return [start + step for step in itertools.accumulate(steps)]

    def uneven(width: int) -> list[int]:
        return rising([1 << width - 1 | rng.getrandbits(width - 1) for _ in range(RUN)])

    def repeats() -> Iterator[int]:
        for width, count in itertools.product(range(1, max_width + 1), range(1, 13)):
            yield from [any_number(width)] * count
            yield from [any_number(max_width) for _ in range(rng.randint(1, 3))]

    widths, rises = range(1, max_width + 1), range(1, max_width - 9)
    # A patch has 56 bits at most.
    splits = [
        (width, patch)
        for width in range(1, max_width - 2)
        for patch in sorted({rng.randint(2, min(56, max_width - width - 1)), min(56, max_width - width - 1)})
    ]
    made = {
        "direct": [any_number(width) for width in widths for _ in range(RUN)],
        "patched": [number for width, patch in splits for number in patched(width, patch)],
        "patches": [number for patch in range(1, min(57, max_width - 5)) for number in patched(4, patch)],
        "rising": [number for width in rises for number in uneven(width)],
        "falling": [number for width in rises for number in reversed(uneven(width))],
        "steady": [number for width in rises for number in rising([rng.getrandbits(width)] * RUN)],
        "sorted": sorted(rng.randint(low, high) for _ in range(3 * RUN)),
        "repeats": list(repeats()),
        "constant": [number for width in widths for number in [any_number(width)] * RUN],
    }
    return {name: numbers for name, numbers in made.items() if numbers}


def padded(columns: dict[str, pa.Array]) -> pa.Table:
    """Pads columns with nulls to the length of the longest."""
    rows = max(map(len, columns.values()))
    return pa.table({
        name: pa.concat_arrays([column, pa.nulls(rows - len(column), column.type)]) for name, column in columns.items()
    })


def runs_of(path: Path, columns: dict[str, int], section: str) -> dict[str, list[Run]]:
    """Returns the runs in a stream of each column, by column name; `columns` gives its number."""
    found = streams(path, reports([path])[path], section)
    return {name: [run for stream in found[number] for run in runs(stream)] for name, number in columns.items()}


def widths(written: list[Run], kind: str) -> set[int]:
    return {run.width for run in written if run.kind == kind}


@needs_java
def test_numbers_in_runs_of_every_kind_and_width_are_read(tmp_path: Path) -> None:
    rng = random.Random("runs")
    columns = {
        f"{name}_{type_.bit_width}": pa.array(numbers, type_)
        for type_ in (pa.int64(), pa.int32(), pa.int16())
        for name, numbers in wide_runs(rng, type_.bit_width).items()
    }
    # Differences of more bits than many of them could have.
    columns["leaps"] = pa.array([0, 1, 1 << 60, 1 << 61, 1 << 62, (1 << 62) + 1, (1 << 62) + 2])
    path, _ = check(padded(columns), tmp_path, PLAIN, PRESSED)
    found = runs_of(path, {name: number for number, name in enumerate(columns, 1)}, "DATA")
    for name, column in columns.items():
        assert sum(run.count for run in found[name]) == len(column), name
    for bits in (64, 32, 16):
        all_ = {width for width in WIDTHS if width <= bits}
        assert widths(found[f"direct_{bits}"], "direct") == all_
        assert widths(found[f"patched_{bits}"], "patched base") >= {width for width in all_ if width < bits - 4}
        # Differences have at least two bits: one bit has the code of those that are all the same.
        for name in (f"rising_{bits}", f"falling_{bits}"):
            assert widths(found[name], "delta") >= {width for width in all_ if 1 < width < bits - 9}
        assert widths(found[f"steady_{bits}"], "delta") == widths(found[f"constant_{bits}"], "delta") == {0}
        repeats = {(run.width, run.count) for run in found[f"repeats_{bits}"] if run.kind == "short repeat"}
        assert repeats == set(itertools.product(range(1, bits // 8 + 1), range(3, 11)))
    patch_widths = {run.patch_width for run in found["patches_64"] if run.kind == "patched base"}
    assert patch_widths >= {width for width in WIDTHS if 1 < width <= 56}
    assert found["leaps"] == [Run("delta", 64, 7)]


@needs_java
def test_numbers_without_a_sign_are_read_in_runs_of_every_kind_and_width(tmp_path: Path) -> None:
    rng = random.Random("unsigned runs")
    columns: dict[str, pa.Array] = {}
    for name, numbers in wide_runs(rng, 29, is_signed=False).items():
        # Fractions of a second without trailing zeros to drop.
        fractions = [number + (number % 100 == 0) for number in numbers]
        columns[f"time_{name}"] = pa.array(fractions, pa.timestamp("ns"))
    for name, numbers in wide_runs(rng, 12, is_signed=False).items():
        # A dictionary of all strings, in order.
        columns[f"code_{name}"] = pa.array([f"{number:04d}" for number in [*numbers, *range(1 << 12)]])
    for name, numbers in wide_runs(rng, 8, is_signed=False).items():
        columns[f"text_{name}"] = pa.array(["x" * number for number in numbers])
    ends = {name: list(itertools.accumulate(numbers)) for name, numbers in wide_runs(rng, 6, is_signed=False).items()}
    for name, offsets in ends.items():
        columns[f"list_{name}"] = pa.ListArray.from_arrays([0, *offsets], pa.array([True] * offsets[-1]))
    coded = {"dictionary": [name for name in columns if name.startswith("code")]}
    path, _ = check(padded(columns), tmp_path, PLAIN | coded, PRESSED | coded)
    # The lengths of lists are runs, too.
    parts = [part for name in columns for part in ([name, ""] if name.startswith("list") else [name])]
    sections = {"time": "SECONDARY", "code": "DATA", "text": "LENGTH", "list": "LENGTH"}
    for kind, max_width in (("time", 32), ("code", 12), ("text", 8), ("list", 6)):
        numbers = {name: number for number, name in enumerate(parts, 1) if name.startswith(kind)}
        found = runs_of(path, numbers, sections[kind])
        for name in numbers:
            assert sum(run.count for run in found[name]) == len(columns[name]), name
        # Three bits of fractions count trailing zeros.
        direct = {width for width in WIDTHS if (4 if kind == "time" else 0) < width <= max_width}
        assert widths(found[f"{kind}_direct"], "direct") >= direct
        assert len(widths(found[f"{kind}_patched"], "patched base")) >= len(direct) // 2
        assert widths(found[f"{kind}_sorted"], "delta")
        assert widths(found[f"{kind}_constant"], "delta") == {0}
        repeats = {(run.width, run.count) for run in found[f"{kind}_repeats"] if run.kind == "short repeat"}
        assert repeats >= set(itertools.product(range(1, (max_width + 7) // 8), range(3, 11)))


@needs_java
def test_runs_of_bytes_and_bits_of_every_length_are_read(tmp_path: Path) -> None:
    rng = random.Random("bytes")
    # Runs have 3 to 130 bytes, with at most 128 literal bytes between them.
    lengths = [1, 2, 3, 4, 5, 63, 64, 127, 128, 129, 130, 131, 132, 133, 260, 261, 263, 1_040, 1_048]
    few = [rng.randint(-128, 127) for length in lengths for other in lengths for _ in range(2)]
    made = itertools.chain.from_iterable(
        [rng.randint(-128, 127)] * rng.choice(lengths) + [number ^ at % 2 for at in range(rng.choice(lengths))]
        for number in few
    )
    numbers = list(itertools.islice(made, 30_000))
    table = pa.table({
        "byte": pa.array(numbers, pa.int8()),
        "present": pa.array([number if number % 3 else None for number in numbers], pa.int8()),
        "bit": [number > 0 for number in numbers],
        "bits": [number > 0 if number % 5 else None for number in numbers],
        "eights": [numbers[at // 8] > 20 for at in range(len(numbers))],
    })
    check(table, tmp_path, PLAIN, PRESSED)


# Decimals and floats.

EXACT = decimal.Context(prec=40)


@needs_java
def test_decimals_of_every_size_are_read(tmp_path: Path) -> None:
    rng = random.Random("decimals")
    columns = {}
    for precision in range(1, 39):
        for scale in range(precision + 1):
            limit = 10**precision - 1
            digits = [0, 1, -1, limit, -limit, None, limit // 9, -(10 ** (precision - 1)), 10 ** (precision // 2)]
            digits += [rng.randint(-limit, limit) for _ in range(8)]
            digits += [-1 << 63, (1 << 63) - 1, 1 << 63, -1 - (1 << 63)] if precision > 18 else []
            digits = [digit if digit is None or abs(digit) <= limit else None for digit in (digits + [None] * 4)[:21]]
            values = [digit if digit is None else EXACT.scaleb(decimal.Decimal(digit), -scale) for digit in digits]
            columns[f"d{precision}_{scale}"] = pa.array(values, pa.decimal128(precision, scale))
    assert len(columns) == 38 * 39 // 2 + 38
    check(pa.table(columns), tmp_path, PLAIN, PRESSED)


def odd_floats(native: Any) -> list[float]:
    kind = np.finfo(native)
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, kind.tiny, -kind.tiny, kind.smallest_subnormal, -kind.smallest_subnormal]
    return [float(value) for value in [*odd, kind.max, kind.min, kind.eps, 1.0, -1.0, 0.1, 1 / 3]]


@needs_java
def test_floats_of_every_sort_are_read(tmp_path: Path) -> None:
    columns = {}
    for name, type_, native in (("float", pa.float32(), np.float32), ("double", pa.float64(), np.float64)):
        odd = odd_floats(native)
        columns[name] = pa.array([*odd, None] * 300, type_)
        # Row groups that consist of one of them only.
        columns[f"{name}_runs"] = pa.array([value for value in [*odd, None] for _ in range(300)], type_)
        lists = pa.ListArray.from_arrays([*range(0, len(columns[name]), 2), len(columns[name])], columns[name])
        columns[f"{name}_lists"] = pa.concat_arrays([lists, pa.nulls(len(columns[name]) - len(lists), lists.type)])
    halves = pa.array(np.array(odd_floats(np.float16), np.float16).tolist() * 300 + [None] * 300, pa.float32())
    columns["half"] = halves.cast(pa.float16())
    check(pa.table(columns), tmp_path, PLAIN | {"row_index_stride": 100}, PRESSED)


# Row groups by content.
FLOAT_GROUPS: list[list[float | None]] = [
    [math.nan], [math.nan, 5.0], [-0.0], [0.0], [math.inf], [-math.inf], [math.inf, -math.inf], [None],
    [None, math.nan], [1.0, 2.0, None], [math.nan, -0.0], [-5.0, -4.0],
]


def has_bounds(group: list[float | None]) -> bool:
    """Returns whether the sum of the values is a number: a NaN sum tells readers that the bounds are incomplete."""
    return not math.isnan(sum(value for value in group if value is not None))


@needs_java
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_java_finds_floats_of_every_sort_by_predicates(type_: pa.DataType, tmp_path: Path) -> None:
    stride, path = 100, tmp_path / "a.orc"
    values = [group[at % len(group)] for group in FLOAT_GROUPS for at in range(stride)]
    floats = pa.array(values, type_)
    table = pa.table({"id": range(len(values)), "seen": floats, "filtered": floats})
    st.write_orc(table, path, row_index_stride=stride, bloom_filter_columns={"filtered": 0.0001})
    wanted = [("equals", value) for value in (5.0, 0.0, -0.0, math.inf, -math.inf, 1.0, -4.0, 1e9)]
    wanted += [("less", value) for value in (-1e30, -4.5, 0.0, 1.5, math.inf)]
    columns = ("seen", "filtered")
    literals = [(how, "FLOAT", repr(value).replace("inf", "Infinity")) for how, value in wanted]
    commands = [[str(path), name, *literal] for name in columns for literal in literals]
    answers = Judge(compiled(tmp_path), path).read(commands)
    for command, (how, value), ranges in zip(commands, wanted * 2, answers, strict=True):
        test = value.__eq__ if how == "equals" else value.__gt__
        returned = {row // stride for found in ranges for row in found}
        needed = {at for at, group in enumerate(FLOAT_GROUPS) if any(test(it) for it in group if it is not None)}
        assert returned >= needed, f"{command}: row groups {returned}, not {needed}"
        # Bounds exclude absent values; row groups with NaNs have no bounds.
        known = {at for at, group in enumerate(FLOAT_GROUPS) if has_bounds(group) and (value != 0 or 0 not in group)}
        assert not (returned - needed) & known, f"{command}: row groups {returned} were read for {needed}"
        if how == "equals" and command[1] == "filtered":
            assert returned & known == needed & known, command


# Strings.


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """Applies a change to a string, or to the strings of a list."""
    if isinstance(value, list):
        return [changed(item, change) for item in value]
    return value if value is None else change(value)


@needs_java
def test_texts_of_fixed_lengths_are_read(tmp_path: Path) -> None:
    given = ["", "a", "ab", "abcd", "æøåß", "🙂🙃🙂🙃", "日本", "a b", " a", "    ", "ab  ", None]
    types = ["char(1)", "char(4)", "char(255)", "varchar(1)", "varchar(4)", "varchar(65535)", "string"]
    fields, columns = [], []
    for type_ in types:
        max_length = int(type_.partition("(")[2].rstrip(")") or 1_000)
        values = [value if value is None or len(value) <= max_length else value[:max_length] for value in given * 50]
        values += ["ä" * min(max_length, 200), "x" * max_length]
        coded = pa.dictionary(pa.int8(), pa.string())
        for name, inner in (("top", pa.string()), ("large", pa.large_string()), ("coded", coded)):
            fields.append(pa.field(f"{name} {type_}", inner, metadata={"orc.type": type_}))
            columns.append(pa.array(values, pa.string()).cast(inner))
        item = pa.field("item", pa.string(), metadata={"orc.type": type_})
        fields.append(pa.field(f"list {type_}", pa.list_(item)))
        columns.append(pa.array([[value, "a"] for value in values], pa.list_(item)))
    table = pa.table(columns, schema=pa.schema(fields))
    files = [tmp_path / f"{dictionary}.orc" for dictionary in (True, False)]
    for file in files:
        st.write_orc(table, file, dictionary=file.stem == "True", row_index_stride=100)
    said = reports(files)
    for file, found in printed_rows(files).items():
        for type_ in types:
            assert f"`top {type_}`:{type_}" in said[file]["schemaString"]
            assert f"`list {type_}`:array<{type_}>" in said[file]["schemaString"]
        read = pa.orc.read_table(file)
        for field in table.schema:
            length = field.name.partition("char(")[2].rstrip(")")
            plain = table[field.name].cast(stored(field.type)).to_pylist()
            is_char = " char(" in field.name

            # Java returns padded strings without their padding.
            trimmed = [changed(value, str.rstrip) if is_char else value for value in plain]
            assert [row[field.name] for row in found] == trimmed, field
            filled = [changed(value, lambda text: text.ljust(int(length))) if is_char else value for value in plain]
            assert read[field.name].to_pylist() == filled, field
