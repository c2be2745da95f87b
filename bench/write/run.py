#!/usr/bin/env python3
"""`make bench-write`: writing beside pyarrow, the parquet crate and tpchgen-cli, in one run on one machine.

The tables are ten columns of three million strings of 32 bytes with few or many distinct values, from memory, and TPC-H
lineitem, generated and written. No program syncs to disk, unless noted. Figures are medians over rounds in which the
programs take turns; ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
ROWS, COLUMNS = 3_000_000, 10
LINEITEM_ROWS = {1: 6_001_215, 10: 59_986_052}


def main() -> int:
    arguments = parse()
    folder = arguments.data
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"pyarrow     {pa.__version__}")
    print(f"tpchgen-cli {output(arguments.tpchgen, '--version').split()[-1]}")
    print(f"cpus        {os.cpu_count()}\n")
    report = {}
    parts = {"tables": tables, "lineitem": lineitem, "memory": memory, "sinks": sinks}
    for name, part in parts.items():
        if not arguments.only or name in arguments.only:
            report[name] = part(arguments, folder)
            print()
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    shutil.rmtree(folder)
    return 0


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=["tables", "lineitem", "memory", "sinks"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-write", help="a folder for files; emptied first")
    parser.add_argument("--binary", type=Path, default=target / "release/stylobate-bench-write")
    parser.add_argument("--stylobate", type=Path, default=target / "release/stylobate")
    parser.add_argument("--tpchgen", type=Path, default=Path(sys.executable).parent / "tpchgen-cli")
    return parser.parse_args()


def tables(arguments, folder: Path) -> list[dict]:
    """Measures writing ten columns of strings from memory."""
    rows = []
    for dense in (False, True):
        for distinct in (1_000, 100_000):
            table = strings(distinct, dense)
            for threads in (1, 2):
                flags = ["--distinct", distinct, "--threads", threads, "--rounds", arguments.rounds]
                row = json.loads(output(arguments.binary, "table", folder, *flags, *["--dense"] * dense))
                pa.set_cpu_count(threads)
                row["pyarrow_s"], row["pyarrow_bytes"] = pyarrow(arguments, folder / "pyarrow.parquet", table)
                rows.append(row)
            del table
    print(f"{'milliseconds, ratio to ours, MB':<42}{'threads':>8}{'stylobate':>22}{'parquet-rs':>26}{'pyarrow':>26}")
    for row in rows:
        title = f"{row['distinct']:,} distinct, {'dense' if row['dense'] else 'from dictionaries'}"
        cells = f"{row['stylobate_s'] * 1e3:>12,.0f}{row['stylobate_bytes'] / 1e6:>7,.0f} MB"
        for peer in ("parquet_rs", "pyarrow"):
            ratio = row[f"{peer}_s"] / row["stylobate_s"]
            cells += f"{row[f'{peer}_s'] * 1e3:>9,.0f}{ratio:>6.2f}x{row[f'{peer}_bytes'] / 1e6:>7,.0f} MB"
        print(f"{title:<42}{row['threads']:>8}{cells}")
    return rows


def strings(distinct: int, dense: bool) -> pa.Table:
    random = np.random.default_rng(7)
    letters = random.integers(33, 126, (distinct, 32), dtype=np.uint8)
    values = pa.array([bytes(row).decode("ascii") for row in letters])
    columns = {}
    for name in range(COLUMNS):
        codes = pa.array(random.integers(0, distinct, ROWS, dtype=np.int32))
        columns[f"c{name}"] = values.take(codes) if dense else pa.DictionaryArray.from_arrays(codes, values)
    return pa.table(columns)


def pyarrow(arguments, file: Path, table: pa.Table) -> tuple[float, int]:
    times = []
    for _ in range(arguments.rounds + 1):
        start = time.perf_counter()
        pq.write_table(table, file, compression="snappy")
        times.append(time.perf_counter() - start)
        size = file.stat().st_size
        file.unlink()
    return statistics.median(times[1:]), size


def lineitem(arguments, folder: Path) -> list[dict]:
    """Measures TPC-H lineitem at scale 1: generated, encoded and written by one command."""
    rows = []
    for codec, theirs in (("snappy", "SNAPPY"), ("zstd(3)", "ZSTD(3)")):
        for threads in (2, 1):
            commands = commands_at(arguments, folder, 1, threads, codec, theirs)
            times = {name: [] for name in commands}
            sizes = {}
            for round in range(arguments.rounds + 1):
                for name, command in commands.items():
                    shutil.rmtree(folder / name, ignore_errors=True)
                    start = time.perf_counter()
                    output(*command)
                    took = time.perf_counter() - start
                    file = folder / name / "lineitem.parquet"
                    assert pq.read_metadata(file).num_rows == LINEITEM_ROWS[1]
                    sizes[name] = file.stat().st_size
                    if round > 0:
                        times[name].append(took)
            seconds = {name: statistics.median(some) for name, some in times.items()}
            rows.append({"codec": codec, "threads": threads, "seconds": seconds, "bytes": sizes})
    print(f"{'lineitem at scale 1, seconds and MB':<38}{'threads':>8}{'stylobate':>18}{'tpchgen-cli':>18}{'ratio':>8}")
    for row in rows:
        cells = "".join(f"{row['seconds'][name]:>9.2f}{row['bytes'][name] / 1e6:>6.0f} MB" for name in commands)
        ratio = row["seconds"]["tpchgen-cli"] / row["seconds"]["stylobate"]
        print(f"{row['codec']:<38}{row['threads']:>8}{cells}{ratio:>7.2f}x")
    return rows


def commands_at(arguments, folder: Path, scale: int, threads: int, codec: str, theirs: str) -> dict[str, list]:
    common = ["--tables", "lineitem"]
    ours = [arguments.stylobate, "generate", "tpch", "--scale", scale, *common, "--output", folder / "stylobate",
            "--threads", threads, "--compression", codec, "--durability", "none", "--quiet"]
    other = [arguments.tpchgen, "parquet", "-s", scale, *common, "--output-dir", folder / "tpchgen-cli",
             "--num-threads", threads, "--compression", theirs, "--quiet"]
    return {"stylobate": ours, "tpchgen-cli": other}


def memory(arguments, folder: Path) -> dict:
    """Returns the peak memory of a process that generates and writes lineitem at scale 10."""
    peaks = {}
    for name, command in commands_at(arguments, folder, 10, 2, "snappy", "SNAPPY").items():
        shutil.rmtree(folder / name, ignore_errors=True)
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
                peaks[name] = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
            except (OSError, StopIteration):
                pass
            time.sleep(0.02)
        assert process.returncode == 0, name
        assert pq.read_metadata(folder / name / "lineitem.parquet").num_rows == LINEITEM_ROWS[10]
        shutil.rmtree(folder / name)
    print("lineitem at scale 10, peak memory: " + ", ".join(f"{name} {kib / 1024:,.0f} MiB" for name, kib in peaks.items()))
    return peaks


def sinks(arguments, folder: Path) -> list[dict]:
    """Compares the kinds of file sinks."""
    rows = []
    for title, flags in (
        ("one file of 2 GiB", ["--mib", 2048]),
        ("32 files at once, 2 GiB", ["--mib", 2048, "--files", 32]),
        ("one file of 512 MiB, 64 KiB at a time", ["--mib", 512, "--write-kib", 64]),
        ("32 files, 512 MiB, 64 KiB at a time", ["--mib", 512, "--files", 32, "--write-kib", 64]),
    ):
        for fsync in (False, True):
            flag = ["--fsync"] * fsync
            row = json.loads(output(arguments.binary, "sinks", folder, "--rounds", arguments.rounds, *flags, *flag))
            rows.append(row | {"title": title + (", on the disk" if fsync else "")})
    print(f"{'MB/s':<52}" + "".join(f"{kind:>18}" for kind in rows[0]["seconds"]))
    for row in rows:
        rates = "".join(f"{row['mib'] * 1.048576 / seconds:>18,.0f}" for seconds in row["seconds"].values())
        print(f"{row['title']:<52}{rates}")
    return rows


def output(*command) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
