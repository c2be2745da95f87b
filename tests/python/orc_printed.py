"""Values as the reference tools in Java print the rows of ORC files, for comparison with written values."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from test_matrix import entries

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
BEGINNING = datetime.datetime(1970, 1, 1)


def printed(array: pa.Array, offset: Any = None) -> list[Any]:
    """Returns the values as in the tools' JSON; `offset` gives the offset of clocks from UTC at an instant, in seconds."""
    kind = array.type
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        columns = [printed(child, offset) for child in array.flatten()]
        values = [dict(zip([field.name for field in kind], row, strict=True)) for row in zip(*columns, strict=True)]
    elif pa.types.is_map(kind):
        as_lists = printed(array.cast(entries(kind)), offset)
        values = [row and [{"_key": it["key"], "_value": it["value"]} for it in row] for row in as_lists]
    elif pa.types.is_list(kind):
        items = iter(printed(array.flatten(), offset))
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
        values = [[next(items) for _ in range(length)] for length in lengths]
    elif pa.types.is_timestamp(kind):
        counts = array.cast(pa.int64()).to_pylist()
        values = [count if count is None else clock(count, kind, offset) for count in counts]
    elif pa.types.is_date(kind):
        values = [value and value.isoformat() for value in array.to_pylist()]
    elif pa.types.is_binary(kind):
        values = [value if value is None else list(value) for value in array.to_pylist()]
    elif pa.types.is_floating(kind):
        # This makes NaNs equal, and zeros of different signs different.
        values = [repr(value) for value in array.cast(pa.float64()).to_pylist()]
    else:
        values = array.to_pylist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]


def clock(value: int, kind: pa.TimestampType, offset: Any) -> str:
    """Formats a timestamp as Java does: with as many fraction digits as needed, and at least one."""
    seconds, fraction = divmod(value, PER_SECOND[kind.unit])
    nanoseconds = fraction * 10**9 // PER_SECOND[kind.unit]
    if kind.tz and offset:
        seconds += offset(seconds)
    day = BEGINNING + datetime.timedelta(seconds=seconds)
    return f"{day.isoformat(sep=' ')}.{f'{nanoseconds:09d}'.rstrip('0') or '0'}"


def parsed(value: Any, kind: pa.DataType) -> Any:
    """Parses a value printed by the tools into one comparable with those above."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: parsed(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        types = {"_key": kind.key_type, "_value": kind.item_type}
        return [{name: parsed(entry[name], type_) for name, type_ in types.items()} for entry in value]
    if pa.types.is_list(kind):
        return [parsed(item, kind.value_type) for item in value]
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value)
    return repr(float(value)) if pa.types.is_floating(kind) else value


def unlike(rows: list[dict[str, Any]], table: pa.Table, offset: Any = None) -> list[str]:
    """Returns the differences between the printed rows of a file, and the table that it was written from."""
    if len(rows) != table.num_rows:
        return [f"{len(rows)} rows, not {table.num_rows}"]
    wrong = []
    for field in table.schema:
        found = [parsed(row[field.name], field.type) for row in rows]
        expected = printed(table[field.name].combine_chunks(), offset)
        different = [at for at, (left, right) in enumerate(zip(found, expected, strict=True)) if left != right]
        if different:
            at = different[0]
            wrong.append(
                f"{field.name}, {field.type}: {len(different)} rows differ, the first is {at}: "
                f"{str(found[at])[:300]}, not {str(expected[at])[:300]}"
            )
    return wrong
