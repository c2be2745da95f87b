#!/usr/bin/env python3
"""Runs the tests of the crates as `cargo test --workspace` does, several binaries at a time.

Many tests wait, for timers or for one last slow test of their binary: side by side they take half the time. The output
of each binary is printed when it ends. Arguments are passed to the binaries. Exits with 1 if any of them failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

# Binaries at a time. Each runs as many tests at a time as there are cores.
PARALLEL = 2
# What takes longest is started first, so that nothing runs alone for long at the end.
LONGEST = ["store", "stylobate_columnar", "stylobate_storage", "graph", "write_graph", "flight", "generate", "predicates"]


class TestBinary(NamedTuple):
    name: str
    executable: str
    # Folder of its package, which is its working directory.
    package: Path

    def rank(self) -> int:
        return LONGEST.index(self.name) if self.name in LONGEST else len(LONGEST)


def main() -> int:
    binaries = sorted(built(), key=TestBinary.rank)
    failed = []
    with ThreadPoolExecutor(PARALLEL) as pool:
        runs = {pool.submit(run, binary): binary for binary in binaries}
        try:
            for done in as_completed(runs):
                status, output = done.result()
                binary = runs[done]
                print(f"     Running {binary.package.name}: {binary.name} ({binary.executable})\n{output}", flush=True)
                if status:
                    failed.append(f"{binary.package.name}: {binary.name} ended with {status}")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            return 130

    print(*failed, sep="\n", end="\n" if failed else "")
    documented = subprocess.run(["cargo", "test", "--workspace", "--no-fail-fast", "--doc"]).returncode
    return int(bool(failed or documented))


def built() -> Iterator[TestBinary]:
    """Builds all tests and examples, and yields what `cargo test` would run."""
    build = ["cargo", "test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]
    process = subprocess.run(build, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        sys.exit(process.returncode)
    for line in process.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            package = Path(message["manifest_path"]).parent
            yield TestBinary(message["target"]["name"], message["executable"], package)


def run(binary: TestBinary) -> tuple[int, str]:
    env = os.environ | {"CARGO": "cargo", "CARGO_MANIFEST_DIR": str(binary.package)}
    command = [binary.executable, *sys.argv[1:]]
    done = subprocess.run(
        command, cwd=binary.package, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", text=True
    )
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main())
