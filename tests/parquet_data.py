"""Reproducible Parquet data."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP = 40_000


def _column(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    """Returns random values of a fixed-width type."""
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(rng.randbytes(rows * kind.bit_width // 8))])


def mixed_table(rows: int, seed: int) -> pa.Table:
    """Numbers, strings with few and many values, decimals, times, booleans, lists and nulls."""
    rng = random.Random(seed)
    number = _column(rng, pa.int64(), rows)
    small = pc.cast(_column(rng, pa.uint8(), rows), pa.int32())
    half_null = pc.if_else(pc.less(small, 128), small, None)
    names = pa.array([f"name-{n:02}" for n in range(64)])
    money = pa.array([Decimal(n) / 100 for n in range(256)], pa.decimal128(12, 2))
    tags = pa.ListArray.from_arrays(pa.array(range(0, 2 * rows + 1, 2), pa.int32()), _column(rng, pa.int16(), 2 * rows))
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "number": number,
            "ratio": pc.divide(pc.cast(pc.bit_wise_and(number, (1 << 40) - 1), pa.float64()), 7.0),
            "small": small,
            "half_null": half_null,
            "name": names.take(pc.bit_wise_and(small, 63)),
            "comment": pc.binary_join_element_wise("row", pc.cast(number, pa.string()), "-"),
            "price": money.take(small),
            "when": pc.cast(pc.bit_wise_and(number, (1 << 50) - 1), pa.timestamp("us")),
            "flag": pc.equal(pc.bit_wise_and(small, 1), 0),
            "tags": tags,
        }
    )


def write(table: pa.Table, path: Path) -> None:
    """Writes a file of several row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=ROW_GROUP, compression="snappy")
