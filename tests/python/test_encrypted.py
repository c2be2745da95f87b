"""Encrypted Parquet files written by pyarrow: read with their keys; without keys or with wrong ones, a clear error."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

from conftest import settle

pe = pytest.importorskip("pyarrow.parquet.encryption")

FOOTER_KEY = b"0123456789abcdef"
OTHER_KEY = b"fedcba9876543210"
ALGORITHMS = ["AES_GCM_V1", "AES_GCM_CTR_V1"]


class Vault(pe.KmsClient):  # type: ignore[misc, name-defined]
    """Wraps keys by leaving them as they are, labelled with the name of the master key."""

    keys: dict[str, bytes] = {}

    def __init__(self, _config: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        Vault.keys[master_key_identifier] = key_bytes
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def table(rows: int = 20_000) -> pa.Table:
    """Returns columns of several types, with nulls; `text` repeats and `many` does not."""
    numbers = [None if row % 11 == 3 else row for row in range(rows)]
    return pa.table({
        "number": pa.array(numbers, pa.int64()),
        "text": [None if row % 7 == 2 else f"text {row % 40}" for row in range(rows)],
        "many": [f"value {row * 7919 % 100_003}" for row in range(rows)],
        "record": [{"a": row, "b": [row, None]} if row % 5 else None for row in range(rows)],
        "plain": [row * 0.5 for row in range(rows)],
    })


def write_uniform(path: Path, rows: pa.Table, key: bytes = FOOTER_KEY, **options: Any) -> None:
    properties = pe.create_encryption_properties(key, **options)
    pq.write_table(rows, path, encryption_properties=properties, row_group_size=7_000, write_page_index=True)
    settle(path)


def write_by_column(path: Path, rows: pa.Table, *, plaintext_footer: bool = False, **options: Any) -> dict[str, Any]:
    """Encrypts columns with keys of their own, except for `plain`; returns the decryption options of the file."""
    columns = {"k1": ["number"], "k2": ["text"], "k3": ["many"], "k4": ["record.a"], "k5": ["record.b.list.element"]}
    given = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys=columns,
        plaintext_footer=plaintext_footer,
        double_wrapping=False,
        data_key_length_bits=options.get("bits", 128),
        encryption_algorithm=options.get("algorithm", "AES_GCM_V1"),
    )
    Vault.keys.clear()
    properties = pe.CryptoFactory(Vault).file_encryption_properties(pe.KmsConnectionConfig(), given)
    with pq.ParquetWriter(path, rows.schema, encryption_properties=properties, write_page_index=True) as writer:
        writer.write_table(rows, row_group_size=7_000)
    settle(path)
    keys = {name: Vault.keys[key] for key, names in columns.items() for name in names}
    return {"footer_key": Vault.keys["footer"], "column_keys": keys}


def assert_reads(path: Path, rows: pa.Table, decryption: dict[str, Any]) -> None:
    """Checks whole reads, single columns, filters, limits, dictionaries and single pages."""
    with st.Cache(memory="64MiB") as cache:

        def read(**given: Any) -> pa.Table:
            return st.scan(path, decryption=decryption, cache=given.pop("cache", cache), **given).to_arrow()

        for _ in range(2):
            assert read(dictionary=False).to_pylist() == rows.to_pylist()
        for name in rows.column_names:
            assert read(columns=[name], dictionary=False)[name].to_pylist() == rows[name].to_pylist()
        assert read(dictionary=True).to_pylist() == rows.to_pylist()
        assert read().to_pylist() == rows.to_pylist()
        assert read(columns=["record.a"])["record"].to_pylist() == [
            value and {"a": value["a"]} for value in rows["record"].to_pylist()
        ]
        assert read(filter="number >= 13000 AND number < 13010", columns=["many"])["many"].to_pylist() == [
            rows["many"][row].as_py() for row in range(13_000, 13_010) if rows["number"][row].as_py() is not None
        ]
        assert read(filter="many = 'value 7919'", columns=["plain"])["plain"].to_pylist() == [0.5]
        assert read(limit=10)["plain"].to_pylist() == rows["plain"].to_pylist()[:10]
        assert st.scan(path, decryption=decryption, cache=cache).count() == rows.num_rows

    with st.Cache(memory="0B") as none:
        found = st.scan(path, decryption=decryption, dictionary=False, cache=none).to_arrow()
        assert found.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("key", [FOOTER_KEY, FOOTER_KEY + OTHER_KEY], ids=["128", "256"])
def test_files_with_one_key_are_read(
    algorithm: str, plaintext_footer: bool, key: bytes, tmp_path: Path
) -> None:
    path, rows = tmp_path / "a.parquet", table()
    write_uniform(path, rows, key, plaintext_footer=plaintext_footer, encryption_algorithm=algorithm)
    assert_reads(path, rows, {"footer_key": key})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("bits", [128, 256])
def test_files_with_a_key_for_each_column_are_read(
    algorithm: str, plaintext_footer: bool, bits: int, tmp_path: Path
) -> None:
    path, rows = tmp_path / "a.parquet", table()
    decryption = write_by_column(
        path, rows, plaintext_footer=plaintext_footer, bits=bits, algorithm=algorithm
    )
    assert_reads(path, rows, decryption)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("checksums", [False, True])
def test_pages_of_every_form_are_decrypted(
    algorithm: str, version: str, compression: str, checksums: bool, tmp_path: Path
) -> None:
    """Chunks of many pages: the authenticated data of each page contains its number."""
    path, rows = tmp_path / "a.parquet", table(3_000)
    pq.write_table(
        rows,
        path,
        encryption_properties=pe.create_encryption_properties(FOOTER_KEY, encryption_algorithm=algorithm),
        compression=compression,
        data_page_version=version,
        data_page_size=1_000,
        write_batch_size=100,
        use_dictionary=["text"],
        write_page_checksum=checksums,
    )
    settle(path)
    for memory in ("64MiB", "0B"):
        with st.Cache(memory=memory) as cache:
            found = st.scan(path, decryption={"footer_key": FOOTER_KEY}, dictionary=False, cache=cache)
            assert found.to_arrow().to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("stored", [False, True])
def test_a_prefix_that_is_not_in_the_file_is_given(algorithm: str, stored: bool, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", table(100)
    options = {"store_aad_prefix": stored, "encryption_algorithm": algorithm}
    write_uniform(path, rows, aad_prefix=b"table 7", **options)
    keys = {"footer_key": FOOTER_KEY, "aad_prefix": b"table 7"}
    assert st.scan(path, decryption=keys).to_arrow().to_pylist() == rows.to_pylist()
    without = st.scan(path, decryption={"footer_key": FOOTER_KEY}) if stored else None
    if without is not None:
        assert without.to_arrow().num_rows == 100
    else:
        with pytest.raises(st.ConfigError, match=r"a\.parquet: cannot be decrypted with the keys given: .*AAD"):
            st.scan(path, decryption={"footer_key": FOOTER_KEY, "aad_prefix": None})
    with pytest.raises(st.ConfigError, match="cannot be decrypted"):
        st.scan(path, decryption={"footer_key": FOOTER_KEY, "aad_prefix": b"table 8"})


def test_without_keys_the_error_says_what_to_give(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_uniform(path, table(100))
    with pytest.raises(st.UnsupportedError, match=r"a\.parquet: the file is encrypted: give decryption="):
        st.scan(path)
    with pytest.raises(st.UnsupportedError, match="the file is encrypted: give decryption="):
        st.inspect(path)


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_columns_of_a_plaintext_footer_are_read_without_keys_if_they_can(memory: str, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", table()
    write_by_column(path, rows, plaintext_footer=True)
    with st.Cache(memory=memory) as cache:
        assert st.scan(path, cache=cache).count() == rows.num_rows
        found = st.scan(path, columns=["plain"], filter="plain >= 5", cache=cache).to_arrow()
        assert found["plain"].to_pylist() == rows["plain"].to_pylist()[10:]
        for wanted in ({"columns": ["number"]}, {"columns": ["plain"], "filter": "many = 'value 7919'"}, {}):
            with pytest.raises(st.UnsupportedError, match="the file is encrypted: give decryption="):
                st.scan(path, cache=cache, **wanted).to_arrow()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_a_column_without_its_key_leaves_the_others(
    algorithm: str, plaintext_footer: bool, memory: str, tmp_path: Path
) -> None:
    path, rows = tmp_path / "a.parquet", table()
    decryption = write_by_column(path, rows, plaintext_footer=plaintext_footer, algorithm=algorithm)
    del decryption["column_keys"]["many"]
    others = [name for name in rows.column_names if name != "many"]
    with st.Cache(memory=memory) as cache:
        found = st.scan(path, columns=others, decryption=decryption, dictionary=False, cache=cache).to_arrow()
        assert found.to_pylist() == rows.select(others).to_pylist()
        with pytest.raises(st.ConfigError, match="cannot be decrypted with the keys given: .*many"):
            st.scan(path, columns=["many"], decryption=decryption, cache=cache).to_arrow()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_wrong_keys_are_told_from_corrupt_files(
    algorithm: str, plaintext_footer: bool, tmp_path: Path
) -> None:
    path, rows = tmp_path / "a.parquet", table(100)
    decryption = write_by_column(path, rows, plaintext_footer=plaintext_footer, algorithm=algorithm)
    with pytest.raises(st.ConfigError, match=r"a\.parquet: cannot be decrypted with the keys given: "):
        st.scan(path, decryption=decryption | {"footer_key": OTHER_KEY}).to_arrow()
    keys = decryption["column_keys"] | {"text": OTHER_KEY}
    with pytest.raises(st.ConfigError, match="cannot be decrypted with the keys given: .*text"):
        st.scan(path, decryption=decryption | {"column_keys": keys}).to_arrow()


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_a_page_that_was_changed_is_not_read(memory: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_uniform(path, table(1_000))
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    settle(path)
    with st.Cache(memory=memory) as cache, pytest.raises(st.ConfigError, match="cannot be decrypted"):
        st.scan(path, decryption={"footer_key": FOOTER_KEY}, cache=cache).to_arrow()


def data_end(path: Path) -> int:
    """Returns the offset of the footer."""
    data = path.read_bytes()
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("memory", ["64MiB", "0B"])
def test_pages_of_another_file_are_not_read(algorithm: str, memory: str, tmp_path: Path) -> None:
    """The headers of pages are authenticated, even if the pages are not: they belong to one file, and one key."""
    one, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for path in (one, other):
        write_uniform(path, table(1_000), encryption_algorithm=algorithm)
    end = data_end(one)
    assert end == data_end(other)
    one.write_bytes(other.read_bytes()[:end] + one.read_bytes()[end:])
    settle(one)
    with st.Cache(memory=memory) as cache, pytest.raises(st.ConfigError, match="cannot be decrypted"):
        st.scan(one, decryption={"footer_key": FOOTER_KEY}, cache=cache).to_arrow()


@pytest.mark.parametrize("memory", ["64MiB", "0B"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_changed_pages_without_authentication_are_errors_or_values(
    memory: str, compression: str, tmp_path: Path
) -> None:
    """For AES_GCM_CTR_V1; with checksums, each change is detected."""
    path, rows = tmp_path / "a.parquet", table(300)
    properties = pe.create_encryption_properties(FOOTER_KEY, encryption_algorithm="AES_GCM_CTR_V1")
    for checksums in (False, True):
        pq.write_table(
            rows,
            path,
            encryption_properties=properties,
            compression=compression,
            use_dictionary=["text"],
            write_page_checksum=checksums,
        )
        good, end = path.read_bytes(), data_end(path)
        for place in range(4, end, 97):
            path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
            settle(path)
            with st.Cache(memory=memory) as cache:
                try:
                    found = st.scan(path, decryption={"footer_key": FOOTER_KEY}, cache=cache).to_arrow()
                except st.ConfigError as error:
                    assert "cannot be decrypted" in str(error)
                else:
                    assert not checksums
                    assert found.num_rows == rows.num_rows


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_what_was_decrypted_is_not_shared(plaintext_footer: bool, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", table()
    decryption = write_by_column(path, rows, plaintext_footer=plaintext_footer)
    with st.Cache(memory="64MiB") as cache:
        before = cache.stats()
        for _ in range(3):
            found = st.scan(path, decryption=decryption, filter="number > 5", cache=cache).to_arrow()
            assert found.num_rows == sum(value is not None and value > 5 for value in rows["number"].to_pylist())
        assert entries(cache.stats()) == entries(before)
        with pytest.raises(st.UnsupportedError, match="encrypted"):
            st.scan(path, columns=["number"], cache=cache).to_arrow()
        with pytest.raises(st.ConfigError, match="cannot be decrypted"):
            st.scan(path, decryption={"footer_key": OTHER_KEY}, cache=cache).to_arrow()


def entries(stats: Any) -> int:
    """Returns the number of decoded chunks, footers and indexes in memory."""
    return int(stats["entries"])


def test_files_that_are_not_encrypted_are_read_as_they_are(tmp_path: Path) -> None:
    rows = table(100)
    pq.write_table(rows, tmp_path / "a.parquet")
    write_uniform(tmp_path / "b.parquet", rows)
    found = st.scan(tmp_path, decryption={"footer_key": FOOTER_KEY}, dictionary=False).to_arrow()
    assert found.to_pylist() == rows.to_pylist() * 2


def test_keys_that_are_none_are_errors_and_no_key_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_uniform(path, table(100))
    keys = {"footer_key": FOOTER_KEY}
    assert "0123456789abcdef" not in repr(st.scan(path, decryption=keys))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "give footer_key"),
        ({"footer_key": b"short"}, "the key footer_key has 5 bytes: give 16 or 32"),
        (keys | {"column_keys": {"a": b"x"}}, "the key a has 1 bytes: give 16 or 32"),
        (keys | {"footer": b""}, 'there is no "footer"'),
    ]
    for given, message in wrong:
        with pytest.raises(st.ConfigError, match=f"decryption: {message}"):
            st.scan(path, decryption=given)
    with pytest.raises(TypeError):
        st.scan(path, decryption={"footer_key": "0123456789abcdef"})
    with pytest.raises(TypeError, match="decryption: keys are not sent to a node"):
        st.scan("bucket", decryption=keys, node="grpc://localhost:1")
