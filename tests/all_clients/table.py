"""The table of clients and origins in the docs, generated from a run of the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Outcome:
    """The outcome of a test, and the reason if it did not pass."""

    passed: bool
    reason: str = ""


OPERATIONS = [
    *("put", "empty", "multipart", "get", "range", "list", "copy", "move", "delete"),
    *("metadata", "metadata of copies", "metadata of large copies", "sync", "table"),
]
ORIGINS = {"folder": "a folder", "moto": "moto", "versitygw": "versitygw"}

# Outcomes by client, origin and operation; and the version of each client or server.
RESULTS: dict[tuple[str, str, str], Outcome] = {}
VERSIONS: dict[str, str] = {}

HEAD = """# Clients and origins

The operations of each client that work through a node with access keys, in front of a folder and of two S3 servers.
`make test-clients-all` runs the clients as processes, and writes this page if `STYLOBATE_CLIENT_TABLE=docs/clients.md` is set.

`all`: each operation of the row works. Tests check the resulting bytes, sizes, listings and headers, both at the origin and
as returned to the client.

| operation | what is checked |
|---|---|
| put, empty | small, oddly named and empty objects; one that replaces another |
| multipart | 21 MB in parts of 5 MiB, or of the client's own size |
| get | empty, small, oddly named and 21 MB, twice each; an object that does not exist is an error |
| range | the first and last bytes, and ranges across blocks of the cache; s3cmd: the rest of a download |
| list | 1,105 keys in two pages, at any depth and of one level |
| copy, move | empty, small, oddly named and 21 MB |
| delete | one object, and all below a prefix, but none beside it |
| metadata | content type and user metadata of an upload, at the origin and by the client; pyarrow: content type |
| metadata of copies, of large copies | 1 kB and 21 MB (in parts by some clients) keep content type and metadata |
| sync | a tree up and down: nothing is sent the second time; then one changed file is sent, and one deleted file is removed |
| table | write, append, read, filter, delete rows where the format can, overwrite, vacuum; files byte for byte |
"""


def table() -> str:
    """Returns the page of the docs."""
    notes: list[str] = []
    clients = list(dict.fromkeys(client for client, _, _ in RESULTS))
    origins = [name for name in ORIGINS if any(origin == name for _, origin, _ in RESULTS)]
    lines = [
        "| client | operations | " + " | ".join(heading(origin) for origin in origins) + " |",
        "|---|---|" + "---|" * len(origins),
    ]
    for client in clients:
        done = [name for name in OPERATIONS if any((client, origin, name) in RESULTS for origin in origins)]
        cells = [cell(client, origin, notes) for origin in origins]
        version = f" {VERSIONS[client]}" if client in VERSIONS else ""
        lines.append(f"| {shown(client)}{version} | {', '.join(done)} | {' | '.join(cells)} |")
    page = [HEAD, *lines]
    if notes:
        page += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    return "\n".join(page) + "\n"


def shown(client: str) -> str:
    """Returns the name of a client without the version that is part of it."""
    return client.removesuffix(" 1").removesuffix(" 2")


def heading(origin: str) -> str:
    version = f" {VERSIONS[origin]}" if origin in VERSIONS else ""
    return ORIGINS[origin] + version


def cell(client: str, origin: str, notes: list[str]) -> str:
    """Returns the operations that do not work, with the numbers of the notes that explain them, or `all`."""
    lacking = []
    for operation in OPERATIONS:
        outcome = RESULTS.get((client, origin, operation))
        if outcome and not outcome.passed:
            if outcome.reason not in notes:
                notes.append(outcome.reason)
            lacking.append(f"{operation} ({notes.index(outcome.reason) + 1})")
    return f"all but {', '.join(lacking)}" if lacking else "all"
