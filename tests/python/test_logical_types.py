"""Parquet logical types that Arrow lacks: files written from a scan have them again, as pyarrow reads their schema."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

from test_odd_files import Thrift, chunks, edited_schema, footer_of

VARIANT, GEOMETRY, GEOGRAPHY = 16, 17, 18
CRS, ALGORITHM = 1, 2
UTM = {"name": "UTM zone 32N", "type": "ProjectedCRS"}
POINT = b"\1\1\0\0\0" + bytes(16)
NAME = b"ARROW:extension:name"


def logical_type(field: int, inner: dict[int, tuple[int, Any]]) -> tuple[int, Thrift]:
    """Returns the value of a schema element's `logicalType`."""
    kind, union = Thrift(), Thrift()
    kind.fields = inner
    union.fields[field] = (Thrift.STRUCT, kind)
    return Thrift.STRUCT, union


def crs(text: str) -> dict[int, tuple[int, Any]]:
    return {CRS: (Thrift.BINARY, text.encode())}


def annotate(path: Path, types: dict[str, tuple[int, Thrift]]) -> None:
    """Sets the logical type of the schema elements at these paths."""

    def visit(parent: str, elements: Iterator[Thrift]) -> None:
        element = next(elements)
        name = parent + element[4].decode()
        if name in types:
            element.fields[10] = types[name]
            element.fields.pop(6, None)
        for _ in range(element.get(5) or 0):
            visit(f"{name}.", elements)

    def edit(elements: list[Thrift]) -> None:
        rest = iter(elements)
        for _ in range(next(rest)[5]):
            visit("", rest)

    path.write_bytes(edited_schema(path.read_bytes(), edit))


def schema_of(path: Path) -> list[str]:
    """Returns the lines of pyarrow's text of the Parquet schema, without the name of its root."""
    return str(pq.ParquetFile(path).schema).splitlines()[2:]


def rewritten(path: Path, **options: Any) -> Path:
    again = path.with_suffix(".again.parquet")
    st.write_parquet(st.scan(path), again, **options)
    return again


@pytest.mark.parametrize("dictionary", [None, True, False])
def test_geometries_keep_their_type_and_have_no_bounds(tmp_path: Path, dictionary: bool | None) -> None:
    types = {
        "default": logical_type(GEOMETRY, {}),
        "srid": logical_type(GEOMETRY, crs("srid:3857")),
        "unknown": logical_type(GEOMETRY, crs("srid:0")),
        "code": logical_type(GEOMETRY, crs("EPSG:4326")),
        "inline": logical_type(GEOMETRY, crs(json.dumps(UTM, separators=(",", ":")))),
        "named": logical_type(GEOMETRY, crs("projjson:utm")),
        "sphere": logical_type(GEOGRAPHY, {}),
        "karney": logical_type(GEOGRAPHY, {**crs("srid:4267"), ALGORITHM: (Thrift.I32, 4)}),
    }
    path = tmp_path / "a.parquet"
    table = pa.table({name: [POINT, None, POINT[:-1] + b"\1"] for name in types})
    pq.write_table(table.replace_schema_metadata({"utm": json.dumps(UTM)}), path)
    annotate(path, types)
    wanted = schema_of(path)
    assert sum("Geometry(" in line for line in wanted) == 6
    assert sum("Geography(" in line for line in wanted) == 2

    again = rewritten(path, dictionary=dictionary)
    assert schema_of(again) == wanted
    assert st.scan(again).to_arrow().to_pylist() == table.to_pylist()
    for chunk in chunks(footer_of(again.read_bytes())[1]):
        statistics = chunk[12]
        assert [statistics.get(field) for field in (1, 2, 5, 6)] == [None] * 4, "neither min nor max"
        assert statistics[3] == 1


