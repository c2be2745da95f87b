#!/usr/bin/env python3
"""Writes what fuzzing begins with, a folder for each target; and the folder that a node serves."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import os
import struct
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import stylobate as st

ROWS = 40


def main() -> None:
    corpus = Path(sys.argv[1])
    for target in ("file", "flight", "predicate", "record", "graphar", "chunked", "csv", "pages", "frames", "ipc"):
        (corpus / target).mkdir(parents=True, exist_ok=True)
    files(corpus / "file")
    with tempfile.TemporaryDirectory() as scratch:
        records(corpus / "record", Path(scratch) / "store")
        graphar(corpus / "graphar", Path(scratch))
    chunked(corpus / "chunked")
    for number, (flags, text) in enumerate(CSV):
        (corpus / "csv" / f"{number}").write_bytes(bytes([flags]) + text)
    pages(corpus / "pages")
    frames(corpus / "frames")
    ipc(corpus / "ipc")
    lake = corpus / "lake"
    lake.mkdir(exist_ok=True)
    pq.write_table(flat(), lake / "a.parquet", row_group_size=10)
    orc.write_table(flat(), lake / "b.orc")
    for file in lake.iterdir():
        os.utime(file, (time.time() - 3600,) * 2)
    for number, filter_ in enumerate(FILTERS):
        (corpus / "predicate" / f"{number}").write_text(filter_)
        command = {"version": 1, "path": "lake/*.parquet", "columns": ["text", "number"], "where": filter_,
                   "dictionary": ["text"], "limit": 9}
        (corpus / "flight" / f"command-{number}").write_bytes(b"\0" + json.dumps(command).encode())
    (corpus / "flight" / "path").write_bytes(b"\3lake/a.parquet")
    (corpus / "flight" / "warm").write_bytes(b'\4warm {"bucket":"lake","prefix":""}')
    content = {"command": {"version": 1, "path": "lake/a.parquet"}, "work": {"whole": ""}, "owner": None,
               "expires": 9_999_999_999_999}
    (corpus / "flight" / "ticket").write_bytes(b"\2" + json.dumps(content).encode())


FILTERS = [
    "number > 5 AND text LIKE 'a%'",
    "text IN ('a', 'b''c') OR NOT (price BETWEEN 1.5 AND 2e3)",
    "day >= DATE '2024-01-31' AND at < TIMESTAMP '2024-01-31 10:00:00'",
    "starts_with(text, 'x') AND contains(text, 'y') OR flag IS NOT NULL",
    '"nested.inner" = -7 AND number <> other AND text NOT LIKE \'_\\%\' ESCAPE \'\\\'',
    "flag = true AND bytes = X'00ff'",
]


def flat() -> pa.Table:
    rows = range(ROWS)
    day = datetime.date(2024, 1, 1)
    return pa.table({
        "text": pa.array([None if row % 7 == 0 else "abcdefg"[row % 5] * (row % 4) for row in rows]),
        "number": pa.array([row * 3 - 20 for row in rows], pa.int64()),
        "small": pa.array([row % 3 for row in rows], pa.int8()),
        "price": pa.array([row / 4 for row in rows], pa.float64()),
        "amount": pa.array([decimal.Decimal(row) / 4 for row in rows], pa.decimal128(12, 2)),
        "flag": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in rows]),
        "day": pa.array([day + datetime.timedelta(days=row) for row in rows]),
        "at": pa.array([row * 1_000_000 for row in rows], pa.timestamp("us")),
        "bytes": pa.array([bytes([row, 255 - row]) for row in rows], pa.binary()),
    })


def nested() -> pa.Table:
    rows = range(ROWS)
    return pa.table({
        "list": pa.array([None if row % 6 == 0 else list(range(row % 4)) for row in rows], pa.list_(pa.int32())),
        "nested": pa.array([{"inner": row, "text": "x" * (row % 3)} for row in rows]),
        "map": pa.array([[("k", row)] for row in rows], pa.map_(pa.string(), pa.int32())),
    })


def files(folder: Path) -> None:
    for name, table in (("flat", flat()), ("nested", nested()), ("one", flat().select(["text"])),
                        ("two", flat().select(["number", "price"]))):
        for version in ("1.0", "2.0"):
            for codec in ("none", "snappy", "zstd"):
                pq.write_table(table, folder / f"{name}-{version}-{codec}.parquet", compression=codec,
                               data_page_version=version, row_group_size=25, data_page_size=64,
                               dictionary_pagesize_limit=64, write_page_index=codec == "none")
        for encoding in ("DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT"):
            fits = {"number": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"), "text": ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")}
            columns = {name: encoding for name in table.column_names if encoding in fits.get(name, ())}
            if columns:
                pq.write_table(table, folder / f"{name}-{encoding}.parquet", compression="none",
                               use_dictionary=False, column_encoding=columns)
        for codec in ("uncompressed", "snappy", "zlib", "zstd", "lz4"):
            orc.write_table(table, folder / f"{name}-{codec}.orc", compression=codec,
                            dictionary_key_size_threshold=1.0 if codec != "zlib" else 0.0)
            # Several row groups to a stripe, with bloom filters: what filters read alone.
            orc.write_table(table, folder / f"{name}-strides-{codec}.orc", compression=codec, row_index_stride=8,
                            bloom_filter_columns=list(range(table.num_columns)),
                            dictionary_key_size_threshold=1.0 if codec != "snappy" else 0.0)
            filtered = [field.name for field in table.schema if field.type != pa.bool_()]
            # The same by our own writer, which has more kinds of runs, statistics and filters.
            st.write_orc(table, folder / f"{name}-ours-{codec}.orc", compression=codec, row_index_stride=8,
                         stripe_size=1 << 10, dictionary=codec != "snappy",
                         bloom_filter_columns=filtered)


def records(folder: Path, place: Path) -> None:
    """Records of a store without their checksums, which the target adds."""
    schema = {
        "vertices": {"Person": {"key": "id", "properties": {"id": "int64", "name": "string", "tags": "list<string>"}}},
        "edges": {("Person", "KNOWS", "Person"): {"since": "date"}},
    }
    store = st.GraphStore.create(str(place), schema, durability="none")
    with store.writer() as writer:
        writer.add_vertices("Person", {"id": [7, 9, 11], "name": ["Al", "Bo", None]})
        writer.add_edges("KNOWS", {"src": [7, 9], "dst": [9, 11]})
    with store.writer() as writer:
        writer.update_vertices("Person", {"id": [7], "name": ["Cy"]})
        writer.delete_edges("KNOWS", {"src": [9], "dst": [11]})
        writer.delete_vertices("Person", [11])
    store.compact()
    for record in (place / "_log").glob("*.json"):
        text = record.read_bytes()
        (folder / record.stem).write_bytes(text[: -len(b',"crc32":"00000000"}')] + b"}")


def graphar(folder: Path, scratch: Path) -> None:
    """The YAML files of graphs in one text: that of the graph, of its vertices, of its edges."""
    people = pa.table({"id": [7, 9], "name": ["Al", "Bo"], "at": pa.array([1, 2], pa.timestamp("ms"))})
    knows = pa.table({"src": [9, 9], "dst": [7, 9], "since": [2001, 2002]})
    for format in ("parquet", "orc", "csv"):
        place = scratch / format
        st.write_graph(str(place), name="friends", vertices={"person": {"data": people, "key": "id"}},
                       edges={("person", "knows", "person"): knows}, format=format, durability="none")
        texts = [next(place.glob(f"*.{kind}.yml")).read_text() for kind in ("graph", "vertex", "edge")]
        (folder / format).write_text("---\n".join(texts))
    for number, texts in enumerate(GRAPHS):
        (folder / f"{number}").write_text("---\n".join(texts))


GRAPHS = [
    ["name: g\nprefix: /data/g/\nvertices:\n  - person.vertex.yml\nlabels: [a, 'b: c']\nversion: gar/v1\n"
     "extra_info:\n  - key: k\n    value: \"v # w\"\n",
     "label: person\nchunk_size: 100\nprefix: ./\nlabels: [x, y]\nproperty_groups:\n  - file_type: json\n"
     "    properties:\n      - name: tags\n        data_type: string\n        cardinality: set\n"
     "      - {name: scores, data_type: list<double>, is_nullable: no}\n"],
    ["vertices: [./a.vertex.yml]\nedges: [e.edge.yml]\n",
     "type: a\nchunk_size: 2\n",
     "src_label: a\nedge_label: e\ndst_label: a\nchunk_size: 8\nsrc_chunk_size: 2\ndst_chunk_size: 2\n"
     "directed: true\nadj_lists:\n  - {ordered: true, aligned_by: dst, file_type: csv}\n"
     "  - ordered: false\n    aligned_by: src\n    file_type: parquet\n    property_groups: []\n"],
]


def chunked(folder: Path) -> None:
    """Whether a body is signed, how many bytes arrive at a time, and the body."""
    bodies = [
        b"0\r\n\r\n",
        b"3;chunk-signature=ab\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
        b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n",
        b"1\r\na\r\n0\r\n",
        b"1\r\na\r\n0;chunk-signature=0\r\na: 1\r\na:2\r\nx-amz-trailer-signature:00\r\n\r\n",
        b"100;chunk-signature=" + b"0" * 64 + b"\r\n" + bytes(256) + b"\r\n0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n",
    ]
    for number, body in enumerate(bodies):
        for flags, step in ((0, 1), (0, 7), (1, 100)):
            (folder / f"{number}-{step}").write_bytes(bytes([flags, step]) + body)


# Bits of the options: 3 delimiter, 4 no quote, 8 escape, 16 no header, 32 null values, 64 small batches.
CSV = [
    (0, b'a,"b"\r\n1,"x""y"\r\n,""\n3,"p\nq,"\n"4",z'),
    (0, "\ufeffnumber,price,flag,day,at,text\n1,1.5,true,2024-01-31,2024-01-31 10:00:00,é\n,,,,,\n".encode()),
    (1, b"a;a;a_1;\n1;2;3;4\n\n5;6;7;8\n"),
    (2 | 4, b'a\tb\n"x\t1\n'),
    (3 | 8, b'a|b\n"x\\"|y"|01234\n'),
    (16 | 64, b"1,2024-01-31T10:00:00.123456\n-2,2024-02-01T00:00:00Z\n3,\n4,x\n"),
    (32, b'a,b\nNA,1\n"NA",2\n1e300,-0.0\n'),
    (0, b"a\n1\n\n2\n\n"),
]


def frames(folder: Path) -> None:
    signature = bytes(32)
    run = signature + struct.pack("<IIQQ", 10, 2, 1, 2) + b"ten bytes "
    end = signature + struct.pack("<II", 0, 412)
    (folder / "runs").write_bytes(struct.pack("<BBH", 2, 7, 20) + run + run)
    (folder / "end").write_bytes(struct.pack("<BBH", 2, 7, 20) + run + end)
    request = struct.pack("<I", 2) + signature + b"{}"
    (folder / "requests").write_bytes(struct.pack("<BBH", 3, 7, 0) + request + request)


def ipc(folder: Path) -> None:
    """Files and streams of each codec, and streams that are compressed as a whole."""
    words = pa.array(["abc"[row % 3] * 5 for row in range(ROWS)]).dictionary_encode()
    coded = pa.table({"word": words, "struct": pa.array([{"x": row} for row in range(ROWS)])})
    views = pa.table({"text": pa.array([f"a view of {row} bytes" for row in range(ROWS)], pa.string_view()),
                      "nothing": pa.nulls(ROWS), "fixed": pa.array([b"abc"] * ROWS, pa.binary(3))})
    for name, table in (("flat", flat()), ("nested", nested()), ("coded", coded), ("views", views)):
        for codec in (None, "lz4", "zstd"):
            options = pa.ipc.IpcWriteOptions(compression=codec)
            for kind, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
                sink = pa.BufferOutputStream()
                with new(sink, table.schema, options=options) as writer:
                    writer.write_table(table, max_chunksize=ROWS // 2)
                content = sink.getvalue().to_pybytes()
                (folder / f"{name}-{codec}-{kind}").write_bytes(content)
                if kind == "stream" and codec is None:
                    (folder / f"{name}-gzip").write_bytes(gzip.compress(content))


def pages(folder: Path) -> None:
    """Flags of the target, then changes to a segment that it wrote, or a segment."""
    change = lambda at, new: struct.pack("<HB", at, len(new)) + new  # noqa: E731
    changes = [
        b"",
        change(24, struct.pack("<QQ", 2**64 - 1, 2**64 - 1)),
        change(40, struct.pack("<II", 3, 1)),
        change(48, struct.pack("<Q", 2**40)),
        change(56, struct.pack("<I", 2**32 - 1)),
        change(84, b"\xff\xff"),
        change(84, b"\0\1") + change(88, struct.pack("<I", 1)),
        change(4096, b"damaged") + change(4200, b"again"),
    ]
    for number, content in enumerate(changes):
        for flags in (0, 1):
            (folder / f"{number}-{flags}").write_bytes(bytes([flags]) + content)
    for blocks in (1, 3):
        (folder / f"whole-{blocks}").write_bytes(bytes([3]) + batch(1, 1, 0, blocks) + batch(1, 2, 1 + blocks, 1))


def batch(generation: int, sequence: int, sector: int, pieces: int) -> bytes:
    """A batch of one block each of an object that is not there; the target computes the checksum of the header."""
    fixed = struct.pack("<8sQIIQQIIQII", b"page-log", 0, 2, 4096, generation, sequence, 0, sector, pieces * 4096, pieces, 0)
    entries = b"".join(struct.pack("<QQIBBHIQ", 1, 2, page, 0, 1, 0, 4096, 3) for page in range(pieces))
    return (fixed + entries).ljust(4096, b"\0") + bytes(4096 * pieces)


if __name__ == "__main__":
    main()
