"""`replay`: plays a trace of requests against S3 endpoints, and draws the latencies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from stylobate.errors import ConfigError, StylobateError

__all__ = ["Replay", "replay"]

INVALID_ARGUMENTS = 2
"""Exit code of the command for invalid arguments."""


class Replay:
    """The result of `replay`: the latencies of each endpoint. Notebooks show them as a drawing."""

    report: dict[str, Any]
    """Report of `stylobate replay --json`: one entry of `runs` per endpoint, with the numbers of requests and failures,
    bytes, and latencies in milliseconds."""

    svg: str
    """The distribution of the latencies as SVG."""

    def __init__(self, report: dict[str, Any], svg: str, summary: str) -> None:
        self.report = report
        self.svg = svg
        self._summary = summary

    @property
    def failed(self) -> int:
        """Number of requests that failed."""
        return sum(run["failed"] for run in self.report["runs"])

    def __repr__(self) -> str:
        return self._summary

    def _repr_html_(self) -> str:
        # The drawing is labelled by names that the command escaped.
        return self.svg


def replay(
    trace: str | os.PathLike[str],
    *,
    bucket: str,
    endpoint: str | None = None,
    compare: str | None = None,
    compare_bucket: str | None = None,
    objects: str | os.PathLike[str] | None = None,
    prefix: str = "",
    speed: float = 1.0,
    timeout: float | None = None,
    storage_options: dict[str, str] | None = None,
) -> Replay:
    """Plays a trace of requests in open loop: each request is sent at its time, whether earlier ones were answered or not.

    Runs the command `stylobate replay` in a process of its own, so that this interpreter does not delay requests.

    Args:
        trace: File with lines `timestamp_ms,file_index`, as `stylobate replay --make` writes it.
        bucket: Bucket of the objects.
        endpoint: URL of the S3 endpoint. Default: `AWS_ENDPOINT_URL`, or `http://127.0.0.1:9000`.
        compare: URL of a second endpoint, against which the trace is played after the first.
        compare_bucket: Bucket at the second endpoint. Default: that of the first.
        objects: File with one `key` or `key,size` per line. Default: `objects.csv` next to the trace.
        prefix: Prefix of each key, such as `lake/`. Default: none.
        speed: Speed relative to the trace. Default: 1.
        timeout: Seconds after which a request counts as failed. Default: 300.
        storage_options: `access_key_id`, `secret_access_key`, `session_token` and `region`. Default: those of the
            environment; without keys, requests are not signed.

    Returns:
        A `Replay`, even if some requests failed: see `failed`.

    Raises:
        ConfigError: An argument is invalid.
        StylobateError: A file cannot be read.
    """
    options = {
        "--bucket": bucket,
        "--endpoint": endpoint,
        "--compare": compare,
        "--compare-bucket": compare_bucket,
        "--objects": None if objects is None else os.fspath(objects),
        "--prefix": prefix or None,
        "--speed": f"{speed!r}",
        "--timeout": None if timeout is None else f"{round(timeout * 1000)}ms",
    }
    words = [f"{name}={value}" for name, value in options.items() if value is not None]

    with tempfile.TemporaryDirectory(prefix="stylobate-replay-") as folder:
        report, svg = Path(folder, "report.json"), Path(folder, "latency.svg")
        command = [sys.executable, "-m", "stylobate", "replay", os.fspath(trace), *words]
        run = subprocess.run(
            [*command, f"--json={report}", f"--svg={svg}"],
            env=environment(storage_options or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if not (report.exists() and svg.exists()):
            kind = ConfigError if run.returncode == INVALID_ARGUMENTS else StylobateError
            line = run.stderr.strip().partition("\n")[0] or f"the command ended with exit code {run.returncode}"
            raise kind(line.removeprefix("stylobate: ").removeprefix("error: "))
        return Replay(json.loads(report.read_text("utf-8")), svg.read_text("utf-8"), run.stdout.rstrip())


VARIABLES = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
}
"""Environment variables by the storage options that they replace: arguments are visible to other processes."""


def environment(storage_options: dict[str, str]) -> dict[str, str]:
    """Returns the environment of the command, with these options in it."""
    unknown = sorted(storage_options.keys() - VARIABLES.keys())
    if unknown:
        raise ConfigError(f"storage_options: {unknown[0]} is none of {', '.join(VARIABLES)}")
    return os.environ | {VARIABLES[name]: value for name, value in storage_options.items()}
