"""Spark through a node, by S3A: over an S3 server and over a folder, with each Spark version that `make test-spark`
installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from servers import AccessKey, Bucket, Moto, Node, stylobate

HERE = Path(__file__).parent
KEY = AccessKey("spark-id", "spark-secret-6b1f", write=True)
VERSIONS = os.environ.get("STYLOBATE_SPARK", "").split()
JOBS = re.findall(r"^@job\ndef (\w+)", (HERE / "jobs.py").read_text(), re.MULTILINE)
JOBS += [f"written_by_the_{committer}_committer" for committer in ["file", "directory", "magic"]]


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H as Parquet, a folder for each table."""
    folder = tmp_path_factory.mktemp("tpch")
    command = [str(stylobate()), "generate", "tpch", "--scale", "0.02", "--output", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session", params=[(version, kind) for version in VERSIONS for kind in ["s3", "folder"]], ids=str)
def outcomes(
    request: pytest.FixtureRequest, tables: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """Returns the outcome of each job, by name."""
    environment, kind = request.param
    root = tmp_path_factory.mktemp("spark")
    if kind == "s3":
        moto = Moto(root / "moto.log")
        moto.s3.create_bucket(Bucket="lake")
        bucket = Bucket.of_origin(moto.endpoint, "lake")
    else:
        (root / "lake").mkdir()
        bucket = Bucket("lake", str(root / "lake"))
    node = Node(root, [bucket], keys=[KEY])
    for file in sorted(tables.rglob("*.parquet")):
        table = re.split(r"[./]", str(file.relative_to(tables)))[0]
        node.s3.upload_file(str(file), "lake", f"tpch/{table}/{file.name}")

    python = Path(environment) / "bin" / "python"
    command = [str(python), str(HERE / "jobs.py"), node.endpoint, KEY.id, KEY.secret, str(Path(environment) / "jars")]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root)
    found = [json.loads(line.removeprefix("outcome ")) for line in run.stdout.splitlines() if line.startswith("outcome ")]
    assert found, run.stderr[-4000:]
    for outcome in found:
        print(f"{Path(environment).name} over {kind}: {outcome['job']} in {outcome['seconds']} s")
    yield {outcome["job"]: outcome for outcome in found}

    assert node.stop() == 0
    if kind == "s3":
        moto.kill()


@pytest.mark.parametrize("job", JOBS)
def test_a_job_does_what_it_does_at_a_bucket(outcomes: dict[str, Any], job: str) -> None:
    assert "error" not in outcomes[job], outcomes[job]["error"]


def test_spark_and_duckdb_agree(outcomes: dict[str, Any], tables: Path) -> None:
    database = duckdb.connect()
    for table in ["lineitem", "orders", "customer"]:
        files = [str(file) for file in tables.rglob("*.parquet") if str(file.relative_to(tables)).startswith(table)]
        database.sql(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({files})")
    for name, query in json.loads((HERE / "queries.json").read_text()).items():
        expected = [[str(value) for value in row] for row in database.sql(query).fetchall()]
        got = outcomes["tpch"]["answer"][name]
        assert len(got) == len(expected)
        for ours, theirs in zip(got, expected, strict=True):
            assert [number(value) for value in ours] == [number(value) for value in theirs], name


def number(text: str) -> Any:
    """Returns a decimal without the trailing zeros that its type adds."""
    return Decimal(text).normalize() if re.fullmatch(r"-?\d+(\.\d+)?", text) else text
