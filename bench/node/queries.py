"""TPC-H's 22 queries by DuckDB, Polars and pyarrow: from local files, from a slow origin, and through a node.

The query texts are those of DuckDB's extension. Polars runs the same texts. pyarrow has hardly any joins, so it reads
what each query scans: columns, and the filters on a single table.
"""

import datetime
import multiprocessing
import re
import shutil
import statistics
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path

import guest_memory
import servers
import tools
from suite import Bar, is_wanted, progress
from tools import fail

PROGRAMS = ["nginx"]
DELAY_MS = 30
CONNECTION_MB = 100
TABLES = ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"]
QUICK_SCALE, QUICK_QUERIES = 0.1, [1, 6, 14]
# Maximum time of a cold node relative to direct reads, and of a warm node relative to local files.
MAX_BYTES, MAX_REQUESTS, MAX_COLD_SECONDS, MAX_WARM_SECONDS = 1.25, 0.7, 1.0, 1.05
# Sums of floating-point numbers depend on the order in which threads add them.
DIGITS = 6


def run(programs, folder, options):
    scale = QUICK_SCALE if options.quick else options.scale
    root = generate_tables(programs, scale)
    texts = query_texts()
    numbers = QUICK_QUERIES if options.quick else range(1, 23)
    cases = [(name, number) for name in ENGINES for number in numbers
             if is_wanted(options, f"{name} {number}")]
    measured = []
    with servers.nginx_files(programs, folder, root) as files, \
            servers.SlowOrigin(folder, files.port, DELAY_MS, CONNECTION_MB) as origin:
        for name, number in cases:
            engine = ENGINES[name](number, texts[number])
            rounds = [_measure(programs, folder, engine, root, files, origin) for _ in range(options.query_rounds)]
            measured.append({"engine": name, "query": number, **_middle(rounds)})
            progress("  ".join(_row(name, str(number), measured[-1])))
    return {"scale": scale, "delay_ms": DELAY_MS, "megabytes_per_second": CONNECTION_MB, "memory": servers.MEMORY,
            "rounds": options.query_rounds, "queries": measured}


def generate_tables(programs, scale):
    """Returns a folder with the bucket of all tables; kept below the target folder for the next run."""
    root = tools.target_folder() / "bench-queries" / f"scale-{scale:g}"
    bucket = root / servers.BUCKET
    if not all((bucket / f"{table}.parquet").exists() for table in TABLES):
        shutil.rmtree(root, ignore_errors=True)
        command = [programs["stylobate"], "generate", "tpch", "--scale", f"{scale:g}", "--output", bucket]
        shown = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if shown.returncode != 0:
            fail(f"generate: {shown.stderr}")
    return root


def _measure(programs, folder, engine, root, files, origin):
    ways = {}
    local = Local(root / servers.BUCKET)
    # The first run brings the files into the page cache if they are not there.
    truth, _ = _timed(engine, local)
    _, ways["local"] = _timed(engine, local, is_repeated=True)
    # nginx sends the same files by sendfile: its time shows what reading by HTTP costs the engine itself.
    _, ways["nginx"] = _timed(engine, Remote(files.port), is_repeated=True)
    ways["direct"] = _counted(engine, origin.port, origin, truth)
    with servers.s3_node(programs, folder, servers.BUCKET, origin.port) as node:
        ways["cold"] = _counted(engine, node.port, origin, truth, node)
        ways["warm"] = _counted(engine, node.port, origin, truth, node, is_repeated=True)
    return ways


