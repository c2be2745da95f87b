#!/usr/bin/env python3
"""`make bench-node`: a storage node beside nginx, cachey and the origin itself, in one run on one machine."""

import sys

import clients
import cold
import forward
import hot
import queries
import suite
import traces

NEEDED_BYTES = 3 << 30

PARTS = {
    "hot": (hot, "Hot ranged GETs, from memory, over loopback", lambda r: (
        f"wrk, 1 thread, {r['connections']} connections; an object of {r['object_bytes'] >> 20} MiB, memory "
        f"{r['memory']} each; {r['rounds']} rounds of {r['seconds_per_run']} s, in turns; medians.\n"
        "CPU µs: the server's processor time per request. signed: a presigned URL per request, its range signed "
        "too.\nnginx: proxy_cache, slice 1m. stylobate / it: requests per second of the unsigned node over the "
        "row's.")),
    "cold": (cold, "Cold sequential read, from a slow origin and through an empty node", lambda r: (
        f"{r['object_bytes'] >> 20} MiB; the origin waits {r['delay_ms']} ms before each answer and sends "
        f"{r['megabytes_per_second']} MB/s; {r['pairs']} pairs; medians. ratio: node / direct; the goal is <= 1.1.")),
    "forward": (forward, "Forwarded requests: a PUT at network speed, a listing", lambda r: (
        f"PUT of {r['put_bytes'] >> 20} MiB to an origin that takes {r['megabytes_per_second']} MB/s, a node of 64 MiB; "
        f"{r['pairs']} pairs. A listing of 1,000 keys\non a new connection each, verified and signed again; "
        "medians.")),
    "traces": (traces, "Traces of Parpulse's kinds, through a cold node and from the slow origin", lambda r: (
        f"The origin waits {r['delay_ms']} ms before each answer and sends "
        f"{r['megabytes_per_second_of_a_connection']} MB/s per connection, {r['megabytes_per_second_in_all']} MB/s "
        f"in all;\nthe node has {r['memory']}; files at {r['scale']:g} of their size. Parpulse's means are those its "
        "authors published, for files of\nfull size, on AWS c5.xlarge against S3: context, not a comparison.")),
    "queries": (queries, "TPC-H's 22 queries, each engine from local files, the slow origin and a node", lambda r: (
        f"Scale {r['scale']:g}. The origin waits {r['delay_ms']} ms before each answer and sends "
        f"{r['megabytes_per_second']} MB/s per connection. Each query has\na new process of the engine and, cold, "
        f"a new node of {r['memory']}; warm is its second run. nginx: the same files by sendfile.\n"
        f"again: a second run in the same process. {r['rounds']} rounds; medians; sums of all queries.\n"
        "Bytes and requests (GET and HEAD) are those that the origin answered. pyarrow.dataset: the scans of the "
        "queries, without the joins.")),
    "clients": (clients, "TPC-H's 22 queries by DuckDB, several clients at once", lambda r: (
        f"Scale {r['scale']:g}. {r['clients']} clients: over local files, through a node of {r['memory']} that has read "
        f"everything once, and from nginx\n(sendfile). Seconds until all have all answers; {r['rounds']} rounds, in "
        f"turns; medians. A kept connection caches what it has read from a server.")),
}


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=5, help="hot rounds, and cold pairs (default: 5)")
    parser.add_argument("--query-rounds", type=int, default=1, help="rounds of the queries (default: 1)")
    parser.add_argument("--before", metavar="FILE", help="an older stylobate binary to measure in hot GETs too")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of each hot run (default: 4)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the sizes of files (default: 1)")


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, PARTS, NEEDED_BYTES, add_options))
