"""DuckDB with its httpfs extension, which comes from PyPI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_httpfs

from protocol import BUCKET, HOST, KEY_ID, REGION, SECRET, serve

LAKE = f"s3://{BUCKET}"

db = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
(extension,) = Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension")
db.execute(f"LOAD '{extension}'")
db.execute("SET http_retries = 0")
# Gives parts of 5 MiB.
db.execute("SET s3_uploader_max_filesize = '40GB'")
db.execute(
    f"""CREATE SECRET (TYPE s3, KEY_ID '{KEY_ID}', SECRET '{SECRET}', REGION '{REGION}', URL_STYLE 'path',
    USE_SSL false, ENDPOINT '{HOST}')"""
)


def put(file: str, key: str) -> None:
    db.execute(f"COPY (SELECT content FROM read_blob('{file}')) TO '{LAKE}/{key}' (FORMAT blob)")


def get(key: str, file: str) -> None:
    ((content,),) = db.execute(f"SELECT content FROM read_blob('{LAKE}/{key}')").fetchall()
    Path(file).write_bytes(content)


def list_all(prefix: str) -> dict[str, int]:
    found = db.execute(f"SELECT filename, size FROM read_blob('{LAKE}/{prefix}**')").fetchall()
    return {name.removeprefix(f"{LAKE}/"): size for name, size in found}


def write_table(name: str, mode: str, first: int, count: int) -> None:
    db.execute(
        f"""CREATE OR REPLACE TABLE rows AS
        SELECT n AS id, 'name-' || (n % 7) AS name, n * 0.5::DOUBLE AS value
        FROM range({first}, {first + count}) ids(n)"""
    )
    options = "FORMAT parquet, PARTITION_BY (name), ROW_GROUP_SIZE 5000"
    if mode == "append":
        options += ", APPEND"
    if mode == "overwrite":
        options += ", OVERWRITE"
    db.execute(f"COPY rows TO '{LAKE}/{name}' ({options})")


def read_table(name: str) -> dict[str, list[Any]]:
    rows = f"read_parquet('{LAKE}/{name}/**/*.parquet', hive_partitioning = true)"
    query = f"SELECT id, name, value FROM {rows} ORDER BY id"
    found = db.execute(query).fetchall()
    return {"id": [row[0] for row in found], "name": [row[1] for row in found], "value": [row[2] for row in found]}


def count_rows(name: str, at_least: int) -> int:
    query = f"SELECT count(*) FROM read_parquet('{LAKE}/{name}/**/*.parquet') WHERE id >= {at_least}"
    return db.execute(query).fetchall()[0][0]


serve(duckdb.__version__, put, get, list_all, write_table, read_table, count_rows)
