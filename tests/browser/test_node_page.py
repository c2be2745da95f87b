"""The node's page in Chromium: every view without an error, by keyboard, in light and dark, on a phone, with a key."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chromium import Chromium
from devtools import Tab
from servers import AccessKey, Bucket, Node, wait_for

ADMIN = AccessKey("admin-id", "admin-secret-83d0", write=True)
VIEWER = AccessKey("viewer-id", "viewer-secret-19ab")
VIEWS = ["overview", "buckets", "memory", "objects", "reads", "cluster", "browse"]
ROWS = 3_000
# A name that must not affect the page.
HOSTILE = "<img src=x onerror=alert(1)>.parquet"


def settled(path: Path) -> Path:
    """Backdates a file: a recent one may change again, and is not cached."""
    os.utime(path, (time.time() - 3600,) * 2)
    return path


@pytest.fixture
def node(start: Callable[..., Node], tmp_path: Path) -> Node:
    return start([lake(tmp_path)], "--memory", "128MiB")


def lake(folder: Path) -> Bucket:
    tables = folder / "lake" / "tables"
    tables.mkdir(parents=True)
    table = pa.table({"n": range(ROWS), "text": [None if n % 3 else f"<b>{n}</b>" for n in range(ROWS)]})
    for name in ["t.parquet", HOSTILE]:
        pq.write_table(table, tables / name, row_group_size=1_000)
        settled(tables / name)
    (folder / "lake" / "plain.txt").write_text("plain")
    settled(folder / "lake" / "plain.txt")
    return Bucket("lake", str(folder / "lake"))


@dataclass
class Page:
    tab: Tab

    def text(self, id: str) -> str:
        return self.tab.evaluate(f"document.getElementById({id!r}).textContent")

    def go(self, place: str) -> None:
        """Opens a view by its URL, and waits for it."""
        view = place.split("/")[0]
        self.tab.evaluate(f"location.hash = '#{place}'")
        self.tab.wait(f"!document.getElementById({view!r}).hidden")

    def focused(self) -> str:
        """Returns the focused element: its id, or its name and text."""
        return self.tab.evaluate(
            "(e => e.id || `${e.tagName.toLowerCase()} ${(e.name || e.textContent).trim()}`)(document.activeElement)"
        )

    def tab_to(self, what: str, max_presses: int = 80) -> None:
        """Presses Tab until the element has the focus."""
        passed = []
        while (focused := self.focused()) != what:
            passed.append(focused)
            assert len(passed) < max_presses, passed
            self.tab.press("Tab")


@pytest.fixture
def open_page(browser: Chromium) -> Iterator[Callable[..., Page]]:
    tabs: list[Tab] = []

    def open(node: Node, key: AccessKey | None = None, **options: Any) -> Page:
        credentials = base64.b64encode(f"{key.id}:{key.secret}".encode()).decode() if key else ""
        headers = {"Authorization": f"Basic {credentials}"} if key else None
        tab = Tab(browser.tools, f"{node.admin}/", headers=headers, **options)
        tabs.append(tab)
        tab.wait("document.getElementById('uptime').textContent.startsWith('up ')")
        return Page(tab)

    yield open
    for tab in tabs:
        tab.close()


def read_something(node: Node) -> None:
    for _ in range(3):
        node.s3.get_object(Bucket="lake", Key="tables/t.parquet")["Body"].read()


def test_every_view_shows_its_figures_without_an_error(
    node: Node, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    read_something(node)
    page = open_page(node)
    page.tab.wait("document.querySelectorAll('#chart-bytes path').length === 5")
    page.tab.wait("/GetObject/.test(document.getElementById('operations').textContent)")
    for view in VIEWS:
        page.go(view)
        assert page.tab.evaluate("document.title").endswith("Stylobate")
        assert page.tab.evaluate("document.querySelectorAll('main > section:not([hidden])').length") == 1
    page.go("buckets")
    page.tab.wait("/answers/.test(document.getElementById('origin-rows').textContent)")
    page.go("objects")
    page.tab.wait("/t.parquet/.test(document.getElementById('hot-objects').textContent)")
    page.go("memory")
    page.tab.wait("/Pages/.test(document.getElementById('holders').textContent)")
    assert "in no cluster" in page.text("cluster-note")
    page.tab.picture(tmp_path / "memory.png")
    assert page.tab.errors == []


def test_the_page_fits_a_phone_in_light_and_dark(node: Node, open_page: Callable[..., Page]) -> None:
    read_something(node)
    page = open_page(node, width=390, height=844)
    background = "getComputedStyle(document.body).backgroundColor"
    colours = set()
    for scheme in ["light", "dark"]:
        page.tab.colours(scheme)
        colours.add(page.tab.evaluate(background))
        for view in [*VIEWS, "browse/lake/tables/t.parquet"]:
            page.go(view)
            assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390, view
    assert len(colours) == 2
    assert page.tab.errors == []


def test_all_can_be_done_by_keyboard(node: Node, open_page: Callable[..., Page]) -> None:
    read_something(node)
    page = open_page(node)
    page.tab.press("Tab")
    assert page.focused() == "skip"
    page.tab.press("Enter")
    assert page.focused() == "main"

    # A chart describes its values sample by sample.
    page.tab.wait("+document.querySelector('#chart-bytes svg').getAttribute('aria-valuemax') >= 2")
    page.tab.evaluate("document.querySelector('#chart-bytes svg').focus()")
    page.tab.press("Home")
    value = "document.querySelector('#chart-bytes svg').getAttribute('aria-valuenow')"
    assert page.tab.evaluate(value) == "0"
    page.tab.press("ArrowRight")
    assert page.tab.evaluate(value) == "1"

    page.tab.evaluate("document.getElementById('skip').focus()")
    page.tab_to("a Buckets")
    page.tab.press("Enter")
    page.tab.wait("document.activeElement.id === 'buckets-title'")
    page.tab_to("input prefix")
    page.tab.type("tables/")
    page.tab_to("button verb")
    page.tab.press("Enter")
    page.tab.wait("/2 objects loaded/.test(document.getElementById('upkeep-outcome').textContent)")
    page.tab.press("Tab")
    page.tab.press("Enter")
    page.tab.wait("/2 objects dropped/.test(document.getElementById('upkeep-outcome').textContent)")

    page.tab.evaluate("document.querySelector('body > nav a').focus()")
    page.tab_to("a Data")
    page.tab.press("Enter")
    page.tab.wait("document.activeElement.id === 'browse-title'")
    for step in ["a lake", "a tables/", "a t.parquet"]:
        page.tab.wait(f"[...document.querySelectorAll('#listed a')].some(a => 'a ' + a.textContent === {step!r})")
        page.tab_to(step)
        page.tab.press("Enter")
    page.tab.wait("document.querySelectorAll('#rows tbody tr').length === 50")
    assert page.tab.errors == []


def test_names_and_values_are_text_and_nothing_else(node: Node, open_page: Callable[..., Page]) -> None:
    page = open_page(node)
    page.go("browse/lake/tables/")
    page.tab.wait("document.querySelectorAll('#listed tr').length === 2")
    assert HOSTILE in page.text("listed")
    links = "[...document.querySelectorAll('#listed a')]"
    page.tab.evaluate(f"{links}.find(a => a.textContent === {HOSTILE!r}).click()")
    page.tab.wait("document.querySelectorAll('#rows tbody tr').length === 50")
    rows = "[...document.querySelectorAll('#rows tbody tr')].slice(0, 2)"
    cells = page.tab.evaluate(f"{rows}.map(row => [...row.cells].map(cell => cell.textContent))")
    assert cells == [["0", "<b>0</b>"], ["1", "null"]]
    assert page.tab.evaluate("document.querySelectorAll('main img, #rows b').length") == 0
    parts = page.tab.evaluate("[...document.querySelectorAll('#parts tr')].map(row => row.cells[1].textContent)")
    assert parts == ["1\u202f000"] * 3
    assert page.tab.errors == []

    page.go("browse/lake/plain.txt")
    page.tab.wait("/neither Parquet nor ORC/.test(document.getElementById('browse-outcome').textContent)")


def test_a_query_shows_its_rows_and_can_be_cancelled(
    node: Node, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page(node)
    outcome = "document.getElementById('query-outcome').textContent"
    text = "document.querySelector('#query textarea')"
    rows = "[...document.querySelectorAll('#result tbody tr')]"
    # The example uses the open file.
    page.go("browse")
    page.tab.wait(f"!document.getElementById('sql').hidden && {text}.value === 'SHOW TABLES'")
    page.go("browse/lake/")
    page.tab.wait(f"""{text}.value === "SELECT * FROM 'lake/tables/'" """)
    page.go("browse/lake/tables/t.parquet")
    page.tab.wait(f"""{text}.value === "SELECT * FROM 'lake/tables/t.parquet'" """)

    page.tab_to("textarea sql")
    page.tab.press("Enter", control=True)
    page.tab.wait(f"/^The first 50 rows in/.test({outcome})")
    assert page.tab.evaluate(f"{text}.value") == "SELECT * FROM 'lake/tables/t.parquet'"
    assert page.tab.evaluate(f"{rows}.length") == 50
    assert page.tab.evaluate("document.querySelectorAll('#result b').length") == 0

    def write(query: str) -> None:
        page.tab.evaluate(f"{text}.focus(); {text}.select()")
        page.tab.type(query)

    table = "'lake/tables/t.parquet'"
    write(f"SELECT a.n, b.text FROM {table} a JOIN {table} b ON a.n = b.n WHERE a.n < 2 ORDER BY a.n")
    page.tab_to("button Run")
    page.tab.press("Enter")
    page.tab.wait(f"/^2 rows in/.test({outcome})")
    shown = page.tab.evaluate(f"{rows}.map(row => [...row.cells].map(cell => cell.textContent))")
    assert shown == [["0", "<b>0</b>"], ["1", "null"]]
    page.tab.picture(tmp_path / "sql.png")
    # The query text is kept.
    page.go("browse/lake/")
    page.tab.wait("document.querySelectorAll('#listed tr').length === 2")
    assert page.tab.evaluate(f"{text}.value").startswith("SELECT a.n")
    assert page.tab.errors == []

    # Returns its first row at its end, which is hours away: each row of a join matches half of the other table.
    pairs = f"SELECT c.n FROM {table} c JOIN {table} d ON c.n % 2 = d.n % 2"
    more = f"SELECT b.n FROM {table} b JOIN ({pairs}) e ON b.n % 2 = e.n % 2"
    write(f"SELECT count(*) FROM {table} a JOIN ({more}) f ON a.n % 2 = f.n % 2")
    page.tab.press("Enter", control=True)
    page.tab.wait("!document.getElementById('query-cancel').disabled")
    wait_for("the query to run", lambda: node.ask("GET", "/api/reads").json()["reads"])
    page.tab_to("query-cancel")
    page.tab.press("Enter")
    page.tab.wait(f"{outcome} === 'Cancelled'")
    assert page.focused() == "textarea sql"
    wait_for("the query to end", lambda: node.ask("GET", "/api/reads").json()["reads"] == [])

    write("SELECT nothing FROM 'lake/tables/t.parquet'")
    page.tab.press("Enter", control=True)
    page.tab.wait(f"/nothing/.test({outcome}) && document.querySelector('#query-outcome.bad') !== null")
    assert page.tab.evaluate("document.getElementById('result-box').hidden")
    # The browser's own message about status 400.
    assert [error for error in page.tab.errors if "Failed to load resource" not in error] == []


def test_a_key_signs_in_and_does_what_it_may(
    start: Callable[..., Node], tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    node = start([lake(tmp_path)], "--memory", "128MiB", keys=[ADMIN, VIEWER])
    answer = node.ask("GET", "/")
    assert (answer.status, answer.headers["www-authenticate"].split()[0]) == (401, "Basic")

    page = open_page(node, VIEWER)
    page.tab.wait("document.getElementById('who').textContent === 'signed in as viewer-id'")
    page.go("buckets")
    page.tab.wait("[...document.querySelectorAll('#upkeep button')].every(button => button.disabled)")
    assert "writes to no bucket" in page.text("upkeep-outcome")
    page.go("browse/lake/tables/t.parquet")
    page.tab.wait("document.querySelectorAll('#rows tbody tr').length === 50")
    assert page.tab.errors == []

    page = open_page(node, ADMIN)
    page.go("buckets")
    page.tab.wait("[...document.querySelectorAll('#upkeep button')].every(button => !button.disabled)")
    assert page.tab.errors == []


def test_a_node_that_went_away_is_told_and_found_again(
    start: Callable[..., Node], tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    bucket = lake(tmp_path)
    node = start([bucket], "--memory", "128MiB")
    page = open_page(node)
    admin = node.admin.removeprefix("http://")
    assert node.stop() == 0
    page.tab.wait("document.getElementById('state').className === 'lost'")
    again = start([bucket], "--memory", "128MiB", doors=("127.0.0.1:0", admin))
    assert again.admin == node.admin
    page.tab.wait("document.getElementById('state').className === ''")
