"""A cluster of one beside a node without a cluster: the same answers at the same rate."""

import contextlib
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
# More rounds than in the other parts, and short ones, since the difference is small. Both servers are started many
# times: the memory layout of a process alone makes it faster or slower by a few percent.
STARTS, ROUNDS_PER_START, SECONDS = 16, 1, 1
# Headers that differ in every answer; error bodies repeat the ids.
IDS_OF_ANSWERS = {"x-amz-request-id", "x-amz-id-2"}
OF_ONE_ANSWER = {"date", *IDS_OF_ANSWERS}


def run(programs, folder, options):
    starts, rounds = (1, 2) if options.quick else (STARTS, ROUNDS_PER_START * options.rounds)
    root = folder / "alone"
    objects = Objects(root, QUICK_OBJECTS if options.quick else OBJECTS)
    keys = list(objects.contents)
    differing = 0
    loads = [(name, length) for name, length in LOADS if is_wanted(options, name)]
    runs = {name: {"node": [], "cluster of one": []} for name, _ in loads}
    with servers.nginx_files(programs, folder, root) as files:
        for start in range(starts):
            with _pair(programs, folder, files.port, cluster_first=start % 2 == 1) as pair:
                for server in pair.values():
                    objects.read_all(server)
                    server.settle()
                if start == 0:
                    differing = _differing_answers(list(pair.values()), keys)
                for name, length in loads:
                    _measure(programs, folder, pair, keys, length, rounds, runs[name])
    return {"object_bytes": objects.bytes, "connections": CONNECTIONS, "starts": starts, "rounds": starts * rounds,
            "seconds_per_run": SECONDS, "differing_answers": differing,
            "loads": [{"range": name} | _summary(name, *pair.values()) for name, pair in runs.items()]}


@contextlib.contextmanager
def _pair(programs, folder, origin_port, cluster_first):
    """Starts a node and a cluster of one; yields them by name, the node first."""
    more = ["--consistency", "immutable"]
    with contextlib.ExitStack() as stack:
        def node():
            return stack.enter_context(servers.s3_node(programs, folder, servers.BUCKET, origin_port, more=more))

        def cluster():
            return stack.enter_context(Fleet(programs, folder, origin_port, ["node-0"], more=more)).nodes["node-0"]

        if cluster_first:
            alone = cluster()
            yield {"node": node(), "cluster of one": alone}
        else:
            yield {"node": node(), "cluster of one": cluster()}


def _differing_answers(pair, keys):
    """Returns the number of requests that the two answer differently."""
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
    # A name without the port, which error bodies may contain.
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


def _measure(programs, folder, pair, keys, length, rounds, runs):
    """Adds the requests per second and the processor time of each server, for a number of rounds. Both get the same
    requests in the same order."""
    streams = {name: Stream(folder, "alone", server, keys, length, CONNECTIONS) for name, server in pair.items()}
    for round_ in range(rounds):
        # The servers take turns, in a different order each round.
        for name in list(pair)[::1 if round_ % 2 else -1]:
            before = pair[name].cpu_seconds()
            done = load(programs, [streams[name]], SECONDS)
            taken = pair[name].cpu_seconds() - before
            runs[name].append((done["requests_per_second"], taken / done["requests"] * 1e6))


def _summary(name, node, alone):
    (node_rates, node_times), (alone_rates, alone_times) = zip(*node), zip(*alone)
    ratios = [one / other for one, other in zip(alone_rates, node_rates)]
    figures = {
        "node": statistics.median(node_rates), "cluster_of_one": statistics.median(alone_rates),
        "ratio": statistics.median(alone_rates) / statistics.median(node_rates), "min": min(ratios), "max": max(ratios),
        "processor_us": [statistics.median(node_times), statistics.median(alone_times)],
    }
    progress(f"{name}: {figures}")
    return figures


def bars(result):
    yield Bar("answers that differ", result["differing_answers"], "at most", 0)
    for load_ in result["loads"]:
        yield Bar(f"{load_['range']}, cluster of one / node", load_["ratio"], "at least", MIN_RATIO)


def rows(result):
    """Returns the table: a row per range."""
    yield ["range", "", "req/s of a node", "of a cluster of one", "ratio", "min", "max", "CPU us of a node",
           "of a cluster of one"]
    for load_ in result["loads"]:
        yield [load_["range"], "", f"{load_['node']:,.0f}", f"{load_['cluster_of_one']:,.0f}",
               *(f"{load_[name]:.3f}" for name in ("ratio", "min", "max")),
               *(f"{taken:.1f}" for taken in load_["processor_us"])]
