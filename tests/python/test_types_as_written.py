"""Columns are read back with the types, dictionaries and metadata that they were written with."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stylobate as st

CATEGORIES = ["winter", "spring", "summer", "autumn", "never"]


def repeated(count: int = 3_000) -> pa.Table:
    """Returns columns of strings, some of which repeat, and of dictionaries."""
    seasons = [CATEGORIES[at % 4] if at % 7 else None for at in range(count)]
    codes = pa.array([at % 4 if at % 7 else None for at in range(count)], pa.int8())
    return pa.table(
        {
            "text": pa.array(seasons),
            "large": pa.array(seasons, pa.large_string()),
            "bytes": pa.array([None if season is None else season.encode() for season in seasons], pa.binary()),
            "unique": pa.array([f"row {at} of a table" for at in range(count)]),
            "coded": pa.DictionaryArray.from_arrays(codes, pa.array(CATEGORIES)),
            "ordered": pa.DictionaryArray.from_arrays(codes, pa.array(CATEGORIES), ordered=True),
            "wide": pa.DictionaryArray.from_arrays(codes.cast(pa.uint32()), pa.array(CATEGORIES)),
        }
    )


def test_strings_are_strings_and_dictionaries_are_dictionaries(tmp_path: Path) -> None:
    table = repeated()
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1_000)
    scan = st.scan(tmp_path / "t.parquet", cache=st.Cache(memory="64MiB"))
    for _ in range(2):
        read = scan.to_arrow()
        assert read.schema.types == table.schema.types
        assert read.field("ordered").type.ordered
        assert read.to_pylist() == table.to_pylist()
    filtered = st.scan(tmp_path / "t.parquet", filter="coded = 'spring'", columns=["text", "ordered"]).to_arrow()
    assert filtered.schema.types == [pa.string(), table.schema.field("ordered").type]
    assert set(filtered["ordered"].to_pylist()) == {"spring"}


def test_they_are_so_without_memory_for_whole_columns(tmp_path: Path) -> None:
    table = repeated()
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1_000)
    read = st.scan(tmp_path / "t.parquet", cache=st.Cache(memory="0B")).to_arrow()
    assert read.schema.types == table.schema.types
    assert read.to_pylist() == table.to_pylist()


def test_keys_that_are_too_narrow_for_a_row_group_cut_batches(tmp_path: Path) -> None:
    parts = []
    for part in range(5):
        values = pa.array([f"{part}-{at}" for at in range(100)])
        parts.append(pa.table({"c": pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), values)}))
    table = pa.concat_tables(parts)
    pq.write_table(table, tmp_path / "t.parquet")
    for memory in ("64MiB", "0B"):
        batches = list(st.scan(tmp_path / "t.parquet", cache=st.Cache(memory=memory)).batches())
        assert all(batch.schema.field("c").type == pa.dictionary(pa.int8(), pa.string()) for batch in batches)
        assert [value for batch in batches for value in batch["c"].to_pylist()] == table["c"].to_pylist()


def test_files_that_differ_in_it_give_strings(tmp_path: Path) -> None:
    table = repeated(10)
    pq.write_table(table.select(["coded", "ordered"]), tmp_path / "a.parquet")
    plain = table.select(["coded", "ordered"]).cast(pa.schema({"coded": pa.string(), "ordered": pa.string()}))
    pq.write_table(plain, tmp_path / "b.parquet")
    read = st.scan(tmp_path).to_arrow()
    assert read.schema.types == [pa.string(), pa.string()]
    assert read.to_pylist() == plain.to_pylist() * 2


def test_nested_dictionaries_stay(tmp_path: Path) -> None:
    coded = pa.dictionary(pa.int32(), pa.string())
    table = pa.table(
        {
            "list": pa.array([["a", "b"], None, ["a", None]], pa.list_(coded)),
            "struct": pa.array([{"d": "x", "i": 1}, None, {"d": "y", "i": 2}], pa.struct({"d": coded, "i": pa.int8()})),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    read = st.scan(tmp_path / "t.parquet").to_arrow()
    assert pa.types.is_dictionary(read.schema.field("list").type.value_type)
    assert read.to_pylist() == table.to_pylist()
    part = st.scan(tmp_path / "t.parquet", columns=["struct.d"]).to_arrow()
    assert part.to_pylist() == [{"struct": {"d": "x"}}, {"struct": None}, {"struct": {"d": "y"}}]


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_nested_keys_stay_narrow_and_cut_batches(tmp_path: Path, memory: str) -> None:
    coded = pa.dictionary(pa.int8(), pa.string())
    rows = [[f"{part}-{at}", None] for part in range(5) for at in range(100)]
    lists = [pa.array(rows[100 * part : 100 * part + 100], pa.list_(coded)) for part in range(5)]
    table = pa.table({"list": pa.chunked_array(lists)})
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    scan = st.scan(tmp_path / "t.parquet", cache=st.Cache(memory=memory))
    read = scan.to_arrow()
    assert read.schema.field("list").type.value_type == coded
    assert read["list"].to_pylist() == rows
    st.write_parquet(scan, tmp_path / "again.parquet")
    assert st.scan(tmp_path / "again.parquet").to_arrow()["list"].to_pylist() == rows


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_strings_come_as_views(tmp_path: Path, memory: str) -> None:
    table = repeated()
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1_000)
    scan = st.scan(tmp_path / "t.parquet", strings="view", cache=st.Cache(memory=memory))
    views = {"text": pa.string_view(), "large": pa.string_view(), "bytes": pa.binary_view(), "unique": pa.string_view()}
    read = scan.to_arrow()
    assert {name: read.schema.field(name).type for name in views} == views
    assert read.schema.field("ordered").type == table.schema.field("ordered").type
    assert read.to_pylist() == table.to_pylist()
    read.validate(full=True)
    assert st.scan(tmp_path / "t.parquet", strings="view").to_polars()["text"].to_list() == table["text"].to_pylist()
    with pytest.raises(ValueError, match='give "view" or None'):
        st.scan(tmp_path / "t.parquet", strings="views")  # type: ignore[arg-type]


def test_polars_gets_strings_as_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = repeated().select(["text", "large", "bytes", "unique"])
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1_000)
    st.write_orc(table, tmp_path / "t.orc")
    frames = pl.DataFrame
    schemas: list[pa.Schema] = []

    def recording(batches: Any) -> pl.DataFrame:
        schemas.append(pa.schema(batches.schema))
        return frames(batches)

    monkeypatch.setattr(pl, "DataFrame", recording)
    for name in ("t.parquet", "t.orc"):
        assert st.scan(tmp_path / name).to_polars().to_dict(as_series=False) == table.to_pydict()
        read = schemas.pop()
        assert read.field("text").type == pa.string_view() and read.field("bytes").type == pa.binary_view()


def test_writing_a_scan_writes_the_types_that_came_in(tmp_path: Path) -> None:
    table = repeated().replace_schema_metadata({"geo": "{}", "owner": "me"})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=1_000)
    scan = st.scan(tmp_path / "in.parquet")
    st.write_parquet(scan, tmp_path / "out.parquet")
    read = pq.read_table(tmp_path / "out.parquet")
    assert read.to_pylist() == table.to_pylist()
    for name in ("text", "large", "bytes", "unique"):
        assert read.schema.field(name).type == table.schema.field(name).type
    for name in ("coded", "ordered"):
        assert pa.types.is_dictionary(read.schema.field(name).type)
    assert read.schema.field("ordered").type.ordered
    assert {b"geo", b"owner"} <= set(read.schema.metadata)
    stored = pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0)
    assert "RLE_DICTIONARY" in stored.encodings or "PLAIN_DICTIONARY" in stored.encodings
    st.write_orc(scan, tmp_path / "out.orc")
    assert st.scan(tmp_path / "out.orc").to_arrow()["text"].to_pylist() == table["text"].to_pylist()


def test_a_column_may_stop_to_be_codes_half_way(tmp_path: Path) -> None:
    few = pa.table({"s": pa.array(["a", "b"] * 500)})
    many = pa.table({"s": pa.array([f"{at} is a value of its own" for at in range(1_000)])})
    pq.write_table(few, tmp_path / "0.parquet")
    pq.write_table(many, tmp_path / "1.parquet", use_dictionary=False)
    pq.write_table(few, tmp_path / "2.parquet")
    st.write_parquet(st.scan(tmp_path), tmp_path / "out.pq")
    read = pq.read_table(tmp_path / "out.pq")
    assert read.schema.field("s").type == pa.string()
    assert read["s"].to_pylist() == [*few["s"].to_pylist(), *many["s"].to_pylist(), *few["s"].to_pylist()]


def random_frame(rng: random.Random) -> pd.DataFrame:
    """Returns a frame of random columns, index and names."""
    rows = rng.choice([0, 1, 7, 300])
    none = rng.random() < 0.5

    def some(make: Any) -> list[Any]:
        return [None if none and rng.random() < 0.2 else make() for _ in range(rows)]

    makers: list[Any] = [
        lambda: pd.array(some(lambda: rng.randrange(-100, 100)), dtype="Int64"),
        lambda: pd.array(some(lambda: rng.random() < 0.5), dtype="boolean"),
        lambda: pd.array(some(lambda: rng.choice("abc")), dtype="string"),
        lambda: pd.Categorical(some(lambda: rng.choice(CATEGORIES)), CATEGORIES, ordered=rng.random() < 0.5),
        lambda: np.array([rng.random() for _ in range(rows)], dtype=rng.choice(["float64", "float32"])),
        lambda: np.array([rng.randrange(-100, 100) for _ in range(rows)], dtype=rng.choice(["int8", "int64"])),
        lambda: pd.Series(some(lambda: rng.choice(["x", "yy", ""])), dtype=object),
        lambda: pd.to_datetime(pd.Series([dt.datetime(2024, 1, 1 + rng.randrange(28)) for _ in range(rows)])),
        lambda: pd.to_timedelta(pd.Series([rng.randrange(10_000) for _ in range(rows)]), unit="s"),
        lambda: pd.Series(some(lambda: dt.date(2020, 1, 1 + rng.randrange(28))), dtype=object),
    ]
    columns = {f"c{at}": rng.choice(makers)() for at in range(rng.randrange(1, 6))}
    frame = pd.DataFrame(columns)
    match rng.randrange(4):
        case 0:
            frame.index = pd.Index([f"key {at}" for at in range(rows)], name=rng.choice([None, "key"]))
        case 1:
            frame.index = pd.RangeIndex(5, 5 + 2 * rows, 2, name="n")
        case 2 if rows:
            frame.index = pd.MultiIndex.from_arrays([range(rows), ["x"] * rows], names=["a", None])
    return frame


@pytest.mark.parametrize("seed", range(400))
def test_frames_of_pandas_come_back_as_pyarrow_gives_them(tmp_path: Path, seed: int) -> None:
    frame = random_frame(random.Random(seed))
    frame.to_parquet(tmp_path / "in.parquet")
    expected = pd.read_parquet(tmp_path / "in.parquet")
    pd.testing.assert_frame_equal(st.scan(tmp_path / "in.parquet").to_pandas(), expected)
    st.write_parquet(st.scan(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), expected)
    pd.testing.assert_frame_equal(st.scan(tmp_path / "out.parquet").to_pandas(), expected)


def test_categories_come_back_without_rows(tmp_path: Path) -> None:
    categories = ["low", "mid", "high"]
    frame = pd.DataFrame({"p": pd.Categorical(["low", "high"], categories, ordered=True), "n": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    for memory in ("64MiB", "0B"):
        scan = st.scan(tmp_path / "t.parquet", cache=st.Cache(memory=memory))
        for empty in (scan.filter("p = 'zzz'"), scan.filter("n > 9"), scan.limit(0), scan.filter("n > 9").select("p")):
            found = empty.to_pandas()
            assert (len(found), list(found["p"].cat.categories), found["p"].cat.ordered) == (0, categories, True)
    expected = pd.read_parquet(tmp_path / "t.parquet", filters=[("p", "==", "zzz")])
    pd.testing.assert_frame_equal(st.scan(tmp_path / "t.parquet", filter="p = 'zzz'").to_pandas(), expected)


FLAVOURS = pl.Enum(["sweet", "sour", "never"])


@pytest.mark.parametrize("options", [{}, {"dictionary": True}, {"dictionary": False}, {"row_group_size": 100}])
def test_categoricals_and_enums_of_polars_are_written_as_such(tmp_path: Path, options: dict[str, Any]) -> None:
    flavours = ["sweet", "sour", None] * 100
    schema: dict[str, Any] = {
        "enum": FLAVOURS,
        "categorical": pl.Categorical,
        "list": pl.List(FLAVOURS),
        "lists": pl.List(pl.List(pl.Categorical)),
        "struct": pl.Struct({"e": FLAVOURS, "c": pl.Categorical}),
    }
    columns = {
        "enum": flavours,
        "categorical": flavours,
        "list": [[flavour, "sour"] for flavour in flavours],
        "lists": [[[flavour], []] for flavour in flavours],
        "struct": [{"e": flavour, "c": flavour} for flavour in flavours],
    }
    frame = pl.DataFrame(columns, schema=schema)
    path, again = tmp_path / "a.parquet", tmp_path / "again.parquet"
    st.write_parquet(frame, path, **options)
    st.write_parquet(st.scan(path), again, **options)
    for made in (path, again):
        read = pl.read_parquet(made)
        assert read.schema == frame.schema
        assert read.rows() == frame.rows()
        scanned = st.scan(made).to_polars()
        assert scanned.schema == frame.schema
        assert scanned.rows() == frame.rows()
        enum = pq.read_schema(made).field("enum").type
        assert (enum.value_type, enum.ordered) == (pa.string(), True)
        assert pq.read_table(made).to_pylist() == frame.to_arrow().to_pylist()


def test_dictionaries_of_views_are_written_as_dictionaries(tmp_path: Path) -> None:
    codes = pa.array([0, 1, None, 0], pa.int32())
    values = {"text": pa.array(["a", "b"], pa.string_view()), "bytes": pa.array([b"a", b"b"], pa.binary_view())}
    table = pa.table({name: pa.DictionaryArray.from_arrays(codes, of) for name, of in values.items()})
    st.write_parquet(table, tmp_path / "t.parquet")
    wanted = [pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.binary())]
    for read in (pq.read_table(tmp_path / "t.parquet"), st.scan(tmp_path / "t.parquet").to_arrow()):
        assert read.schema.types == wanted
        assert read.to_pylist() == table.to_pylist()


def test_categoricals_of_polars_come_back(tmp_path: Path) -> None:
    frame = pl.DataFrame({"c": ["a", "b", None, "a"], "s": ["x", "y", "z", None]})
    frame = frame.with_columns(pl.col("c").cast(pl.Categorical))
    frame.write_parquet(tmp_path / "p.parquet")
    read = st.scan(tmp_path / "p.parquet").to_polars()
    assert read.schema == frame.schema
    assert read.rows() == frame.rows()


def test_list_views_stay(tmp_path: Path) -> None:
    rows = [[1, None], None, [], [2]]
    table = pa.table(
        {
            "view": pa.array(rows, pa.list_view(pa.int32())),
            "large": pa.array(rows, pa.large_list_view(pa.int64())),
            "plain": pa.array(rows, pa.list_(pa.int32())),
        }
    )
    st.write_parquet(table, tmp_path / "a.parquet")
    st.write_parquet(st.scan(tmp_path / "a.parquet"), tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        read = st.scan(tmp_path / name).to_arrow()
        assert [type_.id for type_ in read.schema.types] == [type_.id for type_ in table.schema.types]
        assert read.to_pylist() == table.to_pylist()
        read.validate(full=True)
    assert st.scan(tmp_path / "b.parquet").to_polars().to_dicts() == table.to_pylist()
    st.write_orc(st.scan(tmp_path / "a.parquet"), tmp_path / "c.orc")
    assert st.scan(tmp_path / "c.orc").to_arrow().to_pylist() == table.to_pylist()
    asked = st.scan(tmp_path / "a.parquet", schema={"view": pa.list_(pa.int32())}).to_arrow()
    assert pa.types.is_list(asked.schema.field("view").type)


def test_metadata_of_the_schema_that_is_given_is_added_to_that_of_the_files(tmp_path: Path) -> None:
    field = pa.field("id", pa.int64(), metadata={"unit": "m", "of": "file"})
    table = pa.table({"id": [1]}, schema=pa.schema([field], metadata={"owner": "file", "kept": "yes"}))
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("id\n1\n")

    given = pa.field("id", pa.int32(), metadata={"of": "caller"})
    schema = pa.schema([given], metadata={"owner": "caller"})
    read = st.scan(tmp_path / "t.parquet", schema=schema).to_arrow().schema
    assert (read.metadata[b"owner"], read.metadata[b"kept"]) == (b"caller", b"yes")
    metadata = read.field("id").metadata
    assert (metadata[b"of"], metadata[b"unit"]) == (b"caller", b"m")

    read = st.scan(tmp_path / "t.csv", schema=schema).to_arrow().schema
    assert read.metadata == {b"owner": b"caller"} and read.field("id").metadata == {b"of": b"caller"}
    types = st.scan(tmp_path / "t.parquet", schema={"id": "int32"}).to_arrow().schema
    assert types.metadata[b"owner"] == b"file" and types.field("id").metadata[b"of"] == b"file"


def test_maps_of_sorted_keys_stay_so(tmp_path: Path) -> None:
    sorted_map = pa.map_(pa.string(), pa.int32(), keys_sorted=True)
    rows = [[("a", 1), ("b", None)], None, []]
    table = pa.table(
        {
            "map": pa.array(rows, sorted_map),
            "list": pa.array([[row] for row in rows], pa.list_(sorted_map)),
            "plain": pa.array(rows, pa.map_(pa.string(), pa.int32())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    st.write_parquet(st.scan(tmp_path / "a.parquet"), tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        scan = st.scan(tmp_path / name)
        read = scan.to_arrow()
        for schema in (read.schema, pa.schema(scan._source.schema), next(iter(scan.batches())).schema):
            assert schema.field("map").type.keys_sorted and schema.field("list").type.value_type.keys_sorted
            assert not schema.field("plain").type.keys_sorted
        assert read.to_pylist() == table.to_pylist()
        read.validate(full=True)
        assert len(pa.RecordBatchReader.from_stream(scan).read_all()) == 3
