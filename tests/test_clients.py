"""pyarrow, Polars and DuckDB through a node: the same rows as without it, and the same bytes on disk."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_httpfs
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import parquet_data
from proxy import Proxy
from servers import ORIGIN_KEY, ORIGIN_SECRET, REGION, Bucket, Node, Origin

ALL = "clients/"


@pytest.fixture(scope="module")
def lake(origin: Origin, table: pa.Table) -> Path:
    """The origin's bucket with `clients/`: one large file, several small ones, and a Hive tree."""
    folder = origin.bucket("lake")
    parquet_data.write(table, folder / ALL / "large.parquet")
    for n in range(6):
        parquet_data.write(parquet_data.mixed_table(5_000, seed=100 + n), folder / ALL / f"parts/part-{n}.parquet")
    for n, day in enumerate(["2024-01-01", "2024-01-02", "2024-02-01"]):
        name = folder / ALL / f"hive/day={day}/region=eu/x.parquet"
        parquet_data.write(parquet_data.mixed_table(3_000, seed=200 + n), name)
    assert (folder / ALL / "large.parquet").stat().st_size > 10 << 20
    return folder


def filesystem(endpoint: str, key: str = "any", secret: str = "any") -> pa.fs.S3FileSystem:
    return pa.fs.S3FileSystem(
        access_key=key,
        secret_key=secret,
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        region=REGION,
    )


@pytest.fixture(scope="module")
def through(node: Node) -> pa.fs.S3FileSystem:
    """pyarrow's file system through the node."""
    return filesystem(node.endpoint)


@pytest.fixture(scope="module")
def direct(origin: Origin) -> pa.fs.S3FileSystem:
    """pyarrow's file system without the node."""
    return filesystem(origin.endpoint, ORIGIN_KEY, ORIGIN_SECRET)


def fetched(node: Node) -> int:
    """Returns the number of GETs that the node has sent to the origin of `lake` so far."""
    return node.origin_requests("lake")[0]


# pyarrow


def test_pyarrow_reads_a_table_and_a_second_time_from_the_cache(
    node: Node, lake: Path, through: pa.fs.S3FileSystem, direct: pa.fs.S3FileSystem, table: pa.Table
) -> None:
    name = f"lake/{ALL}large.parquet"
    assert pq.read_table(name, filesystem=through) == pq.read_table(name, filesystem=direct) == table
    before = fetched(node)
    assert pq.read_table(name, filesystem=through) == table
    assert fetched(node) == before


def test_pyarrow_reads_row_groups_and_columns(lake: Path, through: pa.fs.S3FileSystem, table: pa.Table) -> None:
    file = pq.ParquetFile(f"lake/{ALL}large.parquet", filesystem=through, pre_buffer=False)
    assert file.num_row_groups == 6
    for group in (5, 0, 3):
        rows = table.slice(group * parquet_data.ROW_GROUP, parquet_data.ROW_GROUP)
        assert file.read_row_group(group) == rows
        assert file.read_row_group(group, ["tags", "price"]) == rows.select(["tags", "price"])


def test_pyarrow_writes_through_the_node(
    through: pa.fs.S3FileSystem, direct: pa.fs.S3FileSystem, table: pa.Table, prefix: str
) -> None:
    name = f"lake/{prefix}written.parquet"
    pq.write_table(table, name, filesystem=through, compression="zstd")
    assert pq.read_table(name, filesystem=through) == pq.read_table(name, filesystem=direct) == table


def test_pyarrow_scans_hive_partitions(lake: Path, through: pa.fs.S3FileSystem) -> None:
    def rows(fs: pa.fs.FileSystem, path: str) -> pa.Table:
        scanned = ds.dataset(path, filesystem=fs, format="parquet", partitioning="hive")
        kept = (ds.field("day") == "2024-01-02") | (pc.field("small") < 20)
        return scanned.to_table(["id", "day", "region", "comment"], kept).sort_by(
            [("day", "ascending"), ("id", "ascending")]
        )

    got = rows(through, f"lake/{ALL}hive")
    assert got == rows(pa.fs.LocalFileSystem(), str(lake / ALL / "hive"))
    assert got.num_rows > 3_000


