"""Tables of random schemas, metadata and extension types are read back unchanged: through scans, Parquet and ORC."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import stylobate as st

from matrix import ALL_FILES
from random_tables import check_equal, random_table, text

SEEDS = 120


@pytest.mark.parametrize("part", range(4 if ALL_FILES else 2))
def test_tables_come_back_from_parquet_as_they_were(tmp_path: Path, part: int) -> None:
    by_pyarrow, again, direct = (tmp_path / f"{name}.parquet" for name in ("pyarrow", "again", "direct"))
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        table = random_table(seed, 60)
        pq.write_table(table, by_pyarrow, row_group_size=25)
        scan = st.scan(by_pyarrow)
        check_equal(scan.to_arrow(), table)
        st.write_parquet(scan, again, row_group_size=25)
        check_equal(st.scan(again, cache=st.Cache(memory="0B")).to_arrow(), table)
        st.write_parquet(table, direct)
        check_equal(st.scan(direct).to_arrow(), table)


def in_file(schema: pa.Schema) -> pa.Schema:
    """Returns the schema as pyarrow reads it from any file, except for maps, whose entries pyarrow renames."""
    return schema if "map<" not in str(schema) else pa.schema([])


def test_pyarrow_reads_what_is_written_as_what_it_wrote_itself(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.parquet", tmp_path / "ours.parquet"
    for seed in range(SEEDS):
        table = random_table(seed, 30)
        pq.write_table(table, theirs)
        st.write_parquet(st.scan(theirs), ours)
        schema = pq.read_schema(theirs)
        if in_file(schema):
            assert pq.read_schema(ours).equals(schema, check_metadata=True)
        assert repr(pq.read_table(ours).to_pylist()) == repr(pq.read_table(theirs).to_pylist())


def test_orc_keeps_metadata_and_the_extension_types_that_it_can(tmp_path: Path) -> None:
    fields = [
        pa.field("j", pa.json_(pa.string()), metadata={"of": "j"}),
        pa.field("u", pa.uuid(), metadata={"of": "u"}),
        pa.field("b", pa.bool8()),
        pa.field("s", pa.struct([pa.field("x", pa.int64(), metadata={"unit": "m"})]), metadata={"a": "b"}),
        pa.field("v", pa.string(), metadata={"orc.type": "varchar(9)", "note": "short"}),
    ]
    columns = [['{"a": 1}', None], [b"\x01" * 16, None], [1, 0], [{"x": 1}, None], ["a", "b"]]
    arrays = [
        pa.array(values, field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type)
        for values, field in zip(columns, fields, strict=True)
    ]
    schema = pa.schema(fields, {"geo": '{"version": "1.1.0"}', "ä": "🙂"})
    table = pa.table([array.cast(field.type) for array, field in zip(arrays, fields, strict=True)], schema=schema)
    path, again = tmp_path / "a.orc", tmp_path / "b.orc"
    st.write_orc(table, path)
    st.write_orc(st.scan(path), again)
    for made in (path, again):
        found = st.scan(made).to_arrow()
        assert found.schema.metadata == schema.metadata
        assert found.schema.field("j").type == pa.json_(pa.string()) and found.schema.field("b").type == pa.bool8()
        assert found.schema.field("u").type == pa.binary()
        assert found.schema.field("u").metadata == {b"of": b"u"}
        assert found.schema.field("s").metadata == {b"a": b"b"}
        assert found.schema.field("s").type.field("x").metadata == {b"unit": b"m"}
        assert found.schema.field("v").metadata == {b"orc.type": b"varchar(9)", b"note": b"short"}
        assert found["j"].to_pylist() == table["j"].to_pylist()
        assert pa.orc.read_table(made)["s"].to_pylist() == table["s"].to_pylist()
    st.write_parquet(st.scan(again), tmp_path / "c.parquet")
    assert pq.read_schema(tmp_path / "c.parquet").metadata == schema.metadata


def test_seconds_keep_their_zone(tmp_path: Path) -> None:
    """Parquet has no seconds: they become milliseconds, in the written zone."""
    table = pa.table({"t": pa.array([1, None], pa.timestamp("s", "Europe/Oslo"))})
    for write in (pq.write_table, st.write_parquet):
        write(table, tmp_path / "a.parquet")
        assert st.scan(tmp_path / "a.parquet").schema.field("t").type == pa.timestamp("ms", "Europe/Oslo")


# Values that a float64 cannot hold, and the limits of an int64.
WHOLE = [2**53 + 1, None, -(2**53) - 1, 2**63 - 1, -(2**63), 0]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_whole_numbers_of_pandas_stay_exact_beside_nulls(tmp_path: Path, kind: str) -> None:
    write, read = (st.write_parquet, pq.read_table) if kind == "parquet" else (st.write_orc, orc.read_table)
    frame = pd.DataFrame({"n": pd.array(WHOLE, dtype="Int64"), "s": list("abcdef")})
    path, again = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
    write(frame, path)
    write(st.scan(path), again)
    for made in (path, again):
        assert read(made)["n"].to_pylist() == WHOLE
        for memory in ("64MiB", "0B"):
            with st.Cache(memory=memory) as cache:
                scan = st.scan(made, cache=cache)
                assert scan.schema.field("n").type == pa.int64()
                assert scan.to_arrow()["n"].to_pylist() == WHOLE
                found = scan.to_pandas()
                assert found["n"].dtype == "Int64"
                assert [None if value is pd.NA else int(value) for value in found["n"]] == WHOLE
                exact = st.scan(made, filter=st.col("n") == 2**53 + 1, cache=cache).to_pandas()
                assert exact["n"].tolist() == [2**53 + 1] and exact["s"].tolist() == ["a"]
                assert st.scan(made, filter=f"n = {2**53}", cache=cache).count() == 0


NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.float32(), pa.float64()]


def random_files(folder: Path, seed: int) -> list[Path]:
    """Writes two or three files whose columns have compatible types, some of them missing, in any order."""
    chance = random.Random(seed)
    names = chance.sample(["a", "b", "c d", "Ä", "e.f"], 4)
    kinds = [chance.choice(["number", "time", "text", "struct"]) for _ in names]
    types = {
        "number": NUMBERS,
        "time": [pa.timestamp(unit) for unit in ("ms", "us")] + [pa.date32()],
        "text": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
        "struct": [pa.struct({"x": pa.int64()}), pa.struct({"y": pa.string(), "x": pa.int32()})],
    }
    values = {"number": [1, None, 100], "time": [None, 86_400_000, 0], "text": ["x", "", None]}
    paths = []
    for number in range(chance.randint(2, 3)):
        columns = {"id": pa.array([number * 10 + row for row in range(3)])}
        for name, kind in zip(names, kinds, strict=True):
            if chance.random() < 0.75:
                type = chance.choice(types[kind])
                if kind == "struct":
                    some = [{field.name: 3 if field.name == "x" else "y" for field in type}, None]
                    columns[name] = pa.array([*some, some[0]], type)
                elif kind == "time":
                    columns[name] = pa.array(values[kind], pa.timestamp("ms")).cast(type)
                else:
                    columns[name] = pa.array(values[kind]).cast(type)
        order = list(columns)
        chance.shuffle(order)
        paths.append(folder / f"{number}.parquet")
        pq.write_table(pa.table({name: columns[name] for name in order}), paths[-1])
    return paths


def test_files_of_random_schemas_meet_as_duckdb_has_them(tmp_path: Path) -> None:
    for seed in range(150):
        folder = tmp_path / str(seed)
        folder.mkdir()
        random_files(folder, seed)
        found = st.scan(folder).to_arrow().sort_by("id")
        query = f"FROM read_parquet('{folder}/*.parquet', union_by_name = true) ORDER BY id"
        wanted = duckdb.sql(query).to_arrow_table()
        assert set(found.column_names) == set(wanted.column_names)
        for name in found.column_names:
            assert plain(found[name].to_pylist()) == plain(wanted[name].to_pylist()), (seed, name)


def plain(values: list[object]) -> list[str]:
    """Returns values as strings, whatever their unit, width or order of fields."""

    def one(value: object) -> str:
        if isinstance(value, dict):
            return str(sorted((name, one(inner)) for name, inner in value.items() if inner is not None))
        if hasattr(value, "isoformat"):
            return str(value.isoformat())[:10]
        return str(float(value)) if isinstance(value, (int, float)) else str(value)

    return [one(value) for value in values]


def test_files_of_random_schemas_meet_as_polars_has_them(tmp_path: Path) -> None:
    """Polars unifies fewer types: missing or reordered columns, and wider numbers."""
    for seed in range(60):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance = random.Random(seed)
        frames = []
        for number in range(3):
            names = ["id", *chance.sample("abcd", chance.randint(1, 4))]
            frame = pl.DataFrame({name: [number * 2, number * 2 + 1] for name in names})
            frames.append(frame.with_columns(pl.col(names[-1]).cast(chance.choice([pl.Int32, pl.Int64, pl.Float64]))))
            frames[-1].write_parquet(folder / f"{number}.parquet")
        wanted = pl.concat(frames, how="diagonal_relaxed")
        found = st.scan(folder).to_polars()
        assert found.select(wanted.columns).equals(wanted), seed


AWKWARD = "ab.-_ []?*{}()!^~%#&+,;@$'\"\\:|<>ä漢🙂="


def test_files_and_folders_of_any_name_are_found(tmp_path: Path) -> None:
    chance = random.Random(7)
    for count in range(150):
        names = ["".join(chance.choices(AWKWARD, k=chance.randint(1, 9))).strip() for _ in range(2)]
        folder_name, file_name = (name.lstrip("._") or "x" for name in names)
        if "=" in folder_name:
            folder_name = folder_name.replace("=", "-")
        folder = tmp_path / str(count) / folder_name
        folder.mkdir(parents=True)
        path = folder / f"{file_name}.parquet"
        st.write_parquet(pa.table({"n": [count]}), path)
        assert sorted(os.listdir(folder)) == [path.name]
        for place in (path, str(path), folder, tmp_path / str(count)):
            assert st.scan(place).to_arrow()["n"].to_pylist() == [count], place
        assert st.scan(path, glob=False).count() == 1
        assert st.scan(path, filename=True).to_arrow()["filename"].to_pylist() == [str(path)]


def test_values_of_paths_come_back_whatever_is_in_them(tmp_path: Path) -> None:
    chance = random.Random(11)
    for count, write in itertools.product(range(40), (st.write_parquet, st.write_orc)):
        values = [text(chance) if chance.random() < 0.5 else "".join(chance.choices(AWKWARD, k=4)) for _ in range(4)]
        table = pa.table({"n": [1, 2, 3, 4, 5], "day": pa.array([*values, None])})
        folder = tmp_path / f"{write.__name__}-{count}"
        write(table, folder, partition_by="day")
        found = st.scan(folder, partitioning={"day": "string"}).to_arrow().sort_by("n")
        assert found["day"].to_pylist() == [*values, None]
