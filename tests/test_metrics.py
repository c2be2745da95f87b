"""The metrics of a node that has served, refused and failed: both of their formats, read by Prometheus' own tools."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.flight as fl
import pytest
from botocore.exceptions import ClientError
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from proxy import Proxy
from servers import Bucket, Node, Origin, request, target

PROMTOOL = target() / "tools" / "debian" / "prometheus" / "usr" / "bin" / "promtool"
MIB = 1 << 20


@pytest.fixture
def used(start: Callable[..., Node], proxy: Proxy, origin: Origin, tmp_path: Path, prefix: str) -> Node:
    """A node with a bucket of each kind and a disk tier, after requests that it answered, refused and could not answer."""
    (tmp_path / "folder").mkdir()
    buckets = [Bucket.of_origin(proxy.endpoint, "lake"), Bucket("folder", str(tmp_path / "folder"))]
    disk = ["--disk", f"{tmp_path / 'disk'}=64MiB"]
    node = start([*buckets, Bucket("sealed", str(tmp_path / "folder"), read_only=True)], "--attempts", "1", *disk)
    for bucket in ("lake", "folder"):
        use(node.s3, bucket, prefix)
    refused(node.s3.put_object, Bucket="sealed", Key=prefix + "a", Body=b"x")
    for path in ("/no-such-bucket/a", "/%22odd%5C%0A%22/a", "/lake/%FF"):
        assert 400 <= request(node.endpoint, "GET", path).status < 500
    with fl.connect(node.flight) as flight:
        list(flight.list_flights())
        with pytest.raises(KeyError):
            flight.get_flight_info(fl.FlightDescriptor.for_path("lake", prefix + "missing.parquet"))

    proxy.down = True
    try:
        refused(node.s3.get_object, Bucket="lake", Key=prefix + "never-read")
        assert node.ask("GET", "/readyz").status == 503
    finally:
        proxy.down = False
    return node


def use(s3: Any, bucket: str, prefix: str) -> None:
    """Requests of each kind, and errors among them."""
    for name in "ab":
        s3.put_object(Bucket=bucket, Key=prefix + name, Body=b"x" * 2 * MIB)
    for _ in range(3):
        s3.get_object(Bucket=bucket, Key=prefix + "a")["Body"].read()
    s3.get_object(Bucket=bucket, Key=prefix + "a", Range="bytes=9-99")["Body"].read()
    s3.head_object(Bucket=bucket, Key=prefix + "a")
    s3.copy_object(Bucket=bucket, Key=prefix + "c", CopySource={"Bucket": bucket, "Key": prefix + "a"})
    s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
    s3.delete_object(Bucket=bucket, Key=prefix + "b")
    upload = s3.create_multipart_upload(Bucket=bucket, Key=prefix + "d")["UploadId"]
    s3.abort_multipart_upload(Bucket=bucket, Key=prefix + "d", UploadId=upload)
    refused(s3.get_object, Bucket=bucket, Key=prefix + "missing")
    refused(s3.get_object, Bucket=bucket, Key=prefix + "a", Range="bytes=99999999-")
    refused(s3.get_object, Bucket=bucket, Key=prefix + "a", IfMatch='"other"')


def refused(call: Callable[..., Any], **arguments: Any) -> None:
    with pytest.raises(ClientError):
        call(**arguments)


def scrape(node: Node, accept: str) -> str:
    answer = node.ask("GET", "/metrics", headers={"accept": accept})
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, accept)
    return answer.body.decode()


def samples(families: Iterable[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Each sample by its name and labels, of which there is one only."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def test_prometheus_finds_no_fault_with_the_metrics(used: Node) -> None:
    if not PROMTOOL.is_file():
        pytest.skip("no promtool: make test-clients-all unpacks it")
    text = scrape(used, "text/plain")
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_both_formats_tell_the_same(used: Node) -> None:
    text = list(parse_text(scrape(used, "text/plain")))
    openmetrics = list(parse_openmetrics(scrape(used, "application/openmetrics-text")))
    names = [family.name for family in openmetrics]
    assert len(set(names)) == len(names)
    assert {(family.name, family.type) for family in text} == {(family.name, family.type) for family in openmetrics}
    assert all(family.documentation for family in openmetrics)
    one, other = samples(text), samples(openmetrics)
    assert one.keys() == other.keys()
    assert len(one) > 100
    assert all(value >= 0 and math.isfinite(value) for value in one.values())


def test_the_names_of_strangers_are_no_labels(used: Node) -> None:
    """Anyone could fill the memory of the node, and of Prometheus, with names of buckets that do not exist."""
    for n in range(50):
        assert request(used.endpoint, "GET", f"/stranger-{n}/a").status == 404
    assert "stranger" not in scrape(used, "text/plain")
