"""ORC files of ours as others read them: the reference reader in Java, which seeks by our row index, and pyarrow.

The files and what is in them come from a test of the crate that writes them; `make test-clients` has it run.
"""

from __future__ import annotations

import datetime
import decimal
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.orc
import pytest

from servers import target

FILES = target() / "orc-files"
TOOLS = target() / "tools" / "orc-tools-2.1.2-uber.jar"
TABLES = ["full", "nulls", "coded", "coded_nulls", "one", "none"]
CODECS = ["none", "zlib", "snappy", "lz4", "zstd"]
STRIDES = {"small": 1000, "large": 10_000}

# What is missing in CI fails.
IS_CI = "CI" in os.environ
HAS_JAVA = shutil.which("javac") is not None and TOOLS.is_file()

pytestmark = pytest.mark.skipif(not (FILES.is_dir() or IS_CI), reason="make test-clients has the files written")
needs_java = pytest.mark.skipif(not (HAS_JAVA or IS_CI), reason="needs a JDK and orc-tools")


def expected(table: str) -> pa.Table:
    """What was written, with plain values."""
    read = pa.ipc.open_file(FILES / f"{table}.arrow").read_all()
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in read.schema
    ]
    return read.cast(pa.schema(fields))


def path(table: str, codec: str, layout: str) -> Path:
    return FILES / f"{table}-{codec}-{layout}.orc"


@pytest.mark.parametrize("table", TABLES)
def test_pyarrow_reads_back_what_was_written(table: str) -> None:
    rows = expected(table)
    for codec in CODECS:
        for layout in STRIDES:
            file = pa.orc.ORCFile(path(table, codec, layout))
            read = file.read()
            assert read.num_rows == rows.num_rows
            for name in rows.column_names:
                same = read[name].cast(rows[name].type).combine_chunks().equals(rows[name].combine_chunks())
                assert same, f"{table}, {codec}, {layout}: {name}"
            assert file.row_index_stride == STRIDES[layout]
            assert file.compression == ("UNCOMPRESSED" if codec == "none" else codec.upper())
            assert file.metadata[b"layout"] == layout.encode()


class Judge:
    """The reference reader, which compares what it reads with a file that pyarrow wrote."""

    def __init__(self, classes: Path, reference: Path) -> None:
        self._command = ["java", "-Xmx1g", "-Duser.timezone=UTC", "-cp", f"{TOOLS}:{classes}", "ReadOrc", str(reference)]

    def read(self, commands: list[list[str]]) -> list[list[range]]:
        """The rows that each command returned."""
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


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    source = Path(__file__).parent / "java" / "ReadOrc.java"
    subprocess.run(["javac", "-cp", str(TOOLS), "-d", str(folder), str(source)], check=True)
    return folder


def judge(table: str, classes: Path, folder: Path) -> Judge:
    reference = folder / f"{table}.orc"
    rows = expected(table)
    # The Java reader refuses timestamps that pyarrow wrote before 1970.
    fields = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in rows.schema]
    pa.orc.write_table(rows.cast(pa.schema(fields)), reference)
    return Judge(classes, reference)


@needs_java
@pytest.mark.parametrize("table", ["nulls", "coded", "one", "none"])
def test_java_reads_back_what_was_written(table: str, classes: Path, tmp_path: Path) -> None:
    files = [path(table, codec, layout) for codec in CODECS for layout in STRIDES]
    rows = expected(table).num_rows
    for file, ranges in zip(files, judge(table, classes, tmp_path).read([[str(file)] for file in files]), strict=True):
        assert ranges == ([range(rows)] if rows else []), file


