"""Conversion of values between pyarrow and the Rust extension."""

from __future__ import annotations

from operator import index
from typing import Any

from stylobate import _optional as optional
from stylobate._stylobate import Array, RecordBatch


def numbers(indexes: Any) -> Any:
    """Converts vertex indexes to an Arrow array or a list, as the extension takes them."""
    if isinstance(indexes, list) or hasattr(indexes, "__arrow_c_array__"):
        return indexes
    pyarrow = optional.pyarrow_or_none()
    if pyarrow is not None and (hasattr(indexes, "__array__") or hasattr(indexes, "__arrow_c_stream__")):
        if hasattr(indexes, "__arrow_c_stream__"):
            indexes = pyarrow.chunked_array(indexes).combine_chunks()
        return pyarrow.array(indexes)
    return [index(number) for number in indexes]


def table(batch: RecordBatch) -> Any:
    """Returns a pyarrow table if pyarrow is installed, otherwise the record batch."""
    pyarrow = optional.pyarrow_or_none()
    if pyarrow is None:
        return batch
    return pyarrow.Table.from_batches([pyarrow.record_batch(batch)])


def array(values: Array) -> Any:
    """Returns a pyarrow array if pyarrow is installed, otherwise the Arrow array."""
    pyarrow = optional.pyarrow_or_none()
    return values if pyarrow is None else pyarrow.array(values)
