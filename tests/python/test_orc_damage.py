"""ORC files whose row indexes and bloom filters were truncated or changed, as filtered scans read them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest
import stylobate as st

from conftest import settle

ROWS = 3_000
FLIPS = 150
FILTERS = ["n = 700", "t = 'text 41'", "n between 100 and 250 and t like 'text%'", "s.f > 2.5 or d is null", "w >= timestamp '2020-01-02'"]
# Filter columns may be left out, and other columns are not read: only damage in data that is read can be found.
TOLD = (st.CorruptFileError, st.UnsupportedError)


def rows() -> pa.Table:
    numbers = list(range(ROWS))
    return pa.table({
        "n": pa.array(numbers),
        "t": pa.array([f"text {n % 97}" for n in numbers]),
        "u": pa.array([f"{n:040}" for n in numbers]),
        "s": pa.array([{"f": n % 7 / 2, "l": [n] * (n % 3)} for n in numbers]),
        "d": pa.array([None if n % 11 == 0 else n * 10 for n in numbers], pa.decimal128(30, 2)),
        "w": pa.array([n * 1_000_000_000 + 1_577_836_800_000_000 for n in numbers], pa.timestamp("us")),
    })


@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_damage_is_an_error_or_changes_values_only(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    st.write_orc(
        rows(), path, compression=codec, row_index_stride=100, stripe_size=40_000, compression_block_size=512,
        bloom_filter_columns=["n", "t", "d", "s.f"],
    )
    whole = path.read_bytes()
    rng = random.Random(codec)
    for at in range(FLIPS):
        damaged = bytearray(whole)
        if at % 10 == 0:
            del damaged[rng.randrange(len(damaged)):]
        else:
            bit = rng.randrange(len(damaged) * 8)
            damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        settle(path)
        filter_ = rng.choice([*FILTERS, None])
        with st.Cache(memory=rng.choice([0, "16MiB"])) as cache:
            try:
                found = st.scan(path, filter=filter_, cache=cache, columns=rng.choice([None, ["n", "s"]])).to_arrow()
            except TOLD as error:
                assert str(path)[1:] in str(error)
                continue
            assert found.num_rows == ROWS if filter_ is None else found.num_rows <= ROWS


def test_a_stripe_that_is_damaged_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    st.write_orc(rows(), path, compression="zlib", row_index_stride=100, stripe_size=20_000)
    file = pa.orc.ORCFile(path)
    assert file.nstripes > 2
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    path.write_bytes(whole)
    settle(path)
    assert st.scan(path, filter="n < 20").to_arrow()["n"].to_pylist() == list(range(20))
    with pytest.raises(st.CorruptFileError, match="row group"):
        st.scan(path).to_arrow()
