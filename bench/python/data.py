"""The files to read: columns of strings with more and fewer distinct values, TPC-H lineitem, and many columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import stylobate as st

ROWS = 10_000_000
ROW_GROUP = 1_000_000
# pyarrow falls back from a dictionary larger than this many bytes, in the middle of a row group.
SMALL_DICTIONARY = 1 << 20
WIDE_COLUMNS = 20_000


def write(folder: Path, scale: float) -> None:
    rng = np.random.default_rng(1)
    rows = int(ROWS * scale)
    for name, distinct, limit in (
        ("thousand", 1_000, 64 << 20),
        ("hundred-thousand", 100_000, 64 << 20),
        ("fell-back", 100_000, SMALL_DICTIONARY),
    ):
        values = pa.array([f"value number {at * 7919 % 1_000_003:07}" for at in range(distinct)])
        path = folder / f"{name}.parquet"
        with pq.ParquetWriter(path, pa.schema({"s": pa.string()}), dictionary_pagesize_limit=limit) as writer:
            for start in range(0, rows, ROW_GROUP):
                count = min(ROW_GROUP, rows - start)
                codes = pa.array(rng.integers(0, distinct, count, dtype=np.int32))
                writer.write_table(pa.table({"s": values.take(codes)}), row_group_size=ROW_GROUP)
    lineitem = st.generate_tpch(scale, tables="lineitem")["lineitem"]
    st.write_parquet(lineitem, folder / "lineitem.parquet", dictionary=None)
    wide = pa.table({f"column_{at}": pa.array([at, None, 1]) for at in range(WIDE_COLUMNS)})
    pq.write_table(wide, folder / "wide.parquet")