def predicates(rows: pa.Table) -> list[tuple[list[str], pc.Expression, bool]]:
    """Predicates in both languages, and whether row groups of 1,000 rows must be left out by them."""
    field = pc.field
    last = {name: next(value for value in reversed(rows[name].to_pylist()) if value is not None) for name in (
        "noise", "sorted", "runs", "many", "unique", "day", "clock", "money", "double", "bytes")}
    text = {name: str(value) for name, value in last.items()}
    text["clock"] = last["clock"].isoformat(sep=" ", timespec="microseconds")
    early = datetime.datetime(1969, 6, 1)
    return [
        (["id", "between", "LONG", "7300", "7400"], (field("id") >= 7300) & (field("id") <= 7400), True),
        (["id", "less", "LONG", "0"], field("id") < 0, True),
        (["id", "between", "LONG", "9999", "10000"], (field("id") >= 9999) & (field("id") <= 10_000), True),
        (["sorted", "equals", "LONG", text["sorted"]], field("sorted") == last["sorted"], True),
        (["runs", "equals", "LONG", "3"], field("runs") == 3, True),
        (["runs", "equals", "LONG", text["runs"]], field("runs") == last["runs"], True),
        (["noise", "equals", "LONG", text["noise"]], field("noise") == last["noise"], True),
        (["short", "less", "LONG", "-1490"], field("short") < -1490, True),
        (["many", "equals", "STRING", text["many"]], field("many") == last["many"], True),
        (["unique", "equals", "STRING", text["unique"]], field("unique") == last["unique"], True),
        (["few", "equals", "STRING", "AARDVARK"], field("few") == "AARDVARK", True),
        (["few", "null", "STRING"], field("few").is_null(), False),
        (["day", "equals", "DATE", text["day"]], field("day") == last["day"], True),
        (["clock", "less", "TIMESTAMP", "1969-06-01 00:00:00"], field("clock") < early, True),
        (["clock", "equals", "TIMESTAMP", text["clock"]], field("clock") == last["clock"], True),
        (["money", "equals", "DECIMAL", text["money"]], field("money") == last["money"], True),
        (["money", "less", "DECIMAL", "-1e12"], field("money") < decimal.Decimal("-1e12"), True),
        (["double", "equals", "FLOAT", repr(last["double"])], field("double") == last["double"], True),
        (["yes", "equals", "BOOLEAN", "true"], field("yes"), False),
        (["early", "null", "LONG"], field("early").is_null(), True),
        (["never", "equals", "STRING", "x"], field("never") == "x", True),
        (["pair.number", "between", "LONG", "30", "40"],
         (field("pair", "number") >= 30) & (field("pair", "number") <= 40), True),
    ]


@needs_java
@pytest.mark.parametrize("table", ["full", "coded_nulls"])
def test_java_seeks_by_the_row_index(table: str, classes: Path, tmp_path: Path) -> None:
    rows = expected(table)
    cases = [
        (layout, predicate, path(table, codec, layout))
        for codec in ("none", "zstd")
        for layout in STRIDES
        for predicate in predicates(rows)
    ]
    commands = [[str(file), *command] for _, (command, _, _), file in cases]
    answers = judge(table, classes, tmp_path).read(commands)
    for (layout, (command, expression, skips), file), ranges in zip(cases, answers, strict=True):
        matching = rows.filter(expression)["id"].to_pylist()
        returned = {row for found in ranges for row in found}
        assert returned.issuperset(matching), f"{file}: {command}"
        if skips and layout == "small":
            assert len(returned) < rows.num_rows * 0.8, f"{file}: {command} returned {len(returned)} rows"


@needs_java
def test_the_tools_print_what_the_file_says_of_itself(tmp_path: Path) -> None:
    rows = expected("nulls")
    file = path("nulls", "zstd", "large")
    command = ["java", "-Duser.timezone=UTC", "-jar", str(TOOLS)]
    run = subprocess.run([*command, "meta", str(file)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-4000:]
    text = run.stdout
    assert f"Rows: {rows.num_rows}" in text and "Compression: ZSTD" in text and "Calendar: Proleptic Gregorian" in text
    noise = rows["noise"].drop_null()
    present, nulls = len(noise), rows["noise"].null_count > 0
    assert f"count: {present} hasNull: {str(nulls).lower()}" in text
    bounds = pc.min_max(noise).as_py()
    assert f"min: {bounds['min']} max: {bounds['max']}" in text
    days = pc.min_max(rows["day"]).as_py()
    assert f"min: Hybrid AD {days['min']} max: Hybrid AD {days['max']}" in text
    instants = pc.min_max(rows["instant"]).as_py()
    assert all(f"{value:%Y-%m-%d %H:%M:%S.%f}" in text for value in instants.values())
    money = pc.min_max(rows["money"]).as_py()
    total = pc.sum(rows["money"]).as_py()
    assert all(f"{value.normalize():f}" in text for value in (*money.values(), total))
    unique = pc.min_max(rows["unique"]).as_py()
    length = pc.sum(pc.binary_length(rows["unique"])).as_py()
    assert f"min: {unique['min']} max: {unique['max']} sum: {length}" in text