def test_pyarrow_writes_a_dataset_and_deletes_it(
    lake: Path, through: pa.fs.S3FileSystem, table: pa.Table, prefix: str
) -> None:
    rows = table.slice(0, 20_000).append_column("part", pa.array([n % 5 for n in range(20_000)], pa.int32()))
    base = f"lake/{prefix}dataset"
    # pyarrow checks the bucket first, unless it is configured not to.
    ds.write_dataset(rows, base, filesystem=through, format="parquet", partitioning=["part"], create_dir=False)
    back = ds.dataset(str(lake / prefix / "dataset"), format="parquet", partitioning=["part"]).to_table()
    assert back.sort_by("id").select(rows.column_names) == rows
    assert len(through.get_file_info(pa.fs.FileSelector(base, recursive=True))) == 10
    through.delete_dir(base)
    assert through.get_file_info(base).type == pa.fs.FileType.NotFound
    assert not [found for found in (lake / prefix).rglob("*") if found.is_file()]


def test_pyarrow_streams_and_seeks(lake: Path, through: pa.fs.S3FileSystem) -> None:
    truth = (lake / ALL / "large.parquet").read_bytes()
    with through.open_input_stream(f"lake/{ALL}large.parquet") as stream:
        assert b"".join(iter(lambda: stream.read(700_001), b"")) == truth
    rng = random.Random(3)
    with through.open_input_file(f"lake/{ALL}large.parquet") as file:
        assert file.size() == len(truth)
        for _ in range(50):
            start = rng.randrange(len(truth))
            size = rng.randrange(1, 2 << 20)
            assert file.read_at(size, start) == truth[start : start + size]


def test_pyarrow_writes_a_stream_of_many_parts(lake: Path, through: pa.fs.S3FileSystem, prefix: str) -> None:
    truth = random.Random(5).randbytes(37 << 20)
    with through.open_output_stream(f"lake/{prefix}stream") as stream:
        for start in range(0, len(truth), 1_300_001):
            stream.write(truth[start : start + 1_300_001])
    assert (lake / prefix / "stream").read_bytes() == truth
    with through.open_input_stream(f"lake/{prefix}stream") as stream:
        assert stream.readall() == truth


def test_pyarrow_lists_copies_and_moves(lake: Path, through: pa.fs.S3FileSystem, prefix: str) -> None:
    base = f"lake/{ALL}"
    found = through.get_file_info(pa.fs.FileSelector(base, recursive=True))
    files = {info.path: info.size for info in found if info.type == pa.fs.FileType.File}
    assert files == {f"lake/{p.relative_to(lake)}": p.stat().st_size for p in (lake / ALL).rglob("*") if p.is_file()}
    through.copy_file(f"{base}parts/part-1.parquet", f"lake/{prefix}copy")
    through.move(f"lake/{prefix}copy", f"lake/{prefix}moved")
    assert (lake / prefix / "moved").read_bytes() == (lake / ALL / "parts/part-1.parquet").read_bytes()
    assert through.get_file_info(f"lake/{prefix}copy").type == pa.fs.FileType.NotFound


# Polars


def storage_options(node: Node) -> dict[str, str]:
    return {
        "aws_endpoint_url": node.endpoint,
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "aws_region": REGION,
        "aws_allow_http": "true",
    }


def test_polars_filters_and_projects(node: Node, lake: Path) -> None:
    def query(source: str, **options: Any) -> pl.DataFrame:
        frame = pl.scan_parquet(source, **options)
        kept = frame.filter((pl.col("small") < 30) & (pl.col("name") != "name-07"))
        return kept.select("id", "name", "price", "tags", pl.col("ratio").round(3)).collect()

    truth = query(str(lake / ALL / "large.parquet"))
    for _ in range(2):
        before = fetched(node)
        got = query(f"s3://lake/{ALL}large.parquet", storage_options=storage_options(node))
        assert got.equals(truth)
    assert fetched(node) == before
    assert truth.height > 10_000


