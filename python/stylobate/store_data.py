"""Names, rows and files as a graph store is given them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from stylobate import _optional as optional
from stylobate.scan import scan
from stylobate.sequential import graph_table
from stylobate.write_source import local

__all__ = [
    "Edge",
    "Schema",
    "edge_name",
    "edge_types",
    "parted",
    "rows",
    "schema_lists",
    "shown_schema",
    "table",
    "vertex_types",
]

Edge: TypeAlias = "str | tuple[str, str, str]"
"""A type of edges: its name, or where several have it, with the types of its ends, as `("Person", "KNOWS",
"Person")`."""

Schema: TypeAlias = Mapping[str, Any]

Properties: TypeAlias = "list[tuple[str, str]]"


def edge_name(edge: Edge) -> str:
    """The name by which the store finds a type of edges."""
    return edge if isinstance(edge, str) else "_".join(edge)


def triple(edge: Edge) -> tuple[str, str, str]:
    """A type of edges with its ends."""
    if isinstance(edge, str) or len(edge) != 3:
        raise TypeError(f"edges {edge!r}: name the types of their ends too, as ('Person', 'KNOWS', 'Person')")
    source, name, destination = edge
    return source, name, destination


def schema_lists(
    schema: Schema | None,
) -> tuple[list[tuple[str, str, Properties]], list[tuple[tuple[str, str, str], Properties]]]:
    """Types of vertices and edges as Rust takes them."""
    schema = schema or {}
    unknown = set(schema) - {"vertices", "edges"}
    if unknown:
        raise TypeError(f"schema: {', '.join(sorted(unknown))}: there are vertices and edges in a schema")
    vertices = []
    for name, of_type in schema.get("vertices", {}).items():
        if not isinstance(of_type, Mapping) or set(of_type) != {"key", "properties"}:
            raise TypeError(f"vertex type {name}: give a dictionary with key and properties")
        vertices.append((name, of_type["key"], list(of_type["properties"].items())))
    edges = [(triple(edge), list((of or {}).items())) for edge, of in schema.get("edges", {}).items()]
    return vertices, edges


def shown_schema(
    vertices: list[tuple[str, str, Properties]], edges: list[tuple[tuple[str, str, str], Properties]]
) -> dict[str, Any]:
    """A schema as it is given to `GraphStore.create`."""
    return {
        "vertices": {name: {"key": key, "properties": dict(of_type)} for name, key, of_type in vertices},
        "edges": {name: dict(of_type) for name, of_type in edges},
    }


def rows(data: Any) -> Any:
    """Rows as Rust takes them: whatever gives Arrow data, a dictionary of columns, or a list of dictionaries."""
    if isinstance(data, Mapping):
        return optional.pyarrow("a dictionary of columns").table(dict(data))
    if isinstance(data, Sequence) and not hasattr(data, "__arrow_c_stream__"):
        return optional.pyarrow("a list of rows").Table.from_pylist(list(data))
    return local(data)


def text_types(properties: Mapping[str, str]) -> dict[str, str]:
    """The types as which columns of texts are read for properties; lists are no texts."""
    return {name: type for name, type in properties.items() if not type.startswith("list")}


def vertex_types(schema: Schema, type: str) -> dict[str, str]:
    """The types of the columns of a vertex type that is there already."""
    return text_types(schema["vertices"].get(type, {}).get("properties", {}))


def edge_types(schema: Schema, edge: tuple[str, str, str], spec: Any) -> dict[str, str]:
    """The types of the columns of an edge type that is there already; ends have those of the keys that they are."""
    options = spec if isinstance(spec, Mapping) and "data" in spec else {}
    types = text_types(schema["edges"].get(edge, {}))
    ends = (("source", "src", edge[0]), ("destination", "dst", edge[2]))
    for option, column, type in ends if options.get("by") != "index" else ():
        of_type = schema["vertices"].get(type, {})
        if of_type:
            types[options.get(option) or column] = of_type["properties"][of_type["key"]]
    return types


def parted(spec: Any, types: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """The data and the options of a load. A path names Parquet, ORC, CSV, JSON or Arrow IPC files; `types` are those of
    columns of CSV files, where a file has them.
    """
    options: dict[str, Any] = {}
    if isinstance(spec, Mapping) and "data" in spec:
        options = {name: value for name, value in spec.items() if name != "data" and value is not None}
        spec = spec["data"]
    delimiter = options.pop("delimiter", None)
    if not isinstance(spec, (str, os.PathLike)):
        return rows(spec), options
    table = graph_table(spec, types, delimiter)
    return local(scan(spec, dictionary=False)) if table is None else table, options
