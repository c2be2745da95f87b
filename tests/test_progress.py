"""Progress of long commands: shown on a terminal, and nowhere else; and the memory of a long conversion."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import environment
from writes import FORMATS, MIB, end, names, noise, peak_until_end, start, wait_until_written

COLUMNS = 200
COUNT = r"\d[\d,]*"
SIZE = r"\d[\d.]* [kMGT]?B"
LEFT = r"(?:\d+[smhd] ?)+ left"
RATES = rf"{COUNT} rows/s, {SIZE}, {SIZE}/s"
KNOWN_LENGTH = re.compile(rf"{COUNT} of {COUNT} rows, {RATES}, {LEFT}")
UNKNOWN_LENGTH = re.compile(rf"\S {COUNT} rows, {RATES}")
BEGUN = re.compile(rf"[1-9][\d,]* (?:of {COUNT} )?rows")
CLEARED = "\x1b[2K"
# Number of redraws in minutes: what has not appeared by then never will. A first stripe of ORC takes a busy machine one.
REDRAWN = 3_000
BUDGET = 32 * MIB
# Memory of writers and decoders beyond the budget, whatever the size of the data.
WORKING = 512 * MIB
LINKS = 12


@pytest.fixture(scope="module")
def long_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of more than a gibibyte that takes little space: the same file under many names."""
    folder = tmp_path_factory.mktemp("long")
    first = noise(folder / "0.parquet", 96 * MIB)
    for number in range(1, LINKS):
        (folder / f"{number}.parquet").hardlink_to(first)
    return folder


@pytest.fixture(scope="module")
def endless_source(tmp_path_factory: pytest.TempPathFactory, long_source: Path) -> Path:
    """The same file repeated so often that no machine finishes before the test looks at it."""
    folder = tmp_path_factory.mktemp("endless")
    for number in range(500):
        (folder / f"{number}.parquet").hardlink_to(long_source / "0.parquet")
    return folder


