"""Files of old or sloppy writers that other readers accept: scans read them too."""

from __future__ import annotations

import gzip
import json
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
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
    """Returns the metadata of the column chunks."""
    return [chunk[3] for group in footer[4][1] for chunk in group[1][1]]


def rewritten(
    data: bytes,
    page: Callable[[Thrift, bytes], list[tuple[Thrift, bytes]]],
    chunk: Callable[[Thrift], None] = lambda chunk: None,
) -> bytes:
    """Returns the file with each page replaced, and without page indexes and bloom filters."""
    body, footer = footer_of(data)
    written = bytearray(b"PAR1")
    for outer in [chunk for group in footer[4][1] for chunk in group[1][1]]:
        inner = outer[3]
        at = inner[11] if 0 < (inner.get(11) or 0) < inner[9] else inner[9]
        end, first, first_data = at + inner[7], len(written), None
        while at < end:
            reader = Reader(body, at)
            header = reader.value(Thrift.STRUCT)
            content = body[reader.at : reader.at + header[3]]
            at = reader.at + header[3]
            for new, content in page(header, content):
                new.set(3, len(content))
                if new[1] != 2 and first_data is None:
                    first_data = len(written)
                written += encoded(Thrift.STRUCT, new) + content
        assert first_data is not None
        if first < first_data:
            inner.set(11, first)
        inner.set(9, first_data)
        inner.set(7, len(written) - first)
        for field in (4, 5, 6, 7):
            outer.fields.pop(field, None)
        for field in (14, 15):
            inner.fields.pop(field, None)
        chunk(inner)
    return with_footer(bytes(written), footer)


def is_same_everywhere(path: Path, table: pa.Table, **options: Any) -> bool:
    """Returns whether a scan returns the table with and without memory, and as dictionaries."""
    scans = [
        st.scan(path, dictionary=False, cache=st.Cache(memory="64MiB"), **options),
        st.scan(path, dictionary=False, cache=st.Cache(memory="0B"), **options),
        st.scan(path, dictionary=True, cache=st.Cache(memory="64MiB"), **options),
    ]
    return all(scan.to_arrow().to_pylist() == table.to_pylist() for scan in scans)


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
    """Output of Hadoop's codec: blocks of at most 128 KiB, each after its two lengths."""

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
    """DuckDB declares no unit: months, days and milliseconds are read, and written again."""
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


def hadoop_blocks(data: bytes, size: int) -> bytes:
    """Compresses like Hadoop's LZ4 codec: blocks, each after its two lengths."""
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    packed = [(piece, bytes(pa.Codec("lz4_raw").compress(piece))) for piece in cut]
    return b"".join(struct.pack(">II", len(piece), len(small)) + small for piece, small in packed)


