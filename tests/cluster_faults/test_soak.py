"""A cluster under long load, in front of a flaky origin: killed every minute, restarted in turn, with too little memory
and disk for its data, and with objects that change at the origin. No wrong byte, none outdated, and nothing grows.

Everything runs on loopback addresses. Clients of all kinds read and write through a balancer, with their default
retries.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from faulty_cluster import IDS, RULE_S, FaultyCluster, kill_a_node, restart_all_in_turn
from flaky_origin import FlakyOrigin
from history import History, RoundResult
from load import Load, balancer, put_tables
from load_client import ABSENT, FIXED_BUCKET, HOT_OBJECTS, MOVING_BUCKET, ROWS_OF_VERSION, table_of_version
from loopback import Loopback
from node_sampler import NodeSampler
from numbered_content import content
from proxy import Proxy
from servers import Node, Origin

MIB = 1 << 20
SECONDS = 60 * float(os.environ.get("STYLOBATE_SOAK_MINUTES", "0"))
# A node is killed in each round, and all are restarted in every fifth; more often in a short run.
ROUND_S = min(60.0, SECONDS / 4)
ROUNDS_PER_RESTART = 5 if SECONDS >= 600 else 2
# In a shorter run, memory grows as caches fill.
MIN_FLAT_S = 600
OVERWRITE_EVERY_S = (0.3, 1.5)
# The overwriter's versions begin here; those of clients stay below.
FIRST_OVERWRITE = 1 << 24

MEMORY, DISK = 128 * MIB, 128 * MIB
KINDS = {"boto3": 2, "objects": 1, "writer": 1, "pyarrow": 1, "data set": 1, "DuckDB": 1, "Polars": 1}
# Larger than the memory and disk of all nodes together. The last objects have two stripes.
FIXED = {f"fixed/{n}": 8 * MIB + n for n in range(112)} | {f"fixed/large-{n}": 72 * MIB + n for n in range(2)}
MOVING = {f"moving/{n}": [300_000, 2 * MIB + 1, 3 * MIB][n % 3] for n in range(24)}
HOT = list(MOVING)[:HOT_OBJECTS]
OWN = {f"own/{n}": [20_000, 300_000, 5 * MIB + 1, 11 * MIB][n % 4] for n in range(8)}
MOVING_TABLES = [f"moving-tables/{n}.parquet" for n in range(2)]
TABLES = 4
# Log lines after which nodes may be stale for the time of the rule.
VIEW_CHANGED = re.compile(r"cluster: node \S+ (joined|is \w+ and was)|peers? not told of ")


class Overwriter:
    """Replaces and deletes objects at the origin, past all nodes."""

    def __init__(self, origin: Origin, proxy: Proxy, history: History) -> None:
        self.origin, self.proxy, self.history = origin, proxy, history
        self.rng = random.Random("overwriter")
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        assert not self.failed, self.failed

    def _run(self) -> None:
        version = FIRST_OVERWRITE
        while not self._stopped.wait(self.rng.uniform(*OVERWRITE_EVERY_S)):
            version += 1
            try:
                keys = self.rng.choice([list(MOVING), HOT, MOVING_TABLES, list(OWN)])
                self._change(self.rng.choice(keys), version)
            except Exception as error:  # noqa: BLE001
                self.failed.append(f"{type(error).__name__}: {error}")
                return

    def _change(self, key: str, version: int) -> None:
        named = {"Bucket": MOVING_BUCKET, "Key": key}
        if key in OWN:
            with self.proxy.key_lock(f"/{MOVING_BUCKET}/{key}"):
                began = time.monotonic()
                self.origin.s3.delete_object(**named)
                self.history.note(key, ABSENT, began)
            self.done["objects deleted"] += 1
            return

        is_table = key in MOVING_TABLES
        body = parquet_of_version(version) if is_table else content(key, version, 0, MOVING[key])
        with self.proxy.key_lock(f"/{MOVING_BUCKET}/{key}"):
            began = time.monotonic()
            self.origin.s3.put_object(**named, Body=body)
            self.history.note(key, version, began)
        self.done["tables replaced" if is_table else "objects replaced"] += 1


def parquet_of_version(version: int) -> bytes:
    into = io.BytesIO()
    pq.write_table(table_of_version(version), into, row_group_size=ROWS_OF_VERSION // 4)
    return into.getvalue()


class Logs:
    """The log lines of nodes from a moment on."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self.paths = [cluster.folder / id / "node.log" for id in IDS]
        self.sizes = [path.stat().st_size for path in self.paths]

    def view_changed(self) -> bool:
        for path, size in zip(self.paths, self.sizes, strict=True):
            with path.open("rb") as file:
                file.seek(size)
                if VIEW_CHANGED.search(file.read().decode(errors="replace")):
                    return True
        return False


