"""Options for existing files at the destination of a write, and deprecated option names."""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeAlias

__all__ = ["Mode", "one_of", "placement", "renamed"]

Mode: TypeAlias = "Literal['error', 'append', 'overwrite', 'overwrite_partitions']"

MODES = ("error", "append", "overwrite", "overwrite_partitions")


def placement(
    mode: Mode | None, overwrite: bool | None, max_file_bytes: object, partition_by: object
) -> dict[str, Any]:
    """Returns the writer options for the handling of existing files."""
    if mode is not None:
        one_of("mode", mode, MODES)
    if mode is not None and overwrite is not None:
        raise ValueError("mode, overwrite: give one of them")
    if partition_by is not None:
        if overwrite is not None:
            mode = "overwrite" if overwrite else "error"
            told = f"overwrite={overwrite} of a partitioned data set: use mode={mode!r}"
            warnings.warn(told, DeprecationWarning, stacklevel=3)
        return {"mode": mode or "error"}
    if max_file_bytes is not None:
        return {"mode": mode or ("error" if overwrite is False else "overwrite")}
    if mode in ("append", "overwrite_partitions"):
        raise ValueError(f"mode: {mode!r} is for folders: give partition_by or max_file_bytes, or another mode")
    return {"overwrite": mode == "overwrite" if mode is not None else overwrite is not False}


def renamed(old: str, given: Any, new: str, value: Any, *, stacklevel: int = 3) -> Any:
    """Returns the value of an option, or the one given under its deprecated name.

    The deprecation warning points at the frame at `stacklevel`.
    """
    if given is None:
        return value
    warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=stacklevel)
    if value:
        raise ValueError(f"{new}, {old}: give one of them")
    return given


def one_of(option: str, given: object, known: tuple[str, ...]) -> None:
    """Raises ValueError unless the value is a known one."""
    if given not in known:
        raise ValueError(f"{option}: {given!r} is none of {', '.join(known)}")
