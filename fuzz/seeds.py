#!/usr/bin/env python3
"""Writes what fuzzing begins with: small files of both formats, commands, filters; and the folder that a node serves."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import stylobate as st

ROWS = 40


def main() -> None:
    corpus = Path(sys.argv[1])
    for target in ("file", "flight", "predicate"):
        (corpus / target).mkdir(parents=True, exist_ok=True)
    files(corpus / "file")
    lake = corpus / "lake"
    lake.mkdir(exist_ok=True)
    pq.write_table(flat(), lake / "a.parquet", row_group_size=10)
    orc.write_table(flat(), lake / "b.orc")
    for file in lake.iterdir():
        os.utime(file, (time.time() - 3600,) * 2)
    for number, filter_ in enumerate(FILTERS):
        (corpus / "predicate" / f"{number}").write_text(filter_)
        command = {"version": 1, "path": "lake/*.parquet", "columns": ["text", "number"], "where": filter_,
                   "dictionary": ["text"], "limit": 9}
        (corpus / "flight" / f"command-{number}").write_bytes(b"\0" + json.dumps(command).encode())
    (corpus / "flight" / "path").write_bytes(b"\3lake/a.parquet")
    (corpus / "flight" / "warm").write_bytes(b'\4warm {"bucket":"lake","prefix":""}')
    content = {"command": {"version": 1, "path": "lake/a.parquet"}, "work": {"whole": ""}, "owner": None,
               "expires": 9_999_999_999_999}
    (corpus / "flight" / "ticket").write_bytes(b"\2" + json.dumps(content).encode())


FILTERS = [
    "number > 5 AND text LIKE 'a%'",
    "text IN ('a', 'b''c') OR NOT (price BETWEEN 1.5 AND 2e3)",
    "day >= DATE '2024-01-31' AND at < TIMESTAMP '2024-01-31 10:00:00'",
    "starts_with(text, 'x') AND contains(text, 'y') OR flag IS NOT NULL",
    '"nested.inner" = -7 AND number <> other AND text NOT LIKE \'_\\%\' ESCAPE \'\\\'',
    "flag = true AND bytes = X'00ff'",
]


def flat() -> pa.Table:
    rows = range(ROWS)
    day = datetime.date(2024, 1, 1)
    return pa.table({
        "text": pa.array([None if row % 7 == 0 else "abcdefg"[row % 5] * (row % 4) for row in rows]),
        "number": pa.array([row * 3 - 20 for row in rows], pa.int64()),
        "small": pa.array([row % 3 for row in rows], pa.int8()),
        "price": pa.array([row / 4 for row in rows], pa.float64()),
        "amount": pa.array([decimal.Decimal(row) / 4 for row in rows], pa.decimal128(12, 2)),
        "flag": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in rows]),
        "day": pa.array([day + datetime.timedelta(days=row) for row in rows]),
        "at": pa.array([row * 1_000_000 for row in rows], pa.timestamp("us")),
        "bytes": pa.array([bytes([row, 255 - row]) for row in rows], pa.binary()),
    })


def nested() -> pa.Table:
    rows = range(ROWS)
    return pa.table({
        "list": pa.array([None if row % 6 == 0 else list(range(row % 4)) for row in rows], pa.list_(pa.int32())),
        "nested": pa.array([{"inner": row, "text": "x" * (row % 3)} for row in rows]),
        "map": pa.array([[("k", row)] for row in rows], pa.map_(pa.string(), pa.int32())),
    })


def files(folder: Path) -> None:
    for name, table in (("flat", flat()), ("nested", nested()), ("one", flat().select(["text"])),
                        ("two", flat().select(["number", "price"]))):
        for version in ("1.0", "2.0"):
            for codec in ("none", "snappy", "zstd"):
                pq.write_table(table, folder / f"{name}-{version}-{codec}.parquet", compression=codec,
                               data_page_version=version, row_group_size=25, data_page_size=64,
                               dictionary_pagesize_limit=64, write_page_index=codec == "none")
        for encoding in ("DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT"):
            fits = {"number": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"), "text": ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")}
            columns = {name: encoding for name in table.column_names if encoding in fits.get(name, ())}
            if columns:
                pq.write_table(table, folder / f"{name}-{encoding}.parquet", compression="none",
                               use_dictionary=False, column_encoding=columns)
        for codec in ("uncompressed", "snappy", "zlib", "zstd", "lz4"):
            orc.write_table(table, folder / f"{name}-{codec}.orc", compression=codec,
                            dictionary_key_size_threshold=1.0 if codec != "zlib" else 0.0)
            # Several row groups to a stripe, with bloom filters: what filters read alone.
            orc.write_table(table, folder / f"{name}-strides-{codec}.orc", compression=codec, row_index_stride=8,
                            bloom_filter_columns=list(range(table.num_columns)),
                            dictionary_key_size_threshold=1.0 if codec != "snappy" else 0.0)
            filtered = [field.name for field in table.schema if field.type != pa.bool_()]
            # The same by our own writer, which has more kinds of runs, statistics and filters.
            st.write_orc(table, folder / f"{name}-ours-{codec}.orc", compression=codec, row_index_stride=8,
                         stripe_bytes=1 << 10, dictionary=codec != "snappy",
                         bloom_filter_columns=filtered)


if __name__ == "__main__":
    main()
