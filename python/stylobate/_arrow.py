"""What goes to Rust and comes from there, as pyarrow has it."""

from __future__ import annotations

from operator import index
from typing import Any

from stylobate import _optional as optional
from stylobate._stylobate import Array, RecordBatch


def numbers(indexes: Any) -> Any:
    """Indexes of vertices as Rust takes them: an Arrow array, or a list."""
    if isinstance(indexes, list) or hasattr(indexes, "__arrow_c_array__"):
        return indexes
    pyarrow = optional.pyarrow_or_none()
    if pyarrow is not None and (hasattr(indexes, "__array__") or hasattr(indexes, "__arrow_c_stream__")):
        if hasattr(indexes, "__arrow_c_stream__"):
            indexes = pyarrow.chunked_array(indexes).combine_chunks()
        return pyarrow.array(indexes)
    return [index(number) for number in indexes]


def table(batch: RecordBatch) -> Any:
    """A table of pyarrow where that is installed."""
    pyarrow = optional.pyarrow_or_none()
    if pyarrow is None:
        return batch
    return pyarrow.Table.from_batches([pyarrow.record_batch(batch)])


def array(values: Array) -> Any:
    """An array of pyarrow where that is installed."""
    pyarrow = optional.pyarrow_or_none()
    return values if pyarrow is None else pyarrow.array(values)
