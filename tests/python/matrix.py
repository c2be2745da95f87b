"""Random tables and writer options, generated from seeds: types, nulls, values and storage options, mixed at random.

A seed always gives the same table and options, so that a seed alone reproduces a failure.

Values are drawn from a pool: few distinct values make dictionaries, many make them fall back, sorted ones suit deltas.
Nested columns draw the values of their children in the same way. Types, values and options are in one file, since each
option must fit the types, and each type has values of its own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

# Tests make an eighth of their random files, unless all are asked for: `make test-matrix`.
ALL_FILES = os.environ.get("STYLOBATE_MATRIX") == "all"
# Marks tests and parameters that take long and differ from others only in size.
only_in_matrix = pytest.mark.skipif(not ALL_FILES, reason="run by make test-matrix")


def first_seeds(files: int, block: int) -> range:
    """Returns the first seed of each block of random files that a test makes."""
    made = files if ALL_FILES else files // 8
    return range(0, made, block)


# Most tables are small. The others have more rows than a segment of 65,536.
SMALL_ROWS = [0, 1, 7, 64, 300, 1_000, 2_000, 3_000, 3_000]
LARGE_ROWS = [66_000, 100_000, 150_000]
# One table in this many is large.
TABLES_PER_LARGE = 60
MAX_BYTES = 24 << 20
# Maximum pool size for types whose values Python creates one by one.
SLOW_POOL = 3_000

ZONES = ["UTC", "Europe/Oslo", "+02:00"]
WORDS = [
    "",
    "a",
    "air",
    "mail",
    "rail",
    "ship",
    "truck",
    "Ålesund",
    "naïve",
    "日本語",
    "🙂🙃",
    "e\u0301",
    "\x00",
    "ß",
]


@dataclass(frozen=True)
class Case:
    """A table, and the options to write it with."""

    seed: int
    table: pa.Table
    options: dict[str, Any]

    def __str__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.table.schema)
        return f"seed {self.seed}: {self.table.num_rows} rows of [{columns}] with {self.options}"


# Types.


def orc_scalars() -> list[pa.DataType]:
    """Returns the types without children that pyarrow can write to ORC."""
    return [
        pa.bool_(),
        *[pa.int8(), pa.int16(), pa.int32(), pa.int64()],
        *[pa.float32(), pa.float64()],
        *[pa.decimal128(5, 2), pa.decimal128(18, 6), pa.decimal128(19, 0), pa.decimal128(38, 10)],
        *[pa.string(), pa.string(), pa.string(), pa.large_string()],
        *[pa.binary(), pa.large_binary(), pa.binary(1), pa.binary(16)],
        *[pa.date32(), pa.date64()],
        *[pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")],
        *[pa.timestamp(unit, zone) for unit in ("ms", "ns") for zone in ZONES],
    ]


def parquet_scalars() -> list[pa.DataType]:
    """Returns the types without children that pyarrow can write to Parquet."""
    return [
        *orc_scalars(),
        *[pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16()],
        *[pa.decimal32(7, 2), pa.decimal64(15, 3), pa.decimal128(1, 0), pa.decimal128(9, 9)],
        *[pa.decimal256(5, 1), pa.decimal256(40, 3), pa.decimal256(76, 20)],
        *[pa.string(), pa.string_view(), pa.binary_view(), pa.binary(3), pa.binary(40)],
        *[pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
        *[pa.timestamp(unit, zone) for unit in ("s", "us") for zone in ZONES],
        *[pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
        pa.null(),
        *[pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.int16(), pa.int32(), pa.uint32())],
        *[pa.dictionary(pa.int32(), pa.large_string()), pa.dictionary(pa.int32(), pa.binary())],
        *[pa.dictionary(pa.int16(), pa.int64()), pa.dictionary(pa.int32(), pa.float64())],
        *[pa.dictionary(pa.int32(), pa.decimal128(12, 2)), pa.dictionary(pa.int32(), pa.binary(4))],
    ]


def choose_type(rng: random.Random, scalars: list[pa.DataType], depth: int) -> pa.DataType:
    """Returns a random type with at most `depth` levels of children."""
    if depth == 0 or rng.random() < 0.7:
        return rng.choice(scalars)
    # pyarrow cannot write views in nested columns, since it cannot slice them there.
    scalars = [scalar for scalar in scalars if not is_view(scalar)]
    child = choose_type(rng, scalars, depth - 1)
    kind = rng.randrange(6)
    if kind <= 1:
        return pa.list_(child)
    if kind == 2:
        return pa.large_list(child)
    if kind == 3:
        return pa.list_(pa.field("item", child), rng.choice([1, 2, 5]))
    if kind == 4:
        others = [choose_type(rng, scalars, depth - 1) for _ in range(rng.randrange(3))]
        return pa.struct([(f"f{at}", type_) for at, type_ in enumerate([child, *others])])
    return pa.map_(rng.choice([pa.string(), pa.int32(), pa.binary()]), child)


def leaves(field: pa.Field, path: str = "", element: str = "element") -> Iterator[tuple[str, pa.DataType]]:
    """Yields path and type of each leaf, with the names that they have in a Parquet file."""
    path, type_ = f"{path}.{field.name}" if path else field.name, field.type
    if pa.types.is_struct(type_):
        for child in type_:
            yield from leaves(child, path, element)
    elif pa.types.is_map(type_):
        for name, child_type in (("key", type_.key_type), ("value", type_.item_type)):
            yield from leaves(pa.field(name, child_type), f"{path}.key_value", element)
    elif is_list(type_):
        yield from leaves(pa.field(element, type_.value_type), f"{path}.list", element)
    else:
        yield path, type_


def is_list(type_: pa.DataType) -> bool:
    """Returns whether it is a list of any kind, except maps."""
    return pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)


def is_view(type_: pa.DataType) -> bool:
    """Returns whether it is a view of strings or bytes."""
    return pa.types.is_string_view(type_) or pa.types.is_binary_view(type_)


# Values.


def pool(rng: random.Random, type_: pa.DataType, size: int, is_sorted: bool) -> pa.Array:
    """Returns 1 to `size` values without nulls, including the extremes of the type."""
    if pa.types.is_decimal(type_):
        values = decimals(rng, type_, min(size, SLOW_POOL))
    elif pa.types.is_string(type_):
        values = pa.array(texts(rng, size), type_)
    elif pa.types.is_binary(type_):
        values = pa.array([text.encode("utf-16" if len(text) < 9 else "utf-8") for text in texts(rng, size)])
    elif pa.types.is_fixed_size_binary(type_):
        size = min(size, SLOW_POOL) if type_.byte_width > 16 else size
        data = np.random.default_rng(rng.getrandbits(64)).bytes(type_.byte_width * size)
        values = pa.Array.from_buffers(type_, size, [None, pa.py_buffer(data)])
    else:
        values = numbers(rng, type_, size)
    return values.take(pc.sort_indices(values.cast(sortable(type_)))) if is_sorted else values


def sortable(type_: pa.DataType) -> pa.DataType:
    """Returns a type with the same order that pyarrow can sort."""
    if pa.types.is_decimal32(type_) or pa.types.is_decimal64(type_):
        return pa.decimal128(type_.precision, type_.scale)
    return pa.float32() if pa.types.is_float16(type_) else type_


def plainer(type_: pa.DataType) -> pa.DataType:
    """Returns the simplest type with the same values; views have no `take`."""
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(type_) or type_ == pa.binary_view() else type_


def numbers(rng: random.Random, type_: pa.DataType, size: int) -> pa.Array:
    """Returns booleans, integers, floating-point numbers, or values of types stored as integers."""
    numpy = np.random.default_rng(rng.getrandbits(64))
    if pa.types.is_boolean(type_):
        return pa.array(numpy.integers(0, 2, size).astype(bool))
    if pa.types.is_floating(type_):
        return floats(rng, type_, numpy, size)
    low, high = bounds(type_)
    if rng.random() < 0.5:
        # Close to each other, which suits deltas and dictionaries.
        middle = rng.randint(low, high)
        low, high = max(low, middle - rng.choice([3, 200, 70_000])), min(high, middle + 100)
        extremes = []
    else:
        # ORC cannot store fractions of the last second before 1970.
        before = low // 9_000_000_000 if pa.types.is_timestamp(type_) else -1
        extremes = [low, high, max(low, 0), max(low, before)]
    is_unsigned = pa.types.is_uint64(type_)
    native = np.uint64 if is_unsigned else np.int64
    values = numpy.integers(low, high, size, dtype=native, endpoint=True)
    extremes = extremes[: size // 2]
    values[: len(extremes)] = extremes
    step = 86_400_000 if pa.types.is_date64(type_) else 1
    width = type_.bit_width
    narrow = np.dtype(f"{'u' if low >= 0 and pa.types.is_unsigned_integer(type_) else 'i'}{width // 8}")
    data = (values // step * step).astype(narrow)
    return pa.Array.from_buffers(type_, size, [None, pa.py_buffer(data.tobytes())])


def bounds(type_: pa.DataType) -> tuple[int, int]:
    """Returns the minimum and maximum values drawn for a type."""
    if pa.types.is_time(type_):
        return 0, 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit] - 1
    if pa.types.is_date64(type_):
        # Days that fit in a date32, and whose nanoseconds fit in the timestamp that ORC stores.
        return -9_000_000_000_000, 9_000_000_000_000
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        # The years from 1685 to 2255, which every unit can represent and every format can store.
        seconds = 9_000_000_000
        count = seconds * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
        return -count, count
    if pa.types.is_unsigned_integer(type_):
        return 0, 2**type_.bit_width - 1
    return -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1


def floats(rng: random.Random, type_: pa.DataType, numpy: np.random.Generator, size: int) -> pa.Array:
    """Returns floating-point numbers: random bits, or close to each other, including all special values."""
    native = {16: np.float16, 32: np.float32, 64: np.float64}[type_.bit_width]
    kind = rng.randrange(3)
    if kind == 0:
        values = np.frombuffer(numpy.bytes(size * type_.bit_width // 8), native).copy()
    elif kind == 1:
        values = numpy.normal(0, 1000, size).astype(native)
    else:
        values = (numpy.integers(-500, 500, size) / 4).astype(native)
    if kind != 2:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(native).tiny, np.finfo(native).max][
            : size // 2
        ]
        values[: len(special)] = special
    return pa.Array.from_buffers(type_, size, [None, pa.py_buffer(values.tobytes())])


def decimals(rng: random.Random, type_: pa.DataType, size: int) -> pa.Array:
    """Returns decimals of up to all digits, or of a few."""
    maximum = 10**type_.precision - 1
    limit = rng.choice([maximum, maximum, min(maximum, 1_000)])
    values = [maximum, -maximum, 0, -1][: size // 2]
    values += [rng.randint(-limit, limit) for _ in range(size - len(values))]
    width = type_.bit_width // 8
    data = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return pa.Array.from_buffers(type_, size, [None, pa.py_buffer(data)])


def texts(rng: random.Random, size: int) -> list[str]:
    """Returns strings with a common prefix, words, numbers, or long strings."""
    kind = rng.randrange(5)
    if kind == 0:
        return [
            WORDS[at % len(WORDS)] + (str(at // len(WORDS)) if at >= len(WORDS) else "") for at in range(size)
        ]
    if kind == 1:
        prefix = rng.choice(["", "s3://lake/part-", "Ålesund-", "x" * 70])
        return [f"{prefix}{number:06d}" for number in range(size)]
    if kind == 2:
        numbers = [rng.getrandbits(64) for _ in range(min(size, SLOW_POOL))]
        return [f"{number:x}" for number in numbers]
    if kind == 3:
        # Of a few lengths, so that only their contents differ.
        return ["".join(rng.choices("abæ", k=rng.randrange(9))) for _ in range(min(size, SLOW_POOL))]
    lengths = [0, 1, 11, 12, 13, 64, 300, 4_000]
    size = min(size, 100)
    return [f"{number}{rng.choice('aæ🙂')}" * (rng.choice(lengths) // 4) for number in range(size)]


def array(rng: random.Random, type_: pa.DataType, rows: int, may_be_null: bool = True) -> pa.Array:
    """Returns `rows` values of a type, drawn in a random way, with nulls in a random pattern."""
    nulls = null_mask(rng, rows) if may_be_null else None
    if pa.types.is_null(type_):
        return pa.nulls(rows)
    if pa.types.is_struct(type_):
        children = [array(rng, field.type, rows) for field in type_]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=masked(nulls))
    if pa.types.is_fixed_size_list(type_):
        child = array(rng, type_.value_type, rows * type_.list_size)
        return pa.FixedSizeListArray.from_arrays(child, type=type_, mask=masked(nulls))
    if pa.types.is_map(type_) or is_list(type_):
        offsets = list_offsets(rng, rows, nulls)
        count = int(offsets[-1])
        if pa.types.is_map(type_):
            keys = array(rng, type_.key_type, count, may_be_null=False)
            items = array(rng, type_.item_type, count)
            offsets = pa.array(offsets, pa.int32())
            return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=masked(nulls))
        child = array(rng, type_.value_type, count)
        if pa.types.is_large_list(type_):
            return pa.LargeListArray.from_arrays(pa.array(offsets), child, type=type_, mask=masked(nulls))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, type=type_, mask=masked(nulls))
    if pa.types.is_dictionary(type_):
        # Few enough values for the narrowest keys, even if several chunks share a dictionary.
        size = min(rows, {8: 40, 16: 10_000}.get(type_.index_type.bit_width, rows))
        values, at = draw(rng, plainer(type_.value_type), rows, size)
        indices = pa.array(at, mask=nulls).cast(type_.index_type)
        return pa.DictionaryArray.from_arrays(indices, values.cast(type_.value_type))
    values, at = draw(rng, plainer(type_), rows, rows)
    return values.take(pa.array(at, mask=nulls)).cast(type_)


def masked(nulls: np.ndarray | None) -> pa.Array | None:
    """Returns the mask as pyarrow's constructors expect it."""
    return None if nulls is None else pa.array(nulls)


