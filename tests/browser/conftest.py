"""Fixtures: a browser, the sites whose pages it opens, and the buckets that they request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import PACKAGES, Chromium, Site

# Every site is on this machine, under a name of its own.
NAMES = "--host-resolver-rules=MAP *.example 127.0.0.1"


@pytest.fixture(scope="session")
def browser(scratch: Path) -> Iterator[Chromium]:
    server = Chromium(scratch / "browser", NAMES)
    yield server
    server.kill()


@pytest.fixture(scope="session")
def app(browser: Chromium) -> Iterator[Site]:
    """The site that rules allow. Its pages may import npm packages."""
    site = Site(browser, "app.example", PACKAGES)
    yield site
    site.stop()


@pytest.fixture(scope="session")
def stranger(browser: Chromium) -> Iterator[Site]:
    """A site that no rule allows."""
    site = Site(browser, "stranger.example")
    yield site
    site.stop()


@pytest.fixture(scope="session")
def neighbour(browser: Chromium) -> Iterator[Site]:
    """The host name of the allowed site, at another port."""
    site = Site(browser, "app.example")
    yield site
    site.stop()
