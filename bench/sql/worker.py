"""Answers queries from standard input by DuckDB or Polars, as `stylobate-bench-sql` does for the other engines."""

import argparse
import json
import sys
import time
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node"))

import queries  # noqa: E402


class DuckDB(queries.DuckDB):
    def __init__(self, source, threads):
        super().__init__(0, "")
        self.source = source
        self.open(source)
        # The cache of file data is on by default. The other one keeps footers.
        for setting in (f"threads = {threads}", "enable_external_file_cache = true", "parquet_metadata_cache = true"):
            self.connection.execute(f"SET {setting}")

    def table(self, text):
        self.text = text
        return self.execute(self.source).to_arrow_table()

    @staticmethod
    def rows(table):
        return list(zip(*(column.to_pylist() for column in table.columns)))


class Polars(queries.Polars):
    def __init__(self, source, _threads):
        super().__init__(0, "")
        self.source = source
        self.open(source)

    def table(self, text):
        self.text = text
        return self.frame(self.source)

    @staticmethod
    def rows(frame):
        return frame.rows()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["duckdb", "polars"])
    parser.add_argument("threads", type=int)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--host", help="an S3 server, instead of a folder")
    options = parser.parse_args()
    source = queries.Local(options.folder)
    if options.host:
        source = queries.Remote(int(options.host.rpartition(":")[2]))
    # Imports that an engine would do at its first query are not part of the query.
    import polars  # noqa: F401
    import pyarrow  # noqa: F401

    engine = {"duckdb": DuckDB, "polars": Polars}[options.engine](source, options.threads)
    for line in sys.stdin:
        query = json.loads(line)
        begun = time.perf_counter()
        table = engine.table(query["sql"])
        milliseconds = (time.perf_counter() - begun) * 1e3
        rows = engine.rows(table)
        # Memory is freed before another engine runs.
        del table
        print(json.dumps({"milliseconds": milliseconds, "rows": rows}, default=plain), flush=True)


def plain(value):
    return float(value) if isinstance(value, Decimal) else str(value)


if __name__ == "__main__":
    main()