@pytest.fixture
def many() -> pa.Table:
    rows = range(5_000)
    return pa.table(
        {
            "i": pa.array([None if row % 7 == 0 else row for row in rows], pa.int64()),
            "f": pa.array([row / 3 for row in rows], pa.float64()),
            "b": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in rows]),
            "s": [None if row % 11 == 0 else f"value {row % 300}" for row in rows],
            "l": [None if row % 13 == 0 else [row, None][: row % 3] for row in rows],
            "r": [{"x": row, "y": [{"z": str(row)}] * (row % 3)} if row % 17 else None for row in rows],
        }
    )


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_every_column_is_of_any_number_of_lz4_blocks(
    many: pa.Table, tmp_path: Path, version: str, dictionary: bool
) -> None:
    def pack(header: Thrift, content: bytes) -> list[tuple[Thrift, bytes]]:
        if header[1] != 3:
            return [(header, hadoop_blocks(content, 1_000))]
        # Levels of version 2 are not compressed.
        levels = header[8][5] + header[8][6]
        header[8].fields[7] = (1, True)
        return [(header, content[:levels] + hadoop_blocks(content[levels:], 1_000))]

    plain, path = tmp_path / "plain.parquet", tmp_path / "lz4.parquet"
    options: dict[str, Any] = {"data_page_size": 4_000, "use_dictionary": dictionary, "row_group_size": 3_000}
    pq.write_table(many, plain, compression="NONE", data_page_version=version, **options)
    path.write_bytes(rewritten(plain.read_bytes(), pack, lambda chunk: chunk.set(4, 5)))
    assert pq.read_table(path).equals(many)
    assert is_same_everywhere(path, many)
    wanted = many.filter((pc.field("i") > 4_000) & (pc.field("f") < 1_500))
    assert is_same_everywhere(path, wanted, filter="i > 4000 AND f < 1500")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_are_of_any_number_of_gzip_members(
    many: pa.Table, tmp_path: Path, version: str, dictionary: bool
) -> None:
    """RFC 1952 allows several consecutive members, and empty ones."""

    def members(data: bytes) -> bytes:
        cut = [data[at : at + 1_000] for at in range(0, len(data), 1_000)]
        return b"".join(gzip.compress(piece) for piece in [*cut[:1], b"", *cut[1:]]) if data else b""

    def pack(header: Thrift, content: bytes) -> list[tuple[Thrift, bytes]]:
        if header[1] != 3:
            return [(header, members(content))]
        # Levels of version 2 are not compressed.
        levels = header[8][5] + header[8][6]
        header[8].fields[7] = (1, True)
        return [(header, content[:levels] + members(content[levels:]))]

    plain, path = tmp_path / "plain.parquet", tmp_path / "gzip.parquet"
    options: dict[str, Any] = {"data_page_size": 4_000, "use_dictionary": dictionary, "row_group_size": 3_000}
    pq.write_table(many, plain, compression="NONE", data_page_version=version, **options)
    path.write_bytes(rewritten(plain.read_bytes(), pack, lambda chunk: chunk.set(4, 2)))
    assert pq.read_table(path).equals(many)
    assert is_same_everywhere(path, many)


def test_pages_without_rows_are_read_over(many: pa.Table, tmp_path: Path) -> None:
    def surrounded(header: Thrift, content: bytes) -> list[tuple[Thrift, bytes]]:
        if header[1] == 2:
            return [(header, content)]
        empty = Reader(encoded(Thrift.STRUCT, header)).value(Thrift.STRUCT)
        empty.set(2, 0)
        empty[8].set(1, 0)
        for field in (2, 3, 5, 6):
            empty[8].set(field, 0)
        return [(empty, b""), (header, content), (empty, b"")]

    plain, path = tmp_path / "plain.parquet", tmp_path / "empty.parquet"
    pq.write_table(many, plain, compression="NONE", data_page_version="2.0", data_page_size=4_000)
    path.write_bytes(rewritten(plain.read_bytes(), surrounded))
    assert is_same_everywhere(path, many)
    for column in many.column_names:
        assert is_same_everywhere(path, many.select([column]), columns=[column])


def test_a_page_need_not_know_its_nulls(many: pa.Table, tmp_path: Path) -> None:
    def unknown(header: Thrift, content: bytes) -> list[tuple[Thrift, bytes]]:
        if header[1] == 3:
            header[8].set(2, -1)
        return [(header, content)]

    plain, path = tmp_path / "plain.parquet", tmp_path / "unknown.parquet"
    pq.write_table(many, plain, data_page_version="2.0", data_page_size=4_000)
    path.write_bytes(rewritten(plain.read_bytes(), unknown))
    assert pq.read_table(path).equals(many)
    assert is_same_everywhere(path, many)


def with_index(data: bytes, column: int, field: int, edit: Callable[[Thrift], None]) -> bytes:
    """Returns the file with an edited index of a column: the column index (6), or the offset index (4)."""
    body, footer = footer_of(data)
    chunk = footer[4][1][0][1][1][column]
    index = Reader(body, chunk[field]).value(Thrift.STRUCT)
    edit(index)
    text = encoded(Thrift.STRUCT, index)
    chunk.set(field, len(body))
    chunk.set(field + 1, len(text))
    return with_footer(body + text, footer)


def all_null(index: Thrift) -> None:
    index.fields[1] = (9, (1, [True] * len(index[1][1])))


def no_nulls(index: Thrift) -> None:
    index.fields[5] = (9, (6, [0] * len(index[1][1])))


def too_many_nulls(index: Thrift) -> None:
    index.fields[5] = (9, (6, [10_000] * len(index[1][1])))


