"""boto3, with its managed transfers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from protocol import BUCKET, ENDPOINT, KEY_ID, REGION, SECRET, serve

s3 = boto3.client(
    "s3",
    endpoint_url=ENDPOINT,
    aws_access_key_id=KEY_ID,
    aws_secret_access_key=SECRET,
    region_name=REGION,
    config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
)


def put(file: str, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None) -> None:
    extra: dict[str, Any] = {}
    if content_type:
        extra["ContentType"] = content_type
    if metadata:
        extra["Metadata"] = metadata
    s3.upload_file(file, BUCKET, key, ExtraArgs=extra)


def get(key: str, file: str) -> None:
    s3.download_file(BUCKET, key, file)


def read_range(key: str, first: int, length: int, file: str) -> None:
    answer = s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={first}-{first + length - 1}")
    Path(file).write_bytes(answer["Body"].read())


def list_all(prefix: str) -> dict[str, int]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", [])}


def list_level(prefix: str) -> list[str]:
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix, Delimiter="/"))
    below = [found["Prefix"] for page in pages for found in page.get("CommonPrefixes", [])]
    return below + [found["Key"] for page in pages for found in page.get("Contents", [])]


def copy(source: str, target: str) -> None:
    s3.copy({"Bucket": BUCKET, "Key": source}, BUCKET, target)


def delete(key: str) -> None:
    s3.delete_object(Bucket=BUCKET, Key=key)


def delete_all(prefix: str) -> None:
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in list_all(prefix)]})
    assert "Errors" not in answer, answer


def head(key: str) -> dict[str, Any]:
    found = s3.head_object(Bucket=BUCKET, Key=key)
    return {"size": found["ContentLength"], "content_type": found["ContentType"], "metadata": found["Metadata"]}


serve(boto3.__version__, put, get, read_range, list_all, list_level, copy, delete, delete_all, head)
