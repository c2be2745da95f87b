"""HTML views of scans, caches and graphs, which notebooks show in place of the `repr`.

The HTML loads nothing, runs nothing, and inherits its colors from the page. All text is escaped, since names come from
files.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stylobate.errors import StylobateError

if TYPE_CHECKING:
    from stylobate._stylobate import Cache
    from stylobate.graph import Graph
    from stylobate.scan import Scan
    from stylobate.store_snapshot import Snapshot

MAX_ROWS = 100
"""Maximum rows of a table; a last line gives the number of omitted rows."""

MAX_TEXT = 400
"""Maximum characters of a text."""

MAX_PARTS = 64
"""Maximum parts of an adjacency list up to which edges are counted: the count reads one file per part."""

BAR_WIDTH, BAR_HEIGHT = 480, 14

COLOURS = {
    "pages": "#3b8fc4",
    "chunks": "#5aa469",
    "metadata": "#d9a02b",
    "decodes": "#c45b5b",
    "uploads": "#8e6bbf",
    "disk": "#3b8fc4",
}
OTHER_COLOUR = "#8a8a8a"

USES = {
    "pages": "pages of objects",
    "chunks": "decoded columns",
    "metadata": "metadata of files",
    "decodes": "decodes under way",
    "uploads": "uploads",
    "disk": "pages of objects",
}
"""Display names of the holders of memory and disk."""


def scan_html(scan: Scan) -> str:
    """Returns the paths, filter and schema of a scan, and its row count if footers provided it on creation."""
    source = scan._source
    arguments = scan._arguments
    rows = getattr(source, "known_rows", None)
    files = getattr(source, "file_count", None)
    facts = [
        ("paths", code(without_credentials(scan._paths))),
        ("files", None if files is None else number(files)),
        ("rows", "not known before it is read" if rows is None else number(rows)),
        *((name, None if value is None else code(shown(value))) for name, value in chosen(arguments).items()),
    ]
    columns = [(code(name), code(type)) for name, type in columns_of(scan.schema)]
    return block("Scan", facts, table(("column", "type"), columns, "columns"))


def cache_html(cache: Cache) -> str:
    """Returns the memory and disk of a cache by use, relative to their capacity."""
    try:
        stats = cache.stats()
    except StylobateError as error:
        return block("Cache", [("state", text(error))])

    memory, pages = stats["memory"], stats["pages"]
    held = {holder["holder"]: holder["bytes"] for holder in memory["holders"]}
    body = [bar("memory", held, memory["capacity"])]
    if pages["disk_capacity"]:
        body.append(bar("disk", {"disk": pages["disk_used"]}, pages["disk_capacity"]))

    hits = [
        ("columns found, missed", f"{number(stats['hits'])}, {number(stats['misses'])}"),
        ("pages found in memory", number(pages["memory_hits"])),
        ("pages found on disk", number(pages["disk_hits"]) if pages["disk_capacity"] else None),
        ("pages missed", number(pages["misses"])),
    ]
    return block("Cache", hits, *body)


def graph_html(graph: Graph) -> str:
    """Returns the types of a graph with their properties and counts.

    Counts come from the small files that hold them. Edges with more than `MAX_PARTS` parts and unreadable counts are
    left out.
    """
    info = graph._info
    counts: dict[str, int | None] = {}
    vertices = []
    for of_type in info["vertices"]:
        name = of_type["type"]
        counts[name] = vertex_count(graph, name)
        vertices.append((code(name), number(counts[name]), properties(properties_of(of_type))))

    edges = []
    for of_type in info["edges"]:
        ends = of_type["src_type"], of_type["edge_type"], of_type["dst_type"]
        found = edge_count(graph, ends) if parts_of(of_type, counts) <= MAX_PARTS else None
        lists = ", ".join(str(of_list["order"]) for of_list in of_type.get("adj_lists", ()))
        edges.append((edge(ends), number(found), properties(properties_of(of_type)), text(lists)))

    facts = [("name", code(info["name"])), ("opened as", code(graph._shown))]
    return block(
        "Graph",
        facts,
        table(("vertex type", "vertices", "properties"), vertices, "vertex types"),
        table(("edge type", "edges", "properties", "kept"), edges, "edge types"),
    )


def snapshot_html(snapshot: Snapshot) -> str:
    """Returns the version and the types of a snapshot with their counts. Does no I/O."""
    return snapshot_block("Snapshot", snapshot, [])


def store_html(snapshot: Snapshot, name: str) -> str:
    """Returns the latest known version of a store."""
    return snapshot_block("GraphStore", snapshot, [("opened as", code(name))])


def snapshot_block(title: str, snapshot: Snapshot, facts: Sequence[tuple[str, str | None]]) -> str:
    """Formats a version of a store, preceded by other facts."""
    entry = snapshot.entry
    schema = snapshot.schema
    vertices = [
        (code(name), number(snapshot.vertex_count(name)), code(of_type["key"]), properties(of_type["properties"]))
        for name, of_type in schema["vertices"].items()
    ]
    edges = [(edge(ends), number(snapshot.edge_count(ends)), properties(of)) for ends, of in schema["edges"].items()]
    facts = [
        *facts,
        ("version", number(snapshot.version)),
        ("operation", text(entry.operation)),
        ("time", text(entry.time.isoformat(sep=" ", timespec="seconds"))),
        ("vertices, edges", f"{number(entry.vertices)}, {number(entry.edges)}"),
    ]
    return block(
        title,
        facts,
        table(("vertex type", "vertices", "key", "properties"), vertices, "vertex types"),
        table(("edge type", "edges", "properties"), edges, "edge types"),
    )


def chosen(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a scan to show, apart from its paths."""
    return {name: arguments.get(name) for name in ("filter", "limit", "node")}


