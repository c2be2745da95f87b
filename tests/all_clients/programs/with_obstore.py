"""obstore, the Python package of the object_store crate."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from protocol import BUCKET, ENDPOINT, KEY_ID, MIB, REGION, SECRET, serve

s3 = S3Store(
    BUCKET,
    endpoint=ENDPOINT,
    access_key_id=KEY_ID,
    secret_access_key=SECRET,
    region=REGION,
    client_options={"allow_http": True},
    retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=120)},
)


def put(file: str, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None) -> None:
    attributes = ({"Content-Type": content_type} if content_type else {}) | (metadata or {})
    obstore.put(s3, key, Path(file), attributes=attributes, chunk_size=5 * MIB)


def get(key: str, file: str) -> None:
    with open(file, "wb") as target:
        for chunk in obstore.get(s3, key):
            target.write(chunk)


def read_range(key: str, first: int, length: int, file: str) -> None:
    Path(file).write_bytes(obstore.get_range(s3, key, start=first, length=length))


def list_all(prefix: str) -> dict[str, int]:
    return {found["path"]: found["size"] for page in obstore.list(s3, prefix) for found in page}


def list_level(prefix: str) -> list[str]:
    found = obstore.list_with_delimiter(s3, prefix)
    return [f"{below}/" for below in found["common_prefixes"]] + [entry["path"] for entry in found["objects"]]


def copy(source: str, target: str) -> None:
    obstore.copy(s3, source, target)


def move(source: str, target: str) -> None:
    obstore.rename(s3, source, target)


def delete(key: str) -> None:
    obstore.delete(s3, key)


def delete_all(prefix: str) -> None:
    obstore.delete(s3, list(list_all(prefix)))


def head(key: str) -> dict[str, Any]:
    found = obstore.get(s3, key)
    attributes = dict(found.attributes)
    return {"size": found.meta["size"], "content_type": attributes.pop("Content-Type"), "metadata": attributes}


serve(version("obstore"), put, get, read_range, list_all, list_level, copy, move, delete, delete_all, head)
