"""Statistics of our ORC files, as the reference tools in Java print them, compared with what pyarrow reads."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest

from orc_files import CODECS, STRIDES, TABLES, needs_files, needs_java, path, printed_rows, reports

pytestmark = [needs_files, needs_java]


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_collection(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_map(kind)


def numbered(rows: pa.Table) -> list[pa.Array]:
    """Returns the columns by their numbers in the file: nested columns only where their parents are not null."""
    return [rows.to_struct_array().combine_chunks(), *(
        part for column in rows.columns for part in parts(column.combine_chunks())
    )]


def parts(column: pa.Array) -> Iterator[pa.Array]:
    yield column
    kind, present = column.type, column.drop_null()
    if pa.types.is_struct(kind):
        for child in present.flatten():
            yield from parts(child)
    elif pa.types.is_map(kind):
        for child in pc.list_flatten(lists(present)).flatten():
            yield from parts(child)
    elif pa.types.is_list(kind):
        yield from parts(pc.list_flatten(present))


def lists(maps: pa.Array) -> pa.Array:
    """Returns maps as lists of their entries."""
    return maps.cast(pa.list_(pa.struct([maps.type.key_field, maps.type.item_field])))


def exact_sum(column: pa.Array) -> decimal.Decimal:
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(19, 0))
    return pc.sum(column.cast(pa.decimal256(76, scale))).as_py() or decimal.Decimal(0)


def statistics(column: pa.Array) -> dict[str, Any]:
    """Returns the statistics of the values, by the names that the tools use."""
    kind, present = column.type, column.drop_null()
    true: dict[str, Any] = {"count": len(present), "hasNull": column.null_count > 0}
    if pa.types.is_boolean(kind):
        trues = pc.sum(present).as_py() or 0
        return true | {"trueCount": trues, "falseCount": len(present) - trues}
    if is_collection(kind):
        lengths = pc.list_value_length(lists(present) if pa.types.is_map(kind) else present)
        bounds = pc.min_max(lengths).as_py() if len(present) else {}
        true |= {f"{name}Children": bound for name, bound in bounds.items()}
        return true | {"totalChildren": pc.sum(lengths).as_py() or 0}
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        true["totalLength"] = pc.sum(pc.binary_length(present)).as_py() or 0
    if pa.types.is_struct(kind) or pa.types.is_binary(kind):
        return true
    if pa.types.is_timestamp(kind):
        present = present.cast(pa.timestamp("us"))
    if len(present):
        true |= pc.min_max(present).as_py()
    if pa.types.is_floating(kind):
        true["sum"] = math.fsum(present.to_pylist())
    elif pa.types.is_decimal(kind) and len(present):
        true["sum"] = exact_sum(present)
    elif pa.types.is_integer(kind) and -(2**63) <= exact_sum(present) < 2**63:
        true["sum"] = int(exact_sum(present))
    return true


def value_of(text: Any, kind: pa.DataType) -> Any:
    """Parses a value that the tools print."""
    if text is None:
        return None
    if pa.types.is_decimal(kind):
        return decimal.Decimal(text)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(text.removeprefix("Hybrid AD "))
    if pa.types.is_timestamp(kind):
        return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f")
    if pa.types.is_binary(kind):
        return bytes(byte % 256 for byte in text)
    if pa.types.is_map(kind):
        return [(entry["_key"], entry["_value"]) for entry in text]
    return text


def said_of(printed: dict[str, Any], kind: pa.DataType) -> dict[str, Any]:
    """Returns the printed statistics, without other printed values."""
    beside = {"columnId", "entryId", "positions", "bytesOnDisk", "type"}
    said = {name: value for name, value in printed.items() if name not in beside}
    # For no values, the tools print the initial values of their counters.
    if not said["count"] and is_number(kind):
        del said["min"], said["max"]
    if not said["count"] and is_collection(kind):
        del said["minChildren"], said["maxChildren"]
    for name in {"min", "max", "sum"} & said.keys():
        said[name] = value_of(said[name], kind)
    return said


def check(printed: dict[str, Any], column: pa.Array, where: str) -> None:
    said, true = said_of(printed, column.type), statistics(column)
    # For a long string, a prefix bounds the others.
    if "lowerBound" in said:
        lower, minimum = said.pop("lowerBound").encode(), true.pop("min").encode()
        assert len(lower) <= 1024 < len(minimum) and minimum.startswith(lower), where
    if "upperBound" in said:
        upper, maximum = said.pop("upperBound").encode(), true.pop("max").encode()
        assert len(upper) <= 1025 < len(maximum) + 1 and upper > maximum, where
        assert upper.decode()[:-1] == maximum.decode()[: len(upper.decode()) - 1], where
    if pa.types.is_floating(column.type):
        # Sums of floats depend on the order.
        size = math.fsum(abs(value) for value in column.drop_null().to_pylist())
        assert math.isclose(said.pop("sum"), true.pop("sum"), rel_tol=0, abs_tol=1e-9 * size), where
    assert said == true, where


@pytest.fixture(scope="module")
def printed() -> dict[Path, dict[str, Any]]:
    """Returns the tools' output for each file and its row groups. They merge the bloom filters of a stripe."""
    files = [path(table, codec, layout) for table in TABLES for codec in CODECS for layout in STRIDES]
    columns = numbered_names(pa.orc.ORCFile(files[0]).schema)
    numbers = ",".join(str(number) for number in range(len(columns)))
    return reports(files, "-r", numbers)


