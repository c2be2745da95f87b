"""Installs the clients of the tests below a folder: Python packages, Debian packages, Go programs and npm packages.

Usage: install.py FOLDER. Each client is installed independently. If one fails, the reason is written to
FOLDER/NAME.failed, which the tests show; clients already installed in the right version are left alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = ["python", "awscli", "fsspec"]
RCLONE = "github.com/rclone/rclone@v1.76.0"
DEBIAN = ["awscli"]


def run(*command: str | Path, cwd: Path | None = None, **more: str) -> str:
    """Runs a command and returns its output, which is part of the reason if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def environment(folder: Path, name: str) -> None:
    """Creates a virtual environment; if the system has no ensurepip, pip is installed from outside."""
    home = folder / name
    pip: list[str | Path] = [home / "bin" / "python", "-m", "pip"]
    try:
        run(sys.executable, "-m", "venv", "--clear", home)
    except RuntimeError:
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", home)
        pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python"]
    run(*pip, "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements" / f"{name}.txt")


def debian(folder: Path) -> None:
    """Unpacks Debian packages with their dependencies, without installing them: no root is needed."""
    home = folder / "debian"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    simulate = ["apt-get", "--simulate", "--no-install-recommends", "install", "--reinstall", *DEBIAN]
    try:
        said = run(*simulate)
    except RuntimeError:
        run("apt-get", "update", "--quiet=2")
        said = run(*simulate)
    names = [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]
    run("apt-get", "--quiet=2", "download", *names, cwd=home)
    for package in sorted(home.glob("*.deb")):
        run("dpkg", "-x", package, home)
        package.unlink()


def rclone(folder: Path) -> None:
    run("go", "install", RCLONE, GOBIN=str(folder / "bin"))


def minio_go(folder: Path) -> None:
    run("go", "build", "-C", HERE / "programs" / "go", "-o", folder / "bin" / "minio-go-client", ".")


def npm(folder: Path) -> None:
    """Installs the packages of the lock file, in a folder of their own."""
    home = folder / "node"
    home.mkdir(exist_ok=True)
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(HERE / "programs" / "node" / name, home / name)
    run("npm", "ci", "--no-audit", "--no-fund", "--prefix", home)


def once(folder: Path, name: str, recipe: str, install: Callable[[], None]) -> None:
    """Installs what is missing or has a different recipe, and records the reason on failure."""
    stamp = folder / f"{name}.installed"
    failed = folder / f"{name}.failed"
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return

    print(f"installing {name} ...", flush=True)
    stamp.unlink(missing_ok=True)
    failed.unlink(missing_ok=True)
    try:
        install()
        stamp.write_text(digest)
    except (RuntimeError, OSError) as reason:
        failed.write_text(str(reason))
        print(f"{name} could not be installed: {reason}", file=sys.stderr)


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    programs = HERE / "programs"

    for name in ENVIRONMENTS:
        recipe = sys.version + (HERE / "requirements" / f"{name}.txt").read_text()
        once(folder, name, recipe, partial(environment, folder, name))
    once(folder, "node", (programs / "node" / "package-lock.json").read_text(), partial(npm, folder))
    go_files = [programs / "go" / name for name in ["go.mod", "go.sum", "main.go"]]
    once(folder, "minio-go", "".join(file.read_text() for file in go_files), partial(minio_go, folder))
    once(folder, "rclone", RCLONE, partial(rclone, folder))
    once(folder, "debian", " ".join(DEBIAN), partial(debian, folder))


if __name__ == "__main__":
    main()
