"""A fourth node joins three loaded nodes, and drains: what moves, what the origin sends, and how long readers wait.

Clients read hot objects at random through the three nodes. Only the other nodes read from the fourth: what it receives
from peers is what moved to it, and what it sends to them after it began to drain is what moved from it.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import servers
from fleet import KIB, Fleet, Objects, Stream, load
from suite import Bar, progress

PROGRAMS = ["nginx", "wrk"]
DELAY_MS = 30
IDS, JOINING = ["node-0", "node-1", "node-2"], "node-3"
LENGTH, CONNECTIONS = 64 * KIB, 4
OBJECTS, QUICK_OBJECTS = 48, 12
# Enough for a node's own objects, while pages of other homes displace each other: so readers keep asking the homes.
MEMORY, QUICK_MEMORY = "192MiB", "96MiB"
# Seconds of load before a node joins or drains; all of it must complete during the load.
LEAD_SECONDS = 0.5
CALM_SECONDS, CHANGE_SECONDS = 4, 8
# Bytes that move, over those whose home changes; and bytes from the origin, over all.
MAX_MOVED, MAX_FROM_ORIGIN = 1.1, 0.05


def run(programs, folder, options):
    root = folder / "moves"
    objects = Objects(root, QUICK_OBJECTS if options.quick else OBJECTS)
    share = len(objects.of(JOINING, [*IDS, JOINING])) * objects.bytes // len(objects.contents)
    with servers.nginx_files(programs, folder, root) as files, \
            servers.SlowOrigin(folder, files.port, DELAY_MS) as origin, \
            Fleet(programs, folder, origin.port, IDS, more=["--consistency", "immutable"],
                  memory=dict.fromkeys([*IDS, JOINING], QUICK_MEMORY if options.quick else MEMORY)) as fleet:
        for id in IDS:
            objects.read_all(fleet.nodes[id], objects.of(id, IDS))
        fleet.settle()
        streams = [Stream(folder, f"moves-{id}", fleet.nodes[id], list(objects.contents), LENGTH, CONNECTIONS)
                   for id in IDS]
        phases = _phases(programs, fleet, origin, streams, options.quick)
    return {"objects": len(objects.contents), "object_bytes": objects.bytes, "share_bytes": share,
            "delay_ms": DELAY_MS, "connections": CONNECTIONS, "phases": phases}


def _phases(programs, fleet, origin, streams, is_quick):
    calm, change = (1, 6) if is_quick else (CALM_SECONDS, CHANGE_SECONDS)
    sent_before_drain = 0

    def join():
        fleet.write_list([*IDS, JOINING])
        fleet.start(JOINING)
        fleet.wait_until_whole([*IDS, JOINING])

    def drain():
        nonlocal sent_before_drain
        sent_before_drain = fleet.nodes[JOINING].stats()["bytes_to_peers"]
        fleet.nodes[JOINING].post("/api/drain")
        fleet.wait_until_whole([*IDS, JOINING], draining=[JOINING])

    def moved_to_it():
        return fleet.nodes[JOINING].stats()["bytes_peer"]

    def moved_from_it():
        return fleet.nodes[JOINING].stats()["bytes_to_peers"] - sent_before_drain

    phases = {}
    for name, action, seconds, moved in [
        ("before", None, calm, lambda: 0),
        ("join", join, change, moved_to_it), ("joined", None, calm, moved_to_it),
        ("drain", drain, change, moved_from_it), ("drained", None, calm, moved_from_it),
    ]:
        phases[name] = _phase(programs, fleet, origin, streams, seconds, action) | {"moved": moved()}
        progress(f"{name}: {phases[name]}")
    return phases


def _phase(programs, fleet, origin, streams, seconds, action):
    before, peers = origin.counts(), fleet.total("bytes_to_peers")
    took = None
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load, programs, streams, seconds)
        if action:
            time.sleep(LEAD_SECONDS)
            begun = time.monotonic()
            action()
            took = time.monotonic() - begun
        figures = running.result()
    fleet.settle()
    after = origin.counts()
    return figures | {
        "seconds": seconds, "action_seconds": took, "bytes_to_peers": fleet.total("bytes_to_peers") - peers,
        "origin_gets": after["gets"] - before["gets"], "origin_bytes": after["bytes"] - before["bytes"],
    }


def bars(result):
    phases = result["phases"]
    for change, after in (("join", "joined"), ("drain", "drained")):
        # Objects not read by the end of this load move in the next one.
        moved = phases[after]["moved"] / result["share_bytes"]
        fetched = (phases[change]["origin_bytes"] + phases[after]["origin_bytes"]) / result["object_bytes"]
        yield Bar(f"{change}, bytes moved / those of the node", moved, "at most", MAX_MOVED)
        yield Bar(f"{change}, origin's bytes / all", fetched, "at most", MAX_FROM_ORIGIN)


def rows(result):
    """Returns the table: a row per phase."""
    yield ["phase", "took s", "req/s", "p50 µs", "p99 µs", "p99 / before", "MB between nodes", "MB moved",
           "origin GETs", "origin MB"]
    calm = result["phases"]["before"]["p99_us"]
    for name, figures in result["phases"].items():
        took = figures["action_seconds"]
        yield [
            name, "" if took is None else f"{took:.1f}", f"{figures['requests_per_second']:,.0f}",
            f"{figures['p50_us']:,.0f}", f"{figures['p99_us']:,.0f}", f"{figures['p99_us'] / calm:.2f}",
            f"{figures['bytes_to_peers'] / 1e6:,.1f}", f"{figures['moved'] / 1e6:,.1f}",
            f"{figures['origin_gets']}", f"{figures['origin_bytes'] / 1e6:,.1f}",
        ]
