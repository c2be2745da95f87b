"""Packaging around the binary: the Helm chart, the Debian package, the CI workflows. `make test-clients-all` installs
the tools; without them their tests are skipped."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from servers import environment, stylobate, target

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "packaging"))
from dist import Release, pack_debian, pack_tarball  # noqa: E402
from image import Recipe  # noqa: E402

CHART = ROOT / "packaging" / "helm" / "stylobate"
BUCKET = """
[[bucket]]
name = "lake"
url = "s3://my-bucket/warehouse"

[[access_key]]
id = "admin"
secret_file = "/etc/stylobate/secrets/admin"
write = true
"""


def tool(name: str, place: Path) -> Path:
    if not place.is_file():
        pytest.skip(f"no {name}: make test-clients-all installs it")
    return place


@pytest.fixture
def helm() -> Callable[..., str]:
    """Runs helm, whose warnings about linked files are dropped."""
    program = tool("helm", target() / "tools" / "bin" / "helm")

    def run(*arguments: str | Path) -> str:
        ran = subprocess.run([program, *arguments], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def resources(rendered: str) -> dict[str, dict[str, Any]]:
    """Returns the resources of a chart by kind and name."""
    found = [resource for resource in yaml.safe_load_all(rendered) if resource]
    return {f"{resource['kind']}/{resource['metadata']['name']}": resource for resource in found}


def render(helm: Callable[..., str], *settings: str, version: str = "1.31.0") -> dict[str, dict[str, Any]]:
    sets = [part for setting in settings for part in ("--set", setting)]
    return resources(helm("template", "lake", CHART, "--kube-version", version, *sets))


MONITORED = ["serviceMonitor.enabled=true", "prometheusRule.enabled=true", "grafanaDashboard.enabled=true"]
ALONE = ["replicas=1", "cache.disk.enabled=false", "secrets.name=mine"]


@pytest.mark.parametrize("settings", [[], MONITORED, ALONE], ids=["defaults", "monitored", "alone"])
def test_kubernetes_takes_the_chart(helm: Callable[..., str], settings: list[str], tmp_path: Path) -> None:
    validate = tool("kubernetes-validate", Path(sys.executable).parent / "kubernetes-validate")
    helm("lint", "--strict", CHART)
    for version in ("1.27", "1.37"):
        file = tmp_path / f"{version}.yaml"
        file.write_text(yaml.safe_dump_all(render(helm, *settings, version=f"{version}.0").values()))
        checked = subprocess.run([validate, "--strict", "-k", version, file], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_misspelt_value_is_an_error(helm: Callable[..., str]) -> None:
    with pytest.raises(AssertionError, match="'replica' not allowed"):
        render(helm, "replica=3")


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_pod_starts_a_node_with_settings_that_it_knows(
    helm: Callable[..., str], nodes: int, tmp_path: Path
) -> None:
    """Checks the image, its variables, those of the pod, and the mounted files, without Kubernetes."""
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": BUCKET, "replicas": nodes, "cache": {"memory": "2GiB"}}))
    found = resources(helm("template", "lake", CHART, "--kube-version", "1.31.0", "--values", values))
    pod = found["StatefulSet/lake-stylobate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    secrets = found["Secret/lake-stylobate-secrets"]["data"]
    assert pod["enableServiceLinks"] is False

    (tmp_path / "secrets").mkdir()
    for name, secret in secrets.items():
        (tmp_path / "secrets" / name).write_bytes(base64.b64decode(secret))
    config = found["ConfigMap/lake-stylobate"]["data"]["node.toml"]
    file = tmp_path / "node.toml"
    file.write_text(config.replace("/etc/stylobate/secrets", str(tmp_path / "secrets")))

    def value(variable: dict[str, Any]) -> str:
        if "value" in variable:
            return str(variable["value"])
        return base64.b64decode(secrets[variable["valueFrom"]["secretKeyRef"]["key"]]).decode()

    env = Recipe().env | {variable["name"]: value(variable) for variable in container["env"]}
    arguments = [str(file) if part == "/etc/stylobate/node.toml" else part for part in container["args"]]
    command = [stylobate(), *Recipe().command[1:], *arguments, "--print-config"]
    shown = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    for line in ('listen = "0.0.0.0:9000"', 'memory = "2GiB"', 'disk = "/var/cache/stylobate"', 'disk_capacity = "90GiB"'):
        assert line in shown.stdout, shown.stdout
    dns = 'nodes_dns = "lake-stylobate-nodes.default.svc:9003"'
    assert (dns in shown.stdout) == (nodes > 1), shown.stdout

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [str(ports[name]) for name in ("s3", "admin", "flight")] == Recipe().ports
    assert {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")} == {"admin"}
    headless = found["Service/lake-stylobate-nodes"]["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)


def test_a_pod_that_is_stopped_drains_its_node_within_its_time(helm: Callable[..., str], tmp_path: Path) -> None:
    pod = render(helm)["StatefulSet/lake-stylobate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program, *arguments = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == Recipe().command[0]
    secret = tmp_path / "admin"
    secret.write_text("a long secret\n")
    arguments = [part.replace("/etc/stylobate/secrets/admin", str(secret)) for part in arguments]
    # No node listens here: that is a request error, not a command line error.
    arguments += ["--url", "http://127.0.0.1:1"]
    ran = subprocess.run([stylobate(), *arguments], env=environment(), capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stderr.startswith("stylobate: http://127.0.0.1:1: no answer")) == (1, True), ran.stderr

    wait = int(arguments[-3].removeprefix("--wait=").removesuffix("s"))
    timeout = next(part["value"] for part in container["env"] if part["name"] == "STYLOBATE_DRAIN_TIMEOUT")
    assert wait + int(timeout.removesuffix("s")) + 30 <= pod["terminationGracePeriodSeconds"]
    assert "lifecycle" not in render(helm, *ALONE)["StatefulSet/lake-stylobate"]["spec"]["template"]["spec"]["containers"][0]


def test_the_chart_brings_the_alerts_and_the_dashboard(helm: Callable[..., str]) -> None:
    found = render(helm, *MONITORED)
    alerts = yaml.safe_load((ROOT / "packaging" / "prometheus" / "stylobate.yml").read_text())
    assert found["PrometheusRule/lake-stylobate"]["spec"] == alerts
    dashboard = (ROOT / "packaging" / "grafana" / "stylobate.json").read_text()
    assert found["ConfigMap/lake-stylobate-dashboard"]["data"]["stylobate.json"] == dashboard
    (endpoint,) = found["ServiceMonitor/lake-stylobate"]["spec"]["endpoints"]
    (job,) = [rule["replacement"] for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
    (jobs,) = set(re.findall(r'job=~"([^"]+)"', str(alerts)))
    assert re.fullmatch(jobs, job)


def test_the_versions_are_those_of_the_crates() -> None:
    release = Release(target())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (release.version, release.version)
    manifest = (ROOT / "Cargo.toml").read_text()
    assert set(re.findall(r'^stylobate-\w+ = \{ version = "([^"]+)"', manifest, re.MULTILINE)) == {release.version}


@pytest.fixture
def release(tmp_path: Path) -> Release:
    release = Release(tmp_path)
    release.out.mkdir()
    release.logs.mkdir()
    return release


def test_the_debian_package_and_the_tarball_have_what_they_should(release: Release, tmp_path: Path) -> None:
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb")
    program, notices = tmp_path / "program", tmp_path / "notices"
    program.write_bytes(b"a program")
    notices.write_text("licences")
    package = pack_debian(release, program, notices, "aarch64")
    assert package.name == f"stylobate_{release.version}_arm64.deb"

    fields = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, text=True).stdout
    assert "Architecture: arm64\n" in fields
    assert "@" not in fields.replace("@users.noreply", "")
    subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "laid"], check=True)
    laid = tmp_path / "laid"
    assert (laid / "usr/bin/stylobate").stat().st_mode & 0o777 == 0o755
    assert (laid / "etc/stylobate/node.toml").read_bytes() == (ROOT / "packaging/systemd/node.toml").read_bytes()
    assert (laid / "DEBIAN/conffiles").read_text() == "/etc/stylobate/node.toml\n"
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", laid / "DEBIAN" / script], check=True)
        assert (laid / "DEBIAN" / script).stat().st_mode & 0o111
    unit = (laid / "usr/lib/systemd/system/stylobate.service").read_text()
    assert "ExecStart=/usr/bin/stylobate serve --config /etc/stylobate/node.toml" in unit

    with tarfile.open(pack_tarball(release, program, notices, "x86_64")) as tar:
        modes = {entry.name.partition("/")[2]: entry.mode for entry in tar}
    assert modes["stylobate"] == 0o755
    assert {"LICENSE", "THIRD-PARTY-LICENSES.txt", "systemd/node.toml", "systemd/stylobate.service"} <= modes.keys()


def test_the_workflows_are_well_formed() -> None:
    program = tool("actionlint", target() / "tools" / "bin" / "actionlint")
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [workflow.name for workflow in workflows] == ["ci.yml", "release.yml"]
    checked = subprocess.run([program, *workflows], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")
    for workflow in workflows:
        named = re.findall(r"\bmake ([a-z][a-z-]*)", workflow.read_text())
        goals = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(named) <= set(goals), workflow.name
