"""The wrong, outdated or out-of-order reads that `History` finds in the notes of clients."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from history import History, OriginState
from load_client import ABSENT, FIXED_BUCKET, MOVING_BUCKET, STRICT_BUCKET, table_of_version, version_of_table

RULE_S = 2.0


@pytest.fixture
def history() -> History:
    """`moving` has version 1 since 10 s and version 2 since 20 s; `own` had version 1 between them."""
    made = History(Path(), ["moving"], RULE_S, absent=["own"])
    for key, last in (("moving", 2), ("own", ABSENT)):
        made.states[key] += [OriginState(1, 10.0, 10.1), OriginState(last, 20.0, 20.1)]
        made.first[key] = {version: n for n, version in enumerate([made.states[key][0].version, 1])} | {last: 2}
    made.first["own"][ABSENT] = 0
    return made


def read(version: int | None, begin: float, end: float, **more: Any) -> dict[str, Any]:
    noted = {"op": "read", "bucket": MOVING_BUCKET, "key": "moving", "version": version, "bytes": 1}
    return noted | {"begin": begin, "end": end} | more


def listing(begin: float, end: float, *found: str) -> dict[str, Any]:
    return {"op": "list", "bucket": MOVING_BUCKET, "keys": ["own"], "found": found, "begin": begin, "end": end}


WRITE = {"op": "write", "key": "moving", "version": 2, "begin": 19.0, "end": 20.2}
CASES = {
    "the current version": ([read(2, 21, 22)], math.inf, (0, 0)),
    "a former version within the rule": ([read(1, 21, 22)], math.inf, (0, 0)),
    "a former version beyond it": ([read(1, 23, 24)], math.inf, (0, 1)),
    "a former version of a strict bucket": ([read(1, 21, 22, bucket=STRICT_BUCKET)], math.inf, (0, 1)),
    "a version that is still to come": ([read(2, 11, 12)], math.inf, (1, 0)),
    "bytes of no version": ([read(None, 11, 12)], math.inf, (1, 0)),
    "another version of what does not change": ([read(1, 11, 12, bucket=FIXED_BUCKET)], math.inf, (1, 0)),
    "a step back while nodes come and go": ([read(2, 20, 20.5), read(1, 20.6, 21)], math.inf, (0, 0)),
    "a step back in quiet": ([read(2, 20, 20.5), read(1, 20.6, 21)], 20, (0, 1)),
    "two versions at once": ([read(2, 20, 20.7), read(1, 20.6, 21)], 20, (0, 0)),
    "an acknowledged write that is not seen in quiet": ([WRITE, read(1, 20.6, 21)], 20, (0, 1)),
    "a deleted object within the rule": ([read(1, 21, 22, key="own")], math.inf, (0, 0)),
    "a deleted object beyond it": ([read(1, 23, 24, key="own")], math.inf, (0, 1)),
    "an absence that was remembered": ([read(ABSENT, 11, 12, key="own")], math.inf, (0, 1)),
    "a listing with the object": ([listing(12, 13, "own")], math.inf, (0, 0)),
    "a listing without it": ([listing(12, 13)], math.inf, (0, 1)),
    "a listing with a deleted object": ([listing(21, 22, "own")], math.inf, (0, 1)),
    "a listing during the deletion": ([listing(20.05, 22, "own")], math.inf, (0, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_reads_and_listings_are_judged_by_what_the_origin_had(history: History, name: str) -> None:
    notes, quiet_from, expected = CASES[name]
    result = history.judge({"client": notes}, quiet_from)
    assert (len(result.wrong), len(result.too_old)) == expected, result


def test_rows_of_two_versions_are_of_none() -> None:
    first, second = table_of_version(7), table_of_version(8)
    assert version_of_table(first) == 7
    half = first.num_rows // 2
    mixed = [first.slice(0, half), second.slice(half)]
    assert version_of_table(type(first).from_batches([b for t in mixed for b in t.to_batches()])) is None
    assert version_of_table(first.slice(1)) is None