def test_polars_reads_every_column_of_a_glob(node: Node, lake: Path) -> None:
    truth = pl.scan_parquet(lake / ALL / "parts/*.parquet").collect()
    got = pl.scan_parquet(f"s3://lake/{ALL}parts/*.parquet", storage_options=storage_options(node)).collect()
    assert got.equals(truth)
    assert got.height == 30_000


def test_polars_aggregates_hive_partitions(node: Node, lake: Path) -> None:
    def query(source: str, **options: Any) -> pl.DataFrame:
        frame = pl.scan_parquet(source, hive_partitioning=True, **options)
        return (
            frame.filter(pl.col("day") >= pl.date(2024, 1, 2))
            .group_by("day")
            .agg(pl.sum("small"), pl.len())
            .sort("day")
            .collect()
        )

    got = query(f"s3://lake/{ALL}hive/", storage_options=storage_options(node))
    assert got.equals(query(str(lake / ALL / "hive") + "/"))
    assert got.height == 2


def test_polars_writes_through_the_node(node: Node, lake: Path, table: pa.Table, prefix: str) -> None:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.lazy().sink_parquet(f"s3://lake/{prefix}sunk.parquet", storage_options=storage_options(node))
    assert pl.read_parquet(lake / prefix / "sunk.parquet").equals(frame)
    back = pl.scan_parquet(f"s3://lake/{prefix}sunk.parquet", storage_options=storage_options(node)).collect()
    assert back.equals(frame)


# DuckDB


