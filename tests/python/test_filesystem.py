"""The fsspec file system: listings, reads, and libraries that use it."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle

CONTENT = bytes(range(256)) * 12_000


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "top.bin").write_bytes(CONTENT)
    for part in range(3):
        pq.write_table(pa.table({"x": [part], "s": ["text"]}), tmp_path / "a" / f"{part}.parquet")
    (tmp_path / "b" / "c" / "deep.csv").write_text("x,y\n1,2\n3,4\n")
    settle(*(path for path in tmp_path.rglob("*") if path.is_file()))
    return tmp_path


@pytest.fixture
def fs(lake: Path, cache: st.Cache) -> st.StylobateFileSystem:
    return st.StylobateFileSystem(str(lake), cache=cache)


def test_folders_are_listed(fs: st.StylobateFileSystem) -> None:
    assert fs.ls("", detail=False) == ["a", "b", "top.bin"]
    assert fs.ls("a", detail=False) == ["a/0.parquet", "a/1.parquet", "a/2.parquet"]
    assert fs.ls("/b/c/", detail=False) == ["b/c/deep.csv"]
    assert fs.ls("top.bin", detail=False) == ["top.bin"]
    assert fs.find("") == ["a/0.parquet", "a/1.parquet", "a/2.parquet", "b/c/deep.csv", "top.bin"]
    assert fs.glob("a/*.parquet") == ["a/0.parquet", "a/1.parquet", "a/2.parquet"]
    with pytest.raises(FileNotFoundError):
        fs.ls("none")


def test_info_tells_files_from_folders(fs: st.StylobateFileSystem) -> None:
    info = fs.info("top.bin")
    assert (info["type"], info["size"], info["name"]) == ("file", len(CONTENT), "top.bin")
    assert info["etag"]
    age = datetime.datetime.now(datetime.timezone.utc) - fs.modified("top.bin")
    assert 9 < age.total_seconds() < 60
    assert fs.isdir("b") and fs.isdir("b/c") and fs.isdir("") and fs.isfile("b/c/deep.csv")
    assert not fs.exists("none") and not fs.exists("a/none")
    assert fs.ukey("top.bin") == fs.ukey("top.bin")
    with pytest.raises(st.NotFoundError, match="none"):
        fs.info("none")


def test_files_are_read_anywhere(fs: st.StylobateFileSystem, cache: st.Cache) -> None:
    assert fs.cat_file("top.bin") == CONTENT
    assert fs.cat_file("top.bin", 5, 9) == CONTENT[5:9]
    assert fs.cat_file("top.bin", -7) == CONTENT[-7:]
    assert fs.cat_file("top.bin", 10, 5) == b""
    assert fs.cat_file("top.bin", 0, 10**12) == CONTENT
    with fs.open("top.bin") as file:
        assert file.read(3) == CONTENT[:3]
        assert file.seek(-5, 2) == len(CONTENT) - 5
        assert file.read() == CONTENT[-5:]
        assert file.seek(2_000_000) == 2_000_000
        assert file.read(100_000) == CONTENT[2_000_000:2_100_000]
        assert file.read(10**9) == CONTENT[2_100_000:]
        assert file.read() == b""
    pages = cache.stats()["pages"]
    assert pages["misses"] <= 3, "three pages, each fetched once"
    assert pages["memory_hits"] > 0


def test_several_ranges_come_back_in_order_and_errors_in_their_place(fs: st.StylobateFileSystem) -> None:
    read = fs.cat_ranges(["top.bin", "none", "top.bin", "b/c/deep.csv"], [10, 0, 0, None], [20, 1, 3, 3])
    assert read[0] == CONTENT[10:20]
    assert isinstance(read[1], st.NotFoundError)
    assert read[2:] == [CONTENT[:3], b"x,y"]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["none"], 0, 1, on_error="raise")


def test_an_open_file_is_of_one_version(fs: st.StylobateFileSystem, lake: Path) -> None:
    (lake / "big.bin").write_bytes(CONTENT)
    settle(lake / "big.bin")
    with fs.open("big.bin") as file:
        file.read(10)
        (lake / "other.bin").write_bytes(CONTENT[::-1])
        (lake / "other.bin").rename(lake / "big.bin")
        file.seek(2 << 20)
        with pytest.raises(st.ObjectChangedError):
            file.read(10)


def test_nothing_can_be_written(fs: st.StylobateFileSystem) -> None:
    with pytest.raises(NotImplementedError):
        fs.open("new", "wb")


def test_pandas_reads_through_it(fs: st.StylobateFileSystem, lake: Path) -> None:
    assert pd.read_parquet("a", filesystem=fs)["x"].tolist() == [0, 1, 2]
    with fs.open("b/c/deep.csv") as file:
        assert pd.read_csv(file)["y"].tolist() == [2, 4]
    for options in ({"root": str(lake)}, {"root": lake}, {"url": str(lake)}):
        assert pd.read_csv("stylobate://b/c/deep.csv", storage_options=options)["x"].tolist() == [1, 3]


@pytest.mark.parametrize("name", ["a/1.parquet", "a"])
def test_pandas_reads_parquet_by_url(lake: Path, name: str) -> None:
    frame = pd.read_parquet(f"stylobate://{name}", storage_options={"root": str(lake)})
    assert frame["x"].tolist() == ([1] if "." in name else [0, 1, 2])


def test_pandas_reads_parquet_through_a_node(lake: Path) -> None:
    with st.Node({"lake": lake}) as node:
        store = {
            "endpoint": node.s3_endpoint,
            "allow_http": True,
            "access_key_id": "a",
            "secret_access_key": "b",
            "region": "us-east-1",
        }
        options = {"root": "s3://lake", "storage_options": store}
        assert pd.read_parquet("stylobate://a", storage_options=options)["x"].tolist() == [0, 1, 2]
        assert node.stats()["buckets"]["lake"]["bytes_origin"] > 0


def test_duckdb_and_polars_read_through_it(fs: st.StylobateFileSystem, lake: Path) -> None:
    with duckdb.connect() as con:
        con.register_filesystem(fs)
        query = "SELECT list(x ORDER BY x) FROM read_parquet('stylobate://a/*.parquet')"
        assert con.sql(query).fetchone() == ([0, 1, 2],)
    with fs.open("a/2.parquet") as file:
        assert pl.read_parquet(file)["x"].to_list() == [2]


def test_a_file_system_is_pickled_without_its_cache(fs: st.StylobateFileSystem) -> None:
    again = pickle.loads(pickle.dumps(fs))
    assert again.ls("a", detail=False) == fs.ls("a", detail=False)
    assert again.cat_file("top.bin", 0, 3) == CONTENT[:3]


def test_a_file_system_needs_a_root() -> None:
    with pytest.raises(st.ConfigError, match="^root: "):
        st.StylobateFileSystem()


def test_pyarrow_reads_through_it(fs: st.StylobateFileSystem) -> None:
    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    assert ds.dataset("a", filesystem=arrow, exclude_invalid_files=True).to_table().num_rows == 3
    assert pq.read_table("a/1.parquet", filesystem=arrow)["x"].to_pylist() == [1]
    assert arrow.get_file_info("none").type == pyarrow.fs.FileType.NotFound


def test_fsspec_knows_the_protocol(lake: Path) -> None:
    assert fsspec.get_filesystem_class("stylobate") is st.StylobateFileSystem
    for options in ({"root": str(lake)}, {"url": str(lake)}):
        with fsspec.open("stylobate://top.bin", **options) as file:
            assert file.read(4) == CONTENT[:4]
    found, path = fsspec.core.url_to_fs("stylobate://top.bin", root=str(lake))
    assert (found.size(path), path) == (len(CONTENT), "top.bin")
