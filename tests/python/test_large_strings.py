"""Row groups and stripes whose strings exceed 2 GiB, the most that the offsets of one array can address, are split into
smaller batches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import stylobate as st

from matrix import only_in_matrix

# Together 2.2 GiB in one row group or stripe; a few hundred kilobytes in the file.
VALUE_BYTES = 1 << 20
DISTINCT = 50
ROWS = 45 * DISTINCT


def prefix(row: int) -> str:
    return f"{row % DISTINCT:08}"


def value(row: int) -> str:
    return prefix(row).ljust(VALUE_BYTES, "x")


@pytest.fixture(scope="module", params=["parquet", "orc", "nested.orc", "nested-dictionary.orc"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The strings in a column `s`, or in `a` of a struct `s`."""
    path = tmp_path_factory.mktemp("large") / f"strings.{request.param}"
    some = pa.array([value(row) for row in range(DISTINCT)])
    if "nested" in request.param:
        some = pa.StructArray.from_arrays([some], ["a"])
    table = pa.table({"row": list(range(ROWS)), "s": pa.chunked_array([some] * (ROWS // DISTINCT))})

    if path.suffix == ".orc":
        threshold = 1.0 if "dictionary" in request.param else 0.0
        orc.write_table(
            table, path, stripe_size=8 << 30, compression="zstd", dictionary_key_size_threshold=threshold
        )
        assert orc.ORCFile(path).nstripes == 1
    else:
        pq.write_table(
            table, path, row_group_size=ROWS, compression="zstd", use_dictionary=False, write_statistics=False
        )
        assert pq.ParquetFile(path).metadata.num_row_groups == 1
    return path


def strings(batch: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Returns the strings of a batch, nested or not, in a form that Arrow's compute functions accept."""
    column = batch["s"]
    return pc.struct_field(column, "a") if pa.types.is_struct(column.type) else column


@pytest.mark.parametrize("memory", ["0B", "1GiB"])
def test_strings_of_more_than_2_gib_are_read_in_batches_that_fit(path: Path, memory: str) -> None:
    seen = 0
    for batch in st.scan(path, cache=st.Cache(memory=memory)):
        lengths = pc.binary_length(strings(batch))
        assert pc.all(pc.equal(lengths, VALUE_BYTES)).as_py()
        assert pc.sum(lengths).as_py() < 1 << 31
        assert batch["row"].to_pylist() == list(range(seen, seen + batch.num_rows))
        prefixes = pc.utf8_slice_codeunits(strings(batch), 0, 8).to_pylist()
        assert prefixes == [prefix(row) for row in range(seen, seen + batch.num_rows)]
        seen += batch.num_rows

    assert seen == ROWS


def test_a_filter_selects_rows_of_strings_of_more_than_2_gib(path: Path) -> None:
    table = st.scan(path, filter="row >= 2248", cache=st.Cache(memory="0B")).to_arrow()

    assert table["row"].to_pylist() == [2248, 2249]
    assert strings(table).to_pylist() == [value(2248), value(2249)]


# By the footer's mean, a batch of thousands of rows fits.
SHORT_ROWS = 200_000


@pytest.fixture(scope="module", params=["parquet", "nested.parquet", "orc"])
def uneven_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short strings, with all strings of the other files in sequence among them."""
    path = tmp_path_factory.mktemp("uneven") / f"strings.{request.param}"
    long = pa.array([value(row) for row in range(DISTINCT)])
    short = pa.array([prefix(row) for row in range(SHORT_ROWS)])
    chunks = [short[:5], *[long] * (ROWS // DISTINCT), short[5:]]
    if "nested" in request.param:
        chunks = [pa.StructArray.from_arrays([chunk], ["a"]) for chunk in chunks]
    table = pa.table({"row": list(range(ROWS + SHORT_ROWS)), "s": pa.chunked_array(chunks)})

    if path.suffix == ".orc":
        orc.write_table(table, path, stripe_size=8 << 30, compression="zstd", dictionary_key_size_threshold=0.0)
        assert orc.ORCFile(path).nstripes == 1
    else:
        pq.write_table(
            table, path, row_group_size=len(table), compression="zstd", use_dictionary=False, write_statistics=False
        )
        assert pq.ParquetFile(path).metadata.num_row_groups == 1
    return path


# A process of its own, which frees the memory when it ends.
READ = """
import sys
import pyarrow as pa, pyarrow.compute as pc, stylobate as st

path, memory, value_bytes = *sys.argv[1:3], int(sys.argv[3])
rows = long_rows = 0
for batch in st.scan(path, cache=st.Cache(memory=memory)):
    assert pc.all(pc.equal(batch["row"], pa.array(range(rows, rows + batch.num_rows)))).as_py()
    strings = batch["s"]
    if pa.types.is_struct(strings.type):
        strings = pc.struct_field(strings, "a")
    lengths = pc.binary_length(strings)
    is_long = pc.equal(lengths, value_bytes)
    assert pc.all(pc.or_(is_long, pc.equal(lengths, 8))).as_py()
    long_rows += pc.sum(is_long).as_py()
    rows += batch.num_rows
print(rows, long_rows)
"""


@pytest.mark.parametrize("memory", ["0B", pytest.param("8GiB", marks=only_in_matrix)])
def test_long_strings_among_many_short_ones_are_read_in_batches_that_fit(uneven_path: Path, memory: str) -> None:
    command = [sys.executable, "-c", READ, str(uneven_path), memory, str(VALUE_BYTES)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(ROWS + SHORT_ROWS), str(ROWS)]
