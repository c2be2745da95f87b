"""DuckDB-Wasm in a page of Chromium reads files through a node, by ranges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from chromium import PACKAGES, Site
from servers import REGION, AccessKey, Bucket, Moto, Node, s3_client

KEY = AccessKey("wasm-id", "wasm-secret-71ce", write=True)
ROWS = 300_000

# The current version loads its Parquet reader from DuckDB's own site; the older one includes it.
CURRENT = "@duckdb/duckdb-wasm"
WITH_PARQUET = "duckdb-wasm-with-parquet"

COLUMNS = "header = true, columns = {'n': 'INTEGER', 'text': 'VARCHAR'}"

# Ranges if the server supports them, otherwise the whole file.
OPTIONS = {"filesystem": {"allowFullHTTPReads": True, "forceFullHTTPReads": False}}

QUERY = """
const duckdb = await import("duckdb-wasm");
const database = new duckdb.AsyncDuckDB(new duckdb.VoidLogger(), new Worker(files + "duckdb-browser-eh.worker.js"));
await database.instantiate(location.origin + files + "duckdb-eh.wasm");
await database.open(options);
const connection = await database.connect();
for (const [name, value] of Object.entries(settings)) {
  await connection.query(`SET ${name} = '${value}'`);
}
const rows = (await connection.query(query)).toArray();
return rows.map(row => Object.values(row.toJSON()).map(value => typeof value === "bigint" ? Number(value) : value));
"""


def served(package: str, within: str) -> str:
    """Returns the path of a package on its site: nested in another package, or top-level."""
    alone = f"/node_modules/{within}/node_modules/{package}"
    return alone if (PACKAGES / alone[1:]).is_dir() else f"/node_modules/{package}"


def query(site: Site, version: str, sql: str, settings: dict[str, str] | None = None) -> list[list[Any]]:
    """Runs a query in a page of the site, and returns its rows."""
    files = f"/node_modules/{version}/dist/"
    modules = {"apache-arrow": "Arrow.dom.mjs", "flatbuffers": "mjs/flatbuffers.js", "tslib": "tslib.es6.mjs"}
    imports = {name: f"{served(name, version)}/{module}" for name, module in modules.items()}
    imports["duckdb-wasm"] = files + "duckdb-browser.mjs"
    return site.run(QUERY, imports, files=files, options=OPTIONS, query=sql, settings=settings or {})


@dataclass
class Counts:
    """What a node has sent since the counts were taken: bytes, and responses by operation and status."""

    node: Node
    before: tuple[int, dict[str, int]]

    @classmethod
    def of(cls, node: Node) -> Counts:
        return cls(node, cls._now(node))

    @staticmethod
    def _now(node: Node) -> tuple[int, dict[str, int]]:
        found = node.stats()["requests"]["operations"]
        codes = {f"{op['operation']} {code}": count for op in found for code, count in op["codes"].items()}
        return sum(op["bytes_out"] for op in found), codes

    def bytes(self) -> int:
        return self._now(self.node)[0] - self.before[0]

    def answers(self) -> set[str]:
        return {name for name, count in self._now(self.node)[1].items() if count > self.before[1].get(name, 0)}


@dataclass
class Files:
    """A node that serves a table as Parquet and as CSV, and the sizes of both files."""

    node: Node
    sizes: dict[str, int]

    def url(self, name: str) -> str:
        return f"{self.node.endpoint}/lake/{name}"

    def presigned(self, name: str) -> str:
        s3 = s3_client(self.node.endpoint, KEY.id, KEY.secret, signature_version="s3v4")
        return s3.generate_presigned_url("get_object", {"Bucket": "lake", "Key": name}, ExpiresIn=3600)


@pytest.fixture(scope="module")
def serve(app: Site, moto: Moto, scratch: Path) -> Iterator[Callable[..., Files]]:
    """Starts nodes that serve the files to pages of the allowed site."""
    if not (PACKAGES / "installed").is_file():
        pytest.skip("no DuckDB-Wasm: make test-clients-all installs it")
    nodes: list[Node] = []

    def start(kind: str, keys: list[AccessKey]) -> Files:
        folder = scratch / f"wasm-{len(nodes)}"
        rule = f"[[bucket.cors]]\norigins = [{json.dumps(app.origin)}]"
        if kind == "folder":
            (folder / "lake").mkdir(parents=True)
            bucket = Bucket("lake", str(folder / "lake"), more=rule)
        else:
            moto.s3.create_bucket(Bucket=folder.name)
            bucket = Bucket.of_origin(moto.endpoint, "lake", at=folder.name, more=rule)
        node = Node(folder, [bucket], keys=keys)
        nodes.append(node)

        texts = [f"{n * 2654435761 % 2**32:032x}" for n in range(ROWS)]
        table = pa.table({"n": pa.array(range(ROWS), pa.int32()), "text": texts})
        pq.write_table(table, folder / "table.parquet", use_dictionary=False)
        pa_csv.write_csv(table, folder / "table.csv")
        sizes = {file.name: file.stat().st_size for file in folder.glob("table.*")}
        for name in sizes:
            node.s3.upload_file(str(folder / name), "lake", name)
        return Files(node, sizes)

    yield start
    for node in nodes:
        assert node.stop() == 0


@pytest.fixture(scope="module", params=["folder", "s3"])
def files(request: pytest.FixtureRequest, serve: Callable[..., Files]) -> Files:
    """Files on a node without access keys."""
    return serve(request.param, [])


@pytest.fixture(scope="module", params=["folder", "s3"])
def guarded(request: pytest.FixtureRequest, serve: Callable[..., Files]) -> Files:
    """Files on a node with an access key."""
    return serve(request.param, [KEY])


def test_rows_of_parquet_are_counted_by_the_footer(files: Files, app: Site) -> None:
    counts = Counts.of(files.node)
    sql = f"SELECT count(*) FROM read_parquet('{files.url('table.parquet')}')"
    assert query(app, WITH_PARQUET, sql) == [[ROWS]]
    assert counts.answers() >= {"HeadObject 206", "GetObject 206"}
    assert 0 < counts.bytes() < 50_000


def test_one_column_of_parquet_is_read_without_the_other(files: Files, app: Site) -> None:
    counts = Counts.of(files.node)
    sql = f"SELECT count(*), sum(n)::DOUBLE FROM read_parquet('{files.url('table.parquet')}')"
    assert query(app, WITH_PARQUET, sql) == [[ROWS, ROWS * (ROWS - 1) / 2]]
    assert "GetObject 200" not in counts.answers()
    assert 0 < counts.bytes() < files.sizes["table.parquet"] / 2


def test_the_current_version_reads_text_by_ranges(files: Files, app: Site) -> None:
    counts = Counts.of(files.node)
    sql = f"SELECT count(*), sum(n)::DOUBLE, max(text) FROM read_csv('{files.url('table.csv')}', {COLUMNS})"
    [[rows, total, last]] = query(app, CURRENT, sql)
    assert (rows, total) == (ROWS, ROWS * (ROWS - 1) / 2)
    assert last == max(f"{n * 2654435761 % 2**32:032x}" for n in range(ROWS))
    assert "GetObject 206" in counts.answers()
    assert "GetObject 200" not in counts.answers()


def test_requests_that_duckdb_signs_are_answered(guarded: Files, app: Site) -> None:
    settings = {
        "s3_endpoint": guarded.node.endpoint,
        "s3_region": REGION,
        "s3_access_key_id": KEY.id,
        "s3_secret_access_key": KEY.secret,
    }
    counts = Counts.of(guarded.node)
    sql = "SELECT count(*), sum(n)::DOUBLE FROM read_parquet('s3://lake/table.parquet')"
    assert query(app, WITH_PARQUET, sql, settings) == [[ROWS, ROWS * (ROWS - 1) / 2]]
    assert counts.answers() >= {"PreflightObject 200", "HeadObject 206", "GetObject 206"}
    assert 0 < counts.bytes() < guarded.sizes["table.parquet"] / 2


@pytest.mark.parametrize("version", [CURRENT, WITH_PARQUET])
def test_a_signed_url_is_read_to_its_end(guarded: Files, app: Site, version: str) -> None:
    """DuckDB-Wasm sends HEAD first, which a URL signed for GET does not allow. It takes the length of that refusal as
    the length of the file, if present; otherwise it reads the whole file."""
    sql = f"SELECT count(*), sum(n)::DOUBLE FROM read_csv('{guarded.presigned('table.csv')}', {COLUMNS})"
    assert query(app, version, sql) == [[ROWS, ROWS * (ROWS - 1) / 2]]
    if version == WITH_PARQUET:
        sql = f"SELECT count(*), sum(n)::DOUBLE FROM read_parquet('{guarded.presigned('table.parquet')}')"
        assert query(app, version, sql) == [[ROWS, ROWS * (ROWS - 1) / 2]]
