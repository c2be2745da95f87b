"""The queries of TPC-H and TPC-DS, DuckDB's answers to them, and the comparison of answers."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

# Sums of floating-point numbers depend on the order of rows, and engines round quotients of decimals differently.
TOLERANCE = 1e-6
# DuckDB's quotient of decimals is a floating-point number. In other engines it is a decimal with six places: too few
# for a sum of quotients.
ADAPTED = {("tpcds", 66): ("/w_warehouse_sq_ft", "/CAST(w_warehouse_sq_ft AS DOUBLE)")}
# Nulls sort as if larger than any value: what engines do that follow PostgreSQL.
POSTGRES_NULL_ORDER = "nulls_last_on_asc_first_on_desc"
Row = tuple[Any, ...]


@dataclass
class ExpectedAnswer:
    """A query and its expected rows: in this order if `is_ordered`, otherwise in any order."""

    text: str
    rows: list[Row]
    is_ordered: bool

    def differs_from(self, rows: list[Row]) -> str | None:
        """Returns the first difference; `None` if the answer is the same."""
        if len(rows) != len(self.rows):
            return f"{len(rows)} rows, not {len(self.rows)}"
        pairs = zip(rows, self.rows) if self.is_ordered else zip(_sorted(rows), _sorted(self.rows))
        return next((f"{found}, not {row}" for found, row in pairs if not _same_row(found, row)), None)


class DuckDB:
    """A database with the Parquet files of a folder as tables, and a benchmark's queries."""

    def __init__(self, benchmark: str, folder: Path, null_order: str = "nulls_last") -> None:
        config: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        self._connection = duckdb.connect(config=config | {"default_null_order": null_order})
        self._benchmark = benchmark
        # The extension comes from a wheel: nothing is downloaded.
        module = importlib.import_module(f"duckdb_extension_{benchmark}")
        (extension,) = Path(str(module.__file__)).parent.rglob(f"{benchmark}.duckdb_extension")
        self._connection.execute(f"LOAD '{extension}'")
        for file in folder.glob("*.parquet"):
            self._connection.execute(f"CREATE VIEW {file.stem} AS FROM read_parquet('{file}')")

    def answers(self) -> dict[int, ExpectedAnswer]:
        """Returns the answer to each query, by number."""
        texts = self._connection.execute(f"SELECT query_nr, query FROM {self._benchmark}_queries()").fetchall()
        return {number: self.answer(self._adapted(number, text)) for number, text in texts}

    def _adapted(self, number: int, text: str) -> str:
        text = text.strip().rstrip(";")
        if change := ADAPTED.get((self._benchmark, number)):
            assert change[0] in text, f"query {number} has no {change[0]}"
            text = text.replace(*change)
        return text

    def answer(self, text: str) -> ExpectedAnswer:
        """Runs a query twice, with ties of its ORDER BY broken in opposite ways: if both give the same order, it is a
        total order. If its LIMIT cuts between ties, the query to compare is one that breaks them."""
        columns = len(self._connection.sql(text).columns)
        ascending, descending = (ties_broken(text, columns, order) for order in ("ASC", "DESC"))
        rows = self._connection.execute(ascending).fetchall()
        other = self._connection.execute(descending).fetchall()
        if ExpectedAnswer(text, rows, is_ordered=True).differs_from(other) is None:
            return ExpectedAnswer(text, rows, is_ordered=True)
        if ExpectedAnswer(text, rows, is_ordered=False).differs_from(other) is None:
            return ExpectedAnswer(text, rows, is_ordered=False)
        return ExpectedAnswer(ascending, rows, is_ordered=True)

    def close(self) -> None:
        self._connection.close()


def ties_broken(text: str, columns: int, order: str) -> str:
    """Returns the query with ties of its ORDER BY broken by all columns."""
    words = list(_outer_words(text))
    limit = next((at for at, word in words if word == "LIMIT"), len(text))
    is_sorted = any(word == "ORDER" for _, word in words)
    ordinals = ", ".join(f"{ordinal} {order}" for ordinal in range(1, columns + 1))
    return f"{text[:limit].rstrip()}{', ' if is_sorted else ' ORDER BY '}{ordinals} {text[limit:]}".rstrip()


def _outer_words(text: str) -> Iterator[tuple[int, str]]:
    """Yields the words outside of parentheses and quotes, in upper case, with their positions."""
    depth, quote, start = 0, "", None
    for at, letter in enumerate(f"{text} "):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif depth == 0 and (letter.isalnum() or letter == "_"):
            start = at if start is None else start
            continue
        if start is not None:
            yield start, text[start:at].upper()
            start = None


def _sorted(rows: list[Row]) -> list[Row]:
    """Sorts rows so that the last digits of numbers hardly affect the order: by numbers last."""

    def key(row: Row) -> list[tuple[bool, bool, Any]]:
        numbers = [(cell is not None, True, cell) for cell in row if _is_number(cell)]
        return [(cell is not None, False, str(cell)) for cell in row if not _is_number(cell)] + numbers

    return sorted(rows, key=key)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float, Decimal))


def _same_row(found: Row, expected: Row) -> bool:
    return len(found) == len(expected) and all(map(_same_cell, found, expected))


def _same_cell(found: Any, expected: Any) -> bool:
    if isinstance(found, int) and isinstance(expected, int):
        return found == expected
    if _is_number(found) and _is_number(expected):
        one, other = float(found), float(expected)
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or math.isnan(one) and math.isnan(other)
    return bool(found == expected)
