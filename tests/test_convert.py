"""`stylobate convert` keeps types, metadata and extension types of random tables."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from random_tables import check_equal, random_table
from servers import environment, stylobate


def restored(found: pa.Table, table: pa.Table) -> pa.Table:
    """What pyarrow reads, with what it changes in any file: the names of entries of maps."""
    arrays = []
    for field, column in zip(table.schema, found.columns, strict=True):
        arrays.append(column.cast(field.type) if "map<" in str(field.type) else column)
    fields = [
        field.with_type(array.type) for field, array in zip(found.schema, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, found.schema.metadata))


def test_convert_keeps_types_and_metadata(tmp_path: Path) -> None:
    source, parquet, arrow = tmp_path / "source.parquet", tmp_path / "made.parquet", tmp_path / "made.arrow"
    for seed in range(1_000, 1_020):
        table = random_table(seed, 30)
        pq.write_table(table, source)
        for made in (parquet, arrow):
            command = [stylobate(), "convert", "--force", "--quiet", source, made]
            subprocess.run(command, check=True, env=environment(), timeout=60)
        check_equal(restored(pq.read_table(parquet), table), table)
        with pa.ipc.open_file(arrow) as file:
            found = file.read_all()
        assert found.schema.metadata == table.schema.metadata
        assert repr(found.to_pylist()) == repr(table.to_pylist())
