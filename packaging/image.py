"""The container image without a container: an OCI archive made of the static binary, as the Dockerfile's last stage says.

The archive is one for `docker load`, `podman load`, `crane push` and `skopeo copy oci-archive:…`. It is the same bytes for
the same binary, certificates and SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shlex
import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

DOCKERFILE = Path(__file__).parent / "Dockerfile"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


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
                raise AssertionError(f"what {instruction} does is not known here")


def write_image(archive: Path, built: dict[str, Path], *, architecture: str, version: str, epoch: int) -> str:
    """Writes the archive, and returns the digest of the image. `built` has the files and folders that the stages before
    the last one leave: an empty folder is a folder of the image."""
    recipe = Recipe()
    layer = layer_of(recipe, built, epoch)
    packed = gzip.compress(layer, mtime=0)
    created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "stylobate",
        "org.opencontainers.image.description": "Caching S3 storage node",
        "org.opencontainers.image.source": "https://github.com/stylobate/stylobate",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
    }
    config = {
        "created": created,
        "architecture": ARCHITECTURES[architecture],
        "os": "linux",
        "config": {
            "User": recipe.user,
            "Env": [f"{name}={value}" for name, value in recipe.env.items()],
            "Entrypoint": recipe.command,
            "ExposedPorts": {f"{port}/tcp": {} for port in recipe.ports},
            "Volumes": {volume: {} for volume in recipe.volumes},
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "packaging/image.py"}],
    }

    blobs: dict[str, bytes] = {}

    def blob(kind: str, data: bytes) -> dict[str, Any]:
        blobs[f"blobs/sha256/{digest(data).removeprefix('sha256:')}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}

    described = blob("config.v1+json", encoded(config))
    layers = [blob("layer.v1.tar+gzip", packed)]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described,
        "layers": layers,
    }
    top = blob("manifest.v1+json", encoded(manifest))
    named = {
        "io.containerd.image.name": f"ghcr.io/stylobate/stylobate:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    platform = {"architecture": ARCHITECTURES[architecture], "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**top, "annotations": named, "platform": platform}],
    }
    paths = [f"blobs/sha256/{part['digest'].removeprefix('sha256:')}" for part in (described, *layers)]
    # What docker load reads before version 25.
    legacy = [{"Config": paths[0], "RepoTags": [f"stylobate:{version}"], "Layers": paths[1:]}]
    files = {"oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": encoded(index)}
    files |= {"manifest.json": encoded(legacy)} | blobs
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            add(tar, name, data, epoch)
    return str(top["digest"])


def layer_of(recipe: Recipe, built: dict[str, Path], epoch: int) -> bytes:
    """The one layer of the image, as an archive."""
    memory = io.BytesIO()
    folders: set[str] = set()
    with tarfile.open(fileobj=memory, mode="w", format=tarfile.USTAR_FORMAT) as tar:

        def folder(path: str, owner: tuple[int, int] = (0, 0)) -> None:
            if path and path not in folders:
                folder(path.rpartition("/")[0])
                folders.add(path)
                entry = tarfile.TarInfo(path)
                entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, epoch
                entry.uid, entry.gid = owner
                tar.addfile(entry)

        for *flags, source, at in recipe.copies:
            owners = [flag.removeprefix("--chown=") for flag in flags if flag.startswith("--chown=")]
            uid, gid = map(int, owners[0].split(":")) if owners else (0, 0)
            path, file = at.strip("/"), built[source]
            folder(path.rpartition("/")[0])
            if file.is_dir():
                folder(path, (uid, gid))
            else:
                add(tar, path, file.read_bytes(), epoch, 0o755 if file.stat().st_mode & 0o111 else 0o644, (uid, gid))
    return memory.getvalue()


def add(
    tar: tarfile.TarFile, name: str, data: bytes, epoch: int, mode: int = 0o644, owner: tuple[int, int] = (0, 0)
) -> None:
    """Adds a file that depends on nothing but its content."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, epoch
    entry.uid, entry.gid = owner
    tar.addfile(entry, io.BytesIO(data))


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