class Report:
    """All results, round by round."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.done: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.too_old: list[str] = []
        self.found: dict[str, Any] = {}

    def add(self, result: RoundResult) -> None:
        self.done.update(result.done)
        for text in result.errors:
            self.errors[re.sub(r"\d+", "N", " ".join(text.split())[:200])] += 1
        self.totals["bodies read again"] += result.again
        self.totals["reads stale within the rule"] += result.stale
        self.totals["reads of an earlier version than a former read, within the rule"] += result.back
        self.wrong += result.wrong
        self.too_old += result.too_old

    def publish(self) -> None:
        """Prints the report, and writes it to the file that the environment names."""
        self.found |= {
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            "requests": dict(self.done),
            "errors": dict(self.errors),
            "wrong": self.wrong[:100],
            "too_old": self.too_old[:100],
            "events": dict(self.events),
            "reads": dict(self.totals),
        }
        print("report:")
        for name, value in self.found.items():
            print(f"  {name.replace('_', ' ')}: {json.dumps(value)}", flush=True)
        if path := os.environ.get("STYLOBATE_SOAK_REPORT"):
            Path(path).write_text(json.dumps(self.found, indent=2) + "\n")

    def check(self) -> None:
        for name, found in (("wrong bytes", self.wrong), ("too old", self.too_old), ("errors", list(self.errors))):
            assert not found, "\n".join([f"{name}:", *found[:10]])


@pytest.fixture
def flaky(tmp_path: Path) -> Iterator[tuple[Origin, FlakyOrigin]]:
    """An S3 server, and the fault injector in front of it."""
    server = Origin(tmp_path / "origin", tmp_path / "origin.log")
    try:
        for name in (FIXED_BUCKET, MOVING_BUCKET):
            server.bucket(name)
        with Proxy(server.port, server.root) as proxy:
            yield server, FlakyOrigin(proxy, "faults")
    finally:
        server.kill()


@pytest.fixture
def cluster(tmp_path: Path, flaky: tuple[Origin, FlakyOrigin]) -> Iterator[FaultyCluster]:
    made = FaultyCluster(tmp_path, Loopback(), flaky[1].proxy, MEMORY, DISK, has_flight=True)
    try:
        yield made
    finally:
        made.kill()


def put_objects(origin: Origin) -> None:
    for key, size in FIXED.items():
        origin.s3.put_object(Bucket=FIXED_BUCKET, Key=key, Body=content(key, 0, 0, size))
    for key, size in MOVING.items():
        origin.s3.put_object(Bucket=MOVING_BUCKET, Key=key, Body=content(key, 0, 0, size))
    for key in MOVING_TABLES:
        origin.s3.put_object(Bucket=MOVING_BUCKET, Key=key, Body=parquet_of_version(0))


@pytest.mark.soak
@pytest.mark.skipif("STYLOBATE_SOAK_MINUTES" not in os.environ, reason="runs by `make soak`")
def test_a_cluster_under_load_for_long_shows_no_client_what_happens_to_it(
    flaky: tuple[Origin, FlakyOrigin], cluster: FaultyCluster, tmp_path: Path
) -> None:
    origin, faults = flaky
    put_objects(origin)
    tables = put_tables(origin, tmp_path, TABLES)
    history = History(origin.root / MOVING_BUCKET, MOVING, RULE_S, absent=OWN)
    for key in MOVING_TABLES:
        history.begin(key, 0)
    faults.proxy.on_change = history.on_change
    for id in IDS:
        cluster.start(id)
    cluster.wait_until_whole()

    has_package = importlib.util.find_spec("stylobate") is not None
    kinds = KINDS | {"Flight": 1} if has_package else KINDS
    objects = {"fixed": FIXED, "moving": MOVING, "tables": tables, "own": OWN, "moving_tables": MOVING_TABLES}
    report = Report()
    report.found["flight"] = "read" if has_package else "not read: the Python package is not installed"
    overwriter = Overwriter(origin, faults.proxy, history)
    sampler = NodeSampler(cluster)
    try:
        with balancer(tmp_path, cluster.doors) as endpoint, contextlib.ExitStack() as stack:
            load = Load(tmp_path / "clients", endpoint, cluster, kinds, objects)
            stack.callback(load.kill)
            faults.start()
            overwriter.start()
            try:
                disturb(cluster, load, history, report)
                report.found["caches"] = {id: cache_counts(node) for id, node in cluster.nodes.items()}
            finally:
                faults.stop()
                overwriter.stop()
                load.stop()
                report.add(history.judge(load.take()))
    finally:
        sampler.stop()
        report.found |= {
            "overwrites": dict(overwriter.done),
            "origin_faults": dict(faults.injected),
            "origin_requests": faults.proxy.count(),
            "origin_mib": faults.proxy.bytes_out >> 20,
            "max_stale_s": {bucket: round(seconds, 3) for bucket, seconds in history.max_stale_s.items()},
            "nodes": sampler.report(),
        }
        report.publish()

    report.check()
    sampler.check(MEMORY, is_flat=SECONDS >= MIN_FLAT_S)
    for client in load.processes:
        assert report.done[client], f"{client} did nothing: {report.done}"
    cluster.check_at_rest(history)
    for id in IDS:
        cluster.stop(id)
    cluster.check_logs()


def cache_counts(node: Node) -> dict[str, int]:
    """Returns what the cache of a node holds and has done since its process began."""
    cache = node.stats()["cache"]
    sizes = {f"{name}_mib": cache[name] >> 20 for name in ("memory_used", "disk_used", "disk_written")}
    return sizes | {name: cache[name] for name in ("memory_hits", "disk_hits", "misses", "evictions")}


def disturb(cluster: FaultyCluster, load: Load, history: History, report: Report) -> None:
    """Kills and restarts nodes, round by round, until the time is over or a client saw wrong bytes."""
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end and not report.wrong and not report.too_old:
        number += 1
        rng = random.Random(f"round {number}")
        round_end = min(end, time.monotonic() + ROUND_S)
        what = kill_a_node(cluster, rng)
        report.events["kill -9"] += 1
        cluster.wait_until_whole()
        if number % ROUNDS_PER_RESTART == 0:
            what += f", {restart_all_in_turn(cluster, rng)}"
            report.events["rolling restarts"] += 1

        # Once no node remembers anything of the former view, no read is stale until the view changes.
        time.sleep(RULE_S)
        logs, quiet_from = Logs(cluster), time.monotonic()
        time.sleep(max(0.0, round_end - time.monotonic()))
        if logs.view_changed():
            report.events["rounds with a view that changed by itself"] += 1
            quiet_from = math.inf
        result = history.judge(load.take(), quiet_from)
        report.add(result)
        load.check_running()
        rss = {id: node.memory("VmRSS") >> 20 for id, node in cluster.nodes.items()}
        files = {id: node.open_files() for id, node in cluster.nodes.items()}
        print(
            f"round {number}, {what}: {sum(result.done.values())} operations, {len(result.errors)} errors, "
            f"{len(result.wrong)} wrong, {len(result.too_old)} too old, {result.stale} stale within the rule, "
            f"{result.again} bodies read again; MiB {rss}, files {files}",
            flush=True,
        )
