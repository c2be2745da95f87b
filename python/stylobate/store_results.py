"""Results of graph store operations: versions, loads, compactions, garbage collections, verifications."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = ["Compacted", "GcReport", "Loaded", "LogEntry", "Verification"]


@dataclass(frozen=True)
class LogEntry:
    """Log entry of a version of a graph store."""

    version: int
    epoch: int
    """Epoch of the writer at that time. Each new writer has a greater epoch."""
    commit: str
    time: datetime
    """Commit time in UTC, by the clock of the committing process."""
    operation: str
    """`"create"`, `"writer"`, `"write"`, `"load"` or `"compact"`."""
    vertices: int
    """Number of vertices of all types."""
    edges: int
    """Number of edges of all types."""


def log_entry(entry: tuple[int, int, str, int, str, int, int]) -> LogEntry:
    """Converts a log entry from the extension."""
    version, epoch, commit, milliseconds, operation, vertices, edges = entry
    time = datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
    return LogEntry(version, epoch, commit, time, operation, vertices, edges)


@dataclass(frozen=True)
class Loaded:
    """Result of a load into a graph store."""

    version: int
    """Version that contains the loaded rows."""
    vertices: int
    edges: int
    bytes: int
    """Bytes written."""


@dataclass(frozen=True)
class Compacted:
    """Result of compacting one type."""

    type: str
    """Vertex type; or edge type with its endpoint types, as in `Person_KNOWS_Person`."""
    version: int
    """First version with the compacted files."""
    rewritten: bool
    """True if the type was rewritten as one base; False if small commits were merged."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class GcReport:
    """Result of a garbage collection: what was removed, or would be by a dry run."""

    versions: list[int]
    files: int
    bytes: int


@dataclass(frozen=True)
class Verification:
    """Result of verifying a version."""

    version: int
    parts: int
    """Number of bases, and of commits on top of them, that were read."""
    chunks: int
    """Number of chunks of bases that were read."""
    flaws: list[str]
    """Flaws, each with its file or type. Empty if the version is sound."""

    @property
    def is_sound(self) -> bool:
        """True if there are no flaws."""
        return not self.flaws
