"""Dates, local timestamps and instants that `write_orc` wrote, from the year 1 on, as others read them.

The reference tools in Java print a local timestamp as it was written, whatever the time zone that they run in, and an
instant in that zone's local time.
"""

from __future__ import annotations

import datetime
import random
import zoneinfo
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest
import stylobate as st

from conftest import settle
from orc_files import Judge, compiled, needs_java, printed_rows, reports
from orc_printed import BEGINNING, PER_SECOND, unlike
from test_matrix import column_differs
from test_write_orc import stored

ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Europe/Amsterdam"]
YEARS = [1, 2, 4, 5, 99, 100, 101, 400, 999, 1000, 1066, 1500, 1582, 1583, 1600, 1677, 1700, 1752, 1800, 1858, 1883,
         1899, 1900, 1901, 1904, 1930, 1937, 1940, 1968, 1969, 1970, 1971, 1999, 2000, 2014, 2015, 2037, 2038, 2039,
         2100, 2262, 3000, 9999]
DAYS = [(1, 1), (1, 2), (2, 28), (2, 29), (3, 1), (7, 4), (10, 4), (10, 15), (12, 30), (12, 31)]
# Fractions at the ends of a second: with up to the number of digits that are checked, and where readers are wrong
# before 1970.
FRACTIONS = [0, 1, 10, 999, 1_000, 999_999, 1_000_000, 1_000_001, 100_000_000, 120_000_000, 123_456_789, 500_000_000,
             999_000_000, 999_999_000, 999_999_999]
# Seconds since 1970 that fit in nanoseconds.
NANOSECONDS = range(-9_223_372_035, 9_223_372_036)
# Before then, Java uses the zone's present offset from UTC, and others local mean time.
EARLIEST_OFFSETS = -2_208_988_800


def is_day(year: int, month: int, day: int) -> bool:
    """Returns whether the day exists in Java's calendar, which skips from 4 to 15 October 1582."""
    try:
        at = datetime.date(year, month, day)
    except ValueError:
        return False
    return not datetime.date(1582, 10, 4) < at < datetime.date(1582, 10, 15)


