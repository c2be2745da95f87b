"""Finds the programs that are measured and that measure, installs those that are missing, and asks their versions."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHEY = ("cachey", "0.13.2", "server", [])
S3S_FS = ("s3s-fs", "0.14.1", "s3s-fs", ["--features", "binary"])


def fail(message):
    sys.exit(f"bench-node: {message}")


def target_folder():
    if named := os.environ.get("CARGO_TARGET_DIR"):
        return Path(named).resolve()
    shown = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT,
                           capture_output=True, text=True)
    return Path(json.loads(shown.stdout)["target_directory"]) if shown.returncode == 0 else ROOT / "target"


def find(named_binary):
    """The program of each name; whatever is missing is built or installed."""
    target = target_folder()
    return {
        "stylobate": Path(named_binary).resolve() if named_binary else _stylobate(target),
        "cachey": _from_crates_io(target, *CACHEY),
        "s3s-fs": _from_crates_io(target, *S3S_FS),
        **_from_system({"wrk": "wrk", "nginx": "nginx-light"}),
    }


def _stylobate(target):
    _run(["cargo", "build", "--release", "--package", "stylobate-cli"], cwd=ROOT)
    return target / "release" / "stylobate"


def _from_crates_io(target, crate, version, binary, more):
    installed = target / "tools" / "bin" / binary
    if not installed.exists():
        print(f"building {crate} {version}", file=sys.stderr)
        _run(["cargo", "install", crate, "--version", version, "--locked", *more,
              "--root", target / "tools", "--target-dir", target / crate], cwd="/")
    return installed


def _from_system(packages):
    def where(name):
        return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

    missing = [package for name, package in packages.items() if not where(name)]
    if missing:
        command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            fail(f"install these first: {' '.join(missing)} (on Debian: sudo {' '.join(command)})")
        # A package that brings a service must not start it.
        policy = Path("/usr/sbin/policy-rc.d")
        ours = not policy.exists()
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        try:
            _run(command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, stdout=sys.stderr)
        finally:
            if ours:
                policy.unlink()
    return {name: Path(where(name) or fail(f"{name} is not there")) for name in packages}


def _run(command, **options):
    try:
        subprocess.run([str(part) for part in command], check=True, **options)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(str(error))


def versions(programs, named_binary):
    """What was compared, and on what. Of a binary that was named nobody knows the commit."""
    def said(*command, pattern=r" (\d[\w.+-]*)"):
        shown = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        found = re.search(pattern, shown.stdout + shown.stderr)
        return found.group(1) if found else "unknown"

    commit = said("git", "-C", ROOT, "describe", "--always", "--dirty", pattern=r"(\S+)")
    origin = named_binary or f"commit {commit}"
    return {
        "stylobate": f"{said(programs['stylobate'], '--version')} ({origin})",
        "cachey": said(programs["cachey"], "--version"),
        "nginx": said(programs["nginx"], "-v", pattern=r"nginx/(\S+)"),
        "wrk": said(programs["wrk"], "-v", pattern=r"wrk (?:debian/)?(\S+)"),
        "s3s-fs": said(programs["s3s-fs"], "--version"),
        "rustc": said("rustc", "--version"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu": f"{os.cpu_count()} x {_cpu()}",
    }


def _cpu():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.machine()
