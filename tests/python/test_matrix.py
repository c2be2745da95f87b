"""Scans of some thousand files, mixed at random from types, nulls, values and writer options, give what pyarrow reads.

A failure tells the seed; `parquet_case` or `orc_case` of `matrix` makes the same table of it again.
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
from matrix import Case, is_list, is_view, orc_case, parquet_case, plainer

PARQUET_FILES = 3_000
ORC_FILES = 1_000
BLOCK = 100
# More is not told of one block.
TOLD = 5


@pytest.mark.parametrize("first", range(0, PARQUET_FILES, BLOCK))
def test_parquet_files_of_all_kinds_are_read_as_pyarrow_reads_them(tmp_path: Path, first: int) -> None:
    path = tmp_path / "any.parquet"

    def failures(case: Case) -> Iterator[str]:
        pq.write_table(case.table, path, **case.options)
        settle(path)
        return compared(case, path, parquet_table(case, path))

    check_block(parquet_case, first, failures)


@pytest.mark.parametrize("first", range(0, ORC_FILES, BLOCK))
def test_orc_files_of_all_kinds_are_read_as_pyarrow_reads_them(tmp_path: Path, first: int) -> None:
    path = tmp_path / "any.orc"

    def failures(case: Case) -> Iterator[str]:
        orc.write_table(case.table, path, **case.options)
        settle(path)
        return compared(case, path, orc.read_table(path))

    check_block(orc_case, first, failures)


def check_block(make: Any, first: int, failures: Any) -> None:
    """Fails with what is wrong with the cases of a block of seeds."""
    told = []
    for seed in range(first, first + BLOCK):
        case = make(seed)
        told += [f"{failure}\n  {case}" for failure in failures(case)]
    assert not told, f"{len(told)} differences:\n" + "\n".join(told[:TOLD])


def parquet_table(case: Case, path: Path) -> pa.Table:
    """What pyarrow reads from the file.

    pyarrow 26 writes lists in a row group of one row, with a `data_page_size` of 1, and then does not read them: it
    stops before the second page. (DuckDB and Polars read them.) The same table is then written in larger pages.
    """
    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as error:
        assert "length" in str(error), error
        larger = path.with_suffix(".larger")
        pages = ("data_page_size", "write_batch_size", "max_rows_per_page")
        pq.write_table(case.table, larger, **{key: value for key, value in case.options.items() if key not in pages})
        return pq.read_table(larger)


def compared(case: Case, path: Path, expected: pa.Table) -> Iterator[str]:
    """What is different in a scan of all columns, in each of the modes, and in some scans of a part of them."""
    rng = random.Random(f"scans {case.seed}")
    # A cache of no bytes is asked in vain each time; from the other, later scans are answered.
    with st.Cache(memory=rng.choice([0, "64MiB", "64MiB"])) as cache:
        modes: list[Any] = ["auto", True, False]
        rng.shuffle(modes)
        for mode in [*modes, rng.choice(modes)]:
            options = {"dictionary": mode, "threads": rng.choice([None, 1])}
            yield from scan_differs(path, cache, options, expected)
        mode = rng.choice(modes)
        paths = projection(rng, expected.schema)
        options = {"columns": paths, "dictionary": mode, "batch_rows": rng.choice([None, 1, 100, 65_536])}
        if rng.random() < 0.5:
            options["limit"] = rng.choice([0, 1, rng.randint(0, expected.num_rows + 1)])
        if options["batch_rows"] == 1 and expected.num_rows > 1_000:
            options["limit"] = 200
        roots = [at for at, name in enumerate(expected.column_names) if name in (root(path) for path in paths)]
        roots.sort(key=lambda at: [root(path) for path in paths].index(expected.column_names[at]))
        wanted = expected.select(roots).slice(0, options.get("limit", expected.num_rows))
        yield from scan_differs(path, cache, options, wanted)


def scan_differs(path: Path, cache: st.Cache, options: dict[str, Any], expected: pa.Table) -> Iterator[str]:
    """What is different between a scan and the rows it should give."""
    try:
        scan = st.scan(path, cache=cache, **options)
        table = scan.to_arrow()
        table.validate(full=True)
    except Exception as error:
        yield f"{options}: {type(error).__name__}: {error}"
        return
    if scan.schema != table.schema:
        yield f"{options}: the schema is told as {scan.schema}, but is {table.schema}"
    if table.column_names != expected.column_names:
        yield f"{options}: columns {table.column_names}, not {expected.column_names}"
        return
    limit = options.get("batch_rows")
    if limit is not None and any(batch.num_rows > limit for batch in table.to_batches()):
        yield f"{options}: a batch has more rows than {limit}"
    if table.num_rows != expected.num_rows or scan.count() != expected.num_rows:
        yield f"{options}: {table.num_rows} rows, counted as {scan.count()}, not {expected.num_rows}"
        return
    paths = options.get("columns")
    for name, ours, theirs in zip(table.column_names, table.columns, expected.columns, strict=True):
        ours, theirs = whole(ours), whole(theirs)
        if paths is not None:
            wanted = [leaf for leaf in reached(name, theirs.type) if any(is_below(leaf, path) for path in paths)]
            got = list(reached(name, ours.type))
            if got != wanted:
                yield f"{options}: column {name} has {got}, not {wanted}"
                continue
        difference = differs(ours, theirs)
        if difference is not None:
            yield f"{options}: column {name}: {difference}; {first_row(ours, theirs)}"


# Projections.


def projection(rng: random.Random, schema: pa.Schema) -> list[str]:
    """Some columns in any order, and some fields of structs."""
    paths = []
    for field in rng.sample(list(schema), rng.randint(0, len(schema))):
        name, type_ = field.name, field.type
        fields = list(reached(name, type_))
        paths += [name] if rng.random() < 0.5 else rng.sample(fields, rng.randint(1, len(fields)))
    return paths


def reached(name: str, type_: pa.DataType) -> Iterator[str]:
    """The dotted names of what is in structs, also in those in lists; a map is not looked into."""
    if pa.types.is_struct(type_):
        for field in type_:
            yield from reached(f"{name}.{field.name}", field.type)
    elif is_list(type_):
        yield from reached(name, type_.value_type)
    else:
        yield name


def is_below(leaf: str, path: str) -> bool:
    """Whether a leaf is what a path names, or in it."""
    return leaf == path or leaf.startswith(f"{path}.")


def root(path: str) -> str:
    """The column that a path begins with."""
    return path.split(".")[0]


# Comparisons.


def whole(column: pa.ChunkedArray) -> pa.Array:
    """All values in one array, without dictionaries at the top."""
    chunks = [plain(chunk) for chunk in column.chunks]
    if not chunks:
        return plain(pa.nulls(0, column.type))
    return pa.concat_arrays(chunks)


def plain(array: pa.Array) -> pa.Array:
    """The values of a dictionary, and of views: these two are ways to store them."""
    if pa.types.is_dictionary(array.type):
        # pyarrow cannot take values from views.
        array = pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary)).dictionary_decode()
    return array.cast(plainer(array.type)) if is_view(array.type) else array


def differs(ours: pa.Array, theirs: pa.Array) -> str | None:
    """What is different between two arrays; of structs, only the fields that ours has are compared."""
    ours, theirs = plain(ours), plain(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} values, not {len(theirs)}"
    if not is_accepted(ours.type, theirs.type):
        return f"type {ours.type}, not {theirs.type}"
    if not ours.is_null().equals(theirs.is_null()):
        return f"other nulls in {ours.type}"
    if pa.types.is_struct(theirs.type):
        fields = dict(zip([field.name for field in theirs.type], theirs.flatten(), strict=True))
        pairs = [(child, fields[field.name]) for field, child in zip(ours.type, ours.flatten(), strict=True)]
        return next(filter(None, (differs(*pair) for pair in pairs)), None)
    if pa.types.is_map(theirs.type):
        return differs(entries(ours), entries(theirs))
    if is_list(theirs.type):
        if not pc.list_value_length(ours).cast(pa.int64()).equals(pc.list_value_length(theirs).cast(pa.int64())):
            return f"other lengths of {ours.type}"
        return differs(ours.flatten(), theirs.flatten())
    if pa.types.is_floating(theirs.type):
        # As bits, so that NaN is NaN and zero is not minus zero.
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[theirs.type.bit_width]
        ours, theirs = ours.view(bits), theirs.view(bits)
    return None if ours.cast(theirs.type).equals(theirs) else f"other values of {ours.type}"


def entries(array: pa.Array) -> pa.Array:
    """A map as the list of structs that it is."""
    type_ = array.type
    struct = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
    return array.cast(pa.list_(pa.field("entries", struct)))


def is_accepted(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether a type of ours is the one of pyarrow, or another that holds the same values."""
    if pa.types.is_struct(theirs):
        return pa.types.is_struct(ours)
    if pa.types.is_map(theirs):
        return pa.types.is_map(ours)
    if is_list(theirs):
        return is_list(ours)
    return ours == theirs


def first_row(ours: pa.Array, theirs: pa.Array) -> str:
    """The first row that is different, found by halving."""
    if len(ours) != len(theirs):
        return f"rows {len(ours)} and {len(theirs)}"
    low, high = 0, len(ours)
    while high - low > 1:
        middle = (low + high) // 2
        if differs(ours.slice(low, middle - low), theirs.slice(low, middle - low)) is not None:
            high = middle
        else:
            low = middle
    try:
        return f"row {low}: {str(ours[low])[:200]}, not {str(theirs[low])[:200]}"
    except Exception as error:
        return f"row {low}, which cannot be shown: {error}"
