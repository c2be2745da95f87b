"""CSV, JSON and Arrow IPC files: read as by DuckDB, pyarrow and Polars, where these lose nothing."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import math
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather as feather
import pyarrow.json
import pyarrow.parquet as pq
import pytest
import stylobate as st

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a string or bytes to a new file."""
    numbers = iter(range(10_000))

    def written(data: str | bytes, ending: str = "csv") -> Path:
        path = tmp_path / f"{next(numbers)}.{ending}"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return written


def rows(scan: st.Scan) -> list[dict[str, Any]]:
    return scan.to_arrow().to_pylist()


def by_duckdb(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    """Reads the rows with DuckDB, which infers types from all values, and does not read empty strings as null."""
    said = {"header": "true", "sample_size": "-1", "allow_quoted_nulls": "false", "delim": "','", "quote": "'\"'"}
    said |= options
    text = ", ".join(f"{name} = {value}" for name, value in said.items() if value is not None)
    return duckdb.sql(f"SELECT * FROM read_csv('{path}', {text})").fetchall()


def as_tuples(scan: st.Scan) -> list[tuple[Any, ...]]:
    table = scan.to_arrow()
    return list(zip(*(column.to_pylist() for column in table.columns))) if table.num_columns else []


def same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """Returns whether the rows are equal; NaN equals NaN."""

    def plain(value: Any) -> Any:
        return "nan" if isinstance(value, float) and math.isnan(value) else value

    return [tuple(map(plain, row)) for row in ours] == [tuple(map(plain, row)) for row in theirs]


# CSV: types and nulls.


@pytest.mark.parametrize(
    "values",
    [
        ["1", "-5", "9223372036854775807"],
        ["1", "2.5", "-1e-3", ".5", "5."],
        ["NaN", "1.5", "inf", "-inf"],
        ["true", "False", "TRUE"],
        ["2020-02-29", "0001-01-01", "9999-12-31"],
        ["2020-02-29 01:02:03", "1969-12-31T23:59:59.123456"],
        ["01234", "1"],
        ["+1", "2"],
        ["1", "x"],
        ["1", "true"],
        ["2019-02-29", "2020-01-01"],
        ["a b", " c", "d "],
        ["é", "日本", "🜚"],
    ],
)
def test_types_are_those_that_duckdb_finds(values: list[str], write: Write) -> None:
    path = write("id,v\n" + "".join(f"{n},{value}\n" for n, value in enumerate([*values, ""])))
    found = as_tuples(st.scan_csv(path))
    assert same(found, by_duckdb(path)), found


@pytest.mark.parametrize(
    "values",
    [["9223372036854775808"], ["9007199254740993", "0.5"], ["00.5"], [" 1"], ["NaN"], ["-0", "1"]],
)
def test_values_that_another_type_would_change_stay_texts(values: list[str], write: Write) -> None:
    path = write("id,v\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values)))
    assert [row["v"] for row in rows(st.scan_csv(path))] == values


def test_minus_zero_keeps_its_sign_among_doubles(write: Write) -> None:
    found = st.scan_csv(write("v\n-0\n1\n0.5\n")).to_arrow()["v"]
    assert found.type == pa.float64() and str(found[0]) == "-0.0"


def test_dates_and_times_of_one_column_are_timestamps(write: Write) -> None:
    path = write("t,z\n2020-01-02,2020-01-02T03:04:05Z\n2020-01-02 03:04:05,2020-01-02T03:04:05+02:00\n")
    schema = st.scan_csv(path).schema
    assert (schema.field("t").type, schema.field("z").type) == (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    assert rows(st.scan_csv(path))[0]["t"] == dt.datetime(2020, 1, 2)


def test_an_empty_field_is_null_and_quotes_make_it_a_text(write: Write) -> None:
    path = write('a,b,c\n1,,x\n,"",\n3,y,""\n')
    assert as_tuples(st.scan_csv(path)) == [(1, None, "x"), (None, "", None), (3, "y", "")]
    assert same(as_tuples(st.scan_csv(path)), by_duckdb(path))
    path = write('a,b\nNA,NA\n"NA",-\n')
    assert as_tuples(st.scan_csv(path, null_values=["NA", "-"])) == [(None, None), ("NA", None)]
    assert as_tuples(st.scan_csv(path, null_values="-")) == [("NA", "NA"), ("NA", None)]


# CSV: lines, headers, options.


@pytest.mark.parametrize(
    "text",
    [
        "a,b\r\n1,2\r\n",
        "\ufeffa,b\n1,2\n",
        "a,b\n1,2",
        "\n\na,b\n1,2\n",
        "a,b\n1,2\n\n3,4\n\n",
        "a\n1\n\n2\n\n",
        "a\nx\n\ny",
        'a,b\n"x\ny","p,q"\n"r""s",\n',
        "a,b\n",
        "a,a,a_1,a\n1,2,3,4\n",
        ",b,\n1,2,3\n",
    ],
)
def test_lines_and_headers_are_those_of_duckdb(text: str, write: Write) -> None:
    path = write(text)
    found = st.scan_csv(path)
    theirs = duckdb.sql(f"SELECT * FROM read_csv('{path}', header = true, delim = ',', quote = '\"', sample_size = -1)")
    assert found.schema.names == theirs.columns
    assert same(as_tuples(found), theirs.fetchall())


def test_a_carriage_return_alone_ends_a_line(write: Write) -> None:
    path = write('a,b\r1,"x\ry"\r\r3,z\r')
    assert as_tuples(st.scan_csv(path)) == [(1, "x\ry"), (3, "z")]
    assert list(pd.read_csv(path).itertuples(index=False, name=None)) == as_tuples(st.scan_csv(path))
    path = write("a\r1\n2\r\n3\r")
    assert as_tuples(st.scan_csv(path)) == [(1,), (2,), (3,)]


def test_a_header_may_be_missing_or_given(write: Write) -> None:
    path = write("1,x\n2,y\n")
    assert st.scan_csv(path, header=False).to_arrow().to_pydict() == {"column0": [1, 2], "column1": ["x", "y"]}
    assert st.scan_csv(path, header=["n", "t"]).to_arrow().to_pydict() == {"n": [1, 2], "t": ["x", "y"]}
    wide = write(",".join("1" for _ in range(11)) + "\n")
    assert st.scan_csv(wide, header=False).schema.names == [f"column{n:02}" for n in range(11)]
    with pytest.raises(st.InvalidDataError, match="line 1: .* 2 fields, and there are 3 columns"):
        st.scan_csv(path, header=["a", "b", "c"]).to_arrow()


def test_characters_may_be_others(write: Write) -> None:
    path = write("a;b\n'x;y';'it\\'s'\n'p''q';r\"s\n")
    found = as_tuples(st.scan_csv(path, delimiter=";", quote="'", escape="\\"))
    assert found == [("x;y", "it's"), ("p'q", 'r"s')]
    plain = write('a,b\n"x,y"\n')
    assert as_tuples(st.scan_csv(plain, quote=None)) == [('"x', 'y"')]
    assert st.scan_csv(write("a\tb\n1\t2\n", "tsv")).to_arrow().to_pylist() == [{"a": 1, "b": 2}]
    for wrong in ({"delimiter": "||"}, {"quote": ","}, {"delimiter": "\n"}, {"escape": ","}, {"max_record": 0}):
        with pytest.raises(st.ConfigError):
            st.scan_csv(plain, **wrong)


def test_types_may_be_given(write: Write) -> None:
    path = write("id,zip,price,t\n1,99999,1.5,2020-01-02\n")
    types = {"zip": "string", "price": pa.decimal128(10, 2), "t": pa.timestamp("ms"), "id": "int16"}
    schema = st.scan_csv(path, types=types).schema
    assert [field.type for field in schema] == [pa.int16(), pa.string(), pa.decimal128(10, 2), pa.timestamp("ms")]
    with pytest.raises(st.ColumnNotFoundError, match="id, zip, price, t"):
        st.scan_csv(path, types={"nmae": "string"})
    with pytest.raises(st.ConfigError, match="types: no type .number.: give one such as"):
        st.scan_csv(path, types={"id": "number"})
    for type in (pa.list_(pa.int64()), pa.duration("s"), "null"):
        with pytest.raises(st.ConfigError, match="column id: a field of a CSV file is no .*: read it as a string"):
            st.scan_csv(path, types={"id": type})


def test_what_is_asked_for_comes_out(write: Write) -> None:
    path = write("id,word,n\n" + "".join(f"{n},{'abc'[n % 3]},{n * 2}\n" for n in range(20_000)))
    scan = st.scan_csv(path, columns=["n", "id"], filter=st.col("word") == "b", limit=7_000)
    assert scan.count() == 6_667 and as_tuples(scan)[:2] == [(2, 1), (8, 4)]
    assert st.scan_csv(path).count() == 20_000
    assert [batch.num_rows for batch in st.scan_csv(path, batch_rows=9_000, limit=10_000).batches()] == [9_000, 1_000]
    assert isinstance(scan.to_pandas(), pd.DataFrame) and scan.to_polars().shape == (6_667, 2)
    assert scan.to_duckdb().sum("id").fetchone() == (sum(range(1, 20_000, 3)),)
    with pytest.raises(st.ColumnNotFoundError, match="id, word, n"):
        st.scan_csv(path, columns=["nmae"])
    with pytest.raises(st.FilterError):
        st.scan_csv(path, filter="id = 'x'")


# CSV: errors.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3\n", "line 3: the record that begins here has 1 field"),
        ("a,b\n1,2,3\n", "line 2: .* 3 fields"),
        ('a,b\n1,"x\n2,y\n', "line 2: the quote that opens here is not closed"),
        ('a,b\n1,"x"y\n', "line 2: field 2 goes on after its closing quote"),
        ("", "line 1: .* there is no header"),
    ],
)
def test_what_is_no_csv_is_named_with_its_line(text: str, said: str, write: Write) -> None:
    with pytest.raises(st.InvalidDataError, match=said):
        st.scan_csv(write(text)).to_arrow()


def test_a_stray_quote_does_not_take_the_file_into_memory(write: Write) -> None:
    path = write('a,b\n1,"x\n' + "2,y\n" * 100_000)
    with pytest.raises(st.InvalidDataError, match="line 2: .* not closed within 1 MiB|line 2: .* not closed within"):
        st.scan_csv(path, max_record="100KiB").to_arrow()


def test_a_huge_record_is_one_record(write: Write) -> None:
    large = "x" * (5 << 20)
    path = write(f'a,b\n1,"{large}\n{large}"\n2,y\n')
    assert [len(row["b"]) for row in rows(st.scan_csv(path))] == [(10 << 20) + 1, 1]
    with pytest.raises(st.InvalidDataError, match="line 2"):
        st.scan_csv(path, max_record="8MiB").to_arrow()


def test_a_later_value_that_does_not_fit_says_what_to_do(write: Write) -> None:
    path = write("id,v\n" + "".join(f"{n},{n}\n" for n in range(5_000)) + "5000,abc\n")
    assert st.scan_csv(path).schema.field("v").type == pa.string()
    scan = st.scan_csv(path, sample_rows=100)
    with pytest.raises(st.InvalidDataError, match='line 5002: column v: "abc" is no Int64.*larger sample'):
        scan.to_arrow()
    assert st.scan_csv(path, sample_rows=100, types={"v": "string"}).count() == 5_001
    assert st.scan_csv(path, sample_rows="all").count() == 5_001
    with pytest.raises(st.ConfigError, match="sample_rows"):
        st.scan_csv(path, sample_rows="some")  # type: ignore[arg-type]


def test_what_fails_while_it_is_written_leaves_no_file(write: Write, tmp_path: Path) -> None:
    path = write("v\n1\n2\nx\n")
    with pytest.raises(st.InvalidDataError, match="line 4"):
        st.write_parquet(st.scan_csv(path, sample_rows=2), tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


# CSV: random files.


def random_field(rng: random.Random, kind: str) -> str | None:
    if rng.random() < 0.15:
        return None
    match kind:
        case "int":
            return str(rng.randrange(-(1 << 40), 1 << 40))
        case "float":
            return f"{rng.uniform(-100, 100):.4f}"
        case "date":
            return str(dt.date(1970, 1, 1) + dt.timedelta(rng.randrange(-30_000, 30_000)))
        case "bool":
            return rng.choice(["true", "false"])
        case "zip":
            return f"{rng.randrange(100_000):05}x"
        case _:
            return "".join(rng.choice('ab ,"\n\ré01;') for _ in range(rng.randrange(8)))


def quoted(field: str | None, rng: random.Random) -> str:
    if field is None:
        return ""
    if not field or set(field) & set(',"\n\r') or rng.random() < 0.2:
        return '"' + field.replace('"', '""') + '"'
    return field


@pytest.mark.parametrize("seed", range(25))
def test_random_files_are_read_as_by_duckdb(seed: int, write: Write) -> None:
    rng = random.Random(seed)
    kinds = [rng.choice(["int", "float", "date", "bool", "zip", "text"]) for _ in range(rng.randrange(2, 6))]
    end = rng.choice(["\n", "\r\n"])
    lines = [",".join(f"c{n}" for n in range(len(kinds)))]
    # The first column is never empty: readers disagree on whether a blank line is a row.
    for number in range(rng.randrange(200)):
        fields = [str(number), *(random_field(rng, kind) for kind in kinds[1:])]
        lines.append(",".join(quoted(field, rng) for field in fields))
    path = write(end.join(lines) + (end if rng.random() < 0.7 else ""))
    types = {f"c{n}": "string" for n, kind in enumerate(kinds) if kind in ("zip", "text") and n}
    columns = {"types": "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in types) + "}"} if types else {}
    assert same(as_tuples(st.scan_csv(path, types=types)), by_duckdb(path, **columns, new_line=None))


# Many files, compressed files, changing files.


def test_files_are_compressed_or_several(tmp_path: Path) -> None:
    text = "a,b\n" + "1,x\n" * 50_000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    pa.OSFile(str(tmp_path / "plain"), "w").close()
    with pa.CompressedOutputStream(str(tmp_path / "b.csv.zst"), "zstd") as out:
        out.write(text.encode())
    assert st.scan_csv(tmp_path / "a.csv.gz").count() == 50_000
    assert st.scan(tmp_path / "b.csv.zst").count() == 50_000
    assert st.scan_csv([tmp_path / "a.csv.gz", tmp_path / "b.csv.zst"]).count() == 100_000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode())[:-30])
    with pytest.raises(st.CorruptFileError):
        st.scan_csv(tmp_path / "a.csv.gz").to_arrow()


