"""ORC files by the reference writer, with settings that other writers lack: read and filtered as intended."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import stylobate as st

from conftest import settle
from orc_files import compiled, copy_by_java, needs_java, write_unions

pytestmark = needs_java

DAYS = [
    dt.date(1, 1, 1),
    dt.date(4, 2, 29),
    dt.date(300, 3, 1),
    dt.date(1000, 12, 31),
    dt.date(1500, 2, 28),
    dt.date(1500, 3, 1),
    dt.date(1582, 10, 4),
    dt.date(1582, 10, 15),
    dt.date(1582, 10, 16),
    dt.date(1899, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2020, 2, 29),
    dt.date(9999, 12, 31),
]
HYBRID = {"orc.proleptic.gregorian": "false"}
GREGORIAN = {"orc.proleptic.gregorian": "true"}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("classes"))


def times() -> pa.Table:
    """A table with each day repeated, so that most row groups have only early or only late ones."""
    days = [day for day in DAYS for _ in range(200)]
    clocks = [dt.datetime.combine(day, dt.time(1, 2, 3)) for day in days]
    rows = pa.array(range(len(days)), pa.int64())
    clock = pa.array(clocks, pa.timestamp("us"))
    instant = clock.cast(pa.timestamp("us", "UTC"))
    return pa.table({"row": rows, "day": pa.array(days), "clock": clock, "instant": instant})


@pytest.mark.parametrize("calendar", [HYBRID, GREGORIAN], ids=["hybrid", "gregorian"])
def test_days_before_1582_keep_their_names(calendar: dict[str, str], classes: Path, tmp_path: Path) -> None:
    table, source, copy = times(), tmp_path / "a.orc", tmp_path / "b.orc"
    st.write_orc(table, source)
    blooms = {"orc.bloom.filter.columns": "day,clock,instant", "orc.row.index.stride": "1000"}
    copy_by_java(classes, [(source, copy, calendar | blooms)])
    settle(copy)
    assert fresh(copy, None).equals(table)
    for day in DAYS:
        at = dt.datetime.combine(day, dt.time(1, 2, 3))
        for name, value in (("day", day), ("clock", at), ("instant", at.replace(tzinfo=dt.timezone.utc))):
            column = st.col(name)
            wanted = {
                "==": (column == value, pc.equal),
                "<": (column < value, pc.less),
                ">=": (column >= value, pc.greater_equal),
            }
            for sign, (filter_, of) in wanted.items():
                expected = table.filter(of(table[name], pa.scalar(value, table[name].type)))["row"]
                found = fresh(copy, filter_)["row"]
                assert found.equals(expected), f"{name} {sign} {value}"


@pytest.mark.parametrize("version", ["0.12", "UNSTABLE-PRE-2.0"])
def test_bloom_filters_rule_no_decimal_out_that_is_there(version: str, classes: Path, tmp_path: Path) -> None:
    texts = ["1.00", "1.50", "2.00", "-0.25", "7.77"]
    values = pa.array([Decimal(texts[row % 5]) for row in range(5_000)], pa.decimal128(9, 2))
    table = pa.table({"d": values, "wide": values.cast(pa.decimal128(30, 4))})
    source, copy = tmp_path / "a.orc", tmp_path / "b.orc"
    st.write_orc(table, source)
    settings = {"orc.write.format": version, "orc.bloom.filter.columns": "d,wide", "orc.row.index.stride": "1000"}
    copy_by_java(classes, [(source, copy, settings)])
    settle(copy)
    assert st.inspect(copy)["format_version"] == ("0.12" if version == "0.12" else "1.9999")
    for column in ("d", "wide"):
        for text in texts:
            assert fresh(copy, f"{column} = {text}").num_rows == 1_000, f"{column} = {text}"
        assert fresh(copy, f"{column} = 3.21").num_rows == 0
    assert fresh(copy, None).equals(table)


def fresh(path: Path, filter_: Any) -> pa.Table:
    """Scans with an empty cache, which reads indexes and filters first."""
    with st.Cache(memory="64MiB") as cache:
        return st.scan(path, filter=filter_, cache=cache).to_arrow()


def test_bounds_that_are_cut_lose_no_text(classes: Path, tmp_path: Path) -> None:
    texts = ["\U0010ffff" * 300, "x" * 1_000 + "\U0010ffff" * 50, "\uffff" * 400, "x" * 1_030 + "y"]
    source, copy = tmp_path / "a.orc", tmp_path / "b.orc"
    table = pa.table({"s": [[*texts, "a"][row // 1_000] for row in range(5_000)]})
    st.write_orc(table, source)
    copy_by_java(classes, [(source, copy, {"orc.row.index.stride": "1000"})])
    settle(copy)
    for text in texts:
        assert fresh(copy, st.col("s") == text).num_rows == 1_000
        start = text[:2]
        expected = sum(other.startswith(start) for other in table["s"].to_pylist())
        assert fresh(copy, st.col("s").starts_with(start)).num_rows == expected


@pytest.mark.parametrize("calendar", [HYBRID, GREGORIAN], ids=["hybrid", "gregorian"])
@pytest.mark.parametrize(
    "zone",
    [
        "America/Los_Angeles",
        "Europe/Amsterdam",
        "Europe/Dublin",
        "Asia/Kolkata",
        "Africa/Casablanca",
        "Australia/Sydney",
        "Pacific/Apia",
    ],
)
def test_clocks_of_every_zone_show_what_they_showed(
    zone: str, calendar: dict[str, str], classes: Path, tmp_path: Path
) -> None:
    """Java has no zone offsets before 1900, and uses today's standard time instead."""
    years = [1, 1000, 1500, 1582, 1583, 1700, 1800, 1850, 1883, 1899, 1971, 2000, 2014, 2030, 2050, 2150]
    clocks = [dt.datetime(year, month, day, 1, 2, 3) for year in years for month, day in ((1, 15), (7, 15), (12, 31))]
    table = pa.table({"row": range(len(clocks)), "clock": pa.array(clocks, pa.timestamp("us"))})
    source, copy = tmp_path / "a.orc", tmp_path / "b.orc"
    st.write_orc(table, source)
    copy_by_java(classes, [(source, copy, calendar)], zone)
    settle(copy)
    assert fresh(copy, None)["clock"].to_pylist() == clocks
    for at, clock in enumerate(clocks):
        assert fresh(copy, st.col("clock") == clock)["row"].to_pylist() == [at]


