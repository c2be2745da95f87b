"""Failures around a node: full or missing disks, folders in use, failing origins, and shutdown."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy import Proxy
from servers import Bucket, Node, Origin, environment, request, stylobate, wait_for

MIB = 1 << 20
COUNT = 40


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of forty files of 4 MiB, old enough to be cached."""
    folder = tmp_path_factory.mktemp("trouble")
    for n in range(COUNT):
        (folder / str(n)).write_bytes(random.Random(n).randbytes(4 * MIB))
        os.utime(folder / str(n), (time.time() - 3600,) * 2)
    return folder


def read_all(node: Node, data: Path) -> None:
    """Reads everything and compares it."""

    def same(n: int) -> bool:
        return node.s3.get_object(Bucket="data", Key=str(n))["Body"].read() == (data / str(n)).read_bytes()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(same, range(COUNT)))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB, if the tests may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs more rights")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_node_goes_on_when_its_disk_is_full(start: Callable[..., Node], data: Path, small_disk: Path) -> None:
    node = start([Bucket("data", str(data))], "--memory", "64MiB", "--disk", f"{small_disk}/cache=1GiB")
    for _ in range(2):
        read_all(node, data)
    assert shutil.disk_usage(small_disk).free < 8 * MIB
    assert node.ask("GET", "/readyz").status == 200
    assert node.stop() == 0
    again = start([Bucket("data", str(data))], "--memory", "64MiB", "--disk", f"{small_disk}/cache=1GiB")
    read_all(again, data)


def test_a_node_goes_on_when_its_cache_folder_is_gone(start: Callable[..., Node], data: Path, tmp_path: Path) -> None:
    node = start([Bucket("data", str(data))], "--memory", "64MiB", "--disk", f"{tmp_path}/cache=256MiB")
    read_all(node, data)
    cache = tmp_path / "cache"
    # The node may create a file while its folder is being removed.
    wait_for("the folder to be gone", lambda: shutil.rmtree(cache, ignore_errors=True) or not cache.exists())
    for _ in range(2):
        read_all(node, data)
    assert node.stop() == 0


def test_damaged_cache_files_are_misses(start: Callable[..., Node], data: Path, tmp_path: Path) -> None:
    flags = ["--memory", "64MiB", "--disk", f"{tmp_path}/cache=256MiB"]
    node = start([Bucket("data", str(data))], *flags)
    read_all(node, data)
    assert node.stop() == 0
    rng = random.Random(4)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert files
    for path in files:
        size = path.stat().st_size
        if rng.random() < 0.2:
            os.truncate(path, rng.randrange(size))
            continue
        with path.open("r+b") as file:
            for _ in range(200):
                file.seek(rng.randrange(size))
                file.write(rng.randbytes(rng.choice([1, 1, 8, 5_000])))
    again = start([Bucket("data", str(data))], *flags)
    for _ in range(2):
        read_all(again, data)
    assert again.stop() == 0


