"""Conversion of the inputs of `write_parquet` and `write_orc` to objects with an Arrow C interface."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Protocol, TypeAlias

from stylobate import _optional as optional
from stylobate._stylobate import LocalScan, LocalSequentialScan
from stylobate.errors import InvalidDataError, UnsupportedError
from stylobate.scan import Scan

__all__ = ["ArrowArray", "ArrowStream", "Data", "arrow_source", "local", "table_of_columns"]

ROWS_PER_BATCH = 65_536
"""Rows of an iterator of dicts that are converted together. The first ones define the types of the columns."""


class ArrowStream(Protocol):
    """An object that exports an Arrow stream: a table, a data frame, a reader, a scan."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class LazyFrame(Protocol):
    """A Polars lazy frame."""

    def collect_schema(self) -> Any: ...


class PyarrowDataset(Protocol):
    """A pyarrow dataset."""

    def scanner(self) -> Any: ...


class PyarrowScanner(Protocol):
    """A pyarrow scanner."""

    def to_reader(self) -> Any: ...


Data: TypeAlias = (
    "ArrowStream | ArrowArray | LazyFrame | PyarrowDataset | PyarrowScanner"
    " | Mapping[str, Any] | Iterable[ArrowArray] | Iterable[ArrowStream] | Iterable[Mapping[str, Any]]"
)


def arrow_source(data: Any, index: bool | None, by: str) -> Any:
    """Converts rows for the extension: to a scan, an object with an Arrow C interface, or an iterator of such objects.

    Args:
        data: Rows of any supported kind.
        index: Whether to convert the index of a pandas data frame to columns.
        by: Name of the calling function, for the error if pyarrow is missing.
    """
    if is_instance(data, "pandas", "DataFrame"):
        return frame_of_pandas(data, index, by)
    if index is not None:
        raise TypeError("index: only for frames of pandas")
    if is_instance(data, "polars", "LazyFrame"):
        return batches_of_lazy_frame(data)
    if is_instance(data, "pyarrow.dataset", "Dataset"):
        return data.scanner().to_reader()
    if is_instance(data, "pyarrow.dataset", "Scanner"):
        return data.to_reader()
    if has_arrow(data):
        return local(data)
    if isinstance(data, Mapping):
        return table_of_columns(data, optional.pyarrow(f"{by} of a dict"))
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        return table_of_rows(data, optional.pyarrow(f"{by} of a list of dicts"))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, bytearray)):
        return batches_of_items(iter(data), by)
    return data


def local(data: Any) -> Any:
    """Returns the implementation of a scan of this process, so that its errors keep their type; other data unchanged.

    Raises UnsupportedError if the data has columns of Python objects.
    """
    source = data._source if isinstance(data, Scan) else None
    if isinstance(source, (LocalScan, LocalSequentialScan)):
        return source
    if isinstance(data, Iterator) and not has_arrow(data):
        return batches_of_items(data, "an iterator")
    return checked(data)


def checked(data: Any) -> Any:
    """Returns the data. Raises UnsupportedError if a column of a Polars data frame has Python objects.

    Polars exports them as their addresses in memory, without anything that marks them.
    """
    if is_instance(data, "polars", "DataFrame"):
        for name, type in data.schema.items():
            check_type(name, type)
    return data


def check_type(name: str, type: Any) -> None:
    """Raises UnsupportedError if a type of Polars has Python objects."""
    if has_objects(type):
        raise UnsupportedError(f"data: column {name} is of Polars' type Object: cast it or leave it out")


def has_objects(type: Any) -> bool:
    """Returns whether a type of Polars is Object, or is nested and contains it."""
    if isinstance(fields := getattr(type, "fields", None), list):
        return any(has_objects(field.dtype) for field in fields)
    inner = getattr(type, "inner", None)
    return has_objects(inner) if inner is not None else type == sys.modules["polars"].Object


