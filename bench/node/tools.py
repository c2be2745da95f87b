"""Finds the measured programs and the tools that measure them, installs missing ones, and returns their versions."""

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
CRATES = {"cachey": CACHEY, "s3s-fs": S3S_FS}
# Debian's packages.
PACKAGES = {"wrk": "wrk", "nginx": "nginx-light", "fio": "fio"}


def fail(message):
    sys.exit(f"bench-{Path(sys.argv[0]).resolve().parent.name}: {message}")


def target_folder():
    if named := os.environ.get("CARGO_TARGET_DIR"):
        return Path(named).resolve()
    shown = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT,
                           capture_output=True, text=True)
    return Path(json.loads(shown.stdout)["target_directory"]) if shown.returncode == 0 else ROOT / "target"


def find(named_binary, names):
    """Returns the path of stylobate and of each program in `names`; builds or installs those that are missing."""
    target = target_folder()
    return {
        "stylobate": Path(named_binary).resolve() if named_binary else _stylobate(target),
        **{name: _from_crates_io(target, *crate) for name, crate in CRATES.items() if name in names},
        **_from_system({name: package for name, package in PACKAGES.items() if name in names}),
    }


def _stylobate(target):
    _run(["cargo", "build", "--release", "--bin", "stylobate"], cwd=ROOT)
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
        # A package that contains a service must not start it.
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
    """Returns the versions of the compared programs and of the system. The commit of a named binary is unknown."""
    def said(*command, flag="--version", pattern=r" (\d[\w.+-]*)"):
        shown = subprocess.run([*(str(part) for part in command), flag], capture_output=True, text=True)
        found = re.search(pattern, shown.stdout + shown.stderr)
        return found.group(1) if found else "unknown"

    commit = said("git", "-C", ROOT, "describe", "--always", flag="--dirty", pattern=r"(\S+)")
    origin = named_binary or f"commit {commit}"
    arguments = {
        "cachey": {}, "s3s-fs": {},
        "nginx": {"flag": "-v", "pattern": r"nginx/(\S+)"},
        "wrk": {"flag": "-v", "pattern": r"wrk (?:debian/)?(\S+)"},
        "fio": {"pattern": r"fio-(\S+)"},
    }
    return {
        "stylobate": f"{said(programs['stylobate'])} ({origin})",
        **{name: said(programs[name], **how) for name, how in arguments.items() if name in programs},
        "rustc": said("rustc"),
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
