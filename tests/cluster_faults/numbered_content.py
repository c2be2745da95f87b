"""Object contents derived from key, version and offset, so that any range identifies its version and can be checked."""

from __future__ import annotations

import hashlib

import numpy as np

WORD = 8
# A shorter range may contain no whole word.
MIN_RANGE = 2 * WORD
# Versions that a test does not reach: words of another key or offset decode to larger numbers.
MAX_VERSION = 1 << 32
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = 0xD6E8FEB86659FD93
_INVERSE = pow(_FACTOR, -1, 1 << 64)
_ALL = (1 << 64) - 1


def content(key: str, version: int, first: int, length: int) -> bytes:
    """Returns the bytes of a version of an object from `first` on."""
    begin = first // WORD
    words = _noise(key, begin, -(-(first + length) // WORD) - begin)
    words += np.uint64(version * _FACTOR & _ALL)
    skipped = first - begin * WORD
    return words.astype("<u8").tobytes()[skipped : skipped + length]


def version_of(key: str, first: int, data: bytes) -> int | None:
    """Returns the version of all bytes of a range of an object; `None` if they match none."""
    begin = -(-first // WORD)
    at = begin * WORD - first
    word = int.from_bytes(data[at : at + WORD], "little")
    version = (word - int(_noise(key, begin, 1)[0])) * _INVERSE & _ALL
    if version > MAX_VERSION or len(data) < MIN_RANGE or data != content(key, version, first, len(data)):
        return None
    return version


def _noise(key: str, first: int, count: int) -> np.ndarray:
    """Returns the words of version 0: SplitMix64 at positions that depend on the key."""
    seed = np.frombuffer(hashlib.blake2b(key.encode(), digest_size=WORD).digest(), "<u8")[0]
    words = np.arange(first, first + count, dtype=np.uint64) * _GOLDEN + np.uint64(seed)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)
