"""Scans of thousands of files with random types, nulls, values and options return what pyarrow reads.

A failure reports the seed; `parquet_case` or `orc_case` of `matrix` recreates the table from it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle
from matrix import (
    Case,
    array,
    first_seeds,
    is_list,
    is_view,
    orc_case,
    parquet_case,
    parquet_scalars,
    plainer,
    read_parquet,
)

PARQUET_FILES = 3_000
ORC_FILES = 1_000
BLOCK = 100
# Maximum number of failures reported per block.
TOLD = 5


@pytest.mark.parametrize("first", first_seeds(PARQUET_FILES, BLOCK))
def test_parquet_files_of_all_kinds_are_read_as_pyarrow_reads_them(tmp_path: Path, first: int) -> None:
    path = tmp_path / "any.parquet"

    def failures(case: Case) -> Iterator[str]:
        pq.write_table(case.table, path, **case.options)
        settle(path)
        return compared(case, path, read_parquet(case, path))

    check_block(parquet_case, first, failures)


@pytest.mark.parametrize("first", first_seeds(ORC_FILES, BLOCK))
def test_orc_files_of_all_kinds_are_read_as_pyarrow_reads_them(tmp_path: Path, first: int) -> None:
    path = tmp_path / "any.orc"

    def failures(case: Case) -> Iterator[str]:
        orc.write_table(case.table, path, **case.options)
        settle(path)
        return compared(case, path, orc.read_table(path))

    check_block(orc_case, first, failures)


@pytest.mark.parametrize("type_", dict.fromkeys(parquet_scalars()), ids=str)
def test_a_column_comes_out_as_a_dictionary_where_it_is_named(tmp_path: Path, type_: pa.DataType) -> None:
    path = tmp_path / "named.parquet"
    case = Case(0, pa.table({"c0": array(random.Random(0), type_, 1_000)}), {})
    pq.write_table(case.table, path)
    settle(path)
    with st.Cache(memory="64MiB") as cache:
        wrong = list(scan_differs(path, cache, {"dictionary": ["c0"]}, case, pq.read_table(path)))
        assert not wrong, wrong
        scanned = st.scan(path, dictionary=["c0"], cache=cache).schema.field("c0").type
    assert pa.types.is_dictionary(scanned) == may_be_coded(type_)


MODES: list[dict[str, Any]] = [
    {},
    {"dictionary": "stored"},
    *[{"dictionary": mode, "strings": "view"} for mode in (None, "auto", "stored", True, False)],
]


@pytest.mark.parametrize("type_", dict.fromkeys(parquet_scalars()), ids=str)
def test_a_column_comes_out_in_the_type_that_each_mode_is_for(tmp_path: Path, type_: pa.DataType) -> None:
    made, plain_file = tmp_path / "coded.parquet", tmp_path / "plain.parquet"
    case = Case(0, pa.table({"c0": array(random.Random(0), type_, 1_000)}), {})
    pq.write_table(case.table, made)
    pq.write_table(case.table, plain_file, use_dictionary=False, store_schema=False)
    settle(made, plain_file)
    with st.Cache(memory="64MiB") as cache:
        for options in MODES:
            wrong = list(scan_differs(made, cache, options, case, pq.read_table(made)))
            assert not wrong, wrong
        scans = [st.scan(path, dictionary="stored", cache=cache) for path in (made, plain_file)]
        stored = [scan.schema.field("c0").type for scan in scans]
        # pyarrow dictionary-encodes every column that supports it by default.
        assert [pa.types.is_dictionary(type_) for type_ in stored] == [may_be_coded(type_), False]
        assert not pa.types.is_dictionary(st.scan(plain_file, cache=cache).schema.field("c0").type)


def check_block(make: Any, first: int, failures: Any) -> None:
    """Fails with the errors of the cases of a block of seeds."""
    told = []
    for seed in range(first, first + BLOCK):
        case = make(seed)
        told += [f"{failure}\n  {case}" for failure in failures(case)]
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])


def compared(case: Case, path: Path, expected: pa.Table) -> Iterator[str]:
    """Yields the differences in a scan of all columns, in each of the modes, and in a scan of some of them."""
    rng = random.Random(f"scans {case.seed}")
    # A cache of no bytes always misses; the other one serves later scans.
    with st.Cache(memory=rng.choice([0, "64MiB", "64MiB"])) as cache:
        named = rng.sample(expected.column_names, rng.randint(1, expected.num_columns))
        coded: list[Any] = [{"dictionary": mode} for mode in ("auto", True, False, named)]
        views = {"strings": "view", "dictionary": rng.choice([None, None, "auto", "stored", False, named])}
        # The default, the file's own dictionaries only, and views: one of these for each file.
        others: list[Any] = [{}, {"dictionary": "stored"}, views]
        for mode in [*rng.sample(coded, 2), rng.choice(others)]:
            options = {**mode, "threads": rng.choice([None, 1])}
            yield from scan_differs(path, cache, options, case, expected)
        options = {"columns": projection(rng, expected.schema), **rng.choice([*coded, *others])}
        options["batch_rows"] = rng.choice(
            [7, 100, 65_536] if expected.num_rows <= 3_000 else [5_000, 65_536]
        )
        if rng.random() < 0.5:
            options["limit"] = rng.choice([0, 1, rng.randint(0, expected.num_rows + 1)])
        yield from scan_differs(path, cache, options, case, expected)


def scan_differs(
    path: Path, cache: st.Cache, options: dict[str, Any], case: Case, expected: pa.Table
) -> Iterator[str]:
    """Returns the difference between a scan and what pyarrow read of all columns."""
    wrong = f"scan(cache={cache.stats()['capacity']}, {options})"
    rows = min(expected.num_rows, options.get("limit", expected.num_rows))
    paths = options.get("columns", expected.column_names)
    names = list(dict.fromkeys(path.split(".")[0] for path in paths))
    try:
        scan = st.scan(path, cache=cache, **options)
        batches = list(scan.batches())
        table = pa.Table.from_batches(batches, scan.schema) if names else None
        # A count is another scan: once per file is enough.
        counted = scan.count() if "columns" in options else rows
        for batch in batches:
            batch.validate(full=True)
    except Exception as error:
        yield f"{wrong}: {type(error).__name__}: {error}"
        return
    lengths = [len(batch) for batch in batches]
    if counted != rows or sum(lengths) != rows or max(lengths, default=0) > options.get("batch_rows", 65_536):
        yield f"{wrong}: {rows} rows are counted as {counted} and come in batches of {lengths}"
        return
    if table is None:
        return
    if table.column_names != names:
        yield f"{wrong}: columns {table.column_names}, not {names}"
        return
    for name in names:
        ours, theirs = table.column(name), expected.column(name).slice(0, rows)
        wanted = [leaf for leaf in reached(name, theirs.type) if any(is_below(leaf, path) for path in paths)]
        got = list(reached(name, ours.type))
        if got != wanted:
            yield f"{wrong}: column {name} has {got}, not {wanted}"
            continue
        written = case.table.schema.field(name).type
        difference = column_differs(ours, theirs, written) or mode_differs(name, ours.type, written, case, options)
        if difference is not None:
            yield f"{wrong}: column {name}: {difference}"


# Projections.


def projection(rng: random.Random, schema: pa.Schema) -> list[str]:
    """Returns some columns in any order, and some fields of structs."""
    paths = []
    for field in rng.sample(list(schema), rng.randint(0, len(schema))):
        name, type_ = field.name, field.type
        fields = list(reached(name, type_))
        paths += [name] if rng.random() < 0.5 else rng.sample(fields, rng.randint(1, len(fields)))
    return paths


def reached(name: str, type_: pa.DataType) -> Iterator[str]:
    """Yields the dotted names of struct fields, also of structs in lists, but not in maps."""
    if pa.types.is_struct(type_):
        for field in type_:
            yield from reached(f"{name}.{field.name}", field.type)
    elif is_list(type_):
        yield from reached(name, type_.value_type)
    else:
        yield name


def is_below(leaf: str, path: str) -> bool:
    """Returns whether a leaf is at a path, or below it."""
    return leaf == path or leaf.startswith(f"{path}.")


# Comparisons.


def column_differs(ours: pa.ChunkedArray, theirs: pa.ChunkedArray, written: pa.DataType) -> str | None:
    """Returns the first difference between two columns, and its row; `written` is the type that was written."""
    left, right = whole(ours), whole(theirs)
    difference = differs(left, right, written)
    return None if difference is None else f"{difference}; {first_row(left, right, written)}"


def mode_differs(
    name: str, ours: pa.DataType, written: pa.DataType, case: Case, options: dict[str, Any]
) -> str | None:
    """Returns the error in a column's dictionary or views, for the requested mode."""
    mode = options.get("dictionary")
    values = ours.value_type if pa.types.is_dictionary(ours) else ours
    if mode is None:
        # Columns of other types, and files without the written schema, have no dictionaries.
        may = pa.types.is_dictionary(written) and is_text(written.value_type) and case.options.get("store_schema", True)
    elif mode == "stored":
        may = may_be_coded(values) and case.options.get("use_dictionary") is not False
    elif isinstance(mode, list):
        may = may_be_coded(values) and name in mode
    else:
        may = is_text(values) and mode is not False
    is_coded = pa.types.is_dictionary(ours)
    # Which columns repeat, and which are stored only as dictionaries, depends on the file.
    if is_coded != may and (is_coded or mode not in ("auto", "stored")):
        return f"{ours}, which is {'a' if is_coded else 'no'} dictionary"
    if is_coded and mode is None and (ours.index_type, ours.ordered) != (written.index_type, written.ordered):
        return f"{ours}, not {written}"
    if options.get("strings") == "view" and not is_coded and is_text(ours) and not is_view(ours):
        return f"{ours}, which is no view"
    return None


