"""The compared engines, each a process that answers query after query, and the tables that they read."""

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import queries
import servers
import tools
from tools import fail

OURS = "stylobate"
DATAFUSION = ["datafusion", "datafusion-pushdown"]
IN_PYTHON = ["duckdb", "polars"]
NAMES = [OURS, *DATAFUSION, *IN_PYTHON]
# A program of its own, on another version of DataFusion, over local files only; skipped if it was not built.
LIQUIDCACHE = "liquidcache"


class Engine:
    """An engine over the tables of a `queries.Local` or a `queries.Remote`. Use as a context manager."""

    def __init__(self, name, source, options):
        self.name = name
        if name in IN_PYTHON:
            command = [sys.executable, Path(__file__).with_name("worker.py"), name, str(options.threads)]
            command += [str(source.folder)] if isinstance(source, queries.Local) else ["--host", source.host]
        elif name == LIQUIDCACHE:
            command = [liquidcache_program(), "--threads", str(options.threads), source.folder]
            command += ["--memory", str(servers.size_bytes(options.memory))]
        else:
            command = [_program(), "--engine", name, "--threads", str(options.threads), "--memory", options.memory]
            command += [str(source.folder)] if isinstance(source, queries.Local) else _bucket(source)
        environment = os.environ | {"POLARS_MAX_THREADS": str(options.threads)}
        self._process = subprocess.Popen(
            [str(part) for part in command], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, text):
        """Returns the milliseconds of a query, and its rows."""
        query = {"sql": text.strip().rstrip(";"), "tables": queries.tables_of(text)}
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            fail(f"{self.name} ended at a query:\n{text}")
        answer = json.loads(line)
        return answer["milliseconds"], answer["rows"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def _program():
    path = tools.target_folder() / "release" / "stylobate-bench-sql"
    return path if path.exists() else fail(f"{path} is missing: run `make bench-sql`")


def liquidcache_program():
    """Returns the program; `None` if it was not built."""
    path = tools.target_folder() / "liquidcache" / "release" / "stylobate-bench-liquidcache"
    return path if path.exists() else None


def _bucket(source):
    options = {"endpoint": f"http://{source.host}", "allow_http": "true", "region": "us-east-1",
               "access_key_id": servers.ACCESS_KEY, "secret_access_key": servers.SECRET_KEY}
    flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
    return [f"s3://{servers.BUCKET}", *flags]


def versions():
    said = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout
    others = [f"{name} {importlib.metadata.version(name)}" for name in IN_PYTHON]
    if program := liquidcache_program():
        others.append(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip())
    return ", ".join([f"datafusion {said.split()[-1]}", *others])


def plain_tables(programs, scale):
    """Returns a folder with the bucket of all tables; kept below the target folder for the next run. Their Arrow
    schemas say string where those of `stylobate generate` say dictionary, so that each engine reads the type that suits
    it."""
    generated = queries.generate_tables(programs, scale) / servers.BUCKET
    root = tools.target_folder() / "bench-sql" / f"scale-{scale:g}"
    bucket = root / servers.BUCKET
    bucket.mkdir(parents=True, exist_ok=True)
    for table in queries.TABLES:
        file = bucket / f"{table}.parquet"
        if not file.exists():
            command = [programs["stylobate"], "convert", generated / file.name, file, "--dictionary", "none", "--quiet"]
            subprocess.run([str(part) for part in command], check=True)
            # Files modified less than 2 s ago are not cached.
            os.utime(file, (time.time() - 3600,) * 2)
        # The file is in the page cache from here on.
        file.read_bytes()
    return root
