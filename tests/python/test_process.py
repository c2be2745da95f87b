"""Scans with threads, signals and forks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import stylobate as st

from conftest import wait_until_busy
from orders import orders
from proxy import Proxy
from servers import Origin, origin_options, wait_for

LONG = """
import sys, pyarrow as pa, stylobate as st
scan = st.scan([sys.argv[1]] * 3000, cache=st.Cache(memory=0), columns=["comment", "price"])
print("ready", flush=True)
try:
    WORK
except INTERRUPT:
    print("interrupted", flush=True)
    # What is left of the scan ends with it, and the next one works.
    print(st.scan(sys.argv[1]).count(), flush=True)
"""

WORKS = {
    "to_arrow": "scan.to_arrow()",
    "count": "st.scan([sys.argv[1]] * 3000, cache=st.Cache(memory=0), filter=\"comment like '%x'\").count()",
    "batches": "sum(batch.num_rows for batch in scan.batches())",
    "stream": "pa.RecordBatchReader.from_stream(scan).read_all()",
}


@pytest.mark.parametrize("work", WORKS)
def test_ctrl_c_ends_a_long_scan(files: dict[str, Path], work: str) -> None:
    # Readers of a C interface stream raise an error type of their own.
    interrupt = "pa.ArrowInvalid" if work == "stream" else "KeyboardInterrupt"
    code = LONG.replace("WORK", WORKS[work]).replace("INTERRUPT", interrupt)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(files["parquet"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until_busy(process)
        assert process.poll() is None, "the scan ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, err = process.communicate(timeout=30)
        assert out == "interrupted\n30000\n", err
        assert time.monotonic() - sent < 10
    finally:
        process.kill()


UPLOAD = """
import json, sys, stylobate as st
path, url, options = sys.argv[1:]
scan = st.scan([path] * 3000, cache=st.Cache(memory=0))
st.write_parquet(scan, url, compression="none", row_group_size=100_000, storage_options=json.loads(options))
"""


def test_ctrl_c_aborts_an_upload_before_the_process_ends(files: dict[str, Path], origin: Origin, prefix: str) -> None:
    parts = aborts = 0

    def fault(method: str, _: str, query: dict[str, str]) -> int | None:
        nonlocal parts, aborts
        parts += method == "PUT" and "partNumber" in query
        if method != "DELETE" or "uploadId" not in query:
            return None
        # A process that does not wait has ended when its third attempt is due.
        aborts += 1
        return 503 if aborts < 3 else None

    with Proxy(origin.port, origin.root) as proxy:
        proxy.fault = fault
        options = json.dumps(origin_options(proxy.endpoint))
        command = [sys.executable, "-c", UPLOAD, str(files["parquet"]), f"s3://lake/{prefix}a.parquet", options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            wait_for("a part", lambda: parts > 0 or process.poll() is not None, timeout=60)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
        assert "KeyboardInterrupt" in err
        assert aborts == 3
        wait_for("the origin to be idle", lambda: proxy.idle)
    assert not (origin.root / "lake" / prefix / "a.parquet").exists()


REPORTING: dict[str, Callable[[Path, Callable[[int, int], object]], Any]] = {
    "write_parquet": lambda folder, progress: st.write_parquet(orders(100), folder / "a.parquet", progress=progress),
    "generate_tpch": lambda folder, progress: st.generate_tpch(0.001, folder, tables="region", progress=progress),
    "load": lambda folder, progress: st.GraphStore.create(folder, durability="none").load(
        vertices={"Person": {"data": {"id": [1, 2]}, "key": "id"}}, progress=progress
    ),
}


@pytest.mark.parametrize("work", REPORTING)
def test_a_progress_function_may_read(files: dict[str, Path], tmp_path: Path, work: str) -> None:
    rows: list[int] = []

    def progress(*_: int) -> None:
        # Without a cache: answers from memory need no runtime.
        with st.Cache(memory=0) as cache:
            rows.append(st.scan(files["parquet"], columns=["key"], cache=cache).to_arrow().num_rows)

    REPORTING[work](tmp_path / "out", progress)
    assert set(rows) == {30_000}


def test_other_threads_run_while_a_scan_works(files: dict[str, Path]) -> None:
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    begun = time.monotonic()
    with st.Cache(memory=0) as cache:
        scan = st.scan([files["parquet"]] * 20, cache=cache)
        scan.to_arrow()
        pa.RecordBatchReader.from_stream(scan).read_all()
    took = time.monotonic() - begun
    done.set()
    thread.join()
    assert ticks > took / 0.005 / 10, f"{ticks} ticks in {took:.1f} s"


def test_a_scan_may_be_read_by_many_threads_at_once(path: Path, table: pa.Table) -> None:
    scan = st.scan(path, columns=["key", "mode"])
    expected = table.select(["key", "mode"]).to_pydict()
    ways = [
        lambda: scan.to_arrow(),
        lambda: pa.RecordBatchReader.from_stream(scan).read_all(),
        lambda: pa.Table.from_batches(scan.batches()),
    ]
    with ThreadPoolExecutor(6) as pool:
        for read in pool.map(lambda way: way().to_pydict(), ways * 6):
            assert read == expected


def test_batches_may_be_taken_by_many_threads(path: Path) -> None:
    batches = st.scan(path, columns=["key"], batch_rows=500)._source.batches()
    keys: list[int] = []

    def take() -> None:
        for batch in batches:
            keys.extend(pa.record_batch(batch)["key"].to_pylist())

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(keys) == list(range(30_000))


# A process of its own: a fork of a process with much memory in use may fail.
FORK = """
import multiprocessing, os, sys
import pyarrow as pa, pytest, stylobate as st

