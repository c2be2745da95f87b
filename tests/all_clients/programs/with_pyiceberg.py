"""PyIceberg with its default file access (pyarrow's), and a catalog in SQLite."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import GreaterThanOrEqual, LessThan

from protocol import BUCKET, ENDPOINT, KEY_ID, REGION, SECRET, columns, serve

catalog = SqlCatalog(
    "matrix",
    **{
        "uri": f"sqlite:///{sys.argv[5]}",
        "warehouse": f"s3://{BUCKET}",
        "s3.endpoint": ENDPOINT,
        "s3.access-key-id": KEY_ID,
        "s3.secret-access-key": SECRET,
        "s3.region": REGION,
    },
)


def identifier(name: str) -> tuple[str, str]:
    return ("matrix", name.strip("/").replace("/", "_").replace("-", "_"))


def write_table(name: str, mode: str, first: int, count: int) -> None:
    rows = pa.table(columns(first, count))
    if mode == "new":
        catalog.create_namespace_if_not_exists("matrix")
        catalog.create_table(identifier(name), schema=rows.schema, location=f"s3://{BUCKET}/{name.strip('/')}")
    table = catalog.load_table(identifier(name))
    if mode == "overwrite":
        table.overwrite(rows)
    else:
        table.append(rows)


def read_table(name: str) -> dict[str, list[Any]]:
    rows = catalog.load_table(identifier(name)).scan().to_arrow()
    return rows.sort_by("id").select(["id", "name", "value"]).to_pydict()


def count_rows(name: str, at_least: int) -> int:
    return catalog.load_table(identifier(name)).scan(row_filter=GreaterThanOrEqual("id", at_least)).to_arrow().num_rows


def delete_rows(name: str, below: int) -> None:
    catalog.load_table(identifier(name)).delete(LessThan("id", below))


def clean(name: str) -> None:
    """Drops the table and its files."""
    catalog.purge_table(identifier(name))


serve(pyiceberg.__version__, write_table, read_table, count_rows, delete_rows, clean)
