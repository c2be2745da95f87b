"""A client that reads or writes through the cluster until it is stopped, and records each operation in a file.

Started with one argument, a JSON object: `kind` of client, `endpoint`, `key`, `secret` and `region`, the file `notes`,
`seed`, `pause_s` between operations, `fixed` and `moving` objects with their sizes, and `tables` with a query, its rows
and the digest of all rows. Some kinds need more: `own` objects that no other client writes; `flight` doors and
`moving_tables`. Times are those of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import hashlib
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
# A client keeps its connections, and so its node, for this many operations.
STEPS_OF_A_CONNECTION = 6
# Number of times that s3transfer reads a truncated body.
BODY_ATTEMPTS = 5
# The version of an object that does not exist.
ABSENT = -1
# Half of all reads are of the first objects.
HOT_OBJECTS = 4
PART_SIZE = 5 * MAX_RANGE
ROWS_OF_VERSION = 40_000


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
            # A user of the library would see any exception that it raises.
            except Exception as error:  # noqa: BLE001
                noted = {"op": "error", "what": f"{type(error).__name__}: {error}"}
            self.notes.write(json.dumps(noted | {"begin": begin, "end": time.monotonic()}) + "\n")
            time.sleep(self.told["pause_s"])

    def reconnect(self) -> None:
        """Opens new connections."""
        raise NotImplementedError

    def step(self) -> dict[str, Any]:
        """Does one operation and describes it."""
        raise NotImplementedError

    def choose(self) -> tuple[str, str, int, range]:
        """Chooses a bucket, an object, its size, and a range of it: in one case of four all of it, if it is small."""
        bucket = self.rng.choice([FIXED_BUCKET, MOVING_BUCKET, MOVING_BUCKET, STRICT_BUCKET])
        objects = self.told["fixed" if bucket == FIXED_BUCKET else "moving"]
        entries = list(objects.items())
        key, size = self.rng.choice(entries[:HOT_OBJECTS] if self.rng.random() < 0.5 else entries)
        if self.rng.random() < 0.25 and size <= 8 * MAX_RANGE:
            return bucket, key, size, range(size)
        first = self.rng.randrange(size - MIN_RANGE)
        length = self.rng.randrange(MIN_RANGE, MAX_RANGE)
        return bucket, key, size, range(first, min(first + length, size))

    def choose_table(self) -> tuple[str, dict[str, Any]]:
        """Chooses a table, and returns its expected contents."""
        return self.rng.choice(list(self.told["tables"].items()))

    @staticmethod
    def noted_table(key: str, is_right: bool) -> dict[str, Any]:
        return {"op": "read", "bucket": FIXED_BUCKET, "key": key, "bytes": 0, "version": 0 if is_right else None}

    @staticmethod
    def noted(bucket: str, key: str, span: range, data: bytes) -> dict[str, Any]:
        is_whole = len(data) == len(span)
        version = version_of(key, span.start, data) if is_whole else None
        return {"op": "read", "bucket": bucket, "key": key, "first": span.start, "bytes": len(data), "version": version}


class Boto3(LoadClient):
    """boto3; bodies are read again as often as s3transfer does."""

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
        data, again = self._get(Bucket=bucket, Key=key, Range=f"bytes={span.start}-{span.stop - 1}")
        return self.noted(bucket, key, span, data) | {"again": again}

    def _get(self, **wanted: str) -> tuple[bytes, int]:
        """Returns the bytes of an object or a range, and the number of times that the body was read again."""
        from s3transfer.utils import S3_RETRYABLE_DOWNLOAD_ERRORS

        for again in range(BODY_ATTEMPTS):
            answer = self.s3.get_object(**wanted)
            try:
                return answer["Body"].read(), again
            except S3_RETRYABLE_DOWNLOAD_ERRORS:
                if again == BODY_ATTEMPTS - 1:
                    raise
        raise AssertionError("no attempt was made")


class Objects(Boto3):
    """boto3 that puts, uploads in parts, deletes, lists and reads objects that no other client writes.

    Each object is always put or always uploaded in parts, by its size: the tests' S3 server keeps the checksum of an
    object that was put when an upload in parts replaces it.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told)
        from boto3.s3.transfer import TransferConfig

        self.versions = dict.fromkeys(told["own"], 0)
        self.parts = TransferConfig(multipart_threshold=PART_SIZE, multipart_chunksize=PART_SIZE, max_concurrency=2)
        self.keys = list(told["own"])
        self.written = self.keys[0]

    def step(self) -> dict[str, Any]:
        choice = self.rng.choices([self._put, self._delete, self._list, self._read], [3, 1, 1, 5])[0]
        return choice()

    def _put(self) -> dict[str, Any]:
        self.written = key = self.rng.choice(self.keys)
        # A version whose upload failed may still appear.
        self.versions[key] += 1
        version = self.versions[key]
        body = content(key, version, 0, self.told["own"][key])
        self.s3.upload_fileobj(io.BytesIO(body), MOVING_BUCKET, key, Config=self.parts)
        return {"op": "write", "key": key, "version": version, "bytes": len(body)}

    def _delete(self) -> dict[str, Any]:
        self.written = key = self.rng.choice(self.keys)
        self.s3.delete_object(Bucket=MOVING_BUCKET, Key=key)
        return {"op": "write", "key": key, "version": ABSENT, "bytes": 0}

    def _list(self) -> dict[str, Any]:
        bucket = self.rng.choice([MOVING_BUCKET, STRICT_BUCKET])
        prefix = self.keys[0].rpartition("/")[0] + "/"
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {"op": "list", "bucket": bucket, "keys": self.keys, "found": found}

    def _read(self) -> dict[str, Any]:
        """Reads an object that was just written, or any, often through another node."""
        key = self.rng.choice([self.written, self.rng.choice(self.keys)])
        bucket = self.rng.choice([MOVING_BUCKET, MOVING_BUCKET, STRICT_BUCKET])
        if self.rng.random() < 0.5:
            self.reconnect()
        try:
            data, again = self._get(Bucket=bucket, Key=key)
        except self.s3.exceptions.NoSuchKey:
            return {"op": "read", "bucket": bucket, "key": key, "bytes": 0, "version": ABSENT}
        return self.noted(bucket, key, range(self.told["own"][key]), data) | {"again": again}


