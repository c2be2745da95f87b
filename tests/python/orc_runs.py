"""The runs of integers in an ORC file: the kind and the packed width of each.

Follows "Integer Run Length Encoding, version 2" of the specification. The tools in Java report the positions of
streams; the files are not compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Widths by the five-bit code in a header.
WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]


class Run(NamedTuple):
    kind: str
    # Bits per number; for short repeats, bytes of the value; for deltas that are all the same, 0.
    width: int
    count: int
    # Bits of the patches of a patched base.
    patch_width: int = 0


def streams(path: Path, report: dict[str, Any], section: str) -> dict[int, list[bytes]]:
    """Returns the streams of a kind by column number, one for each stripe."""
    data, found = path.read_bytes(), {}
    for stripe in report["stripes"]:
        for stream in stripe["streams"]:
            if stream["section"] == section:
                start = stream["startOffset"]
                found.setdefault(stream["columnId"], []).append(data[start : start + stream["length"]])
    return found


def runs(data: bytes) -> Iterator[Run]:
    """Yields the runs of a stream."""
    at = 0
    while at < len(data):
        first, second = data[at], data[at + 1]
        width = WIDTHS[first >> 1 & 31]
        count = ((first & 1) << 8 | second) + 1
        match first >> 6:
            case 0:
                bytes_ = (first >> 3 & 7) + 1
                yield Run("short repeat", bytes_, (first & 7) + 3)
                at += 1 + bytes_
            case 1:
                yield Run("direct", width, count)
                at += 2 + packed(count, width)
            case 2:
                third, fourth = data[at + 2], data[at + 3]
                patch_width = WIDTHS[third & 31]
                entry = next(wide for wide in WIDTHS if wide >= patch_width + (fourth >> 5) + 1)
                yield Run("patched base", width, count, patch_width)
                at += 4 + (third >> 5) + 1 + packed(count, width) + packed(fourth & 31, entry)
            case _:
                width = width if first >> 1 & 31 else 0
                yield Run("delta", width, count)
                at = behind_varint(data, behind_varint(data, at + 2)) + packed(max(0, count - 2), width)
    assert at == len(data), "a run goes beyond the end of its stream"


def packed(count: int, width: int) -> int:
    """Returns the bytes of `count` numbers of `width` bits."""
    return (count * width + 7) // 8


def behind_varint(data: bytes, at: int) -> int:
    """Returns the offset after a varint."""
    while data[at] & 0x80:
        at += 1
    return at + 1
