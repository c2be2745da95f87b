"""TPC-H's 22 queries, each in a new process per engine over a remote object store."""

import cold_queries
import engines
import figures
import queries
import servers

PROGRAMS = ["nginx"]
DELAY_MS = 30
CONNECTION_MB = 100


def run(programs, folder, options):
    scale = queries.QUICK_SCALE if options.quick else options.scale
    root = engines.plain_tables(programs, scale)
    with servers.nginx_files(programs, folder, root) as files, \
            servers.SlowOrigin(folder, files.port, DELAY_MS, CONNECTION_MB) as origin:
        result = cold_queries.measured(queries.Remote(origin.port), scale, options.remote_rounds, options)
    return result | {"delay_ms": DELAY_MS, "megabytes_per_second": CONNECTION_MB}


bars = cold_queries.bars
rows = figures.rows
