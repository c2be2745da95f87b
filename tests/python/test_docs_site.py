"""The examples of README.md and of the pages below docs/ run, page by page.

Blocks fenced as ```python run in order, in one namespace for each page and in a folder with the files of
`stylobate demo --keep ./tpch`. Those fenced as ```python,no_run or ```py need a bucket or a running server: they are
compiled only.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import stylobate as st

from conftest import settle

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(python,no_run|python|py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A block of Python in a page."""

    page: Path
    line: int
    """The line of its fence, from 1."""
    runs: bool
    source: str

    def compiled(self) -> CodeType:
        """Returns the code, with the line numbers of the page."""
        return compile("\n" * self.line + self.source, str(self.page), "exec")


def examples(page: Path) -> Iterator[Example]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Example(page, line, found[1] == "python", found[2])


def pages_with_examples() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if any(examples(page))]


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables that the examples read, generated once."""
    folder = tmp_path_factory.mktemp("docs") / "tpch"
    st.generate_tpch(0.01, folder, tables=["lineitem", "orders"], durability="none")
    settle(*folder.glob("*.parquet"))
    return folder


@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(
    page: Path, tpch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tpch, tmp_path / "tpch")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples(page):
        code = example.compiled()
        if example.runs:
            exec(code, namespace)


def test_every_block_of_python_is_found() -> None:
    """A fence with another info string, or an indented one, would silently not run."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        fences = re.findall(r"^[ \t]*```+ *py\S*.*$", page.read_text(), re.MULTILINE)
        assert len(fences) == len(list(examples(page))), f"{page.relative_to(ROOT)}: {fences}"


def test_most_pages_for_a_start_have_examples() -> None:
    running = {page for page in pages_with_examples() for example in examples(page) if example.runs}
    assert {ROOT / "README.md", *(ROOT / "docs" / "start").glob("*.md")} <= running
