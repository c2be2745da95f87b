"""TPC-H's 22 queries by DuckDB in three clients at once: over local files, through a warm node, and from nginx."""

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
        seconds = {name: [] for name in sources}
        truth = {name: _answers(source, texts, 0) for name, source in sources.items()}
        if any(answers != truth["local"] for answers in truth.values()):
            fail("other rows than from local files")

        # The node is warm from here on.
        node.settle()
        fetched = node.origin_bytes()
        for round_ in range(rounds):
            # The order is reversed in every other round.
            for name in list(sources)[::1 if round_ % 2 else -1]:
                seconds[name].append(_all_clients(sources[name], texts, truth[name]))
                progress(f"{name}: {seconds[name][-1]:.2f} s")
        fetched = node.origin_bytes() - fetched

    return {"scale": scale, "clients": CLIENTS, "rounds": rounds, "memory": servers.MEMORY, "queries": len(texts),
            "seconds": {name: statistics.median(taken) for name, taken in seconds.items()}, "origin_bytes": fetched}


def _all_clients(source, texts, truth):
    """Returns the seconds until all clients have all answers. Each client starts with a different query."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(lambda client: _answers(source, texts, client), range(CLIENTS)))
    seconds = time.perf_counter() - begun

    if any(answers != truth for answers in found):
        fail("other rows than by one client")
    return seconds


def _answers(source, texts, client):
    """Returns the rows of each query. Each query has a connection of its own, in which nothing is cached."""
    numbers = sorted(texts)
    first = client * len(numbers) // CLIENTS

    answers = {}
    for number in numbers[first:] + numbers[:first]:
        engine = queries.DuckDB(number, texts[number])
        engine.open(source)
        answers[number] = queries.canonical(engine.run(source))
        engine.close()

    return answers


def bars(result):
    ratio = result["seconds"]["node"] / result["seconds"]["local"]
    yield Bar(f"{result['clients']} DuckDB clients, warm node / local files", ratio, "at most", MAX_SECONDS)


def rows(result):
    """Returns the table: one row."""
    yield ["queries", "", "local files s", "warm node s", "ratio", "nginx s", "ratio", "MB from the origin"]
    local, node, nginx = (result["seconds"][name] for name in ("local", "node", "nginx"))
    yield [str(result["queries"]), "", f"{local:.2f}", f"{node:.2f}", f"{node / local:.3f}", f"{nginx:.2f}",
           f"{nginx / local:.3f}", f"{result['origin_bytes'] / 1e6:.1f}"]
