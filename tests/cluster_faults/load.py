"""Clients as processes of their own, a balancer between them and the nodes, and the tables that they read."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from faulty_cluster import FaultyCluster
from load_client import CLIENTS, FIXED_BUCKET, table_digest
from servers import REGION, Origin, Server, environment

PAUSE_S = 0.02
QUERY = "SELECT count(*), sum(n), bit_xor(hash(n, text)) FROM read_parquet('{}')"


class Load:
    """The clients, the number of each kind, and their notes."""

    def __init__(
        self, folder: Path, endpoint: str, cluster: FaultyCluster, kinds: dict[str, int], objects: dict[str, Any]
    ) -> None:
        self.notes: dict[str, Path] = {}
        self.read_to: Counter[str] = Counter()
        self.processes: dict[str, Server] = {}
        folder.mkdir()
        assert kinds.keys() <= CLIENTS.keys()
        for kind, count in kinds.items():
            for n in range(count):
                name = f"{kind} {n + 1}" if count > 1 else kind
                self.notes[name] = folder / f"{name.replace(' ', '-')}.notes"
                self.notes[name].touch()
                told = objects | {
                    "kind": kind, "endpoint": endpoint, "key": cluster.key.id, "secret": cluster.key.secret,
                    "region": REGION, "notes": str(self.notes[name]), "seed": name, "pause_s": PAUSE_S,
                    "flight": cluster.flight_doors,
                }  # fmt: skip
                self.processes[name] = Server(self._command(told), folder / "clients.log", self._env())

    @staticmethod
    def _command(told: dict[str, Any]) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("load_client.py")), json.dumps(told)]

    @staticmethod
    def _env() -> dict[str, str]:
        return environment(
            AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull
        )

    def take(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the notes of each client since the last call."""
        found = {}
        for name, path in self.notes.items():
            with path.open("rb") as file:
                file.seek(self.read_to[name])
                whole, newline, _ = file.read().rpartition(b"\n")
            self.read_to[name] += len(whole + newline)
            found[name] = [json.loads(line) for line in whole.splitlines()]
        return found

    def check_running(self) -> None:
        for name, process in self.processes.items():
            assert process.running(), f"{name} ended: {process.log()[-2000:]}"

    def stop(self) -> None:
        """Lets each client finish its current operation."""
        for process in self.processes.values():
            process.process.terminate()
        for name, process in self.processes.items():
            assert process.end() == 0, f"{name}: {process.log()[-2000:]}"

    def kill(self) -> None:
        for process in self.processes.values():
            if process.running():
                process.kill()


@contextlib.contextmanager
def balancer(folder: Path, doors: list[str]) -> Iterator[str]:
    """Starts a balancer in front of all nodes, and yields its endpoint."""
    script = Path(__file__).with_name("balancer.py")
    server = Server([sys.executable, str(script), *doors], folder / "balancer.log", environment())
    try:
        assert server.process.stdout
        port = server.process.stdout.readline()
        assert port, server.log()
        yield f"http://127.0.0.1:{int(port)}"
    finally:
        server.kill()


def put_tables(origin: Origin, folder: Path, count: int) -> dict[str, Any]:
    """Puts Parquet files at the origin. Returns the query of each, its rows, and the digest of the file's rows."""
    tables = {}
    for n in range(count):
        rng = random.Random(n)
        rows = 200_000
        columns = {"n": range(n, n + rows), "text": [f"{rng.getrandbits(128):032x}" for _ in range(rows)]}
        table = pa.table(columns)
        file = folder / f"table-{n}.parquet"
        pq.write_table(table, file, row_group_size=rows // 4)
        origin.s3.put_object(Bucket=FIXED_BUCKET, Key=f"tables/{file.name}", Body=file.read_bytes())
        answer = json.loads(json.dumps(duckdb.sql(QUERY.format(file)).fetchall()))
        tables[f"tables/{file.name}"] = {"query": QUERY, "rows": answer, "digest": table_digest(table)}
    return tables