def one_page_less(index: Thrift) -> None:
    for field in (1, 2, 3, 5):
        index[field][1].pop()


def narrower(index: Thrift) -> None:
    index.fields[3] = (9, (8, index[2][1]))


def one_location_less(index: Thrift) -> None:
    index[1][1].pop()


def rows_too_far(index: Thrift) -> None:
    index[1][1][-1].set(3, 1 << 40)


def other_first_page(index: Thrift) -> None:
    index[1][1].pop(0)
    index[1][1][0].set(3, 0)


@pytest.mark.parametrize(
    ("field", "edit"),
    [
        (6, all_null),
        (6, no_nulls),
        (6, too_many_nulls),
        (6, one_page_less),
        (6, narrower),
        (4, one_location_less),
        (4, rows_too_far),
        (4, other_first_page),
    ],
)
@pytest.mark.parametrize("nullable", [True, False])
def test_a_page_index_that_contradicts_the_footer_is_none(
    tmp_path: Path, field: int, edit: Callable[[Thrift], None], nullable: bool
) -> None:
    path = tmp_path / "a.parquet"
    rows = range(4_000)
    values = [None if nullable and row % 9 == 4 else row * 7919 % 4_001 for row in rows]
    schema = pa.schema([pa.field("a", pa.int32(), nullable), pa.field("n", pa.int64())])
    table = pa.table([pa.array(values, pa.int32()), pa.array(rows, pa.int64())], schema=schema)
    pq.write_table(table, path, data_page_size=1_000, write_batch_size=100, write_page_index=True, use_dictionary=False)
    path.write_bytes(with_index(path.read_bytes(), 0, field, edit))
    for cache in (st.Cache(memory="64MiB"), st.Cache(memory="0B")):
        found = st.scan(path, filter="a > 2000", cache=cache).to_arrow()
        assert found["n"].to_pylist() == [row for row in rows if (values[row] or 0) > 2000]
        assert st.scan(path, filter="a IS NOT NULL", cache=cache).count() == 4_000 - values.count(None)
        assert st.scan(path, filter="a IS NULL", cache=cache).count() == values.count(None)
        assert st.scan(path, filter="n = 17", columns=["a"], cache=cache).to_arrow()["a"].to_pylist() == [values[17]]


