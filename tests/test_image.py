"""The container image without a container: a root folder laid as packaging/Dockerfile says, and the static binary in it.

`make image` builds the binary, and names it in STYLOBATE_STATIC.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers import ORIGIN_KEY, ORIGIN_SECRET, AccessKey, Bucket, Node, Server, origin_options, s3_client, stylobate, wait_for
from test_tls import certificate

DOCKERFILE = Path(__file__).parent.parent / "packaging" / "Dockerfile"
STATIC = os.environ.get("STYLOBATE_STATIC")
KEY = AccessKey("image-id", "image-secret-a81d", write=True)
MIB = 1 << 20


class Recipe:
    """The last stage of the Dockerfile."""

    def __init__(self) -> None:
        text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
        base, *lines = [line.split(None, 1) for line in text[text.rindex("\nFROM ") :].splitlines() if line.strip()]
        assert base == ["FROM", "scratch"]
        self.copies: list[list[str]] = []
        self.env: dict[str, str] = {}
        self.volumes: list[str] = []
        for instruction, rest in lines:
            if instruction == "COPY":
                self.copies.append(rest.split())
            elif instruction == "ENV":
                self.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            elif instruction == "VOLUME":
                self.volumes += rest.split()
            elif instruction == "USER":
                self.user = rest
            elif instruction == "EXPOSE":
                self.ports = rest.split()
            elif instruction == "ENTRYPOINT":
                self.command = [part.strip(' "') for part in rest.strip("[]").split(",")]
            else:
                raise AssertionError(f"the tests do not know what {instruction} does")

    def lay(self, root: Path, built: dict[str, Path]) -> None:
        """Copies what the image holds, and makes what every container gets: names of hosts, and a place for /proc."""
        for *flags, source, at in self.copies:
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
    """Also those of `docker run` in the comment of the Dockerfile."""
    recipe = Recipe()
    env = recipe.env | {"STYLOBATE_ORIGIN": "lake=s3://my-bucket", "STYLOBATE_ACCESS_KEY": "me:a-long-secret"}
    shown = subprocess.run([stylobate(), *recipe.command[1:], "--print-config"], env=env, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    doors = re.findall(r'^(?:listen|admin|flight) = "0\.0\.0\.0:(\d+)"', shown.stdout, re.MULTILINE)
    assert doors == recipe.ports
    assert re.findall(r'^disk = "(.*)"', shown.stdout, re.MULTILINE) == recipe.volumes


@pytest.fixture
def binary() -> Path:
    if not STATIC or os.geteuid() != 0:
        assert not STATIC, "a root folder of its own needs root's rights"
        pytest.skip("make image builds the static binary")
    return Path(STATIC)


@pytest.fixture
def root(binary: Path, tmp_path: Path) -> Iterator[Path]:
    """The root folder: the image, a folder to serve, and certificates of which one is the origin's."""
    empty = tmp_path / "empty"
    empty.mkdir()
    trusted, _ = certificate(tmp_path, "origin", is_authority=False)
    root = tmp_path / "root"
    built = {"/out/stylobate": binary, "/out/cache": empty, "/etc/ssl/certs/ca-certificates.crt": trusted}
    Recipe().lay(root, built)
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
    """Starts the image with a mounted configuration and a mounted folder, at free ports of loopback."""
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
    """What is in the image; /proc is empty here, since it is mounted for the node alone."""
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