def is_text(type_: pa.DataType) -> bool:
    """Returns whether it is strings or bytes of any length."""
    return plainer(type_) in (pa.string(), pa.binary())


def may_be_coded(type_: pa.DataType) -> bool:
    """Returns whether Arrow makes dictionaries of the type; columns of other types are returned unencoded."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    without = pa.types.is_boolean(type_) or pa.types.is_duration(type_) or pa.types.is_null(type_)
    return not without and not pa.types.is_nested(type_)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Returns all values in one array, without dictionaries at the top level."""
    chunks = [plain(chunk) for chunk in column.chunks]
    if not chunks:
        return plain(pa.nulls(0, column.type))
    return pa.concat_arrays(chunks)


def plain(array: pa.Array) -> pa.Array:
    """Returns the values of a dictionary or a view, which are only storage formats."""
    if pa.types.is_dictionary(array.type):
        # pyarrow cannot take values from views.
        array = pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary)).dictionary_decode()
    return array.cast(plainer(array.type)) if is_view(array.type) else array


def differs(ours: pa.Array, theirs: pa.Array, written: pa.DataType) -> str | None:
    """Returns the difference between two arrays; of structs, only the fields in ours are compared."""
    ours, theirs = plain(ours), plain(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} values, not {len(theirs)}"
    if not is_accepted(ours.type, theirs.type, written):
        return f"type {ours.type}, not {theirs.type}"
    if not ours.is_null().equals(theirs.is_null()):
        return f"other nulls in {ours.type}"
    if pa.types.is_struct(theirs.type):
        for field, child in zip(ours.type, ours.flatten(), strict=True):
            at = theirs.type.get_field_index(field.name)
            difference = differs(child, theirs.flatten()[at], written.field(at).type)
            if difference is not None:
                return f"field {field.name}: {difference}"
        return None
    if pa.types.is_map(theirs.type):
        as_list = entries(written)
        return differs(ours.cast(entries(ours.type)), theirs.cast(entries(theirs.type)), as_list)
    if is_list(theirs.type):
        if not lengths(ours).equals(lengths(theirs)):
            return f"other lengths of {ours.type}"
        return differs(ours.flatten(), theirs.flatten(), written.value_type)
    return (
        None if as_stored(ours, theirs.type).equals(as_stored(theirs, theirs.type)) else f"other {ours.type}"
    )