def shown(value: Any) -> str:
    """Formats an argument: SQL filters without quotes, URLs without credentials."""
    return without_credentials(value if isinstance(value, str) else repr(value))


def columns_of(schema: Any) -> list[tuple[str, str]]:
    """Returns the names and types of a schema, pyarrow's or this package's."""
    if hasattr(schema, "types"):
        return list(zip(schema.names, map(str, schema.types)))
    return [(name, "") for name in schema.names]


def properties_of(info: Mapping[str, Any]) -> dict[str, str]:
    """Returns the properties of a GraphAr type with their types."""
    groups = info.get("property_groups", ())
    return {property["name"]: property["data_type"] for group in groups for property in group["properties"]}


def parts_of(info: Mapping[str, Any], counts: Mapping[str, int | None]) -> int:
    """Returns the number of parts of the longest adjacency list; more than `MAX_PARTS` if a vertex count is unknown."""
    parts = 0
    for end in ("src", "dst"):
        count = counts.get(info[f"{end}_type"])
        if count is None:
            return MAX_PARTS + 1
        parts = max(parts, -(-count // max(1, info[f"{end}_chunk_size"])))
    return parts


def vertex_count(graph: Graph, type: str) -> int | None:
    """Returns the number of vertices of a type; None if it cannot be read."""
    try:
        return graph._local.vertices(type).count()
    except StylobateError:
        return None


def edge_count(graph: Graph, ends: tuple[str, str, str]) -> int | None:
    """Returns the number of edges of a type; None if it cannot be read."""
    try:
        return graph._local.edges(*ends).count()
    except StylobateError:
        return None


# HTML elements


def text(value: Any) -> str:
    """Escapes and truncates a text. Characters that are invalid in HTML are replaced."""
    plain = str(value)
    if len(plain) > MAX_TEXT:
        plain = plain[: MAX_TEXT - 1] + "…"
    plain = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", plain)
    return html.escape(plain)


def code(value: Any) -> str:
    """Formats a name, a type or an expression."""
    return f"<code>{text(value)}</code>"


def edge(ends: Sequence[str]) -> str:
    """Formats an edge type with its endpoint types."""
    source, name, destination = ends
    return code(f"({source}) -[{name}]-> ({destination})")


def properties(types: Mapping[str, str]) -> str:
    """Formats properties with their types."""
    few = list(types.items())[:MAX_ROWS]
    more = f" and {len(types) - len(few):,} more" if len(types) > len(few) else ""
    return ", ".join(f"{code(name)} {text(type)}" for name, type in few) + more


def number(value: int | None) -> str:
    """Formats a count; `–` if it is unknown."""
    return "–" if value is None else f"{value:,}"


def size(count: int) -> str:
    """Formats a number of bytes in binary units, which cache sizes are given in."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def without_credentials(shown: str) -> str:
    """Removes user and password from URLs."""
    return re.sub(r"://[^/@\s]*@", "://", shown)


def block(title: str, facts: Iterable[tuple[str, str | None]], *body: str) -> str:
    """Formats a title, facts whose values are HTML, and a body. Facts without a value are left out."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{text(name)}</th>'
        f'<td style="text-align:left">{value}</td></tr>'
        for name, value in facts
        if value is not None
    )
    return f'<div class="stylobate"><p><b>{text(title)}</b></p><table><tbody>{rows}</tbody></table>{"".join(body)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], noun: str) -> str:
    """Formats rows of HTML, at most `MAX_ROWS` of them."""
    left = ' style="text-align:left"'
    names = "".join(f'<th scope="col"{left}>{text(name)}</th>' for name in head)
    lines = ["".join(f"<td{left}>{cell}</td>" for cell in row) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        lines.append(f'<td colspan="{len(head)}"{left}>and {len(rows) - MAX_ROWS:,} more {text(noun)}</td>')
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def bar(name: str, held: Mapping[str, int], capacity: int) -> str:
    """Draws the bytes in use, by holder, as segments of a bar whose length is the capacity, with a text legend below.
    """
    used = sum(held.values())
    whole = max(capacity, used, 1)
    parts = []
    legend = []
    left = 0.0

    for use, held_bytes in held.items():
        if not held_bytes:
            continue
        colour = COLOURS.get(use, OTHER_COLOUR)
        width = held_bytes / whole * BAR_WIDTH
        title = text(f"{USES.get(use, use)}: {size(held_bytes)}")
        parts.append(
            f'<rect x="{left:.2f}" y="0" width="{width:.2f}" height="{BAR_HEIGHT}" fill="{colour}">'
            f"<title>{title}</title></rect>"
        )
        legend.append(f'<span style="color:{colour}">&#9632;</span>&#160;{title}')
        left += width

    said = f"{name}: {size(used)} of {size(capacity)}"
    drawn = (
        f'<svg width="{BAR_WIDTH}" height="{BAR_HEIGHT}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" role="img" '
        f'aria-label="{text(said)}"><rect x="0" y="0" width="{BAR_WIDTH}" height="{BAR_HEIGHT}" '
        f'fill="currentColor" fill-opacity="0.12"></rect>{"".join(parts)}</svg>'
    )
    return f"<p>{text(said)}<br/>{drawn}<br/>{' &#160; '.join(legend) or 'empty'}</p>"
