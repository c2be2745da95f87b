"""Three nodes that are killed, cut off, drained, joined, restarted and slowed under load: no client notices.

boto3, pyarrow and DuckDB read and write through a balancer, with their default retries. Each byte identifies its
version, and the origin's proxy knows which versions the origin had and when.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faulty_cluster import FAULTS, IDS, RULE_S, FaultyCluster, nothing
from history import History
from load import Load, balancer, put_tables
from load_client import FIXED_BUCKET, MOVING_BUCKET
from network import Network, unavailable
from numbered_content import content, version_of
from proxy import Proxy
from servers import Origin

MIB = 1 << 20
ROUNDS = int(os.environ.get("STYLOBATE_FAULT_ROUNDS", "20"))
ORIGIN_DELAY_S = 0.01
# Seconds of load before each fault. After it, the load continues for as long as responses may be stale.
LEAD_S = 1.0
KINDS = {"boto3": 2, "pyarrow": 1, "DuckDB": 1, "writer": 1}

# The largest has two stripes.
FIXED = {f"fixed/{n}": 4 * MIB + n for n in range(11)} | {"fixed/large": 72 * MIB + 11}
MOVING = {f"moving/{n}": [300_000, 2 * MIB + 1, 3 * MIB][n % 3] for n in range(24)}
TABLES = 3


@pytest.fixture
def network() -> Iterator[Network]:
    if reason := unavailable():
        pytest.skip(reason)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # By default, SIGTERM would leave nodes and namespaces behind.
    before = signal.signal(signal.SIGTERM, interrupt)
    made = Network()
    try:
        yield made
    finally:
        made.remove()
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def origin_of_cluster(tmp_path: Path, network: Network) -> Iterator[tuple[Origin, Proxy]]:
    """An S3 server, and a proxy in front of it that the namespaces can reach."""
    server = Origin(tmp_path / "origin", tmp_path / "origin.log")
    try:
        for name in (FIXED_BUCKET, MOVING_BUCKET):
            server.bucket(name)
        with Proxy(server.port, server.root, network.address) as proxy:
            proxy.delay_s = ORIGIN_DELAY_S
            yield server, proxy
    finally:
        server.kill()


@pytest.fixture
def cluster(tmp_path: Path, network: Network, origin_of_cluster: tuple[Origin, Proxy]) -> Iterator[FaultyCluster]:
    made = FaultyCluster(tmp_path, network, origin_of_cluster[1])
    try:
        for id in IDS:
            made.start(id)
        made.wait_until_whole()
        yield made
    finally:
        made.kill()


class Traffic:
    """Request and byte counts of the origin."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.by_bucket: Counter[str] = Counter()
        proxy.fault = self._count

    def _count(self, method: str, path: str, _: dict[str, str]) -> None:
        if method == "GET" and path.count("/") > 1:
            self.by_bucket[path.split("/", 2)[1]] += 1

    def totals(self) -> Counter[str]:
        found = Counter({f"GETs of {bucket}": count for bucket, count in self.by_bucket.items()})
        found["HEADs"] = self.proxy.count("HEAD")
        found["PUTs"] = self.proxy.count("PUT")
        found["bytes"] = self.proxy.bytes_out
        return found


def put_objects(origin: Origin) -> None:
    """Puts all objects at the origin."""
    for bucket, objects in ((FIXED_BUCKET, FIXED), (MOVING_BUCKET, MOVING)):
        for key, size in objects.items():
            origin.s3.put_object(Bucket=bucket, Key=key, Body=content(key, 0, 0, size))


def test_no_client_notices_what_happens_to_nodes(
    network: Network, origin_of_cluster: tuple[Origin, Proxy], cluster: FaultyCluster, tmp_path: Path
) -> None:
    origin, proxy = origin_of_cluster
    put_objects(origin)
    tables = put_tables(origin, tmp_path, TABLES)
    history = History(origin.root / MOVING_BUCKET, MOVING, RULE_S)
    proxy.on_change = history.on_change
    traffic = Traffic(proxy)
    warm(cluster, tables)

    total: Counter[str] = Counter()
    with balancer(tmp_path, cluster.doors) as endpoint, contextlib.ExitStack() as stack:
        objects = {"fixed": FIXED, "moving": MOVING, "tables": tables}
        load = Load(tmp_path / "clients", endpoint, cluster, KINDS, objects)
        stack.callback(load.kill)
        time.sleep(LEAD_S)
        for number in range(ROUNDS):
            fault = FAULTS[number % len(FAULTS)]
            before = traffic.totals()
            begun = time.monotonic()
            # After a fault, responses may be stale for the time of the rule.
            time.sleep(LEAD_S)
            quiet_from = time.monotonic() if fault is nothing else math.inf
            what = fault(cluster, random.Random(f"fault {number}"))
            cluster.wait_until_whole()
            time.sleep(RULE_S)

            result = history.judge(load.take(), quiet_from)
            spent = traffic.totals() - before
            operations = " ".join(f"{name}: {count}" for name, count in sorted(result.done.items()))
            print(
                f"round {number + 1:>2}, {what}: {time.monotonic() - begun:.1f} s; {operations}; "
                f"{len(result.errors)} errors, {len(result.wrong)} wrong, {len(result.too_old)} too old, "
                f"{result.stale} stale within the rule, {result.again} bodies read again; origin: "
                f"{spent[f'GETs of {FIXED_BUCKET}']} GETs of fixed and {spent[f'GETs of {MOVING_BUCKET}']} of moving "
                f"objects, {spent['HEADs']} HEADs, {spent['bytes'] / MIB:.1f} MiB",
                flush=True,
            )
            load.check_running()
            result.check(load.processes)
            if number == 0:
                # Everything that does not change was read before, so at least one node has each page.
                assert spent[f"GETs of {FIXED_BUCKET}"] == 0, spent
            total.update(result.done)
        load.stop()
        history.judge(load.take()).check([])

    cluster.check_at_rest(history)
    for id in IDS:
        cluster.stop(id)
    cluster.check_logs()
    print(f"{ROUNDS} rounds, {dict(total)}; origin {dict(traffic.totals())}")


def warm(cluster: FaultyCluster, tables: dict[str, Any]) -> None:
    """Reads everything that does not change through one node."""
    s3 = cluster.nodes[IDS[0]].s3
    for key in (*FIXED, *tables):
        data = s3.get_object(Bucket=FIXED_BUCKET, Key=key)["Body"].read()
        assert key in tables or version_of(key, 0, data) == 0, key
