"""Dask: bytes in blocks, and data frames as Parquet, through s3fs."""

from __future__ import annotations

from typing import Any

import dask
import dask.dataframe as dd
import pandas as pd
from dask.bytes import read_bytes

from protocol import BUCKET, ENDPOINT, KEY_ID, MIB, REGION, SECRET, columns, serve

OPTIONS = {
    "key": KEY_ID,
    "secret": SECRET,
    "endpoint_url": ENDPOINT,
    "client_kwargs": {"region_name": REGION},
    "config_kwargs": {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}},
}


def get(key: str, file: str) -> None:
    _, (blocks,) = read_bytes(f"s3://{BUCKET}/{key}", sample=False, blocksize=4 * MIB, **OPTIONS)
    with open(file, "wb") as target:
        for block in dask.compute(*blocks):
            target.write(block)


def write_table(name: str, mode: str, first: int, count: int) -> None:
    frame = dd.from_pandas(pd.DataFrame(columns(first, count)), npartitions=3)
    frame.to_parquet(
        f"s3://{BUCKET}/{name}",
        storage_options=OPTIONS,
        write_index=False,
        append=mode == "append",
        overwrite=mode == "overwrite",
        ignore_divisions=True,
    )


def scan(name: str) -> Any:
    return dd.read_parquet(f"s3://{BUCKET}/{name}", storage_options=OPTIONS)


def read_table(name: str) -> dict[str, list[Any]]:
    rows = scan(name).compute().sort_values("id")
    return {column: rows[column].tolist() for column in ["id", "name", "value"]}


def count_rows(name: str, at_least: int) -> int:
    rows = scan(name)
    return len(rows[rows["id"] >= at_least])


serve(dask.__version__, get, write_table, read_table, count_rows)
