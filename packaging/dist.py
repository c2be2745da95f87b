"""Makes what a release publishes, checks it, and prints a table of it: `make dist`.

For each architecture: a wheel with the library and the command (manylinux_2_28, by maturin with zig), the static binary
(musl), and made of the latter a tarball, a Debian package and a container image. For all of them the Helm chart, the
licences of what is compiled in, a list of components (CycloneDX) and checksums.

An architecture that this machine cannot build is reported with the last line of its log, and is an error only if it is
the machine's own. `--binary FILE` and `--wheel FILE` take what is built already, for the first architecture.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from image import ARCHITECTURES, add, write_image

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MAX_BINARY = 60_000_000
GLIBC = "2.28"
KUBERNETES = "1.31"
# Checks a list of components against the schema of its version.
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
fault = JsonStrictValidator(SchemaVersion.from_version(sys.argv[2])).validate_str(open(sys.argv[1]).read())
sys.exit(fault and str(fault))
"""


@dataclass(frozen=True)
class Artefact:
    """A line of the table: a file, or why there is none."""

    what: str
    file: Path | None
    note: str


class StepFailed(Exception):
    """A step that did not do what it should."""


class Release:
    """One run: where things go, what they are called, and the tools."""

    def __init__(self, target: Path) -> None:
        self.target, self.out, self.logs = target, target / "dist", target / "dist-logs"
        manifest = (ROOT / "Cargo.toml").read_text()
        self.version = re.search(r'^version = "(.+)"', manifest, re.MULTILINE)[1]  # type: ignore[index]
        committed = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or committed.stdout or 0)
        folders = [str(Path(sys.executable).parent), str(target / "tools" / "bin"), os.environ["PATH"]]
        self.env = os.environ | {"PATH": os.pathsep.join(folders), "SOURCE_DATE_EPOCH": str(self.epoch)}

    def run(self, name: str, *command: str | Path) -> str:
        """Runs a tool, and returns what it prints. Its log is kept."""
        log = self.logs / f"{name}.log"
        ran = subprocess.run([str(part) for part in command], cwd=ROOT, env=self.env, capture_output=True, text=True)
        log.write_text(ran.stdout + ran.stderr)
        if ran.returncode != 0:
            lines = [line for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
            raise StepFailed(f"{lines[-1] if lines else f'exit code {ran.returncode}'} ({log})")
        return ran.stdout + ran.stderr


# What is built


def build_wheel(release: Release, arch: str) -> Path:
    """A wheel for each Python from 3.10 on, and for systems with that glibc."""
    target = f"{arch}-unknown-linux-gnu"
    release.run(f"rustup-{target}", "rustup", "target", "add", target)
    folder = release.target / "wheels" / f"dist-{arch}"
    shutil.rmtree(folder, ignore_errors=True)
    release.run(
        f"wheel-{arch}",
        *("maturin", "build", "--profile", "dist", "--locked", "--zig", "--target", target),
        *("--compatibility", f"manylinux_{GLIBC.replace('.', '_')}", "--manifest-path", "python/Cargo.toml"),
        *("--out", folder),
    )
    return next(folder.glob("stylobate-*.whl"))


def build_binary(release: Release, arch: str) -> Path:
    """The static binary: by musl-gcc for this machine, as the Dockerfile has it, and by zig otherwise."""
    target = f"{arch}-unknown-linux-musl"
    release.run(f"rustup-{target}", "rustup", "target", "add", target)
    native = arch == platform.machine() and shutil.which("musl-gcc") is not None
    verb = ("build", "--config", "packaging/static.toml") if native else ("zigbuild",)
    package = ("--package", "stylobate-cli", "--bin", "stylobate", "--features", "distributed")
    selection = ("--profile", "static", "--locked", *package)
    release.run(f"binary-{arch}", "cargo", *verb, *selection, "--target", target)
    return release.target / target / "static" / "stylobate"


# What is checked


def check_wheel(release: Release, wheel: Path, arch: str) -> str:
    """Symbols of the C library, the stable ABI, and, on this machine, a bare environment."""
    shown = release.run(f"auditwheel-{arch}", "auditwheel", "show", wheel)
    audited = release.run(f"abi3audit-{arch}", "abi3audit", "--strict", "--verbose", wheel)
    if "0 ABI violations" not in audited:
        raise StepFailed(f"abi3audit: {audited.strip().splitlines()[-1]}")
    tag = re.search(r'"(manylinux\w+)"', shown)
    notes = [tag[1] if tag else "no manylinux tag", "abi3"]
    if arch == platform.machine():
        with tempfile.TemporaryDirectory() as folder:
            release.run("venv", sys.executable, "-m", "venv", "--without-pip", folder)
            pip = [*working_pip(), "--python", f"{folder}/bin/python", "install", "--quiet", "--no-index"]
            release.run("install", *pip, wheel)
            release.run("import", f"{folder}/bin/python", "-c", "import stylobate; stylobate.Cache(memory='32MiB')")
            printed = release.run("command", f"{folder}/bin/stylobate", "--version")
            if printed != f"stylobate {release.version}\n":
                raise StepFailed(f"the command of the wheel prints {printed!r}")
            release.run("demo", f"{folder}/bin/stylobate", "demo", "--scale", "0.01")
        notes.append("runs without other packages")
    return ", ".join(notes)


def working_pip() -> list[str]:
    """pip of this environment, or of the one that it was made from if this one has none."""
    for python in (sys.executable, f"{sys.base_prefix}/bin/python3"):
        command = [python, "-m", "pip"]
        if subprocess.run([*command, "--version"], capture_output=True).returncode == 0:
            return command
    raise StepFailed("there is no pip to install the wheel with")


def check_binary(release: Release, binary: Path, arch: str) -> str:
    """Size, and that no interpreter of programs is named: the binary needs no library."""
    size = binary.stat().st_size
    if size > MAX_BINARY:
        raise StepFailed(f"it has {size / 1e6:.1f} MB, more than {MAX_BINARY / 1e6:.0f}")
    headers = release.run(f"readelf-{arch}", "readelf", "--wide", "--program-headers", binary)
    if "INTERP" in headers:
        raise StepFailed("it needs shared libraries")
    if arch == platform.machine():
        release.run("binary", binary, "--version")
    return f"static, stripped, {size / 1e6:.1f} MB"


# What is packed


def files_of_tarball(binary: Path, notices: Path) -> Iterator[tuple[str, Path, int]]:
    yield "stylobate", binary, 0o755
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        yield name, ROOT / name, 0o644
    yield "THIRD-PARTY-LICENSES.txt", notices, 0o644
    for name in ("node.toml", "stylobate.service"):
        yield f"systemd/{name}", PACKAGING / "systemd" / name, 0o644
    yield "prometheus/stylobate.yml", PACKAGING / "prometheus" / "stylobate.yml", 0o644
    yield "grafana/stylobate.json", PACKAGING / "grafana" / "stylobate.json", 0o644


def pack_tarball(release: Release, binary: Path, notices: Path, arch: str) -> Path:
    name = f"stylobate-{release.version}-{arch}-linux"
    path = release.out / f"{name}.tar.gz"
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for at, source, mode in files_of_tarball(binary, notices):
                add(tar, f"{name}/{at}", source.read_bytes(), release.epoch, mode)
    return path


def pack_debian(release: Release, binary: Path, notices: Path, arch: str) -> Path:
    """By dpkg-deb, of a folder that is laid here. Its times are those of the last commit."""
    architecture = ARCHITECTURES[arch]
    path = release.out / f"stylobate_{release.version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        doc = root / "usr/share/doc/stylobate"
        laid = [
            (binary, root / "usr/bin/stylobate", 0o755),
            (PACKAGING / "systemd/node.toml", root / "etc/stylobate/node.toml", 0o644),
            (PACKAGING / "systemd/stylobate.service", root / "usr/lib/systemd/system/stylobate.service", 0o644),
            (PACKAGING / "debian/copyright", doc / "copyright", 0o644),
            (PACKAGING / "debian/conffiles", root / "DEBIAN/conffiles", 0o644),
            *((PACKAGING / "debian" / name, root / "DEBIAN" / name, 0o755) for name in ("postinst", "prerm", "postrm")),
        ]
        for source, to, mode in laid:
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to)
            to.chmod(mode)
        for source, name in ((ROOT / "CHANGELOG.md", "CHANGELOG.md.gz"), (notices, "third-party-licenses.gz")):
            (doc / name).write_bytes(gzip.compress(source.read_bytes(), mtime=0))
        size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
        control = (PACKAGING / "debian/control").read_text()
        for name, value in {
            "VERSION": release.version,
            "ARCHITECTURE": architecture,
            "INSTALLED_SIZE": str(-(-size // 1024)),
        }.items():
            control = control.replace(f"@{name}@", value)
        (root / "DEBIAN/control").write_text(control)
        for file in [root, *root.rglob("*")]:
            if file.is_dir():
                file.chmod(0o755)
            os.utime(file, (release.epoch, release.epoch))
        release.run(f"dpkg-deb-{arch}", "dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path)
    return path


def pack_image(release: Release, binary: Path, arch: str) -> tuple[Path, str]:
    path = release.out / f"stylobate-{release.version}-{arch}-image.tar"
    with tempfile.TemporaryDirectory() as empty:
        built = {
            "/out/stylobate": binary,
            "/out/cache": Path(empty),
            "/etc/ssl/certs/ca-certificates.crt": CERTIFICATES,
        }
        found = write_image(path, built, architecture=arch, version=release.version, epoch=release.epoch)
    return path, found


def pack_chart(release: Release) -> tuple[Path, str]:
    chart = PACKAGING / "helm" / "stylobate"
    release.run("helm-lint", "helm", "lint", "--strict", chart)
    rendered = subprocess.run(
        ["helm", "template", "node", chart, "--kube-version", f"{KUBERNETES}.0"], env=release.env, capture_output=True
    )
    file = release.logs / "chart.yaml"
    file.write_bytes(rendered.stdout)
    release.run("kubernetes", "kubernetes-validate", "--strict", "-k", KUBERNETES, file)
    release.run("helm-package", "helm", "package", chart, "--destination", release.out)
    return release.out / f"stylobate-{release.version}.tgz", f"linted, valid for Kubernetes {KUBERNETES}"


def notices_of(release: Release) -> Path:
    """The licence texts of the crates that the command is compiled of: most ask that binaries come with them."""
    tree = ("cargo", "tree", "--package", "stylobate-cli", "--edges", "normal", "--prefix", "none", "--format", "{p}")
    used = {" ".join(line.split()[:2]) for line in release.run("cargo-tree", *tree, "--target", "all").splitlines()}
    described = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"], cwd=ROOT, env=release.env, capture_output=True
    )
    texts: dict[str, list[str]] = {}
    for package in json.loads(described.stdout)["packages"]:
        name = f"{package['name']} {package['version']}"
        if package["source"] is None or f"{package['name']} v{package['version']}" not in used:
            continue
        folder = Path(package["manifest_path"]).parent
        files = [file for file in sorted(folder.iterdir()) if re.match(r"(?i)(licen[cs]e|copying|notice)", file.name)]
        text = "\n".join(file.read_text(errors="replace").strip() for file in files if file.is_file())
        texts.setdefault(text or f"(no text in the crate: {package['license']})", []).append(name)
    path = release.out / f"stylobate-{release.version}-third-party-licenses.txt"
    parts = [f"{', '.join(names)}\n\n{text}\n" for text, names in sorted(texts.items(), key=lambda pair: pair[1])]
    path.write_text(f"\n{'-' * 79}\n\n".join(parts))
    return path


def components_of(release: Release, wheel: Path) -> tuple[Path, str]:
    """The list of components that maturin puts into the wheel (PEP 770). The command is compiled of the same crates, but for
    those that speak with Python."""
    with zipfile.ZipFile(wheel) as files:
        name = next(name for name in files.namelist() if name.endswith(".cyclonedx.json"))
        # Without the folder that it was built in.
        listed = json.loads(files.read(name).decode().replace(f"file://{ROOT}/", "file:///"))
    path = release.out / f"stylobate-{release.version}.cdx.json"
    path.write_text(json.dumps(listed, indent=1) + "\n")
    release.run("cyclonedx", sys.executable, "-c", VALIDATE, path, listed["specVersion"])
    return path, f"CycloneDX {listed['specVersion']}, {len(listed['components'])} components"


# The run


def make(release: Release, arches: Sequence[str], binary: Path | None, wheel: Path | None) -> Iterator[Artefact]:
    notices = notices_of(release)
    yield Artefact("licences", notices, "of the crates in the binary")
    listed = None
    for arch in arches:
        built_wheel = attempt(lambda: wheel or build_wheel(release, arch))
        if isinstance(built_wheel, Path):
            copied = Path(shutil.copy2(built_wheel, release.out))
            yield artefact(f"wheel {arch}", copied, lambda: check_wheel(release, copied, arch))
            listed = listed or copied
        else:
            yield Artefact(f"wheel {arch}", None, built_wheel)

        built = attempt(lambda: binary or build_binary(release, arch))
        binary = wheel = None
        if not isinstance(built, Path):
            yield Artefact(f"binary {arch}", None, built)
            continue
        copied = Path(shutil.copy2(built, release.out / f"stylobate-{release.version}-{arch}"))
        yield artefact(f"binary {arch}", copied, lambda: check_binary(release, copied, arch))
        yield packed(f"tarball {arch}", lambda: (pack_tarball(release, copied, notices, arch), "binary, unit, configuration"))
        yield packed(f"Debian {arch}", lambda: (pack_debian(release, copied, notices, arch), "by dpkg-deb"))
        yield packed(f"image {arch}", lambda: pack_image(release, copied, arch))

    yield packed("Helm chart", lambda: pack_chart(release))
    if listed:
        yield packed("components", lambda: components_of(release, listed))


def attempt(step: Callable[[], Path]) -> Path | str:
    """Returns the file that a step makes, or the reason of its failure."""
    try:
        return step()
    except (StepFailed, OSError) as error:
        return f"FAILED: {error}"


def packed(what: str, step: Callable[[], tuple[Path, str]]) -> Artefact:
    try:
        return Artefact(what, *step())
    except (StepFailed, OSError) as error:
        return Artefact(what, None, f"FAILED: {error}")


def artefact(what: str, file: Path, check: Callable[[], str]) -> Artefact:
    try:
        return Artefact(what, file, check())
    except (StepFailed, OSError) as error:
        return Artefact(what, file, f"FAILED: {error}")


def write_checksums(release: Release) -> Path:
    path = release.out / "SHA256SUMS"
    files = sorted(file for file in release.out.iterdir() if file != path)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    path.write_text("".join(lines))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", type=Path, required=True, help="the target folder of cargo")
    parser.add_argument("--arches", default="x86_64 aarch64", help="architectures, with spaces")
    parser.add_argument("--binary", type=Path, help="a static binary, instead of building one")
    parser.add_argument("--wheel", type=Path, help="a wheel, instead of building one")
    options = parser.parse_args()
    release = Release(options.target.absolute())
    for folder in (release.out, release.logs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    arches = sorted(options.arches.split(), key=lambda arch: arch != platform.machine())
    made: list[Artefact] = []
    for found in make(release, arches, options.binary, options.wheel):
        made.append(found)
        size = f"{found.file.stat().st_size / 1e6:7.1f} MB" if found.file else " " * 10
        print(f"{found.what:16} {size}  {found.note}", flush=True)
    sums = write_checksums(release)
    print(f"\n{sums.parent}, with {sums.name}; docs/operations/releases.md says how each is published")

    foreign = tuple(arch for arch in arches if arch != platform.machine())
    failed = [one for one in made if one.note.startswith("FAILED") and not one.what.endswith(foreign)]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
