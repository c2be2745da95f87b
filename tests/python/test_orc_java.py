"""ORC files by the reference writer, with settings under which it does what others do not: read and filtered as meant."""

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
from orc_files import compiled, copy_by_java, needs_java

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
    """Each day many times over, so that most row groups have only early or only late ones."""
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
    """What a scan finds that has nothing in memory: then it asks indexes and filters first."""
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
