"""The clients: libraries, driven by their programs, and command lines."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from harness import FOLDER, HERE, Client, Command, Program

FILES = "put empty multipart get range list copy delete metadata"
FILE_STEPS = "put get read_range list_all list_level copy delete delete_all head"
TABLE_STEPS = "write_table read_table count_rows"


def python(environment: str, name: str) -> list[str]:
    return [str(FOLDER / environment / "bin" / "python"), str(HERE / "programs" / f"with_{name}.py")]


class Boto3(Program):
    NAME = "boto3"
    NEEDS = "python"
    OPERATIONS = FILES
    STEPS = FILE_STEPS
    COMMAND = python("python", "boto3")


class PyArrow(Program):
    NAME = "pyarrow"
    NEEDS = "python"
    OPERATIONS = f"{FILES} move table"
    LEAVES_MARKERS = True
    STEPS = f"{FILE_STEPS} move {TABLE_STEPS}"
    COMMAND = python("python", "pyarrow")


class S3fs(Program):
    NAME = "s3fs"
    NEEDS = "fsspec"
    OPERATIONS = f"{FILES} move"
    STEPS = f"{FILE_STEPS} move"
    COMMAND = python("fsspec", "s3fs")


class Obstore(Program):
    NAME = "obstore"
    NEEDS = "python"
    OPERATIONS = f"{FILES} move"
    STEPS = f"{FILE_STEPS} move"
    COMMAND = python("python", "obstore")


class MinioPython(Program):
    NAME = "minio-py"
    NEEDS = "python"
    OPERATIONS = FILES
    STEPS = FILE_STEPS
    COMMAND = python("python", "minio")


class MinioGo(Program):
    NAME = "minio-go"
    NEEDS = "minio-go"
    OPERATIONS = FILES
    STEPS = FILE_STEPS
    COMMAND = [str(FOLDER / "bin" / "minio-go-client")]


class AwsSdkForJavaScript(Program):
    NAME = "aws-sdk-js"
    NEEDS = "node"
    OPERATIONS = FILES
    STEPS = FILE_STEPS
    COMMAND = ["node", str(HERE / "programs" / "node" / "client.mjs")]

    def more(self) -> list[str]:
        return [str(FOLDER / "node")]


class DuckDB(Program):
    NAME = "duckdb"
    NEEDS = "python"
    OPERATIONS = "put empty multipart get list table"
    STEPS = f"put get list_all {TABLE_STEPS}"
    COMMAND = python("python", "duckdb")


class Polars(Program):
    NAME = "polars"
    NEEDS = "python"
    OPERATIONS = "table"
    STEPS = TABLE_STEPS
    COMMAND = python("python", "polars")


class DeltaLake(Program):
    NAME = "deltalake"
    NEEDS = "python"
    OPERATIONS = "table"
    STEPS = f"{TABLE_STEPS} delete_rows clean"
    COMMAND = python("python", "deltalake")


class PyIceberg(Program):
    NAME = "pyiceberg"
    NEEDS = "python"
    OPERATIONS = "table"
    LEAVES_MARKERS = True
    STEPS = f"{TABLE_STEPS} delete_rows clean"
    COMMAND = python("python", "pyiceberg")

    def more(self) -> list[str]:
        return [str(self.home / "catalog.db")]


class Dask(Program):
    NAME = "dask"
    NEEDS = "fsspec"
    OPERATIONS = "get table"
    STEPS = f"get {TABLE_STEPS}"
    COMMAND = python("fsspec", "dask")


class AwsCli(Command):
    """The commands of `aws s3`, and those of `aws s3api` where it lacks one."""

    OPERATIONS = f"{FILES} move sync"

    def aws(self, *words: str | Path) -> str:
        return self.run(*self.program(), "--endpoint-url", self.door.endpoint, *words)

    def program(self) -> list[str]:
        raise NotImplementedError

    @property
    def version(self) -> str:  # type: ignore[override]
        return self.run(*self.program(), "--version").split()[0].removeprefix("aws-cli/")

    def at(self, key: str) -> str:
        return f"s3://{self.door.bucket}/{key}"

    def put(
        self, file: Path, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None
    ) -> None:
        more = ["--content-type", content_type] if content_type else []
        if metadata:
            more += ["--metadata", ",".join(f"{name}={value}" for name, value in metadata.items())]
        self.aws("s3", "cp", file, self.at(key), *more)

    def get(self, key: str, file: Path) -> None:
        self.aws("s3", "cp", self.at(key), file)

    def read_range(self, key: str, first: int, length: int, file: Path) -> None:
        wanted = ["--bucket", self.door.bucket, "--key", key, "--range", f"bytes={first}-{first + length - 1}"]
        self.aws("s3api", "get-object", *wanted, file)

    def list_all(self, prefix: str) -> dict[str, int]:
        lines = self.aws("s3", "ls", "--recursive", self.at(prefix)).splitlines()
        found = [re.fullmatch(r"\S+ \S+ +(\d+) (.*)", line) for line in lines]
        return {entry[2]: int(entry[1]) for entry in found if entry}

    def list_level(self, prefix: str) -> list[str]:
        lines = self.aws("s3", "ls", self.at(prefix)).splitlines()
        found = [re.fullmatch(r" +PRE (.*)|\S+ \S+ +\d+ (.*)", line) for line in lines]
        return [prefix + (entry[1] or entry[2]) for entry in found if entry]

    def copy(self, source: str, target: str) -> None:
        self.aws("s3", "cp", self.at(source), self.at(target))

    def move(self, source: str, target: str) -> None:
        self.aws("s3", "mv", self.at(source), self.at(target))

    def delete(self, key: str) -> None:
        self.aws("s3", "rm", self.at(key))

    def delete_all(self, prefix: str) -> None:
        self.aws("s3", "rm", "--recursive", self.at(prefix))

    def head(self, key: str) -> dict[str, Any]:
        wanted = ["--bucket", self.door.bucket, "--key", key]
        found = json.loads(self.aws("--output", "json", "s3api", "head-object", *wanted))
        return {"size": found["ContentLength"], "content_type": found["ContentType"], "metadata": found["Metadata"]}

    def sync_up(self, folder: Path, prefix: str) -> int:
        said = self.aws("s3", "sync", "--no-progress", "--delete", folder, self.at(prefix))
        return len(re.findall("^upload: ", said, re.MULTILINE))

    def sync_down(self, prefix: str, folder: Path) -> int:
        said = self.aws("s3", "sync", "--no-progress", "--delete", self.at(prefix), folder)
        return len(re.findall("^download: ", said, re.MULTILINE))


class AwsCli1(AwsCli):
    NAME = "aws-cli 1"
    NEEDS = "awscli"

    def program(self) -> list[str]:
        return [str(FOLDER / "awscli" / "bin" / "aws")]


class AwsCli2(AwsCli):
    NAME = "aws-cli 2"
    NEEDS = "debian"

    def program(self) -> list[str]:
        self.env["PYTHONPATH"] = str(FOLDER / "debian" / "usr/lib/python3/dist-packages")
        return ["/usr/bin/python3", str(FOLDER / "debian" / "usr/bin/aws")]


class Rclone(Command):
    """rclone with a remote that is configured by environment variables."""

    NAME = "rclone"
    NEEDS = "rclone"
    OPERATIONS = f"{FILES} move sync"
    VARIABLES = {
        "RCLONE_CONFIG": os.devnull,
        "RCLONE_CONFIG_AT_TYPE": "s3",
        "RCLONE_CONFIG_AT_PROVIDER": "Other",
        "RCLONE_CONFIG_AT_REGION": "us-east-1",
        "RCLONE_CONFIG_AT_ENV_AUTH": "true",
        "RCLONE_S3_UPLOAD_CUTOFF": "8Mi",
        "RCLONE_S3_COPY_CUTOFF": "16Mi",
        "RCLONE_RETRIES": "1",
        "RCLONE_LOW_LEVEL_RETRIES": "1",
    }

    def rclone(self, *words: str | Path) -> str:
        self.env.update(self.VARIABLES, RCLONE_CONFIG_AT_ENDPOINT=self.door.endpoint)
        return self.run(FOLDER / "bin" / "rclone", *words)

    @property
    def version(self) -> str:  # type: ignore[override]
        return self.rclone("version").split()[1].removeprefix("v").removesuffix("-DEV")

    def at(self, key: str) -> str:
        return f"AT:{self.door.bucket}/{key}"

    def put(
        self, file: Path, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None
    ) -> None:
        more = ["--header-upload", f"Content-Type: {content_type}"] if content_type else []
        for name, value in (metadata or {}).items():
            more += ["--header-upload", f"X-Amz-Meta-{name}: {value}"]
        self.rclone("copyto", *more, file, self.at(key))

    def get(self, key: str, file: Path) -> None:
        self.rclone("copyto", "--error-on-no-transfer", self.at(key), file)

    def read_range(self, key: str, first: int, length: int, file: Path) -> None:
        self.env.update(self.VARIABLES, RCLONE_CONFIG_AT_ENDPOINT=self.door.endpoint)
        part = ["--offset", str(first), "--count", str(length)]
        file.write_bytes(self.run_bytes(FOLDER / "bin" / "rclone", "cat", *part, self.at(key)))

    def list_all(self, prefix: str) -> dict[str, int]:
        found = json.loads(self.rclone("lsjson", "--recursive", "--files-only", self.at(prefix)))
        return {prefix + entry["Path"]: entry["Size"] for entry in found}

    def list_level(self, prefix: str) -> list[str]:
        found = json.loads(self.rclone("lsjson", self.at(prefix)))
        return [prefix + entry["Path"] + ("/" if entry["IsDir"] else "") for entry in found]

    def copy(self, source: str, target: str) -> None:
        self.rclone("copyto", self.at(source), self.at(target))

    def move(self, source: str, target: str) -> None:
        self.rclone("moveto", self.at(source), self.at(target))

    def delete(self, key: str) -> None:
        self.rclone("deletefile", self.at(key))

    def delete_all(self, prefix: str) -> None:
        self.rclone("purge", self.at(prefix))

    def head(self, key: str) -> dict[str, Any]:
        found = json.loads(self.rclone("lsjson", "--stat", "--metadata", self.at(key)))
        own = ["btime", "content-type", "mtime", "tier"]
        metadata = {name: value for name, value in found["Metadata"].items() if name not in own}
        return {"size": found["Size"], "content_type": found["MimeType"], "metadata": metadata}

    def sync_up(self, folder: Path, prefix: str) -> int:
        self.rclone("sync", "--verbose", folder, self.at(prefix))
        return len(re.findall(": Copied ", self.said))

    def sync_down(self, prefix: str, folder: Path) -> int:
        self.rclone("sync", "--verbose", self.at(prefix), folder)
        return len(re.findall(": Copied |: Multi-thread Copied ", self.said))


class S3cmd(Command):
    """s3cmd, which resumes downloads and so can read the last bytes of an object, but no other range."""

    NAME = "s3cmd"
    NEEDS = "python"
    OPERATIONS = f"{FILES} move sync"

    def s3cmd(self, *words: str | Path) -> str:
        settings = self.home / "s3cmd.conf"
        settings.write_text(
            f"[default]\naccess_key = {self.door.key}\nsecret_key = {self.door.secret}\nhost_base = {self.door.host}\n"
            f"host_bucket = {self.door.host}\nuse_https = False\nmultipart_chunk_size_mb = 5\nmax_retries = 1\n"
            "progress_meter = False\n"
        )
        folder = FOLDER / "python" / "bin"
        return self.run(folder / "python", folder / "s3cmd", "--config", settings, *words)

    @property
    def version(self) -> str:  # type: ignore[override]
        return self.s3cmd("--version").split()[-1]

    def at(self, key: str) -> str:
        return f"s3://{self.door.bucket}/{key}"

    def put(
        self, file: Path, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None
    ) -> None:
        more = ["--mime-type", content_type] if content_type else []
        more += [f"--add-header=x-amz-meta-{name}:{value}" for name, value in (metadata or {}).items()]
        self.s3cmd("put", *more, file, self.at(key))

    def get(self, key: str, file: Path) -> None:
        self.s3cmd("get", "--force", self.at(key), file)

    def read_end(self, key: str, file: Path) -> None:
        """Resumes the download of an object into a partial file."""
        self.s3cmd("get", "--continue", self.at(key), file)

    def list_all(self, prefix: str) -> dict[str, int]:
        lines = self.s3cmd("ls", "--recursive", self.at(prefix)).splitlines()
        found = [re.fullmatch(r"\S+ \S+ +(\d+) +s3://[^/]+/(.*)", line) for line in lines]
        return {entry[2]: int(entry[1]) for entry in found if entry}

    def list_level(self, prefix: str) -> list[str]:
        lines = self.s3cmd("ls", self.at(prefix)).splitlines()
        found = [re.search(r"s3://[^/]+/(.*)", line) for line in lines]
        return [entry[1] for entry in found if entry]

    def copy(self, source: str, target: str) -> None:
        self.s3cmd("cp", self.at(source), self.at(target))

    def move(self, source: str, target: str) -> None:
        self.s3cmd("mv", self.at(source), self.at(target))

    def delete(self, key: str) -> None:
        self.s3cmd("del", self.at(key))

    def delete_all(self, prefix: str) -> None:
        self.s3cmd("del", "--recursive", "--force", self.at(prefix))

    def head(self, key: str) -> dict[str, Any]:
        said = self.s3cmd("info", self.at(key))
        told = dict(re.findall(r"^ +([^:]+): +(.*)$", said, re.MULTILINE))
        metadata = {
            name.removeprefix("x-amz-meta-"): value
            for name, value in told.items()
            if name.startswith("x-amz-meta-") and name != "x-amz-meta-s3cmd-attrs"
        }
        return {"size": int(told["File size"]), "content_type": told["MIME type"], "metadata": metadata}

    def sync_up(self, folder: Path, prefix: str) -> int:
        said = self.s3cmd("sync", "--delete-removed", f"{folder}/", self.at(prefix))
        return len(set(re.findall("^upload: '([^']*)'", said, re.MULTILINE)))

    def sync_down(self, prefix: str, folder: Path) -> int:
        said = self.s3cmd("sync", "--delete-removed", self.at(prefix), f"{folder}/")
        return len(set(re.findall("^download: '([^']*)'", said, re.MULTILINE)))


class S5cmd(Command):
    NAME = "s5cmd"
    NEEDS = "python"
    OPERATIONS = "put empty multipart get list copy delete metadata move sync"

    def s5cmd(self, *words: str | Path) -> str:
        settings = ["--retry-count", "0", "--endpoint-url", self.door.endpoint]
        return self.run(FOLDER / "python" / "bin" / "s5cmd", *settings, *words)

    @property
    def version(self) -> str:  # type: ignore[override]
        return self.run(FOLDER / "python" / "bin" / "s5cmd", "version").strip().removeprefix("v").split("-")[0]

    def at(self, key: str) -> str:
        return f"s3://{self.door.bucket}/{key}"

    def put(
        self, file: Path, key: str, content_type: str | None = None, metadata: dict[str, str] | None = None
    ) -> None:
        more = ["--content-type", content_type] if content_type else []
        for name, value in (metadata or {}).items():
            more += ["--metadata", f"{name}={value}"]
        self.s5cmd("cp", "--part-size", "5", *more, file, self.at(key))

    def get(self, key: str, file: Path) -> None:
        self.s5cmd("cp", "--part-size", "5", self.at(key), file)

    def list_all(self, prefix: str) -> dict[str, int]:
        found = [json.loads(line) for line in self.s5cmd("--json", "ls", self.at(f"{prefix}*")).splitlines()]
        return {entry["key"].removeprefix(self.at("")): entry.get("size", 0) for entry in found}

    def list_level(self, prefix: str) -> list[str]:
        found = [json.loads(line) for line in self.s5cmd("--json", "ls", self.at(prefix)).splitlines()]
        return [entry["key"].removeprefix(self.at("")) for entry in found]

    def copy(self, source: str, target: str) -> None:
        self.s5cmd("cp", self.at(source), self.at(target))

    def move(self, source: str, target: str) -> None:
        self.s5cmd("mv", self.at(source), self.at(target))

    def delete(self, key: str) -> None:
        self.s5cmd("rm", self.at(key))

    def delete_all(self, prefix: str) -> None:
        self.s5cmd("rm", self.at(f"{prefix}*"))

    def head(self, key: str) -> dict[str, Any]:
        found = json.loads(self.s5cmd("--json", "head", self.at(key)))
        metadata = {name.lower(): value for name, value in found.get("metadata", {}).items()}
        return {"size": found["size"], "content_type": found["content_type"], "metadata": metadata}

    def sync_up(self, folder: Path, prefix: str) -> int:
        said = self.s5cmd("sync", "--delete", "--part-size", "5", f"{folder}/", self.at(prefix))
        return len(re.findall("^cp ", said, re.MULTILINE))

    def sync_down(self, prefix: str, folder: Path) -> int:
        said = self.s5cmd("sync", "--delete", "--part-size", "5", self.at(f"{prefix}*"), f"{folder}/")
        return len(re.findall("^cp ", said, re.MULTILINE))


CLIENTS: list[type[Client]] = [
    *(Boto3, AwsCli1, AwsCli2, AwsSdkForJavaScript, MinioGo, MinioPython, Rclone, S3cmd, S5cmd),
    *(PyArrow, S3fs, Obstore, DuckDB, Polars, DeltaLake, PyIceberg, Dask),
]
