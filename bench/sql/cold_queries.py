"""TPC-H's 22 queries, each in a new process per engine over local files, which are in the system's page cache."""

import engines
import figures
import guest_memory
import queries
import servers
from suite import Bar

PROGRAMS = []
# Maximum time relative to DataFusion's own tables.
MAX_COLD = 1.05


def run(programs, folder, options):
    scale = queries.QUICK_SCALE if options.quick else options.scale
    source = queries.Local(engines.plain_tables(programs, scale) / servers.BUCKET)
    return measured(source, scale, options.cold_rounds, options)


def measured(source, scale, rounds, options):
    """Returns medians over rounds in which the engines take turns. The clock starts when a process is ready for its
    query, so opening its tables is included. Each round begins with another engine, and free memory is touched before
    each query: the memory that a process finds depends on the one before."""

    def times_of(text, check):
        times = {name: [] for name in engines.NAMES}
        for first in range(rounds):
            for name in engines.NAMES[first:] + engines.NAMES[:first]:
                with engines.Engine(name, source, options) as engine:
                    guest_memory.take_back()
                    milliseconds, rows = engine.ask(text)
                check(name, rows)
                times[name].append(milliseconds)
        return times

    return {"scale": scale, "threads": options.threads, "rounds": rounds, "versions": engines.versions(),
            "queries": figures.measure(options, times_of)}


def bars(result):
    ratios = figures.ratios(result, "datafusion").values()
    if ratios:
        of_sums = 1 / figures.ratio(figures.sums(result), "datafusion")
        yield Bar("cold, sum of all queries: stylobate / datafusion", of_sums, "at most", MAX_COLD)
        mean = 1 / figures.geometric_mean(ratios)
        yield Bar(f"cold, geometric mean of {len(ratios)} queries: stylobate / datafusion", mean, "at most", MAX_COLD)


rows = figures.rows
