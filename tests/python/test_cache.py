"""Caches: their counters, sharing, and lifetime."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest
import stylobate as st

from conftest import settle


def test_a_second_scan_misses_nothing(path: Path, cache: st.Cache) -> None:
    scan = st.scan(path, cache=cache)
    scan.to_arrow()
    first = cache.stats()
    assert first["misses"] > 0
    assert first["parsed_files"] == 1
    scan.to_arrow()
    st.scan(path, cache=cache, filter="quantity < 10").to_arrow()
    second = cache.stats()
    assert second["misses"] == first["misses"]
    assert second["decoded_chunks"] == first["decoded_chunks"]
    assert second["hits"] > first["hits"]
    assert 0 < second["bytes"] <= second["capacity"]


def test_what_is_cleared_is_read_again(path: Path, cache: st.Cache) -> None:
    st.scan(path, cache=cache).to_arrow()
    cache.clear()
    stats = cache.stats()
    assert stats["entries"] == stats["bytes"] == 0
    st.scan(path, cache=cache).to_arrow()
    assert cache.stats()["parsed_files"] == 2


def test_a_cache_of_no_memory_answers_all_the_same(path: Path) -> None:
    with st.Cache(memory=0) as cache:
        assert st.scan(path, cache=cache).count() == 30_000


def test_scans_without_a_cache_share_the_default_one(path: Path, tmp_path: Path) -> None:
    before = st.default_cache()
    try:
        with st.Cache("32MiB") as mine:
            st.set_default_cache(mine)
            assert st.default_cache() is mine
            st.scan(path).to_arrow()
            assert mine.stats()["misses"] > 0
        made = st.default_cache()
        assert made is not mine, "a cache that was closed is nobody's default"
        assert made is st.default_cache()
        st.set_default_cache(None)
        assert st.default_cache() is not made
    finally:
        st.set_default_cache(before)


def test_the_default_cache_has_a_quarter_of_the_memory() -> None:
    code = "import stylobate as st; cache = st.default_cache(); print(cache.stats()['capacity'], cache)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert int(ran.stdout.split()[0]) > 100 << 20
    assert "Cache(memory=" in ran.stdout


def test_a_closed_cache_is_refused(path: Path) -> None:
    cache = st.Cache(memory="1MiB")
    scan = st.scan(path, cache=cache)
    cache.close()
    cache.close()
    assert "closed" in repr(cache)
    for use in (cache.stats, cache.clear, scan.count, lambda: st.scan(path, cache=cache)):
        with pytest.raises(st.ConfigError, match="closed"):
            use()


DISK = """
import sys, stylobate as st
cache = st.Cache(memory="512MiB", disk=sys.argv[1], disk_capacity="256MiB")
files = st.StylobateFileSystem(sys.argv[2], cache=cache)
assert len(files.cat_file("pages.bin")) == 5_000_000
print(cache.stats()["pages"]["disk_hits"])
"""


def test_pages_on_disk_outlive_a_process_that_closes_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "pages.bin").write_bytes(bytes(range(250)) * 20_000)
    settle(data / "pages.bin")
    command = [sys.executable, "-c", DISK, str(tmp_path / "disk"), str(data)]
    hits = [
        int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout) for _ in range(2)
    ]
    assert hits == [0, 5]


def test_a_disk_belongs_to_one_cache_until_that_is_gone(tmp_path: Path) -> None:
    first = st.Cache(memory="64MiB", disk=tmp_path, disk_capacity="64MiB")
    assert str(tmp_path) in repr(first)
    with pytest.raises(st.ConfigError, match="in use"):
        st.Cache(memory="64MiB", disk=tmp_path, disk_capacity="64MiB")
    first.close()
    second = st.Cache(memory="64MiB", disk=tmp_path, disk_capacity="64MiB")
    del second
    gc.collect()
