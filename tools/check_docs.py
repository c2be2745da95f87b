#!/usr/bin/env python3
"""Checks the links of the documentation, and the index of the book: a line for each fault.

What is checked: relative links and images lead to files that exist, anchors name a heading of their page, links of the
book stay in the book, docs/SUMMARY.md lists every page once and no others.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs"
SUMMARY = BOOK / "SUMMARY.md"
AT_THE_ROOT = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "GLOSSARY.md", "ARCHITECTURE.md", "CHANGELOG.md"]

# `[text](target "title")`, an image, `[name]: target`, and attributes of HTML.
INLINE = re.compile(r"\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\)[^()\s<>]*)?)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?([^\s<>]+)")
ATTRIBUTE = re.compile(r"\b(?:src|href)=\"([^\"]+)\"")
WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


def main() -> int:
    pages = [ROOT / name for name in AT_THE_ROOT if (ROOT / name).is_file()] + sorted(BOOK.rglob("*.md"))
    faults = [fault for page in pages for fault in links(page)] + list(summary())
    print(*faults, sep="\n", end="\n" if faults else "")
    return int(bool(faults))


# Links


def links(page: Path) -> Iterator[str]:
    """Each relative link of a page leads somewhere."""
    for number, line in prose(page):
        for target in targets(line):
            if reason := fault(page, target):
                yield f"{where(page)}:{number}: `{target}` {reason}"


def targets(line: str) -> Iterator[str]:
    """The targets of the links of a line, without those that have a scheme."""
    for pattern in (INLINE, DEFINITION, ATTRIBUTE):
        for found in pattern.finditer(line):
            if not WITH_SCHEME.match(found[1]):
                yield found[1]


def fault(page: Path, target: str) -> str | None:
    """Why a link leads nowhere; `None` if it does not."""
    path, _, anchor = target.partition("#")
    file = (page.parent / unquote(path)).resolve() if path else page
    if not file.exists():
        return "does not exist"
    if not file.is_relative_to(ROOT):
        return "is outside of the repository"
    if page.is_relative_to(BOOK) and not file.is_relative_to(BOOK):
        return "is not in the book: name the file in backticks"
    if anchor and file.suffix == ".md" and unquote(anchor) not in anchors(file):
        return f"names no heading of {where(file)}"
    return None


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page by their numbers, without code."""
    for number, line in unfenced(page):
        yield number, re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


def unfenced(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page by their numbers, without fenced blocks."""
    fence = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        marker = re.match(r"\s*(`{3,}|~{3,})", line)
        if marker and not fence:
            fence = marker[1]
        elif marker and marker[1].startswith(fence):
            fence = ""
        elif not fence:
            yield number, line


# Headings


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: of its headings by the rules of GitHub and mdBook, and those that HTML names."""
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for _, line in unfenced(page):
        if heading := re.match(r"#{1,6}\s+(.*?)\s*#*\s*$", line):
            name = slug(heading[1])
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return frozenset(found)


def slug(heading: str) -> str:
    """The anchor of a heading: its text in lower case, without punctuation, with hyphens for spaces."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = (letter for letter in text.lower() if letter.isalnum() or letter in "_- ")
    return "".join(kept).replace(" ", "-")


# The index


def summary() -> Iterator[str]:
    """The index lists every page once. Whether the pages that it lists exist is checked as for any link."""
    if not SUMMARY.is_file():
        yield f"{where(SUMMARY)}:1: the index of the book is missing"
        return

    listed: set[Path] = set()
    for number, line in prose(SUMMARY):
        for target in targets(line):
            page = (BOOK / target).resolve()
            if page in listed:
                yield f"{where(SUMMARY)}:{number}: `{target}` is listed twice"
            listed.add(page)

    for page in sorted(BOOK.rglob("*.md")):
        if page != SUMMARY and page not in listed:
            yield f"{where(page)}:1: not listed in {where(SUMMARY)}"


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
