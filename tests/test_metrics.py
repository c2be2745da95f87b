"""The metrics of a node after successes, refusals and failures: both formats, read by Prometheus' own tools."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.flight as fl
import pytest
import yaml
from botocore.exceptions import ClientError
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from proxy import Proxy
from servers import Bucket, Node, Origin, free_port, request, target

PROMTOOL = target() / "tools" / "debian" / "prometheus" / "usr" / "bin" / "promtool"
PACKAGING = Path(__file__).parent.parent / "packaging"
ALERTS = PACKAGING / "prometheus" / "stylobate.yml"
DASHBOARD = PACKAGING / "grafana" / "stylobate.json"
# Prometheus' own metric, and the labels that it adds to all metrics.
PROMETHEUS, ADDED = {"up"}, {"job", "instance"}
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
    """Sends requests of each kind, including some that fail."""
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
    """Returns each sample by name and labels, which are unique."""
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
    """Otherwise anyone could fill the memory of the node, and of Prometheus, with names of buckets that do not exist."""
    for n in range(50):
        assert request(used.endpoint, "GET", f"/stranger-{n}/a").status == 404
    assert "stranger" not in scrape(used, "text/plain")


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Node]:
    """The only node of a cluster."""
    (tmp_path / "member-folder").mkdir()
    port = free_port()
    env = {
        "STYLOBATE_CLUSTER_ID": "a",
        "STYLOBATE_CLUSTER_LISTEN": f"127.0.0.1:{port}",
        "STYLOBATE_CLUSTER_NODES": f"a=127.0.0.1:{port}",
        "STYLOBATE_CLUSTER_SECRET": "the secret of a cluster",
        "STYLOBATE_TICKET_SECRET": "the secret of tickets",
    }
    node = Node(tmp_path / "member", [Bucket("lake", str(tmp_path / "member-folder"))], env=env)
    yield node
    node.kill()


def queries() -> Iterator[tuple[str, str]]:
    """Yields the queries of the dashboard and of the alerts, each with its location."""
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for asked in panel.get("targets", []):
            yield f"panel {panel['title']}", asked["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["definition"]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_there_are(used: Node, member: Node) -> None:
    families = [family for node in (used, member) for family in parse_text(scrape(node, "text/plain"))]
    endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}
    known = PROMETHEUS | {family.name + ending for family in families for ending in endings[family.type]}
    labels: dict[str, set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        labels.setdefault(sample.name, set()).update(sample.labels)

    asked = list(queries())
    assert len(asked) > 60
    for place, query in asked:
        names = set(re.findall(r"\b(?:stylobate|process)_\w+|\bup\b", query))
        assert names, place
        assert names <= known, f"{place} asks for {sorted(names - known)}"
        for name, matchers in re.findall(r"\b(\w+)\{([^{}]*)\}", query):
            named = set(re.findall(r"(\w+)\s*[=!]~?\"", matchers)) - ADDED
            # A family without samples, such as errors that never occurred, does not show its labels.
            assert named <= labels.get(name, named), f"{place} asks for labels {sorted(named)} of {name}"


def test_each_family_of_the_node_is_on_the_dashboard_or_is_left_out_for_a_reason(used: Node, member: Node) -> None:
    shown = " ".join(query for _, query in queries())
    left_out = {
        # Covered better by other metrics, or useful only in a single scrape.
        "stylobate_cache_memory_used_bytes",  # the holder `pages`
        "stylobate_cache_memory_pages",
        "stylobate_column_entries",
        "stylobate_fetches_in_flight",  # their bytes
        "stylobate_flight_rows",
        "process_virtual_memory_bytes",
        "process_threads",
    }
    families = {family.name for node in (used, member) for family in parse_text(scrape(node, "text/plain"))}
    assert left_out <= families
    assert {name for name in families - left_out if name not in shown} == set()


def test_prometheus_takes_the_alerts_and_they_fire_when_they_should() -> None:
    if not PROMTOOL.is_file():
        pytest.skip("no promtool: make test-clients-all unpacks it")
    for check in (["check", "rules", str(ALERTS)], ["test", "rules", str(ALERTS.with_name("stylobate_test.yml"))]):
        checked = subprocess.run([PROMTOOL, *check], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_prometheus_can_parse_each_query_of_the_dashboard(tmp_path: Path) -> None:
    if not PROMTOOL.is_file():
        pytest.skip("no promtool: make test-clients-all unpacks it")
    asked = [query.replace("$__rate_interval", "5m") for place, query in queries() if place.startswith("panel ")]
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(asked)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run([PROMTOOL, "check", "rules", str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