def test_columns_of_several_files_meet_by_name(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("b,c,a\ny,true,2.5\n")
    expected = {"a": [1.0, 2.5], "b": ["x", "y"], "c": [None, True]}
    assert st.scan_csv(tmp_path / "*.csv").to_arrow().to_pydict() == expected
    assert st.scan_csv(tmp_path).to_arrow().to_pydict() == expected


def test_a_file_is_never_mixed_with_its_former_self(write: Write) -> None:
    path = write("a\n1\n")
    scan = st.scan_csv(path)
    path.write_text("a\nx\ny\n")
    with pytest.raises(st.ObjectChangedError):
        scan.to_arrow()


# JSON.


def test_json_lines_are_read_as_by_polars_and_duckdb(write: Write) -> None:
    rng = random.Random(3)
    records = []
    for number in range(500):
        record = {
            "id": number,
            "x": rng.choice([None, rng.random(), rng.randrange(5)]),
            "tags": rng.choice([None, [], ["a", None, "é\n\"b\""]]),
            "s": {"p": rng.choice([None, True]), "q": [{"r": rng.randrange(3)}]},
            "t": rng.choice(["", "x", None]),
        }
        records.append(record)
    records[0] |= {"x": 0.5, "tags": ["a"], "s": {"p": True, "q": [{"r": 1}]}, "t": "x"}
    path = write("\n".join(map(json.dumps, records)) + "\n", "jsonl")
    ours = st.scan_json(path)
    assert rows(ours) == records
    assert pl.read_ndjson(path).to_dicts() == records
    theirs = duckdb.sql(f"SELECT * FROM read_json('{path}')").to_arrow_table()
    assert rows(ours) == theirs.to_pylist()
    array = write(json.dumps(records, indent=1), "json")
    assert rows(st.scan(array)) == records
    assert as_tuples(st.scan_json(path, columns=["s.p"], filter="id = 0")) == [({"p": True},)]


@pytest.mark.parametrize("beyond", ["-9223372036854775809", "9223372036854775808", "18446744073709551616", "9" * 40])
def test_json_integers_that_int64_does_not_hold_are_strings(beyond: str, write: Write) -> None:
    path = write(f'{{"a": {beyond}, "b": 1, "c": {{"d": [{beyond}]}}}}\n{{"a": 0.5, "b": {beyond}}}\n', "jsonl")
    assert rows(st.scan_json(path)) == [
        {"a": beyond, "b": "1", "c": {"d": [beyond]}},
        {"a": "0.5", "b": beyond, "c": None},
    ]
    floats = st.scan_json(write(f'{{"a": {beyond}.0}}\n{{"a": {beyond}e0}}\n', "jsonl"))
    assert [row["a"] for row in rows(floats)] == [float(beyond)] * 2


def test_a_type_of_a_json_column_that_is_in_no_file_is_an_error(write: Write) -> None:
    path = write('{"a": 1}\n{"b": 2}\n', "jsonl")
    samples: list[Any] = ["all", 1, None]
    for sample_rows in samples:
        with pytest.raises(st.ColumnNotFoundError, match="q.*a, b"):
            st.scan_json(path, columns=["a"], types={"q": "int8"}, sample_rows=sample_rows).to_arrow()
    assert rows(st.scan_json(path, types={"b": "int8"}, sample_rows=1)) == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_json_types_are_promoted_or_named_with_their_line(write: Write) -> None:
    path = write('{"a": 1}\n{"a": "x", "b": 9223372036854775808}\n{"a": true}\n', "jsonl")
    assert st.scan_json(path).to_arrow().to_pydict() == {
        "a": ["1", "x", "true"],
        "b": [None, "9223372036854775808", None],
    }
    for text, said in [
        ('{"a": 1}\n{"a": {}}\n', "line 2: column a: it is an object or a list"),
        ('{"a": 1}\n{"a": }\n', "line 2: "),
        ('{"a": 1}\n[1]\n', "line 2: "),
        ('{"a": 1}\n{"a": 1\n', "line 2: the object that begins here is not closed"),
        ('{"a": 1}\n{"a": "x\n"}\n', "line 2: a string is not closed"),
    ]:
        with pytest.raises(st.InvalidDataError, match=said):
            st.scan_json(write(text, "jsonl")).to_arrow()
    with pytest.raises(st.InvalidDataError, match="line 2: column a: "):
        st.scan_json(path, sample_rows=1).to_arrow()
    times = st.scan_json(write('{"t": "2020-01-02T03:04:05"}', "json"), types={"t": "timestamp"})
    assert rows(times) == [{"t": dt.datetime(2020, 1, 2, 3, 4, 5)}]


# Arrow IPC.


@pytest.fixture
def table() -> pa.Table:
    words = pa.array(["a", None, "b", "a"] * 500).dictionary_encode()
    inner = pa.StructArray.from_arrays([pa.array(range(2_000)), pa.array([[n] for n in range(2_000)])], ["x", "l"])
    return pa.table({"id": pa.array(range(2_000), pa.int32()), "word": words, "s": inner})


@pytest.mark.parametrize("kind", ["file", "stream", "feather", "uncompressed"])
def test_arrow_ipc_is_read_as_by_pyarrow(kind: str, table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / {"file": "a.arrow", "stream": "a.arrows"}.get(kind, "a.feather")
    if kind in ("file", "stream"):
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=700)
    else:
        compression = "uncompressed" if kind == "uncompressed" else None
        feather.write_feather(table, path, compression=compression, chunksize=700)
    assert st.scan_ipc(path).to_arrow().equals(table)
    assert st.scan(path).to_arrow().equals(table)
    some = st.scan_ipc(path, columns=["s.x", "word"], filter="id >= 10 AND word = 'a'", limit=3).to_arrow()
    assert some.column_names == ["s", "word"] and some["s"].to_pylist() == [{"x": 11}, {"x": 12}, {"x": 15}]
    assert st.scan_ipc(path).count() == 2_000
    st.write_parquet(st.scan(path), tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["id"].to_pylist() == list(range(2_000))


def test_damaged_ipc_files_are_errors(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    whole = path.read_bytes()
    for cut in (0, 5, 9, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(st.StylobateError):
            st.scan_ipc(path).to_arrow()
    path.write_text("no columns at all, whatever its name says")
    with pytest.raises(st.CorruptFileError):
        st.scan_ipc(path)


def write_ipc(path: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def test_columns_of_several_ipc_files_meet_by_name(tmp_path: Path) -> None:
    a = write_ipc(tmp_path / "a.arrow", {"n": pa.array([1, None], pa.int32()), "w": ["a", "b"]})
    words = pa.array(["c"]).dictionary_encode()
    b = write_ipc(tmp_path / "b.arrow", {"w": words, "more": [True], "n": pa.array([1 << 40], pa.int64())})
    expected = {"n": [1, None, 1 << 40], "w": ["a", "b", "c"], "more": [None, None, True]}
    found = st.scan_ipc([a, b]).to_arrow()
    assert found.to_pydict() == expected
    assert [field.type for field in found.schema] == [pa.int64(), pa.string(), pa.bool_()]
    assert st.scan_ipc(tmp_path, columns=["more"]).to_arrow().to_pydict() == {"more": [None, None, True]}

    c = write_ipc(tmp_path / "c.arrow", {"n": ["x"], "w": ["y"]})
    with pytest.raises(st.SchemaError, match=r"c\.arrow: column n: it is Utf8 here and Int32 in .*a\.arrow"):
        st.scan_ipc([a, c])
    assert st.scan_ipc([a, c], columns=["w"]).to_arrow().to_pydict() == {"w": ["a", "b", "y"]}


# Folders with files of several formats.


def test_a_format_that_is_named_chooses_the_files_of_a_folder(tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": [1]}), tmp_path / "0.parquet")
    (tmp_path / "1.csv").write_text("c\n1\n")
    (tmp_path / "2.csv.gz").write_bytes(gzip.compress(b"c\n2\n"))
    (tmp_path / "3.jsonl").write_text('{"j": 1}\n')
    write_ipc(tmp_path / "4.arrow", {"i": [1]})
    (tmp_path / "_log.csv").write_text("other\n1\n")
    assert rows(st.scan_csv(tmp_path)) == [{"c": 1}, {"c": 2}]
    assert rows(st.scan_json(tmp_path)) == [{"j": 1}]
    assert rows(st.scan_ipc(tmp_path)) == [{"i": 1}]


def test_a_folder_without_a_file_of_the_format_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": [1]}), tmp_path / "0.parquet")
    scans: dict[str, Callable[[Path], st.Scan]]
    scans = {"CSV": st.scan_csv, "JSON": st.scan_json, "Arrow IPC": st.scan_ipc}
    for name, scan in scans.items():
        with pytest.raises(st.ConfigError, match=f"no file there is {name}") as error:
            scan(tmp_path)
        assert str(tmp_path) in str(error.value)
    (tmp_path / "part-0").write_text("c\n1\n")
    assert rows(st.scan_csv(tmp_path)) == [{"c": 1}]


# `scan`, and files written from scans.


def test_scan_goes_by_the_ending(write: Write) -> None:
    path = write("a,b\n01,2\n")
    scan = st.scan(path, columns=["a"], filter="b = 2", limit=1)
    assert isinstance(scan, st.Scan) and rows(scan) == [{"a": "01"}]
    assert repr(scan).startswith("Scan(") and "limit=1" in repr(scan)
    assert rows(st.scan([path, path])) == rows(st.scan(path)) * 2
    with pytest.raises(TypeError, match="dictionary"):
        st.scan(path, dictionary=True)
    with pytest.raises(TypeError, match="several formats"):
        st.scan([path, "x.parquet"])
    with pytest.raises(st.NotFoundError):
        st.scan("nothing.csv")


def test_scan_knows_arrow_files_by_their_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    feather.write_feather(pa.table({"x": [1, 2, 3]}), path)
    data = path.read_bytes()
    for given in (path, data, memoryview(data), io.BytesIO(data), f"{tmp_path}/numbers"):
        scan = st.scan(given, filters=[("x", ">", 1)], limit=1)
        assert rows(scan) == [{"x": 2}]
        assert rows(pickle.loads(pickle.dumps(scan))) == [{"x": 2}]
    assert rows(st.scan([path, path])) == [{"x": 1}, {"x": 2}, {"x": 3}] * 2
    for given in (path, data):
        with pytest.raises(TypeError, match="strings: it is for Parquet and ORC files"):
            st.scan(given, strings="view")
        assert st.scan(given, filename="file", casts={"x": "int8"}).columns == ["x", "file"]
    with pytest.raises(TypeError, match="several formats"):
        st.scan([data, "x.parquet"])


# Tables of many files.


def write_years(folder: Path, name: str, content: bytes) -> None:
    for year in (2023, 2024):
        path = folder / f"year={year}" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.arrow"])
def test_partition_folders_are_columns(tmp_path: Path, name: str) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema({"n": pa.int64()})) as writer:
        writer.write_table(pa.table({"n": [1, 2]}))
    contents = {"a.csv": b"n\n1\n2\n", "a.jsonl": b'{"n": 1}\n{"n": 2}\n', "a.arrow": sink.getvalue().to_pybytes()}
    write_years(tmp_path, name, contents[name])
    pattern = tmp_path / "*" / name

    expected = pa.table({"n": [1, 2, 1, 2], "year": [2023, 2023, 2024, 2024]})
    read = st.scan(pattern)
    assert read.to_arrow() == expected
    assert pickle.loads(pickle.dumps(read)).to_arrow() == expected
    assert read.filter("year = 2024 AND n = 2").select("year").to_arrow().to_pylist() == [{"year": 2024}]
    assert read.count() == 4 and read.filter(st.col("year") < 2024).count() == 2
    assert st.scan(pattern, partitioning=None).columns == ["n"]
    assert st.scan(pattern, partitioning={"year": "string"}).to_arrow()["year"].to_pylist()[0] == "2023"
    with pytest.raises(st.ConfigError, match="column month: no such partition column; available: year"):
        st.scan(pattern, partitioning={"month": "int8"})

    named = st.scan(pattern, filename=True, file_row_number="row", casts={"n": "string", "year": "int16"})
    first = {"n": "1", "year": 2023, "filename": str(tmp_path / "year=2023" / name), "row": 0}
    assert named.to_arrow().to_pylist()[0] == first
    assert named.to_arrow()["row"].to_pylist() == [0, 1, 0, 1]
    with pytest.raises(st.ConfigError, match="column n: .*give another one"):
        st.scan(pattern, filename="n")
    with pytest.raises(st.ColumnNotFoundError, match="no column m"):
        st.scan(pattern, casts={"m": "int8"})

    schema = pa.schema({"year": pa.int32(), "more": pa.date32(), "n": pa.dictionary(pa.int8(), pa.string())})
    given = st.scan(pattern, schema=schema).to_arrow()
    assert given.schema.types == schema.types and given.schema.names == schema.names
    assert given["more"].null_count == 4 and given["n"].to_pylist() == ["1", "2", "1", "2"]


def test_folders_of_csv_are_read_as_by_duckdb(tmp_path: Path) -> None:
    write_years(tmp_path, "a.csv", b"n,price\n1,0.10\n2,7\n")
    read = st.scan_csv(tmp_path, casts={"price": "decimal(10, 2)"}, filename=True).select("n", "price", "year")
    options = "hive_partitioning = true, hive_types = {'year': BIGINT}, types = {'price': 'DECIMAL(10, 2)'}"
    theirs = duckdb.sql(f"SELECT n, price, year FROM read_csv('{tmp_path}/*/*.csv', {options}) ORDER BY ALL")
    assert sorted(as_tuples(read)) == theirs.fetchall()
    st.write_parquet(st.scan_csv(tmp_path), tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet", partitioning=None).num_columns == 3


def test_what_is_scanned_can_be_written(write: Write, tmp_path: Path) -> None:
    path = write("id,zip,x\n1,01234,0.5\n2,,\n")
    assert st.write_parquet(st.scan_csv(path), tmp_path / "x.parquet").rows == 2
    assert st.write_orc(st.scan(path), tmp_path / "x.orc").rows == 2
    expected = [{"id": 1, "zip": "01234", "x": 0.5}, {"id": 2, "zip": None, "x": None}]
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == expected
    assert rows(st.scan(tmp_path / "x.orc", dictionary=False)) == expected


# Scans of scans, of other processes and of bytes, for each of the formats.

WORDS = ["air", "mail, by ship", None, "Ålesund", 'a "quote"']
TRADES = pa.table(
    {
        "id": range(500),
        "word": [WORDS[number % 5] for number in range(500)],
        "price": [None if number % 7 == 3 else number / 8 for number in range(500)],
    }
)


def read_csv_by_pyarrow(path: Path) -> pa.Table:
    return pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(strings_can_be_null=True))


@dataclass(frozen=True)
class Format:
    """The scan and the independent reader of a format."""

    scan: Callable[..., st.Scan]
    by_pyarrow: Callable[[Path], pa.Table]
    by_pandas: Callable[[Path], pd.DataFrame]


FORMATS = {
    "csv": Format(st.scan_csv, read_csv_by_pyarrow, pd.read_csv),
    "jsonl": Format(st.scan_json, pa.json.read_json, lambda path: pd.read_json(path, lines=True)),
    "arrow": Format(st.scan_ipc, feather.read_table, pd.read_feather),
}


@pytest.fixture(params=FORMATS)
def trades(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Format, Path]:
    """The trades in a file of the format."""
    path = tmp_path / f"trades.{request.param}"
    match request.param:
        case "csv":
            pa.csv.write_csv(TRADES, path)
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in TRADES.to_pylist()))
        case _:
            with pa.ipc.new_file(str(path), TRADES.schema) as writer:
                writer.write_table(TRADES, max_chunksize=130)
    return FORMATS[request.param], path


def test_others_read_the_trades_as_they_are(trades: tuple[Format, Path]) -> None:
    """The tests below rely on this."""
    format, path = trades
    for table in (format.by_pyarrow(path), format.scan(path).to_arrow()):
        assert table.schema.types == TRADES.schema.types
        assert table.to_pydict() == TRADES.to_pydict()


def test_a_scan_is_narrowed_as_pyarrow_narrows_its_table(trades: tuple[Format, Path]) -> None:
    format, path = trades
    scan, table = format.scan(path), format.by_pyarrow(path)
    assert scan.columns == ["id", "word", "price"] and len(scan) == 500
    for columns in (["price", "id"], ["word"]):
        narrow = scan.select(columns)
        assert narrow.columns == columns
        assert narrow.to_arrow().to_pydict() == table.select(columns).to_pydict()
    assert scan.select("price", st.col("id")).columns == ["price", "id"]

    kept = scan.filter(st.col("word") == "mail, by ship").filter("price > 20").select("id", "price")
    wanted = table.filter((pc.field("word") == "mail, by ship") & (pc.field("price") > 20)).select(["id", "price"])
    assert 0 < wanted.num_rows < 100
    assert kept.to_arrow().to_pydict() == wanted.to_pydict() and kept.count() == wanted.num_rows
    assert kept.head(3).to_arrow().to_pydict() == wanted.slice(0, 3).to_pydict()
    assert kept.limit(7).head(9).count() == 7 and scan.head().count() == 5 and scan.head(0).to_arrow().num_rows == 0
    assert scan.head(501).count() == 500, "the scan itself stays what it was"
    assert scan.select("id").filter(st.col("word").is_null()).to_arrow()["id"].to_pylist() == list(range(2, 500, 5))

    with pytest.raises(st.ColumnNotFoundError):
        scan.select("id").select("price")
    with pytest.raises(st.ConfigError, match="before limit"):
        scan.head(3).filter("id = 1")


def test_a_scan_is_narrowed_as_pandas_narrows_its_frame(trades: tuple[Format, Path]) -> None:
    format, path = trades
    frame = format.by_pandas(path)
    kept = frame[frame["price"] > 20][["id", "word", "price"]]
    found = format.scan(path).filter(st.col("price") > 20).to_pandas()
    pd.testing.assert_frame_equal(found, kept.reset_index(drop=True))
    pd.testing.assert_frame_equal(format.scan(path).head(9).to_pandas(), frame.head(9))
    numbers = format.scan(path).select("price").to_pandas()
    pd.testing.assert_frame_equal(numbers, frame[["price"]])


def test_a_scan_is_pickled_by_what_it_was_made_from(
    trades: tuple[Format, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    format, path = trades
    monkeypatch.chdir(path.parent)
    with st.Cache(memory="64MiB") as cache:
        scan = format.scan(path.name, cache=cache).filter(st.col("price") < 30).select("word", "id").head(40)
        wanted = scan.to_arrow()
        data = pickle.dumps(scan)
    assert wanted.num_rows == 40 and len(data) < 2_000
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert repr(again) == repr(scan)
    assert again.to_arrow().equals(wanted), "it reads through the default cache"
    assert pickle.loads(pickle.dumps(again)).select("id").to_arrow()["id"].equals(wanted["id"])


def test_options_of_a_scan_are_pickled_with_it(write: Write) -> None:
    path = write("1;'a;b';x\n-;'';y\n")
    types = {"n": pa.int16(), "c": "string"}
    scan = st.scan_csv(path, delimiter=";", quote="'", header=["n", "t", "c"], null_values="-", types=types)
    again = pickle.loads(pickle.dumps(scan.select("c", "n", "t")))
    assert again.schema.types == [pa.string(), pa.int16(), pa.string()]
    assert as_tuples(again) == [("x", 1, "a;b"), ("y", None, "")]
    times = st.scan_json(write('{"t": "2020-01-02T03:04:05"}', "json"), types={"t": "timestamp"})
    assert rows(pickle.loads(pickle.dumps(times))) == [{"t": dt.datetime(2020, 1, 2, 3, 4, 5)}]


def test_bytes_and_file_objects_are_scanned(trades: tuple[Format, Path], tmp_path: Path) -> None:
    format, path = trades
    data = path.read_bytes()
    wanted = format.by_pyarrow(path).filter(pc.field("price") < 10).select(["word", "id"])
    buffer = io.BytesIO(data)
    buffer.seek(100)
    with path.open("rb") as file:
        for given in (data, bytearray(data), memoryview(data), buffer, file):
            scan = format.scan(given, columns=["word", "id"], filter="price < 10")
            assert scan.to_arrow().to_pydict() == wanted.to_pydict(), type(given)
            assert scan.select("id").head(3).to_arrow()["id"].to_pylist() == wanted["id"].to_pylist()[:3]
        assert file.tell() == 0
    assert buffer.tell() == 100
    assert format.scan([data, path, io.BytesIO(data)]).count() == 1_500
    assert repr(format.scan(buffer)) == "Scan(<BytesIO>)"
    assert pickle.loads(pickle.dumps(format.scan(data))).to_arrow().to_pydict() == TRADES.to_pydict()
    reader = pa.RecordBatchReader.from_stream(format.scan(path.read_bytes()))
    assert reader.read_all().num_rows == 500, "the bytes live as long as what reads them"
    st.write_parquet(format.scan(buffer), tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == TRADES.to_pydict()


def test_two_scans_of_bytes_are_never_taken_for_each_other() -> None:
    with st.Cache(memory="64MiB") as cache:
        for number in range(3):
            assert rows(st.scan_csv(f"x\n{number}\n".encode(), cache=cache)) == [{"x": number}]
            assert rows(st.scan_json(f'{{"x": {number}}}'.encode(), cache=cache)) == [{"x": number}]


def test_bytes_are_compressed_or_of_another_format(write: Write) -> None:
    assert rows(st.scan_csv(gzip.compress(b"a,b\n1,x\n"))) == [{"a": 1, "b": "x"}]
    assert rows(st.scan_json(io.BytesIO(gzip.compress(b'[{"a": 1}, {"a": 2}]')))) == [{"a": 1}, {"a": 2}]
    for scan in (st.scan_csv, st.scan_json, st.scan_ipc):
        with write("a\n1\n").open() as file, pytest.raises(TypeError, match="binary mode"):
            scan(file)
    with pytest.raises(st.StylobateError):
        st.scan_ipc(b"no columns here").to_arrow()
    with pytest.raises(st.InvalidDataError, match="line 2"):
        st.scan_csv(b"a,b\n1\n").to_arrow()


# Graphs.


def test_a_store_takes_texts_that_look_like_numbers_as_texts(write: Write, tmp_path: Path) -> None:
    people = write("id,zip,note\n1,01234,\n2,99999,x\n")
    knows = write("src;dst;since\n1;2;2020-01-02T03:04:05.678Z\n", "csv")
    store = st.GraphStore.create(tmp_path / "store", durability="none")
    edges = {("P", "KNOWS", "P"): {"data": knows, "delimiter": ";"}}
    assert store.load(vertices={"P": {"data": people, "key": "id"}}, edges=edges).vertices == 2
    found = store.snapshot().vertices("P").to_pylist()
    assert [(row["zip"], row["note"]) for row in found] == [("01234", None), ("99999", "x")]
    assert store.snapshot().schema["edges"][("P", "KNOWS", "P")] == {"since": "timestamp"}
    # An existing vertex type determines the columns.
    store.load(vertices={"P": write("id,zip,note\n3,7,8\n")})
    assert store.snapshot().vertices("P").to_pylist()[2]["zip"] == "7"


def test_a_store_looks_at_all_values(write: Write, tmp_path: Path) -> None:
    path = write("id,v\n" + "".join(f"{n},{n}\n" for n in range(200_000)) + "200000,abc\n")
    store = st.GraphStore.create(tmp_path / "store", durability="none")
    assert store.load(vertices={"P": {"data": str(path), "key": "id"}}).vertices == 200_001
    assert store.snapshot().schema["vertices"]["P"]["properties"]["v"] == "string"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "arrow"])
def test_a_graph_is_written_of_files(ending: str, tmp_path: Path) -> None:
    people = pa.table({"id": [7, 9], "zip": ["01234", None]})
    knows = pa.table({"src": [9, 9], "dst": [7, 9]})
    for name, data in (("people", people), ("knows", knows)):
        path = tmp_path / f"{name}.{ending}"
        if ending == "csv":
            path.write_text(pl.DataFrame(data).write_csv())
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in data.to_pylist()))
        else:
            feather.write_feather(data, path)
    written = st.write_graph(
        tmp_path / "graph",
        name="g",
        vertices={"person": {"data": tmp_path / f"people.{ending}", "key": "id"}},
        edges={("person", "knows", "person"): tmp_path / f"knows.{ending}"},
    )
    graph = st.open_graph(written.path)
    assert graph.vertices("person").to_arrow()["zip"].to_pylist() == ["01234", None]
    assert graph.edges("person", "knows", "person").neighbors([1])["neighbor"].to_pylist() == [0, 1]
