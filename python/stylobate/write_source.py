"""What `write_parquet` and `write_orc` take for rows: each made into something with an Arrow C interface."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from stylobate import _optional as optional
from stylobate._stylobate import LocalScan, LocalSequentialScan
from stylobate.scan import Scan

__all__ = ["ArrowArray", "ArrowStream", "Data", "arrow_source", "local"]


class ArrowStream(Protocol):
    """A table, a frame, a reader, a scan: whatever gives an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class LazyFrame(Protocol):
    """A lazy frame of Polars."""

    def collect_schema(self) -> Any: ...


class PyarrowDataset(Protocol):
    """A data set of pyarrow."""

    def scanner(self) -> Any: ...


class PyarrowScanner(Protocol):
    """A scanner of pyarrow."""

    def to_reader(self) -> Any: ...


Data: TypeAlias = (
    "ArrowStream | ArrowArray | LazyFrame | PyarrowDataset | PyarrowScanner"
    " | Mapping[str, Any] | Iterable[ArrowArray] | Iterable[ArrowStream] | Iterable[Mapping[str, Any]]"
)


def arrow_source(data: Any, index: bool | None, by: str) -> Any:
    """Rows as Rust takes them: a scan, something with an Arrow C interface, or an iterator of such things.

    `index` says whether the index of a frame of pandas becomes columns; `by` is the function that is named where
    pyarrow is missing.
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
    """What a scan of this process is made of, so that its errors stay what they are; anything else as it is."""
    source = data._source if isinstance(data, Scan) else None
    return source if isinstance(source, (LocalScan, LocalSequentialScan)) else data


def has_arrow(data: object) -> bool:
    """Whether it has an Arrow C interface of rows."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def is_instance(data: object, module: str, name: str) -> bool:
    """Whether it is of a class of a package, which has been imported then."""
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(data, cls)


def frame_of_pandas(frame: Any, index: bool | None, by: str) -> Any:
    """A frame of pandas, with its index as is asked for."""
    if index is None and has_arrow(frame):
        return frame
    pyarrow = optional.pyarrow(f"{by} of a frame of pandas")
    return pyarrow.Table.from_pandas(frame, preserve_index=index)


def batches_of_lazy_frame(frame: Any) -> Iterator[Any]:
    """The rows of a lazy frame, as they are computed where Polars can do that."""
    if hasattr(frame, "collect_batches"):
        batches = iter(frame.collect_batches())
    else:
        batches = iter([frame.collect(engine="streaming")])
    first = next(batches, None)
    yield sys.modules["polars"].DataFrame(schema=frame.collect_schema()) if first is None else first
    yield from batches


def table_of_columns(columns: Mapping[str, Any], pyarrow: Any) -> Any:
    """A table of lists or arrays by the names of columns."""
    if not columns:
        raise ValueError("data: a dict without columns: give at least one")

    def array(values: Any) -> Any:
        if hasattr(values, "__arrow_c_stream__"):
            return pyarrow.chunked_array(values)
        return pyarrow.array(values)

    return pyarrow.table({name: array(values) for name, values in columns.items()})


def table_of_rows(rows: Iterable[Mapping[str, Any]], pyarrow: Any) -> Any:
    """A table of dicts, with the columns of all of them in the order in which they first occur."""
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        raise ValueError("data: rows without columns: give at least one")
    return table_of_columns({name: [row.get(name) for row in rows] for name in names}, pyarrow)