class Terminal:
    """A terminal, and its output so far."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self.shown = ""

    def begun(self) -> None:
        """Closes our copy of the process's end."""
        os.close(self.theirs)

    def read(self, enough: Callable[[str], object], timeout: float) -> bool:
        """Reads until there is enough output, the other end is closed, or the time is up."""
        deadline = time.monotonic() + timeout
        while not enough(self.shown):
            if not select.select([self.ours], [], [], max(0, deadline - time.monotonic()))[0]:
                return False
            try:
                self.shown += os.read(self.ours, 1 << 16).decode(errors="replace")
            except OSError:
                return False
        return True

    def rest(self) -> str:
        """Returns all output once the process has ended."""
        self.read(lambda _: False, 60)
        os.close(self.ours)
        return self.shown


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def interrupted(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(60) == 130
    finally:
        process.kill()


def shows(terminal: Terminal, line: re.Pattern[str], *args: object) -> None:
    """Checks that a command shows such a line on a terminal, and erases it when it is stopped."""
    env = environment(TERM="xterm")
    process = start(*args, stdout=subprocess.DEVNULL, stderr=terminal.theirs, env=env)
    terminal.begun()
    terminal.read(lambda shown: line.search(shown) or len(BEGUN.findall(shown)) > REDRAWN, 300)
    interrupted(process)
    everything = terminal.rest()
    assert line.search(everything), everything[-400:]
    assert everything.endswith(CLEARED), everything[-1000:]


@pytest.mark.parametrize("format", FORMATS)
def test_generate_shows_rows_bytes_and_time_left(terminal: Terminal, tmp_path: Path, format: str) -> None:
    args = ["--scale", "100", "--tables", "lineitem", "--format", format, "--output", tmp_path / "out"]
    shows(terminal, KNOWN_LENGTH, "generate", "tpch", *args)


@pytest.mark.parametrize("extension", ["parquet", "orc", "arrow"])
def test_convert_shows_rows_bytes_and_time_left(
    terminal: Terminal, tmp_path: Path, endless_source: Path, extension: str
) -> None:
    shows(terminal, KNOWN_LENGTH, "convert", endless_source, tmp_path / f"a.{extension}")


def test_scan_into_a_file_shows_rows_bytes_and_time_left(
    terminal: Terminal, tmp_path: Path, endless_source: Path
) -> None:
    shows(terminal, KNOWN_LENGTH, "scan", endless_source, "--output", tmp_path / "a.arrow")


def test_where_only_the_filter_knows_how_many_rows_there_are_no_time_is_promised(
    terminal: Terminal, tmp_path: Path, endless_source: Path
) -> None:
    args = ["--where", "number >= 0", "--output", tmp_path / "a.arrow"]
    shows(terminal, UNKNOWN_LENGTH, "scan", endless_source, *args)
    assert " of " not in terminal.shown and "left" not in terminal.shown


def test_no_time_left_is_shown_before_anything_is_done(terminal: Terminal, tmp_path: Path) -> None:
    args = ["--scale", "100", "--tables", "lineitem", "--output", tmp_path / "out"]
    shows(terminal, KNOWN_LENGTH, "generate", "tpch", *args)
    assert not re.search(r" 0 of [^\r]* 0s left", terminal.shown)


def test_nothing_of_it_is_in_rows_that_go_to_the_terminal(terminal: Terminal, endless_source: Path) -> None:
    args = ["--columns", "number", "--format", "csv"]
    env = environment(TERM="xterm")
    process = start("scan", endless_source, *args, stdout=terminal.theirs, stderr=terminal.theirs, env=env)
    terminal.begun()
    late = time.monotonic() + 2.5
    assert terminal.read(lambda shown: len(shown) > 10_000 and time.monotonic() > late, 60)
    interrupted(process)
    rows = terminal.rest().split("\r\n")
    assert rows[0] == "number"
    assert all(row.isdigit() for row in rows[1:-1])


@pytest.mark.parametrize("verb", ["generate", "convert", "scan"])
def test_without_a_terminal_nothing_of_it_is_said(tmp_path: Path, endless_source: Path, verb: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    args = {
        "generate": ["tpch", "--scale", "100", "--tables", "lineitem", "--output", out],
        "convert": [endless_source, out / "a.parquet"],
        "scan": [endless_source, "--output", out / "a.arrow"],
    }[verb]
    process = start(verb, *args)
    # On a terminal, progress appears after a second.
    time.sleep(2.5)
    wait_until_written(process, out, MIB)
    assert end(process, signal.SIGINT) == (130, "")
    assert names(out) == (["manifest.json"] if verb == "generate" else [])


def test_a_quiet_generate_shows_nothing_on_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ["--scale", "100", "--tables", "lineitem", "--quiet", "--output", out]
    process = start("generate", "tpch", *args, stderr=terminal.theirs, env=environment(TERM="xterm"))
    terminal.begun()
    time.sleep(2.5)
    wait_until_written(process, out, MIB)
    interrupted(process)
    assert terminal.rest() == ""


@pytest.mark.parametrize("format", FORMATS)
def test_the_memory_of_a_convert_does_not_grow_with_the_data(tmp_path: Path, long_source: Path, format: str) -> None:
    out = tmp_path / f"a.{format}"
    args = ["--memory", str(BUDGET), "--threads", "2", "--durability", "none", "--compression", "none", "--quiet"]
    process = start("convert", long_source, out, *args)
    peak = peak_until_end(process)
    size = out.stat().st_size
    out.unlink()
    assert process.communicate() == ("", "") and process.returncode == 0
    print(f"{format}: peak {peak >> 20} MiB for {size >> 20} MiB with a budget of {BUDGET >> 20} MiB")
    assert size > LINKS * 96 * MIB > BUDGET + WORKING
    assert 0 < peak < BUDGET + WORKING