def test_a_bloom_filter_of_another_length_is_none(tmp_path: Path) -> None:
    path, short = tmp_path / "a.parquet", tmp_path / "short.parquet"
    values = [row * 7919 for row in range(1_000)]
    options: dict[str, Any] = {"bloom_filter_options": {"a": {"ndv": 1_000, "fpp": 0.01}}, "use_dictionary": False}
    pq.write_table(pa.table({"a": values}), path, write_statistics=False, **options)
    body, footer = footer_of(path.read_bytes())
    (chunk,) = chunks(footer)
    reader = Reader(body, chunk[14])
    header = reader.value(Thrift.STRUCT)
    bits = body[reader.at : reader.at + header[1]]

    header.set(1, header[1] // 2)
    half = encoded(Thrift.STRUCT, header) + bits
    length = chunk[15]
    chunk.set(14, len(body))
    short.write_bytes(with_footer(body + half, footer))
    assert sum(st.scan(short, filter=f"a = {value}").count() for value in values[:100]) == 100

    chunk.set(14, reader.at - (length - len(bits)))
    chunk.set(15, length // 2)
    short.write_bytes(with_footer(body, footer))
    assert sum(st.scan(short, filter=f"a = {value}").count() for value in values[:100]) == 100

    chunk.set(15, len(body) * 2)
    short.write_bytes(with_footer(body, footer))
    assert sum(st.scan(short, filter=f"a = {value}").count() for value in values[:100]) == 100


INT96: dict[str, Any] = {"use_deprecated_int96_timestamps": True, "compression": "NONE", "store_schema": False}


@pytest.mark.parametrize("dictionary", [True, False])
def test_years_of_int96_decide_its_unit(tmp_path: Path, dictionary: bool) -> None:
    near, far, farther = tmp_path / "near.parquet", tmp_path / "far.parquet", tmp_path / "farther.parquet"
    times = pa.array([1_000, 0, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"t": times}), near, use_dictionary=dictionary, **INT96)
    epoch = struct.pack("<qi", 0, 2_440_588)
    far.write_bytes(near.read_bytes().replace(epoch, struct.pack("<qi", 0, 5_373_484)))
    farther.write_bytes(near.read_bytes().replace(epoch, struct.pack("<qi", 0, 1_000_000_000)))

    table = st.scan(near).to_arrow()
    assert table.schema.field("t").type == pa.timestamp("ns")
    assert table["t"].cast(pa.int64()).to_pylist() == [1_000, 0, None]
    for cache in (st.Cache(memory="64MiB"), st.Cache(memory="0B")):
        table = st.scan(far, cache=cache).to_arrow()
        assert table.schema.field("t").type == pa.timestamp("us")
        assert table["t"].to_pylist() == [datetime(1970, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31), None]
        assert st.scan(far, filter="t > DATE '2100-01-01'", cache=cache).count() == 1
        assert st.scan(far, filter="t < DATE '2100-01-01'", cache=cache).count() == 1
    coerced = pq.read_table(far, coerce_int96_timestamp_unit="us")
    assert st.scan(far).to_arrow()["t"].to_pylist() == coerced["t"].to_pylist()
    assert st.scan(farther).to_arrow().schema.field("t").type == pa.timestamp("ms")
    # If one file of a table exceeds the range, all use its unit.
    assert st.scan([near, far]).to_arrow()["t"].to_pylist()[-2:] == [datetime(9999, 12, 31), None]


def test_int96_in_lists_is_of_any_year(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    lists = pa.array([[0], None, [0, 0]], pa.list_(pa.timestamp("ns")))
    pq.write_table(pa.table({"l": lists}), path, use_dictionary=False, **INT96)
    path.write_bytes(path.read_bytes().replace(struct.pack("<qi", 0, 2_440_588), struct.pack("<qi", 0, 5_373_484)))
    day = datetime(9999, 12, 31)
    assert st.scan(path).to_arrow()["l"].to_pylist() == [[day], None, [day, day]]


def test_there_are_more_row_groups_than_16_bits_count(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"i": [7]}), path)
    body, footer = footer_of(path.read_bytes())
    (group,) = footer[4][1]
    group.fields.pop(7, None)
    footer.fields[4] = (9, (12, [group] * 33_000))
    footer.set(3, 33_000)
    path.write_bytes(with_footer(body, footer))
    assert st.scan(path).count() == 33_000
    assert st.scan(path, limit=3).to_arrow()["i"].to_pylist() == [7, 7, 7]


@pytest.mark.parametrize("ending", ["parquet", "orc"])
def test_opening_many_columns_costs_what_they_weigh(ending: str, tmp_path: Path) -> None:
    """Ten times the columns must not take a hundred times the time."""

    def seconds(count: int) -> float:
        path = tmp_path / f"{count}.{ending}"
        table = pa.table({f"column {at}": [at] for at in range(count)})
        if ending == "orc":
            pa.orc.write_table(table, path)
        else:
            pq.write_table(table, path)

        took = []
        for _ in range(5):
            with st.Cache(memory="256MiB") as cache:
                began = time.perf_counter()
                scan = st.scan(path, columns=[f"column {count - 1}"], cache=cache)
                assert scan.to_arrow().to_pylist() == [{f"column {count - 1}": count - 1}]
                took.append(time.perf_counter() - began)
        return min(took)

    assert seconds(20_000) < 40 * seconds(2_000)