def union_value(row: int) -> Any:
    """Returns the value that `WriteUnions.java` wrote."""
    return [row, f"t{row % 50}", {"a": row}, None, row, None, None][row % 7]


@pytest.mark.parametrize("settings", [{}, {"orc.compress": "NONE", "orc.row.index.stride": "1000"}])
def test_unions_are_read(settings: dict[str, str], classes: Path, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.orc", 20_000
    write_unions(classes, path, rows, settings)
    settle(path)
    expected = [union_value(row) for row in range(rows)]

    read = fresh(path, None)
    kind = read.schema.field("either").type
    assert pa.types.is_union(kind) and kind.mode == "sparse"
    assert [field.type for field in kind] == [pa.int64(), pa.string(), pa.struct([pa.field("a", pa.int64())])]
    assert read["row"].to_pylist() == list(range(rows))
    assert read["either"].to_pylist() == expected

    with st.Cache(memory="64MiB") as cache:
        scan = st.scan(path, columns=["row"], cache=cache)
        assert scan.to_arrow()["row"].to_pylist() == list(range(rows))
        for _ in range(2):
            either = st.scan(path, columns=["either"], cache=cache, batch_rows=777).to_arrow()["either"]
            assert either.num_chunks > 20 and either.to_pylist() == expected


def test_rows_of_unions_are_selected(classes: Path, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.orc", 200_000
    write_unions(classes, path, rows, {"orc.compress": "NONE", "orc.row.index.stride": "1000"})
    settle(path)
    for first, last in ((3, 20), (123_456, 123_470), (199_998, 199_999)):
        found = fresh(path, f"row >= {first} AND row <= {last}")
        assert found["either"].to_pylist() == [union_value(row) for row in range(first, last + 1)]
    every = fresh(path, "row < 5000 OR row > 150000")
    assert every["either"].to_pylist() == [union_value(row) for row in every["row"].to_pylist()]
    missing = fresh(path, "either IS NULL")["row"].to_pylist()
    assert missing == [row for row in range(rows) if union_value(row) is None]


def test_unions_cannot_be_compared_or_written(classes: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    write_unions(classes, path, 100, {})
    settle(path)
    with pytest.raises(st.StylobateError, match="either"):
        st.scan(path, filter="either = 1").to_arrow()
    read = fresh(path, None)
    with pytest.raises(st.StylobateError, match="either: unions are not written"):
        st.write_orc(read, tmp_path / "b.orc")
    with pytest.raises(st.StylobateError, match="either: Parquet has no unions"):
        st.write_parquet(read, tmp_path / "b.parquet")


def test_a_postscript_without_magic_is_one_of_the_first_writers(tmp_path: Path) -> None:
    """Hive 0.11 wrote the magic at the head of the file only."""
    table, path = pa.table({"i": [1, None, 3]}), tmp_path / "a.orc"
    st.write_orc(table, path)
    data = path.read_bytes()
    assert data[:3] == b"ORC" and data[-4:-1] == b"ORC"
    # The last field of the postscript: its key of three bytes, its length, and the magic.
    assert data[-8:-4] == b"\x82\xf4\x03\x03"
    path.write_bytes(data[:-8] + bytes([data[-1] - 7]))
    settle(path)
    assert fresh(path, None).to_pylist() == table.to_pylist()
    assert st.inspect(path)["format"] == "orc"
    path.write_bytes(b"XXX" + path.read_bytes()[3:])
    settle(path)
    with pytest.raises(st.StylobateError, match="neither a Parquet nor an ORC file"):
        fresh(path, None)
