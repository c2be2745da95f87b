"""Scans that a node executes, through its Flight door."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import stylobate as st


@pytest.fixture(scope="module")
def node(files: dict[str, Path]) -> Iterator[st.Node]:
    """A node that serves the files as the bucket `lake`."""
    with st.Node({"lake": files["parquet"].parent}, memory="256MiB") as node:
        yield node


@pytest.mark.parametrize("name", ["orders.parquet", "orders.orc"])
def test_a_scan_by_a_node_gives_what_a_local_one_does(node: st.Node, table: pa.Table, name: str) -> None:
    filter = (st.col("quantity") < 24) & st.col("mode").is_in(["AIR", "MAIL"])
    columns = ["key", "mode", "discount", "tags"]
    scan = st.scan(f"lake/{name}", node=node.flight_endpoint, columns=columns, filter=filter)
    expected = table.filter((pc.field("quantity") < 24) & pc.field("mode").isin(["AIR", "MAIL"])).select(
        columns
    )
    assert scan.schema.names == columns
    assert scan.to_arrow().to_pydict() == expected.to_pydict()
    assert scan.count() == expected.num_rows
    assert sum(batch.num_rows for batch in scan.batches()) == expected.num_rows
    assert pl.DataFrame(scan)["key"].to_list() == expected["key"].to_pylist()
    assert scan.to_pandas()["key"].tolist() == expected["key"].to_pylist()
    assert "node='grpc://" in repr(scan)


def test_a_node_takes_a_schema_of_twenty_thousand_columns(node: st.Node, table: pa.Table) -> None:
    schema = {"key": "int64"} | {f"column_{at}": "int64" for at in range(20_000)}
    options: dict[str, Any] = {"node": node.flight_endpoint, "schema": schema}
    assert st.scan("lake/orders.parquet", **options).schema.names == list(schema)
    found = st.scan("lake/orders.parquet", columns=["key", "column_19999"], **options).to_arrow()
    assert found["key"].to_pylist() == table["key"].to_pylist()
    assert found["column_19999"].null_count == table.num_rows


def test_a_limit_holds_for_all_that_a_node_sends(node: st.Node) -> None:
    for limit in (0, 5, 20_001):
        scan = st.scan("lake/orders.parquet", node=node.flight_endpoint, columns=["key"], limit=limit)
        assert scan.to_arrow()["key"].to_pylist() == list(range(limit))
        assert scan.count() == limit


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": ["mode"]},
        {"columns": []},
        {"dictionary": ["mode"]},
        {"dictionary": ["mode"], "columns": ["mode", "key"], "limit": 7},
        {"dictionary": True, "filter": "quantity < 10"},
        {"filter": st.col("mode") == "AIR", "limit": 100},
        {"filter": "quantity < 10", "limit": 0},
        {"filters": [("quantity", "<", 10)], "columns": ["key"]},
        {"filter": "quantity < 10", "batch_rows": 100},
    ],
    ids=str,
)
def test_a_node_counts_what_a_local_scan_does(
    node: st.Node, files: dict[str, Path], options: dict[str, Any]
) -> None:
    for name, path in files.items():
        scan = st.scan(f"lake/orders.{name}", node=node.flight_endpoint, **options)
        assert scan.count() == len(scan) == st.scan(path, **options).count()


def test_a_scan_by_a_node_is_chained_and_pickled(node: st.Node, table: pa.Table) -> None:
    scan = st.scan("lake/orders.parquet", node=node.flight_endpoint)
    some = scan.filter(st.col("quantity") < 10).filter("mode = 'AIR'").select("key").head(9)
    kept = table.filter((pc.field("quantity") < 10) & (pc.field("mode") == "AIR")).select(["key"]).slice(0, 9)
    assert some.columns == ["key"]
    assert some.to_arrow().to_pydict() == kept.to_pydict()
    assert pickle.loads(pickle.dumps(some)).to_arrow().to_pydict() == kept.to_pydict()
    by_year = scan.filter((st.col("quantity") * 2 > 90) & (st.col("mode").lower() == "air"))
    kept = table.filter((pc.field("quantity") > 45) & (pc.field("mode") == "AIR"))
    assert by_year.count() == kept.num_rows


def test_what_a_node_refuses_is_the_same_kind_of_error(node: st.Node) -> None:
    at = node.flight_endpoint
    with pytest.raises(st.NotFoundError, match="none.parquet"):
        st.scan("lake/none.parquet", node=at)
    with pytest.raises(st.NotFoundError, match="bucket"):
        st.scan("sea/orders.parquet", node=at)
    with pytest.raises(st.FilterError, match="filter"):
        st.scan("lake/orders.orc", node=at, filter="quantity <")
    with pytest.raises(st.ColumnNotFoundError, match="nope"):
        st.scan("lake/orders.orc", node=at, columns=["nope"])
    with pytest.raises(st.ConfigError, match="one path"):
        st.scan(["lake/a", "lake/b"], node=at)
    with pytest.raises(TypeError, match="threads"):
        st.scan("lake/orders.orc", node=at, threads=1)
    with pytest.raises(TypeError, match="token"):
        st.scan("lake/orders.orc", token="x")
    with pytest.raises(st.StorageError):
        st.scan("lake/orders.orc", node="grpc://127.0.0.1:1")


def test_a_node_with_keys_wants_a_token(files: dict[str, Path], tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(
        '[[access_key]]\nid = "me"\nsecret = "a-long-secret"\nbuckets = ["*"]\n[[bucket]]\n'
        f'name = "lake"\nurl = "{files["orc"].parent}"\n'
    )
    door = "127.0.0.1:0"
    with st.Node(config=config, listen=door, flight=door, admin=door) as node:
        scan = st.scan("lake/orders.orc", node=node.flight_endpoint, token="a-long-secret")
        assert scan.count() == 30_000
        with pytest.raises(st.StorageError):
            st.scan("lake/orders.orc", node=node.flight_endpoint)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[st.Node, Path]]:
    """A node over files of several days and types."""
    folder = tmp_path_factory.mktemp("lake")
    for day, type in (("2024-05-01", pa.int32()), ("2024-05-02", pa.float64())):
        for part in range(2):
            path = folder / "sales" / f"day={day}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            table = pa.table({"id": [part, part + 10], "price": pa.array([1, None], type), "city": ["Oslo", None]})
            st.write_parquet(table, path)
    with st.Node({"lake": folder}, memory="128MiB") as node:
        yield node, folder


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strings": "view"},
        {"casts": {"id": "int8", "price": "decimal(10, 2)"}},
        {"casts": {"price": pa.decimal128(9, 1), "city": pa.large_string()}},
        {"schema": {"city": "string", "id": "int64", "more": pa.list_(pa.timestamp("ms", "UTC"))}},
        {"schema": pa.schema([pa.field("price", pa.float32(), metadata={"unit": "NOK"})])},
        {"partitioning": None},
        {"partitioning": {"day": "string"}},
        {"partitioning": {"day": pa.timestamp("us")}},
        {"file_row_number": True},
        {"file_row_number": "row", "columns": ["row", "id"]},
        {"glob": False},
        {"filter": "day = DATE '2024-05-02' AND id > 5", "casts": {"id": "int16"}},
        {"limit": 5, "columns": ["id"]},
    ],
)
def test_the_options_of_a_table_mean_the_same_to_a_node(
    lake: tuple[st.Node, Path], options: dict[str, Any]
) -> None:
    node, folder = lake
    by_node = st.scan("lake/sales", node=node.flight_endpoint, **options)
    here = st.scan(folder / "sales", **options)
    assert by_node.to_arrow().equals(here.to_arrow())
    assert by_node.schema.equals(here.schema, check_metadata=True)
    assert by_node.count() == here.count()
    assert pickle.loads(pickle.dumps(by_node)).to_arrow().equals(here.to_arrow())


def test_a_node_names_files_as_its_clients_do(lake: tuple[st.Node, Path]) -> None:
    node, _ = lake
    scan = st.scan("lake/sales", node=node.flight_endpoint, filename="file", columns=["file", "id"])
    files = [f"lake/sales/day=2024-05-0{day}/{part}.parquet" for day in (1, 2) for part in (0, 1)]
    assert scan.to_arrow()["file"].to_pylist() == [file for file in files for _ in range(2)]
    assert scan.filter(f"file = '{files[2]}'").count() == 2


def test_options_that_a_node_refuses_are_errors(lake: tuple[st.Node, Path]) -> None:
    node, _ = lake
    at: dict[str, Any] = {"node": node.flight_endpoint}
    with pytest.raises(st.ColumnNotFoundError, match="no column nothing"):
        st.scan("lake/sales", casts={"nothing": "int8"}, **at)
    with pytest.raises(st.ConfigError, match="column city: .*has a column of this name: give another one"):
        st.scan("lake/sales", filename="city", **at)
    with pytest.raises(ValueError, match="casts: no type 'number'|casts: no type \"number\""):
        st.scan("lake/sales", casts={"id": "number"}, **at)
    with pytest.raises(TypeError, match="threads: the node decides that"):
        st.scan("lake/sales", threads=2, **at)
