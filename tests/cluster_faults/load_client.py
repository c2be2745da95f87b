"""A client that reads or writes through the cluster until it is told to stop, and notes each operation in a file.

Started with one argument, a JSON object: `kind` of client, `endpoint`, `key`, `secret` and `region`, the file `notes`,
`seed`, `pause_s` between operations, `fixed` and `moving` objects with their sizes, and `tables` with the query and
its rows. Times are those of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import io
import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from numbered_content import MIN_RANGE, content, version_of

FIXED_BUCKET, MOVING_BUCKET, STRICT_BUCKET = "lake", "pond", "strict"
MAX_RANGE = 1 << 20
# A client keeps its connections, and so its node, for that many operations.
STEPS_OF_A_CONNECTION = 6
# How often s3transfer reads a body whose end does not come.
BODY_ATTEMPTS = 5


class LoadClient:
    """A client with the default retries of its library."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.host = told["endpoint"].removeprefix("http://")
        self.rng = random.Random(told["seed"])
        self.notes = open(told["notes"], "a", buffering=1)  # noqa: SIM115
        self.steps = 0

    def run(self) -> None:
        is_stopped = False

        def stop(*_: object) -> None:
            nonlocal is_stopped
            is_stopped = True

        signal.signal(signal.SIGTERM, stop)
        while not is_stopped:
            if self.steps % STEPS_OF_A_CONNECTION == 0:
                self.reconnect()
            self.steps += 1
            begin = time.monotonic()
            try:
                noted = self.step()
            # Anything that the library raises is what its user would see.
            except Exception as error:  # noqa: BLE001
                noted = {"op": "error", "what": f"{type(error).__name__}: {error}"}
            self.notes.write(json.dumps(noted | {"begin": begin, "end": time.monotonic()}) + "\n")
            time.sleep(self.told["pause_s"])

    def reconnect(self) -> None:
        """Takes new connections."""
        raise NotImplementedError

    def step(self) -> dict[str, Any]:
        """Does one operation and describes it."""
        raise NotImplementedError

    def choose(self) -> tuple[str, str, int, range]:
        """Chooses a bucket, an object, its size, and a range of it: one in four times all of it, if it is small."""
        bucket = self.rng.choice([FIXED_BUCKET, MOVING_BUCKET, MOVING_BUCKET, STRICT_BUCKET])
        objects = self.told["fixed" if bucket == FIXED_BUCKET else "moving"]
        key, size = self.rng.choice(list(objects.items()))
        if self.rng.random() < 0.25 and size <= 8 * MAX_RANGE:
            return bucket, key, size, range(size)
        first = self.rng.randrange(size - MIN_RANGE)
        length = self.rng.randrange(MIN_RANGE, MAX_RANGE)
        return bucket, key, size, range(first, min(first + length, size))

    @staticmethod
    def noted(bucket: str, key: str, span: range, data: bytes) -> dict[str, Any]:
        is_whole = len(data) == len(span)
        version = version_of(key, span.start, data) if is_whole else None
        return {"op": "read", "bucket": bucket, "key": key, "first": span.start, "bytes": len(data), "version": version}


class Boto3(LoadClient):
    """boto3; what reads bodies does so again as often as s3transfer does."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told)
        import boto3
        from botocore.config import Config

        self.s3 = boto3.client(
            "s3",
            endpoint_url=told["endpoint"],
            aws_access_key_id=told["key"],
            aws_secret_access_key=told["secret"],
            region_name=told["region"],
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )

    def reconnect(self) -> None:
        self.s3.close()

    def step(self) -> dict[str, Any]:
        bucket, key, size, span = self.choose()
        if bucket == FIXED_BUCKET and len(span) == size:
            into = io.BytesIO()
            self.s3.download_fileobj(bucket, key, into)
            return self.noted(bucket, key, span, into.getvalue())
        data, again = self._get(bucket, key, span)
        return self.noted(bucket, key, span, data) | {"again": again}

    def _get(self, bucket: str, key: str, span: range) -> tuple[bytes, int]:
        """The bytes of a range, and how often its body was read again."""
        from s3transfer.utils import S3_RETRYABLE_DOWNLOAD_ERRORS

        for again in range(BODY_ATTEMPTS):
            answer = self.s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={span.start}-{span.stop - 1}")
            try:
                return answer["Body"].read(), again
            except S3_RETRYABLE_DOWNLOAD_ERRORS:
                if again == BODY_ATTEMPTS - 1:
                    raise
        raise AssertionError("no attempt was made")


class Writer(Boto3):
    """Replaces objects by their next versions. There is one, so that an object's versions come in order."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told)
        self.versions = dict.fromkeys(told["moving"], 0)

    def step(self) -> dict[str, Any]:
        key, size = self.rng.choice(list(self.told["moving"].items()))
        self.versions[key] += 1
        body = content(key, self.versions[key], 0, size)
        self.s3.put_object(Bucket=MOVING_BUCKET, Key=key, Body=body)
        return {"op": "write", "key": key, "version": self.versions[key], "bytes": size}


class Pyarrow(LoadClient):
    """pyarrow's S3FileSystem. A read of a range is one GET; all versions of an object have one size."""

    def reconnect(self) -> None:
        import pyarrow.fs

        self.files = pyarrow.fs.S3FileSystem(
            access_key=self.told["key"],
            secret_key=self.told["secret"],
            region=self.told["region"],
            endpoint_override=self.host,
            scheme="http",
        )

    def step(self) -> dict[str, Any]:
        bucket, key, _, span = self.choose()
        with self.files.open_input_file(f"{bucket}/{key}") as file:
            data = file.read_at(len(span), span.start)
        return self.noted(bucket, key, span, data)


class DuckDB(LoadClient):
    """DuckDB with httpfs: all columns of a Parquet file of the bucket whose objects do not change."""

    def reconnect(self) -> None:
        import duckdb
        import duckdb_extension_httpfs

        offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        self.connection = duckdb.connect(config=offline)
        (extension,) = Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension")
        self.connection.execute(f"LOAD '{extension}'")
        self.connection.execute("SET enable_external_file_cache = false")
        self.connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{self.told['key']}', SECRET '{self.told['secret']}', "
            f"REGION '{self.told['region']}', URL_STYLE 'path', USE_SSL false, ENDPOINT '{self.host}')"
        )

    def step(self) -> dict[str, Any]:
        key, (query, rows) = self.rng.choice(list(self.told["tables"].items()))
        found = self.connection.execute(query.format(f"s3://{FIXED_BUCKET}/{key}")).fetchall()
        is_right = json.loads(json.dumps(found)) == rows
        return {"op": "read", "bucket": FIXED_BUCKET, "key": key, "bytes": 0, "version": 0 if is_right else None}


CLIENTS = {"boto3": Boto3, "writer": Writer, "pyarrow": Pyarrow, "DuckDB": DuckDB}


if __name__ == "__main__":
    TOLD = json.loads(sys.argv[1])
    CLIENTS[TOLD["kind"]](TOLD).run()
