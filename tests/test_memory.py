"""Reads ten times the budget through a node: its memory stays within the budget plus a quarter of it plus 150 MiB."""

from __future__ import annotations

import http.client
import os
import random
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy import Proxy
from servers import Bucket, Node, Origin

MIB = 1 << 20
BUDGET = 128 * MIB
MAX_RSS = BUDGET * 5 // 4 + 150 * MIB
# Resident pages of the executable in a release build. The build for tests has twice the code.
CODE = 24 * MIB
# The origin hashes a whole object for each of its ranges.
SIZES = [8 * MIB] * 136 + [24 * MIB + 3] * 8


@pytest.fixture(scope="module")
def objects(origin: Origin) -> dict[str, tuple[int, int]]:
    """Objects of ten times the budget in the bucket `lake`: size and checksum of each."""
    block = random.Random(1).randbytes(24 * MIB + 3)
    made: dict[str, tuple[int, int]] = {}

    def put(n: int) -> None:
        key, size = f"memory/{n}", SIZES[n]
        body = n.to_bytes(8, "big") + block[: size - 8]
        path = origin.root / "lake" / key
        path.write_bytes(body)
        # A folder origin treats a recently modified file as one that may still change, and does not cache it.
        os.utime(path, (time.time() - 3600,) * 2)
        made[key] = (size, zlib.crc32(body))

    (origin.bucket("lake") / "memory").mkdir()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(put, range(len(SIZES))))
    return made


def read(node: Node, key: str) -> tuple[int, int]:
    """Returns size and checksum of an object, without keeping it in memory."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    try:
        connection.request("GET", f"/lake/{key}")
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        size = checksum = 0
        buffer = memoryview(bytearray(MIB))
        while count := answer.readinto(buffer):
            size += count
            checksum = zlib.crc32(buffer[:count], checksum)
        return size, checksum
    finally:
        connection.close()


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("kind", ["s3", "folder"])
def test_memory_stays_within_the_budget(
    start: Callable[..., Node],
    origin: Origin,
    proxy: Proxy,
    objects: dict[str, tuple[int, int]],
    tmp_path: Path,
    disk: bool,
    kind: str,
) -> None:
    at = Bucket.of_origin(origin.endpoint, "lake") if kind == "s3" else Bucket("lake", str(origin.root / "lake"))
    tier = ["--disk", f"{tmp_path}/cache=512MiB"] if disk else []
    node = start([at], "--memory", f"{BUDGET // MIB}MiB", *tier)
    idle = node.memory("VmRSS")
    samples: list[int] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(0.05):
            samples.append(node.memory("VmRSS"))

    sampler = threading.Thread(target=sample)
    sampler.start()
    order = list(objects)
    random.Random(3).shuffle(order)
    begun = time.monotonic()
    try:
        with ThreadPoolExecutor(8) as pool:
            for key, got in zip(order, pool.map(lambda key: read(node, key), order), strict=True):
                assert got == objects[key], key
    finally:
        done.set()
        sampler.join()
    seconds, total = time.monotonic() - begun, sum(size for size, _ in objects.values())
    assert total >= 10 * BUDGET
    peak = node.memory("VmHWM") - max(0, node.memory("RssFile") - CODE)
    print(
        f"{kind}{' with a disk' if disk else ''}: {total >> 20} MiB in {seconds:.1f} s, idle {idle >> 20} MiB, "
        f"median {sorted(samples)[len(samples) // 2] >> 20} MiB, peak {peak >> 20} MiB of {MAX_RSS >> 20} MiB allowed"
    )
    assert peak < MAX_RSS
    stats = node.stats()
    assert stats["bytes"]["origin"] + stats["bytes"]["passed_through"] >= total // 2
    assert stats["cache"]["memory_used"] <= BUDGET
    assert node.stop() == 0
