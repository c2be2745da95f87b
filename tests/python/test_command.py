"""The command `stylobate` as the wheel installs it: it behaves like a binary where Python would behave differently."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stylobate as st

COMMAND = Path(sys.executable).parent / "stylobate"
DOORS = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--flight", "off", "--memory", "64MiB"]
TIMEOUT = 30


def environment(**more: str) -> dict[str, str]:
    """Returns the environment without settings of a node, and without the `COLUMNS` that readline adds for child
    processes."""
    return {name: text for name, text in os.environ.items() if not name.startswith("STYLOBATE_")} | more


def run(*arguments: str | bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [COMMAND, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, timeout=120, check=False, **options)  # type: ignore[call-overload, no-any-return]


def listens(folder: Path, *flags: str) -> tuple[subprocess.Popen[str], str]:
    """Starts a node; returns it once its doors are open, with the address of its admin door."""
    command = [COMMAND, "serve", "--origin", f"lake={folder}", *DOORS, *flags]
    node = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert node.stdout is not None
    shown = []
    for line in node.stdout:
        shown.append(line)
        if line.startswith("export "):
            break
    found = re.search(r"^admin +(\S+?)/?$", "".join(shown), re.MULTILINE)
    if not found:
        node.kill()
        raise AssertionError("".join(shown) + node.communicate(timeout=TIMEOUT)[1])
    return node, found[1]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "lake"
    folder.mkdir()
    pq.write_table(pa.table({"n": range(100_000)}), folder / "n.parquet")
    yield folder


def test_it_tells_its_version_and_its_verbs() -> None:
    version = run("--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"stylobate {st.__version__}\n".encode(), b"")
    helped = run("--help")
    assert helped.returncode == 0
    for verb in (b"serve", b"scan", b"sql", b"demo"):
        assert b"\n  " + verb + b" " in helped.stdout
    assert b"Usage: stylobate <COMMAND>" in helped.stdout
    as_module = subprocess.run(
        [sys.executable, "-m", "stylobate", "--help"], env=environment(), capture_output=True, check=True
    )
    assert as_module.stdout == helped.stdout


def test_its_output_is_whole_and_its_input_is_read(lake: Path) -> None:
    counted = run("scan", str(lake), "--count")
    assert (counted.returncode, counted.stdout, counted.stderr) == (0, b"100000\n", b"")
    rows = run("scan", str(lake), "--format", "csv")
    assert rows.stdout == b"n\n" + b"".join(b"%d\n" % n for n in range(100_000))
    summed = run("sql", input=f"SELECT sum(n) AS s FROM '{lake}/n.parquet'".encode())
    assert summed.returncode == 0, summed.stderr
    assert b"4999950000" in summed.stdout
    described = json.loads(run("inspect", str(lake / "n.parquet"), "--json").stdout)
    assert "n" in json.dumps(described)


def test_names_that_are_no_text_reach_it(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/odd-\xff"
    made = run("demo", "--scale", "0.001", "--json", "--keep", odd)
    assert made.returncode == 0, made.stderr
    assert b"lineitem.parquet" in os.listdir(odd)


def test_errors_are_one_line_and_have_the_exit_codes_of_the_binary(lake: Path) -> None:
    for arguments, code in (
        (["scan", str(lake / "missing.parquet")], 1),
        (["scan", str(lake), "--columns", "m"], 2),
        (["serve", "--origin", f"lake={lake}", *DOORS, "--page-size", "3"], 2),
    ):
        failed = run(*arguments)
        assert (failed.returncode, failed.stdout) == (code, b""), failed.stderr
        assert len(failed.stderr.splitlines()) == 1, failed.stderr
        assert failed.stderr.startswith(b"stylobate: "), failed.stderr
    unknown = run("scan", str(lake), "--no-such-option")
    assert unknown.returncode == 2
    assert b"Usage: stylobate scan" in unknown.stderr


def test_a_reader_that_leaves_is_no_error(lake: Path) -> None:
    line = f"'{COMMAND}' scan '{lake}' --format csv; echo $? >&2"
    piped = subprocess.run(
        ["bash", "-c", f"({line}) | head -n 1"], env=environment(), capture_output=True, timeout=120, check=True
    )
    assert (piped.stdout, piped.stderr) == (b"n\n", b"0\n")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_node_serves_until_it_is_told_to_stop(lake: Path, stop: signal.Signals) -> None:
    node, admin = listens(lake)
    try:
        with urllib.request.urlopen(f"{admin}/readyz", timeout=10) as answer:
            assert json.load(answer) == {"ready": True}
        node.send_signal(stop)
        _, log = node.communicate(timeout=TIMEOUT)
        assert node.returncode == 0, log
        assert "Traceback" not in log
    finally:
        if node.poll() is None:
            node.kill()
            node.communicate()


def test_ctrl_c_ends_a_verb_that_does_not_listen_for_it(tmp_path: Path) -> None:
    """Python's own handler would only record the signal, and the command would continue."""
    command = [COMMAND, "demo", "--scale", "10"]
    env = environment(TMPDIR=str(tmp_path))
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Generating")
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, log) == (-signal.SIGINT, "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_the_demo_runs(tmp_path: Path) -> None:
    shown = run("demo", "--scale", "0.01", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert b"node, warm" in shown.stdout


def test_a_node_of_the_demo_fetches_little_more_than_is_read_and_nothing_twice(tmp_path: Path) -> None:
    shown = run("demo", "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    passes = {measured["name"]: measured for measured in json.loads(shown.stdout)}
    cold, warm = passes["node, cold"], passes["node, warm"]
    assert cold["origin_gets"] <= cold["requests"] / 2
    assert cold["origin_bytes"] <= 1.4 * cold["bytes"], "columns of the last row group are not fetched from the others"
    assert warm["origin_gets"] == 0


def test_the_package_needs_no_other(tmp_path: Path) -> None:
    """In an otherwise empty environment; another test covers lazy imports."""
    (tmp_path / "stylobate").symlink_to(Path(st.__file__).parent)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import stylobate.__main__ as it; print(it.main.__module__)"
    bare = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (bare.returncode, bare.stdout) == (0, "stylobate.__main__\n"), bare.stderr
