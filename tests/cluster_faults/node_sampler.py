"""Memory and open files of the nodes of a cluster, sampled over the life of each process."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from faulty_cluster import FaultyCluster

MIB = 1 << 20
SAMPLE_EVERY_S = 1.0
# Tolerance for random variation when the second half of a run is compared with the first.
SLACK_MEMORY, SLACK_FILES = 48 * MIB, 64


@dataclass(frozen=True)
class Sample:
    """A process's memory and open files at a time, from the kernel."""

    at: float
    id: str
    pid: int
    rss: int
    peak_rss: int
    files: int


class NodeSampler:
    """Samples all running nodes until it is stopped."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self.cluster = cluster
        self.samples: list[Sample] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.began = self.ended = time.monotonic()
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            for id, node in list(self.cluster.nodes.items()):
                try:
                    now = time.monotonic()
                    found = Sample(now, id, node.pid, node.memory("VmRSS"), node.memory(), node.open_files())
                except (OSError, AssertionError):
                    continue  # The process has exited.
                self.samples.append(found)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.ended = time.monotonic()

    def report(self) -> dict[str, Any]:
        """Returns the maxima and medians of both halves of the run, and the number of processes that they cover."""
        halves = dict(zip(("first half", "second half"), self._halves(), strict=True))
        if not all(halves.values()):
            return {"samples": len(self.samples)}
        return {
            "processes": len({sample.pid for sample in self.samples}),
            "samples": len(self.samples),
            "peak_rss_mib": {name: max(s.peak_rss for s in half) >> 20 for name, half in halves.items()},
            "median_rss_mib": {name: median(s.rss for s in half) >> 20 for name, half in halves.items()},
            "peak_files": {name: max(s.files for s in half) for name, half in halves.items()},
            "median_files": {name: median(s.files for s in half) for name, half in halves.items()},
            "longest_life_s": round(max(lives(self.samples).values()), 1),
        }

    def check(self, memory: int, is_flat: bool) -> None:
        """Checks that nodes stay within their budget and, if they should be steady by now, that nothing grows over the
        run."""
        found = self.report()
        allowed = 5 * memory // 4 + 150 * MIB
        assert max(sample.peak_rss for sample in self.samples) < allowed, found
        if not is_flat:
            return
        for name, slack in (("rss_mib", SLACK_MEMORY >> 20), ("files", SLACK_FILES)):
            for kind in ("peak", "median"):
                first, second = found[f"{kind}_{name}"].values()
                assert second <= 1.1 * first + slack, f"{kind} {name} grew: {found}"

    def _halves(self) -> tuple[list[Sample], list[Sample]]:
        middle = (self.began + self.ended) / 2
        first = [sample for sample in self.samples if sample.at < middle]
        return first, self.samples[len(first) :]


def lives(samples: list[Sample]) -> dict[int, float]:
    """Returns the seconds for which each process was observed."""
    seen: dict[int, tuple[float, float]] = {}
    for sample in samples:
        begun, _ = seen.get(sample.pid, (sample.at, sample.at))
        seen[sample.pid] = (begun, sample.at)
    return {pid: last - first for pid, (first, last) in seen.items()}


def median(values: Any) -> int:
    found = sorted(values)
    return found[len(found) // 2]
