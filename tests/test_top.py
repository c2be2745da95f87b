"""`stylobate top` on a terminal: its output, and the state of the terminal after it has ended."""

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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers import Bucket, Node, environment, stylobate

TIMEOUT = 20.0
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


class Watched:
    """The command on a terminal of its own, with 100 columns and 40 lines."""

    def __init__(self, url: str) -> None:
        self.keyboard, self.terminal = pty.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.before = termios.tcgetattr(self.terminal)
        self.shown = b""
        self.process = subprocess.Popen(
            [stylobate(), "top", url], stdin=self.terminal, stdout=self.terminal, stderr=self.terminal,
            env=environment(TERM="xterm"), preexec_fn=self._lead,
        )

    def _lead(self) -> None:
        """Makes the terminal the controlling terminal of a session, whose processes get Ctrl-C."""
        os.setsid()
        fcntl.ioctl(self.terminal, termios.TIOCSCTTY, 0)

    def wait_for(self, text: bytes, times: int = 1) -> None:
        deadline = time.monotonic() + TIMEOUT
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, self.shown[-4000:]
            if select.select([self.keyboard], [], [], 0.1)[0]:
                self.shown += os.read(self.keyboard, 1 << 16)

    def end(self) -> int:
        code = self.process.wait(TIMEOUT)
        while select.select([self.keyboard], [], [], 0.1)[0]:
            self.shown += os.read(self.keyboard, 1 << 16)
        assert termios.tcgetattr(self.terminal) == self.before
        assert self.shown.rindex(LEFT) > self.shown.rindex(ENTERED)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keyboard)
        os.close(self.terminal)


@pytest.fixture
def node(start: Callable[..., Node], tmp_path: Path) -> Node:
    (tmp_path / "lake").mkdir()
    return start([Bucket("lake", str(tmp_path / "lake"))], "--memory", "64MiB")


@pytest.fixture
def watched(node: Node) -> Iterator[Watched]:
    watched = Watched(node.admin)
    yield watched
    watched.close()


def test_the_figures_are_renewed_each_second_and_q_ends_them(watched: Watched) -> None:
    watched.wait_for(b"stylobate ", times=3)
    watched.wait_for(b"lake")
    screens = re.split(r"\r\n|\x1b\[H", watched.shown.decode(errors="ignore"))
    lines = [re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", line) for line in screens]
    assert not [line for line in lines if len(line) > 100]
    modes = termios.tcgetattr(watched.terminal)[3]
    assert isinstance(modes, int) and not modes & (termios.ICANON | termios.ECHO)
    os.write(watched.keyboard, b"xq")
    assert watched.end() == 0


def test_an_interrupt_gives_the_terminal_back(watched: Watched) -> None:
    watched.wait_for(b"stylobate ")
    os.write(watched.keyboard, b"\x03")
    assert watched.end() == 128 + signal.SIGINT


def test_a_node_that_went_away_is_told_and_looked_for(node: Node, watched: Watched) -> None:
    watched.wait_for(b"stylobate ")
    node.kill()
    watched.wait_for(b"trying again", times=2)
    os.write(watched.keyboard, b"q")
    assert watched.end() == 0
