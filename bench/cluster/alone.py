"""A cluster of one beside a node without a cluster: the same answers, at the same rate."""

import http.client
import statistics

import servers
from fleet import KIB, MIB, OBJECT_BYTES, Fleet, Objects, Stream, load
from suite import Bar, is_wanted, progress

PROGRAMS = ["nginx", "wrk"]
LOADS = [("1 MiB", MIB), ("64 KiB", 64 * KIB), ("4 KiB", 4 * KIB)]
CONNECTIONS = 8
OBJECTS, QUICK_OBJECTS = 48, 12
MIN_RATIO = 0.98
# Ten times the rounds of the other parts, and short ones, since little is to be told apart.
MORE_ROUNDS, SECONDS = 10, 1
# Headers that no two answers share; errors repeat the ids.
IDS_OF_ANSWERS = {"x-amz-request-id", "x-amz-id-2"}
OF_ONE_ANSWER = {"date", *IDS_OF_ANSWERS}


def run(programs, folder, options):
    rounds = 2 if options.quick else MORE_ROUNDS * options.rounds
    root = folder / "alone"
    objects = Objects(root, QUICK_OBJECTS if options.quick else OBJECTS)
    more = ["--consistency", "immutable"]
    with servers.nginx_files(programs, folder, root) as files, \
            servers.s3_node(programs, folder, servers.BUCKET, files.port, more=more) as node, \
            Fleet(programs, folder, files.port, ["node-0"], more=more) as fleet:
        pair = {"node": node, "cluster of one": fleet.nodes["node-0"]}
        for server in pair.values():
            objects.read_all(server)
            server.settle()
        differing = _differing_answers(list(pair.values()), list(objects.contents))
        loads = [{"range": name} | _measure(programs, folder, pair, list(objects.contents), length, rounds)
                 for name, length in LOADS if is_wanted(options, name)]
    return {"object_bytes": objects.bytes, "connections": CONNECTIONS, "rounds": rounds, "seconds_per_run": SECONDS,
            "differing_answers": differing, "loads": loads}


def _differing_answers(pair, keys):
    """How many of some requests the two answer differently."""
    path = f"/{servers.BUCKET}/{keys[0]}"
    requests = [
        ("GET", path, {}), ("HEAD", path, {}), ("GET", path, {"Range": "bytes=5-70000"}),
        ("GET", path, {"Range": "bytes=-9"}), ("GET", path, {"Range": f"bytes={OBJECT_BYTES}-"}),
        ("GET", path, {"If-Match": '"other"'}), ("GET", f"/{servers.BUCKET}/none", {}), ("GET", "/none/none", {}),
    ]
    count = 0
    for method, path, headers in requests:
        one, other = (_answer(server, method, path, headers) for server in pair)
        if one != other:
            count += 1
            progress(f"{method} {path} {headers}: {_shown(one)} and {_shown(other)}")
    return count


def _answer(server, method, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    # A name without the port, which errors may repeat.
    connection.request(method, path, headers=headers | {"Host": "localhost"})
    answer = connection.getresponse()
    shown = sorted((name.lower(), value) for name, value in answer.getheaders())
    body = answer.read()
    connection.close()
    for name, value in shown:
        if name in IDS_OF_ANSWERS:
            body = body.replace(value.encode(), b"")
    return answer.status, [(name, value) for name, value in shown if name not in OF_ONE_ANSWER], body


def _shown(answer):
    status, headers, body = answer
    return f"{status} {headers} {len(body)} bytes {body[:300]!r}"


def _measure(programs, folder, pair, keys, length, rounds):
    streams = {name: Stream(folder, name.replace(" ", "-"), server, keys, length, CONNECTIONS)
               for name, server in pair.items()}
    rates = {name: [] for name in pair}
    for round_ in range(rounds):
        # In turns, and in another order each time.
        for name in list(pair)[::1 if round_ % 2 else -1]:
            rates[name].append(load(programs, [streams[name]], SECONDS)["requests_per_second"])
    node, alone = rates.values()
    ratio = statistics.median(alone) / statistics.median(node)
    progress(f"{length // KIB} KiB: {ratio:.3f}")
    return {"node": statistics.median(node), "cluster_of_one": statistics.median(alone), "ratio": ratio,
            "min": min(one / other for one, other in zip(alone, node)),
            "max": max(one / other for one, other in zip(alone, node))}


def bars(result):
    yield Bar("answers that differ", result["differing_answers"], "at most", 0)
    for load_ in result["loads"]:
        yield Bar(f"{load_['range']}, cluster of one / node", load_["ratio"], "at least", MIN_RATIO)


def rows(result):
    """The table: a row per range."""
    yield ["range", "", "req/s of a node", "of a cluster of one", "ratio", "min", "max"]
    for load_ in result["loads"]:
        yield [load_["range"], "", f"{load_['node']:,.0f}", f"{load_['cluster_of_one']:,.0f}",
               *(f"{load_[name]:.3f}" for name in ("ratio", "min", "max"))]
