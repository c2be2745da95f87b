"""Tables of random schemas: nested types, extension types, and metadata of tables and columns."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import string
from typing import Any

import pyarrow as pa

ZONES = (None, "UTC", "+00:00", "Europe/Oslo", "-03:30")
# Parquet has neither seconds nor `date64`: they come back as milliseconds and `date32`.
UNITS = ("ms", "us", "ns")
LETTERS = string.ascii_letters + string.digits + " .-_/æ漢🙂"
KEYS = pa.string(), pa.int64(), pa.date32()


def text(chance: random.Random, max_length: int = 8) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(0, max_length)))


def plain_type(chance: random.Random) -> pa.DataType:
    """Returns a type that is not nested."""
    precision = chance.randint(1, 38)
    return chance.choice(
        [
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
            *(pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.string(), pa.large_string(), pa.binary()),
            *(pa.large_binary(), pa.binary(5), pa.date32(), pa.time32("ms"), pa.time64("us")),
            *(pa.time64("ns"), pa.timestamp(chance.choice(UNITS), chance.choice(ZONES)), pa.duration("ms")),
            *(pa.decimal128(precision, chance.randint(0, precision)), pa.decimal256(38 + precision, precision)),
        ]
    )


def extension_type(chance: random.Random) -> pa.DataType:
    return chance.choice([pa.json_(pa.string()), pa.uuid(), pa.bool8(), pa.opaque(pa.binary(), "thing", "a vendor")])


def data_type(chance: random.Random, depth: int = 0) -> pa.DataType:
    kind = chance.random()
    if kind < 0.55 or depth == 3:
        return plain_type(chance)
    if kind < 0.62:
        return extension_type(chance)
    if kind < 0.72:
        index = chance.choice([pa.int8(), pa.int16(), pa.int32()])
        # Nested keys are read back with at least 32 bits.
        return pa.dictionary(pa.int32() if depth else index, pa.string(), ordered=not depth and chance.random() < 0.4)

    def inner(name: str) -> pa.Field:
        metadata = {"of": text(chance)} if chance.random() < 0.2 else None
        return pa.field(name, data_type(chance, depth + 1), chance.random() < 0.8, metadata)

    if kind < 0.8:
        names = chance.sample(["x", "y", "z w", "ä"], chance.randint(1, 3))
        return pa.struct([inner(name) for name in names])
    if kind < 0.94:
        item = inner("element")
        return chance.choice([pa.list_(item), pa.large_list(item), pa.list_(item.with_nullable(True), 2)])
    return pa.map_(pa.field("key", chance.choice(KEYS), False), inner("value"))


def value(chance: random.Random, type: pa.DataType) -> Any:
    """Returns a non-null value, as pyarrow accepts it."""
    if isinstance(type, pa.BaseExtensionType):
        name = type.extension_name
        stored = {"arrow.json": '{"a": 1}', "arrow.uuid": chance.randbytes(16), "arrow.bool8": chance.randint(0, 1)}
        return stored.get(name, chance.randbytes(3))
    if pa.types.is_dictionary(type):
        return chance.choice(["low", "mid", "high", ""])
    if pa.types.is_integer(type):
        minimum = 0 if pa.types.is_unsigned_integer(type) else -(1 << (type.bit_width - 1))
        maximum = (1 << (type.bit_width - (0 if pa.types.is_unsigned_integer(type) else 1))) - 1
        return chance.choice([minimum, maximum, chance.randint(minimum, maximum), chance.randint(max(minimum, -3), 3)])
    if pa.types.is_floating(type):
        return chance.choice([0.0, -0.0, 1.5, float("inf"), chance.randint(-9, 9) / 4])
    if pa.types.is_boolean(type):
        return chance.random() < 0.5
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return text(chance)
    if pa.types.is_fixed_size_binary(type):
        return chance.randbytes(type.byte_width)
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return chance.randbytes(chance.randint(0, 6))
    if pa.types.is_date(type):
        return dt.date(1970, 1, 1) + dt.timedelta(chance.randint(-200_000, 200_000))
    if pa.types.is_time(type):
        return dt.time(chance.randint(0, 23), chance.randint(0, 59), 7, 250_000)
    if pa.types.is_timestamp(type):
        return dt.datetime(1900, 1, 1) + dt.timedelta(chance.randint(0, 99_999), chance.randint(0, 86_399))
    if pa.types.is_duration(type):
        return dt.timedelta(chance.randint(-99, 99), chance.randint(0, 86_399))
    if pa.types.is_decimal(type):
        digits = chance.randint(1, type.precision)
        with decimal.localcontext(prec=90):
            return decimal.Decimal(chance.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-type.scale)
    if pa.types.is_struct(type):
        return {field.name: item(chance, field) for field in type}
    if pa.types.is_map(type):
        keys = {value(chance, type.key_type) for _ in range(chance.randint(0, 3))}
        return [(key, item(chance, type.item_field)) for key in sorted(keys)]
    length = type.list_size if pa.types.is_fixed_size_list(type) else chance.randint(0, 3)
    return [item(chance, type.value_field) for _ in range(length)]


def item(chance: random.Random, field: pa.Field) -> Any:
    return None if field.nullable and chance.random() < 0.2 else value(chance, field.type)


def storage(field: pa.Field) -> pa.Field:
    """Returns the field with extension types replaced by their storage, at every depth."""
    return field.with_type(storage_type(field.type))


def storage_type(type: pa.DataType) -> pa.DataType:
    if isinstance(type, pa.BaseExtensionType):
        return type.storage_type
    if pa.types.is_struct(type):
        return pa.struct([storage(field) for field in type])
    if pa.types.is_map(type):
        return pa.map_(type.key_field, storage(type.item_field))
    if pa.types.is_fixed_size_list(type):
        return pa.list_(storage(type.value_field), type.list_size)
    if pa.types.is_list(type):
        return pa.list_(storage(type.value_field))
    if pa.types.is_large_list(type):
        return pa.large_list(storage(type.value_field))
    return type


def array(chance: random.Random, field: pa.Field, rows: int) -> pa.Array:
    values = [item(chance, field) for _ in range(rows)]
    stored = storage_type(field.type)
    if pa.types.is_dictionary(stored):
        made = pa.array(values, pa.string()).dictionary_encode()
        return pa.DictionaryArray.from_arrays(made.indices.cast(stored.index_type), made.dictionary, ordered=stored.ordered)
    stored_values = pa.array(values, stored)
    return stored_values if stored == field.type else stored_values.cast(field.type)


def random_table(seed: int, rows: int = 200) -> pa.Table:
    """Returns a table of one to six columns."""
    chance = random.Random(seed)
    fields = []
    for place in range(chance.randint(1, 6)):
        metadata = {text(chance) or "k": text(chance)} if chance.random() < 0.4 else None
        fields.append(pa.field(f"c{place} {text(chance, 3)}", data_type(chance), chance.random() < 0.8, metadata))
    metadata = {text(chance) or "k": text(chance) for _ in range(chance.randint(0, 2))}
    arrays = [array(chance, field, rows) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata or None))


def check_equal(found: pa.Table, table: pa.Table) -> None:
    """Checks that metadata, types and values are equal, regardless of chunks and dictionaries."""
    assert found.schema.metadata == table.schema.metadata
    for field, wanted in zip(found.schema, table.schema, strict=True):
        assert field.equals(wanted, check_metadata=True), f"{field} is not {wanted}"
        assert repr(found[field.name].to_pylist()) == repr(table[field.name].to_pylist()), field
