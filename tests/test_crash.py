"""Kills under load, again and again: no wrong bytes, and data on disk is reused."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model import MIB, Model
from proxy import Proxy
from servers import Bucket, Node, Origin, wait_for

# `make kills` kills more often, after less load each time.
ROUNDS = int(os.environ.get("STYLOBATE_KILLS", "10"))
SECONDS_OF_LOAD = 1.2 if ROUNDS <= 10 else 0.5
FIXED = 24


@pytest.fixture
def own_origin(tmp_path: Path) -> Iterator[tuple[Origin, Proxy]]:
    """An origin for one test, without any other load."""
    server = Origin(tmp_path / "origin", tmp_path / "origin.log")
    server.bucket("lake")
    with Proxy(server.port, server.root) as proxy:
        yield server, proxy
    server.kill()


def test_a_node_that_is_killed_under_load_never_serves_a_wrong_byte(
    start: Callable[..., Node], own_origin: tuple[Origin, Proxy], tmp_path: Path
) -> None:
    origin, proxy = own_origin
    fixed = {f"fixed/{n}": random.Random(n).randbytes(4 * MIB + n) for n in range(FIXED)}
    for key, body in fixed.items():
        origin.s3.put_object(Bucket="lake", Key=key, Body=body)
    buckets = [Bucket.of_origin(proxy.endpoint, "lake", consistency="10s")]
    flags = ["--memory", "192MiB", "--disk", f"{tmp_path}/cache=512MiB", "--attempts", "2"]
    model = Model("lake", "moving/", 8)
    total = sum(map(len, fixed.values()))
    shares = []
    for round_ in range(ROUNDS + 1):
        node = start(buckets, *flags)
        if round_ == 0:
            model.create(node)
        with ThreadPoolExecutor(4) as pool:
            bodies = pool.map(lambda key, s3=node.s3: s3.get_object(Bucket="lake", Key=key)["Body"].read(), fixed)
            assert all(got == fixed[key] for key, got in zip(fixed, bodies, strict=True))
        stats = node.stats()
        if round_ > 0:
            # Pages on disk when the node was killed are found again, and are not fetched.
            assert stats["cache"]["disk_hits"] > 0, stats
            assert stats["bytes"]["origin"] < total, stats
            shares.append(stats["bytes"]["disk"] / total)
            if round_ % 50 == 0:
                print(f"{round_} kills, {dict(model.done)}", flush=True)
        if round_ == ROUNDS:
            break
        stop = threading.Event()
        threads = model.load(node, stop, writers=2, readers=4, seed=round_)
        time.sleep(SECONDS_OF_LOAD * random.Random(round_).uniform(0.5, 1.5))
        node.kill()
        stop.set()
        for thread in threads:
            thread.join()
        # Requests that the node had sent are carried out or lost before the next one starts.
        wait_for("the origin to be idle", lambda: proxy.idle)
        model.check()
        model.forget()
    for seed in range(50):
        model.read(node, random.Random(seed))
    model.check()
    found = f"{min(shares):.0%} to {max(shares):.0%}, {sum(shares) / len(shares):.0%} on average"
    print(f"{ROUNDS} kills, {dict(model.done)}; of {total >> 20} MiB, found on disk after each kill: {found}")
    assert model.done["reads"] > 200
    assert model.done["writes"] > 50
    assert node.stop() == 0


@pytest.mark.soak
@pytest.mark.skipif("STYLOBATE_SOAK_MINUTES" not in os.environ, reason="runs by `make soak`")
def test_a_node_under_load_for_long_stays_right_and_within_its_memory(
    start: Callable[..., Node], own_origin: tuple[Origin, Proxy], tmp_path: Path
) -> None:
    _, proxy = own_origin
    buckets = [Bucket.of_origin(proxy.endpoint, "lake", consistency="1s")]
    node = start(buckets, "--memory", "192MiB", "--disk", f"{tmp_path}/cache=1GiB", "--log", "warn")
    model = Model("lake", "moving/", 64)
    model.create(node)
    stop = threading.Event()
    threads = model.load(node, stop, writers=2, readers=6, seed=0)
    end = time.monotonic() + 60 * float(os.environ["STYLOBATE_SOAK_MINUTES"])
    try:
        while time.monotonic() < end and node.running() and not model.wrong:
            time.sleep(min(10, max(0, end - time.monotonic())))
            model.forget()
            print(f"{dict(model.done)} rss {node.memory('VmRSS') >> 20} MiB, files {node.open_files()}", flush=True)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    model.check()
    assert node.memory() < 1.25 * 192 * MIB + 150 * MIB
    assert node.open_files() < 300
    assert node.stop() == 0