def test_empty_lists_have_elements_of_any_type(tmp_path: Path) -> None:
    """Output of fastparquet for an empty frame, and for one with an index only."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"i": [7], "s": ["x"]}), path, store_schema=False)
    body, footer = footer_of(path.read_bytes())
    footer.fields[4] = (9, (3, []))
    footer.fields[5] = (9, (3, []))
    footer.set(3, 0)
    path.write_bytes(with_footer(body, footer))
    assert pq.read_table(path).num_rows == 0
    assert st.scan(path).to_arrow().schema.names == ["i", "s"]
    assert st.scan(path).count() == 0


def edited_schema(data: bytes, edit: Callable[[list[Thrift]], None]) -> bytes:
    body, footer = footer_of(data)
    edit(footer[2][1])
    return with_footer(body, footer)


def test_a_decimal_without_a_scale_is_whole(tmp_path: Path) -> None:
    def no_scale(elements: list[Thrift]) -> None:
        elements[1].fields.pop(7, None)
        elements[1].fields.pop(10, None)

    path = tmp_path / "a.parquet"
    numbers = pa.array([1, None, -300], pa.decimal128(9, 0))
    pq.write_table(pa.table({"d": numbers}), path, store_decimal_as_integer=True, store_schema=False)
    path.write_bytes(edited_schema(path.read_bytes(), no_scale))
    assert pq.read_table(path)["d"].to_pylist() == numbers.to_pylist()
    assert st.scan(path).to_arrow()["d"].to_pylist() == numbers.to_pylist()


def test_a_converted_type_of_other_values_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"i": [1, 2], "n": [3, 4]}), path, store_schema=False)
    for converted in (99, 0, 15):
        changed = edited_schema(path.read_bytes(), lambda elements: elements[1].set(6, converted))
        path.with_suffix(".odd").write_bytes(changed)
        assert st.scan(path.with_suffix(".odd")).to_arrow().to_pydict() == {"i": [1, 2], "n": [3, 4]}


def test_lists_of_avro_are_three_deep(tmp_path: Path) -> None:
    def avro(elements: list[Thrift]) -> None:
        # Each list is a group whose repeated field has the name of Avro's elements.
        for element in elements:
            if element[4] in (b"list", b"element") and element.get(3) == 2:
                element.fields[4] = (8, b"bag")
            elif element[4] == b"element":
                element.fields[4] = (8, b"array_element")

    path = tmp_path / "a.parquet"
    lists = pa.array([[[[1, 2], []], None], None, [[[3]]]], pa.list_(pa.list_(pa.list_(pa.int32()))))
    pq.write_table(pa.table({"l": lists}), path, store_schema=False)
    path.write_bytes(edited_schema(path.read_bytes(), avro))
    assert pq.read_table(path)["l"].to_pylist() == lists.to_pylist()
    assert st.scan(path).to_arrow()["l"].to_pylist() == lists.to_pylist()


def test_an_arrow_schema_that_cannot_be_decoded_is_none(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    body, footer = footer_of(path.read_bytes())
    for pair in footer[5][1]:
        pair.fields[2] = (8, b"AAAAnothing")
    path.write_bytes(with_footer(body, footer))
    assert is_same_everywhere(path, table)


def test_a_column_that_no_type_holds_does_not_hide_others(tmp_path: Path) -> None:
    def long_decimal(elements: list[Thrift]) -> None:
        elements[2].set(6, 5)
        elements[2].set(7, 2)
        elements[2].set(8, 10)

    path = tmp_path / "a.parquet"
    columns = {"i": [1, 2], "d": pa.array([b"x" * 40] * 2, pa.binary(40)), "l": [[1], [2]], "s": ["x", "y"]}
    pq.write_table(pa.table(columns), path, store_schema=False)
    path.write_bytes(edited_schema(path.read_bytes(), long_decimal))
    others = ["i", "l", "s"]
    wanted = [{"i": 1, "l": [1], "s": "x"}, {"i": 2, "l": [2], "s": "y"}]
    for cache in (st.Cache(memory="64MiB"), st.Cache(memory="0B")):
        assert st.scan(path, columns=others, cache=cache).to_arrow().to_pylist() == wanted
        assert st.scan(path, columns=["s"], filter="i = 2", cache=cache).to_arrow()["s"].to_pylist() == ["y"]
        with pytest.raises(st.UnsupportedError, match="column d"):
            st.scan(path, columns=["d"], cache=cache).to_arrow()


def test_an_unknown_codec_or_encoding_is_not_damage(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    body, footer = footer_of(path.read_bytes())
    chunks(footer)[0].set(4, 42)
    path.write_bytes(with_footer(body, footer))
    assert st.scan(path, columns=["s"]).to_arrow()["s"].to_pylist() == ["x", None, "y"]
    for cache in (st.Cache(memory="64MiB"), st.Cache(memory="0B")):
        with pytest.raises(st.UnsupportedError):
            st.scan(path, columns=["i"], cache=cache).to_arrow()


def test_maps_are_asked_for_by_their_keys_or_values(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    item = pa.struct([("x", pa.int32()), ("y", pa.string())])
    maps = pa.array([[("a", {"x": 1, "y": "u"})], None, []], pa.map_(pa.string(), item))
    pq.write_table(pa.table({"m": maps, "i": [1, 2, 3]}), path)
    for column in ("m.key", "m.value", "m.key_value.value"):
        assert st.scan(path, columns=[column]).to_arrow()["m"].to_pylist() == maps.to_pylist()
    part = st.scan(path, columns=["m.value.y"]).to_arrow()["m"].to_pylist()
    assert part == [[("a", {"y": "u"})], None, []]
    with pytest.raises(st.ColumnNotFoundError):
        st.scan(path, columns=["m.nothing"]).to_arrow()


def test_logical_types_that_arrow_lacks_are_kept_as_extension_types(tmp_path: Path) -> None:
    def annotated(field: int, inner: dict[int, tuple[int, Any]]) -> dict[bytes, bytes]:
        def edit(elements: list[Thrift]) -> None:
            said, logical = Thrift(), Thrift()
            said.fields = inner
            logical.fields[field] = (Thrift.STRUCT, said)
            elements[1].fields[10] = (Thrift.STRUCT, logical)
            elements[1].fields.pop(6, None)

        path.with_suffix(".annotated").write_bytes(edited_schema(path.read_bytes(), edit))
        found = st.scan(path.with_suffix(".annotated")).to_arrow()
        assert found.column(0).to_pylist() == table.column(0).to_pylist()
        return dict(found.schema.field(0).metadata)

    path = tmp_path / "a.parquet"
    table = pa.table({"g": [b"\x01\x01", None]})
    pq.write_table(table, path, store_schema=False)
    name, said = b"ARROW:extension:name", b"ARROW:extension:metadata"
    geometry = annotated(17, {1: (8, b"srid:3857")})
    assert geometry[name] == b"geoarrow.wkb"
    assert json.loads(geometry[said]) == {"crs": "3857", "crs_type": "srid"}
    geography = annotated(18, {2: (5, 4)})
    assert json.loads(geography[said])["edges"] == "karney"

    table = pa.table({"v": [{"metadata": b"\x01\0\0", "value": b"\0"}]})
    pq.write_table(table, path, store_schema=False)
    assert annotated(16, {})[name] == b"arrow.parquet.variant"


def test_damage_says_nothing_on_the_terminal(many: pa.Table, tmp_path: Path) -> None:
    plain = tmp_path / "plain.parquet"
    pq.write_table(many.slice(0, 300), plain, compression="NONE", data_page_size=500, write_page_index=True)
    data = plain.read_bytes()
    rng = random.Random(5)
    for number in range(150):
        broken = bytearray(data)
        for _ in range(3):
            broken[rng.randrange(4, len(broken) - 8)] = rng.randrange(256)
        (tmp_path / f"{number}.broken").write_bytes(broken)
    program = """
import sys, stylobate as st
for number in range(150):
    for memory in ("0B", "64MiB"):
        try:
            path = f"{sys.argv[1]}/{number}.broken"
            st.scan(path, filter="i > 10", cache=st.Cache(memory=memory)).to_arrow()
        except st.StylobateError:
            pass
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stderr == ""


def test_an_integer_of_128_bits_does_not_hide_others(tmp_path: Path) -> None:
    """Arrow has no such type: its decoders panic on the Arrow schema in the file."""
    path = tmp_path / "a.parquet"
    numbers = pl.Series([1, -2, None], dtype=pl.Int128)
    pl.DataFrame({"i": [1, 2, 3], "n": numbers, "s": ["x", "y", "z"]}).write_parquet(path)
    program = """
import sys, stylobate as st
print(st.scan(sys.argv[1], columns=["i", "s"]).to_arrow().to_pylist())
"""
    run = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == str([{"i": 1, "s": "x"}, {"i": 2, "s": "y"}, {"i": 3, "s": "z"}])
    assert done.stderr == ""
