"""`stylobate graph info|neighbors|import|export` on a bucket: prints and writes the same as for local files."""

from __future__ import annotations

import csv
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proxy import Proxy
from servers import ORIGIN_SECRET, Origin, environment, origin_options, stylobate

FILE = "ldbc_sample.graph.yml"
KNOWS = ["person", "knows", "person"]
READ = ["parquet", "orc", "csv"]
PEOPLE = "id,name\n" + "".join(f"{10 * at},name {at}\n" for at in range(1, 21))
# A loop, duplicate edges, and persons without edges.
PAIRS = [(10, 10), (10, 20), (10, 20), (20, 10), (50, 200), (200, 50), (130, 10)]
EDGES = "src,dst,weight\n" + "".join(f"{one},{other},{at}.5\n" for at, (one, other) in enumerate(PAIRS))


class Command:
    """`stylobate graph` in a folder of its own, with credentials for the bucket."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.folder = folder
        given = origin_options(endpoint).items()
        self.options = [word for name, value in given for word in ("--option", f"{name}={value}")]

    def run(self, verb: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
        options = self.options if any(str(arg).startswith("s3://") for arg in args) else []
        command = [stylobate(), "graph", verb, *map(str, args), *options]
        return subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
        )

    def __call__(self, verb: str, *args: str | Path) -> str:
        done = self.run(verb, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, verb: str, *args: str | Path) -> Any:
        return json.loads(self(verb, *args, "--json"))

    def fails(self, verb: str, *args: str | Path) -> tuple[int, str]:
        """Returns the exit code and the error line, which contains no secrets."""
        done = self.run(verb, *args)
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done.stderr
        assert ORIGIN_SECRET not in done.stderr
        return done.returncode, done.stderr


@pytest.fixture
def command(proxy: Proxy, tmp_path: Path) -> Command:
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "knows.csv").write_text(EDGES)
    return Command(proxy.endpoint, tmp_path)


@pytest.fixture(scope="module", params=READ)
def local(request: pytest.FixtureRequest, samples: Path) -> Path:
    """The social network in one of the formats."""
    return samples / "graphar/ldbc_sample" / request.param


@pytest.fixture(scope="module")
def url(local: Path, origin: Origin) -> str:
    """The same graph in the bucket."""
    for path in local.rglob("*"):
        if path.is_file():
            key = f"command-{local.name}/{path.relative_to(local)}"
            origin.s3.put_object(Bucket="lake", Key=key, Body=path.read_bytes())
    return f"s3://lake/command-{local.name}/{FILE}"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def edges_of(rows: list[dict[str, str]], *names: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(row[name] for name in names) for row in rows)


# Samples.


def test_info_of_a_bucket_is_that_of_the_local_files(command: Command, url: str, local: Path) -> None:
    found, expected = command.json("info", url, "--degrees"), command.json("info", local / FILE, "--degrees")
    assert (found.pop("file"), expected.pop("file")) == (url, str(local / FILE))
    assert found == expected
    assert (found["vertices"][0]["count"], found["edges"][0]["count"]) == (903, 6_626)
    assert [degrees["direction"] for degrees in found["edges"][0]["degrees"]] == ["out", "in"]
    pictures = [command("info", place).replace(str(place), "") for place in (url, local / FILE)]
    assert pictures[0].splitlines()[2:] == pictures[1].splitlines()[2:] and "903 vertices" in pictures[0]


@pytest.mark.parametrize("direction", ["out", "in"])
def test_neighbours_in_a_bucket_are_those_of_the_local_files(
    command: Command, url: str, local: Path, direction: str
) -> None:
    asked = [*KNOWS, "--of", "6,203,203,902,250", "--direction", direction, "--with", "firstName", "--format", "csv"]
    found = command("neighbors", url, *asked)
    assert found == command("neighbors", local / FILE, *asked)
    rows = table(found)
    assert rows and {row["of"] for row in rows} <= {"6", "203", "902", "250"}
    assert all(row["creationDate"] and row["neighbor.firstName"] for row in rows)


def test_tables_out_of_a_bucket_are_those_of_the_local_files(
    command: Command, url: str, local: Path, samples: Path
) -> None:
    for place, folder in ((url, "far"), (local / FILE, "near")):
        command("export", place, folder, "--format", "csv", "--keys")
    folders = [command.folder / name for name in ("far", "near")]
    far, near = ({path.name: path.read_text() for path in folder.iterdir()} for folder in folders)
    assert far == near and sorted(far) == ["person.csv", "person_knows_person.csv"]
    raw = (samples / "graphar/ldbc_sample/person_0_0_comma.csv").read_text()
    assert table(far["person.csv"]) == table(raw)
    lines = (samples / "graphar/ldbc_sample/person_knows_person_0_0.csv").read_text().replace("|", ",")
    names = ("src", "dst", "creationDate")
    assert edges_of(table(far["person_knows_person.csv"]), *names) == edges_of(table(lines), *names)


# Generated graphs.


@pytest.mark.parametrize("format", READ)
def test_a_graph_goes_into_a_bucket_and_comes_out_of_it(command: Command, prefix: str, format: str) -> None:
    url = f"s3://lake/{prefix}social"
    given = ["--name", "social", "--vertices", "person=people.csv:id", "--edges", "person_knows_person=knows.csv"]
    chunks = ["--vertex-chunk-size", "3", "--edge-chunk-size", "1", "--format", format]
    command("import", *given, *chunks, "--output", url)
    file = f"{url}/social.graph.yml"

    info = command.json("info", file, "--degrees")
    assert (info["vertices"][0]["count"], info["edges"][0]["count"]) == (20, len(PAIRS))
    assert {group["file_type"] for group in info["vertices"][0]["property_groups"]} == {format}
    out, into = info["edges"][0]["degrees"]
    assert (out["max"], into["max"]) == (3, 3)

    asked = [*KNOWS, "--of", "10,20,200", "--key", "id", "--with", "id", "--format", "csv"]
    rows = table(command("neighbors", file, *asked))
    named = [(str(one), str(other), f"{at}.5") for at, (one, other) in enumerate(PAIRS)]
    expected = Counter(row for row in named if row[0] in ("10", "20", "200"))
    assert edges_of(rows, "of", "neighbor.id", "weight") == expected

    command("export", file, "out", "--format", "csv", "--keys")
    assert (command.folder / "out/person.csv").read_text() == PEOPLE
    exported = table((command.folder / "out/person_knows_person.csv").read_text())
    assert edges_of(exported, "src", "dst", "weight") == edges_of(table(EDGES), "src", "dst", "weight")

    assert command.fails("import", *given, "--output", url)[0] == 2
    again = [*given[:3], "person=people.csv:id", "--format", format, "--overwrite", "--output", url]
    command("import", *again)
    assert command.json("info", file)["edges"] == []


# Missing graphs.


def test_what_a_bucket_does_not_have_is_named_in_one_line(command: Command, origin: Origin, prefix: str) -> None:
    url = f"s3://lake/{prefix}social"
    given = ["--name", "social", "--vertices", "person=people.csv:id", "--edges", "person_knows_person=knows.csv"]
    command("import", *given, "--output", url)
    file = f"{url}/social.graph.yml"
    for verb, rest in (("info", []), ("neighbors", [*KNOWS, "--of", "1"]), ("export", ["nothing"])):
        code, said = command.fails(verb, f"{url}/none.graph.yml", *rest)
        assert code == 1 and "none.graph.yml" in said
    listed = origin.s3.list_objects_v2(Bucket="lake", Prefix=f"{prefix}social/")["Contents"]
    (lost,) = (found["Key"] for found in listed if "by_source/adj_list/part0/chunk0" in found["Key"])
    origin.s3.delete_object(Bucket="lake", Key=lost)
    for verb, rest in (("neighbors", [*KNOWS, "--of", "0"]), ("export", ["out"])):
        code, said = command.fails(verb, file, *rest)
        assert code == 1 and "ordered_by_source/adj_list/part0/chunk0" in said
    left = command.folder / "out"
    assert not left.exists() or not any("knows" in path.name for path in left.iterdir())
    code, said = command.fails("import", *given, "--output", "s3://no-such-bucket/social")
    assert code in (1, 2) and "no-such-bucket" in said