def seconds() -> list[int]:
    """Returns seconds since 1970, in all years, but none in the hours that daylight saving may skip."""
    rng = random.Random("seconds")
    starts = [datetime.datetime(year, *day) for year in YEARS for day in DAYS if is_day(year, *day)]
    for _ in range(600):
        year, month, day = rng.randint(1, 9999), rng.randint(1, 12), rng.randint(1, 28)
        if is_day(year, month, day):
            starts.append(datetime.datetime(year, month, day))
    since = [int((start - BEGINNING).total_seconds()) for start in starts]
    found = [start + second for start in since for second in (4 * 3_600, rng.randint(4 * 3_600, 86_399), 86_399)]
    return found + TURNS + [0, -2, -3, -100, -86_400 // 2, 1_420_070_399, 1_420_070_400]


# Times in New York before and after a skipped hour, and before and after a repeated one.
TURNS = [
    int((datetime.datetime.fromisoformat(turn) - BEGINNING).total_seconds())
    for turn in ("1967-04-30 03:00:00", "2021-03-14 01:59:59", "2021-03-14 03:00:00", "2021-11-07 00:59:59",
                 "2021-11-07 02:00:01")
]


def values(unit: str) -> list[int | None]:
    """Returns all seconds with each of a few fractions, and an occasional null."""
    per, made = PER_SECOND[unit], []
    for at, second in enumerate(seconds()):
        if unit == "ns" and second not in NANOSECONDS:
            second = second % 9_000_000_000
        fraction = FRACTIONS[at % len(FRACTIONS)] * per // 10**9
        made.append(None if at % 23 == 7 else second * per + fraction)
    # ORC can store no other fractions of the last second before 1970.
    return made + [-per + fraction * per // 10**9 for fraction in FRACTIONS if fraction < 1_000_000]


def table() -> pa.Table:
    dates = pa.array([value and value // 86_400 for value in values("s")], pa.int32()).cast(pa.date32())
    columns = {"id": pa.array(range(len(dates))), "date": dates, "date64": dates.cast(pa.date64())}
    for unit in PER_SECOND:
        columns[f"local_{unit}"] = pa.array(values(unit), pa.timestamp(unit))
        columns[f"instant_{unit}"] = pa.array(values(unit), pa.timestamp(unit, "Asia/Tokyo"))
    lists = pa.ListArray.from_arrays(list(range(len(dates) + 1)), columns["local_us"])
    record = pa.StructArray.from_arrays([columns["instant_us"]], ["instant"])
    return pa.table(columns | {"lists": lists, "record": record})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The table in row groups of a hundred and in one, compressed and not."""
    folder = tmp_path_factory.mktemp("times")
    for stride, compression in ((100, "none"), (10_000, "zstd")):
        bloom = {"bloom_filter_columns": ["date", "local_us", "instant_us", "local_ns"]}
        st.write_orc(table(), folder / f"{compression}.orc", row_index_stride=stride, compression=compression, **bloom)
    return [folder / "none.orc", folder / "zstd.orc"]


def offset_in(zone: str) -> Callable[[int], int]:
    """Returns the function from an instant to the zone's offset from UTC, in seconds, according to Java."""
    known = zoneinfo.ZoneInfo(zone)

    def offset(second: int) -> int:
        at = BEGINNING + datetime.timedelta(seconds=second)
        at = datetime.datetime(2020, 1, 1) if second < EARLIEST_OFFSETS else at
        ahead = at.replace(tzinfo=datetime.timezone.utc).astimezone(known).utcoffset()
        return int(ahead.total_seconds())

    return offset


def is_settled(second: int, is_instant: bool) -> bool:
    """Returns whether all readers agree on the zone's local time. Time zone data differ from 1900 to 1970; and Java
    goes by the date in UTC where its calendar has a day that others do not have."""
    day = (BEGINNING + datetime.timedelta(seconds=second)).date()
    if is_instant and datetime.date(1899, 12, 30) <= day <= datetime.date(1970, 1, 2):
        return False
    if day < datetime.date(1, 1, 3) or day > datetime.date(9999, 12, 29):
        return False
    if datetime.date(1582, 10, 2) < day < datetime.date(1582, 10, 17):
        return False
    is_century = day.year < 1582 and day.year % 100 == 0
    return not (is_century and (2, 27) <= (day.month, day.day) <= (3, 2))


def settled(column: pa.Array) -> pa.Array:
    """Returns the column with disputed times removed."""
    kind = column.type
    kept = [
        value if value is not None and is_settled(value // PER_SECOND[kind.unit], kind.tz is not None) else None
        for value in column.cast(pa.int64()).to_pylist()
    ]
    return pa.array(kept, pa.int64()).cast(kind)


def plain(rows: pa.Table) -> pa.Table:
    """Returns the rows with times as integers."""
    counted = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in rows.schema]
    return rows.cast(pa.schema([field.with_type(type_) for field, type_ in zip(rows.schema, counted, strict=True)]))


@needs_java
def test_java_prints_the_times_of_all_years(files: list[Path]) -> None:
    for file, rows in printed_rows(files).items():
        assert not unlike(rows, table()), file


@needs_java
@pytest.mark.parametrize("zone", ZONES[1:])
def test_java_prints_the_same_times_in_every_time_zone(zone: str, files: list[Path]) -> None:
    written = table().drop_columns(["lists", "record"])
    for at, field in enumerate(written.schema):
        if pa.types.is_timestamp(field.type):
            written = written.set_column(at, field, settled(written[field.name].combine_chunks()))
    for file, rows in printed_rows(files, zone).items():
        kept = [
            {name: None if value is None else row[name] for name, value in known.items()}
            for row, known in zip(rows, plain(written).to_pylist(), strict=True)
        ]
        assert not unlike(kept, written, offset_in(zone)), file


def test_pyarrow_reads_the_dates_of_all_years(files: list[Path]) -> None:
    written = table()
    for file in files:
        found = pa.orc.ORCFile(file).read(columns=["date", "date64"])
        assert found["date"].equals(written["date"]) and found["date64"].equals(written["date"])


def test_pyarrow_reads_the_times_that_it_can_count(tmp_path: Path) -> None:
    rows = table()
    is_counted = [value is None or value in NANOSECONDS for value in plain(rows)["local_s"].to_pylist()]
    written = rows.filter(pa.array(is_counted))
    assert len(written) > 800
    for compression in ("none", "zstd"):
        st.write_orc(written, tmp_path / "a.orc", compression=compression, row_index_stride=100)
        found = pa.orc.read_table(tmp_path / "a.orc")
        for field in written.schema:
            # Values out of the range of nanoseconds are refused.
            type_ = stored(field.type)
            assert column_differs(found[field.name], written[field.name].cast(type_), type_) is None, field


def test_a_scan_reads_the_times_of_all_years(files: list[Path]) -> None:
    written = table()
    for file in files:
        settle(file)
        with st.Cache(memory="64MiB") as own:
            found = st.scan(file, cache=own).to_arrow()
        for field in written.schema:
            assert found[field.name].cast(field.type).equals(written[field.name]), f"{file}: {field.name}"


@needs_java
def test_stripes_say_which_time_zone_times_were_written_in(files: list[Path]) -> None:
    for report in reports(files, "-t").values():
        assert [stripe["writerTimezone"] for stripe in report["stripes"]] == ["UTC"]
        assert report["calendar"] == "proleptic Gregorian"
        assert "local_s:timestamp,instant_s:timestamp with local time zone" in report["schemaString"]


# Predicates, in every zone.

STRIDE = 100


def orderly() -> pa.Table:
    """Ascending times with fractions, from 1950 on, at no hour that any clock skips."""
    rng = random.Random("orderly")
    rows, first = 3_000, int((datetime.datetime(1950, 1, 1) - BEGINNING).total_seconds())
    days = [first + 86_400 * 11 * at for at in range(rows)]
    fractions = [0, 1, 1_000, 500_000, 999_999]
    micros = [(day + rng.randint(4 * 3_600, 86_000)) * 10**6 + rng.choice(fractions) for day in days]
    return pa.table({
        "id": range(rows),
        "local": pa.array(micros, pa.timestamp("us")),
        "instant": pa.array([micro + 1 for micro in micros], pa.timestamp("us", "UTC")),
        "date": pa.array([day // 86_400 for day in days], pa.int32()).cast(pa.date32()),
    })


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("classes"))


@needs_java
@pytest.mark.parametrize("zone", ZONES)
def test_java_finds_times_by_predicates_in_every_time_zone(zone: str, classes: Path, tmp_path: Path) -> None:
    rows, path = orderly(), tmp_path / "a.orc"
    times = {"local": "TIMESTAMP", "instant": "TIMESTAMP", "date": "DATE"}
    st.write_orc(rows, path, row_index_stride=STRIDE, bloom_filter_columns=dict.fromkeys(times, 0.001))
    # In predicates, Java expects an instant as UTC time, wherever it runs.
    texts = {name: [str(value).removesuffix("+00:00") for value in rows[name].to_pylist()] for name in times}
    commands, expected = [], []
    for at in [0, 1, 99, 100, 101, 555, 650, 651, 662, 663, 664, 665, 1_700, 2_999]:
        group = range(at // STRIDE * STRIDE, at // STRIDE * STRIDE + STRIDE)
        before = range(group.stop if at % STRIDE else group.start)
        for name, kind in times.items():
            commands += [[str(path), name, how, kind, texts[name][at]] for how in ("equals", "less")]
            expected += [[group], [before] if before else []]
    nights = [f"{day} 03:00:00.5" for day in texts["date"][1_000:1_030]]
    missing = [[str(path), name, "equals", "TIMESTAMP", night] for name in ("local", "instant") for night in nights]
    answers = Judge(classes, path, zone).read(commands + missing)
    assert answers[: len(commands)] == expected
    # They are within the bounds of a row group, but its bloom filter excludes them.
    assert sum(bool(found) for found in answers[len(commands) :]) <= 1


@needs_java
@pytest.mark.parametrize("zone", ZONES)
def test_java_reads_the_same_instants_in_every_time_zone(zone: str, classes: Path, tmp_path: Path) -> None:
    first = (datetime.datetime(1583, 1, 1) - BEGINNING).total_seconds()
    written = table().select(["id", "instant_us"])
    micros = written["instant_us"].cast(pa.int64()).to_pylist()
    is_later = [micro is None or micro // 10**6 >= first for micro in micros]
    written = written.filter(pa.array(is_later))
    written = written.set_column(0, "id", [range(len(written))])
    st.write_orc(written, tmp_path / "a.orc", row_index_stride=STRIDE)
    # Java shows them as microseconds since 1970, which pyarrow wrote as numbers.
    pa.orc.write_table(plain(written), tmp_path / "counted.orc")
    answers = Judge(classes, tmp_path / "counted.orc", zone).read([[str(tmp_path / "a.orc")]])
    assert answers == [[range(len(written))]]


def test_files_with_near_and_with_far_years_make_one_table(tmp_path: Path) -> None:
    """One file's sentinels must not make the others unreadable, in top-level and nested columns."""
    near = [datetime.datetime(2024, 5, 1, 12, 0, 0, 250), None, datetime.datetime(1969, 12, 31, 23, 59, 57, 999_999)]
    far = [datetime.datetime(9999, 12, 31), datetime.datetime(1, 1, 1), None]
    expected = []
    for name, times in [("a", near), ("b", far), ("c", near)]:
        table = pa.table({
            "t": pa.array(times, pa.timestamp("us")),
            "i": pa.array(times, pa.timestamp("us", "UTC")),
            "l": pa.array([times, None, []], pa.list_(pa.timestamp("us"))),
            "s": pa.array([{"t": time} for time in times], pa.struct([("t", pa.timestamp("us"))])),
            "m": pa.array([[("k", time)] for time in times], pa.map_(pa.string(), pa.timestamp("us"))),
        })
        st.write_orc(table, tmp_path / f"{name}.orc")
        expected.append(table)
    settle(*tmp_path.iterdir())
    whole = pa.concat_tables(expected)
    for options in ({}, {"dictionary": ["t"]}, {"cache": st.Cache(memory=0)}):
        found = st.scan(tmp_path, **options).to_arrow()
        type_ = found.schema.field("t").type
        assert getattr(type_, "value_type", type_) == pa.timestamp("us")
        assert found.cast(whole.schema).to_pylist() == whole.to_pylist()
    assert st.scan(tmp_path, columns=["s.t"]).to_arrow().column(0).to_pylist() == whole["s"].to_pylist()
    for filter_, rows in [
        ("t = timestamp '2024-05-01 12:00:00.000250'", 2),
        ("t > timestamp '3000-01-01'", 1),
        ("t < timestamp '1970-01-01'", 3),
        ("i >= timestamp '2024-05-01 12:00:00.000250+00'", 3),
        ("s.t = timestamp '9999-12-31'", 1),
    ]:
        for cache in (st.Cache(), st.Cache(memory=0)):
            assert st.scan(tmp_path, filter=filter_, cache=cache).to_arrow().num_rows == rows, filter_


def test_nanoseconds_beside_far_years_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    st.write_orc(pa.table({"t": pa.array([datetime.datetime(9999, 12, 31)], pa.timestamp("us"))}), tmp_path / "a.orc")
    st.write_orc(pa.table({"t": pa.array([1001], pa.timestamp("ns"))}), tmp_path / "b.orc")
    told = r"b\.orc: column t: 1001 Nanoseconds since 1970 are no whole Microseconds"
    for options in ({}, {"filter": "t < timestamp '2020-01-01'"}, {"cache": st.Cache(memory=0)}):
        with pytest.raises(st.SchemaError, match=told):
            st.scan(tmp_path, **options).to_arrow()
    assert st.scan(tmp_path / "b.orc").to_arrow()["t"].cast(pa.int64()).to_pylist() == [1001]
    # The same if the nanoseconds are those of another format.
    st.write_parquet(pa.table({"t": pa.array([1002], pa.timestamp("ns"))}), tmp_path / "b.parquet")
    (tmp_path / "b.orc").unlink()
    with pytest.raises(st.SchemaError, match=r"b\.parquet: column t: 1002 Nanoseconds since 1970 are no whole"):
        st.scan(tmp_path).to_arrow()
