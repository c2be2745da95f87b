"""The admin door: health, readiness, metrics, statistics, warming and evicting."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy import Proxy
from servers import Bucket, Node, Origin, request, wait_for

MIB = 1 << 20


@pytest.fixture
def own(start: Callable[..., Node], proxy: Proxy) -> Node:
    """A node for one test, whose counters start at zero."""
    return start([Bucket.of_origin(proxy.endpoint, "lake")], "--memory", "256MiB", "--attempts", "1")


def metrics(node: Node) -> dict[str, float]:
    """Returns every sample of the scrape, by name and labels."""
    answer = node.ask("GET", "/metrics", headers={"accept": "application/openmetrics-text"})
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    lines = answer.body.decode().splitlines()
    assert lines[-1] == "# EOF"
    samples = {}
    for line in lines[:-1]:
        if not line.startswith("# "):
            found = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z_]+="[^"\\]*",?)*\})?) (\S+)', line)
            assert found, line
            samples[found[1]] = float(found[2])
        else:
            assert re.match(r"# (HELP|TYPE|UNIT) (stylobate|process)_[a-z_]+ .", line), line
    return samples


def test_metrics_come_in_the_format_that_is_accepted(own: Node) -> None:
    answer = own.ask("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    for name in ["stylobate_build_info", "stylobate_origin_requests_total", "process_resident_memory_bytes"]:
        assert f"# HELP {name} " in text
        assert f"# TYPE {name} " in text
        assert re.search(rf"^{name}[ {{]", text, re.MULTILINE)
    assert "# EOF" not in text
    assert metrics(own)["process_open_fds"] > 5


def test_health_and_readiness(own: Node, proxy: Proxy) -> None:
    assert own.ask("GET", "/healthz").body == b"ok\n"
    assert own.ask("GET", "/readyz").json() == {"ready": True}
    verbose = {"ready": True, "degraded": False, "checks": [{"name": "bucket lake", "ok": True}]}
    assert own.ask("GET", "/readyz?verbose").json() == verbose
    proxy.down = True
    try:
        answer = wait_for("readiness to end", lambda: (a := own.ask("GET", "/readyz")).status == 503 and a)
        assert [failing["bucket"] for failing in answer.json()["failing"]] == ["lake"]
        checks = own.ask("GET", "/readyz?verbose").json()["checks"]
        assert [(check["name"], check["ok"]) for check in checks] == [("bucket lake", False)]
        assert metrics(own)['stylobate_degraded{part="bucket lake"}'] == 1
        assert own.ask("GET", "/healthz").status == 200
    finally:
        proxy.down = False
    wait_for("readiness to come back", lambda: own.ask("GET", "/readyz").status == 200)


def test_what_is_cached_is_served_while_the_origin_is_down(
    start: Callable[..., Node], proxy: Proxy, origin: Origin, prefix: str
) -> None:
    node = start([Bucket.of_origin(proxy.endpoint, "lake", consistency="immutable")], "--memory", "128MiB")
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=b"x" * 2 * MIB)
    assert node.s3.get_object(Bucket="lake", Key=prefix + "a")["Body"].read() == b"x" * 2 * MIB
    proxy.down = True
    try:
        assert node.s3.get_object(Bucket="lake", Key=prefix + "a")["Body"].read() == b"x" * 2 * MIB
    finally:
        proxy.down = False


def test_metrics_and_statistics_tell_the_same(own: Node, origin: Origin, prefix: str) -> None:
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=b"x" * (3 * MIB))
    for _ in range(4):
        own.s3.get_object(Bucket="lake", Key=prefix + "a")["Body"].read()
    samples, stats = metrics(own), own.stats()
    (bucket,) = stats["buckets"]
    get = next(found for found in stats["requests"]["operations"] if found["operation"] == "GetObject")
    assert get["codes"] == {"200": 4}
    assert get["bytes_out"] == 4 * 3 * MIB
    assert stats["bytes"] == {"memory": 9 * MIB, "disk": 0, "origin": 3 * MIB, "passed_through": 0}
    assert math.isclose(stats["hit_ratio"], 0.75)
    assert samples['stylobate_requests_total{bucket="lake",operation="GetObject",code="200"}'] == 4
    assert samples['stylobate_read_bytes_total{bucket="lake",source="memory"}'] == 9 * MIB
    assert samples['stylobate_read_bytes_total{bucket="lake",source="origin"}'] == 3 * MIB
    assert math.isclose(samples['stylobate_hit_ratio{bucket="lake"}'], bucket["hit_ratio"])
    assert not [name for name, value in samples.items() if value < 0 or math.isnan(value)]


def test_a_bucket_that_throttles_is_degraded_and_ready(own: Node, proxy: Proxy, prefix: str) -> None:
    proxy.fault = lambda method, path, query: 503 if path.endswith("/busy") else None
    assert request(own.endpoint, "GET", f"/lake/{prefix}busy").status == 503
    assert metrics(own)['stylobate_degraded{part="bucket lake"}'] == 1
    assert own.ask("GET", "/readyz").status == 200
    assert {"name": "bucket lake", "ok": False, "error": "the origin asks for fewer requests"} in own.ask(
        "GET", "/readyz?verbose"
    ).json()["checks"]


def test_the_status_page_loads_nothing_from_elsewhere(own: Node) -> None:
    answer = own.ask("GET", "/")
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(rb"""(src|href)=["']https?://""", answer.body)