def draw(rng: random.Random, type_: pa.DataType, rows: int, max_values: int) -> tuple[pa.Array, np.ndarray]:
    """Returns a pool of at most `max_values` values, and the index of each row's value."""
    numpy = np.random.default_rng(rng.getrandbits(64))
    pattern = rng.choice(["few", "few", "many", "constant", "sorted", "runs", "skewed", "distinct"])
    size = {"few": rng.randint(1, 20), "constant": 1, "many": rows // 2, "runs": rng.randint(1, 60)}.get(
        pattern, rows
    )
    values = pool(rng, type_, max(1, min(size, max_values)), pattern == "sorted")
    size = len(values)
    if pattern == "distinct":
        at = np.arange(rows) % size
    elif pattern == "sorted":
        at = np.sort(numpy.integers(0, size, rows))
    elif pattern == "runs":
        at = np.repeat(numpy.integers(0, size, rows), rng.choice([3, 9, 200]))[:rows]
    elif pattern == "skewed":
        at = np.minimum(numpy.geometric(0.05, rows) - 1, size - 1)
    else:
        at = numpy.integers(0, size, rows)
    return values, at


def null_mask(rng: random.Random, rows: int) -> np.ndarray | None:
    """Returns a mask that is true for nulls; `None` for no nulls."""
    numpy = np.random.default_rng(rng.getrandbits(64))
    pattern = rng.choice(
        ["none", "none", "none", "all", "some", "some", "rare", "runs", "second", "first", "last"]
    )
    if pattern == "none":
        return None
    mask = np.zeros(rows, bool)
    if pattern == "all":
        mask[:] = True
    elif pattern == "some":
        mask = numpy.random(rows) < rng.choice([0.1, 0.5, 0.9])
    elif pattern == "rare":
        mask = numpy.random(rows) < 0.01
    elif pattern == "runs":
        mask = np.repeat(numpy.random(rows) < 0.3, rng.choice([8, 40, 1_000]))[:rows]
    elif pattern == "second":
        mask[rng.randrange(2) :: 2] = True
    elif rows > 0:
        mask[0 if pattern == "first" else -1] = True
        # Sometimes the only value instead of the only null.
        mask = ~mask if rng.random() < 0.3 else mask
    return mask


