"""Our ORC files as other readers see them: the reference reader in Java, which seeks by our row index, and pyarrow."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest

from orc_files import BLOOMS, CODECS, STRIDES, TABLES, Judge, compiled, expected, needs_files, needs_java, path

pytestmark = needs_files


@pytest.mark.parametrize("table", TABLES)
def test_pyarrow_reads_back_what_was_written(table: str) -> None:
    rows = expected(table)
    for codec in CODECS:
        for layout in STRIDES:
            file = pa.orc.ORCFile(path(table, codec, layout))
            read = file.read()
            assert read.num_rows == rows.num_rows
            for name in rows.column_names:
                same = read[name].cast(rows[name].type).combine_chunks().equals(rows[name].combine_chunks())
                assert same, f"{table}, {codec}, {layout}: {name}"
            assert file.row_index_stride == STRIDES[layout]
            assert file.compression == ("UNCOMPRESSED" if codec == "none" else codec.upper())
            assert file.metadata[b"layout"] == layout.encode()


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("classes"))


def judge(table: str, classes: Path, folder: Path) -> Judge:
    reference = folder / f"{table}.orc"
    rows = expected(table)
    # The Java reader refuses timestamps that pyarrow wrote before 1970.
    fields = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in rows.schema]
    pa.orc.write_table(rows.cast(pa.schema(fields)), reference)
    return Judge(classes, reference)


@needs_java
@pytest.mark.parametrize("table", ["nulls", "coded", "one", "none"])
def test_java_reads_back_what_was_written(table: str, classes: Path, tmp_path: Path) -> None:
    files = [path(table, codec, layout) for codec in CODECS for layout in STRIDES]
    rows = expected(table).num_rows
    for file, ranges in zip(files, judge(table, classes, tmp_path).read([[str(file)] for file in files]), strict=True):
        assert ranges == ([range(rows)] if rows else []), file


def predicates(rows: pa.Table) -> list[tuple[list[str], pc.Expression]]:
    """Returns predicates in both languages."""
    field = pc.field
    last = {name: next(value for value in reversed(rows[name].to_pylist()) if value is not None) for name in (
        "noise", "sorted", "runs", "many", "unique", "day", "clock", "money", "double", "bytes")}
    text = {name: str(value) for name, value in last.items()}
    text["clock"] = last["clock"].isoformat(sep=" ", timespec="microseconds")
    early = datetime.datetime(1969, 6, 1)
    return [
        (["id", "between", "LONG", "7300", "7400"], (field("id") >= 7300) & (field("id") <= 7400)),
        (["id", "less", "LONG", "0"], field("id") < 0),
        (["id", "between", "LONG", "9999", "10000"], (field("id") >= 9999) & (field("id") <= 10_000)),
        (["sorted", "equals", "LONG", text["sorted"]], field("sorted") == last["sorted"]),
        (["runs", "equals", "LONG", "3"], field("runs") == 3),
        (["runs", "equals", "LONG", text["runs"]], field("runs") == last["runs"]),
        (["outliers", "less", "LONG", "0"], field("outliers") < 0),
        (["noise", "equals", "LONG", text["noise"]], field("noise") == last["noise"]),
        (["noise", "less", "LONG", "-9210000000000000000"], field("noise") < -9_210_000_000_000_000_000),
        (["short", "less", "LONG", "-1490"], field("short") < -1490),
        (["many", "equals", "STRING", text["many"]], field("many") == last["many"]),
        (["many", "less", "STRING", "customer 000001"], field("many") < "customer 000001"),
        (["unique", "equals", "STRING", text["unique"]], field("unique") == last["unique"]),
        (["unique", "less", "STRING", "001"], field("unique") < "001"),
        (["few", "equals", "STRING", "AARDVARK"], field("few") == "AARDVARK"),
        (["few", "null", "STRING"], field("few").is_null()),
        (["day", "equals", "DATE", text["day"]], field("day") == last["day"]),
        (["day", "less", "DATE", "1950-01-01"], field("day") < datetime.date(1950, 1, 1)),
        (["clock", "less", "TIMESTAMP", "1969-06-01 00:00:00"], field("clock") < early),
        (["clock", "equals", "TIMESTAMP", text["clock"]], field("clock") == last["clock"]),
        (["money", "equals", "DECIMAL", text["money"]], field("money") == last["money"]),
        (["money", "less", "DECIMAL", "-1e12"], field("money") < decimal.Decimal("-1e12")),
        (["money", "less", "DECIMAL", "-99950000.25"], field("money") < decimal.Decimal("-99950000.25")),
        (["double", "equals", "FLOAT", repr(last["double"])], field("double") == last["double"]),
        (["double", "less", "FLOAT", "-2.25e15"], field("double") < -2.25e15),
        (["yes", "equals", "BOOLEAN", "true"], field("yes")),
        (["early", "less", "LONG", "3500"], field("early") < 3500),
        (["early", "null", "LONG"], field("early").is_null()),
        (["never", "equals", "STRING", "x"], field("never") == "x"),
        (["pair.number", "between", "LONG", "30", "40"],
         (field("pair", "number") >= 30) & (field("pair", "number") <= 40)),
    ]


def row_groups(file: Path) -> list[range]:
    """Returns the rows of each row group; each stripe begins a new one."""
    reader, stride = pa.orc.ORCFile(file), STRIDES[file.stem.split("-")[-1]]
    groups, start = [], 0
    for stripe in range(reader.nstripes):
        end = start + reader.read_stripe(stripe, columns=["id"]).num_rows
        groups += [range(first, min(first + stride, end)) for first in range(start, end, stride)]
        start = end
    return groups


def admits(command: list[str], values: pa.Array) -> bool:
    """Returns whether a row group's minimum and maximum admit a row that matches the predicate."""
    _, operator, _, *literals = command
    if operator == "null":
        return values.null_count > 0
    bounds = pc.min_max(values)
    kind, minimum, maximum = values.type, bounds["min"].as_py(), bounds["max"].as_py()
    if minimum is None:
        return False
    low, *high = [literal_of(literal, kind) for literal in literals]
    if operator == "less":
        return minimum < low
    return minimum <= (high or [low])[0] and maximum >= low


