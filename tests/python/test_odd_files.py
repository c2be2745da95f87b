"""Files of old or careless writers, which others read: so does a scan."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stylobate as st

KIB = 1 << 10


class Thrift:
    """A struct of Thrift's compact protocol: values by field, as (type, value)."""

    I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12

    def __init__(self) -> None:
        self.fields: dict[int, tuple[int, Any]] = {}

    def __getitem__(self, field: int) -> Any:
        return self.fields[field][1]

    def get(self, field: int) -> Any:
        return self.fields.get(field, (0, None))[1]

    def set(self, field: int, value: int) -> None:
        """Sets a number; a new one has 64 bits."""
        self.fields[field] = (self.fields.get(field, (self.I64, 0))[0], value)


class Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def number(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def value(self, kind: int) -> Any:
        if kind in (1, 2):
            return self.byte() == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.number()
        if kind == 7:
            self.at += 8
            return self.data[self.at - 8 : self.at]
        if kind == 8:
            length = self.varint()
            self.at += length
            return self.data[self.at - length : self.at]
        if kind == 9:
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return head & 15, [self.value(head & 15) for _ in range(count)]
        assert kind == 12, kind
        read, field = Thrift(), 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.number()
            kind = head & 15
            read.fields[field] = (kind, kind == 1 if kind in (1, 2) else self.value(kind))
        return read


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def encoded(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return bytes([1 if value else 2])
    if kind == 3:
        return bytes([value])
    if kind in (4, 5, 6):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == 7:
        return bytes(value)
    if kind == 8:
        return varint(len(value)) + value
    if kind == 9:
        element, values = value
        is_short = len(values) < 15
        head = bytes([len(values) << 4 | element]) if is_short else bytes([0xF0 | element]) + varint(len(values))
        return head + b"".join(encoded(element, value) for value in values)
    out, last = b"", 0
    for field, (kind, inner) in sorted(value.fields.items()):
        code = (1 if inner else 2) if kind in (1, 2) else kind
        step = field - last
        out += bytes([step << 4 | code]) if 0 < step < 16 else bytes([code]) + varint(field << 1)
        last = field
        if kind not in (1, 2):
            out += encoded(kind, inner)
    return out + b"\0"


def footer_of(data: bytes) -> tuple[bytes, Thrift]:
    length = struct.unpack("<I", data[-8:-4])[0]
    return data[: -8 - length], Reader(data, len(data) - 8 - length).value(Thrift.STRUCT)


def with_footer(body: bytes, footer: Thrift) -> bytes:
    text = encoded(Thrift.STRUCT, footer)
    return body + text + struct.pack("<I", len(text)) + b"PAR1"


def chunks(footer: Thrift) -> list[Thrift]:
    """The metadata of the column chunks."""
    return [chunk[3] for group in footer[4][1] for chunk in group[1][1]]


def with_edited_chunks(data: bytes, edit: Callable[[Thrift], None]) -> bytes:
    body, footer = footer_of(data)
    for chunk in chunks(footer):
        edit(chunk)
    return with_footer(body, footer)


@pytest.fixture
def table() -> pa.Table:
    return pa.table({"i": [1, None, 3], "b": [True, None, False], "s": ["x", None, "y"], "l": [[1], None, []]})


def test_a_dictionary_page_at_0_is_none(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_dictionary=False)
    path.write_bytes(with_edited_chunks(path.read_bytes(), lambda chunk: chunk.set(11, 0)))
    assert pq.read_table(path).equals(table)
    assert st.scan(path, dictionary=False).to_arrow().to_pylist() == table.to_pylist()
    assert st.scan(path, cache=st.Cache(memory="0B")).to_arrow().to_pylist() == table.to_pylist()


def test_a_number_of_nulls_below_none_is_unknown(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    path.write_bytes(with_edited_chunks(path.read_bytes(), lambda chunk: chunk[12].set(3, -1)))
    assert pq.read_table(path).equals(table)
    assert st.scan(path, dictionary=False).to_arrow().to_pylist() == table.to_pylist()
    assert st.scan(path, filter="i IS NULL").count() == 1
    assert st.scan(path, filter="i > 2 AND s = 'y'").count() == 1


def test_pages_are_of_any_number_of_lz4_blocks(tmp_path: Path) -> None:
    """What Hadoop's codec writes: blocks of at most 128 KiB, each behind its two lengths."""

    def blocks(data: bytes) -> bytes:
        cut = [data[at : at + 128 * KIB] for at in range(0, len(data), 128 * KIB)]
        packed = [(piece, bytes(pa.Codec("lz4_raw").compress(piece))) for piece in cut]
        return b"".join(struct.pack(">II", len(piece), len(small)) + small for piece, small in packed)

    table = pa.table({"s": [f"value {number * 7919 % 1_000_003}" for number in range(40_000)]})
    plain, path = tmp_path / "plain.parquet", tmp_path / "lz4.parquet"
    pq.write_table(table, plain, compression="NONE", use_dictionary=False, write_statistics=False)
    body, footer = footer_of(plain.read_bytes())
    (chunk,) = chunks(footer)
    written, at, end = bytearray(b"PAR1"), chunk[9], chunk[9] + chunk[7]
    while at < end:
        reader = Reader(body, at)
        header = reader.value(Thrift.STRUCT)
        page = blocks(body[reader.at : reader.at + header[3]])
        at = reader.at + header[3]
        header.set(3, len(page))
        written += encoded(Thrift.STRUCT, header) + page
    chunk.set(4, 5)
    chunk.set(9, 4)
    chunk.set(7, len(written) - 4)
    path.write_bytes(with_footer(bytes(written), footer))
    assert pq.read_table(path).equals(table)
    assert st.scan(path, dictionary=False).to_arrow().equals(table)


def test_batches_are_cut_where_their_texts_would_be_too_long(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    codes = pa.array(np.zeros(600, dtype=np.int32))
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * (1 << 20)]))
    pq.write_table(pa.table({"i": range(600), "s": texts}), path, store_schema=False)
    assert path.stat().st_size < 100 * KIB
    sizes = [batch.num_rows for batch in st.scan(path, dictionary=False).batches()]
    assert sum(sizes) == 600
    assert max(sizes) <= 256
    assert sum(batch.num_rows for batch in st.scan(path, dictionary=False, limit=3).batches()) == 3
    found = st.scan(path, columns=["s", "i"], filter="i >= 599", dictionary=False).to_arrow()
    assert found["i"].to_pylist() == [599]


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_intervals_keep_all_their_parts(tmp_path: Path, memory: str) -> None:
    """DuckDB states no unit: months, days and milliseconds are read, and written again."""
    query = "SELECT CASE WHEN i % 3 > 0 THEN to_months(i) + to_days(2) + to_milliseconds(i) END AS v FROM range({}) t(i)"
    rows = [None if at % 3 == 0 else pa.MonthDayNano([at, 2, at * 1_000_000]) for at in range(1_000)]
    for name, count in (("few", 4), ("many", 1_000)):
        path = tmp_path / f"{name}.parquet"
        duckdb.sql(f"COPY ({query.format(count)}) TO '{path}' (FORMAT parquet)")
        for _ in range(2):
            scan = st.scan(path, cache=st.Cache(memory=memory))
            read = scan.to_arrow()
            assert read.schema.field("v").type == pa.month_day_nano_interval()
            assert read["v"].to_pylist() == rows[:count]
            again = tmp_path / f"{name}-again.parquet"
            st.write_parquet(scan, again)
            assert duckdb.sql(f"FROM '{again}'").fetchall() == duckdb.sql(f"FROM '{path}'").fetchall()
            path = again
    nested = pa.table({"l": pa.array([[pa.MonthDayNano([1, 2, 3_000_000]), None], None, []],
                                     pa.list_(pa.month_day_nano_interval()))})
    st.write_parquet(nested, tmp_path / "nested.parquet")
    assert st.scan(tmp_path / "nested.parquet", cache=st.Cache(memory=memory)).to_arrow().to_pylist() == nested.to_pylist()