def list_offsets(rng: random.Random, rows: int, nulls: np.ndarray | None) -> np.ndarray:
    """Returns list offsets: lists are empty, short, and occasionally long."""
    numpy = np.random.default_rng(rng.getrandbits(64))
    longest = rng.choice([1, 2, 4, 4, 4, 30]) if rows <= 1_000 else 3
    lengths = numpy.integers(0, longest, rows, endpoint=True)
    if 0 < rows <= 1_000 and rng.random() < 0.1:
        # More items than a page of levels has.
        lengths[rng.randrange(rows)] = 1_500
    if nulls is not None:
        lengths[nulls] = 0
    return np.concatenate([[0], np.cumsum(lengths)])


def table(rng: random.Random, scalars: list[pa.DataType]) -> pa.Table:
    """Returns a table of a few columns, in one or several chunks."""
    is_large = rng.randrange(TABLES_PER_LARGE) == 0
    max_rows = rng.choice(LARGE_ROWS if is_large else SMALL_ROWS)
    rows = rng.randint(max_rows // 2 + 1, max_rows) if max_rows > 2 and not is_large else max_rows
    width = rng.randint(1, 2) if is_large else rng.randint(1, 5)
    fields = [pa.field(f"c{at}", choose_type(rng, scalars, 1 if is_large else 3)) for at in range(width)]
    cuts = sorted(rng.randint(0, rows) for _ in range(rng.choice([0, 0, 0, 1, 2])))
    lengths = [end - start for start, end in zip([0, *cuts], [*cuts, rows], strict=True)]
    columns = []
    for at, field in enumerate(fields):
        chunks = [array(rng, field.type, length) for length in lengths]
        column = pa.chunked_array(chunks, field.type)
        columns.append(column)
        # A non-nullable column is stored without definition levels.
        if column.null_count == 0 and rng.random() < 0.3 and not pa.types.is_null(field.type):
            fields[at] = field.with_nullable(False)
    made = pa.table(columns, schema=pa.schema(fields))
    # Lists of long strings are cut, so that no file takes longer than a hundred others.
    return made if made.nbytes < MAX_BYTES else made.slice(0, rows // 8)


# Writer options.


def parquet_case(seed: int) -> Case:
    """Returns a table, and options of `pyarrow.parquet.write_table`."""
    rng = random.Random(f"parquet {seed}")
    made = table(rng, parquet_scalars())
    return Case(seed, made, parquet_options(rng, made))


def parquet_options(rng: random.Random, made: pa.Table) -> dict[str, Any]:
    """Returns options of `pyarrow.parquet.write_table` that fit a table."""
    rows = max(1, made.num_rows)
    is_compliant = rng.random() < 0.9
    columns = [
        leaf for field in made.schema for leaf in leaves(field, "", "element" if is_compliant else "item")
    ]
    # Brotli is slow to start a page, and large tables have thousands of them.
    codecs = ["none", "snappy", "gzip", "lz4", "zstd"] * 2 + ["brotli"] * (rows <= 3_000)
    # Each row group has a fixed cost: a large table is not cut into thousands of them.
    groups = [rows, rows, rows // 2 + 1, rows // 7 + 1, max(rows // 40, rng.randint(1, 100))]
    options: dict[str, Any] = {
        "compression": rng.choice(codecs),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "row_group_size": rng.choice(groups),
        "data_page_size": rng.choice([1, 64, 1_000, 20_000, None]),
        "write_batch_size": rng.choice([1, 10, 100, 1_024, None]) if rows <= 3_000 else None,
        "max_rows_per_page": rng.choice([5, 100, 1_000, None, None]) if rows <= 3_000 else None,
        "write_statistics": rng.random() < 0.8,
        "write_page_index": rng.random() < 0.5,
        "write_page_checksum": rng.random() < 0.3,
        "store_schema": rng.random() < 0.7,
        "store_decimal_as_integer": rng.random() < 0.5,
        "version": rng.choice(["1.0", "2.4", "2.6", "2.6", "2.6"]),
        "use_compliant_nested_type": is_compliant,
        "use_deprecated_int96_timestamps": rng.random() < 0.2,
        "write_time_adjusted_to_utc": rng.random() < 0.2,
        "use_content_defined_chunking": rng.random() < 0.1,
    }
    if options["version"] != "2.6":
        # These have no nanoseconds.
        options |= {"coerce_timestamps": rng.choice(["ms", "us"]), "allow_truncated_timestamps": True}
    if rng.random() < 0.2:
        options["compression"] = {path: rng.choice(codecs) for path, _ in columns}
    if rng.random() < 0.3:
        options["dictionary_pagesize_limit"] = rng.choice([1, 50, 1_000])
    options |= encodings(rng, columns)
    filtered = [path for path, type_ in columns if not pa.types.is_boolean(type_) and rng.random() < 0.5]
    if rng.random() < 0.2 and filtered:
        options["bloom_filter_options"] = {path: {"ndv": 1_000, "fpp": 0.05} for path in filtered}
    return options


def encodings(rng: random.Random, columns: list[tuple[str, pa.DataType]]) -> dict[str, Any]:
    """Returns options: dictionaries for all columns, some or none, and an encoding for each other column."""
    kind = rng.randrange(8)
    if kind <= 2:
        return {"use_dictionary": True}
    if kind == 3:
        return {"use_dictionary": [path for path, _ in columns if rng.random() < 0.5]}
    if kind == 4:
        return {"use_dictionary": False}
    return {
        "use_dictionary": False,
        "column_encoding": {path: rng.choice(fitting(type_)) for path, type_ in columns},
    }


def fitting(type_: pa.DataType) -> list[str]:
    """Returns the encodings that pyarrow can write a type in, whatever its other options."""
    if pa.types.is_boolean(type_):
        return ["PLAIN", "RLE"]
    if plainer(type_) in (pa.string(), pa.binary()):
        return ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    if pa.types.is_fixed_size_binary(type_) or pa.types.is_float16(type_):
        return ["PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"]
    if pa.types.is_decimal(type_):
        # Other options decide whether it is stored as bytes or as an integer.
        return ["PLAIN", "BYTE_STREAM_SPLIT"]
    if pa.types.is_floating(type_):
        return ["PLAIN", "BYTE_STREAM_SPLIT"]
    if pa.types.is_timestamp(type_) or pa.types.is_null(type_) or pa.types.is_dictionary(type_):
        # A timestamp may be an INT96, which is always PLAIN. pyarrow cannot read deltas as a dictionary.
        return ["PLAIN"]
    return ["PLAIN", "DELTA_BINARY_PACKED", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]


def read_parquet(case: Case, path: Path) -> pa.Table:
    """Returns what pyarrow reads from the file of a case.

    With a `data_page_size` of 1, pyarrow 26 writes a second page for lists in a row group of one row. When reading it
    stops before that page: it fails, or finds no row. The same table is then read from larger pages.
    """
    try:
        table = pq.read_table(path)
        if table.num_rows == case.table.num_rows:
            return table
    except (pa.ArrowInvalid, OSError) as error:
        assert "length" in str(error) or "levels" in str(error), error
    larger = path.with_suffix(".larger")
    pages = ("data_page_size", "write_batch_size", "max_rows_per_page")
    pq.write_table(
        case.table, larger, **{key: value for key, value in case.options.items() if key not in pages}
    )
    return pq.read_table(larger)


def orc_case(seed: int) -> Case:
    """Returns a table, and options of `pyarrow.orc.write_table`."""
    rng = random.Random(f"orc {seed}")
    made = table(rng, orc_scalars())
    return Case(seed, made, orc_options(rng, made))


def orc_options(rng: random.Random, made: pa.Table) -> dict[str, Any]:
    """Returns options of `pyarrow.orc.write_table` that fit a table."""
    options: dict[str, Any] = {
        "compression": rng.choice(["uncompressed", "snappy", "zlib", "lz4", "zstd"]),
        "compression_block_size": rng.choice([65_536, 262_144]),
        "compression_strategy": rng.choice(["speed", "compression"]),
        "stripe_size": rng.choice([1, 4_096, 65_536, 64 << 20]),
        "batch_size": rng.choice([7, 100, 1_024, 10_000]) if made.num_rows <= 3_000 else 1_024,
        "dictionary_key_size_threshold": rng.choice([0.0, 0.8, 1.0]),
        "row_index_stride": rng.choice([10, 100, 1_000, 10_000]),
        "file_version": rng.choice(["0.12", "0.12", "0.12", "0.11"]),
    }
    if rng.random() < 0.2:
        options["bloom_filter_columns"] = list(range(made.num_columns))
    return options
