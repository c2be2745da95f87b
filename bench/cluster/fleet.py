"""The nodes of one cluster on this machine, the objects that are read through them, and loads on several servers."""

import contextlib
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import hot
import servers
from placement import home
from reader import Reader
from tools import fail

KIB, MIB = 1 << 10, 1 << 20
SECRET = "the secret of a benchmark"
# The poll interval, and the maximum time until nodes have read a changed list.
WHOLE_SECONDS = 30
SEED = 41
# Each object is one stripe, so it has one home.
OBJECT_BYTES = 4 * MIB
REQUESTS = 4096


class Fleet:
    """The nodes of a cluster, by id. Use as a context manager.

    `memory` sets the memory of individual nodes, and `cores` the core to which a node is pinned. `doors` gives, for
    individual peer doors, the port in the list and the port on which they listen.
    """

    def __init__(self, programs, folder, origin_port, ids, more=(), memory=None, doors=None, flight=False, cores=None):
        self.programs, self.folder, self.origin_port, self.more = programs, folder, origin_port, more
        self.memory, self.cores, self.flight = memory or {}, cores or {}, flight
        self.nodes = {}
        self.peer_doors = {id: listed for id, (listed, _) in (doors or {}).items()}
        self.listens = {id: own for id, (_, own) in (doors or {}).items()}
        self.list = folder / f"nodes-{servers.free_port()}"
        self.write_list(ids)
        try:
            for id in ids:
                self.start(id)
            self.wait_until_whole(ids)
        except BaseException:
            self.stop()
            raise

    def write_list(self, ids):
        """Replaces the list of nodes, which they reread every two seconds."""
        for id in ids:
            if id not in self.peer_doors:
                self.peer_doors[id] = servers.free_port()
        draft = self.list.with_suffix(".new")
        draft.write_text("".join(f"{id}=127.0.0.1:{self.peer_doors[id]}\n" for id in ids))
        draft.rename(self.list)

    def start(self, id):
        listen = self.listens.get(id, self.peer_doors[id])
        flight = f"127.0.0.1:{servers.free_port()}" if self.flight else "off"
        with _on_core(self.cores.get(id)):
            self.nodes[id] = servers.s3_node(
                self.programs, self.folder, servers.BUCKET, self.origin_port, more=self.more, flight=flight,
                memory=self.memory.get(id, servers.MEMORY), environment={
                    "STYLOBATE_CLUSTER_ID": id, "STYLOBATE_CLUSTER_LISTEN": f"127.0.0.1:{listen}",
                    "STYLOBATE_CLUSTER_NODES_FILE": str(self.list), "STYLOBATE_CLUSTER_SECRET": SECRET,
                    "STYLOBATE_TICKET_SECRET": SECRET,
                })

    def wait_until_whole(self, ids, draining=()):
        """Waits until exactly these nodes see each other up, or draining."""
        wanted = {id: "draining" if id in draining else "up" for id in ids}
        until = time.monotonic() + WHOLE_SECONDS
        while not all(self._states(id) == wanted for id in ids):
            if time.monotonic() > until:
                fail(f"the nodes do not see each other: {[self._states(id) for id in ids]}")
            time.sleep(0.05)

    def _states(self, id):
        """Returns the states of all nodes as one sees them; `None` while another node has a different view, or this one
        is still starting."""
        try:
            nodes = self.nodes[id].document("/api/cluster")["nodes"]
        except OSError:
            return None
        if all(node["answers"] and node["same_view"] for node in nodes):
            return {node["id"]: node["state"] for node in nodes}
        return None

    def settle(self):
        for node in self.nodes.values():
            node.settle()

    def total(self, name):
        """Returns the sum over all nodes of a counter of the bucket's reads."""
        return sum(node.stats()[name] for node in self.nodes.values())

    def stop(self):
        for node in self.nodes.values():
            node.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@contextlib.contextmanager
def _on_core(core):
    """Pins processes that are started within the context to this core; to none if it is `None`."""
    allowed = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class Objects:
    """Objects of random bytes in the folder of an origin."""

    def __init__(self, root, count):
        bucket = root / servers.BUCKET
        bucket.mkdir(parents=True)
        numbers = random.Random(SEED)
        self.contents = {f"objects/{n:03}.bin": numbers.randbytes(OBJECT_BYTES) for n in range(count)}
        for key, content in self.contents.items():
            file = bucket / key
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)

    @property
    def bytes(self):
        return sum(map(len, self.contents.values()))

    def of(self, id, ids):
        """Returns the keys whose home is the node."""
        return [key for key in self.contents if home(servers.BUCKET, key, 0, ids) == id]

    def read_all(self, server, keys=None):
        """Reads objects through a server and compares all of their bytes."""
        into = bytearray(OBJECT_BYTES)
        for key in self.contents if keys is None else keys:
            reader = Reader(server, f"/{servers.BUCKET}/{key}")
            reader.get(memoryview(into))
            reader.close()
            if into != self.contents[key]:
                fail(f"{server.name} sent other bytes than those of {key}")


class Stream:
    """Requests for random ranges of some objects, sent to one server by one wrk."""

    def __init__(self, folder, name, server, keys, length, connections):
        self.peer = hot.Peer(name, server, None)
        self.length, self.connections = length, connections
        self.file = folder / f"requests-{name}-{length}.txt"
        numbers = random.Random(f"{SEED} {name} {length}")
        lines = []
        for _ in range(REQUESTS):
            first = numbers.randrange(0, OBJECT_BYTES - length + 1, length)
            lines.append(f"/{servers.BUCKET}/{numbers.choice(keys)}\tbytes={first}-{first + length - 1}")
        self.file.write_text("\n".join(lines) + "\n")

    def run(self, programs, seconds):
        return hot.load(programs, self.peer, self.file, self.length, seconds, self.connections)


def load(programs, streams, seconds):
    """Runs all streams at once and returns their combined figures; p99 is the worst of all."""
    with ThreadPoolExecutor(len(streams)) as pool:
        runs = list(pool.map(lambda stream: stream.run(programs, seconds), streams))
    return {
        "requests": sum(run["requests"] for run in runs),
        "requests_per_second": sum(run["requests"] / run["duration_us"] * 1e6 for run in runs),
        "p50_us": max(run["p50_us"] for run in runs),
        "p99_us": max(run["p99_us"] for run in runs),
    }