def entries(type_: pa.DataType) -> pa.DataType:
    """Returns the list of structs that a map is stored as."""
    return pa.list_(pa.field("entries", pa.struct([("key", type_.key_type), ("value", type_.item_type)])))


def lengths(lists: pa.Array) -> pa.Array:
    """Returns the length of each of the lists."""
    return pc.list_value_length(lists).cast(pa.int64())


def as_stored(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns the values reinterpreted as another type: then NaN equals NaN, and zero differs from minus zero."""
    if pa.types.is_timestamp(type_):
        # The zone does not change the instant.
        return array.cast(pa.timestamp(type_.unit, array.type.tz)).view(pa.int64())
    if pa.types.is_floating(type_):
        return array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type_.bit_width])
    return array.cast(type_)


def is_accepted(ours: pa.DataType, theirs: pa.DataType, written: pa.DataType) -> bool:
    """Returns whether a column has the type that pyarrow gives it, or another that is known to be equally valid."""
    if pa.types.is_dictionary(written):
        written = written.value_type
    if pa.types.is_struct(theirs):
        return pa.types.is_struct(ours)
    if pa.types.is_map(theirs):
        return pa.types.is_map(ours)
    if is_list(theirs):
        # Same kind, whatever the names of their items.
        return is_list(ours) and ours.id == theirs.id
    if ours == theirs:
        return True
    if pa.types.is_timestamp(ours) and pa.types.is_timestamp(theirs) and ours.tz == "UTC" and theirs.tz:
        # Parquet has no zones, only instants. pyarrow takes the zone from the Arrow schema in the file, and so do
        # scans, except if the timestamps are stored in another unit than that schema says.
        return ours.unit == theirs.unit != written.unit
    # Scans take types from the Arrow schema in the file where pyarrow does not: it reads date64 as date32, a dictionary
    # of large strings as one of strings, and an INT96 as a timestamp[ns] without zone.
    return ours == plainer(written) or ours == written


def first_row(ours: pa.Array, theirs: pa.Array, written: pa.DataType) -> str:
    """Returns the first differing row, found by bisection."""
    if len(ours) != len(theirs):
        return f"rows {len(ours)} and {len(theirs)}"
    low, high = 0, len(ours)
    while high - low > 1:
        middle = (low + high) // 2
        if differs(ours.slice(low, middle - low), theirs.slice(low, middle - low), written) is not None:
            high = middle
        else:
            low = middle
    try:
        return f"row {low}: {str(ours[low])[:200]}, not {str(theirs[low])[:200]}"
    except Exception as error:
        return f"row {low}, which cannot be shown: {error}"
