"""Our own ORC files, written by a test of the writer crate that `make test-clients` runs; and the reference tools in
Java, which read these and other files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from servers import target

FILES = target() / "orc-files"
TOOLS = target() / "tools" / "orc-tools-2.1.2-uber.jar"
TABLES = ["full", "nulls", "coded", "coded_nulls", "one", "none"]
CODECS = ["none", "zlib", "snappy", "lz4", "zstd"]
# Rows per row group. The layout "whole" has all of them in one stripe, of 64 MiB.
STRIDES = {"small": 1000, "whole": 1000, "large": 10_000}
# Columns with bloom filters.
BLOOMS = ["noise", "many", "unique", "money", "day", "clock", "double", "bytes"]

# In CI, missing files are a failure.
IS_CI = "CI" in os.environ
HAS_JAVA = shutil.which("javac") is not None and TOOLS.is_file()

needs_files = pytest.mark.skipif(not (FILES.is_dir() or IS_CI), reason="make test-clients has the files written")
needs_java = pytest.mark.skipif(not (HAS_JAVA or IS_CI), reason="needs a JDK and orc-tools")


def path(table: str, codec: str, layout: str) -> Path:
    return FILES / f"{table}-{codec}-{layout}.orc"


def expected(table: str) -> pa.Table:
    """Returns the written table, with plain values."""
    read = pa.ipc.open_file(FILES / f"{table}.arrow").read_all()
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in read.schema
    ]
    return read.cast(pa.schema(fields))


def run_tools(*arguments: str, zone: str = "UTC") -> str:
    """Runs the reference tools in a time zone, and returns their output."""
    command = ["java", "-Xmx1g", "-Dfile.encoding=UTF-8", f"-Duser.timezone={zone}", "-jar", str(TOOLS), *arguments]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    # If the tools cannot read a file, they print an error and continue.
    assert run.returncode == 0 and "Unable to dump" not in run.stderr, run.stderr[-4000:]
    return run.stdout


def printed_rows(files: list[Path], zone: str = "UTC") -> dict[Path, list[dict[str, Any]]]:
    """Returns the rows of each file, as the tools print them: they draw a line below each file."""
    parts = run_tools("data", *map(str, files), zone=zone).split("\n" + "_" * 120 + "\n")
    assert len(parts) == len(files) + 1, f"{len(parts) - 1} files were printed, not {len(files)}"
    rows = [[json.loads(line) for line in part.split("\n") if line.startswith("{")] for part in parts[:-1]]
    return dict(zip(files, rows, strict=True))


def reports(files: list[Path], *options: str) -> dict[Path, dict[str, Any]]:
    """Returns each file's metadata, as the tools print it."""
    output = run_tools("meta", "-j", *options, *map(str, files))
    found = json.loads(next(line for line in output.split("\n") if line[:1] in ("{", "[")))
    # For a single file, the tools do not print a list.
    found = found if isinstance(found, list) else [found]
    assert len(found) == len(files)
    return dict(zip(files, found, strict=True))


class Judge:
    """The reference reader, which compares what it reads with another file."""

    def __init__(self, classes: Path, reference: Path, zone: str = "UTC") -> None:
        options = ["-Xmx1g", f"-Duser.timezone={zone}", "-cp", f"{TOOLS}:{classes}"]
        self._command = ["java", *options, "ReadOrc", str(reference)]

    def read(self, commands: list[list[str]]) -> list[list[range]]:
        """Returns the rows that each command read."""
        lines = "".join("\t".join(command) + "\n" for command in commands)
        run = subprocess.run(self._command, input=lines, capture_output=True, text=True, timeout=300)
        answers = run.stdout.split("\n")[:-1]
        assert len(answers) == len(commands), run.stderr[-4000:]
        for command, answer in zip(commands, answers, strict=True):
            assert not answer.startswith("wrong"), f"{command}: {answer[:600]}\n{run.stderr[-4000:]}"
        return [[ends(part) for part in answer.split()] for answer in answers]


def ends(part: str) -> range:
    first, last = part.split("-")
    return range(int(first), int(last) + 1)


def compiled(folder: Path) -> Path:
    """Compiles the judge and the reference writer into the folder, and returns it."""
    sources = sorted(map(str, (Path(__file__).parent / "java").glob("*.java")))
    subprocess.run(["javac", "-cp", str(TOOLS), "-d", str(folder), *sources], check=True)
    return folder


def copy_by_java(classes: Path, copies: list[tuple[Path, Path, dict[str, str]]], zone: str = "UTC") -> None:
    """Rewrites files with the reference writer and its settings."""
    lines = ("\t".join([str(source), str(to), *(f"{k}={v}" for k, v in given.items())]) for source, to, given in copies)
    command = ["java", "-Xmx1g", f"-Duser.timezone={zone}", "-cp", f"{TOOLS}:{classes}", "CopyOrc"]
    run = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-4000:]


def write_unions(classes: Path, path: Path, rows: int, settings: dict[str, str]) -> None:
    """Writes a file with a column of unions with the reference writer, see `WriteUnions.java`."""
    given = [f"{key}={value}" for key, value in settings.items()]
    command = ["java", "-Xmx1g", "-cp", f"{TOOLS}:{classes}", "WriteUnions", str(path), str(rows), *given]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-4000:]
