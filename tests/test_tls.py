"""TLS at all doors of a node, and reloading at run time: certificates, access keys, rules of buckets."""

from __future__ import annotations

import datetime
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pyarrow.flight as fl
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from servers import AccessKey, Bucket, Node, s3_client, wait_for

KEY = AccessKey("tls-id", "tls-secret-5c2a", write=True)


def certificate(folder: Path, name: str, is_authority: bool = True) -> tuple[Path, Path]:
    """Creates a self-signed certificate for 127.0.0.1 and origin.internal, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("origin.internal")]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)

    files = folder / f"{name}.crt", folder / f"{name}.key"
    files[0].write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def client(node: Node, cert: Path, key: AccessKey = KEY) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=node.endpoint,
        aws_access_key_id=key.id,
        aws_secret_access_key=key.secret,
        region_name="us-east-1",
        verify=str(cert),
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def shown(node: Node) -> bytes:
    """Returns the certificate that the S3 door presents."""
    return ssl.get_server_certificate(("127.0.0.1", node.port)).encode()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return certificate(tmp_path, "first")


@pytest.fixture
def node(start_in: Callable[..., Node], files: tuple[Path, Path]) -> Node:
    cert, key = files
    return start_in("--tls-certificate", str(cert), "--tls-key", str(key), "--tls-min-version", "1.3")


@pytest.fixture
def start_in(tmp_path: Path) -> Any:
    """Starts nodes over a folder `lake`, and stops them."""
    nodes = []

    def start(*flags: str) -> Node:
        (tmp_path / "lake").mkdir()
        nodes.append(Node(tmp_path, [Bucket("lake", str(tmp_path / "lake"))], *flags, keys=[KEY]))
        return nodes[-1]

    yield start
    for node in nodes:
        assert node.stop() == 0


def test_all_doors_speak_tls(node: Node, files: tuple[Path, Path]) -> None:
    assert node.endpoint.startswith("https://")
    assert node.admin.startswith("https://")
    assert node.flight.startswith("grpc+tls://")

    cert, _ = files
    s3 = client(node, cert)
    body = b"x" * (9 << 20)
    s3.put_object(Bucket="lake", Key="a", Body=body)
    assert s3.get_object(Bucket="lake", Key="a")["Body"].read() == body
    with pytest.raises(SSLError):
        boto3.client("s3", endpoint_url=node.endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b").list_buckets()

    options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {KEY.secret}".encode())])
    with fl.connect(node.flight, tls_root_certs=cert.read_bytes()) as flight:
        assert list(flight.list_flights(options=options)) == []

    old = ssl.create_default_context(cafile=str(cert))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError), socket.create_connection(("127.0.0.1", node.port)) as plain:
        old.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_certificate_is_read_again_when_it_changes_and_on_sighup(
    node: Node, files: tuple[Path, Path], tmp_path: Path
) -> None:
    before = shown(node)
    for name, tells in [("second", False), ("third", True)]:
        for new, old in zip(certificate(tmp_path, name), files, strict=True):
            new.replace(old)
        if tells:
            node.process.send_signal(signal.SIGHUP)
        wait_for("the new certificate", lambda: shown(node) != before, timeout=30)
        before = shown(node)

    files[0].write_text("no certificate")
    node.process.send_signal(signal.SIGHUP)
    wait_for("the refusal", lambda: "certificate cannot be used" in node.log())
    assert shown(node) == before


def test_keys_and_rules_are_read_again_on_sighup(start_in: Callable[..., Node], tmp_path: Path) -> None:
    node = start_in()
    node.s3.put_object(Bucket="lake", Key="a", Body=b"x")

    changed = AccessKey(KEY.id, "another-secret-91b3", write=True)
    added = AccessKey("reader", "reader-secret-0d44")
    bucket = Bucket("lake", str(tmp_path / "lake"), read_only=True)
    config = tmp_path / "node.toml"
    config.write_text("\n".join(part.toml() for part in [bucket, changed, added]) + "\n")
    node.process.send_signal(signal.SIGHUP)
    wait_for("the new keys", lambda: "were read again" in node.log())

    with pytest.raises(ClientError) as refused:
        node.s3.get_object(Bucket="lake", Key="a")
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    for key in [changed, added]:
        s3 = s3_client(node.endpoint, key.id, key.secret)
        assert s3.get_object(Bucket="lake", Key="a")["Body"].read() == b"x"
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket="lake", Key="a", Body=b"y")
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403

    config.write_text("[[bucket]]\nurl = 7\n")
    node.process.send_signal(signal.SIGHUP)
    wait_for("the refusal", lambda: "the previous one stays in use" in node.log())
    assert s3_client(node.endpoint, added.id, added.secret).get_object(Bucket="lake", Key="a")["ContentLength"] == 1


def test_a_service_manager_is_told_when_the_node_is_ready(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(30)
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    node = Node(tmp_path, [Bucket("lake", str(tmp_path / "lake"))], env=env)
    assert listener.recv(100) == b"READY=1"
    node.process.send_signal(signal.SIGHUP)
    assert listener.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    assert listener.recv(100) == b"READY=1"
    assert node.stop() == 0
    assert listener.recv(100) == b"STOPPING=1"


def test_requests_are_logged_if_that_is_wanted(start_in: Callable[..., Node]) -> None:
    node = start_in("--access-log", "--log-format", "json")
    node.s3.put_object(Bucket="lake", Key="a b", Body=b"x")
    node.s3.get_object(Bucket="lake", Key="a b")["Body"].read()
    wait_for("the log", lambda: "GetObject" in node.log())
    line = next(line for line in node.log().splitlines() if "GetObject" in line)
    for part in ["stylobate::access", '"path":"/lake/a%20b"', '"status":200', f'"access_key":"{KEY.id}"', "127.0.0.1"]:
        assert part in line, line
    assert KEY.secret not in node.log()
