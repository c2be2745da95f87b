"""Polars: Parquet files sunk, scanned and replaced."""

from __future__ import annotations

from typing import Any

import polars as pl

from protocol import BUCKET, OBJECT_STORE_OPTIONS, columns, serve

OPTIONS = OBJECT_STORE_OPTIONS | {"max_retries": 0}


def write_table(name: str, mode: str, first: int, count: int) -> None:
    frame = pl.LazyFrame(columns(first, count))
    file = "first.parquet" if mode in ["new", "overwrite"] else f"{first}.parquet"
    frame.sink_parquet(f"s3://{BUCKET}/{name}/{file}", storage_options=OPTIONS, row_group_size=5_000)


def scan(name: str) -> pl.LazyFrame:
    return pl.scan_parquet(f"s3://{BUCKET}/{name}/*.parquet", storage_options=OPTIONS)


def read_table(name: str) -> dict[str, list[Any]]:
    return scan(name).sort("id").collect().to_dict(as_series=False)


def count_rows(name: str, at_least: int) -> int:
    return scan(name).filter(pl.col("id") >= at_least).select(pl.len()).collect().item()


serve(pl.__version__, write_table, read_table, count_rows)
