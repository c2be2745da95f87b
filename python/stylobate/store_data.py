"""Conversion of the names, rows and files given to a graph store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from stylobate import _optional as optional
from stylobate.scan import scan
from stylobate.sequential import graph_table
from stylobate.write_source import local, table_of_columns

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
"""Edge type: its name; or with its endpoint types if the name is ambiguous, as in `("Person", "KNOWS", "Person")`."""

Schema: TypeAlias = Mapping[str, Any]

Properties: TypeAlias = "list[tuple[str, str]]"


def edge_name(edge: Edge) -> str:
    """Returns the name by which the store resolves an edge type."""
    return edge if isinstance(edge, str) else "_".join(edge)


def triple(edge: Edge) -> tuple[str, str, str]:
    """Returns an edge type with its endpoint types."""
    if isinstance(edge, str) or len(edge) != 3:
        raise TypeError(f"edges {edge!r}: name the types of their ends too, as ('Person', 'KNOWS', 'Person')")
    source, name, destination = edge
    return source, name, destination


def schema_lists(
    schema: Schema | None,
) -> tuple[list[tuple[str, str, Properties]], list[tuple[tuple[str, str, str], Properties]]]:
    """Converts vertex and edge types for the extension."""
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
    """Returns a schema in the form that `GraphStore.create` takes."""
    return {
        "vertices": {name: {"key": key, "properties": dict(of_type)} for name, key, of_type in vertices},
        "edges": {name: dict(of_type) for name, of_type in edges},
    }


def rows(data: Any) -> Any:
    """Converts rows for the extension: any Arrow data, a dictionary of columns, or a list of dictionaries."""
    if isinstance(data, Mapping):
        return table_of_columns(data, optional.pyarrow("a dictionary of columns"))
    if isinstance(data, Sequence) and not hasattr(data, "__arrow_c_stream__"):
        return optional.pyarrow("a list of rows").Table.from_pylist(list(data))
    return local(data)


def text_types(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the types in which string columns are parsed for properties. Lists are not parsed from strings."""
    return {name: type for name, type in properties.items() if not type.startswith("list")}


def vertex_types(schema: Schema, type: str) -> dict[str, str]:
    """Returns the column types of an existing vertex type."""
    return text_types(schema["vertices"].get(type, {}).get("properties", {}))


def edge_types(schema: Schema, edge: tuple[str, str, str], spec: Any) -> dict[str, str]:
    """Returns the column types of an existing edge type; endpoint columns have the type of the key they refer to."""
    options = spec if isinstance(spec, Mapping) and "data" in spec else {}
    types = text_types(schema["edges"].get(edge, {}))
    ends = (("source", "src", edge[0]), ("destination", "dst", edge[2]))
    for option, column, type in ends if options.get("by") != "index" else ():
        of_type = schema["vertices"].get(type, {})
        if of_type:
            types[options.get(option) or column] = of_type["properties"][of_type["key"]]
    return types


def parted(spec: Any, types: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """Splits the specification of a load into data and options.

    A path names a Parquet, ORC, CSV, JSON or Arrow IPC file. `types` are the types of CSV columns, as far as the file
    has them.
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