path, folder = sys.argv[1:]
cache = st.Cache(memory="64MiB")
scan = st.scan(path, cache=cache)
scan.to_arrow()
begun = scan.batches()
next(begun)
stream = pa.RecordBatchReader.from_stream(scan)
with st.Node(folder) as node:
    context = multiprocessing.get_context("fork")
    results = context.Queue()

    def child():
        try:
            counts = [scan.count(), scan.to_arrow().num_rows, st.scan(path).count()]
            with pytest.raises(st.StylobateError, match="fork"):
                next(begun)
            with pytest.raises(pa.ArrowInvalid, match="fork"):
                stream.read_all()
            assert node.closed
            node.close()
            results.put((os.getpid(), counts, cache.stats()["parsed_files"]))
        except BaseException as error:
            results.put(repr(error))
            raise

    processes = [context.Process(target=child) for _ in range(2)]
    for process in processes:
        process.start()
    for _ in processes:
        answer = results.get(timeout=60)
        assert isinstance(answer, tuple), answer
        pid, counts, parsed = answer
        assert pid != os.getpid()
        assert counts == [30_000] * 3
        assert parsed == 1
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert not node.closed
    assert scan.count() == 30_000
    assert sum(batch.num_rows for batch in begun) > 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_scans_with_a_cache_of_its_own(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(path), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)


def test_a_fork_while_other_threads_scan_does_not_hang(path: Path) -> None:
    code = """
import os, sys, threading, stylobate as st
stop = threading.Event()
def work():
    while not stop.is_set():
        st.scan(sys.argv[1], cache=st.Cache(memory="1MiB")).count()
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(st.scan(sys.argv[1]).count() != 30_000)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
[thread.join() for thread in threads]
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], check=True, timeout=120)


def test_a_fork_during_the_first_scan_does_not_hang(path: Path) -> None:
    code = """
import importlib.abc, os, sys, threading, time, stylobate as st
names = ("operator", "collections.abc")
begun = threading.Event()
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in names:
            begun.set()
            time.sleep(1)
for name in names:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Slow())
def count():
    return st.scan([sys.argv[1]]).count()
thread = threading.Thread(target=count)
thread.start()
begun.wait(1)
child = os.fork()
if child == 0:
    os._exit(count() != 30_000)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], check=True, timeout=60)


def test_an_interpreter_that_ends_with_scans_under_way_ends_at_once(files: dict[str, Path]) -> None:
    code = """
import sys, stylobate as st
node = st.Node(".")
batches = st.scan([sys.argv[1]] * 500, cache=st.Cache(memory=0)).batches()
next(batches)
"""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", code, str(files["parquet"])], check=True, timeout=60)
    assert time.monotonic() - begun < 30
