"""The command as a process that writes files: run to completion or stopped half-way, and the files that it leaves."""

from __future__ import annotations

import fcntl
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from servers import environment, stylobate, wait_for

MIB = 1 << 20
FORMATS = ["parquet", "orc"]
SINKS = ["thread", "io_uring", "io_uring_direct"]
TIMEOUT = 120.0


def start(*args: object, **options: Any) -> subprocess.Popen[str]:
    """Starts the command with its output captured."""
    usual: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    usual |= {"env": environment(), "text": True}
    return subprocess.Popen([str(stylobate()), *map(str, args)], **(usual | options))


def peak_until_end(process: subprocess.Popen[str]) -> int:
    """Waits for a process to exit, and returns its peak memory in bytes."""
    peak = 0
    while process.poll() is None:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        peak = max(peak, int(found[1]) * 1024 if found else 0)
        time.sleep(0.005)
    return peak


def run(*args: object, **options: Any) -> tuple[int, str, str]:
    """Runs the command; returns its exit code, standard output and standard error."""
    process = start(*args, **options)
    with process:
        try:
            output, said = process.communicate(timeout=TIMEOUT)
        except BaseException:
            process.kill()
            raise
    return process.returncode, output, said


def succeed(*args: object, **options: Any) -> str:
    """Runs the command, which must succeed, and returns its standard output."""
    code, output, said = run(*args, **options)
    assert code == 0, (args, said)
    return output


def failure(*args: object, **options: Any) -> str:
    """Runs the command, which must fail for a reason other than its arguments, and returns its error line."""
    code, output, said = run(*args, **options)
    assert (code, output) == (1, ""), (args, code, output, said)
    assert said.startswith("stylobate: ") and len(said.splitlines()) == 1, said
    return said


def names(folder: Path) -> list[str]:
    """Returns all names in a folder, including hidden files."""
    return sorted(os.listdir(folder)) if folder.exists() else []


def visible(folder: Path) -> list[str]:
    """Returns the files with their final names."""
    return [name for name in names(folder) if not name.startswith(".")]


def written(folder: Path) -> int:
    """Returns the bytes in a folder so far, under any names."""
    total = 0
    for name in names(folder):
        try:
            total += (folder / name).stat().st_size
        except FileNotFoundError:
            continue
    return total


def wait_until_written(process: subprocess.Popen[str], folder: Path, size: int) -> None:
    """Waits until `size` bytes are in a folder, or the process has ended."""
    deadline = time.monotonic() + TIMEOUT
    while process.poll() is None and written(folder) < size:
        assert time.monotonic() < deadline, f"{written(folder)} of {size} bytes after {TIMEOUT} s"
        time.sleep(0.002)


def end(process: subprocess.Popen[str], by: signal.Signals) -> tuple[int, str]:
    """Sends a signal; returns the exit code and the process's standard error."""
    with process:
        process.send_signal(by)
        try:
            output, said = process.communicate(timeout=TIMEOUT)
        except BaseException:
            process.kill()
            raise
    assert output == ""
    return process.returncode, said


def kill(process: subprocess.Popen[str], folder: Path) -> int:
    """Kills the process, and waits until nothing holds the files of a folder; returns the exit code."""
    code, _ = end(process, signal.SIGKILL)
    # The kernel tears down an io_uring, which holds on to a file and its lock, a little after its process.
    wait_for("locks to be gone", lambda: not any(is_locked(folder / name) for name in names(folder)))
    return code


def is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read(path: Path) -> pa.Table:
    """Reads all of a file with an independent reader."""
    return pq.read_table(path) if path.suffix == ".parquet" else orc.read_table(path)


def noise(path: Path, size: int, seed: int = 1) -> Path:
    """Writes an incompressible Parquet file of about `size` bytes, in row groups of 8 MiB."""
    length, rows = 4096, size // 4096
    block = random.Random(seed).randbytes(rows * length)
    offsets = pa.py_buffer(memoryview(pa.array(range(0, (rows + 1) * length, length), pa.int32()).buffers()[1]))
    values = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(block)])
    table = pa.table({"number": pa.array(range(rows), pa.int64()), "noise": values})
    pq.write_table(table, path, row_group_size=8 * MIB // length, compression="none", use_dictionary=False)
    return path
