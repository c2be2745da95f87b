"""Tables that the tests write to files: orders of mixed types, and the trips of the documentation."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import pyarrow as pa

TRIPS = pa.table(
    {
        "city": ["Oslo", "Bergen", "Oslo", "Bergen", "Oslo"],
        "fare": [7.5, 12.0, 9.0, 30.0, 14.5],
        "day": [datetime.date(2024, 5, day) for day in (1, 1, 2, 3, 3)],
    }
)

MODES = ["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"]
UTC = datetime.timezone.utc


def orders(rows: int, seed: int = 3) -> pa.Table:
    """Returns `rows` orders, of the types that both Parquet and ORC have; a tenth of each column is null, except for
    keys."""
    random_ = random.Random(seed)

    def column(kind: pa.DataType, make: Any) -> pa.Array:
        return pa.array([None if random_.random() < 0.1 else make() for _ in range(rows)], kind)

    when = datetime.datetime(2024, 1, 1)
    return pa.table(
        {
            "key": pa.array(range(rows), pa.int64()),
            "quantity": column(pa.int32(), lambda: random_.randrange(50)),
            "price": column(pa.float64(), lambda: round(random_.random() * 1000, 2)),
            "discount": column(
                pa.decimal128(12, 2), lambda: decimal.Decimal(random_.randrange(0, 100)) / 100
            ),
            "mode": column(pa.string(), lambda: random_.choice(MODES)),
            "comment": column(pa.string(), lambda: f"{random_.choice(MODES).lower()} {random_.random():.6f}"),
            "raw": column(pa.binary(), lambda: bytes(random_.randrange(256) for _ in range(3))),
            "returned": column(pa.bool_(), lambda: random_.random() < 0.5),
            "day": column(
                pa.date32(), lambda: (when + datetime.timedelta(days=random_.randrange(365))).date()
            ),
            "at": column(
                pa.timestamp("us"), lambda: when + datetime.timedelta(seconds=random_.randrange(10**7))
            ),
            "tags": column(pa.list_(pa.string()), lambda: random_.choices(MODES, k=random_.randrange(3))),
            "place": column(
                pa.struct([("city", pa.string()), ("zip", pa.int32())]),
                lambda: {"city": random_.choice(["Oslo", "Bergen"]), "zip": random_.randrange(9999)},
            ),
        }
    )
