"""Hot ranged GETs of three nodes, from memory: each read singly, with the placement of a cluster, and at random.

    singly     three nodes without a cluster; each object is read from one of them, its home if they were one
    placed     a cluster; each object is read from its home
    hop        a cluster; any object is read from any node, which asks the home for what it does not keep
    small hop  the same with nodes that have memory for their own objects and a quarter of the others'
    nginx      three caches behind one nginx that hashes the path

One wrk per node, or three at the one nginx, all at once; the ways in turns, round after round.
"""

import statistics

import servers
from fleet import KIB, MIB, Fleet, Objects, Stream, load
from suite import Bar, is_wanted, progress
from tools import fail

IDS = ["node-0", "node-1", "node-2"]
LOADS = [("1 MiB", MIB), ("64 KiB", 64 * KIB)]
CONNECTIONS = 4
OBJECTS, QUICK_OBJECTS = 48, 12
MIN_PLACED, MIN_HOP = 0.95, 0.5
MAX_PLACED_FROM_PEERS = 0.001
# A node's own objects take 64 MiB of it; an eighth may hold pages of others.
SMALL_MEMORY = "256MiB"
IMMUTABLE = ["--consistency", "immutable"]

CACHE = """
    proxy_cache_path {folder}/cache levels=1:2 keys_zone=pages:16m max_size=1g inactive=1d use_temp_path=off;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            slice 1m;
            proxy_cache pages;
            proxy_cache_key $uri$slice_range;
            proxy_cache_valid 200 206 1d;
            proxy_cache_lock on;
            proxy_set_header Range $slice_range;
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:{origin_port};
        }}
    }}
"""

FRONT = """
    upstream caches {{
        hash $uri consistent;
        {caches}
        keepalive 64;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            # Bodies stay in memory.
            proxy_max_temp_file_size 0;
            proxy_buffers 16 64k;
            proxy_buffer_size 64k;
            proxy_busy_buffers_size 128k;
            proxy_pass http://caches;
        }}
    }}
"""


def programs(options):
    return ["wrk", "nginx"]


def run(programs, folder, options):
    rounds, seconds = (2, 1) if options.quick else (options.rounds, options.seconds)
    root = folder / "hot"
    objects = Objects(root, QUICK_OBJECTS if options.quick else OBJECTS)
    started = []
    try:
        files = servers.nginx_files(programs, folder, root)
        started.append(files)
        ways = _start(programs, folder, options, files.port, objects, started)
        loads = [{"range": name, "ways": _measure(programs, ways, length, rounds, seconds)}
                 for name, length in LOADS if is_wanted(options, name)]
    finally:
        for server in reversed(started):
            server.stop()
    return {"objects": len(objects.contents), "object_bytes": objects.bytes, "connections": CONNECTIONS,
            "memory": servers.MEMORY,
            "small_memory": SMALL_MEMORY, "rounds": rounds, "seconds_per_run": seconds, "loads": loads}


class Way:
    """One way of reading. `keys` are those that each stream requests; `nodes` report what came from peers and from the
    origin."""

    def __init__(self, folder, name, servers_and_keys, nodes):
        self.name, self.nodes = name, nodes
        self.streams = {
            length: [Stream(folder, f"{name.replace(' ', '-')}-{n}", server, keys, length, CONNECTIONS)
                     for n, (server, keys) in enumerate(servers_and_keys)]
            for _, length in LOADS
        }

    def total(self, *counters):
        return sum(node.stats()[counter] for node in self.nodes for counter in counters)


