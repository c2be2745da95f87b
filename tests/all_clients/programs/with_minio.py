"""The MinIO SDK for Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import minio
import urllib3
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject

from protocol import BUCKET, HOST, KEY_ID, MIB, REGION, SECRET, serve

s3 = minio.Minio(
    HOST, KEY_ID, SECRET, secure=False, region=REGION, http_client=urllib3.PoolManager(retries=False, timeout=120)
)


def put(file: str, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None) -> None:
    extra: dict[str, Any] = {"content_type": content_type} if content_type else {}
    s3.fput_object(BUCKET, key, file, metadata=metadata, part_size=5 * MIB, **extra)


def get(key: str, file: str) -> None:
    s3.fget_object(BUCKET, key, file)


def read_range(key: str, first: int, length: int, file: str) -> None:
    answer = s3.get_object(BUCKET, key, offset=first, length=length)
    try:
        Path(file).write_bytes(answer.read())
    finally:
        answer.close()
        answer.release_conn()


def list_all(prefix: str) -> dict[str, int]:
    return {found.object_name: found.size for found in s3.list_objects(BUCKET, prefix=prefix, recursive=True)}


def list_level(prefix: str) -> list[str]:
    return [found.object_name for found in s3.list_objects(BUCKET, prefix=prefix)]


def copy(source: str, target: str) -> None:
    s3.copy_object(BUCKET, target, CopySource(BUCKET, source))


def delete(key: str) -> None:
    s3.remove_object(BUCKET, key)


def delete_all(prefix: str) -> None:
    errors = list(s3.remove_objects(BUCKET, [DeleteObject(key) for key in list_all(prefix)]))
    assert not errors, errors


def head(key: str) -> dict[str, Any]:
    found = s3.stat_object(BUCKET, key)
    told = {name.lower(): value for name, value in found.metadata.items()}
    metadata = {name[11:]: value for name, value in told.items() if name.startswith("x-amz-meta-")}
    return {"size": found.size, "content_type": found.content_type, "metadata": metadata}


serve(minio.__version__, put, get, read_range, list_all, list_level, copy, delete, delete_all, head)
