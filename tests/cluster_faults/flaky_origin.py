"""An origin that delays, refuses, breaks connections and truncates responses: occasionally, and more often in storms."""

from __future__ import annotations

import random
import time
from collections import Counter

from proxy import Break, Proxy

# Shares of requests.
FAULT_SHARE, STORM_SHARE = 0.01, 0.05
DELAY_SHARE = 0.03
DELAYS_S = (0.1, 2.0)
STORM_EVERY_S, STORM_S = 30.0, 5.0
# Maximum time between two attempts of a write.
ATTEMPT_S = 30.0


class FlakyOrigin:
    """Decides the fate of each request to an origin, and counts the faults."""

    def __init__(self, proxy: Proxy, seed: str) -> None:
        self.proxy = proxy
        self.rng = random.Random(seed)
        self.injected: Counter[str] = Counter()
        # Times at which writes failed, by method, path and query.
        self._failed: dict[tuple[str, str, str], float] = {}

    def start(self) -> None:
        self.proxy.fault = self.choose

    def stop(self) -> None:
        self.proxy.fault = None

    def choose(self, method: str, path: str, query: dict[str, str]) -> int | Break | None:
        """Returns how to fail a request, or `None` to answer it. Applies delays itself."""
        if self.rng.random() < DELAY_SHARE:
            self.injected["answers delayed"] += 1
            time.sleep(self.rng.uniform(*DELAYS_S))
        is_storm = time.monotonic() % STORM_EVERY_S < STORM_S
        if self.rng.random() >= (STORM_SHARE if is_storm else FAULT_SHARE):
            return None

        if method in ("PUT", "POST", "DELETE") and self._has_failed(method, path, query):
            return None
        is_read = method == "GET" and path.count("/") > 1
        fault = self.rng.choice([503, 500, Break.BEFORE, Break.SHORT if is_read else Break.AFTER])
        self.injected[fault.value if isinstance(fault, Break) else f"status {fault}"] += 1
        return fault

    def _has_failed(self, method: str, path: str, query: dict[str, str]) -> bool:
        """Returns whether the previous attempt of a write failed; if not, notes that this one does. Nodes do not repeat
        writes, and of the three attempts that boto3 makes, a killed node may take another one."""
        named = (method, path, repr(sorted(query.items())))
        failed = self._failed.pop(named, None)
        if failed is not None and time.monotonic() < failed + ATTEMPT_S:
            return True
        self._failed[named] = time.monotonic()
        return False
