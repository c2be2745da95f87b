"""TPC-H's 22 queries, repeated in one process per engine over local files."""

import contextlib

import engines
import figures
import queries
import servers
from suite import Bar

PROGRAMS = []

# Bars: the minimum of a peer's time divided by ours.
# Queries 1 and 6, by peer.
MIN_DATAFUSION, MIN_DUCKDB = 3.0, 2.0
# DataFusion: the geometric mean of all queries, and each single query.
MIN_ALL, MIN_EACH = 1.5, 0.95
# LiquidCache: the geometric mean of all queries.
MIN_LIQUIDCACHE = 1.0


def run(programs, folder, options):
    """Measures every query on every engine. Returns the settings, the versions and the median times."""
    scale = queries.QUICK_SCALE if options.quick else options.scale
    source = queries.Local(engines.plain_tables(programs, scale) / servers.BUCKET)
    names = [*engines.NAMES, *([engines.LIQUIDCACHE] if engines.liquidcache_program() else [])]

    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(engines.Engine(name, source, options)) for name in names]
        measured = figures.measure(options, lambda text, check: _times(running, options.rounds, text, check))

    return {"scale": scale, "threads": options.threads, "memory": options.memory, "rounds": options.rounds,
            "versions": engines.versions(), "queries": measured}


def _times(running, rounds, text, check):
    """Returns the times of a query by engine. Engines take turns in each round; an untimed first round checks their
    rows."""
    for engine in running:
        check(engine.name, engine.ask(text)[1])

    times = {engine.name: [] for engine in running}
    for _ in range(rounds):
        for engine in running:
            times[engine.name].append(engine.ask(text)[0])

    return times


def bars(result):
    """Yields the ratios of peers' times to ours, and their minimums."""
    ratios = figures.ratios(result, "datafusion")
    for number in sorted({1, 6} & ratios.keys()):
        yield Bar(f"warm, query {number}: datafusion / stylobate", ratios[number], "at least", MIN_DATAFUSION)
        duckdb = figures.ratios(result, "duckdb")[number]
        yield Bar(f"warm, query {number}: duckdb / stylobate", duckdb, "at least", MIN_DUCKDB)

    if ratios:
        mean = figures.geometric_mean(ratios.values())
        yield Bar(f"warm, geometric mean of {len(ratios)} queries: datafusion / stylobate", mean, "at least", MIN_ALL)

        if liquidcache := figures.ratios(result, engines.LIQUIDCACHE):
            mean = figures.geometric_mean(liquidcache.values())
            yield Bar(f"warm, geometric mean of {len(liquidcache)} queries: liquidcache / stylobate", mean, "at least",
                      MIN_LIQUIDCACHE)

        worst = min(ratios, key=ratios.get)
        yield Bar(f"warm, worst of all, query {worst}: datafusion / stylobate", ratios[worst], "at least", MIN_EACH)


rows = figures.rows
