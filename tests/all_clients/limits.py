"""Known limitations and their reasons, by client, origin (or any) and operation.

A test listed here must fail; the reasons are the notes of the table in the docs.
"""

from __future__ import annotations

Limits = dict[tuple[str, str, str], str]

AWS_CLI_1 = "aws-cli 1 copies objects of more than 8 MiB in parts, without their content type and metadata."
S5CMD_METADATA = "s5cmd copies without content type and metadata."
S5CMD_SPACE = "s5cmd sends a space in the name of a copy's source as `+`, which moto takes for a plus sign."
DUCKDB_EMPTY = "DuckDB does not put an object for an empty file."
DUCKDB_NAMES = "versitygw does not encode keys in listings, although DuckDB requests it (`encoding-type=url`)."
MOTO_ACL = "moto answers 500 to a request for the ACL of an object uploaded in parts; `s3cmd info` sends such a request."
VERSITYGW_MARKERS = "versitygw refuses to delete the marker of a directory in one request with the objects in it."

# With and without a node.
LIMITS: Limits = {
    ("aws-cli 1", "any", "metadata of large copies"): AWS_CLI_1,
    ("s5cmd", "any", "metadata of copies"): S5CMD_METADATA,
    ("s5cmd", "any", "metadata of large copies"): S5CMD_METADATA,
    ("duckdb", "any", "empty"): DUCKDB_EMPTY,
    ("duckdb", "versitygw", "list"): DUCKDB_NAMES,
    ("s3cmd", "moto", "metadata"): MOTO_ACL,
    ("pyarrow", "versitygw", "delete"): VERSITYGW_MARKERS,
}

# At the server itself, where a node does better.
LIMITS_WITHOUT_NODE: Limits = {
    ("s5cmd", "moto", "copy"): S5CMD_SPACE,
    ("s5cmd", "moto", "move"): S5CMD_SPACE,
}
