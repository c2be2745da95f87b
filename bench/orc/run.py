#!/usr/bin/env python3
"""`make bench-orc`: ORC files, written and read beside pyarrow, in one run on one machine.

The rows are those of TPC-H lineitem, from memory or directly from the generator. No program syncs to disk. Figures are
medians over rounds in which the programs take turns; ratios are of medians. pyarrow writes with one thread; it accepts
neither dictionaries nor views, so it gets plain strings, with the fastest dictionary threshold of those tried. Its zstd
level is 1, so ours is too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import stylobate as st

ROOT = Path(__file__).resolve().parents[2]
CODECS = ["snappy", "zstd"]
OURS = {"snappy": "snappy", "zstd": "zstd(1)"}
THRESHOLDS = [0.0, 0.2, 0.8]


def main() -> int:
    arguments = parse()
    folder = arguments.data
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"pyarrow {pa.__version__}, cpus {os.cpu_count()}\n")
    coded = pa.table(st.generate_tpch(arguments.scale, tables="lineitem")["lineitem"])
    dense = coded.cast(pa.schema([field.with_type(plain(field.type)) for field in coded.schema]))
    report = {}
    parts = {"write": write, "generate": generate, "read": read}
    for name, part in parts.items():
        if not arguments.only or name in arguments.only:
            report[name] = part(arguments, folder, dense, coded)
            print()
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    shutil.rmtree(folder)
    return 0


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--only", nargs="*", choices=["write", "generate", "read"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--data", type=Path, default=target / "bench-orc", help="a folder for files; emptied first")
    return parser.parse_args()


def plain(type_: pa.DataType) -> pa.DataType:
    """Returns the type without dictionaries and views."""
    return pa.string() if pa.types.is_dictionary(type_) or type_ == pa.string_view() else type_


def write(arguments, folder: Path, dense: pa.Table, coded: pa.Table) -> list[dict]:
    """Measures writing a table from memory."""
    rows = []
    for codec in CODECS:
        runs = {
            "plain strings, 1 thread": ours(folder, dense, codec, 1),
            "plain strings, 2 threads": ours(folder, dense, codec, 2),
            "dictionaries, 1 thread": ours(folder, coded, codec, 1),
            "dictionaries, 2 threads": ours(folder, coded, codec, 2),
            **{f"pyarrow, threshold {at}": theirs(folder, dense, codec, at) for at in THRESHOLDS},
        }
        seconds = in_turns(arguments.rounds, runs)
        sizes = {name: (folder / file_name(name)).stat().st_size for name in runs}
        best = min(seconds[name] for name in runs if name.startswith("pyarrow"))
        for name in runs:
            holds(folder / file_name(name), dense)
        print(f"{codec + ', seconds and MB':<34}{'seconds':>9}{'rows/s':>14}{'MB':>8}{'pyarrow best / this':>22}")
        for name, took in seconds.items():
            rate = f"{dense.num_rows / took:,.0f}"
            print(f"{name:<34}{took:>9.2f}{rate:>14}{sizes[name] / 1e6:>8.1f}{best / took:>21.2f}x")
            rows.append({"codec": codec, "name": name, "seconds": took, "bytes": sizes[name], "ratio": best / took})
        print()
    return rows


def holds(path: Path, dense: pa.Table) -> None:
    """Checks that the file has exactly the rows of the table, as read by pyarrow."""
    found = pa.orc.read_table(path)
    assert found.cast(dense.schema).equals(dense), f"{path} has other rows"


def file_name(name: str) -> str:
    return name.replace(",", "").replace(" ", "-") + ".orc"


def ours(folder: Path, table: pa.Table, codec: str, threads: int) -> Callable[[str], object]:
    return lambda name: st.write_orc(
        table, folder / file_name(name), compression=OURS[codec], threads=threads, durability="none"
    )


def theirs(folder: Path, table: pa.Table, codec: str, threshold: float) -> Callable[[str], object]:
    return lambda name: pa.orc.write_table(
        table, folder / file_name(name), compression=codec, dictionary_key_size_threshold=threshold
    )


def generate(arguments, folder: Path, dense: pa.Table, _: pa.Table) -> dict:
    """Measures generating a file."""

    def pyarrow(_: str) -> None:
        with pa.orc.ORCWriter(folder / "pyarrow.orc", compression="snappy") as writer:
            stream = pa.RecordBatchReader.from_stream(st.generate_tpch(arguments.scale, tables="lineitem")["lineitem"])
            for batch in stream:
                writer.write(pa.Table.from_batches([batch]).cast(dense.schema))

    def stylobate(_: str) -> None:
        st.generate_tpch(
            arguments.scale, folder / "tpch", tables="lineitem", format="orc", compression="snappy",
            durability="none", overwrite=True,
        )

    seconds = in_turns(arguments.rounds, {"stylobate": stylobate, "pyarrow": pyarrow})
    for file in (folder / "pyarrow.orc", folder / "tpch" / "lineitem.orc"):
        holds(file, dense)
    for name, took in seconds.items():
        ratio = seconds["pyarrow"] / took
        print(f"generate and write, {name:<14}{took:>9.2f} s{dense.num_rows / took:>14,.0f} rows/s{ratio:>7.2f}x")
    return seconds


def read(arguments, folder: Path, dense: pa.Table, coded: pa.Table) -> list[dict]:
    """Measures reading all rows of a file into memory, with nothing kept between reads."""
    rows = []
    for codec in CODECS:
        for writer in ("stylobate", "pyarrow"):
            path = folder / f"{writer}-{codec}.orc"
            if writer == "stylobate":
                st.write_orc(coded, path, compression=codec)
            else:
                pa.orc.write_table(dense, path, compression=codec, dictionary_key_size_threshold=0.8)
            holds(path, dense)
            scanned_rows = pa.RecordBatchReader.from_stream(st.scan(path, dictionary=False)).read_all()
            assert scanned_rows.cast(dense.schema).equals(dense), f"the scan of {path} gave other rows"
            time.sleep(2.5)  # A file modified less than 2 s ago has no trusted version.
            runs = {
                "scan, dense": scanned(path, False),
                "scan, dictionaries kept": scanned(path, "auto"),
                "pyarrow": lambda _, path=path: pa.orc.read_table(path),
            }
            seconds = in_turns(arguments.rounds, runs)
            print(f"{f'{codec}, written by {writer}':<34}{'seconds':>9}{'rows/s':>14}{'pyarrow / this':>18}")
            for name, took in seconds.items():
                ratio = seconds["pyarrow"] / took
                print(f"{name:<34}{took:>9.2f}{dense.num_rows / took:>14,.0f}{ratio:>17.2f}x")
                rows.append({"codec": codec, "writer": writer, "name": name, "seconds": took, "ratio": ratio})
            print()
    return rows


def scanned(path: Path, dictionary: object) -> Callable[[str], object]:
    def run(_: str) -> None:
        # The cache is empty each time; without any memory, columns would be decoded a few rows at a time.
        with st.Cache(memory="2GiB") as cache:
            for _batch in st.scan(path, cache=cache, dictionary=dictionary).batches():
                pass

    return run


def in_turns(rounds: int, runs: dict[str, Callable[[str], object]]) -> dict[str, float]:
    """Returns medians over `rounds` rounds, where the runs take turns within a round; the first round is a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run(name)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


if __name__ == "__main__":
    sys.exit(main())