def _timed(engine, source, is_repeated=False):
    """Runs a query in a new process. Polars keeps its connections, and the concurrency that it has found to suit a
    server, as long as its process runs: the way that is measured last would profit."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run_timed, engine, source, is_repeated).result()


def run_timed(engine, source, is_repeated=False):
    """Returns the rows, as `canonical` does, and the figures of one run; `again` is the time of a second run in the same
    process, in which DuckDB has cached what it read from a server."""
    engine.open(source)
    # A node that has just started needs memory that nothing has touched for a while.
    guest_memory.take_back()
    begun = time.perf_counter()
    rows = engine.run(source)
    seconds = time.perf_counter() - begun
    again = None
    if is_repeated:
        begun = time.perf_counter()
        engine.run(source)
        again = time.perf_counter() - begun
    engine.close()
    return canonical(rows), {"seconds": seconds, "again": again, "bytes": 0, "requests": 0}


def _counted(engine, port, origin, truth, node=None, is_repeated=False):
    before = origin.counts()
    rows, figures = _timed(engine, Remote(port), is_repeated)
    if rows != truth:
        fail(f"{type(engine).__name__}, query {engine.number}: other rows than from local files")
    if node:
        # Bytes read ahead count even if the query did not wait for them.
        node.settle()
    after = origin.counts()
    requests = sum(after[name] - before[name] for name in ("gets", "heads"))
    return figures | {"bytes": after["bytes"] - before["bytes"], "requests": requests}


def canonical(rows):
    """Returns rows that compare equal regardless of order and of the last digits of floating-point numbers."""
    def plain(value):
        if isinstance(value, (float, Decimal)):
            return f"{float(value):.{DIGITS}g}"
        return str(value)

    return sorted([plain(value) for value in row] for row in rows)


def _middle(rounds):
    """Returns medians of each figure of each way. Bytes and requests hardly differ from round to round."""
    return {
        way: {name: statistics.median(one[way][name] for one in rounds)
              for name, first in rounds[0][way].items() if first is not None}
        for way in rounds[0]
    }


class Local:
    def __init__(self, folder):
        self.folder = folder

    def url(self, table):
        return f"{self.folder}/{table}.parquet"


class Remote:
    """The S3 server at `port`."""

    def __init__(self, port):
        self.host = f"127.0.0.1:{port}"

    def url(self, table):
        return f"s3://{servers.BUCKET}/{table}.parquet"


def query_texts():
    """Returns the text of each query by number."""
    connection = _duckdb("tpch")
    return dict(connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall())


def _duckdb(*extensions):
    """Returns a new database, with extensions from their wheels: nothing is downloaded."""
    import importlib

    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false",
                                        "autoload_known_extensions": "false"})
    for name in extensions:
        try:
            module = importlib.import_module(f"duckdb_extension_{name}")
        except ImportError:
            fail(f"the Python package duckdb-extension-{name} is missing")
        (file,) = Path(module.__file__).parent.rglob(f"{name}.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return connection


def tables_of(text):
    """Returns the tables that a query names."""
    return [table for table in TABLES if re.search(rf"\b{table}\b", text)]


class DuckDB:
    def __init__(self, number, text):
        self.number, self.text = number, text

    def open(self, source):
        self.connection = _duckdb("httpfs")
        if isinstance(source, Remote):
            self.connection.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{servers.ACCESS_KEY}', SECRET '{servers.SECRET_KEY}', "
                f"REGION 'us-east-1', URL_STYLE 'path', USE_SSL false, ENDPOINT '{source.host}')")

    def run(self, source):
        return self.execute(source).fetchall()

    def execute(self, source):
        for table in tables_of(self.text):
            self.connection.execute(f"CREATE VIEW IF NOT EXISTS {table} AS FROM read_parquet('{source.url(table)}')")
        return self.connection.execute(self.text)

    def close(self):
        self.connection.close()


class Polars:
    def __init__(self, number, text):
        self.number, self.text = number, text.strip().rstrip(";")

    def open(self, source):
        import polars  # noqa: F401  Not part of the time of a query.

        self.options = {}
        if isinstance(source, Remote):
            self.options = {"storage_options": {
                "aws_endpoint_url": f"http://{source.host}", "aws_access_key_id": servers.ACCESS_KEY,
                "aws_secret_access_key": servers.SECRET_KEY, "aws_region": "us-east-1", "aws_allow_http": "true",
            }}

    def run(self, source):
        return self.frame(source).rows()

    def frame(self, source):
        import polars

        def scanned(table):
            scan = polars.scan_parquet(source.url(table), **self.options)
            # The files' Arrow schema says dictionary, which Polars maps to a type without LIKE and substring.
            return scan.with_columns(polars.selectors.categorical().cast(polars.String))

        frames = {table: scanned(table) for table in tables_of(self.text)}
        return polars.SQLContext(frames=frames).execute(self.text).collect()

    def close(self):
        pass


class PyarrowDataset:
    """Returns the number of rows that each scan kept."""

    def __init__(self, number, _):
        self.number = number

    def open(self, source):
        import pyarrow.dataset
        import pyarrow.fs
        import pyarrow.parquet  # noqa: F401

        self.options = {}
        if isinstance(source, Remote):
            self.options["filesystem"] = pyarrow.fs.S3FileSystem(
                access_key=servers.ACCESS_KEY, secret_key=servers.SECRET_KEY, endpoint_override=source.host,
                scheme="http", region="us-east-1")

    def run(self, source):
        import pyarrow.dataset
        import pyarrow.parquet

        rows = []
        for table, columns, filters in SCANS[self.number]:
            path = source.url(table).removeprefix("s3://")
            dataset = pyarrow.dataset.dataset(path, format="parquet", **self.options)
            expression = pyarrow.parquet.filters_to_expression(filters) if filters else None
            read = dataset.to_table(columns=columns.split(), filter=expression)
            rows.append((table, read.num_rows))
        return rows

    def close(self):
        pass


ENGINES = {"DuckDB": DuckDB, "Polars": Polars, "pyarrow.dataset": PyarrowDataset}


def _day(year, month=1, day=1):
    return datetime.date(year, month, day)


def _between(column, first, end):
    return [(column, ">=", first), (column, "<", end)]


REVENUE = "l_extendedprice l_discount"
NATION = ("nation", "n_nationkey n_name", [])
SUPPLIER_NATION = ("supplier", "s_suppkey s_nationkey", [])

# Per query: table, columns, and the filters on that table alone, with the values of the specification's validation
# runs.
SCANS = {
    1: [("lineitem", f"l_returnflag l_linestatus l_quantity l_tax {REVENUE}",
         [("l_shipdate", "<=", _day(1998, 9, 2))])],
    2: [("part", "p_partkey p_mfgr p_type", [("p_size", "==", 15)]),
        ("supplier", "s_suppkey s_nationkey s_name s_acctbal s_address s_phone s_comment", []),
        ("partsupp", "ps_partkey ps_suppkey ps_supplycost", []),
        ("nation", "n_nationkey n_name n_regionkey", []), ("region", "r_regionkey", [("r_name", "==", "EUROPE")])],
    3: [("customer", "c_custkey", [("c_mktsegment", "==", "BUILDING")]),
        ("orders", "o_orderkey o_custkey o_orderdate o_shippriority", [("o_orderdate", "<", _day(1995, 3, 15))]),
        ("lineitem", f"l_orderkey {REVENUE}", [("l_shipdate", ">", _day(1995, 3, 15))])],
    4: [("orders", "o_orderkey o_orderpriority", _between("o_orderdate", _day(1993, 7), _day(1993, 10))),
        ("lineitem", "l_orderkey l_commitdate l_receiptdate", [])],
    5: [("customer", "c_custkey c_nationkey", []),
        ("orders", "o_orderkey o_custkey", _between("o_orderdate", _day(1994), _day(1995))),
        ("lineitem", f"l_orderkey l_suppkey {REVENUE}", []), SUPPLIER_NATION,
        ("nation", "n_nationkey n_name n_regionkey", []), ("region", "r_regionkey", [("r_name", "==", "ASIA")])],
    6: [("lineitem", REVENUE, [*_between("l_shipdate", _day(1994), _day(1995)),
                               ("l_discount", ">=", Decimal("0.05")), ("l_discount", "<=", Decimal("0.07")),
                               ("l_quantity", "<", Decimal("24.00"))])],
    7: [SUPPLIER_NATION,
        ("lineitem", f"l_orderkey l_suppkey l_shipdate {REVENUE}", _between("l_shipdate", _day(1995), _day(1997))),
        ("orders", "o_orderkey o_custkey", []), ("customer", "c_custkey c_nationkey", []),
        ("nation", "n_nationkey n_name", [("n_name", "in", ["FRANCE", "GERMANY"])])],
    8: [("part", "p_partkey", [("p_type", "==", "ECONOMY ANODIZED STEEL")]), SUPPLIER_NATION,
        ("lineitem", f"l_orderkey l_partkey l_suppkey {REVENUE}", []),
        ("orders", "o_orderkey o_custkey o_orderdate", _between("o_orderdate", _day(1995), _day(1997))),
        ("customer", "c_custkey c_nationkey", []), ("nation", "n_nationkey n_name n_regionkey", []),
        ("region", "r_regionkey", [("r_name", "==", "AMERICA")])],
    9: [("part", "p_partkey p_name", []), SUPPLIER_NATION,
        ("lineitem", f"l_orderkey l_partkey l_suppkey l_quantity {REVENUE}", []),
        ("partsupp", "ps_partkey ps_suppkey ps_supplycost", []), ("orders", "o_orderkey o_orderdate", []), NATION],
    10: [("customer", "c_custkey c_name c_acctbal c_phone c_nationkey c_address c_comment", []),
         ("orders", "o_orderkey o_custkey", _between("o_orderdate", _day(1993, 10), _day(1994))),
         ("lineitem", f"l_orderkey {REVENUE}", [("l_returnflag", "==", "R")]), NATION],
    11: [("partsupp", "ps_partkey ps_suppkey ps_availqty ps_supplycost", []), SUPPLIER_NATION,
         ("nation", "n_nationkey", [("n_name", "==", "GERMANY")])],
    12: [("orders", "o_orderkey o_orderpriority", []),
         ("lineitem", "l_orderkey l_shipmode l_commitdate l_receiptdate l_shipdate",
          [("l_shipmode", "in", ["MAIL", "SHIP"]), *_between("l_receiptdate", _day(1994), _day(1995))])],
    13: [("customer", "c_custkey", []), ("orders", "o_orderkey o_custkey o_comment", [])],
    14: [("lineitem", f"l_partkey {REVENUE}", _between("l_shipdate", _day(1995, 9), _day(1995, 10))),
         ("part", "p_partkey p_type", [])],
    15: [("lineitem", f"l_suppkey {REVENUE}", _between("l_shipdate", _day(1996), _day(1996, 4))),
         ("supplier", "s_suppkey s_name s_address s_phone", [])],
    16: [("partsupp", "ps_partkey ps_suppkey", []),
         ("part", "p_partkey p_brand p_type p_size",
          [("p_brand", "!=", "Brand#45"), ("p_size", "in", [49, 14, 23, 45, 19, 3, 36, 9])]),
         ("supplier", "s_suppkey s_comment", [])],
    17: [("lineitem", "l_partkey l_quantity l_extendedprice", []),
         ("part", "p_partkey", [("p_brand", "==", "Brand#23"), ("p_container", "==", "MED BOX")])],
    18: [("customer", "c_custkey c_name", []), ("orders", "o_orderkey o_custkey o_orderdate o_totalprice", []),
         ("lineitem", "l_orderkey l_quantity", [])],
    19: [("lineitem", f"l_partkey l_quantity {REVENUE}",
          [("l_shipmode", "in", ["AIR", "AIR REG"]), ("l_shipinstruct", "==", "DELIVER IN PERSON")]),
         ("part", "p_partkey p_brand p_container p_size",
          [("p_brand", "in", ["Brand#12", "Brand#23", "Brand#34"]), ("p_size", ">=", 1), ("p_size", "<=", 15)])],
    20: [("supplier", "s_suppkey s_nationkey s_name s_address", []),
         ("nation", "n_nationkey", [("n_name", "==", "CANADA")]),
         ("partsupp", "ps_partkey ps_suppkey ps_availqty", []), ("part", "p_partkey p_name", []),
         ("lineitem", "l_partkey l_suppkey l_quantity", _between("l_shipdate", _day(1994), _day(1995)))],
    21: [("supplier", "s_suppkey s_nationkey s_name", []),
         ("lineitem", "l_orderkey l_suppkey l_receiptdate l_commitdate", []),
         ("orders", "o_orderkey", [("o_orderstatus", "==", "F")]),
         ("nation", "n_nationkey", [("n_name", "==", "SAUDI ARABIA")])],
    22: [("customer", "c_custkey c_phone c_acctbal", [("c_acctbal", ">", Decimal("0.00"))]),
         ("orders", "o_custkey", [])],
}


def _sums(result):
    """Returns, per engine, the sum of each figure of each way."""
    sums = {}
    for one in result["queries"]:
        ways = sums.setdefault(one["engine"], {})
        for way in ("local", "nginx", "direct", "cold", "warm"):
            for name, value in one[way].items():
                figures = ways.setdefault(way, {})
                figures[name] = figures.get(name, 0) + value
    return sums


def bars(result):
    for engine, ways in _sums(result).items():
        direct, cold = ways["direct"], ways["cold"]
        for name, limit in [("bytes", MAX_BYTES), ("requests", MAX_REQUESTS), ("seconds", MAX_COLD_SECONDS)]:
            yield Bar(f"{engine}, cold, {name} / direct", cold[name] / direct[name], "at most", limit)
        yield Bar(f"{engine}, warm, seconds / local", ways["warm"]["seconds"] / ways["local"]["seconds"],
                  "at most", MAX_WARM_SECONDS)


def rows(result):
    """Returns the table: a row per query, and the sums of each engine."""
    yield ["engine", "query", "MB direct", "cold", "ratio", "requests direct", "cold", "ratio", "s direct", "cold",
           "ratio", "s local", "warm", "ratio", "nginx", "ratio", "s local again", "warm", "ratio", "nginx", "ratio"]
    for engine, ways in _sums(result).items():
        for one in result["queries"]:
            if one["engine"] == engine:
                yield _row(engine, str(one["query"]), one)
        yield _row(engine, "all", ways)


def _row(engine, query, ways):
    local, nginx, direct, cold, warm = (ways[way] for way in ("local", "nginx", "direct", "cold", "warm"))
    return [
        engine, query,
        f"{direct['bytes'] / 1e6:.1f}", f"{cold['bytes'] / 1e6:.1f}", _ratio(cold["bytes"], direct["bytes"]),
        f"{direct['requests']:.0f}", f"{cold['requests']:.0f}", _ratio(cold["requests"], direct["requests"]),
        f"{direct['seconds']:.2f}", f"{cold['seconds']:.2f}", _ratio(cold["seconds"], direct["seconds"]),
        f"{local['seconds']:.3f}", f"{warm['seconds']:.3f}", _ratio(warm["seconds"], local["seconds"]),
        f"{nginx['seconds']:.3f}", _ratio(nginx["seconds"], local["seconds"]),
        f"{local['again']:.3f}", f"{warm['again']:.3f}", _ratio(warm["again"], local["again"]),
        f"{nginx['again']:.3f}", _ratio(nginx["again"], local["again"]),
    ]


def _ratio(figure, reference):
    return f"{figure / reference:.2f}" if reference else "none"
