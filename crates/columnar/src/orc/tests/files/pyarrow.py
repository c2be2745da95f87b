import datetime, decimal, random
import pyarrow as pa
from pyarrow import orc
print(pa.__version__)
rows = 880
rng = random.Random(7)
def some(f, share=0.2, block=False):
    # Whole row groups without a value, others with some, others with all.
    return [None if (r // 100 % 5 == 3) or (r // 100 % 5 in (1, 2) and rng.random() < share) else f(r) for r in range(rows)]
day = datetime.date(2000, 1, 1)
utc = datetime.datetime(1995, 1, 1)
columns = {
    "id": pa.array(range(rows), pa.int64()),
    "boolean": pa.array(some(lambda r: r * 7 % 3 == 0)),
    "byte": pa.array(some(lambda r: r % 100 - 50), pa.int8()),
    "short": pa.array(some(lambda r: r // 3 - 400), pa.int16()),
    "int": pa.array(some(lambda r: r * 7919 % 1000003), pa.int32()),
    "long": pa.array(some(lambda r: rng.getrandbits(60) - (1 << 59)), pa.int64()),
    "runs": pa.array([r // 170 for r in range(rows)], pa.int64()),
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
t = pa.table(columns)
names = ["id","byte","short","int","long","float","double","date","decimal","wide","unique","few","binary","clock","instant"]
for name, kw in {
    "plain": dict(compression="uncompressed"),
    "zstd": dict(compression="zstd", compression_block_size=65536),
}.items():
    path = ff"pyarrow-{name}.orc"
    orc.write_table(t, path, row_index_stride=100, batch_size=880, stripe_size=16<<20, dictionary_key_size_threshold=0.5,
        bloom_filter_columns=[t.schema.names.index(n) for n in names], bloom_filter_fpp=0.01, **kw)
    import os
    f = orc.ORCFile(path)
    print(path, os.path.getsize(path), f.nstripes, f.row_index_stride, f.software_version, f.compression_size)
