"""Packages that only some methods need, and what is said where one of them is not installed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["duckdb", "pandas", "polars", "pyarrow", "pyarrow_flight", "pyarrow_or_none"]


def needed(package: str, by: str, install: str) -> Any:
    """The package, or an ImportError that says who needs it, and why it is not there."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}.")
        reason = f"is not installed: pip install {install}" if is_missing else f"cannot be imported: {error}"
        raise ImportError(f"{by} needs {package}, which {reason}", name=package) from error


def pyarrow(by: str) -> Any:
    """pyarrow, for the method `by`."""
    return needed("pyarrow", by, "pyarrow")


def pyarrow_flight(by: str) -> Any:
    """pyarrow's client of Flight, for the method `by`."""
    return needed("pyarrow.flight", by, "pyarrow")


def pandas(by: str) -> Any:
    """pandas, for the method `by`."""
    return needed("pandas", by, "pandas")


def polars(by: str) -> Any:
    """Polars, for the method `by`."""
    return needed("polars", by, "polars")


def duckdb(by: str) -> Any:
    """DuckDB, for the method `by`."""
    return needed("duckdb", by, "duckdb")


_found: list[Any] = []


def pyarrow_or_none() -> Any | None:
    """pyarrow, if it is installed."""
    if not _found:
        try:
            _found.append(importlib.import_module("pyarrow"))
        except ImportError:
            return None
    return _found[0]
