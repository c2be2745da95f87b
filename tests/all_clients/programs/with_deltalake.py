"""deltalake, with commits by conditional PUT."""

from __future__ import annotations

from typing import Any

import deltalake
import pyarrow as pa
from deltalake import DeltaTable

from protocol import BUCKET, OBJECT_STORE_OPTIONS, columns, serve

OPTIONS = OBJECT_STORE_OPTIONS | {"max_retries": "0", "conditional_put": "etag"}


def uri(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def write_table(name: str, mode: str, first: int, count: int) -> None:
    mode = {"new": "error"}.get(mode, mode)
    deltalake.write_deltalake(uri(name), pa.table(columns(first, count)), mode=mode, storage_options=OPTIONS)


def read_table(name: str) -> dict[str, list[Any]]:
    rows = pa.table(DeltaTable(uri(name), storage_options=OPTIONS).to_pyarrow_table())
    return rows.sort_by("id").select(["id", "name", "value"]).to_pydict()


def count_rows(name: str, at_least: int) -> int:
    table = DeltaTable(uri(name), storage_options=OPTIONS)
    return table.to_pyarrow_table(filters=[("id", ">=", at_least)]).num_rows


def delete_rows(name: str, below: int) -> None:
    DeltaTable(uri(name), storage_options=OPTIONS).delete(f"id < {below}")


def clean(name: str) -> None:
    """Compacts, writes a checkpoint, and removes all files that the table does not need."""
    table = DeltaTable(uri(name), storage_options=OPTIONS)
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


serve(deltalake.__version__, write_table, read_table, count_rows, delete_rows, clean)
