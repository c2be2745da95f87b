"""The four kinds of traces of `stylobate replay`: through a cold node, and straight from the slow origin."""

import json
import shutil
import subprocess

import servers
from tools import fail

KINDS = ["1m", "100m", "parallel", "serial"]
PROGRAMS = ["nginx"]
DELAY_MS = 30
CONNECTION_MB = 100
TOTAL_MB = 250
# Space for the files of all traces.
MEMORY = "2GiB"
# Mean latency in ms that Parpulse's authors report for traces of these kinds: AWS c5.xlarge, S3, debug builds.
PARPULSE_MEAN_MS = {"1m": 105.6, "100m": 5914.0, "parallel": 1959.0, "serial": 766.0}
SCALE = 0.1


def run(programs, folder, options):
    scale = SCALE if options.quick else options.scale
    kinds = {}
    for kind in KINDS:
        root = folder / f"trace-{kind}"
        _run([programs["stylobate"], "replay", "--make", "zipf", "--kind", kind, "--scale", scale,
              "--output", root])
        with servers.nginx_files(programs, folder, root) as files, \
                servers.SlowOrigin(folder, files.port, DELAY_MS, CONNECTION_MB, TOTAL_MB) as origin, \
                servers.s3_node(programs, folder, "data", origin.port, memory=MEMORY) as node:
            kinds[kind] = _play(programs, root, node, origin)
        shutil.rmtree(root)
    return {"delay_ms": DELAY_MS, "megabytes_per_second_of_a_connection": CONNECTION_MB,
            "megabytes_per_second_in_all": TOTAL_MB, "memory": MEMORY, "scale": scale, "kinds": kinds}


def _play(programs, root, node, origin):
    report = root / "report.json"
    _run([programs["stylobate"], "replay", root / "trace.csv", "--bucket", "data",
          "--endpoint", f"http://{node.host}", "--compare", f"http://{origin.host}", "--json", report])
    report = json.loads(report.read_text())
    through, direct = report["runs"]
    return {"requests": through["requests"], "bytes": through["bytes"],
            "fetched_bytes": node.stats()["bytes_origin"], "node": _figures(through), "direct": _figures(direct),
            "ratio": {"latency": report["ratio"]["latency"], "first_byte": report["ratio"]["first_byte"]}}


def _figures(run):
    return {"latency_ms": run["latency_ms"], "first_byte_ms": run["first_byte_ms"],
            "max_lag_ms": run["max_lag_ms"]}


def _run(command):
    shown = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if shown.returncode != 0:
        fail(f"{' '.join(map(str, command))}:\n{shown.stdout}{shown.stderr}")


def rows(result):
    """Returns the table: a row per trace and way, with the origin's time as a multiple."""
    yield ["trace", "way", "mean ms", "p50", "p99", "first byte ms", "p99", "fetched", "Parpulse's mean"]
    for kind, played in result["kinds"].items():
        for way, bytes_ in (("node", played["fetched_bytes"]), ("direct", played["bytes"])):
            latency, first = played[way]["latency_ms"], played[way]["first_byte_ms"]
            yield [
                kind, way, *(f"{latency[name]:,.1f}" for name in ("mean", "p50", "p99")),
                f"{first['mean']:,.1f}", f"{first['p99']:,.1f}", f"{bytes_ / 1e6:,.0f} MB",
                f"{PARPULSE_MEAN_MS[kind]:,.1f}" if way == "node" else "",
            ]
        latency, first = played["ratio"]["latency"], played["ratio"]["first_byte"]
        yield [kind, "direct / node", *(f"{latency[name]:.2f}x" for name in ("mean", "p50", "p99")),
               f"{first['mean']:.2f}x", f"{first['p99']:.2f}x", "", ""]
