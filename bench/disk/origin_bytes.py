"""Bytes that a node fetches from its origin per byte read, by order of reads, memory size and number of readers.

A cache that is smaller than the object must not fetch any byte twice during the first pass, and must keep as much as
fits. All bytes received are compared with the object.
"""

import itertools
import mmap
import random
import shutil
import threading
import time

import servers
from reader import Reader
from suite import Bar, is_wanted, progress
from tools import fail

PROGRAMS = []
SEED = 23
KIB, MIB = 1 << 10, 1 << 20
MEMORIES = ["64MiB", "96MiB", "128MiB", "256MiB", "512MiB", "2048MiB"]
DISKS = {"no disk": None, "disk": 4096 * MIB}
# Share of the memory that pages may take, and share of the best possible hit ratio that a cyclic read must reach.
PAGES_SHARE, CYCLE_SHARE = 0.85, 0.9
CYCLE_MEMORY, CYCLE_PASSES = "512MiB", 4
# Maximum bytes fetched per byte read: in a first pass, and in a second pass over an object that fits.
MAX_COLD, MAX_AGAIN = 1.02, 0.01

READERS = [1, 8, 64]
READER_MEMORIES = ["64MiB", "256MiB"]
# Number of objects that readers with objects of their own share out, and the divisor of the object that all read.
OWN_OBJECTS, SHARED_PART = 64, 8
INTERLEAVED_BYTES, RANDOM_BYTES = 256 * KIB, 64 * KIB
# Average number of reads of each range of an object that fits in memory.
RANDOM_DRAWS = 4


def run(programs, folder, options):
    size = (256 if options.quick else 1024) * MIB
    memories = ["64MiB", "512MiB"] if options.quick else MEMORIES
    counts = [1, 8] if options.quick else READERS
    lake = folder / "lake"
    lake.mkdir()
    content = _write_objects(lake, size)

    def case(memory, disk, name, play):
        """Returns the figures of one case; `None` if `--match` excludes it."""
        title = f"{memory}, {disk}, {name}"
        if not is_wanted(options, title):
            return None
        figures = _with_node(programs, folder, lake, memory, DISKS[disk], options.flight, play)
        progress(f"{title}: {figures['ratios']}, {sum(figures['seconds']):.1f} s")
        return {"memory": memory, "disk": disk, "name": name} | figures

    cold = [case(memory, disk, name, Passes(content, order, passes=_passes(memory, disk, size)))
            for memory, disk, (name, order) in itertools.product(memories, DISKS, ORDERS.items())]
    cycles = [case(_scaled(CYCLE_MEMORY, size), "no disk", f"cycle of {name}", Passes(content, order, CYCLE_PASSES))
              for name, order in ORDERS.items()]
    readers = [case(memory, "no disk", f"{count} readers: {name}", ConcurrentReaders(content, count, plan, memory))
               for memory, count, (name, plan) in itertools.product(READER_MEMORIES, counts, PLANS.items())]
    shutil.rmtree(lake)

    return {"object_bytes": size, "cycle_passes": CYCLE_PASSES, "flight": options.flight,
            "cold": _present(cold), "cycles": _present(cycles), "readers": _present(readers)}


def _present(cases):
    return [case for case in cases if case]


def _scaled(memory, size):
    """Scales a memory size for an object of 1 GiB to an object of `size` bytes."""
    return f"{servers.size_bytes(memory) * size // (1024 * MIB) // MIB}MiB"


