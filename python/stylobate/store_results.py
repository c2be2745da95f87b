"""What a graph store says of what it did: versions, loads, compactions, collections, verifications."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = ["Collected", "Compacted", "Loaded", "LogEntry", "Verification"]


@dataclass(frozen=True)
class LogEntry:
    """What the log of a graph store says of a version."""

    version: int
    epoch: int
    """Of the writer that was the last one then: each one's is greater than those before."""
    commit: str
    time: datetime
    """By the clock of who committed it, in UTC."""
    operation: str
    """`"create"`, `"writer"`, `"write"`, `"load"` or `"compact"`."""
    vertices: int
    """Of all types."""
    edges: int
    """Of all types."""


def log_entry(entry: tuple[int, int, str, int, str, int, int]) -> LogEntry:
    """What Rust says of a version."""
    version, epoch, commit, milliseconds, operation, vertices, edges = entry
    time = datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
    return LogEntry(version, epoch, commit, time, operation, vertices, edges)


@dataclass(frozen=True)
class Loaded:
    """What was loaded into a graph store."""

    version: int
    """The version that has it."""
    vertices: int
    edges: int
    bytes: int
    """Bytes that were written."""


@dataclass(frozen=True)
class Compacted:
    """What was compacted of a type."""

    type: str
    """The type of vertices, or that of edges with its ends, as `Person_KNOWS_Person`."""
    version: int
    """The version since which it is so."""
    rewritten: bool
    """Whether all of it is one base now. Otherwise small commits were put together."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class Collected:
    """What was removed from a graph store, or would be."""

    versions: list[int]
    files: int
    bytes: int


@dataclass(frozen=True)
class Verification:
    """What came of reading all of a version."""

    version: int
    parts: int
    """Bases, and commits on top of them, that were read."""
    chunks: int
    """Chunks of bases that were read."""
    flaws: list[str]
    """What is wrong, each with its file or type. Empty where nothing is."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.flaws
