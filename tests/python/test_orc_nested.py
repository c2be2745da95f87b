"""Nested lists, maps and structs, with nulls and empty values at every level, written by `write_orc` and read by
others: as a whole, and from the row groups that a predicate selects."""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
import stylobate as st

from conftest import settle
from matrix import Case
from orc_files import Judge, compiled, needs_java, printed_rows, run_tools
from orc_printed import BEGINNING, unlike
from test_write_orc import failures, stored, write_case

ROWS = 3_500
TYPES: dict[str, pa.DataType] = {
    "records": pa.list_(pa.struct([("number", pa.int64()), ("text", pa.string()), ("money", pa.decimal128(20, 4))])),
    "times": pa.map_(pa.string(), pa.list_(pa.timestamp("us"))),
    "instants": pa.map_(pa.int16(), pa.list_(pa.timestamp("ns", "UTC"))),
    "maps": pa.struct([("maps", pa.list_(pa.map_(pa.string(), pa.int32()))), ("day", pa.date32())]),
    "cubes": pa.list_(pa.list_(pa.list_(pa.int16()))),
    "deep": pa.struct([("a", pa.struct([("b", pa.struct([("c", pa.list_(pa.bool_())), ("d", pa.float64())]))]))]),
    "keyed": pa.map_(pa.struct([("day", pa.date32()), ("at", pa.int8())]), pa.map_(pa.int64(), pa.binary())),
    "lists": pa.struct([("first", pa.list_(pa.string())), ("second", pa.list_(pa.struct([("x", pa.float32())])))]),
    "plain": pa.string(),
}


def value(rng: random.Random, type_: pa.DataType, nulls: float, length: int) -> Any:
    """Returns a value with the given share of nulls at every level, and up to `length` items in each collection."""
    if rng.random() < nulls:
        return None
    if pa.types.is_struct(type_):
        return {field.name: value(rng, field.type, nulls, length) for field in type_}
    if pa.types.is_map(type_):
        keys = [value(rng, type_.key_type, 0, length) for _ in range(rng.randint(0, length))]
        return [(key, value(rng, type_.item_type, nulls, length)) for key in keys]
    if pa.types.is_list(type_):
        return [value(rng, type_.value_type, nulls, length) for _ in range(rng.randint(0, length))]
    if pa.types.is_timestamp(type_):
        seconds, fraction = rng.randint(-(10**9), 10**9), rng.choice([0, 1, 500_000])
        return BEGINNING + datetime.timedelta(seconds=seconds, microseconds=fraction)
    if pa.types.is_decimal(type_):
        return decimal.Decimal(rng.randint(-(10**20) + 1, 10**20 - 1)).scaleb(-4)
    if pa.types.is_date(type_):
        return datetime.date.fromordinal(rng.randint(1, 3_000_000))
    if pa.types.is_boolean(type_):
        return rng.random() < 0.5
    if pa.types.is_floating(type_):
        return rng.choice([0.0, -0.0, 0.5, float("nan"), float("inf")])
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        text = rng.choice(["", "a", "mail", "ship", "ÆØÅ", f"{rng.getrandbits(40):x}"])
        return text if pa.types.is_string(type_) else text.encode()
    bits = type_.bit_width
    return rng.choice([0, 1, -1, rng.randint(-1 << bits - 1, (1 << bits - 1) - 1)])


def column(rng: random.Random, type_: pa.DataType) -> pa.Array:
    """Returns stretches of rows with random values, all null, all empty and without nulls, and two rows with many
    items: the last of a row group, and the first of one."""
    stretches = itertools.cycle([(0.2, 3), (0.0, 3), (1.0, 0), (0.0, 0), (0.05, 1), (0.6, 2)])
    values: list[Any] = []
    while len(values) < ROWS:
        nulls, length = next(stretches)
        values += [value(rng, type_, nulls, length) for _ in range(rng.choice([90, 210, 510]))]
    for at, length in ((999, 40), (2_000, 60)):
        values[at] = value(rng, type_, 0.02, length if at == 999 or not pa.types.is_list(type_) else 20)
    return pa.array(values[:ROWS], type_)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random("nested")
    return pa.table({"id": pa.array(range(ROWS))} | {name: column(rng, type_) for name, type_ in TYPES.items()})


