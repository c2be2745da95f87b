"""All queries of TPC-H and TPC-DS by `stylobate sql`, over Parquet and ORC: each returns DuckDB's answer.

`make test-sql` runs them at scale 1, `make test-clients` at small scales.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers import environment, stylobate
from sql_answers import DuckDB, ExpectedAnswer, Row

# The number of queries of each benchmark, and a small scale.
BENCHMARKS = {"tpch": (22, "0.1"), "tpcds": (99, "0.01")}
FORMATS = ["parquet", "orc"]
CASES = [
    (benchmark, format, number)
    for benchmark, (queries, _) in BENCHMARKS.items()
    for format in FORMATS
    for number in range(1, queries + 1)
]
# As in DuckDB where a query does not specify the order of nulls.
NULLS_LAST = "SET datafusion.sql_parser.default_null_ordering = 'nulls_last'"
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
MINUTES = 60


class Answers:
    """The answers to all queries, computed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.expected = functools.cache(self._expected)
        self.found = functools.cache(self._found)
        self.spill = folder / "spill"
        self.spill.mkdir()

    def _expected(self, benchmark: str) -> dict[int, ExpectedAnswer]:
        database = DuckDB(benchmark, self._data(benchmark, "parquet"))
        answers = database.answers()
        database.close()
        return answers

    def _found(self, benchmark: str, format: str) -> dict[int, list[Row] | str]:
        """Returns the rows of each query, or its error."""
        files = self._data(benchmark, format).glob(f"*.{format}")
        tables = [part for file in files for part in ("--table", f"{file.stem}={file}")]
        expected = self.expected(benchmark)
        results = run_all([answer.text for answer in expected.values()], [*tables, "--spill", str(self.spill)])
        return dict(zip(expected, results, strict=True))

    def _data(self, benchmark: str, format: str) -> Path:
        folder = self._folder / f"{benchmark}-{format}"
        if not folder.exists():
            scale = os.environ.get("STYLOBATE_SQL_SCALE", BENCHMARKS[benchmark][1])
            flags = ["--scale", scale, "--format", format, "--durability", "none", "--quiet"]
            command = [stylobate(), "generate", benchmark, *flags, "--output", folder]
            subprocess.run(command, check=True, env=environment(), timeout=60 * MINUTES)
        return folder


def run_all(statements: list[str], arguments: list[str]) -> list[list[Row] | str]:
    """Runs statements one after another in one process. The process ends at the first failure, and another continues
    after it. Returns the rows of each statement, or its error."""
    results: list[list[Row] | str] = []
    while len(results) < len(statements):
        run = subprocess.run(
            [stylobate(), "sql", "--format", "arrow", *arguments],
            input=";\n".join([NULLS_LAST, *statements[len(results) :]]).encode(),
            capture_output=True, env=environment(), timeout=60 * MINUTES,
        )
        before = len(results)
        results += streams(run.stdout)
        if run.returncode != 0:
            results.append(f"exit code {run.returncode}: {run.stderr.decode().strip()}")
        assert len(results) > before, "a process without an answer and without an error"
    return results


def streams(written: bytes) -> Iterator[list[Row]]:
    """Yields the rows of each complete Arrow IPC stream."""
    source = pa.BufferReader(written)
    while source.tell() < source.size():
        try:
            table = pa.ipc.open_stream(source).read_all()
        except (pa.ArrowInvalid, OSError):
            return
        if written[source.tell() - len(END_OF_STREAM) : source.tell()] != END_OF_STREAM:
            return
        columns = [column.to_pylist() for column in table.columns]
        yield list(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with tempfile.TemporaryDirectory(prefix="stylobate-sql-answers-") as folder:
        answers = Answers(Path(folder))
        yield answers
        assert not list(answers.spill.iterdir()), "something is left in the spill folder"


@pytest.mark.parametrize(("benchmark", "format", "number"), CASES)
def test_a_query_has_the_answer_of_duckdb(answers: Answers, benchmark: str, format: str, number: int) -> None:
    expected = answers.expected(benchmark)[number]
    found = answers.found(benchmark, format)[number]
    assert not isinstance(found, str), f"{found}\n{expected.text}"
    difference = expected.differs_from(found)
    assert difference is None, f"{difference}\n{expected.text}"


def test_rows_that_are_tied_may_come_in_any_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 1, 2, 2], "b": [10, 20, 30, 40]}), tmp_path / "pairs.parquet")
    database = DuckDB("tpch", tmp_path)
    total = database.answer("SELECT a, b FROM pairs ORDER BY b")
    assert total.is_ordered and total.differs_from(total.rows[::-1]) == "(2, 40), not (1, 10)"
    assert total.differs_from([(a, b + 1e-9) for a, b in total.rows]) is None
    assert total.differs_from(total.rows[1:]) == "3 rows, not 4"

    tied = database.answer("SELECT a, b FROM pairs ORDER BY a")
    assert not tied.is_ordered and tied.differs_from(tied.rows[::-1]) is None

    limited = database.answer("SELECT a, b FROM (SELECT * FROM pairs LIMIT 4) AS p ORDER BY a LIMIT 1")
    assert limited.text.endswith("ORDER BY a, 1 ASC, 2 ASC LIMIT 1") and limited.rows == [(1, 10)]
