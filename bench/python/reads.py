"""The reads of each engine, and the process that runs them for one engine: `reads.py ENGINE THREADS FOLDER`.

A read of strings returns its table, whose checksum is the answer: it is computed after the clock has stopped.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STRINGS = ("thousand", "hundred-thousand", "fell-back")
NAMES = [
    *(f"{name} as dictionary" for name in STRINGS),
    *(f"{name} as written" for name in STRINGS),
    *(f"{name} as views" for name in STRINGS[:2]),
    "Q6 cold",
    "Q6 warm",
    "Q6 without memory",
    "schema of 20,000 columns",
    "one of 20,000 columns",
    "20,000 columns",
    "thousand as dictionary, without memory",
    "thousand as written, without memory",
]
ENGINES = ["stylobate", "pyarrow", "polars", "duckdb"]
# A read, the engine that it is compared with, and the minimum ratio of that engine's time to ours.
BARS = [
    ("thousand as dictionary", "pyarrow", 6.0),
    ("hundred-thousand as dictionary", "pyarrow", 6.0),
    ("fell-back as dictionary", "pyarrow", 2.0),
    ("Q6 warm", "pyarrow", 10.0),
    ("thousand as written", "pyarrow", 2.5),
    ("hundred-thousand as written", "pyarrow", 2.5),
    ("fell-back as written", "pyarrow", 2.5),
    ("schema of 20,000 columns", "pyarrow", 1.0),
    ("one of 20,000 columns", "pyarrow", 1.0),
    ("20,000 columns", "pyarrow", 1.0),
    ("thousand as views", "polars", 1.0),
    ("hundred-thousand as views", "polars", 1.0),
]
TWO_THREADS = [name for name in NAMES if name != "Q6 warm" and "columns" not in name]
WITHOUT_MEMORY = {
    "thousand as dictionary": "thousand as dictionary, without memory",
    "thousand as written": "thousand as written, without memory",
    "Q6 cold": "Q6 without memory",
}
FIRST, LAST = dt.date(1994, 1, 1), dt.date(1995, 1, 1)
COLUMNS = ["l_extendedprice", "l_discount"]
# Approximate number of values that are hashed, over all chunks of a column.
SAMPLE = 1_000
Read = Callable[[], Any]


def stylobate(threads: int, folder: Path) -> dict[str, Read]:
    import pyarrow as pa
    import stylobate as st

    def strings(name: str, memory: str = "2GiB", **options: Any) -> Read:
        return lambda: st.scan(
            folder / f"{name}.parquet", threads=threads, cache=st.Cache(memory=memory), **options
        ).to_arrow()

    condition = (
        f"l_shipdate >= DATE '{FIRST}' AND l_shipdate < DATE '{LAST}' AND l_discount BETWEEN 0.05 AND 0.07 "
        "AND l_quantity < 24"
    )

    def q6(memory: str, cache: Any = None) -> Read:
        def read() -> str:
            scan = st.scan(
                folder / "lineitem.parquet", columns=COLUMNS, filter=condition, threads=threads,
                cache=st.Cache(memory=memory) if cache is None else cache,
            )
            return revenue(scan.to_arrow())

        return read

    def wide(columns: list[str] | None = None) -> Any:
        return st.scan(folder / "wide.parquet", columns=columns, threads=threads, cache=st.Cache(memory="2GiB"))

    pa.set_cpu_count(threads)
    return {
        "schema of 20,000 columns": lambda: f"{len(wide().schema)} columns",
        "one of 20,000 columns": lambda: shape(wide(["column_7"]).to_arrow()),
        "20,000 columns": lambda: shape(wide().to_arrow()),
        **{f"{name} as dictionary": strings(name, dictionary=True) for name in STRINGS},
        **{f"{name} as written": strings(name) for name in STRINGS},
        **{f"{name} as views": strings(name, strings="view") for name in STRINGS},
        "thousand as dictionary, without memory": strings("thousand", "0B", dictionary=True),
        "thousand as written, without memory": strings("thousand", "0B"),
        "Q6 cold": q6("2GiB"),
        "Q6 warm": q6("2GiB", st.Cache(memory="2GiB")),
        "Q6 without memory": q6("0B"),
    }


def pyarrow(threads: int, folder: Path) -> dict[str, Read]:
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    pa.set_cpu_count(threads)

    def strings(name: str, **options: Any) -> Read:
        path = folder / f"{name}.parquet"
        return lambda: pq.ParquetFile(path, **options).read(use_threads=threads > 1)

    decimal = pa.scalar

    def q6() -> str:
        column = ds.field
        kind = ds.dataset(folder / "lineitem.parquet").schema.field("l_discount").type
        condition = (
            (column("l_shipdate") >= FIRST) & (column("l_shipdate") < LAST)
            & (column("l_discount") >= decimal("0.05").cast(kind)) & (column("l_discount") <= decimal("0.07").cast(kind))
            & (column("l_quantity") < decimal("24").cast(kind))
        )
        table = ds.dataset(folder / "lineitem.parquet").to_table(
            columns=COLUMNS, filter=condition, use_threads=threads > 1
        )
        return revenue(table)

    def wide(columns: list[str] | None = None) -> Any:
        return pq.ParquetFile(folder / "wide.parquet").read(columns, use_threads=threads > 1)

    return {
        "schema of 20,000 columns": lambda: f"{len(pq.ParquetFile(folder / 'wide.parquet').schema_arrow)} columns",
        "one of 20,000 columns": lambda: shape(wide(["column_7"])),
        "20,000 columns": lambda: shape(wide()),
        **{f"{name} as dictionary": strings(name, read_dictionary=["s"]) for name in STRINGS},
        **{f"{name} as written": strings(name) for name in STRINGS},
        "Q6 cold": q6,
        "Q6 warm": q6,
    }


def polars(_: int, folder: Path) -> dict[str, Read]:
    import polars as pl

    def strings(name: str) -> Read:
        path = folder / f"{name}.parquet"
        return lambda: pl.read_parquet(path)

    return {
        **{f"{name} as views": strings(name) for name in STRINGS},
        **{f"{name} as written": strings(name) for name in STRINGS},
    }


def duckdb(threads: int, folder: Path) -> dict[str, Read]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")

    def strings(name: str) -> Read:
        path = folder / f"{name}.parquet"
        return lambda: connection.sql(f"SELECT s FROM '{path}'").to_arrow_table()

    def q6() -> str:
        path = folder / "lineitem.parquet"
        return revenue(connection.sql(
            f"SELECT l_extendedprice, l_discount FROM '{path}' WHERE l_shipdate >= DATE '{FIRST}' AND "
            f"l_shipdate < DATE '{LAST}' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
        ).to_arrow_table())

    return {**{f"{name} as written": strings(name) for name in STRINGS}, "Q6 cold": q6, "Q6 warm": q6}


def shape(table: Any) -> str:
    return f"{table.num_rows} rows of {table.num_columns} columns"


def revenue(table: Any) -> str:
    """Returns the sum of Q6, rounded to the digits on which all engines agree."""
    import pyarrow.compute as pc

    price, discount = (table[name].cast("float64") for name in COLUMNS)
    return f"{pc.sum(pc.multiply(price, discount)).as_py():.0f}"


def checksum(table: Any) -> str:
    """Returns rows, bytes of all strings and a hash of a sample of them, independent of their encoding."""
    column = table["s"]
    rows = len(column)
    sampled = range(0, rows, max(1, rows // SAMPLE))
    if type(table).__module__.startswith("polars"):
        count, sample = column.str.len_bytes().sum(), [column[at] for at in sampled]
    else:
        count, sample = sum(map(byte_count, column.chunks)), [column[at].as_py() for at in sampled]
    digest = hashlib.sha256(json.dumps(sample).encode()).hexdigest()
    return f"{rows} rows of {count} bytes, {digest[:16]}"


def byte_count(chunk: Any) -> int:
    """Returns the bytes of the strings of a pyarrow array; of a dictionary, counting each occurrence of a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def lengths(values: Any) -> Any:
        # pyarrow cannot compute lengths of views.
        return pc.binary_length(values.cast(pa.string()) if values.type == pa.string_view() else values)

    if pa.types.is_dictionary(chunk.type):
        found = pc.sum(lengths(chunk.dictionary).take(chunk.indices))
    else:
        found = pc.sum(lengths(chunk))
    return found.as_py() or 0


def main() -> None:
    engine, threads, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    known = globals()[engine](threads, folder)
    for line in sys.stdin:
        read = known.get(line.strip())
        if read is None:
            print("null", flush=True)
            continue
        began = time.perf_counter()
        found = read()
        took = (time.perf_counter() - began) * 1_000
        answer = found if isinstance(found, str) else checksum(found)
        # Memory is freed before another worker reads.
        del found
        print(json.dumps({"milliseconds": took, "answer": answer}), flush=True)


if __name__ == "__main__":
    main()
