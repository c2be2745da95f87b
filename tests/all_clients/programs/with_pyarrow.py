"""pyarrow's S3FileSystem, and its datasets over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from protocol import BUCKET, HOST, KEY_ID, MIB, REGION, SECRET, columns, serve

s3 = pa.fs.S3FileSystem(
    access_key=KEY_ID,
    secret_key=SECRET,
    endpoint_override=HOST,
    scheme="http",
    region=REGION,
    # moto occasionally fails if several threads write the marker of one directory.
    retry_strategy=pa.fs.AwsStandardS3RetryStrategy(max_attempts=4),
)


def put(file: str, key: str, content_type: str | None = None) -> None:
    metadata = {"Content-Type": content_type} if content_type else None
    with s3.open_output_stream(f"{BUCKET}/{key}", metadata=metadata) as stream, open(file, "rb") as source:
        while data := source.read(MIB):
            stream.write(data)


def get(key: str, file: str) -> None:
    with s3.open_input_stream(f"{BUCKET}/{key}") as stream, open(file, "wb") as target:
        while data := stream.read(MIB):
            target.write(data)


def read_range(key: str, first: int, length: int, file: str) -> None:
    with s3.open_input_file(f"{BUCKET}/{key}") as source:
        Path(file).write_bytes(source.read_at(length, first))


def list_all(prefix: str) -> dict[str, int]:
    found = s3.get_file_info(pa.fs.FileSelector(f"{BUCKET}/{prefix}", recursive=True))
    return {
        info.path.removeprefix(f"{BUCKET}/"): info.size for info in found if info.type == pa.fs.FileType.File
    }


def list_level(prefix: str) -> list[str]:
    found = s3.get_file_info(pa.fs.FileSelector(f"{BUCKET}/{prefix}"))
    return [
        info.path.removeprefix(f"{BUCKET}/") + ("/" if info.type == pa.fs.FileType.Directory else "") for info in found
    ]


def copy(source: str, target: str) -> None:
    s3.copy_file(f"{BUCKET}/{source}", f"{BUCKET}/{target}")


def move(source: str, target: str) -> None:
    s3.move(f"{BUCKET}/{source}", f"{BUCKET}/{target}")


def delete(key: str) -> None:
    s3.delete_file(f"{BUCKET}/{key}")


def delete_all(prefix: str) -> None:
    s3.delete_dir(f"{BUCKET}/{prefix}")


def head(key: str) -> dict[str, Any]:
    with s3.open_input_file(f"{BUCKET}/{key}") as file:
        return {"size": file.size(), "content_type": file.metadata()["Content-Type"].decode()}


def write_table(name: str, mode: str, first: int, count: int) -> None:
    ds.write_dataset(
        pa.table(columns(first, count)),
        f"{BUCKET}/{name}",
        filesystem=s3,
        format="parquet",
        basename_template=f"{first}-{{i}}.parquet",
        existing_data_behavior="delete_matching" if mode == "overwrite" else "overwrite_or_ignore",
        partitioning=ds.partitioning(pa.schema([("name", pa.string())]), flavor="hive"),
        max_rows_per_file=5_000,
        max_rows_per_group=5_000,
    )


def read_table(name: str) -> dict[str, list[Any]]:
    table = ds.dataset(f"{BUCKET}/{name}", filesystem=s3, format="parquet", partitioning="hive").to_table()
    return table.sort_by("id").select(["id", "name", "value"]).to_pydict()


def count_rows(name: str, at_least: int) -> int:
    table = ds.dataset(f"{BUCKET}/{name}", filesystem=s3, format="parquet", partitioning="hive")
    return table.count_rows(filter=pc.field("id") >= at_least)


serve(
    pa.__version__,
    *(put, get, read_range, list_all, list_level, copy, move, delete, delete_all, head),
    *(write_table, read_table, count_rows),
)
