"""A model of what each object may contain: writers and readers through a node, checked against each other."""

from __future__ import annotations

import http.client
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from servers import Node, request

MIB = 1 << 20


def content(key: str, version: int) -> bytes:
    """Returns the content of a version of an object. Sizes repeat: an ETag, not a size, identifies a version."""
    rng = random.Random(f"{key}:{version}")
    return rng.randbytes([300_000, 2 * MIB + 1, 2 * MIB + 1, 3 * MIB][version % 4])


@dataclass
class Object:
    """One key, replaced by one writer at a time, version after version."""

    key: str
    bodies: list[bytes]
    acknowledged: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def attempted(self) -> int:
        return len(self.bodies) - 1


class Model:
    """Objects, and the versions that reads of them may return.

    A read may return any version between the last one acknowledged when it began and the last one attempted when it
    ended: a write without a response may have been applied.
    """

    def __init__(self, bucket: str, prefix: str, count: int) -> None:
        self.bucket = bucket
        keys = [f"{prefix}object-{n}" for n in range(count)]
        self.objects = [Object(key, [content(key, 0)]) for key in keys]
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def create(self, node: Node) -> None:
        for found in self.objects:
            node.s3.put_object(Bucket=self.bucket, Key=found.key, Body=found.bodies[0])

    def write(self, node: Node, rng: random.Random) -> None:
        """Replaces an object that no other writer is replacing."""
        found = rng.choice(self.objects)
        if not found.lock.acquire(blocking=False):
            return
        try:
            version = len(found.bodies)
            body = content(found.key, version)
            found.bodies.append(body)
            node.s3.put_object(Bucket=self.bucket, Key=found.key, Body=body)
            found.acknowledged = version
            self.done["writes"] += 1
        except (BotoCoreError, ClientError):
            self.done["writes that failed"] += 1
        finally:
            found.lock.release()

    def read(self, node: Node, rng: random.Random) -> None:
        """Reads an object, or a range of one, and determines its version."""
        found = rng.choice(self.objects)
        oldest, span = found.acknowledged, None
        headers = {}
        if rng.random() < 0.7:
            start = rng.randrange(200_000)
            span = (start, start + rng.randrange(1, 90_000))
            headers["range"] = f"bytes={span[0]}-{span[1] - 1}"
        try:
            answer = request(node.endpoint, "GET", f"/{self.bucket}/{found.key}", headers=headers)
        except (OSError, http.client.HTTPException, HTTPClientError):
            self.done["reads that failed"] += 1
            return
        if answer.status not in (200, 206):
            self.done[f"reads answered {answer.status}"] += 1
            return
        self.done["reads"] += 1
        allowed = found.bodies[oldest : found.attempted + 1]
        if not any(answer.body == (body[span[0] : span[1]] if span else body) for body in allowed):
            stale = [n for n, body in enumerate(found.bodies) if answer.body == (body[slice(*span)] if span else body)]
            self.wrong.append(
                f"{found.key} {span}: {len(answer.body)} bytes are of versions {stale}, "
                f"allowed are {oldest} to {found.attempted}"
            )

    def load(self, node: Node, stop: threading.Event, writers: int, readers: int, seed: int) -> list[threading.Thread]:
        """Starts threads that write and read until `stop` is set."""

        def loop(step: Callable[[Node, random.Random], None], seed: str) -> None:
            rng = random.Random(seed)
            while not stop.is_set() and node.running():
                step(node, rng)

        steps = [self.write] * writers + [self.read] * readers
        threads = [threading.Thread(target=loop, args=(step, f"{seed}:{n}")) for n, step in enumerate(steps)]
        for thread in threads:
            thread.start()
        return threads

    def forget(self) -> None:
        """Drops the bodies of versions that no read may return any more."""
        for found in self.objects:
            for version in range(found.acknowledged):
                found.bodies[version] = b""

    def check(self) -> None:
        assert not self.wrong, "\n".join(self.wrong[:10])
