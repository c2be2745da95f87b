"""ORC files of ours, written by a test of the crate that writes them; `make test-clients` has it run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from servers import target

FILES = target() / "orc-files"
TOOLS = target() / "tools" / "orc-tools-2.1.2-uber.jar"
TABLES = ["full", "nulls", "coded", "coded_nulls", "one", "none"]
CODECS = ["none", "zlib", "snappy", "lz4", "zstd"]
# The rows of a row group. The layout "whole" has all of them in one stripe, of 64 MiB.
STRIDES = {"small": 1000, "whole": 1000, "large": 10_000}
# The columns that have bloom filters.
BLOOMS = ["noise", "many", "unique", "money", "day", "clock", "double", "bytes"]

# What is missing in CI fails.
IS_CI = "CI" in os.environ
HAS_JAVA = shutil.which("javac") is not None and TOOLS.is_file()

needs_files = pytest.mark.skipif(not (FILES.is_dir() or IS_CI), reason="make test-clients has the files written")
needs_java = pytest.mark.skipif(not (HAS_JAVA or IS_CI), reason="needs a JDK and orc-tools")


def path(table: str, codec: str, layout: str) -> Path:
    return FILES / f"{table}-{codec}-{layout}.orc"


def expected(table: str) -> pa.Table:
    """What was written, with plain values."""
    read = pa.ipc.open_file(FILES / f"{table}.arrow").read_all()
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in read.schema
    ]
    return read.cast(pa.schema(fields))
