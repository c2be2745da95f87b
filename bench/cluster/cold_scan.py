"""Cold scans of TPC-H's lineitem by DuckDB, through clusters of one, two and three nodes.

Three readers always scan at once; with two or three nodes they read through different ones. Whatever the number of
nodes, the origin should send each byte once.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import queries
import servers
from fleet import Fleet
from suite import Bar, is_wanted, progress
from tools import fail

PROGRAMS = ["nginx"]
DELAY_MS = 30
CONNECTION_MB = 100
READERS = 3
SIZES = [1, 2, 3]
MAX_BYTES = 1.02
ALL_COLUMNS = "SELECT bit_xor(hash(COLUMNS(*))) FROM lineitem"


def run(programs, folder, options):
    scale = queries.QUICK_SCALE if options.quick else options.scale
    root = queries.generate_tables(programs, scale)
    file = root / servers.BUCKET / "lineitem.parquet"
    texts = {"all columns": ALL_COLUMNS, "query 6": queries.query_texts()[6]}
    scans = []
    with servers.nginx_files(programs, folder, root) as files, \
            servers.SlowOrigin(folder, files.port, DELAY_MS, CONNECTION_MB) as origin:
        for name, text in texts.items():
            if not is_wanted(options, name):
                continue
            truth = _scan(text, queries.Local(file.parent))
            for size in SIZES:
                scans.append({"scan": name, "nodes": size} | _measure(programs, folder, origin, size, text, truth))
                progress(f"{name}, nodes: {size}: {scans[-1]}")
    return {"scale": scale, "file_bytes": file.stat().st_size, "readers": READERS, "delay_ms": DELAY_MS,
            "megabytes_per_second": CONNECTION_MB, "scans": scans}


def _measure(programs, folder, origin, size, text, truth):
    ids = [f"node-{n}" for n in range(size)]
    with Fleet(programs, folder, origin.port, ids) as fleet:
        ports = [fleet.nodes[ids[reader % size]].port for reader in range(READERS)]
        before = origin.counts()
        begun = time.perf_counter()
        with ThreadPoolExecutor(READERS) as pool:
            answers = list(pool.map(lambda port: _scan(text, queries.Remote(port)), ports))
        seconds = time.perf_counter() - begun
        fleet.settle()
        after = origin.counts()
        if any(answer != truth for answer in answers):
            fail(f"{text}: other rows than from the local file")
        return {
            "seconds": seconds, "bytes": after["bytes"] - before["bytes"], "gets": after["gets"] - before["gets"],
            "bytes_to_peers": fleet.total("bytes_to_peers"),
        }


def _scan(text, source):
    engine = queries.DuckDB(0, text)
    engine.open(source)
    rows = engine.run(source)
    engine.close()
    return rows


def _ratios(result):
    """Returns each scan with the ratio of its bytes to those of one node."""
    single = {scan["scan"]: scan["bytes"] for scan in result["scans"] if scan["nodes"] == 1}
    for scan in result["scans"]:
        yield scan, scan["bytes"] / single[scan["scan"]]


def bars(result):
    for scan, ratio in _ratios(result):
        if scan["nodes"] > 1:
            name = f"{scan['scan']}, {scan['nodes']} nodes, origin's bytes / those of one"
            yield Bar(name, ratio, "at most", MAX_BYTES)


def rows(result):
    """Returns the table: a row per scan and number of nodes."""
    yield ["scan", "nodes", "origin MB", "of one", "of the file", "GETs", "MB between nodes", "seconds"]
    for scan, ratio in _ratios(result):
        yield [
            scan["scan"], str(scan["nodes"]), f"{scan['bytes'] / 1e6:.1f}", f"{ratio:.3f}",
            f"{scan['bytes'] / result['file_bytes']:.3f}", f"{scan['gets']}", f"{scan['bytes_to_peers'] / 1e6:.1f}",
            f"{scan['seconds']:.2f}",
        ]
