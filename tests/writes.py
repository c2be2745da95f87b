"""The command as a process that writes files: run to its end, stopped half-way, and what is left of it then."""

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
PATIENCE = 120.0


def start(*args: object, **options: Any) -> subprocess.Popen[str]:
    """The command, begun, with pipes for what it says."""
    usual: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    usual |= {"env": environment(), "text": True}
    return subprocess.Popen([str(stylobate()), *map(str, args)], **(usual | options))


def peak_until_end(process: subprocess.Popen[str]) -> int:
    """The most bytes of memory that a process has held when it ends."""
    peak = 0
    while process.poll() is None:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        peak = max(peak, int(found[1]) * 1024 if found else 0)
        time.sleep(0.005)
    return peak


def run(*args: object, **options: Any) -> tuple[int, str, str]:
    """The command to its end: its exit code, its output, and what it said."""
    process = start(*args, **options)
    with process:
        try:
            output, said = process.communicate(timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    return process.returncode, output, said


def succeed(*args: object, **options: Any) -> str:
    """What the command printed; it must have succeeded."""
    code, output, said = run(*args, **options)
    assert code == 0, (args, said)
    return output


def failure(*args: object, **options: Any) -> str:
    """The one line of an error that is not the user's."""
    code, output, said = run(*args, **options)
    assert (code, output) == (1, ""), (args, code, output, said)
    assert said.startswith("stylobate: ") and len(said.splitlines()) == 1, said
    return said


def names(folder: Path) -> list[str]:
    """Whatever is in a folder, hidden files too."""
    return sorted(os.listdir(folder)) if folder.exists() else []


def visible(folder: Path) -> list[str]:
    """What has its final name."""
    return [name for name in names(folder) if not name.startswith(".")]


def written(folder: Path) -> int:
    """Bytes in a folder so far, under whatever names."""
    total = 0
    for name in names(folder):
        try:
            total += (folder / name).stat().st_size
        except FileNotFoundError:
            continue
    return total


def wait_until_written(process: subprocess.Popen[str], folder: Path, size: int) -> None:
    """Until so many bytes are in a folder, or the process is at its end."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and written(folder) < size:
        assert time.monotonic() < deadline, f"{written(folder)} of {size} bytes after {PATIENCE} s"
        time.sleep(0.002)


def end(process: subprocess.Popen[str], by: signal.Signals) -> tuple[int, str]:
    """Sends a signal; the exit code, and what the process said."""
    with process:
        process.send_signal(by)
        try:
            output, said = process.communicate(timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    assert output == ""
    return process.returncode, said


def kill(process: subprocess.Popen[str], folder: Path) -> int:
    """Kills, and waits until the files of a folder are nobody's; the exit code."""
    code, _ = end(process, signal.SIGKILL)
    # The system ends a ring, which holds on to a file and its lock, a little after its process.
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
    """All of a file, by a reader that is not ours."""
    return pq.read_table(path) if path.suffix == ".parquet" else orc.read_table(path)


def noise(path: Path, size: int, seed: int = 1) -> Path:
    """A Parquet file of about so many bytes that no codec makes smaller, in row groups of 8 MiB."""
    length, rows = 4096, size // 4096
    block = random.Random(seed).randbytes(rows * length)
    offsets = pa.py_buffer(memoryview(pa.array(range(0, (rows + 1) * length, length), pa.int32()).buffers()[1]))
    values = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(block)])
    table = pa.table({"number": pa.array(range(rows), pa.int64()), "noise": values})
    pq.write_table(table, path, row_group_size=8 * MIB // length, compression="none", use_dictionary=False)
    return path
