"""`stylobate graph store` on a bucket: created, changed, queried, maintained and checked by the command alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proxy import Proxy
from servers import environment, origin_options, stylobate

class Command:
    """The command over a store of its own, with credentials for the bucket."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.folder = folder
        self.store = f"s3://lake/{folder.name}"
        given = origin_options(endpoint).items()
        self.options = [word for name, value in given for word in ("--option", f"{name}={value}")]

    def run(self, verb: str, *args: str) -> subprocess.CompletedProcess[str]:
        command = [stylobate(), "graph", "store", verb, self.store, *self.options, *args]
        return subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
        )

    def __call__(self, verb: str, *args: str) -> str:
        done = self.run(verb, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, verb: str, *args: str) -> Any:
        return json.loads(self(verb, "--json", *args))


@pytest.fixture
def command(proxy: Proxy, tmp_path: Path) -> Command:
    (tmp_path / "people.csv").write_text("id,name\n" + "".join(f"{n},name {n}\n" for n in range(100)))
    (tmp_path / "knows.csv").write_text("src,dst,since\n" + "".join(f"{n},{n * 7 % 100},{n}\n" for n in range(100)))
    return Command(proxy.endpoint, tmp_path)


def test_a_store_in_a_bucket_is_kept_by_the_command_alone(command: Command) -> None:
    tables = ["--vertices", "Person=people.csv:id", "--edges", "Person_KNOWS_Person=knows.csv"]
    made = command.json("create", *tables)
    assert (made["vertices"], made["edges"]) == (100, 100)
    again = command.run("create", *tables)
    assert again.returncode == 2 and len(again.stderr.splitlines()) == 1, again.stderr

    (command.folder / "more.csv").write_text("src,dst,since\n3,4,2000\n3,5,2001\n")
    assert command.json("load", "--edges", "Person_KNOWS_Person=more.csv")["edges"] == 2
    hop = ["--start", "Person:3", "--out", "KNOWS", "--columns", "since", "--top", "2:since"]
    asked = command("query", *hop, "--select", "name,since", "--format", "csv")
    assert asked == "name,since\nname 5,2001\nname 4,2000\n"

    compacted = command.json("compact", "--force")
    assert compacted
    assert command("query", *hop, "--select", "name,since", "--format", "csv") == asked
    log = [json.loads(line)["operation"] for line in command("log", "--format", "json").splitlines()]
    assert log[:1] == ["create"] and log.count("load") == 2 and "compact" in log[-1]
    command("gc", "--older-than", "0s", "--json")
    assert command("query", *hop, "--select", "name,since", "--format", "csv") == asked
    assert command.json("verify")["flaws"] == []


def test_what_a_bucket_lost_is_named(command: Command, proxy: Proxy) -> None:
    command("create", "--quiet", "--vertices", "Person=people.csv:id")
    lost = next(path for path in (proxy.root / "lake" / command.folder.name).rglob("*") if path.is_file() and "chunk" in path.name)
    lost.unlink()
    done = command.run("verify")
    assert done.returncode == 1 and lost.name in done.stdout + done.stderr
    (command.folder / "knows.csv").write_text("src,dst,since\n1,100000,1\n")
    done = command.run("load", "--edges", "Person_KNOWS_Person=knows.csv")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_bucket_that_is_not_there_is_one_line(command: Command) -> None:
    done = subprocess.run(
        [stylobate(), "graph", "store", "log", "s3://no-such-bucket/social", *command.options],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
