"""The versions that the origin held over time, what clients saw, and which of it is a violation."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load_client import ABSENT, FIXED_BUCKET, MOVING_BUCKET, STRICT_BUCKET
from numbered_content import MIN_RANGE, version_of

# A version that no client wrote: reads of it are reported as wrong.
UNKNOWN = -2


@dataclass(frozen=True)
class OriginState:
    """A version that the origin received, or the absence of an object. An earlier version may come again: by a put to
    which a node got no response."""

    version: int
    began: float
    done: float


@dataclass
class RoundResult:
    """The observations of clients in a round."""

    done: Counter[str] = field(default_factory=Counter)
    # Bodies that were read again; reads of a replaced version within the time that the rule allows; and those among
    # them that came after a read of a later version.
    again: int = 0
    stale: int = 0
    back: int = 0
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    too_old: list[str] = field(default_factory=list)

    def check(self, clients: Iterable[str]) -> None:
        for name, found in (("errors", self.errors), ("wrong bytes", self.wrong), ("stale reads", self.too_old)):
            assert not found, "\n".join([f"{len(found)} {name}:", *found[:10]])
        for client in clients:
            assert self.done[client], f"{client} did nothing in the whole round: {dict(self.done)}"


class History:
    """The versions of each moving object in the order in which the origin received them."""

    def __init__(self, bucket: Path, keys: Iterable[str], rule_s: float, absent: Iterable[str] = ()) -> None:
        self.bucket = bucket
        self.rules = {MOVING_BUCKET: rule_s, STRICT_BUCKET: 0.0}
        self.states: dict[str, list[OriginState]] = {}
        # For each object, the index of each version's first state.
        self.first: dict[str, dict[int, int]] = {}
        for key in keys:
            self.begin(key, 0)
        for key in absent:
            self.begin(key, ABSENT)
        # Objects whose bytes identify their versions.
        self.numbered = list(self.states)
        # For each object, times and versions of acknowledged writes, in order.
        self.acknowledged: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        # For each object of a bucket, times at which reads ended, and the last state that any read until then had seen.
        self.seen: defaultdict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
        # Maximum seconds between the end of a version and the begin of the last read of it.
        self.max_stale_s = dict.fromkeys(self.rules, 0.0)

    def begin(self, key: str, version: int) -> None:
        """Records the version of an object before anything is written."""
        self.states[key] = [OriginState(version, -math.inf, -math.inf)]
        self.first[key] = {version: 0}

    def on_change(self, path: str, began: float) -> None:
        """Records that the origin has replaced or deleted an object. The object is neither read nor written meanwhile."""
        _, bucket, key = path.split("/", 2)
        if bucket != MOVING_BUCKET or key not in self.states:
            return
        try:
            with (self.bucket / key).open("rb") as file:
                version = version_of(key, 0, file.read(MIN_RANGE))
        except FileNotFoundError:
            version = ABSENT
        self.note(key, UNKNOWN if version is None else version, began)

    def note(self, key: str, version: int, began: float) -> None:
        """Records that the origin has had a version since now, or since `began` at the earliest."""
        self.first[key].setdefault(version, len(self.states[key]))
        self.states[key].append(OriginState(version, began, time.monotonic()))

    def judge(self, notes: dict[str, list[dict[str, Any]]], quiet_from: float = math.inf) -> RoundResult:
        """Judges the notes of clients. No read that began at `quiet_from` or later may be stale at all."""
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
                elif op["op"] == "list":
                    self._judge_listing(client, op, result)
        self._judge_order(notes, quiet_from, result)
        return result

    def _judge_read(self, client: str, op: dict[str, Any], quiet_from: float, result: RoundResult) -> None:
        bucket, key, version, begin = op["bucket"], op["key"], op["version"], op["begin"]
        what = f"{client}: {op['bytes']} bytes of {bucket}/{key} from {op.get('first', 0)}"
        if version is None or bucket == FIXED_BUCKET and version != 0:
            result.wrong.append(f"{what} are of no version" if version is None else f"{what} are of version {version}")
            return
        if bucket == FIXED_BUCKET:
            return

        place = self._last_place(key, version, op["end"])
        if place is None:
            result.wrong.append(f"{what} are of version {version}, which the origin did not have yet")
            return
        states = self.states[key]
        # The origin only appends to the list, also meanwhile.
        replaced = states[place + 1].done if place + 1 < len(states) else math.inf
        self.max_stale_s[bucket] = max(self.max_stale_s[bucket], begin - replaced)
        # The absence of an object is never cached.
        rule_s = 0.0 if version == ABSENT else self.rules[bucket]
        if begin - replaced > rule_s:
            late = f"replaced {begin - replaced:.2f} s before the read began, the rule is {rule_s} s"
            result.too_old.append(f"{what} are of version {version}, {late}")
            return
        result.stale += begin > replaced
        if begin >= quiet_from and self._is_superseded(key, place, begin):
            result.too_old.append(f"{what} are of version {version}, a later one was acknowledged before")

    def _judge_listing(self, client: str, op: dict[str, Any], result: RoundResult) -> None:
        """Checks a listing, which comes from the origin: it has each object that existed all the time, and none that
        never did."""
        for key in op["keys"]:
            # Copied, since the origin adds to it at any time.
            states = list(self.states[key])
            ends = [state.done for state in states[1:]] + [math.inf]
            possible = {
                state.version != ABSENT
                for state, end in zip(states, ends, strict=True)
                if state.began <= op["end"] and end >= op["begin"]
            }
            if (key in op["found"]) not in possible:
                shown = "shows" if key in op["found"] else "lacks"
                result.too_old.append(f"{client}: a listing of {op['bucket']} {shown} {key}")

    def _judge_order(self, notes: dict[str, list[dict[str, Any]]], quiet_from: float, result: RoundResult) -> None:
        """Finds reads that saw an earlier version than a read that had ended before they began."""
        reads = [(op["end"], op, client) for client, noted in notes.items() for op in noted if op["op"] == "read"]
        reads = [read for read in reads if read[1]["bucket"] in self.rules and read[1]["version"] is not None]
        for end, op, _ in sorted(reads, key=lambda read: read[0]):
            seen = self.seen[op["bucket"], op["key"]]
            place = self.first[op["key"]].get(op["version"], 0)
            latest_end, latest = seen[-1] if seen else (-math.inf, 0)
            seen.append((max(end, latest_end), max(place, latest)))

        for end, op, client in reads:
            seen = self.seen[op["bucket"], op["key"]]
            before = bisect_right(seen, (op["begin"], -1)) - 1
            place = self._last_place(op["key"], op["version"], end)
            if before < 0 or place is None or place >= seen[before][1]:
                continue
            result.back += 1
            if op["begin"] >= quiet_from:
                later = self.states[op["key"]][seen[before][1]].version
                what = f"{client}: {op['bytes']} bytes of {op['bucket']}/{op['key']} are of version {op['version']}"
                result.too_old.append(f"{what}, a read of version {later} had ended before")

    def _last_place(self, key: str, version: int, until: float) -> int | None:
        """Returns the index of the last state with a version that began before `until`; `None` if there is none."""
        states = self.states[key]
        for place in reversed(range(len(states))):
            if states[place].version == version and states[place].began <= until:
                return place
        return None

    def _is_superseded(self, key: str, place: int, begin: float) -> bool:
        """Returns whether a write of another version, later at the origin, was acknowledged before `begin`."""
        acknowledged = self.acknowledged[key]
        count = bisect_right(acknowledged, (begin, math.inf))
        if not count:
            return False
        at, version = acknowledged[count - 1]
        later = self._last_place(key, version, at)
        return later is not None and place < later