def _write_objects(lake, size):
    """Writes an object of `size` bytes, the same bytes as `OWN_OBJECTS` objects, and prefixes. Returns the bytes."""
    numbers = random.Random(SEED)
    with (lake / "whole").open("wb") as file:
        for _ in range(size // MIB):
            file.write(numbers.randbytes(MIB))

    with (lake / "whole").open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    part = size // OWN_OBJECTS
    for index in range(OWN_OBJECTS):
        (lake / f"own-{index}").write_bytes(content[index * part:(index + 1) * part])

    (lake / "shared").write_bytes(content[:size // SHARED_PART])
    for memory in READER_MEMORIES:
        (lake / f"fits-{memory}").write_bytes(content[:servers.size_bytes(memory) // 2])
    return content


def _with_node(programs, folder, lake, memory, disk, flight, play):
    """Starts a cold node and plays a case against it. Returns the figures of the case and of the node."""
    more = []
    tier = folder / "tier"
    if disk:
        more = ["--disk", f"{tier}={disk // MIB}MiB"]
    flight_address = f"127.0.0.1:{servers.free_port()}" if flight == "on" else "off"
    with servers.Node(programs, folder, servers.BUCKET, lake, memory=memory, flight=flight_address, more=more) as node:
        figures = play(node) | {"resident_bytes": node.peak_resident_bytes(), "cache": node.document()["cache"]}
    shutil.rmtree(tier, ignore_errors=True)
    return figures


def _path(key):
    return f"/{servers.BUCKET}/{key}"


# Orders of reading one object: each yields the first byte and the length of its GETs; `None` is a GET without a range.


def _one_get(size, _):
    yield None, size


def _large_ranges(size, _):
    for first in range(0, size, 8 * MIB):
        yield first, 8 * MIB


def _small_random_ranges(size, seed):
    starts = list(range(0, size, RANDOM_BYTES))
    random.Random(seed).shuffle(starts)
    for first in starts:
        yield first, RANDOM_BYTES


ORDERS = {"one GET": _one_get, "ranges of 8 MiB": _large_ranges, "random 64 KiB": _small_random_ranges}


def _passes(memory, disk, size):
    """Returns the number of passes: two if the object fits in the cache, so that the second could hit; otherwise one."""
    return 2 if DISKS[disk] or size <= PAGES_SHARE * servers.size_bytes(memory) else 1


class Passes:
    """One client that reads the whole object several times. Returns bytes fetched per byte read, for each pass."""

    def __init__(self, content, order, passes):
        self.content, self.order, self.passes = content, order, passes

    def __call__(self, node):
        size = len(self.content)
        into = bytearray(size)
        view = memoryview(into)
        ratios, seconds = [], []
        reader = Reader(node, _path("whole"))
        for index in range(self.passes):
            into[:] = bytes(size)
            before = node.origin_bytes()

            begun = time.perf_counter()
            for first, length in self.order(size, index):
                at = first or 0
                reader.get(view[at:at + length], first)
            seconds.append(time.perf_counter() - begun)

            if into != self.content:
                fail(f"{node.name} sent other bytes than the object's")
            node.settle()
            ratios.append((node.origin_bytes() - before) / size)

        reader.close()
        return {"ratios": ratios, "seconds": seconds}


# Plans of several readers: each returns the number of distinct bytes read, and a list of GETs per reader: key, first
# byte or `None`, offset of the object in the content, and length.


def _own(size, count, _):
    part = size // OWN_OBJECTS
    gets = [[(f"own-{index}", None, index * part, part) for index in range(reader, OWN_OBJECTS, count)]
            for reader in range(count)]
    return size, gets


def _same(size, count, _):
    return size // SHARED_PART, [[("shared", None, 0, size // SHARED_PART)]] * count


def _interleaved(size, count, _):
    step = INTERLEAVED_BYTES
    gets = [[("whole", first, 0, step) for first in range(reader * step, size, count * step)]
            for reader in range(count)]
    return size, gets


def _random(_, count, memory):
    size = servers.size_bytes(memory) // 2
    starts = range(0, size, RANDOM_BYTES)
    draws = RANDOM_DRAWS * len(starts) // count
    gets = []
    for reader in range(count):
        numbers = random.Random(f"{SEED} {reader}")
        gets.append([(f"fits-{memory}", numbers.choice(starts), 0, RANDOM_BYTES) for _ in range(draws)])
    distinct = {first for reader in gets for _, first, _, _ in reader}
    return len(distinct) * RANDOM_BYTES, gets


PLANS = {"objects of their own": _own, "the same object": _same, "interleaved 256 KiB": _interleaved,
         "random 64 KiB of an object that fits": _random}


class ConcurrentReaders:
    """Readers that start together. Returns bytes fetched per distinct byte read."""

    def __init__(self, content, count, plan, memory):
        self.content, self.count, self.plan, self.memory = content, count, plan, memory

    def __call__(self, node):
        total, gets = self.plan(len(self.content), self.count, self.memory)
        start = threading.Barrier(self.count + 1)
        failures = []
        threads = [threading.Thread(target=self._read, args=(node, own_gets, start, failures))
                   for own_gets in gets]
        for thread in threads:
            thread.start()

        before = node.origin_bytes()
        start.wait()
        begun = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begun

        if failures:
            fail(f"{node.name}: {failures[0]}")
        node.settle()
        return {"ratios": [(node.origin_bytes() - before) / total], "seconds": [seconds]}

    def _read(self, node, gets, start, failures):
        readers = {}
        # All GETs of a plan have the same length.
        buffer = bytearray(gets[0][-1])
        view = memoryview(buffer)
        start.wait()
        try:
            for key, first, offset, length in gets:
                if key not in readers:
                    readers[key] = Reader(node, _path(key))
                readers[key].get(view, first)
                at = offset + (first or 0)
                if buffer != self.content[at:at + length]:
                    failures.append(f"other bytes than those of {key} at {first}")
        except (OSError, SystemExit) as error:
            failures.append(str(error))
        finally:
            for reader in readers.values():
                reader.close()


def bars(result):
    size = result["object_bytes"]
    for case in result["cold"]:
        title = f"{case['memory']}, {case['disk']}, {case['name']}"
        yield Bar(f"{title}: fetched", case["ratios"][0], "at most", MAX_COLD)
        if len(case["ratios"]) > 1:
            yield Bar(f"{title}: fetched again", case["ratios"][1], "at most", MAX_AGAIN)
    for case in result["readers"]:
        yield Bar(f"{case['memory']}, {case['name']}: fetched", case["ratios"][0], "at most", MAX_COLD)
    for case in result["cycles"]:
        if "random" in case["name"]:
            # Each pass has an order of its own, so that this is not cyclic: reported only for comparison.
            continue
        best = PAGES_SHARE * servers.size_bytes(case["memory"]) / size
        yield Bar(f"{case['memory']}, {case['name']}: not fetched", 1 - case["ratios"][-1], "at least",
                  CYCLE_SHARE * best)


def rows(result):
    """Returns the table: a row per case."""
    yield ["memory", "reading", "disk", "fetched", "again", "seconds", "resident MiB"]
    for case in (*result["cold"], *result["cycles"], *result["readers"]):
        again = f"{case['ratios'][-1]:.3f}" if len(case["ratios"]) > 1 else ""
        yield [
            case["memory"], case["name"], case["disk"], f"{case['ratios'][0]:.3f}", again,
            " ".join(f"{one:.2f}" for one in case["seconds"]), f"{case['resident_bytes'] / MIB:,.0f}",
        ]