def small_files_only() -> None:
    """Limits the size of files to 1 MiB, with an error instead of a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))


def failure(*flags: str, **options: Any) -> tuple[int, str]:
    """Returns the exit code and the one error line of a node that does not start."""
    listen = [] if "--listen" in flags else ["--listen", "127.0.0.1:0"]
    command = [str(stylobate()), "serve", *listen, "--admin", "127.0.0.1:0", "--log", "off", *flags]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, **options)
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended.returncode, ended.stderr


def test_a_node_that_cannot_start_says_why_in_one_line(start: Callable[..., Node], data: Path, tmp_path: Path) -> None:
    origin = ["--origin", f"data={data}", "--memory", "64MiB"]
    (tmp_path / "file").write_text("no folder")
    for folder in (f"{tmp_path}/file", f"{tmp_path}/file/below", "/proc/cache"):
        code, line = failure(*origin, "--disk", folder)
        assert (code, folder.split("/below")[0] in line) == (5, True), line
    start([Bucket("data", str(data))], "--memory", "64MiB", "--disk", f"{tmp_path}/cache=64MiB")
    code, line = failure(*origin, "--disk", f"{tmp_path}/cache=64MiB")
    assert (code, "in use by another process" in line) == (5, True), line
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = failure(*origin, "--listen", address)
        assert (code, address in line) == (3, True), line
    code, line = failure("--origin", f"data={tmp_path}/nowhere")
    assert (code, "nowhere" in line) == (2, True), line
    assert failure(*origin, "--listen", "0.0.0.0:0")[0] == 2


def test_a_disk_tier_whose_files_may_not_grow_costs_only_its_hits(
    start: Callable[..., Node], tmp_path: Path
) -> None:
    """The files of a disk tier grow as they are written: if they cannot, fetched data is dropped and counted."""
    folder = tmp_path / "lake"
    folder.mkdir()
    content = os.urandom(8 * MIB)
    (folder / "large").write_bytes(content)
    os.utime(folder / "large", (1, 1))
    flags = ["--memory", "64MiB", "--disk", f"{tmp_path}/limited=1GiB"]
    node = start([Bucket("data", str(folder))], *flags, preexec_fn=small_files_only)
    for _ in range(2):
        answer = request(node.endpoint, "GET", "/data/large")
        assert (answer.status, answer.body == content) == (200, True)
    wait_for("the disk to fail", lambda: node.stats()["cache"]["dropped_disk_failed"] > 0)
    assert node.stop() == 0


def test_a_locked_folder_is_free_once_its_node_was_killed(
    start: Callable[..., Node], data: Path, tmp_path: Path
) -> None:
    flags = ["--memory", "64MiB", "--disk", f"{tmp_path}/cache=64MiB"]
    start([Bucket("data", str(data))], *flags).kill()
    start([Bucket("data", str(data))], *flags)


def test_an_origin_that_comes_back_is_used_again(
    start: Callable[..., Node], proxy: Proxy, origin: Origin, prefix: str
) -> None:
    node = start([Bucket.of_origin(proxy.endpoint, "lake")], "--memory", "128MiB", "--attempts", "1")
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=b"bytes")
    proxy.down = True
    try:
        for _ in range(3):
            failed = request(node.endpoint, "GET", f"/lake/{prefix}a")
            assert failed.status in (502, 503), failed
            assert b"http" not in failed.body.lower().replace(b"xmlns", b""), failed.body
    finally:
        proxy.down = False
    answer = wait_for(
        "the origin", lambda: (a := request(node.endpoint, "GET", f"/lake/{prefix}a")).status == 200 and a
    )
    assert answer.body == b"bytes"


def test_a_client_that_goes_away_cancels_nothing_for_others(
    start: Callable[..., Node], proxy: Proxy, origin: Origin, prefix: str
) -> None:
    node = start([Bucket.of_origin(proxy.endpoint, "lake")], "--memory", "256MiB")
    body = random.Random(1).randbytes(16 * MIB)
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=body)
    proxy.bytes_per_s = 40 * MIB
    try:
        got: list[bytes] = []
        gone = socket.create_connection(("127.0.0.1", node.port))
        gone.sendall(f"GET /lake/{prefix}a HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        gone.recv(1000)
        stays = threading.Thread(target=lambda: got.append(request(node.endpoint, "GET", f"/lake/{prefix}a").body))
        stays.start()
        # Both read, unless the second has already received everything.
        wait_for("both to read", lambda: not stays.is_alive() or node.stats()["requests"]["in_flight"] == 2)
        gone.close()
        stays.join()
    finally:
        proxy.bytes_per_s = None
    assert got == [body]
    wait_for("requests to end", lambda: node.stats()["requests"]["in_flight"] == 0)


def test_a_node_that_is_told_to_stop_finishes_a_slow_download(start: Callable[..., Node], data: Path) -> None:
    truth = b"".join((data / str(n)).read_bytes() for n in range(16))
    (data / "large").write_bytes(truth)
    os.utime(data / "large", (time.time() - 3600,) * 2)
    node = start([Bucket("data", str(data))], "--memory", "256MiB")
    slow = socket.create_connection(("127.0.0.1", node.port), timeout=20)
    slow.sendall(b"GET /data/large HTTP/1.1\r\nhost: localhost\r\n\r\n")
    got = slow.recv(1 << 16)
    idle = socket.create_connection(("127.0.0.1", node.port))
    node.process.send_signal(signal.SIGTERM)

    def refused() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", node.port)) != 0

    wait_for("new connections to be refused", refused, timeout=5)
    assert node.running()
    assert refused()
    # An idle connection is closed at once.
    idle.settimeout(5)
    assert idle.recv(1) == b""
    pieces = [got]
    while chunk := slow.recv(1 << 20):
        pieces.append(chunk)
        if len(pieces) < 20:
            time.sleep(0.05)
            assert node.running()
    assert b"".join(pieces).split(b"\r\n\r\n", 1)[1] == truth
    assert node.end() == 0
    assert "cut off" not in node.log()


def test_what_takes_too_long_is_cut_off_when_the_time_is_up(start: Callable[..., Node], data: Path) -> None:
    node = start([Bucket("data", str(data))], "--memory", "64MiB", "--drain-timeout", "1s")
    (data / "stuck").write_bytes(bytes(64 * MIB))
    with socket.create_connection(("127.0.0.1", node.port)) as stuck:
        stuck.sendall(b"GET /data/stuck HTTP/1.1\r\nhost: localhost\r\n\r\n")
        stuck.recv(1000)
        begun = time.monotonic()
        assert node.stop() == 0
        assert 0.9 < time.monotonic() - begun < 5
