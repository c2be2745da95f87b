"""Imports of optional dependencies, with errors that say which method needs the package."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["duckdb", "pandas", "polars", "pyarrow", "pyarrow_flight", "pyarrow_or_none"]


def needed(package: str, by: str, install: str) -> Any:
    """Imports a package. Raises ImportError with the method that needs it and the reason why it is unavailable."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}.")
        reason = f"is not installed: pip install {install}" if is_missing else f"cannot be imported: {error}"
        raise ImportError(f"{by} needs {package}, which {reason}", name=package) from error


def pyarrow(by: str) -> Any:
    """Imports pyarrow for the method `by`."""
    return needed("pyarrow", by, "pyarrow")


def pyarrow_flight(by: str) -> Any:
    """Imports pyarrow's Flight client for the method `by`."""
    return needed("pyarrow.flight", by, "pyarrow")


def pandas(by: str) -> Any:
    """Imports pandas for the method `by`."""
    return needed("pandas", by, "pandas")


def polars(by: str) -> Any:
    """Imports Polars for the method `by`."""
    return needed("polars", by, "polars")


def duckdb(by: str) -> Any:
    """Imports DuckDB for the method `by`."""
    return needed("duckdb", by, "duckdb")


_found: list[Any] = []


def pyarrow_or_none() -> Any | None:
    """Imports pyarrow, or returns None if it is not installed."""
    if not _found:
        try:
            _found.append(importlib.import_module("pyarrow"))
        except ImportError:
            return None
    return _found[0]
