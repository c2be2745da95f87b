"""Three nodes and room for a fourth, each with its own addresses, in front of one origin; and the faults injected into
them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from history import History
from load_client import ABSENT, FIXED_BUCKET, MOVING_BUCKET, STRICT_BUCKET
from loopback import Loopback
from network import Network
from numbered_content import version_of
from proxy import Proxy
from servers import AccessKey, Bucket, Node, s3_client, wait_for

IDS = ("a", "b", "c")
JOINING = "d"
S3_PORT, ADMIN_PORT, FLIGHT_PORT, PEER_PORT = 9000, 9001, 9002, 9003
# Freshness of the objects that are replaced.
RULE_S = 2.0
DRAIN_TIMEOUT = "2s"
MIB = 1 << 20
SLOW_LINK = "4mbit"
# Seconds that a node is cut off, or slow, and those of a round without a fault.
TROUBLE_S, QUIET_S = 4.0, 4.0
TIMEOUT = 60.0


class FaultyCluster:
    """The nodes, restarted by id on their former disks."""

    def __init__(
        self,
        folder: Path,
        network: Network | Loopback,
        proxy: Proxy,
        memory: int = 192 * MIB,
        disk: int = 1024 * MIB,
        has_flight: bool = False,
    ) -> None:
        self.folder, self.network = folder, network
        self.memory, self.disk, self.has_flight = memory, disk, has_flight
        self.key = AccessKey("cluster-id", "cluster-secret-7c1e", write=True)
        self.auth = {"authorization": f"Bearer {self.key.secret}"}
        self.hosts = {id: network.add(id) for id in (*IDS, JOINING)}
        self.buckets = [
            Bucket.of_origin(proxy.endpoint, FIXED_BUCKET, consistency="immutable"),
            Bucket.of_origin(proxy.endpoint, MOVING_BUCKET, consistency=f"{RULE_S:g}s"),
            Bucket.of_origin(proxy.endpoint, STRICT_BUCKET, at=MOVING_BUCKET, consistency="strict"),
        ]
        self.list = folder / "nodes"
        self.nodes: dict[str, Node] = {}
        self.write_list(IDS)

    @property
    def doors(self) -> list[str]:
        """Returns the S3 doors of all nodes, including one that has not joined."""
        return [f"{host.front}:{S3_PORT}" for host in self.hosts.values()]

    @property
    def flight_doors(self) -> list[str]:
        """Returns the Flight doors of the nodes; none if they are closed."""
        return [f"grpc://{self.hosts[id].front}:{FLIGHT_PORT}" for id in IDS] if self.has_flight else []

    def write_list(self, ids: tuple[str, ...]) -> None:
        """Replaces the list of nodes, which all of them reread every two seconds."""
        lines = [f"{id}={self.hosts[id].back}:{PEER_PORT}\n" for id in ids]
        draft = self.list.with_suffix(".new")
        draft.write_text("".join(lines))
        draft.rename(self.list)

    def start(self, id: str) -> None:
        host = self.hosts[id]
        env = {
            "STYLOBATE_CLUSTER_ID": id,
            "STYLOBATE_CLUSTER_LISTEN": f"{host.back}:{PEER_PORT}",
            "STYLOBATE_CLUSTER_NODES_FILE": str(self.list),
            "STYLOBATE_CLUSTER_SECRET": "the secret of a cluster",
            "STYLOBATE_TICKET_SECRET": "the secret of tickets",
        }
        flags = {
            "--memory": f"{self.memory // MIB}MiB",
            "--disk": f"{self.folder / id / 'cache'}={self.disk // MIB}MiB",
            "--flight": f"{host.front}:{FLIGHT_PORT}" if self.has_flight else "off",
            "--drain-timeout": DRAIN_TIMEOUT,
        }
        self.nodes[id] = Node(
            self.folder / id,
            self.buckets,
            *(part for flag in flags.items() for part in flag),
            keys=[self.key],
            env=env,
            launcher=host.launcher,
            doors=(f"{host.front}:{S3_PORT}", f"{host.front}:{ADMIN_PORT}"),
        )

    def stop(self, id: str) -> None:
        """Stops a node with SIGTERM: it leaves placement, and completes its requests."""
        assert self.nodes[id].stop() == 0, self.nodes[id].log()[-2000:]

    def drain(self, id: str, is_draining: bool) -> None:
        answer = self.nodes[id].ask("POST", "/api/drain", {"draining": is_draining}, self.auth)
        assert answer.status == 200, answer

    def states(self, id: str) -> dict[str, str] | None:
        """Returns the states of all nodes as one of them sees them; `None` if another has a different view or does not
        answer."""
        try:
            answer = self.nodes[id].ask("GET", "/api/cluster", headers=self.auth)
        except OSError:
            return None
        assert answer.status == 200, answer
        nodes: list[dict[str, Any]] = answer.json()["nodes"]
        if not all(node["answers"] and node["same_view"] for node in nodes):
            return None
        return {node["id"]: node["state"] for node in nodes}

    def wait_until_whole(self, ids: tuple[str, ...] = IDS) -> None:
        """Waits until all nodes see exactly each other."""
        up = dict.fromkeys(ids, "up")
        wait_for(f"{ids} to see each other", lambda: all(self.states(id) == up for id in ids), TIMEOUT)

    def kill(self) -> None:
        for node in self.nodes.values():
            if node.running():
                node.kill()

    def check_at_rest(self, history: History) -> None:
        """Checks that each node serves the origin's versions, once the rule's time has passed since the last write."""
        time.sleep(RULE_S)
        for id in IDS:
            s3 = s3_client(f"http://{self.hosts[id].front}:{S3_PORT}", self.key.id, self.key.secret)
            for bucket in (MOVING_BUCKET, STRICT_BUCKET):
                for key in history.numbered:
                    try:
                        data = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                        version = version_of(key, 0, data)
                    except s3.exceptions.NoSuchKey:
                        version = ABSENT
                    assert version == history.states[key][-1].version, (id, bucket, key)

    def check_logs(self) -> None:
        for id in self.nodes:
            log = (self.folder / id / "node.log").read_text(errors="replace")
            assert "panicked at" not in log, log[log.index("panicked at") - 200 :][:2000]


# Faults. Each leaves a cluster that recovers by itself, and returns a description.


def nothing(cluster: FaultyCluster, rng: random.Random) -> str:
    time.sleep(QUIET_S)
    return "nothing"


def kill_a_node(cluster: FaultyCluster, rng: random.Random) -> str:
    id = rng.choice(IDS)
    cluster.nodes[id].kill()
    time.sleep(rng.uniform(0.1, 3.0))
    cluster.start(id)
    return f"kill -9 {id}"


def cut_a_node_off_its_peers(cluster: FaultyCluster, rng: random.Random) -> str:
    id = rng.choice(IDS)
    cluster.network.cut(id, "back")
    time.sleep(TROUBLE_S)
    cluster.network.mend()
    return f"{id} without peers"


def cut_a_node_off(cluster: FaultyCluster, rng: random.Random) -> str:
    id = rng.choice(IDS)
    for link in Network.LINKS:
        cluster.network.cut(id, link)
    time.sleep(TROUBLE_S)
    cluster.network.mend()
    return f"{id} cut off"


def drain_a_node(cluster: FaultyCluster, rng: random.Random) -> str:
    id = rng.choice(IDS)
    cluster.drain(id, True)
    time.sleep(TROUBLE_S)
    cluster.drain(id, False)
    return f"drain {id}"


def stop_a_node(cluster: FaultyCluster, rng: random.Random) -> str:
    id = rng.choice(IDS)
    cluster.stop(id)
    time.sleep(rng.uniform(0.1, 2.0))
    cluster.start(id)
    return f"SIGTERM {id}"


def join_and_leave(cluster: FaultyCluster, rng: random.Random) -> str:
    cluster.write_list((*IDS, JOINING))
    cluster.start(JOINING)
    cluster.wait_until_whole((*IDS, JOINING))
    time.sleep(TROUBLE_S / 2)
    cluster.stop(JOINING)
    cluster.write_list(IDS)
    return f"{JOINING} joins, leaves"


def restart_all_in_turn(cluster: FaultyCluster, rng: random.Random) -> str:
    for id in IDS:
        cluster.stop(id)
        cluster.start(id)
        cluster.wait_until_whole()
    return "rolling restart"


def slow_a_node(cluster: FaultyCluster, rng: random.Random) -> str:
    id = rng.choice(IDS)
    cluster.network.slow(id, "back", SLOW_LINK)
    time.sleep(TROUBLE_S)
    cluster.network.mend()
    return f"{id} slow to peers"


Fault = Callable[[FaultyCluster, random.Random], str]

FAULTS: tuple[Fault, ...] = (
    nothing,
    kill_a_node,
    cut_a_node_off_its_peers,
    drain_a_node,
    slow_a_node,
    join_and_leave,
    cut_a_node_off,
    stop_a_node,
    restart_all_in_turn,
)
