"""Scan options that define the table: schema, casts, partitions, file names, row numbers, paths."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import pickle
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import stylobate as st


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Files of two days, with different columns and types in each."""
    folder = tmp_path / "days"
    for day, amounts in (("2024-01-01", pa.array([1, 2], pa.int64())), ("2024-01-02", pa.array(["3", "4"]))):
        (folder / f"day={day}").mkdir(parents=True)
        table = pa.table({"id": pa.array([f"{day}/{at}" for at in range(2)]), "amount": amounts})
        pq.write_table(table, folder / f"day={day}" / "part.parquet")
    return folder


def test_columns_are_cast_where_files_do_not_agree(days: Path) -> None:
    with pytest.raises(st.StylobateError, match="amount"):
        st.scan(days)
    table = st.scan(days, casts={"amount": "float64"}).to_arrow()
    assert table.schema.field("amount").type == pa.float64()
    assert table["amount"].to_pylist() == [1.0, 2.0, 3.0, 4.0]
    typed = st.scan(days, casts={"amount": pa.decimal128(9, 2)}, filter="amount >= 2", columns=["amount"]).to_arrow()
    assert typed["amount"].to_pylist() == [decimal.Decimal(f"{at}.00") for at in (2, 3, 4)]
    assert st.scan(days, casts={"amount": "string"}, filter="amount = '3'").count() == 1


def test_a_value_that_a_type_does_not_hold_is_an_error(tmp_path: Path) -> None:
    table = pa.table(
        {
            "f": [1.0, 2.5],
            "t": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 5)], pa.timestamp("us")),
            "d": pa.array([decimal.Decimal("1.00"), decimal.Decimal("1.25")]),
            "s": ["1", "x"],
            "i": [1, 300],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    casts = {"f": "int64", "t": "date", "d": "decimal(5, 1)", "s": "int32", "i": "int8"}
    for column, to in casts.items():
        scan = st.scan(tmp_path / "t.parquet", columns=[column], casts={column: to})
        with pytest.raises(st.StylobateError, match=f"column {column}"):
            scan.to_arrow()
    for column in ("i", "f"):
        with pytest.raises(st.StylobateError, match=f"column {column}.*not exactly a Boolean"):
            st.scan(tmp_path / "t.parquet", columns=[column], casts={column: "bool"}).to_arrow()
    with pytest.raises(st.ColumnNotFoundError, match="no column g"):
        st.scan(tmp_path / "t.parquet", casts={"g": "int64"})
    with pytest.raises(ValueError, match='no type "interger"'):
        st.scan(tmp_path / "t.parquet", casts={"i": "interger"})


def test_zero_and_one_are_cast_to_booleans(tmp_path: Path) -> None:
    pq.write_table(pa.table({"i": [1, 0, None], "f": [0.0, 1.0, None]}), tmp_path / "t.parquet")
    found = st.scan(tmp_path / "t.parquet", casts={"i": "bool", "f": "bool"}).to_arrow()
    assert found.to_pydict() == {"i": [True, False, None], "f": [False, True, None]}


def test_bounds_of_other_types_hide_no_rows_of_a_cast_column(tmp_path: Path) -> None:
    numbers = [str(number) for number in (9, 10, 100, 11)]
    pq.write_table(pa.table({"n": numbers}), tmp_path / "t.parquet", row_group_size=2)
    for condition, expected in (("n > 50", [100]), ("n < 10", [9]), ("n >= 10 AND n <= 11", [10, 11])):
        found = st.scan(tmp_path / "t.parquet", casts={"n": "int64"}, filter=condition).to_arrow()
        assert found["n"].to_pylist() == expected, condition


def test_a_schema_names_all_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"], "c": [0, 0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["z"]}), tmp_path / "2.parquet")
    schema = pa.schema({"b": pa.large_string(), "new": pa.float32(), "a": pa.int64()})
    table = st.scan(tmp_path, schema=schema).to_arrow()
    assert table.schema.names == ["b", "new", "a"]
    assert table.schema.types == schema.types
    assert table.to_pydict() == {"b": ["x", "y", "z"], "new": [None] * 3, "a": [1, 2, None]}
    assert st.scan(tmp_path, schema={"a": "int64", "b": "string"}, filter="a = 2").to_arrow()["b"].to_pylist() == ["y"]
    coded = st.scan(tmp_path, schema={"b": pa.dictionary(pa.int32(), pa.string())}).to_arrow()
    assert coded.schema.types == [pa.dictionary(pa.int32(), pa.string())]
    with pytest.raises(ValueError, match="union_by_name"):
        st.scan(tmp_path, union_by_name=False)


