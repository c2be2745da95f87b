"""Rows as tables of the Python package `datafusion`, if its major version is the one this package was built with."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from stylobate._stylobate import DATAFUSION_MAJOR, datafusion_table
from stylobate.errors import ConfigError

__all__ = ["table_provider"]


def table_provider(source: Any, session: Any) -> object:
    """Returns the capsule of a table.

    Rejects other major versions of `datafusion`, since mixing them would crash the process.
    """
    needed = f"a table of datafusion {DATAFUSION_MAJOR} (pip install 'datafusion=={DATAFUSION_MAJOR}.*')"
    try:
        version = metadata.version("datafusion")
    except metadata.PackageNotFoundError:
        raise ConfigError(f"this is {needed}, which is not installed") from None
    if version.partition(".")[0] != str(DATAFUSION_MAJOR):
        raise ConfigError(f"this is {needed}, and version {version} is installed")

    package = type(session).__module__.partition(".")[0]
    # Catalogs of `datafusion` pass a capsule of the session.
    if package not in ("datafusion", "builtins") or session is None:
        raise ConfigError(f"this is {needed}, and {type(session).__qualname__} of {package} is no session of it")
    return datafusion_table(source, session)