def numbered_names(schema: pa.Schema) -> list[str]:
    empty = schema.empty_table()
    return ["", *(name for name in schema.names for _ in parts(empty[name].combine_chunks()))]


def test_the_tools_accept_every_file(printed: dict[Path, dict[str, Any]]) -> None:
    for file, report in printed.items():
        table, codec, layout = file.stem.split("-")
        assert report["status"] == "OK" and report["fileVersion"] == "0.12", file
        assert report["compression"] == codec.upper(), file
        assert report["calendar"] == "proleptic Gregorian", file
        assert report["userMetadata"]["layout"] == layout, file
        assert report["numberOfRows"] == pa.orc.ORCFile(file).nrows, file
        assert report["fileLength"] == file.stat().st_size, file
        if layout != "small":
            assert len(report["stripes"]) <= 1, file


@pytest.mark.parametrize("layout", STRIDES)
@pytest.mark.parametrize("table", TABLES)
def test_statistics_of_files_and_stripes_are_those_of_the_data(
    table: str, layout: str, printed: dict[Path, dict[str, Any]]
) -> None:
    for codec in ("none", "zstd"):
        file = path(table, codec, layout)
        report, reader = printed[file], pa.orc.ORCFile(file)
        scopes = [(report["fileStatistics"], reader.read())]
        for number, stripe in enumerate(report["stripeStatistics"]):
            assert stripe["stripeNumber"] == number + 1
            rows = pa.Table.from_batches([reader.read_stripe(number)])
            scopes.append((stripe["columnStatistics"], rows))
        assert len(scopes) == reader.nstripes + 1
        for scope, (said, rows) in enumerate(scopes):
            for column, values in zip(said, numbered(rows), strict=True):
                check(column, values, f"{file}, stripe {scope}, column {column['columnId']}")


@pytest.mark.parametrize("layout", STRIDES)
@pytest.mark.parametrize("table", TABLES)
def test_statistics_of_row_groups_are_those_of_the_data(
    table: str, layout: str, printed: dict[Path, dict[str, Any]]
) -> None:
    for codec in ("none", "zstd"):
        file = path(table, codec, layout)
        stride, reader = STRIDES[layout], pa.orc.ORCFile(file)
        for number, stripe in enumerate(printed[file]["stripes"]):
            rows = pa.Table.from_batches([reader.read_stripe(number)])
            assert stripe["stripeInformation"]["rowCount"] == rows.num_rows
            groups = [numbered(rows.slice(start, stride)) for start in range(0, rows.num_rows, stride)]
            for index in stripe["indexes"]:
                column, entries = index["columnId"], index["rowGroupIndexes"]
                assert len(entries) == len(groups)
                for entry, group in zip(entries, groups, strict=True):
                    where = f"{file}, stripe {number + 1}, column {column}, row group {entry['entryId']}"
                    check(entry, group[column], where)


@pytest.mark.parametrize("table", ["full", "coded_nulls"])
def test_the_tools_print_the_rows_that_pyarrow_reads(table: str) -> None:
    file = path(table, "zstd", "small")
    rows = pa.orc.ORCFile(file).read()
    lines = printed_rows([file])[file]
    assert len(lines) == rows.num_rows
    for field in rows.schema:
        values = pa.array([value_of(line[field.name], field.type) for line in lines], field.type)
        assert values.equals(rows[field.name].combine_chunks()), f"{file}: {field.name}"