def has_arrow(data: object) -> bool:
    """Returns whether the object has an Arrow C interface for rows."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def is_instance(data: object, module: str, name: str) -> bool:
    """Returns whether the object is of a class in a module, if the module has been imported."""
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(data, cls)


def frame_of_pandas(frame: Any, index: bool | None, by: str) -> Any:
    """Converts a pandas data frame, with or without its index."""
    if index is None and has_arrow(frame):
        return frame
    pyarrow = optional.pyarrow(f"{by} of a frame of pandas")
    return pyarrow.Table.from_pandas(frame, preserve_index=index)


def batches_of_lazy_frame(frame: Any) -> Iterator[Any]:
    """Yields the rows of a lazy frame, streamed if the version of Polars supports it."""
    if hasattr(frame, "collect_batches"):
        batches = iter(frame.collect_batches())
    else:
        batches = iter([frame.collect(engine="streaming")])
    first = next(batches, None)
    yield checked(sys.modules["polars"].DataFrame(schema=frame.collect_schema()) if first is None else first)
    yield from batches


def batches_of_items(items: Iterator[Any], by: str) -> Iterator[Any]:
    """Yields the items of an iterator, or tables of them if the first one is a dict."""
    first = list(islice(items, 1))
    items = chain(first, items)
    if first and isinstance(first[0], Mapping):
        yield from tables_of_rows(items, optional.pyarrow(f"{by} of dicts"))
    else:
        yield from map(checked, items)


def tables_of_rows(rows: Iterator[Any], pyarrow: Any) -> Iterator[Any]:
    """Yields tables of dicts in bounded chunks. The first chunk defines the columns and their types."""
    schema = None
    taken = 0
    while chunk := list(islice(rows, ROWS_PER_BATCH)):
        for number, row in enumerate(chunk, taken + 1):
            if not isinstance(row, Mapping):
                raise TypeError(f"data: item {number} of the iterator is of type {type(row).__qualname__}, after dicts")
        if schema is None:
            table = table_of_rows(chunk, pyarrow)
            schema = table.schema
        else:
            table = table_in_schema(chunk, schema, taken, pyarrow)
        yield table
        taken += len(chunk)


def table_in_schema(rows: list[Mapping[str, Any]], schema: Any, before: int, pyarrow: Any) -> Any:
    """Returns a table of dicts in the schema of the `before` dicts before them."""
    place = f"rows {before + 1} to {before + len(rows)}"
    known = set(schema.names)
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in known:
            raise InvalidDataError(f"data: {place} have a column {name} that the first {ROWS_PER_BATCH} rows lack")

    arrays = []
    for field in schema:
        try:
            arrays.append(array_of_type([row.get(field.name) for row in rows], field.type, pyarrow))
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            known_as = f"of type {field.type} in the first {ROWS_PER_BATCH} rows"
            raise InvalidDataError(f"data: {place}: column {field.name}, {known_as}: {error}") from error
    return pyarrow.table(arrays, schema=schema)


def array_of_type(values: list[Any], type: Any, pyarrow: Any) -> Any:
    """Returns an array of a type. Raises an exception if a value would change.

    `pyarrow.array` with a type would truncate numbers and times, and drop fields.
    """
    found = pyarrow.array(values)
    if not fits(found.type, type, pyarrow.types):
        raise TypeError(f"there are values of type {found.type}")
    return found if found.type == type else found.cast(type)


def fits(found: Any, wanted: Any, types: Any) -> bool:
    """Returns whether a safe cast between the types, if it succeeds, leaves the values as they are."""
    if found == wanted or types.is_null(found):
        return True
    if types.is_struct(found) and types.is_struct(wanted):
        fields = {field.name: field.type for field in wanted}
        return all(field.name in fields and fits(field.type, fields[field.name], types) for field in found)
    if types.is_list(found) and types.is_list(wanted):
        return fits(found.value_type, wanted.value_type, types)
    if types.is_decimal(found) and types.is_decimal(wanted):
        return True
    return all(types.is_integer(type) or types.is_floating(type) for type in (found, wanted))


def table_of_columns(columns: Mapping[str, Any], pyarrow: Any) -> Any:
    """Returns a table of lists or arrays by column name."""
    if not columns:
        raise ValueError("data: a dict without columns: give at least one")

    def array(name: str, values: Any) -> Any:
        if is_instance(values, "polars", "Series"):
            check_type(name, values.dtype)
        if hasattr(values, "__arrow_c_stream__"):
            return pyarrow.chunked_array(values)
        is_one = isinstance(values, (str, bytes, bytearray, Mapping))
        if is_one or not (isinstance(values, Iterable) or has_arrow(values) or hasattr(values, "__array__")):
            raise TypeError(f"data: column {name} is of type {type(values).__qualname__}: give a list or an array")
        return pyarrow.array(values)

    return pyarrow.table({name: array(name, values) for name, values in columns.items()})


def table_of_rows(rows: Iterable[Mapping[str, Any]], pyarrow: Any) -> Any:
    """Returns a table of dicts. Columns are in order of first occurrence."""
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise ValueError("data: rows without columns: give at least one")
    return table_of_columns({name: [row.get(name) for row in rows] for name in names}, pyarrow)