LAYOUTS: list[dict[str, Any]] = [
    {"compression": "none", "row_index_stride": 100},
    {"compression": "none", "row_index_stride": 1_000, "dictionary": False},
    {"compression": "zstd", "row_index_stride": 100, "dictionary": True, "compression_block_size": 64},
    {"compression": "zstd", "row_index_stride": 1_000, "stripe_size": 20_000},
    {"compression": "snappy", "row_index_stride": 10, "dictionary": False, "compression_block_size": 4_096},
    {"compression": "zlib", "row_index_stride": 10_000},
    {"compression": "lz4", "row_index_stride": 1_000, "bloom_filter_columns": ["plain"]},
]


@pytest.fixture(scope="module")
def files(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The table in each of the layouts, as pyarrow and a scan read it."""
    folder = tmp_path_factory.mktemp("nested")
    paths = [folder / f"{at}.orc" for at in range(len(LAYOUTS))]
    for path, layout in zip(paths, LAYOUTS, strict=True):
        assert not list(failures(Case(0, table, layout), path)), layout
    return paths


@pytest.mark.parametrize("write", [pyarrow.orc.write_table, st.write_orc], ids=["pyarrow", "stylobate"])
def test_maps_are_asked_for_by_their_keys_or_values(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "maps.orc"
    item = pa.struct([("x", pa.int32()), ("y", pa.string())])
    values = [[("a", {"x": 1, "y": "u"}), ("b", None)], None, [], [("c", {"x": None, "y": "v"})]]
    maps = pa.array(values, pa.map_(pa.string(), item))
    write(pa.table({"m": maps, "i": [1, 2, 3, 4]}), path)
    for column in ("m.key", "m.value", "m.entries.value"):
        assert st.scan(path, columns=[column]).to_arrow()["m"].to_pylist() == values, column
    wanted = [[("a", {"y": "u"}), ("b", None)], None, [], [("c", {"y": "v"})]]
    for memory in ("64MiB", "0B"):
        with st.Cache(memory=memory) as cache:
            assert st.scan(path, columns=["m.value.y"], cache=cache).to_arrow()["m"].to_pylist() == wanted
            part = st.scan(path, columns=["m.value.y"], filter="i > 2", cache=cache).to_arrow()
            assert part["m"].to_pylist() == wanted[2:]
    both = st.scan(path, columns=["m.value.y", "m.value.x"]).to_arrow()["m"].to_pylist()
    assert both == values
    for missing in ("m.nothing", "m.value.z", "m.key.y"):
        with pytest.raises(st.ColumnNotFoundError):
            st.scan(path, columns=[missing]).to_arrow()


def test_maps_in_other_types_are_asked_for_by_their_keys_or_values(files: list[Path], table: pa.Table) -> None:
    structs = table["maps"].to_pylist()
    wanted = {
        "keyed.value": table["keyed"].to_pylist(),
        "maps.maps.value": [struct and {"maps": struct["maps"]} for struct in structs],
        "maps.day": [struct and {"day": struct["day"]} for struct in structs],
    }
    for path in files[::3]:
        for column, values in wanted.items():
            assert st.scan(path, columns=[column]).to_arrow().column(0).to_pylist() == values, (path, column)


def test_there_are_nulls_and_nothing_at_every_level(table: pa.Table) -> None:
    """The other tests rely on this."""

    def check(array: pa.Array, may_be_null: bool = True) -> None:
        kind = array.type
        assert array.null_count > 0 or not may_be_null, kind
        if pa.types.is_struct(kind):
            for child in array.drop_null().flatten():
                check(child, may_be_null)
        elif pa.types.is_map(kind) or pa.types.is_list(kind):
            lengths = [len(value) for value in array.drop_null().to_pylist()]
            assert 0 in lengths and max(lengths) > 2, kind
            if pa.types.is_map(kind):
                check(array.keys, False)
                check(array.items)
            else:
                check(array.flatten())

    for name in TYPES:
        check(table[name].combine_chunks())


@needs_java
def test_java_reads_nested_columns(table: pa.Table, files: list[Path]) -> None:
    for path, rows in printed_rows([files[0], files[2]]).items():
        assert not unlike(rows, table), LAYOUTS[int(path.stem)]


def row_groups(path: Path, stride: int) -> list[range]:
    """Returns the rows of each row group; each stripe begins a new one."""
    reader, groups, start = pa.orc.ORCFile(path), [], 0
    for stripe in range(reader.nstripes):
        end = start + reader.read_stripe(stripe, columns=["id"]).num_rows
        groups += [range(first, min(first + stride, end)) for first in range(start, end, stride)]
        start = end
    assert start == ROWS
    return groups


@needs_java
def test_java_seeks_in_nested_columns(files: list[Path], tmp_path: Path) -> None:
    """Java reads all row groups of a file and some of them; their rows must be those that it printed of the first file."""
    wanted = [(0, 0), (99, 100), (999, 999), (1_000, 1_000), (999, 1_000), (1_001, 1_999), (2_000, 2_000)]
    wanted += [(3_499, 9_999)]
    wanted += [(first, first + 7) for first in range(5, ROWS, 111)]
    commands, expected = [], []
    for path, layout in zip(files, LAYOUTS, strict=True):
        groups = row_groups(path, layout["row_index_stride"])
        assert len(groups) > 1 or layout["row_index_stride"] > ROWS
        commands.append([str(path)])
        expected.append(set(range(ROWS)))
        for low, high in wanted:
            commands.append([str(path), "id", "between", "LONG", str(low), str(high)])
            expected.append({row for group in groups if group.start <= high and group.stop > low for row in group})
    answers = Judge(compiled(tmp_path), files[0]).read(commands)
    for command, ranges, rows in zip(commands, answers, expected, strict=True):
        assert {row for found in ranges for row in found} == rows, command


# Random tables.

MAX_BYTES = 60_000


def is_printable(case: Case) -> bool:
    """Returns whether it is short enough to print, without days in years that do not have four digits."""
    return 0 < case.table.nbytes < MAX_BYTES and not any("date32" in str(field.type) for field in case.table.schema)


@needs_java
def test_java_and_pyarrow_read_whatever_chance_makes(tmp_path: Path) -> None:
    chosen = itertools.islice(filter(is_printable, map(write_case, itertools.count(10_000))), 60)
    cases = {tmp_path / f"{case.seed}.orc": case for case in chosen}
    for path, case in cases.items():
        assert not list(failures(case, path)), case
    for path, rows in printed_rows(list(cases)).items():
        case = cases[path]
        fields = [field.with_type(stored(field.type)) for field in case.table.schema]
        assert not unlike(rows, case.table.cast(pa.schema(fields))), case
    # The tools have no JSON for sums that are NaN or infinite.
    said = run_tools("meta", *map(str, cases)).splitlines()
    said = [int(line.split()[1]) for line in said if line.startswith("Rows: ")]
    assert said == [case.table.num_rows for case in cases.values()]
    depths = {str(field.type).count("<") for case in cases.values() for field in case.table.schema}
    assert depths >= {0, 1, 2, 3}


@pytest.mark.parametrize("nulls", [0.0, 0.3, 0.97])
@pytest.mark.parametrize("compression", ["uncompressed", "zlib"])
def test_a_scan_reads_what_pyarrow_wrote(nulls: float, compression: str, tmp_path: Path) -> None:
    path, rng = tmp_path / "a.orc", random.Random(f"{nulls} {compression}")
    rows = pa.table({
        "id": range(ROWS),
        **{name: pa.array([value(rng, type_, nulls, 3) for _ in range(ROWS)], type_) for name, type_ in TYPES.items()},
    })
    pa.orc.write_table(rows, path, compression=compression, row_index_stride=1_000, stripe_size=64 << 10)
    settle(path)
    expected = pa.orc.read_table(path)
    with st.Cache(memory="64MiB") as cache:
        found = st.scan(path, dictionary=False, batch_rows=701, cache=cache).to_arrow()
        for name in expected.column_names:
            assert same(found[name], expected[name]), name
    with st.Cache(memory="0B") as none:
        found = st.scan(path, dictionary=False, batch_rows=97, cache=none).to_arrow()
        for name in expected.column_names:
            assert same(found[name], expected[name]), name
    for first in (0, 998, 2_999):
        with st.Cache(memory="64MiB") as cache:
            filter_ = f"id >= {first} AND id < {first + 4}"
            some = st.scan(path, filter=filter_, dictionary=False, cache=cache).to_arrow()
            for name in expected.column_names:
                assert same(some[name], expected[name].slice(first, 4)), f"{name} from {first}"


def same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    """Returns whether values are equal; NaNs are equal, zeros of different signs are not."""
    return repr(left.to_pylist()) == repr(right.to_pylist())
