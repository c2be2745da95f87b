"""Writes pyarrow-plain.orc and pyarrow-zstd.orc into the current folder; those here are of pyarrow 26.0.1 (ORC C++ 2.2.2)."""

import datetime
import decimal
import random

import pyarrow as pa
from pyarrow import orc

ROWS = 880
STRIDE = 100
rng = random.Random(7)


def some(value, share=0.2):
    """Row groups without nulls, with some, and with nothing else."""
    def is_null(row):
        group = row // STRIDE % 5
        return group == 3 or group in (1, 2) and rng.random() < share

    return [None if is_null(row) else value(row) for row in range(ROWS)]


day = datetime.date(2000, 1, 1)
utc = datetime.datetime(1995, 1, 1)
columns = {
    "id": pa.array(range(ROWS), pa.int64()),
    "boolean": pa.array(some(lambda r: r * 7 % 3 == 0)),
    "byte": pa.array(some(lambda r: r % 100 - 50), pa.int8()),
    "short": pa.array(some(lambda r: r // 3 - 400), pa.int16()),
    "int": pa.array(some(lambda r: r * 7919 % 1000003), pa.int32()),
    "long": pa.array(some(lambda r: rng.getrandbits(60) - (1 << 59)), pa.int64()),
    "runs": pa.array([r // 170 for r in range(ROWS)], pa.int64()),
    "float": pa.array(some(lambda r: r / 4), pa.float32()),
    "double": pa.array(some(lambda r: r / 7 - 100), pa.float64()),
    "date": pa.array(some(lambda r: day + datetime.timedelta(days=r)), pa.date32()),
    "decimal": pa.array(some(lambda r: decimal.Decimal(r * 50 - 7000) / 100), pa.decimal128(12, 2)),
    "wide": pa.array(some(lambda r: decimal.Decimal(r * 10**20 + r)), pa.decimal128(38, 0)),
    "unique": pa.array(some(lambda r: f"text {r * 7919 % 100000}")),
    "few": pa.array(some(lambda r: ["AIR", "FOB", "MAIL", "RAIL", "SHIP"][r * 31 // 7 % 5])),
    "binary": pa.array(some(lambda r: bytes([r % 256]) * (r % 5)), pa.binary()),
    "clock": pa.array(some(lambda r: utc + datetime.timedelta(hours=r, microseconds=r)), pa.timestamp("us")),
    "instant": pa.array(some(lambda r: utc + datetime.timedelta(minutes=r * 999, milliseconds=r)), pa.timestamp("ms", tz="UTC")),
    "list": pa.array(some(lambda r: [r + i if i % 2 else None for i in range(r % 4)]), pa.list_(pa.int32())),
    "pair": pa.array(some(lambda r: {"a": r, "b": f"p{r % 50}"}), pa.struct([("a", pa.int64()), ("b", pa.string())])),
}
table = pa.table(columns)
filtered = [at for at, name in enumerate(table.schema.names, 1) if name not in ("boolean", "runs", "list", "pair")]
layout = {"row_index_stride": STRIDE, "batch_size": ROWS, "stripe_size": 16 << 20, "compression_block_size": 64 << 10}
for codec, name in {"uncompressed": "plain", "zstd": "zstd"}.items():
    orc.write_table(
        table,
        f"pyarrow-{name}.orc",
        compression=codec,
        dictionary_key_size_threshold=0.5,
        bloom_filter_columns=filtered,
        bloom_filter_fpp=0.01,
        **layout,
    )
