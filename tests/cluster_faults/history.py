"""What the origin held and when, what clients saw, and which of it must not be."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load_client import FIXED_BUCKET, MOVING_BUCKET, STRICT_BUCKET
from numbered_content import MIN_RANGE, version_of


@dataclass(frozen=True)
class OriginState:
    """A version that was put at the origin. An earlier one may come again: a put that a node had no answer to."""

    version: int
    began: float
    done: float


@dataclass
class RoundResult:
    """What clients saw in a round."""

    done: Counter[str] = field(default_factory=Counter)
    # Bodies that were read again, and reads of a version that had been replaced, for as long as the rule allows.
    again: int = 0
    stale: int = 0
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    too_old: list[str] = field(default_factory=list)

    def check(self, clients: Iterable[str]) -> None:
        for name, found in (("errors", self.errors), ("wrong bytes", self.wrong), ("stale reads", self.too_old)):
            assert not found, "\n".join([f"{len(found)} {name}:", *found[:10]])
        for client in clients:
            assert self.done[client], f"{client} did nothing in the whole round: {dict(self.done)}"


class History:
    """The versions of each moving object in the order in which the origin took them."""

    def __init__(self, bucket: Path, keys: Iterable[str], rule_s: float) -> None:
        self.bucket = bucket
        self.rules = {MOVING_BUCKET: rule_s, STRICT_BUCKET: 0.0}
        self.states = {key: [OriginState(0, -math.inf, -math.inf)] for key in keys}
        # Of each object, times and versions of the writes that were acknowledged, in order.
        self.acknowledged: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)

    def on_put(self, path: str, began: float) -> None:
        """Notes that the origin has replaced an object. Nothing reads or writes it meanwhile."""
        _, bucket, key = path.split("/", 2)
        if bucket != MOVING_BUCKET or key not in self.states:
            return
        with (self.bucket / key).open("rb") as file:
            version = version_of(key, 0, file.read(MIN_RANGE))
        # A version that no client wrote: reads of it are found wrong.
        self.states[key].append(OriginState(-1 if version is None else version, began, time.monotonic()))

    def judge(self, notes: dict[str, list[dict[str, Any]]], quiet_from: float = math.inf) -> RoundResult:
        """Judges what clients noted. No read that began at `quiet_from` or later may be stale at all."""
        result = RoundResult()
        for client, noted in notes.items():
            for op in noted:
                if op["op"] == "error":
                    result.errors.append(f"{client}, after {op['end'] - op['begin']:.1f} s: {op['what']}")
                    continue
                result.done[client] += 1
                if op["op"] == "write":
                    self.acknowledged[op["key"]].append((op["end"], op["version"]))
        for client, noted in notes.items():
            for op in noted:
                if op["op"] == "read":
                    result.again += op.get("again", 0)
                    self._judge_read(client, op, quiet_from, result)
        return result

    def _judge_read(self, client: str, op: dict[str, Any], quiet_from: float, result: RoundResult) -> None:
        bucket, key, version, begin = op["bucket"], op["key"], op["version"], op["begin"]
        what = f"{client}: {op['bytes']} bytes of {bucket}/{key} from {op.get('first', 0)}"
        if version is None or bucket == FIXED_BUCKET and version != 0:
            result.wrong.append(f"{what} are of no version" if version is None else f"{what} are of version {version}")
            return
        if bucket == FIXED_BUCKET:
            return

        replaced = self._replaced(key, version, op["end"])
        if replaced is None:
            result.wrong.append(f"{what} are of version {version}, which the origin did not have yet")
        elif begin - replaced > self.rules[bucket]:
            late = f"replaced {begin - replaced:.2f} s before the read began, the rule is {self.rules[bucket]} s"
            result.too_old.append(f"{what} are of version {version}, {late}")
        elif self._is_superseded(key, version, begin):
            result.stale += 1
            if begin >= quiet_from:
                result.too_old.append(f"{what} are of version {version}, a later one was acknowledged before")

    def _replaced(self, key: str, version: int, until: float) -> float | None:
        """The time at which the origin had surely replaced a version for the last time before `until`; infinite if it
        had not, and `None` if it never had the version."""
        states = [state for state in self.states[key] if state.began <= until]
        for n in reversed(range(len(states))):
            if states[n].version == version:
                return states[n + 1].done if n + 1 < len(states) else math.inf
        return None

    def _is_superseded(self, key: str, version: int, begin: float) -> bool:
        """Whether a write of another version, later at the origin, was acknowledged before `begin`."""
        acknowledged = [found for at, found in self.acknowledged[key] if at <= begin]
        if not acknowledged or acknowledged[-1] == version:
            return False
        order = [state.version for state in self.states[key]]
        return _last_index(order, version) < _last_index(order, acknowledged[-1])


def _last_index(order: list[int], version: int) -> int:
    return max((n for n, found in enumerate(order) if found == version), default=-1)
