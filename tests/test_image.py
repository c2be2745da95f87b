"""The container image without a container: a root folder built as in packaging/Dockerfile, with the static binary.

`make image` builds the binary; STYLOBATE_STATIC names it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import ORIGIN_KEY, ORIGIN_SECRET, AccessKey, Bucket, Node, Server, origin_options, s3_client, stylobate, wait_for
from test_tls import certificate

sys.path.append(str(Path(__file__).parent.parent / "packaging"))
from image import Recipe, write_image  # noqa: E402

STATIC = os.environ.get("STYLOBATE_STATIC")
KEY = AccessKey("image-id", "image-secret-a81d", write=True)
MIB = 1 << 20


def lay(recipe: Recipe, root: Path, built: dict[str, Path]) -> None:
    """Copies the files of the image, and creates what every container gets: host names, and a mount point for /proc."""
    for *flags, source, at in recipe.copies:
        to = root / at.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if built[source].is_dir():
            shutil.copytree(built[source], to)
        else:
            shutil.copy2(built[source], to)
        for owner in [flag.removeprefix("--chown=") for flag in flags if flag.startswith("--chown=")]:
            os.chown(to, *map(int, owner.split(":")))
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost origin.internal\n")
    (root / "proc").mkdir()


class Image(Node):
    """A node in a root folder of its own, with the environment and the user of the image."""

    def __init__(self, root: Path, log: Path, recipe: Recipe, *flags: str, **env: str) -> None:
        inside = f'mount --bind /proc "$0/proc" && exec chroot --userspec={recipe.user} "$0" "$@"'
        command = ["unshare", "--mount", "sh", "-c", inside, str(root), *recipe.command, *flags]
        Server.__init__(self, command, log, {"PATH": os.environ["PATH"]} | recipe.env | env)
        self.keys = [KEY]
        self.endpoint, self.admin, _ = self._announced()
        self.s3 = s3_client(self.endpoint, KEY.id, KEY.secret)


def test_the_settings_of_the_image_are_known() -> None:
    """Includes the settings of `docker run` in the comment of the Dockerfile."""
    recipe = Recipe()
    env = recipe.env | {"STYLOBATE_ORIGIN": "lake=s3://my-bucket", "STYLOBATE_ACCESS_KEY": "me:a-long-secret"}
    shown = subprocess.run([stylobate(), *recipe.command[1:], "--print-config"], env=env, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    doors = re.findall(r'^(?:listen|admin|flight) = "0\.0\.0\.0:(\d+)"', shown.stdout, re.MULTILINE)
    assert doors == recipe.ports
    assert re.findall(r'^disk = "(.*)"', shown.stdout, re.MULTILINE) == recipe.volumes


def test_the_archive_has_what_the_dockerfile_says(tmp_path: Path) -> None:
    """Each blob matches its digest, the layer has the files with their owners, and nothing depends on the time."""
    program, certificates, cache = tmp_path / "program", tmp_path / "certificates", tmp_path / "cache"
    program.write_bytes(b"a program")
    program.chmod(0o700)
    certificates.write_bytes(b"certificates")
    cache.mkdir()
    built = {"/out/stylobate": program, "/out/cache": cache, "/etc/ssl/certs/ca-certificates.crt": certificates}
    archives = [tmp_path / "one.tar", tmp_path / "two.tar"]
    digests = {
        write_image(archive, built, architecture="aarch64", version="1.2.3", epoch=1_000_000_000)
        for archive in archives
    }
    assert len(digests) == 1
    assert archives[0].read_bytes() == archives[1].read_bytes()

    with tarfile.open(archives[0]) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    blobs = {name.removeprefix("blobs/sha256/"): data for name, data in files.items() if name.startswith("blobs/")}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())

    def blob(described: dict[str, Any]) -> bytes:
        data = blobs[described["digest"].removeprefix("sha256:")]
        assert len(data) == described["size"]
        return data

    (image,) = json.loads(files["index.json"])["manifests"]
    assert {image["digest"]} == digests
    manifest = json.loads(blob(image))
    config = json.loads(blob(manifest["config"]))
    assert (config["architecture"], config["config"]["User"]) == ("arm64", Recipe().user)
    assert config["config"]["Entrypoint"] == Recipe().command
    assert "STYLOBATE_LISTEN=0.0.0.0:9000" in config["config"]["Env"]

    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(layer)), mode="r:gz") as tar:
        entries = {entry.name: (entry.mode, entry.uid, entry.gid, entry.mtime) for entry in tar}
    assert {name: entry for name, entry in entries.items() if entry[0] != 0o755 or entry[1] != 0} == {
        "etc/ssl/certs/ca-certificates.crt": (0o644, 0, 0, 1_000_000_000),
        "var/cache/stylobate": (0o755, 65532, 65532, 1_000_000_000),
    }
    assert entries["usr/bin/stylobate"] == (0o755, 0, 0, 1_000_000_000)


@pytest.fixture
def binary() -> Path:
    if not STATIC or os.geteuid() != 0:
        assert not STATIC, "a root folder of its own needs root's rights"
        pytest.skip("make image builds the static binary")
    return Path(STATIC)


@pytest.fixture
def root(binary: Path, tmp_path: Path) -> Iterator[Path]:
    """The root folder: the image, a folder to serve, and certificates, one of which is the origin's."""
    empty = tmp_path / "empty"
    empty.mkdir()
    trusted, _ = certificate(tmp_path, "origin", is_authority=False)
    root = tmp_path / "root"
    built = {"/out/stylobate": binary, "/out/cache": empty, "/etc/ssl/certs/ca-certificates.crt": trusted}
    lay(Recipe(), root, built)
    for folder in [tmp_path, *tmp_path.parents]:
        folder.chmod(folder.stat().st_mode | 0o055)
    yield root