class Writer(Boto3):
    """Replaces objects by their next versions. There is only one writer, so that an object's versions come in order."""

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
        key, table = self.choose_table()
        found = self.connection.execute(table["query"].format(f"s3://{FIXED_BUCKET}/{key}")).fetchall()
        return self.noted_table(key, json.loads(json.dumps(found)) == table["rows"])


class Dataset(Pyarrow):
    """pyarrow that scans a Parquet file as a data set."""

    def step(self) -> dict[str, Any]:
        import pyarrow.dataset

        key, table = self.choose_table()
        found = pyarrow.dataset.dataset(f"{FIXED_BUCKET}/{key}", filesystem=self.files, format="parquet").to_table()
        return self.noted_table(key, table_digest(found) == table["digest"])


class Polars(LoadClient):
    """Polars: all columns of a Parquet file."""

    def reconnect(self) -> None:
        self.options = {
            "aws_endpoint_url": self.told["endpoint"],
            "aws_access_key_id": self.told["key"],
            "aws_secret_access_key": self.told["secret"],
            "aws_region": self.told["region"],
            "aws_allow_http": "true",
        }

    def step(self) -> dict[str, Any]:
        import polars

        key, table = self.choose_table()
        found = polars.scan_parquet(f"s3://{FIXED_BUCKET}/{key}", storage_options=self.options).collect()
        return self.noted_table(key, table_digest(found.to_arrow()) == table["digest"])


class Flight(LoadClient):
    """The Python package: scans by the nodes, of files that do not change and of some that do."""

    # A scan of a file that was replaced since it was planned is aborted, and must be retried.
    ATTEMPTS = 8

    def reconnect(self) -> None:
        self.doors = self.rng.sample(self.told["flight"], len(self.told["flight"]))

    def step(self) -> dict[str, Any]:
        if self.rng.random() < 0.5:
            key, table = self.choose_table()
            return self.noted_table(key, table_digest(self._scan(f"{FIXED_BUCKET}/{key}")) == table["digest"])
        bucket = self.rng.choice([MOVING_BUCKET, STRICT_BUCKET])
        key = self.rng.choice(self.told["moving_tables"])
        found, again = self._scan_moving(f"{bucket}/{key}")
        noted = {"op": "read", "bucket": bucket, "key": key, "bytes": found.nbytes, "again": again}
        return noted | {"version": version_of_table(found)}

    def _scan(self, path: str) -> Any:
        import stylobate

        return stylobate.scan(path, node=self.doors, token=self.told["secret"]).to_arrow()

    def _scan_moving(self, path: str) -> tuple[Any, int]:
        import pyarrow.lib
        import stylobate

        for again in range(self.ATTEMPTS):
            try:
                return self._scan(path), again
            except (stylobate.StylobateError, pyarrow.lib.ArrowException) as error:
                if again == self.ATTEMPTS - 1 or "ask for the flight again" not in str(error):
                    raise
        raise AssertionError("no attempt was made")


def table_digest(table: Any) -> str:
    """Returns a digest of the rows of a table, independent of chunks."""
    digest = hashlib.blake2b(table["n"].to_numpy().tobytes())
    digest.update("\n".join(table["text"].to_pylist()).encode())
    return digest.hexdigest()


def table_of_version(version: int) -> Any:
    """Returns rows that identify their version. No two versions have a row in common."""
    import numpy as np
    import pyarrow as pa

    n = np.arange(ROWS_OF_VERSION)
    noise = np.random.default_rng(version).integers(0, 1 << 60, ROWS_OF_VERSION)
    return pa.table({"n": n, "version": np.full(ROWS_OF_VERSION, version), "noise": noise})


def version_of_table(table: Any) -> int | None:
    """Returns the version of all rows of a table; `None` if they are of several versions, or wrong."""
    if table.num_rows != ROWS_OF_VERSION:
        return None
    version = table["version"][0].as_py()
    if not 0 <= version < 1 << 32 or table.combine_chunks() != table_of_version(version):
        return None
    return version


CLIENTS = {
    "boto3": Boto3,
    "objects": Objects,
    "writer": Writer,
    "pyarrow": Pyarrow,
    "data set": Dataset,
    "DuckDB": DuckDB,
    "Polars": Polars,
    "Flight": Flight,
}


if __name__ == "__main__":
    TOLD = json.loads(sys.argv[1])
    CLIENTS[TOLD["kind"]](TOLD).run()
