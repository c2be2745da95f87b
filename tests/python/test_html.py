"""HTML representations of scans, caches and graphs in notebooks: well-formed, with every name escaped."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

HOSTILE = "</td><script>alert('x')</script>&amp;\"\x1b"
VOID = {"br"}
ALLOWED = {"div", "p", "b", "br", "code", "span", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "title"}


class Page(HTMLParser):
    """The text of a page, whose elements must be known and properly nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def row(self, name: str) -> list[str]:
        """Returns the cells to the right of the one with this text."""
        return next(row[1:] for row in self.rows if row and row[0] == name)


def page(shown: Any) -> Page:
    html = shown._repr_html_()
    assert isinstance(html, str)
    html.encode()
    found = Page(html)
    loading = {"href", "src", "onload", "onclick", "action"}
    assert not loading & {name for name, _ in found.attributes}, "it loads and runs nothing"
    return found


def test_a_scan_shows_its_schema_and_what_footers_tell(trips: Path) -> None:
    shown = page(st.scan("trips.parquet"))
    assert shown.row("paths") == ["'trips.parquet'"]
    assert shown.row("files") == ["1"]
    assert shown.row("rows") == ["5"]
    assert shown.row("fare") == ["double"]

    filtered = page(st.scan("trips.parquet", columns=["fare"], filter=st.col("city") == "Oslo", limit=2))
    assert filtered.row("filter") == ["city = 'Oslo'"]
    assert filtered.row("limit") == ["2"]
    assert filtered.row("rows") == ["not known before it is read"]
    assert [row[0] for row in filtered.rows][-2:] == ["column", "fare"]


def test_a_scan_of_text_shows_its_schema(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name,age\nAl,20\n")
    shown = page(st.scan(tmp_path / "people.csv"))
    assert shown.row("age") == ["int64"]
    assert shown.row("rows") == ["not known before it is read"]


def test_names_of_files_and_columns_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a<b>&'c'.parquet"
    pq.write_table(pa.table({HOSTILE: [1], "x": [2]}), path)
    scan = st.scan(path, filter="x > 1 AND x <> 3", glob=False)
    shown = page(scan)
    assert "a<b>&" in shown.row("paths")[0]
    assert shown.row(HOSTILE.replace("\x1b", "\ufffd")) == ["int64"]
    assert shown.row("filter") == ["x > 1 AND x <> 3"]
    assert "\x1b" not in scan._repr_html_()


def test_credentials_are_not_shown() -> None:
    from stylobate import _html

    assert _html.shown(["grpc://user:secret@host:1"]) == "['grpc://host:1']"


def test_of_many_columns_the_first_ones_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{number}": [number] for number in range(150)}), path)
    shown = page(st.scan(path))
    assert shown.row("c99") == ["int64"]
    assert "and 50 more columns" in shown.text
    assert "c100" not in shown.text


def test_a_cache_shows_its_memory_by_use(path: Path, cache: st.Cache) -> None:
    st.scan(path, cache=cache).to_arrow()
    shown = page(cache)
    stats = cache.stats()
    assert "decoded columns: " in shown.text and "metadata of files: " in shown.text
    assert shown.row("columns found, missed") == [f"{stats['hits']:,}, {stats['misses']:,}"]
    widths = [float(value or 0) for name, value in shown.attributes if name == "width"]
    assert max(widths) == 480
    assert "of 64.0 MiB" in shown.text
    assert "disk" not in shown.text


def test_a_cache_shows_its_disk_if_it_has_one(tmp_path: Path) -> None:
    with st.Cache(memory="1MiB", disk=tmp_path / "disk", disk_capacity="64MiB") as cache:
        assert "disk: 0 B of 64.0 MiB" in page(cache).text


def test_a_cache_of_no_memory_and_a_closed_one_are_shown_too() -> None:
    cache = st.Cache(memory=0)
    assert "of 0 B" in page(cache).text
    cache.close()
    assert page(cache).row("state") == ["the cache is closed"]


def test_a_graph_shows_types_and_counts(trips: Path) -> None:
    graph = st.open_graph("social/social.graph.yml")
    shown = page(graph)
    assert shown.row("name") == ["social"]
    assert shown.row("person") == ["3", "id int64, name string, age int64"]
    count, properties, kept = shown.row("(person) -[knows]-> (person)")
    assert (count, properties) == ("3", "since int64")
    assert "ordered_by_source" in kept


def test_counts_of_a_graph_that_cannot_be_read_are_left_out(trips: Path) -> None:
    graph = st.open_graph("social/social.graph.yml")
    for path in Path("social").rglob("*count*"):
        path.unlink()
    shown = page(graph)
    assert shown.row("person")[0] == "–"
    assert shown.row("(person) -[knows]-> (person)")[0] == "–"


def test_a_version_of_a_store_shows_types_and_counts(trips: Path) -> None:
    store = st.GraphStore.open("network")
    for shown in (page(store.snapshot()), page(store)):
        assert shown.row("version") == ["2"]
        assert shown.row("operation") == ["write"]
        assert shown.row("vertices, edges") == ["3, 3"]
        assert shown.row("Person") == ["3", "id", "id int64, name string"]
        assert shown.row("(Person) -[KNOWS]-> (Person)") == ["3", "since int64"]
    assert "GraphStore('network')" in page(store).text


def test_sizes_are_in_the_units_of_caches() -> None:
    from stylobate import _html

    sizes = [0, 1023, 1024, 64 << 20, 3 << 40, 5000 << 40]
    expected = ["0 B", "1023 B", "1.0 KiB", "64.0 MiB", "3.0 TiB", "5000.0 TiB"]
    assert [_html.size(size) for size in sizes] == expected


def test_texts_that_no_page_may_have_are_replaced_and_long_ones_cut() -> None:
    from stylobate import _html

    assert _html.text("a\ud800\x00b") == "a\ufffd\ufffdb"
    assert _html.text("x" * 1000) == "x" * 399 + "…"


@pytest.mark.parametrize("missing", ["IPython", "pyarrow"])
def test_html_needs_no_other_package(trips: Path, missing: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
import stylobate as st
print(st.scan("trips.parquet")._repr_html_(), st.default_cache()._repr_html_())
print(st.open_graph("social")._repr_html_(), st.GraphStore.open("network")._repr_html_())
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    shown = Page(ran.stdout)
    assert shown.row("paths") == ["'trips.parquet'"]
    assert shown.row("fare") in (["double"], ["Float64"])