def literal_of(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return text == "true"
    if pa.types.is_timestamp(kind):
        return datetime.datetime.fromisoformat(text)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(text)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(text)
    if pa.types.is_floating(kind):
        return float(text)
    return int(text) if pa.types.is_integer(kind) else text


def column_of(rows: pa.Table, name: str) -> pa.Array:
    first, *inner = name.split(".")
    column = rows[first].combine_chunks()
    return pc.struct_field(column, inner) if inner else column


@needs_java
@pytest.mark.parametrize("table", ["full", "coded_nulls"])
def test_java_reads_the_row_groups_that_a_predicate_leaves_and_no_others(
    table: str, classes: Path, tmp_path: Path
) -> None:
    rows = expected(table)
    files = [path(table, codec, layout) for codec in CODECS for layout in STRIDES]
    groups = {file: row_groups(file) for file in files}
    cases = [(file, *predicate) for file in files for predicate in predicates(rows)]
    answers = judge(table, classes, tmp_path).read([[str(file), *command] for file, command, _ in cases])
    for (file, command, expression), ranges in zip(cases, answers, strict=True):
        column = column_of(rows, command[0])
        returned = {row for found in ranges for row in found}
        matching = set(rows.filter(expression)["id"].to_pylist())
        admitted = [group for group in groups[file] if admits(command, column[group.start : group.stop])]
        if command[0] in BLOOMS and command[1] == "equals":
            # Bloom filters exclude more, and are wrong for one row group in a hundred.
            needed = [group for group in admitted if not matching.isdisjoint(group)]
            read = [group for group in admitted if not returned.isdisjoint(group)]
            assert len(read) <= len(needed) + len(groups[file]) // 10, f"{file}: {command} read {read}"
            admitted = read
        assert returned == {row for group in admitted for row in group}, f"{file}: {command} returned {ranges}"
        assert returned.issuperset(matching), f"{file}: {command}"
