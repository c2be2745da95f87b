"""The client interface of the tests, and the origins that clients use through a node."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from servers import environment, target

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("STYLOBATE_CLIENTS") or target() / "clients").absolute()
TIMEOUT = 240.0
MIB = 1 << 20


class ClientFailed(Exception):
    """A client could not complete a step."""


@dataclass
class Door:
    """An S3 server and a bucket, as configured in a client."""

    endpoint: str
    bucket: str
    key: str
    secret: str

    @property
    def host(self) -> str:
        return self.endpoint.removeprefix("http://")


def client_environment(door: Door, home: Path) -> dict[str, str]:
    """Returns the environment of a client: the door, no user settings, and one attempt per request."""
    return environment(
        HOME=str(home),
        LANG="C.UTF-8",
        AWS_ACCESS_KEY_ID=door.key,
        AWS_SECRET_ACCESS_KEY=door.secret,
        AWS_REGION="us-east-1",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_MAX_ATTEMPTS="1",
        AWS_EC2_METADATA_DISABLED="true",
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
    )


class Client:
    """A client and the door that it uses. `OPERATIONS` lists which of the steps below it supports.

    put(file, key, content_type, metadata), get(key, file), read_range(key, first, length, file), list_all(prefix) with
    the size of each key, list_level(prefix), copy(source, target), move(source, target), delete(key),
    delete_all(prefix), head(key), sync_up(folder, prefix) and sync_down(prefix, folder) with the number of files sent,
    write_table(name, mode, first, count), read_table(name), count_rows(name, at_least), delete_rows(name, below),
    clean(name).
    """

    NAME: str
    OPERATIONS: str
    NEEDS: str
    version: str = "unknown"
    # Whether it puts empty objects for directories that it may have emptied.
    LEAVES_MARKERS = False

    def __init__(self, door: Door, home: Path) -> None:
        self.door = door
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.env = client_environment(door, home)

    @classmethod
    def missing(cls) -> str | None:
        """Returns why the client cannot be tested."""
        if (FOLDER / f"{cls.NEEDS}.installed").is_file():
            return None
        reason = FOLDER / f"{cls.NEEDS}.failed"
        return reason.read_text() if reason.is_file() else f"make test-clients-all installs {cls.NEEDS}"

    def can(self, step: str) -> bool:
        return hasattr(self, step)

    def close(self) -> None:
        pass


class Program(Client):
    """A library, used by a program that executes steps; see programs/protocol.py."""

    COMMAND: list[str]
    STEPS: str

    def __init__(self, door: Door, home: Path) -> None:
        super().__init__(door, home)
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [*self.COMMAND, self.door.endpoint, self.door.bucket, self.door.key, self.door.secret, *self.more()]
        self.log = self.home / "stderr.log"
        with self.log.open("ab") as stderr:
            self.process = subprocess.Popen(
                command,
                env=self.env,
                cwd=self.home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.answers), daemon=True).start()
        self.version = self._answer("start")["version"]

    def more(self) -> list[str]:
        """Returns further arguments of the program, after the door."""
        return []

    @staticmethod
    def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            answers.put(line)
        answers.put("")

    def _answer(self, step: str) -> dict[str, Any]:
        try:
            line = self.answers.get(timeout=TIMEOUT)
        except queue.Empty:
            line = ""
        if not line:
            self.close()
            raise ClientFailed(f"no answer to {step}: {self.log.read_text(errors='replace')[-2000:]}")
        return json.loads(line)

    def can(self, step: str) -> bool:
        return step in self.STEPS.split()

    def __getattr__(self, step: str) -> Any:
        if step not in type(self).STEPS.split():
            raise AttributeError(step)

        def call(**values: Any) -> Any:
            if self.process is None:
                self.start()
            assert self.process and self.process.stdin
            told = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
            self.process.stdin.write(json.dumps({"do": step} | told) + "\n")
            self.process.stdin.flush()
            answer = self._answer(step)
            if "error" in answer:
                raise ClientFailed(f"{step}: {answer['error']}")
            return answer["answer"]

        return call

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


class Command(Client):
    """A command line, run once for each step."""

    said: str = ""

    def run(self, *command: str | Path) -> str:
        """Returns the output of a command."""
        return self.run_bytes(*command).decode()

    def run_bytes(self, *command: str | Path) -> bytes:
        words = [str(word) for word in command]
        try:
            done = subprocess.run(
                words, env=self.env, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired as late:
            raise ClientFailed(f"{' '.join(words)}: not done after {TIMEOUT} s") from late
        stderr = done.stderr.decode(errors="replace")
        if done.returncode:
            raise ClientFailed(f"{' '.join(words)}: exit code {done.returncode}: {stderr[-3000:]}")
        self.said = stderr
        return done.stdout


class Folder:
    """A folder as the origin; the tests inspect its files directly, past the node."""

    MARKER = ".stylobate-marker"

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True)
        self.root = root

    def put(self, key: str, data: bytes) -> None:
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def path(self, key: str) -> Path:
        return self.root / (f"{key}{self.MARKER}" if key.endswith("/") else key)

    def read(self, key: str) -> bytes | None:
        path = self.path(key)
        return path.read_bytes() if path.is_file() else None

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the size of each file below a prefix that ends in `/`."""
        files = [path for path in (self.root / prefix).rglob("*") if path.is_file()]
        return {str(path.relative_to(self.root)).removesuffix(self.MARKER): path.stat().st_size for path in files}


class Bucket:
    """A bucket of an S3 server as the origin; the tests inspect it directly, past the node."""

    def __init__(self, name: str, s3: Any) -> None:
        self.name = name
        self.s3 = s3
        s3.create_bucket(Bucket=name)

    def put(self, key: str, data: bytes) -> None:
        self.s3.put_object(Bucket=self.name, Key=key, Body=data)

    def read(self, key: str) -> bytes | None:
        try:
            return self.s3.get_object(Bucket=self.name, Key=key)["Body"].read()
        except ClientError as failed:
            assert failed.response["Error"]["Code"] == "NoSuchKey", failed
            return None

    def sizes(self, prefix: str) -> dict[str, int]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", [])}