def test_partitions_have_the_types_that_are_given(tmp_path: Path) -> None:
    for year in ("2023", "2024"):
        (tmp_path / f"year={year}" / "code=007").mkdir(parents=True)
        pq.write_table(pa.table({"x": [int(year)]}), tmp_path / f"year={year}" / "code=007" / "p.parquet")
    inferred = st.scan(tmp_path).to_arrow()
    assert inferred.schema.types == [pa.int64(), pa.int64(), pa.string()]
    given = st.scan(tmp_path, partitioning={"year": "string", "code": "int16"}).to_arrow()
    assert given["year"].to_pylist() == ["2023", "2024"]
    assert given["code"].to_pylist() == [7, 7]
    assert st.scan(tmp_path, partitioning=None).to_arrow().schema.names == ["x"]
    with pytest.raises(st.StylobateError, match="year"):
        st.scan(tmp_path, partitioning={"year": "date"}).to_arrow()
    schema = pa.schema({"year": pa.string(), "code": pa.int16()})
    hive = pa.dataset.partitioning(schema, flavor="hive")
    for partitioning in (schema, hive):
        scan = st.scan(tmp_path, partitioning=partitioning)
        assert scan.to_arrow() == given
        assert pickle.loads(pickle.dumps(scan)).to_arrow() == given
    assert st.scan(tmp_path, partitioning=pa.dataset.partitioning(flavor="hive")).to_arrow() == inferred
    with pytest.raises(ValueError, match="partitioning"):
        st.scan(tmp_path, partitioning="directory")  # type: ignore[arg-type]
    with pytest.raises(st.ConfigError, match="column foo: no such partition column; available: year, code"):
        st.scan(tmp_path, partitioning={"foo": "int8"}, filename=True)
    with pytest.raises(st.ConfigError, match="column year: no such partition column: the paths have none"):
        st.scan(tmp_path / "year=2023" / "code=007" / "p.parquet", partitioning={"year": "int8"})
    for other in (["year"], 5, pa.dataset.partitioning(schema), pa.dataset.partitioning(field_names=["year"])):
        with pytest.raises(TypeError, match="^partitioning: give 'hive', a dictionary of types, a pyarrow schema"):
            st.scan(tmp_path, partitioning=other)


def test_rows_say_which_file_they_are_from_and_their_number(tmp_path: Path) -> None:
    for name, rows in (("a", 5), ("b", 4)):
        pq.write_table(pa.table({"x": range(rows)}), tmp_path / f"{name}.parquet", row_group_size=2)
    a, b = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    for memory in ("64MiB", "0B"):
        cache = st.Cache(memory=memory)
        scan = st.scan(tmp_path, filename=True, file_row_number="row", cache=cache)
        assert scan.to_arrow().to_pydict() == {
            "x": [*range(5), *range(4)],
            "filename": [a] * 5 + [b] * 4,
            "row": [*range(5), *range(4)],
        }
        some = st.scan(tmp_path, filename=True, file_row_number=True, filter="x >= 3 OR file_row_number = 0", cache=cache)
        assert some.to_arrow()["file_row_number"].to_pylist() == [0, 3, 4, 0, 3]
        assert st.scan(tmp_path, filename=True, filter=st.col("filename") == b, cache=cache).count() == 4
    expected = duckdb.sql(
        f"SELECT filename, file_row_number, x FROM read_parquet('{tmp_path}/*.parquet', filename=true, "
        "file_row_number=true) WHERE x % 2 = 1 ORDER BY ALL"
    ).fetchall()
    found = st.scan(tmp_path, filename=True, file_row_number=True, filter="x = 1 OR x = 3").to_arrow()
    rows = sorted(zip(*(found[name].to_pylist() for name in ("filename", "file_row_number", "x")), strict=True))
    assert rows == expected
    pq.write_table(pa.table({"filename": ["x"]}), tmp_path / "c.parquet")
    with pytest.raises(st.ConfigError, match="filename"):
        st.scan(tmp_path, filename=True)
    with pytest.raises(st.ConfigError, match="both columns would have the name 'x'"):
        st.scan(tmp_path / "c.parquet", filename="x", file_row_number="x")
    assert st.scan(tmp_path / "c.parquet", filename="path").to_arrow().schema.names == ["filename", "path"]


def test_files_of_a_folder_are_told_by_their_bytes(tmp_path: Path) -> None:
    names = ["000000_0", "part-0.snappy.parquet", "x.gzip", "C.PARQUET", "d.parquet.gz", "e"]
    for at, name in enumerate(names):
        pq.write_table(pa.table({"x": [at]}), tmp_path / name)
    for other in ("README.md", "_SUCCESS", ".part.crc", "_metadata.json", "notes"):
        (tmp_path / other).write_text("PARquet is not what this file holds")
    (tmp_path / "_temporary").mkdir()
    shutil.copy(tmp_path / "e", tmp_path / "_temporary" / "f.parquet")
    assert sorted(st.scan(tmp_path).to_arrow()["x"].to_pylist()) == list(range(len(names)))


@pytest.mark.parametrize("name", ["0000", "x.parquet"])
def test_a_file_without_its_end_is_damaged_and_not_left_out(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"x": range(100)}), tmp_path / "good.parquet")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(st.CorruptFileError, match="its footer is missing"):
        st.scan(tmp_path)


