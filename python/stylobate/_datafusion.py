"""Rows as tables of the Python package `datafusion`, if that is of the major version that this package was built with."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from stylobate._stylobate import DATAFUSION_MAJOR, datafusion_table
from stylobate.errors import ConfigError

__all__ = ["table_provider"]


def table_provider(source: Any, session: Any) -> object:
    """The capsule of a table. Libraries of two major versions would crash the process, so that others are refused."""
    needed = f"a table of datafusion {DATAFUSION_MAJOR} (pip install 'datafusion=={DATAFUSION_MAJOR}.*')"
    try:
        version = metadata.version("datafusion")
    except metadata.PackageNotFoundError:
        raise ConfigError(f"this is {needed}, which is not installed") from None
    if version.partition(".")[0] != str(DATAFUSION_MAJOR):
        raise ConfigError(f"this is {needed}, and version {version} is installed")

    package = type(session).__module__.partition(".")[0]
    # Catalogs of the package pass a capsule of the session.
    if package not in ("datafusion", "builtins") or session is None:
        raise ConfigError(f"this is {needed}, and {type(session).__qualname__} of {package} is no session of it")
    return datafusion_table(source, session)
