"""Conversion of the inputs of `write_parquet` and `write_orc` to objects with an Arrow C interface."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from stylobate import _optional as optional
from stylobate._stylobate import LocalScan, LocalSequentialScan
from stylobate.scan import Scan

__all__ = ["ArrowArray", "ArrowStream", "Data", "arrow_source", "local"]


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
    if isinstance(data, Scan):
        return local(data)
    if has_arrow(data) or isinstance(data, (LocalScan, LocalSequentialScan)):
        return data
    if is_instance(data, "polars", "LazyFrame"):
        return batches_of_lazy_frame(data)
    if is_instance(data, "pyarrow.dataset", "Dataset"):
        return data.scanner().to_reader()
    if is_instance(data, "pyarrow.dataset", "Scanner"):
        return data.to_reader()
    if isinstance(data, Mapping):
        return table_of_columns(data, optional.pyarrow(f"{by} of a dict"))
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        return table_of_rows(data, optional.pyarrow(f"{by} of a list of dicts"))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, bytearray)):
        return iter(data)
    return data


def local(data: Any) -> Any:
    """Returns the implementation of a scan of this process, so that its errors keep their type; other data unchanged.
    """
    source = data._source if isinstance(data, Scan) else None
    return source if isinstance(source, (LocalScan, LocalSequentialScan)) else data


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
    yield sys.modules["polars"].DataFrame(schema=frame.collect_schema()) if first is None else first
    yield from batches


def table_of_columns(columns: Mapping[str, Any], pyarrow: Any) -> Any:
    """Returns a table of lists or arrays by column name."""
    if not columns:
        raise ValueError("data: a dict without columns: give at least one")

    def array(values: Any) -> Any:
        if hasattr(values, "__arrow_c_stream__"):
            return pyarrow.chunked_array(values)
        return pyarrow.array(values)

    return pyarrow.table({name: array(values) for name, values in columns.items()})


def table_of_rows(rows: Iterable[Mapping[str, Any]], pyarrow: Any) -> Any:
    """Returns a table of dicts. Columns are in order of first occurrence."""
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise ValueError("data: rows without columns: give at least one")
    return table_of_columns({name: [row.get(name) for row in rows] for name in names}, pyarrow)
