"""Nodes of a cluster as processes of their own: killed, stopped, restarted, with TLS, shown by the command, and read
and written by boto3."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servers import Bucket, Node, Origin, environment, free_port, s3_client, stylobate, wait_for
from test_tls import certificate
from test_tls import client as tls_client

IDS = ("a", "b", "c")
MIB = 1 << 20


class Cluster:
    """Three nodes over one bucket, each with its own peer door. The bucket is a folder unless one is given."""

    def __init__(
        self, folder: Path, *flags: str, env: dict[str, str] | None = None, bucket: Bucket | None = None
    ) -> None:
        if bucket is None:
            (folder / "lake").mkdir()
        self.folder, self.flags = folder, flags
        self.bucket = bucket or Bucket("lake", str(folder / "lake"))
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
        flags = ["--drain-timeout", "3s", *self.flags]
        self.nodes[id] = Node(self.folder / id, [self.bucket], *flags, env=self.env | own)

    def status(self, id: str) -> dict[str, Any]:
        """Returns the output of `stylobate cluster status` for the cluster as a node sees it."""
        return json.loads(self.command(id, "--json"))

    def command(self, id: str, *flags: str, verb: str = "status") -> str:
        command = [str(stylobate()), "cluster", verb, "--url", self.nodes[id].admin, *flags]
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

    def read(self, id: str, key: str) -> bytes:
        return self.nodes[id].s3.get_object(Bucket="lake", Key=key)["Body"].read()

    def bytes_from_origin(self) -> int:
        """Returns the bytes that all running nodes received from the origin for reads."""
        reads = [node.reads("lake") for node in self.nodes.values() if node.running()]
        return sum(read["bytes_origin"] + read["bytes_passed_through"] for read in reads)

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


@pytest.fixture
def lake(origin: Origin) -> Bucket:
    """A bucket of the origin, revalidated after an hour."""
    origin.bucket("cluster")
    return Bucket.of_origin(origin.endpoint, "lake", at="cluster", consistency="1h")


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


def test_the_command_drains_a_node_and_takes_it_back(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster()
    cluster.wait_for_all()
    asked = time.monotonic()
    assert cluster.command("b", "--wait", "1s", verb="drain").startswith("node b is draining; view ")
    assert time.monotonic() - asked >= 1
    cluster.wait("a", "b", "draining")
    assert cluster.nodes["b"].ask("GET", "/readyz").status == 200
    assert cluster.command("b", "--undo", verb="drain").startswith("node b is in placement; view ")
    cluster.wait("a", "b", "up")


def test_peers_reach_each_other_by_tls(
    start_cluster: Callable[..., Cluster], origin: Origin, lake: Bucket, tmp_path: Path
) -> None:
    data = os.urandom(150 * MIB)
    origin.s3.put_object(Bucket="cluster", Key="by-tls", Body=data)
    cert, key = certificate(tmp_path, "peers", is_authority=False)
    flags = ("--tls-certificate", str(cert), "--tls-key", str(key), "--memory", "512MiB")
    cluster = start_cluster(*flags, env={"SSL_CERT_FILE": str(cert)}, bucket=lake)
    cluster.wait_for_all()

    for id in IDS:
        read = tls_client(cluster.nodes[id], cert).get_object(Bucket="lake", Key="by-tls")
        assert digest(read["Body"].read()) == digest(data), id
    own = [node for id in IDS for node in cluster.status(id)["nodes"] if node["this"]]
    assert sum(node["traffic"]["bytes_to_peers"] for node in own) > 0


def test_a_cluster_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    env = environment(STYLOBATE_CLUSTER_NODES="a=127.0.0.1:1", STYLOBATE_CLUSTER_ID="a")
    ran = subprocess.run([str(stylobate()), "serve"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "a cluster needs a secret that all its nodes share" in ran.stderr


def test_the_example_starts_three_nodes_and_their_origin(tmp_path: Path) -> None:
    doors = (9000, 9010, 9020)
    for port in (*doors, 9900):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port} is in use")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a").write_bytes(b"an object")

    script = Path(__file__).parents[1] / "examples" / "cluster" / "run.sh"
    with (tmp_path / "log").open("wb") as log:
        command = [str(script), str(tmp_path / "lake")]
        env = environment(STYLOBATE=str(stylobate()))
        example = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert example.stdout
        shown = []
        for line in example.stdout:
            shown.append(line)
            if line.startswith("Ctrl-C"):
                break
        assert "".join(shown).startswith("3 nodes, as a sees them"), (tmp_path / "log").read_text()
        for port in doors:
            read = s3_client(f"http://127.0.0.1:{port}").get_object(Bucket="lake", Key="a")
            assert read["Body"].read() == b"an object", port
    finally:
        example.terminate()
        example.wait(60)
        if example.stdout:
            example.stdout.close()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_large_object_comes_from_the_origin_once_and_from_any_node(
    start_cluster: Callable[..., Cluster], origin: Origin, lake: Bucket
) -> None:
    data = os.urandom(150 * MIB)
    origin.s3.put_object(Bucket="cluster", Key="large", Body=data)
    cluster = start_cluster("--memory", "512MiB", bucket=lake)
    cluster.wait_for_all()
    for id in IDS:
        assert digest(cluster.read(id, "large")) == digest(data), id
    assert cluster.bytes_from_origin() == len(data)
    assert sum(node.reads("lake")["bytes_to_peers"] for node in cluster.nodes.values()) > 0


def test_a_node_that_is_killed_in_the_middle_of_a_read_is_no_error(
    start_cluster: Callable[..., Cluster], origin: Origin, lake: Bucket
) -> None:
    data = os.urandom(150 * MIB)
    origin.s3.put_object(Bucket="cluster", Key="killed", Body=data)
    cluster = start_cluster("--memory", "512MiB", bucket=lake)
    cluster.wait_for_all()

    for reader, victim in (("a", "b"), ("c", "a")):
        body = cluster.nodes[reader].s3.get_object(Bucket="lake", Key="killed")["Body"]
        read = [body.read(5 * MIB)]
        cluster.nodes[victim].kill()
        read.append(body.read())
        assert digest(b"".join(read)) == digest(data), reader
        assert digest(cluster.read(reader, "killed")) == digest(data), reader
        cluster.start(victim)
        cluster.wait_for_all()


def test_a_write_through_one_node_is_seen_through_the_others(
    start_cluster: Callable[..., Cluster], origin: Origin, lake: Bucket
) -> None:
    cluster = start_cluster(bucket=lake)
    cluster.wait_for_all()
    keys = [f"written-{number}" for number in range(6)]

    def check(key: str, data: bytes) -> None:
        for id in IDS:
            assert cluster.read(id, key) == data, f"{key} through {id}"

    for writer in (*IDS, "a"):
        for key in keys:
            data = os.urandom(300_000)
            cluster.nodes[writer].s3.put_object(Bucket="lake", Key=key, Body=data)
            check(key, data)

    source = os.urandom(6 * MIB)
    cluster.nodes["a"].s3.put_object(Bucket="lake", Key="source", Body=source)
    for number, key in enumerate(keys):
        s3 = cluster.nodes[IDS[number % 3]].s3
        s3.copy_object(Bucket="lake", Key=key, CopySource={"Bucket": "lake", "Key": "source"})
        check(key, source)

        upload = s3.create_multipart_upload(Bucket="lake", Key=key)["UploadId"]
        parts = [os.urandom(5 * MIB), os.urandom(1000)]
        sent = []
        for part, body in enumerate(parts, 1):
            named = {"Bucket": "lake", "Key": key, "UploadId": upload, "PartNumber": part}
            sent.append({"PartNumber": part, "ETag": s3.upload_part(**named, Body=body)["ETag"]})
        s3.complete_multipart_upload(Bucket="lake", Key=key, UploadId=upload, MultipartUpload={"Parts": sent})
        check(key, b"".join(parts))

    cluster.nodes["b"].s3.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": key} for key in keys[:5]]})
    cluster.nodes["b"].s3.delete_object(Bucket="lake", Key=keys[5])
    for id in IDS:
        for key in keys:
            with pytest.raises(cluster.nodes[id].s3.exceptions.NoSuchKey):
                cluster.read(id, key)


def test_a_bucket_that_is_deleted_through_one_node_is_gone_through_all(
    start_cluster: Callable[..., Cluster], origin: Origin
) -> None:
    origin.bucket("doomed")
    bucket = Bucket.of_origin(origin.endpoint, "lake", at="doomed", consistency="1h")
    cluster = start_cluster(bucket=bucket)
    cluster.wait_for_all()
    keys = [f"object-{number}" for number in range(6)]
    for key in keys:
        origin.s3.put_object(Bucket="doomed", Key=key, Body=key.encode())
        for id in IDS:
            assert cluster.read(id, key) == key.encode()

    for key in keys:
        origin.s3.delete_object(Bucket="doomed", Key=key)
    cluster.nodes["c"].s3.delete_bucket(Bucket="lake")
    for id in IDS:
        for key in keys:
            with pytest.raises(ClientError, match="NoSuch"):
                cluster.read(id, key)


def test_an_origin_that_is_down_leaves_what_the_rule_still_covers(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    origin = Origin(tmp_path / "origin", tmp_path / "origin.log")
    try:
        origin.bucket("lake")
        kept = os.urandom(3 * MIB)
        origin.s3.put_object(Bucket="lake", Key="kept", Body=kept)
        origin.s3.put_object(Bucket="lake", Key="unread", Body=b"unread")
        bucket = Bucket.of_origin(origin.endpoint, "lake", consistency="1h")
        cluster = start_cluster("--attempts", "1", bucket=bucket)
        cluster.wait_for_all()
        for id in IDS:
            assert cluster.read(id, "kept") == kept
    finally:
        origin.kill()

    for id in IDS:
        assert cluster.read(id, "kept") == kept, id
        with pytest.raises(ClientError) as failed:
            cluster.read(id, "unread")
        assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503, id


def test_a_node_that_starts_again_with_its_disk_has_its_pages_and_asks_for_versions(
    start_cluster: Callable[..., Cluster], origin: Origin, lake: Bucket
) -> None:
    data = {f"disk-{number}": os.urandom(MIB) for number in range(12)}
    for key, content in data.items():
        origin.s3.put_object(Bucket="cluster", Key=key, Body=content)
    # Each node has its own folder.
    cluster = start_cluster("--memory", "256MiB", "--disk", "pages=256MiB", bucket=lake)
    cluster.wait_for_all()

    def fetched(id: str) -> int:
        return cluster.nodes[id].reads("lake")["bytes_origin"]

    own = []
    for key, content in data.items():
        before = fetched("b")
        assert cluster.read("b", key) == content
        own += [key] if fetched("b") > before else []
    assert own, "b is home of some of them"
    assert cluster.bytes_from_origin() == sum(map(len, data.values()))

    cluster.nodes["b"].process.terminate()
    assert cluster.nodes["b"].end() == 0
    replaced = own.pop()
    data[replaced] = os.urandom(MIB)
    origin.s3.put_object(Bucket="cluster", Key=replaced, Body=data[replaced])
    cluster.start("b")
    cluster.wait_for_all()
    for id in ("b", "a"):
        for key in own:
            assert cluster.read(id, key) == data[key], f"{key} through {id}"
    assert fetched("b") == 0, "its pages are on its disk"
    for id in ("b", "a"):
        assert cluster.read(id, replaced) == data[replaced], f"the version is asked for again, through {id}"