def test_text_that_begins_as_orc_does_is_no_orc_file(tmp_path: Path) -> None:
    st.write_orc(pa.table({"x": range(1_000)}), tmp_path / "good.orc")
    whole = (tmp_path / "good.orc").read_bytes()
    for name, text in (("notes", "ORCHARD notes\n"), ("apples.txt", "ORC"), ("ü", "ORC" + "ü" * 1_000)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert st.scan(tmp_path).count() == 1_000
    for name, damaged in (("0000", whole[: len(whole) // 2]), ("x.orc", b"ORCHARD notes")):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(st.CorruptFileError, match="begins as ORC and its footer is missing"):
            st.scan(tmp_path)
        (tmp_path / name).unlink()


def test_a_folder_without_such_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n2\n3\n")
    with pytest.raises(st.StylobateError, match="neither a Parquet nor an ORC file: scan_csv, scan_json"):
        st.scan(tmp_path)


@pytest.mark.parametrize("name", ["a[1]", "b*", "c?", "year=*", "d {x}", "e%20f", "g~", "h#i", "ü", "**"])
def test_what_exists_is_a_path_and_no_pattern(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / f"{name}.parquet")
    for other in ("a1", "bx", "cx", "year=1"):
        (tmp_path / other).mkdir()
        pq.write_table(pa.table({"x": [2]}), tmp_path / other / "a1.parquet")
    for path in (folder, folder / f"{name}.parquet", f"{folder}/"):
        assert st.scan(path, columns=["x"]).to_arrow()["x"].to_pylist() == [1], path
        assert st.scan(path, columns=["x"], glob=False).to_arrow()["x"].to_pylist() == [1], path


@pytest.mark.parametrize("name", ["br[1]", "c?", "d*", "**"])
def test_a_folder_that_exists_is_no_pattern_on_the_way_to_one(tmp_path: Path, name: str) -> None:
    for folder, x in ((name, 1), ("br1", 2), ("cx", 2), ("dx", 2)):
        for year in (2023, 2024):
            path = tmp_path / folder / f"year={year}"
            path.mkdir(parents=True)
            pq.write_table(pa.table({"x": [x]}), path / "a.parquet")
    for pattern in ("year=*", "*/*.parquet", "**", "year=202[34]"):
        table = st.scan(tmp_path / name / pattern, dictionary=False).to_arrow()
        assert table.to_pydict() == {"x": [1, 1], "year": [2023, 2024]}, pattern
    # What matches nothing below the folder is a pattern as a whole.
    shutil.rmtree(tmp_path / name / "year=2024")
    if name != "**":
        assert st.scan(tmp_path / name / "year=2024*", columns=["x"]).to_arrow()["x"].to_pylist() == [2]


CONTROL = ["a\nb.parquet", "\x01.parquet", "t\tab", "del\x7f.parquet"]


def test_files_with_control_characters_in_their_names_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "nl"
    (folder / "d\ne=1").mkdir(parents=True)
    for number, name in enumerate(CONTROL):
        st.write_parquet(pa.table({"x": [number]}), folder / "d\ne=1" / name)
    (folder / ".hidden\n").write_text("x")
    (folder / "_hidden\n").write_text("x")
    assert sorted(st.scan(folder).to_arrow()["x"].to_pylist()) == [0, 1, 2, 3]
    assert st.scan(folder).schema.names == ["x", "d\ne"]
    for number, name in enumerate(CONTROL):
        path = folder / "d\ne=1" / name
        for given in (path, f"{path.parent}/{name[:1]}*"):
            table = st.scan(given, filename=True).to_arrow()
            assert table["x"].to_pylist() == [number], given
            assert table["filename"].to_pylist() == [str(path)]
    (folder / "n\n.csv").write_text("x\n7\n")
    assert st.scan_csv(folder / "n\n.csv").to_arrow()["x"].to_pylist() == [7]


def test_a_name_that_is_not_utf_8_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    data = (tmp_path / "b.parquet").read_bytes()
    root = os.fsencode(tmp_path)
    for hidden in (b".h\xff", b"_h\xff"):
        Path(os.fsdecode(root + b"/" + hidden)).write_bytes(data)
    assert st.scan(tmp_path).count() == 1

    for name in (b"c\xff.parquet", b"d\xff/x.parquet"):
        wrong = Path(os.fsdecode(root + b"/" + name))
        wrong.parent.mkdir(exist_ok=True)
        wrong.write_bytes(data)
        for source in (tmp_path, f"{tmp_path}/**/*.parquet", f"{tmp_path}/{'*/' * name.count(b'/')}*.parquet"):
            with pytest.raises(st.ConfigError, match="is not UTF-8: rename it") as refused:
                st.scan(source)
            assert f"{tmp_path}/{name[:1].decode()}\ufffd" in str(refused.value)
            assert "\n" not in str(refused.value)
        assert st.scan(f"{tmp_path}/b*").count() == 1
        wrong.unlink()
        if wrong.parent != tmp_path:
            wrong.parent.rmdir()


def test_wildcards_are_off_where_they_are_not_wanted(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "year=2024" / "p.parquet")
    assert st.scan(f"{tmp_path}/year=*").to_arrow().to_pydict() == {"x": [1], "year": [2024]}
    with pytest.raises(st.NotFoundError):
        st.scan(f"{tmp_path}/year=*", glob=False)