@pytest.fixture
def tls_origin(root: Path, tmp_path: Path) -> Iterator[Node]:
    """An S3 server that speaks TLS with a certificate that the image trusts."""
    (tmp_path / "far").mkdir()
    files = ["--tls-certificate", str(tmp_path / "origin.crt"), "--tls-key", str(tmp_path / "origin.key")]
    keys = [AccessKey(ORIGIN_KEY, ORIGIN_SECRET, write=True)]
    node = Node(tmp_path / "origin", [Bucket("lake", str(tmp_path / "far"))], *files, keys=keys)
    yield node
    node.kill()


@pytest.fixture
def run(root: Path, tls_origin: Node, tmp_path: Path) -> Iterator[Callable[[], Image]]:
    """Starts the image with a mounted configuration and a mounted folder, on free loopback ports."""
    recipe = Recipe()
    owner = tuple(map(int, recipe.user.split(":")))
    (root / "data").mkdir()
    os.chown(root / "data", *owner)
    far = origin_options(f"https://origin.internal:{tls_origin.port}")
    buckets = [Bucket("near", "/data"), Bucket("far", "s3://lake", far)]
    config = root / "etc" / "stylobate" / "node.toml"
    config.parent.mkdir()
    config.write_text("\n".join(part.toml() for part in [*buckets, KEY]) + "\n")
    doors = {f"STYLOBATE_{door}": "127.0.0.1:0" for door in ("LISTEN", "ADMIN", "FLIGHT")}
    nodes: list[Image] = []

    def start() -> Image:
        nodes.append(Image(root, tmp_path / "image.log", recipe, "--config", "/etc/stylobate/node.toml", **doors))
        return nodes[-1]

    yield start
    for node in nodes:
        if node.running():
            node.kill()


def files(root: Path) -> set[str]:
    """Returns the files of the image; /proc is empty here, since it is mounted for the node alone."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_the_binary_needs_no_library(binary: Path) -> None:
    read = ["readelf", "--wide", "--program-headers", "--dynamic", str(binary)]
    headers = subprocess.run(read, check=True, capture_output=True, text=True).stdout
    assert "LOAD" in headers
    assert "INTERP" not in headers
    assert "(NEEDED)" not in headers
    told = subprocess.run(["ldd", str(binary)], capture_output=True, text=True)
    assert re.search("statically linked|not a dynamic executable", told.stdout + told.stderr)


def test_a_node_of_the_image_serves_a_folder_and_an_origin_over_tls(run: Callable[[], Image], root: Path, tls_origin: Node) -> None:
    node = run()
    wait_for("the node", lambda: node.ask("GET", "/readyz").status == 200)
    before = files(root)
    body = os.urandom(3 * MIB)
    for bucket in ("near", "far"):
        node.s3.put_object(Bucket=bucket, Key="a b/c", Body=body)
        for _ in range(2):
            assert node.s3.get_object(Bucket=bucket, Key="a b/c")["Body"].read() == body
    assert (root / "data" / "a b" / "c").read_bytes() == body

    uid, gid = Recipe().user.split(":")
    status = Path(f"/proc/{node.pid}/status").read_text()
    for name, value in {"Uid": uid, "Gid": gid}.items():
        assert re.search(rf"^{name}:(\t{value}){{4}}$", status, re.MULTILINE), status
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE), status
    assert node.stop() == 0

    volumes = tuple(volume.lstrip("/") for volume in [*Recipe().volumes, "/data"])
    assert [path for path in files(root) - before if not path.startswith(volumes)] == []


def test_the_volume_outlives_the_container(run: Callable[[], Image], tls_origin: Node) -> None:
    body = os.urandom(3 * MIB)
    node = run()
    node.s3.put_object(Bucket="far", Key="kept", Body=body)
    assert node.s3.get_object(Bucket="far", Key="kept")["Body"].read() == body
    assert node.stop() == 0
    node = run()
    assert node.s3.get_object(Bucket="far", Key="kept")["Body"].read() == body
    assert node.stats()["bytes"]["disk"] == len(body)
    assert node.stop() == 0


def test_an_image_without_a_key_says_that_it_needs_one(root: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"exit code 2.*key"):
        Image(root, tmp_path / "image.log", Recipe(), STYLOBATE_ORIGIN="lake=/var/cache")