@pytest.mark.parametrize("store_schema", [True, False])
def test_logical_types_are_kept_at_any_depth(tmp_path: Path, store_schema: bool) -> None:
    variant = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    value = {"metadata": b"\1\0\0", "value": b"\0"}
    table = pa.table(
        {
            "v": pa.array([value, None], variant),
            "s": pa.array([{"g": POINT, "v": value}, None], pa.struct([("g", pa.binary()), ("v", variant)])),
            "l": pa.array([[POINT, None], []], pa.list_(pa.binary())),
            "f": pa.array([[POINT, None], [POINT, POINT]], pa.list_(pa.binary(), 2)),
            "w": pa.array([[value], [value]], pa.list_(variant, 1)),
            "m": pa.array([[("a", POINT)], None], pa.map_(pa.string(), pa.binary())),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, store_schema=store_schema)
    geometries = ["s.g", "l.list.element", "f.list.element", "m.key_value.value"]
    variants = ["v", "s.v", "w.list.element"]
    of_geometry, of_variant = logical_type(GEOMETRY, crs("srid:3857")), logical_type(VARIANT, {1: (3, 1)})
    annotate(path, dict.fromkeys(geometries, of_geometry) | dict.fromkeys(variants, of_variant))
    wanted = schema_of(path)
    assert sum("Geometry(crs=srid:3857)" in line for line in wanted) == len(geometries)
    assert sum("Variant(1)" in line for line in wanted) == len(variants)

    found = st.scan(path).to_arrow()
    assert found.to_pylist() == table.to_pylist()
    schema = found.schema
    inner = [schema.field("s").type.field("g"), *(schema.field(name).type.value_field for name in ("l", "f"))]
    for field in [*inner, schema.field("m").type.item_field]:
        assert field.metadata[NAME] == b"geoarrow.wkb"
    for field in [schema.field("v"), schema.field("s").type.field("v"), schema.field("w").type.value_field]:
        assert field.metadata[NAME] == b"arrow.parquet.variant"

    again = rewritten(path)
    assert schema_of(again) == wanted
    assert st.scan(again).to_arrow().to_pylist() == table.to_pylist()


ID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    """Returns a file of DuckDB, which has no Arrow schema, with UUIDs and JSON."""
    path = tmp_path / "ids.parquet"
    rows = f"(VALUES ('{ID}'::UUID, '{{\"a\": 1}}'::JSON), (uuid(), NULL))"
    duckdb.sql(
        f"COPY (SELECT u, js, [u] AS us, [js] AS jsons, {{'u': u, 'js': js}} AS s FROM {rows} AS rows(u, js)) TO '{path}'"
    )
    return path


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_uuids_and_json_have_their_extension_types(ids: Path, memory: str) -> None:
    found = st.scan(ids, cache=st.Cache(memory=memory)).to_arrow()
    assert found.equals(pq.read_table(ids))
    schema = found.schema
    assert schema.types[:2] == [pa.uuid(), pa.json_()]
    assert [schema.field(name).type.value_type for name in ("us", "jsons")] == [pa.uuid(), pa.json_()]
    assert [field.type for field in schema.field("s").type] == [pa.uuid(), pa.json_()]
    assert found["u"][0].as_py() == uuid.UUID(ID)


def test_uuids_and_json_are_written_with_their_logical_types(ids: Path) -> None:
    again = rewritten(ids)
    for logical in ("(UUID)", "(JSON)"):
        assert sum(logical in line for line in schema_of(again)) == 3
    kinds = [row[1] for row in duckdb.sql(f"DESCRIBE FROM '{again}'").fetchall()]
    assert kinds == ["UUID", "JSON", "UUID[]", "JSON[]", "STRUCT(u UUID, js JSON)"]
    assert duckdb.sql(f"FROM '{again}'").fetchall() == duckdb.sql(f"FROM '{ids}'").fetchall()
    assert [str(kind) for kind in st.scan(ids).to_duckdb().types] == kinds


def test_uuids_and_json_are_filtered_and_converted(ids: Path, tmp_path: Path) -> None:
    one = uuid.UUID(ID)
    for given in (st.col("u") == one, f"u = '{one}'", f"js LIKE '%a%' AND u = UUID '{one}'", f"s.u = '{one}'"):
        assert st.scan(ids, filter=given).to_arrow()["u"].to_pylist() == [one], given

    # Codes and casts have no extension type: its storage is another.
    coded = st.scan(ids, dictionary=["u", "js"]).to_arrow()
    assert [coded.schema.field(name).type.value_type for name in ("u", "js")] == [pa.binary(16), pa.string()]
    cast = st.scan(ids, columns=["u", "js"], casts={"u": "binary", "js": "binary"}).to_arrow()
    assert cast.schema.types == [pa.binary(), pa.binary()]
    assert cast["u"][0].as_py() == one.bytes
    same = st.scan(ids, schema={"u": pa.binary(16), "js": pa.string()}).to_arrow()
    assert same["u"].to_pylist() == st.scan(ids).to_arrow()["u"].to_pylist()

    # pyarrow converts no lists of bytes of a fixed length.
    frame = st.scan(ids, columns=["u", "js", "jsons", "s"]).to_pandas()
    assert frame["u"][0] == pq.read_table(ids, columns=["u"]).to_pandas()["u"][0]
    assert list(frame["jsons"][0]) == ['{"a": 1}']
    polars = st.scan(ids).to_polars()
    assert polars.filter(polars["js"] == '{"a": 1}').height == 1

    st.write_orc(st.scan(ids), tmp_path / "a.orc")
    orc = st.scan(tmp_path / "a.orc").to_arrow()
    assert (orc.schema.field("u").type, orc.schema.field("js").type) == (pa.binary(), pa.json_())
    assert orc["u"][0].as_py() == one.bytes


def test_files_with_and_without_logical_types_are_one_table(ids: Path, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    plain = pa.struct([("u", pa.binary(16)), ("js", pa.string())])
    value = {"u": bytes(16), "js": "{}"}
    table = pa.table({"u": pa.array([bytes(16)], pa.binary(16)), "js": ["{}"], "s": pa.array([value], plain)})
    for names in (("a", "b"), ("b", "a")):
        pq.write_table(table, folder / f"{names[0]}.parquet")
        (folder / f"{names[1]}.parquet").write_bytes(ids.read_bytes())
        found = st.scan(folder, columns=["u", "js", "s"]).to_arrow()
        assert found.schema.types == table.schema.types
        assert found.num_rows == 3
        assert sorted(found["u"].to_pylist()).index(bytes(16)) == 0
        assert st.scan(folder, filter=f"s.u = '{ID}'").to_arrow()["js"].to_pylist() == ['{"a": 1}']


def test_sql_keeps_uuids_and_json(ids: Path) -> None:
    found = st.sql(f"SELECT u, js FROM '{ids}' WHERE js IS NOT NULL UNION ALL SELECT u, js FROM '{ids}' LIMIT 1")
    assert found.to_arrow()["u"].to_pylist() == [uuid.UUID(ID)]
    grouped = st.sql(f"SELECT u, count(*) AS n FROM '{ids}' GROUP BY u").to_arrow()
    assert sorted(grouped["n"].to_pylist()) == [1, 1]
