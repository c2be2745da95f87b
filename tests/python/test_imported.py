"""Tables that are slices of larger arrays, at any depth, passed through the C interface."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
import stylobate as st

WRITERS = [st.write_orc, st.write_parquet]


def part(rng: random.Random, rows: int, make: Callable[[int], pa.Array]) -> pa.Array:
    """Returns `rows` rows, sliced from the middle of a larger array."""
    before, after = rng.randrange(9), rng.randrange(9)
    return make(before + rows + after).slice(before, rows)


def validity(rng: random.Random, rows: int) -> pa.Array | None:
    return pa.array([rng.random() < 0.2 for _ in range(rows)]) if rng.random() < 0.5 else None


def offsets(rng: random.Random, rows: int) -> list[int]:
    ends = [rng.randrange(3)]
    for _ in range(rows):
        ends.append(ends[-1] + rng.randrange(4))
    return ends


def array(rng: random.Random, depth: int, rows: int) -> pa.Array:
    """Returns an array of `rows` rows whose children have arbitrary offsets."""

    def make(rows: int) -> pa.Array:
        kind = rng.choice(["struct", "fixed", "list", "map", "dictionary"]) if depth else rng.choice(["text", "whole"])
        match kind:
            case "text":
                return pa.array([rng.choice([None, "", "a", "tea for two"]) for _ in range(rows)], pa.string())
            case "whole":
                return pa.array([rng.choice([None, 0, 1, -(2**40)]) for _ in range(rows)], pa.int64())
            case "dictionary":
                codes = pa.array([rng.choice([None, 0, 1]) for _ in range(rows)], pa.int8())
                return pa.DictionaryArray.from_arrays(codes, part(rng, 2, lambda n: pa.array([f"v{i}" for i in range(n)])))
            case "struct":
                fields = [array(rng, depth - 1, rows) for _ in range(rng.randrange(1, 3))]
                return pa.StructArray.from_arrays(fields, [f"f{i}" for i in range(len(fields))], mask=validity(rng, rows))
            case "fixed":
                size = rng.randrange(1, 4)
                values = array(rng, depth - 1, rows * size)
                return pa.FixedSizeListArray.from_arrays(values, size, mask=validity(rng, rows))
            case "list":
                ends = offsets(rng, rows)
                return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), array(rng, depth - 1, ends[-1] + 2))
            case _:
                ends = offsets(rng, rows)
                keys = pa.array([f"k{i}" for i in range(ends[-1])])
                return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, array(rng, depth - 1, ends[-1]))

    return part(rng, rows, make)


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_nested_arrays_are_written_as_they_are(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    columns = {f"c{at}": array(rng, rng.randrange(1, 5), 40) for at in range(3)}
    table = pa.table(columns).slice(rng.randrange(5), 30)
    st.write_orc(table, tmp_path / "a.orc")
    assert pa.orc.read_table(tmp_path / "a.orc").to_pylist() == table.to_pylist()
    st.write_parquet(table, tmp_path / "a.parquet")
    assert st.scan(tmp_path / "a.parquet").to_arrow().to_pylist() == table.to_pylist()
    batch = table.combine_chunks().to_batches()[0].slice(3, 11)
    st.write_orc(batch, tmp_path / "b.orc")
    assert pa.orc.read_table(tmp_path / "b.orc").to_pylist() == batch.to_pylist()


class Streamed:
    """An object with a stream of arrays of any kind."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        self.values = values

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.values.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_what_is_no_table_is_an_error_that_says_so(write: Callable[..., Any], tmp_path: Path) -> None:
    rows = pa.array([{"x": 1}, None, {"x": 2}])
    for data in (pa.array([1, 2]), Streamed(pa.chunked_array([[1, 2]]))):
        with pytest.raises(TypeError, match="not a table"):
            write(data, tmp_path / "a")
    with pytest.raises(TypeError, match="rows are null"):
        write(rows, tmp_path / "a")
    with pytest.raises(st.StylobateError, match="rows are null"):
        write(Streamed(pa.chunked_array([rows])), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    assert write(rows.slice(2), tmp_path / "a").rows == 1
    assert write(Streamed(pa.chunked_array([rows.slice(0, 1), rows.slice(2)])), tmp_path / "b").rows == 2


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_stream_can_be_read_once(write: Callable[..., Any], tmp_path: Path) -> None:
    capsule = pa.table({"x": [1]}).__arrow_c_stream__()

    class Once:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return capsule

    assert write(Once(), tmp_path / "a").rows == 1
    with pytest.raises(TypeError, match="read before"):
        write(Once(), tmp_path / "b")


class Held:
    """A table that exposes only its stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def test_the_order_of_dictionaries_is_kept_at_any_depth(tmp_path: Path) -> None:
    ordered = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["b", "a"]), ordered=True)
    nested = pa.StructArray.from_arrays([values], fields=[pa.field("d", ordered)])
    table = pa.table({"d": values, "s": nested})
    for source in (table, Held(table), table.to_batches()[0]):
        st.write_parquet(source, tmp_path / "a.parquet")
        schema = pa.parquet.read_schema(tmp_path / "a.parquet")
        assert schema.field("d").type.ordered
