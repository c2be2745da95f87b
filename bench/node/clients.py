"""TPC-H's 22 queries by DuckDB in three clients at once: over local files, through a warm node, and from nginx.

Each client keeps its connection for all queries, as a program or a prompt does: DuckDB then caches what it has read from
a server, in memory, and only asks whether it has changed. The same with a connection per query is measured, too: it
reads everything from the server again.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import queries
import servers
from suite import Bar, is_wanted, progress
from tools import fail

PROGRAMS = ["nginx"]
CLIENTS = 3
ROUNDS, QUICK_ROUNDS = 3, 1
# Maximum time through a warm node, divided by the time over local files.
MAX_SECONDS = 1.05


def run(programs, folder, options):
    """Measures all sources in turns. Returns the median seconds of each, and the bytes fetched from the origin after
    the first pass."""
    scale = queries.QUICK_SCALE if options.quick else options.scale
    root = queries.generate_tables(programs, scale)
    numbers = queries.QUICK_QUERIES if options.quick else range(1, 23)
    texts = {number: text for number, text in queries.query_texts().items()
             if number in numbers and is_wanted(options, f"clients {number}")}

    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    with servers.nginx_files(programs, folder, root) as files, \
            servers.s3_node(programs, folder, servers.BUCKET, files.port) as node:
        # nginx sends the same files by sendfile: its time shows what reading by HTTP costs DuckDB itself.
        sources = {"local": queries.Local(root / servers.BUCKET), "node": queries.Remote(node.port),
                   "nginx": queries.Remote(files.port)}
        seconds = {kept: {name: [] for name in sources} for kept in (True, False)}
        truth = {name: _answers(source, texts, 0) for name, source in sources.items()}
        if any(answers != truth["local"] for answers in truth.values()):
            fail("other rows than from local files")

        # The node is warm from here on.
        node.settle()
        fetched = node.origin_bytes()
        for round_ in range(rounds):
            # The order is reversed in every other round.
            for kept, of_sources in seconds.items():
                for name in list(sources)[::1 if round_ % 2 else -1]:
                    of_sources[name].append(_all_clients(sources[name], texts, truth[name], kept))
                    progress(f"{name}{'' if kept else ', a connection per query'}: {of_sources[name][-1]:.2f} s")
        fetched = node.origin_bytes() - fetched

    medians = [{name: statistics.median(taken) for name, taken in seconds[kept].items()} for kept in (True, False)]
    return {"scale": scale, "clients": CLIENTS, "rounds": rounds, "memory": servers.MEMORY, "queries": len(texts),
            "seconds": medians[0], "seconds_with_a_connection_per_query": medians[1], "origin_bytes": fetched}


def _all_clients(source, texts, truth, kept):
    """Returns the seconds until all clients have all answers. Each client starts with a different query."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(lambda client: _answers(source, texts, client, kept), range(CLIENTS)))
    seconds = time.perf_counter() - begun

    if any(answers != truth for answers in found):
        fail("other rows than by one client")
    return seconds


def _answers(source, texts, client, kept=False):
    """Returns the rows of each query, by one connection if it is `kept`, and otherwise by one per query."""
    numbers = sorted(texts)
    first = client * len(numbers) // CLIENTS

    answers = {}
    engine = None
    for number in numbers[first:] + numbers[:first]:
        if engine is None:
            engine = queries.DuckDB(number, texts[number])
            engine.open(source)
        engine.number, engine.text = number, texts[number]
        answers[number] = queries.canonical(engine.run(source))
        if not kept:
            engine.close()
            engine = None

    if engine is not None:
        engine.close()
    return answers


def bars(result):
    for which, seconds in [("a connection each", result["seconds"]),
                           ("a connection per query", result["seconds_with_a_connection_per_query"])]:
        ratio = seconds["node"] / seconds["local"]
        yield Bar(f"{result['clients']} DuckDB clients, {which}, warm node / local files", ratio, "at most", MAX_SECONDS)


def rows(result):
    """Returns the table: a row for kept connections, and one for a connection per query."""
    yield ["queries", "connections", "local files s", "warm node s", "ratio", "nginx s", "ratio", "MB from the origin"]
    for kept, seconds in [("kept", result["seconds"]), ("per query", result["seconds_with_a_connection_per_query"])]:
        local, node, nginx = (seconds[name] for name in ("local", "node", "nginx"))
        yield [str(result["queries"]), kept, f"{local:.2f}", f"{node:.2f}", f"{node / local:.3f}", f"{nginx:.2f}",
               f"{nginx / local:.3f}", f"{result['origin_bytes'] / 1e6:.1f}"]