@pytest.fixture
def duck(node: Node) -> duckdb.DuckDBPyConnection:
    """DuckDB with httpfs from its wheel, pointed at the node."""
    offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config=offline)
    folder = Path(duckdb_extension_httpfs.__file__).parent
    (extension,) = folder.rglob("httpfs.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"""CREATE SECRET (TYPE s3, KEY_ID 'any', SECRET 'any', REGION '{REGION}', URL_STYLE 'path', USE_SSL false,
        ENDPOINT '{node.endpoint.removeprefix("http://")}')"""
    )
    return connection


QUERIES = [
    "SELECT * FROM read_parquet('{}large.parquet') ORDER BY id",
    "SELECT name, count(*), sum(price), max(number) FROM read_parquet('{}large.parquet') GROUP BY name ORDER BY name",
    "SELECT id, tags FROM read_parquet('{}large.parquet') WHERE id BETWEEN 100000 AND 100100 ORDER BY id",
    "SELECT id, comment, when FROM read_parquet('{}parts/*.parquet') WHERE flag ORDER BY id, comment",
    "SELECT day, region, sum(small) FROM read_parquet('{}hive/**/*.parquet', hive_partitioning = true) "
    "GROUP BY ALL ORDER BY day",
]


@pytest.mark.parametrize("query", QUERIES, ids=["all", "group", "range", "glob", "hive"])
def test_duckdb_reads_parquet(duck: duckdb.DuckDBPyConnection, lake: Path, query: str) -> None:
    query = query.replace(" when", ' "when"')
    truth = duck.execute(query.format(f"{lake}/{ALL}")).to_arrow_table()
    for _ in range(2):
        assert duck.execute(query.format(f"s3://lake/{ALL}")).to_arrow_table() == truth
    assert truth.num_rows > 0


def test_duckdb_copies_to_the_bucket(duck: duckdb.DuckDBPyConnection, lake: Path, prefix: str) -> None:
    source = f"FROM read_parquet('{lake}/{ALL}large.parquet')"
    for name, options in [("a.parquet", "FORMAT parquet"), ("a.csv", "FORMAT csv, HEADER")]:
        duck.execute(f"COPY (SELECT id, name, price {source}) TO 's3://lake/{prefix}{name}' ({options})")
        # A file created through the node is the same file at the origin.
        counted = [
            duck.execute(f"SELECT count(*), sum(id), sum(price) FROM '{base}{name}'").fetchall()
            for base in (f"s3://lake/{prefix}", f"{lake}/{prefix}")
        ]
        assert counted[0] == counted[1]
        assert counted[0][0][0] == 240_000
    duck.execute(f"COPY (SELECT * {source}) TO 's3://lake/{prefix}tree' (FORMAT parquet, PARTITION_BY (flag))")
    rows = "read_parquet('{}tree/**/*.parquet', hive_partitioning = true)"
    tree = f"SELECT flag::BOOLEAN, count(*) FROM {rows} GROUP BY 1 ORDER BY 1"
    assert (
        duck.execute(tree.format(f"s3://lake/{prefix}")).fetchall()
        == duck.execute(tree.format(f"{lake}/{prefix}")).fetchall()
        == duck.execute(f"SELECT flag, count(*) {source} GROUP BY 1 ORDER BY 1").fetchall()
    )


# Real files


def test_every_sample_file_is_the_same_through_a_node(start: Callable[..., Node], samples: Path) -> None:
    node = start([Bucket("samples", str(samples), read_only=True)], "--memory", "128MiB")
    files = sorted(path for path in samples.rglob("*") if path.is_file())
    assert len(files) > 100
    listed = [
        found["Key"]
        for page in node.s3.get_paginator("list_objects_v2").paginate(Bucket="samples")
        for found in page["Contents"]
    ]
    assert sorted(listed) == sorted(str(path.relative_to(samples)) for path in files)

    def same(path: Path) -> bool:
        got = node.s3.get_object(Bucket="samples", Key=str(path.relative_to(samples)))
        return got["Body"].read() == path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            assert all(pool.map(same, files))


def table_of(path: str, fs: pa.fs.FileSystem) -> pa.Table | None:
    """Reads a Parquet, ORC or CSV file, recognized by its first bytes and its name."""
    with fs.open_input_file(path) as file:
        magic = file.read(4)
        file.seek(0)
        if magic == b"PAR1":
            return pq.read_table(file)
        if magic.startswith(b"ORC"):
            return pa.orc.read_table(file)
        if path.endswith(".csv"):
            return pa.csv.read_csv(file)
    return None


def test_the_tables_among_the_samples_are_read_through_a_node(start: Callable[..., Node], samples: Path) -> None:
    node = start([Bucket("samples", str(samples), read_only=True)], "--memory", "128MiB")
    through, here = filesystem(node.endpoint), pa.fs.LocalFileSystem()
    kinds: dict[str, int] = {}
    for path in sorted(path for path in samples.rglob("*") if path.is_file() and path.stat().st_size > 3):
        truth = table_of(str(path), here)
        if truth is not None:
            kind = path.read_bytes()[:4].decode(errors="replace") if path.suffix != ".csv" else "csv"
            kinds[kind.strip("\n")] = kinds.get(kind, 0) + 1
            assert table_of(f"samples/{path.relative_to(samples)}", through) == truth, path
    assert len(kinds) >= 3, kinds


def test_a_restarted_node_serves_parquet_from_its_disk(
    start: Callable[..., Node], proxy: Proxy, lake: Path, table: pa.Table, tmp_path: Path
) -> None:
    buckets = [Bucket.of_origin(proxy.endpoint, "lake")]
    flags = ["--memory", "256MiB", "--disk", f"{tmp_path}/cache=512MiB"]
    name = f"lake/{ALL}large.parquet"
    first = start(buckets, *flags)
    assert pq.read_table(name, filesystem=filesystem(first.endpoint)) == table
    assert first.stop() == 0
    again = start(buckets, *flags)
    assert pq.read_table(name, filesystem=filesystem(again.endpoint)) == table
    stats = again.stats()
    assert stats["cache"]["disk_hits"] > 0
    assert again.reads("lake")["origin_gets"] == 0, stats
    assert os.path.getsize(lake / ALL / "large.parquet") <= stats["bytes"]["disk"] + stats["bytes"]["memory"]
