"""s3fs, the file system of fsspec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import s3fs

from protocol import BUCKET, ENDPOINT, KEY_ID, MIB, REGION, SECRET, serve

s3 = s3fs.S3FileSystem(
    key=KEY_ID,
    secret=SECRET,
    endpoint_url=ENDPOINT,
    client_kwargs={"region_name": REGION},
    config_kwargs={"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}},
    use_listings_cache=False,
)
s3.retries = 1


def put(file: str, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None) -> None:
    extra: dict[str, Any] = {}
    if content_type:
        extra["ContentType"] = content_type
    if metadata:
        extra["Metadata"] = metadata
    s3.put_file(file, f"{BUCKET}/{key}", chunksize=5 * MIB, **extra)


def get(key: str, file: str) -> None:
    s3.get_file(f"{BUCKET}/{key}", file)


def read_range(key: str, first: int, length: int, file: str) -> None:
    Path(file).write_bytes(s3.cat_file(f"{BUCKET}/{key}", start=first, end=first + length))


def list_all(prefix: str) -> dict[str, int]:
    found = s3.find(f"{BUCKET}/{prefix}", detail=True)
    return {path.removeprefix(f"{BUCKET}/"): info["size"] for path, info in found.items()}


def list_level(prefix: str) -> list[str]:
    found = s3.ls(f"{BUCKET}/{prefix}", detail=True)
    return [
        info["name"].removeprefix(f"{BUCKET}/") + ("/" if info["type"] == "directory" else "") for info in found
    ]


def copy(source: str, target: str) -> None:
    s3.cp_file(f"{BUCKET}/{source}", f"{BUCKET}/{target}")


def move(source: str, target: str) -> None:
    s3.mv(f"{BUCKET}/{source}", f"{BUCKET}/{target}")


def delete(key: str) -> None:
    s3.rm_file(f"{BUCKET}/{key}")


def delete_all(prefix: str) -> None:
    s3.rm(f"{BUCKET}/{prefix}", recursive=True)


def head(key: str) -> dict[str, Any]:
    found = s3.info(f"{BUCKET}/{key}")
    metadata = s3.metadata(f"{BUCKET}/{key}")
    return {"size": found["size"], "content_type": found["ContentType"], "metadata": metadata}


serve(s3fs.__version__, put, get, read_range, list_all, list_level, copy, move, delete, delete_all, head)
