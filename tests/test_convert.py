"""`stylobate convert` keeps types, metadata and extension types of random tables, and writes values as text exactly."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from random_tables import check_equal, random_table
from servers import environment, stylobate


def convert(source: Path, made: Path, *flags: str) -> None:
    command = [stylobate(), "convert", "--force", "--quiet", source, made, *flags]
    subprocess.run(command, check=True, env=environment(), timeout=60)


def restored(found: pa.Table, table: pa.Table) -> pa.Table:
    """Returns the table as pyarrow reads it, except for what pyarrow changes in any file: the names of map entries."""
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
            convert(source, made)
        check_equal(restored(pq.read_table(parquet), table), table)
        with pa.ipc.open_file(arrow) as file:
            found = file.read_all()
        assert found.schema.metadata == table.schema.metadata
        assert repr(found.to_pylist()) == repr(table.to_pylist())


def expanded(type: pa.DataType) -> pa.DataType:
    """Returns the type with dictionaries replaced by their values, at every depth."""

    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(expanded(field.type))

    if pa.types.is_dictionary(type):
        return type.value_type
    if "dictionary<" not in str(type):
        return type
    if pa.types.is_struct(type):
        return pa.struct([inner(field) for field in type])
    if pa.types.is_map(type):
        return pa.map_(type.key_field, inner(type.item_field))
    if pa.types.is_fixed_size_list(type):
        return pa.list_(inner(type.value_field), type.list_size)
    return (pa.large_list if pa.types.is_large_list(type) else pa.list_)(inner(type.value_field))


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_arrow_files_have_the_types_of_the_source_field_by_field(tmp_path: Path, ending: str) -> None:
    """In files, strings are plain, since few readers accept growing dictionaries; in streams, dictionaries stay."""
    source, made = tmp_path / "source.parquet", tmp_path / f"made.{ending}"
    for seed in range(2_000, 2_030):
        table = random_table(seed, 30)
        pq.write_table(table, source)
        convert(source, made)
        with (pa.ipc.open_file if ending == "arrow" else pa.ipc.open_stream)(made) as reader:
            found = reader.read_all()
        assert found.schema.metadata == table.schema.metadata, seed
        assert found.column_names == table.column_names, seed
        for field, written in zip(found.schema, table.schema, strict=True):
            wanted = written.with_type(expanded(written.type)) if ending == "arrow" else written
            assert field.equals(wanted, check_metadata=True), f"{seed}: {field} is not {wanted}"
            assert repr(found[field.name].to_pylist()) == repr(table[field.name].to_pylist()), f"{seed}: {field}"


def test_arrow_files_have_dictionaries_that_are_asked_for(tmp_path: Path) -> None:
    source, made = tmp_path / "source.parquet", tmp_path / "made.arrow"
    table = pa.table({"s": ["a", "b", None, "a"], "n": [1, 2, 3, None]})
    pq.write_table(table, source)
    convert(source, made, "--dictionary", "s")
    with pa.ipc.open_file(made) as file:
        found = file.read_all()
    assert found.schema.types == [pa.dictionary(pa.int32(), pa.string()), pa.int64()]
    assert found.to_pylist() == table.to_pylist()


# Microseconds since 1970, and their UTC timestamps: fractions count upwards before 1970, too.
MOMENTS = [
    (0, "1970-01-01T00:00:00"),
    (-1, "1969-12-31T23:59:59.999999"),
    (-1_000, "1969-12-31T23:59:59.999"),
    (-999_999, "1969-12-31T23:59:59.000001"),
    (-1_000_000, "1969-12-31T23:59:59"),
    (-1_000_001, "1969-12-31T23:59:58.999999"),
    (-1_500_000, "1969-12-31T23:59:58.500"),
    (-86_400_000_000, "1969-12-31T00:00:00"),
    (-86_400_000_001, "1969-12-30T23:59:59.999999"),
    (-62_135_596_799_999_999, "0001-01-01T00:00:00.000001"),
    (-62_135_596_800_000_000, "0001-01-01T00:00:00"),
]


def test_moments_before_1970_are_written_as_text_to_the_microsecond(tmp_path: Path) -> None:
    source, csv, jsonl = tmp_path / "source.parquet", tmp_path / "made.csv", tmp_path / "made.jsonl"
    moments = [None, *(moment for moment, _ in MOMENTS)]
    columns = {
        "id": pa.array(range(len(moments))),
        "at": pa.array(moments, pa.timestamp("us")),
        "utc": pa.array(moments, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), source)
    convert(source, csv)
    convert(source, jsonl)
    texts = [None, *(text for _, text in MOMENTS)]
    rows = [{"id": id, "at": text, "utc": text and f"{text}Z"} for id, text in enumerate(texts)]
    assert [json.loads(line) for line in jsonl.read_text().splitlines()] == rows
    lines = [f"{row['id']},{row['at'] or ''},{row['utc'] or ''}" for row in rows]
    assert csv.read_text() == "\n".join(["id,at,utc", *lines, ""])


@pytest.mark.parametrize(
    ("zone", "text"),
    [("Europe/Oslo", "1970-01-01T00:59:59.999999+01:00"), ("-03:30", "1969-12-31T20:29:59.999999-03:30")],
)
def test_moments_before_1970_are_written_in_their_zone(tmp_path: Path, zone: str, text: str) -> None:
    source, csv, jsonl = tmp_path / "source.parquet", tmp_path / "made.csv", tmp_path / "made.jsonl"
    pq.write_table(pa.table({"at": pa.array([-1], pa.timestamp("us", zone))}), source)
    convert(source, csv)
    convert(source, jsonl)
    assert csv.read_text() == f"at\n{text}\n"
    assert json.loads(jsonl.read_text()) == {"at": text}