def _start(programs, folder, options, origin_port, objects, started):
    """Starts each way, with servers that have read everything."""
    keys = list(objects.contents)
    homes = {id: objects.of(id, IDS) for id in IDS}

    single = {id: servers.s3_node(programs, folder, servers.BUCKET, origin_port, more=IMMUTABLE) for id in IDS}
    started += single.values()
    fleet = Fleet(programs, folder, origin_port, IDS, more=IMMUTABLE)
    started.append(fleet)
    small = Fleet(programs, folder, origin_port, IDS, more=IMMUTABLE, memory=dict.fromkeys(IDS, SMALL_MEMORY))
    started.append(small)
    for nodes in (single, fleet.nodes, small.nodes):
        for id, node in nodes.items():
            objects.read_all(node, homes[id])
    for node in [*fleet.nodes.values(), *small.nodes.values()]:
        objects.read_all(node)
    fleet.settle()
    small.settle()

    ways = [
        Way(folder, "singly", [(single[id], homes[id]) for id in IDS], list(single.values())),
        Way(folder, "placed", [(fleet.nodes[id], homes[id]) for id in IDS], list(fleet.nodes.values())),
        Way(folder, "hop", [(fleet.nodes[id], keys) for id in IDS], list(fleet.nodes.values())),
        Way(folder, "small hop", [(small.nodes[id], keys) for id in IDS], list(small.nodes.values())),
    ]
    if is_wanted(options, "nginx"):
        front = _start_nginx(programs, folder, origin_port, started)
        for _ in range(2):
            objects.read_all(front)
        ways.append(Way(folder, "nginx", [(front, keys)] * len(IDS), []))
    return ways


def _start_nginx(programs, folder, origin_port, started):
    def start(name, template, **more):
        server = servers.start_nginx(
            programs, folder, name, lambda home, port: template.format(folder=home, port=port, **more))
        started.append(server)
        return server

    caches = [start(f"cache-{id}", CACHE, origin_port=origin_port) for id in IDS]
    return start("nginx", FRONT, caches=" ".join(f"server {cache.host};" for cache in caches))


def _measure(programs, ways, length, rounds, seconds):
    runs = {way.name: [] for way in ways}
    for round_ in range(rounds):
        # Each round begins with another way, so that no way always follows the same one.
        first = round_ % len(ways)
        for way in ways[first:] + ways[:first]:
            runs[way.name].append(_run(programs, way, length, seconds))
    singly = runs["singly"]
    found = {}
    for name, measured in runs.items():
        found[name] = {figure: statistics.median(run[figure] for run in measured) for figure in measured[0]}
        found[name]["ratio"] = statistics.median(
            run["requests_per_second"] / single["requests_per_second"] for run, single in zip(measured, singly))
        progress(f"{length // KIB} KiB, {name}: {found[name]}")
    return found


def _run(programs, way, length, seconds):
    peers = ("bytes_peer", "bytes_passed_through")
    before, origin = way.total(*peers), way.total("origin_gets", "origin_heads")
    run = load(programs, way.streams[length], seconds)
    if way.total("origin_gets", "origin_heads") != origin:
        fail(f"{way.name}: requests to the origin while everything was hot")
    return run | {"from_peers": (way.total(*peers) - before) / (run["requests"] * length)}


def bars(result):
    for load_ in result["loads"]:
        name, ways = load_["range"], load_["ways"]
        yield Bar(f"{name}, placed / singly", ways["placed"]["ratio"], "at least", MIN_PLACED)
        yield Bar(f"{name}, hop / singly", ways["hop"]["ratio"], "at least", MIN_HOP)
        yield Bar(f"{name}, placed, part from peers", ways["placed"]["from_peers"], "at most", MAX_PLACED_FROM_PEERS)


def rows(result):
    """Returns the table: a row per range and way."""
    yield ["range", "way", "req/s", "GB/s", "p50 µs", "p99 µs", "from peers", "of singly"]
    lengths = dict(LOADS)
    for load_ in result["loads"]:
        for name, figures in load_["ways"].items():
            rate = figures["requests_per_second"]
            yield [
                load_["range"], name, f"{rate:,.0f}", f"{rate * lengths[load_['range']] / 1e9:.2f}",
                f"{figures['p50_us']:,.0f}", f"{figures['p99_us']:,.0f}",
                "" if name == "nginx" else f"{figures['from_peers']:.3f}", f"{figures['ratio']:.2f}",
            ]
