"""Collects the results of each client at each origin, and writes the table of the docs from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from table import RESULTS, Outcome, table

TABLE = os.environ.get("STYLOBATE_CLIENT_TABLE")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    about = dict(report.user_properties)
    if "operation" not in about:
        return
    place = (str(about["client"]), str(about["origin"]), str(about["operation"]))
    reason = getattr(report, "wasxfail", None)
    if report.outcome == "failed":
        RESULTS[place] = Outcome(False, "fails")
    elif report.outcome == "skipped":
        RESULTS[place] = Outcome(False, reason.removeprefix("reason: ") if reason else "not run")
    elif report.when == "call":
        RESULTS[place] = Outcome(True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if TABLE and RESULTS:
        Path(session.config.invocation_params.dir, TABLE).write_text(table())
