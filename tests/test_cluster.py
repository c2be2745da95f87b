"""Nodes of a cluster as processes of their own: killed, stopped, started again, with TLS, and shown by the command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import Bucket, Node, environment, free_port, stylobate, wait_for
from test_tls import certificate

IDS = ("a", "b", "c")


class Cluster:
    """Three nodes over one folder, each with its own peer door."""

    def __init__(self, folder: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        (folder / "lake").mkdir()
        self.folder, self.flags = folder, flags
        self.ports = {id: free_port() for id in IDS}
        self.env = {
            "STYLOBATE_CLUSTER_NODES": ";".join(f"{id}=127.0.0.1:{port}" for id, port in self.ports.items()),
            "STYLOBATE_CLUSTER_SECRET": "the secret of a cluster",
            "STYLOBATE_TICKET_SECRET": "the secret of tickets",
        } | (env or {})
        self.nodes: dict[str, Node] = {}
        for id in IDS:
            self.start(id)

    def start(self, id: str) -> None:
        own = {"STYLOBATE_CLUSTER_ID": id, "STYLOBATE_CLUSTER_LISTEN": f"127.0.0.1:{self.ports[id]}"}
        buckets = [Bucket("lake", str(self.folder / "lake"))]
        flags = ["--drain-timeout", "3s", *self.flags]
        self.nodes[id] = Node(self.folder / id, buckets, *flags, env=self.env | own)

    def status(self, id: str) -> dict[str, Any]:
        """What `stylobate cluster status` says of the cluster as a node sees it."""
        return json.loads(self.command(id, "--json"))

    def command(self, id: str, *flags: str) -> str:
        command = [str(stylobate()), "cluster", "status", "--url", self.nodes[id].admin, *flags]
        env = environment(**{name: text for name, text in self.env.items() if name == "SSL_CERT_FILE"})
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def states(self, id: str) -> dict[str, str]:
        return {node["id"]: node["state"] for node in self.status(id)["nodes"]}

    def wait(self, observer: str, id: str, state: str) -> None:
        wait_for(f"{id} to be {state}", lambda: self.states(observer)[id] == state)

    def wait_for_all(self) -> None:
        def agree() -> bool:
            nodes = [node for id in IDS for node in self.status(id)["nodes"]]
            return all(node["state"] == "up" and node["answers"] and node["same_view"] for node in nodes)

        wait_for("all nodes to see each other", agree)

    def stop(self) -> None:
        for node in self.nodes.values():
            if node.running():
                node.kill()


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    clusters = []

    def start(*flags: str, **more: Any) -> Cluster:
        clusters.append(Cluster(tmp_path, *flags, **more))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.stop()


def test_a_killed_node_is_down_and_a_stopped_one_says_so_before(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster()
    cluster.wait_for_all()
    table = cluster.command("a")
    assert table.startswith("3 nodes, as a sees them; nodes from configuration; view ")
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["node", "a", "b", "c"]

    cluster.nodes["c"].kill()
    cluster.wait("a", "c", "down")
    cluster.wait("b", "c", "down")
    assert cluster.nodes["a"].ask("GET", "/readyz").status == 200
    cluster.start("c")
    cluster.wait_for_all()

    cluster.nodes["b"].process.terminate()
    cluster.wait("a", "b", "draining")
    assert cluster.nodes["b"].end() == 0
    cluster.wait("a", "b", "down")
    log = cluster.nodes["a"].log()
    for line in ("node c is down and was up: ", "node c is up and was down", "node b is draining and was up"):
        assert line in log, log


def test_peers_reach_each_other_by_tls(start_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "peers", is_authority=False)
    flags = ("--tls-certificate", str(cert), "--tls-key", str(key))
    cluster = start_cluster(*flags, env={"SSL_CERT_FILE": str(cert)})
    cluster.wait_for_all()


def test_a_cluster_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    env = environment(STYLOBATE_CLUSTER_NODES="a=127.0.0.1:1", STYLOBATE_CLUSTER_ID="a")
    ran = subprocess.run([str(stylobate()), "serve"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "a cluster needs a secret that all its nodes share" in ran.stderr