def test_what_is_warmed_is_read_without_the_origin_and_what_is_evicted_is_not(
    own: Node, proxy: Proxy, origin: Origin, prefix: str
) -> None:
    for n in range(5):
        origin.s3.put_object(Bucket="lake", Key=f"{prefix}warm/{n}", Body=b"%d" % n * MIB)
    origin.s3.put_object(Bucket="lake", Key=f"{prefix}cold", Body=b"x" * MIB)
    warm = own.ask("POST", "/api/warm", {"bucket": "lake", "prefix": prefix + "warm/"})
    assert (warm.status, warm.json()) == (200, {"objects": 5, "bytes": 5 * MIB, "failed": 0, "errors": []})
    before = proxy.count("GET")
    for n in range(5):
        assert own.s3.get_object(Bucket="lake", Key=f"{prefix}warm/{n}")["Body"].read() == b"%d" % n * MIB
    assert proxy.count("GET") == before
    evicted = own.ask("POST", "/api/evict", {"bucket": "lake", "prefix": prefix})
    assert (evicted.status, evicted.json()) == (200, {"objects": 5})
    own.s3.get_object(Bucket="lake", Key=f"{prefix}warm/0")["Body"].read()
    assert proxy.count("GET") > before


@pytest.mark.parametrize("odd", ["a%b/", "~x/y#", "[1]/", "a%2Fb/", "sp ace/ü/"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_prefixes_of_any_characters_are_warmed_and_evicted(
    start: Callable[..., Node], origin: Origin, tmp_path: Path, prefix: str, odd: str, is_folder: bool
) -> None:
    kept = Bucket("lake", str(tmp_path)) if is_folder else Bucket.of_origin(origin.endpoint, "lake")
    node = start([kept])
    for name in ("1", "2"):
        node.s3.put_object(Bucket="lake", Key=f"{prefix}{odd}{name}", Body=b"x" * MIB)
    target = {"bucket": "lake", "prefix": prefix + odd}
    warm = node.ask("POST", "/api/warm", target)
    assert warm.json() == {"objects": 2, "bytes": 2 * MIB, "failed": 0, "errors": []}
    assert node.ask("POST", "/api/evict", target).json() == {"objects": 2}
    assert node.ask("POST", "/api/evict", target).json() == {"objects": 0}


@pytest.mark.parametrize("path", ["/api/warm", "/api/evict"])
def test_what_is_posted_is_checked(own: Node, path: str) -> None:
    assert own.ask("POST", path, {"bucket": "desert"}).status == 404
    assert own.ask("POST", path, {"bucket": "lake", "prefx": "a"}).status == 422
    assert own.ask("POST", path, {"bucket": "lake"}, {"content-type": "text/plain"}).status == 415
    assert own.ask("GET", path).status == 405
    assert own.ask("GET", "/no/such/page").status == 404
