"""Several nodes as one: placement, a file system over nodes, and scans by nodes, some of which do not answer."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
import stylobate as st
from stylobate import cluster
from stylobate.flight import FOREIGN_TICKET

from conftest import settle
from servers import AccessKey, Bucket, Node

PINNED = Path(__file__).parents[2] / "crates" / "client" / "tests" / "placement.json"
STRIPE = cluster.STRIPE_BYTES
DEAD = "127.0.0.1:1"
SECRET = "the ticket secret of three nodes"
KEY = AccessKey("reader", "s3cr3t-of-reader-88")


def s3_address(node: Node) -> str:
    return node.endpoint.removeprefix("http://")


# Placement


def test_placement_is_that_of_the_nodes() -> None:
    pinned = json.loads(PINNED.read_text())
    for view in pinned["views"]:
        assert cluster.digest(view["nodes"]) == view["digest"], view["name"]
        for row in view["ranks"]:
            offset = row["stripe"] * STRIPE
            ranked = cluster.rank(view["nodes"], row["bucket"], row["path"], offset)
            count = len(row["rank"])
            assert ranked[: max(count, 1)] == row["rank"], (view["name"], row)
            home = cluster.home(view["nodes"], row["bucket"], row["path"], offset + STRIPE - 1)
            assert home == (row["rank"][0] if count else None)


def test_the_choice_by_load_is_that_of_the_nodes() -> None:
    for row in json.loads(PINNED.read_text())["choices"]:
        assert cluster.choose(row["in_flight"], row["total"], row["nodes"]) == row["place"], row


def test_nodes_are_entries_or_what_nodes_tell() -> None:
    entries = ["a=h:1", "b=h:2,2", "c=h:3,draining"]
    told = [
        {"id": "a", "weight": 1, "state": "up", "s3": "h:1", "flight": None},
        {"id": "b", "weight": 2, "state": "up", "s3": "h:2", "flight": "h:9"},
        {"id": "c", "weight": 1, "state": "draining", "s3": None, "flight": None},
    ]
    assert cluster.digest(entries) == cluster.digest(told)
    for n in range(50):
        ranked = cluster.rank(entries, "lake", f"{n}")
        assert ranked == cluster.rank(told, "lake", f"{n}")
        assert sorted(ranked) == ["a", "b"]


@pytest.mark.parametrize("nodes", [[], ["a"], ["a=h:1", "a=h:2"], ["h:1,x=2"], [{"id": ""}], [{}]], ids=str)
def test_nodes_that_cannot_be_are_errors(nodes: Any) -> None:
    with pytest.raises(st.ConfigError, match="^nodes: "):
        cluster.home(nodes, "lake", "a")


def test_a_single_text_is_no_list() -> None:
    with pytest.raises(TypeError, match="give a list"):
        cluster.home("a=h:1", "lake", "a")
    with pytest.raises(TypeError, match="give a list"):
        st.StylobateFileSystem("s3://lake", nodes="h:1")  # type: ignore[arg-type]


# The file system


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bucket: small files, and large ones whose bytes encode their offsets."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "small").mkdir()
    for n in range(20):
        (folder / "small" / f"{n:02}.txt").write_text(f"file {n}")
    for n in range(8):
        with (folder / f"large-{n}.bin").open("wb") as file:
            file.truncate(2 * STRIPE + 1000)
            for at in range(0, 2 * STRIPE + 1000, STRIPE // 4):
                file.seek(at)
                file.write(f"{n} at {at};".encode())
    settle(*(path for path in folder.rglob("*") if path.is_file()))
    return folder


@pytest.fixture
def nodes(tmp_path: Path, lake: Path) -> Iterator[list[Node]]:
    """Three independent nodes over the same folder."""
    started: list[Node] = []
    try:
        for n in range(3):
            started.append(Node(tmp_path / f"node-{n}", [Bucket("lake", str(lake))]))
        yield started
    finally:
        for node in started:
            if node.running():
                node.kill()


@pytest.fixture
def entries(nodes: list[Node]) -> list[str]:
    """Returns the nodes as entries of a list, with ids."""
    return [f"node-{n}={s3_address(node)}" for n, node in enumerate(nodes)]


def test_bytes_come_from_their_homes(
    nodes: list[Node], entries: list[str], cache: st.Cache, lake: Path
) -> None:
    fs = st.StylobateFileSystem("s3://lake", nodes=entries, cache=cache)
    names = [f"large-{n}.bin" for n in range(8)]
    homes = {name: [cluster.home(entries, "lake", name, stripe * STRIPE) for stripe in range(3)] for name in names}
    name = next(name for name in names if homes[name][1] != homes[name][0])
    part = fs.cat_file(name, STRIPE, STRIPE + 100)
    assert part.startswith(f"{name[6]} at {STRIPE};".encode())

    reads = [node.reads("lake") for node in nodes]
    served = {f"node-{n}" for n, read in enumerate(reads) if read["bytes_origin"] + read["bytes_passed_through"]}
    assert homes[name][1] in served
    assert served <= {homes[name][0], homes[name][1]}

    across = fs.cat_file(name, STRIPE - 100, 2 * STRIPE + 100)
    with (lake / name).open("rb") as file:
        file.seek(STRIPE - 100)
        assert across == file.read(STRIPE + 200)


def test_files_are_listed_and_read_as_by_one_node(
    nodes: list[Node], entries: list[str], cache: st.Cache
) -> None:
    fs = st.StylobateFileSystem("s3://lake", nodes=entries, cache=cache)
    store = {"endpoint": nodes[0].endpoint, "allow_http": True, "skip_signature": True}
    one = st.StylobateFileSystem("s3://lake", storage_options=store)
    for path in ("", "small"):
        assert fs.ls(path, detail=False) == one.ls(path, detail=False)
    assert fs.find("") == one.find("")
    assert fs.info("small/03.txt")["size"] == 6
    assert fs.info("small/03.txt")["etag"] == one.info("small/03.txt")["etag"]
    assert fs.isdir("small") and not fs.exists("none")
    assert fs.cat_ranges(["small/01.txt", "small/02.txt"], 0, 4) == [b"file", b"file"]
    below = st.StylobateFileSystem("s3://lake/small", nodes=entries, cache=cache)
    assert below.cat_file("07.txt") == b"file 7"
    assert below.glob("1*.txt") == [f"1{n}.txt" for n in range(10)]


def test_without_a_root_paths_begin_with_the_bucket(entries: list[str], cache: st.Cache) -> None:
    fs = st.StylobateFileSystem(nodes=entries, cache=cache)
    assert fs.cat_file("lake/small/05.txt") == b"file 5"
    assert fs.ls("lake/small", detail=False)[:2] == ["lake/small/00.txt", "lake/small/01.txt"]
    assert fs.info("lake/small/05.txt")["name"] == "lake/small/05.txt"
    assert fs.info("lake")["type"] == "directory" and fs.isdir("lake/small")
    assert len(fs.find("lake/small")) == 20
    with fs.open("lake/small/05.txt") as file:
        assert file.read() == b"file 5"
    with pytest.raises(st.ConfigError, match="name a bucket"):
        fs.ls("")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file("lake/small/06.txt") == b"file 6"
    assert again.fsid == fs.fsid


def test_a_node_that_dies_is_followed_by_another(
    nodes: list[Node], entries: list[str], cache: st.Cache, lake: Path
) -> None:
    fs = st.StylobateFileSystem("s3://lake", nodes=[DEAD, *entries], cache=cache)
    for alive in (2, 1):
        for n in range(8):
            for at in (0, STRIPE, 2 * STRIPE):
                with (lake / f"large-{n}.bin").open("rb") as file:
                    file.seek(at + 17 * alive)
                    assert fs.cat_file(f"large-{n}.bin", at + 17 * alive, at + 1000) == file.read(1000 - 17 * alive)
        nodes[alive].kill()
        cache.clear()
    assert fs.cat_file("small/09.txt") == b"file 9"
    assert len(fs.ls("small")) == 20


def test_if_no_node_answers_that_is_an_error(cache: st.Cache) -> None:
    fs = st.StylobateFileSystem("s3://lake", nodes=[DEAD], cache=cache)
    started = time.monotonic()
    with pytest.raises(st.StorageError):
        fs.cat_file("a")
    assert time.monotonic() - started < 60


def test_nodes_with_keys_check_them(tmp_path: Path, lake: Path, cache: st.Cache) -> None:
    node = Node(tmp_path / "node", [Bucket("lake", str(lake))], keys=[KEY])
    try:
        at = [s3_address(node)]
        options = {"access_key_id": KEY.id, "secret_access_key": KEY.secret}
        fs = st.StylobateFileSystem("s3://lake", nodes=at, storage_options=options, cache=cache)
        assert fs.cat_file("small/01.txt") == b"file 1"
        for wrong in ({}, {**options, "secret_access_key": "another"}):
            fs = st.StylobateFileSystem("s3://lake", nodes=at, storage_options=wrong, cache=cache)
            with pytest.raises(st.StorageError):
                fs.cat_file("small/02.txt")
    finally:
        node.kill()


@pytest.mark.parametrize(
    ("root", "nodes", "message"),
    [
        ("s3://lake", [], "give one or more"),
        (None, [], "give one or more"),
        ("s3://lake", ["http://h:1"], "without a scheme"),
        ("s3://lake", ["h:1", "h:1"], "two nodes have the id"),
        ("/tmp", ["h:1"], "give s3://bucket"),
    ],
)
def test_a_file_system_that_cannot_be_is_an_error(root: Any, nodes: list[str], message: str) -> None:
    with pytest.raises(st.ConfigError, match=message):
        st.StylobateFileSystem(root, nodes=nodes)


# Scans by nodes


@pytest.fixture
def orders_nodes(tmp_path: Path, files: dict[str, Path]) -> Iterator[list[Node]]:
    """Two nodes over the files of `orders` that accept each other's tickets."""
    bucket = Bucket("lake", str(files["parquet"].parent))
    started: list[Node] = []
    try:
        for n in range(2):
            secret = {"STYLOBATE_TICKET_SECRET": SECRET}
            started.append(Node(tmp_path / f"node-{n}", [bucket], env=secret))
        yield started
    finally:
        for node in started:
            if node.running():
                node.kill()


def test_the_first_node_that_answers_plans(orders_nodes: list[Node], table: pa.Table) -> None:
    addresses = ["grpc://" + DEAD, *(node.flight for node in orders_nodes)]
    scan = st.scan("lake/orders.parquet", node=addresses, columns=["key"])
    assert scan.to_arrow()["key"].to_pylist() == table["key"].to_pylist()
    assert scan.count() == table.num_rows
    assert "node=['grpc://" in repr(scan)
    assert pickle.loads(pickle.dumps(scan.limit(5))).count() == 5
    with pytest.raises(st.NotFoundError):
        st.scan("lake/none.parquet", node=addresses)
    with pytest.raises(st.StorageError):
        st.scan("lake/orders.parquet", node=["grpc://" + DEAD, "grpc://127.0.0.1:2"])
    with pytest.raises(st.ConfigError, match="give one or more"):
        st.scan("lake/orders.parquet", node=[])


def test_a_scan_goes_on_when_its_node_dies(orders_nodes: list[Node], table: pa.Table) -> None:
    addresses = [node.flight for node in orders_nodes]
    batches = st.scan("lake/orders.parquet", node=addresses, columns=["key", "mode"], batch_rows=500).batches()
    first = next(batches)
    orders_nodes[0].kill()
    rest = list(batches)
    read = pa.Table.from_batches([first, *rest])
    assert read["key"].to_pylist() == table["key"].to_pylist()
    assert read["mode"].to_pylist() == table["mode"].to_pylist()


class FakeDoor(fl.FlightServerBase):
    """A Flight door whose tickets are ranges of numbers; its streams may fail half-way."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.address = f"grpc://127.0.0.1:{self.port}"
        self.locations: list[str] = []
        self.break_after: int | None = None
        self.recovers = False
        self.refuses = False
        self.is_changed = False
        self.asked: list[str] = []
        self.schema = pa.schema([("n", pa.int64())])

    def get_flight_info(self, context: Any, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        self.asked.append("plan")
        endpoints = [fl.FlightEndpoint(f"{start}".encode(), self.locations) for start in (0, 100)]
        return fl.FlightInfo(self.schema, descriptor, endpoints, -1, -1)

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.GeneratorStream:
        start = int(ticket.ticket)
        self.asked.append(f"get {start}")
        if self.refuses:
            raise fl.FlightUnauthorizedError("ticket: not one of this node")
        if self.is_changed:
            raise fl.FlightInternalError("lake/a: the object changed: ask for the flight again")
        return fl.GeneratorStream(self.schema, self._batches(start))

    def _batches(self, start: int) -> Iterator[pa.RecordBatch]:
        for n, at in enumerate(range(start, start + 100, 10)):
            if n == self.break_after:
                self.break_after = None if self.recovers else n
                raise fl.FlightUnavailableError("broken off")
            yield pa.record_batch([pa.array(range(at, at + 10), pa.int64())], schema=self.schema)


@pytest.fixture
def doors() -> Iterator[list[FakeDoor]]:
    doors = [FakeDoor() for _ in range(3)]
    try:
        yield doors
    finally:
        for door in doors:
            door.shutdown()


def numbers(doors: list[FakeDoor], **options: Any) -> list[int]:
    scan = st.scan("lake/a", node=[doors[0].address], **options)
    doors[0].asked.clear()
    found: list[int] = scan.to_arrow()["n"].to_pylist()
    return found


def test_each_part_comes_from_the_nodes_that_its_endpoint_names(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address, doors[2].address]
    assert numbers(doors) == list(range(200))
    assert [door.asked for door in doors] == [["plan"], ["get 0", "get 100"], []]


def test_missing_rows_come_from_the_deputy_and_then_from_the_planner(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address, doors[2].address]
    doors[1].break_after = 3
    assert numbers(doors) == list(range(200))
    assert [door.asked for door in doors] == [["plan"], ["get 0"], ["get 0", "get 100"]]

    doors[1].asked.clear()
    doors[2].asked.clear()
    doors[2].break_after = 7
    assert numbers(doors) == list(range(200))
    assert doors[0].asked == ["plan", "get 0", "get 100"]


def test_a_node_that_failed_is_asked_again_when_the_others_fail_later(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address, doors[2].address]
    for door, after in zip(doors, (8, 3, 6), strict=True):
        door.break_after, door.recovers = after, True
    assert numbers(doors) == list(range(200))
    assert [door.asked for door in doors] == [["plan", "get 0"], ["get 0", "get 0", "get 100"], ["get 0"]]

    # All nodes fail at the same row.
    for door in doors:
        door.break_after, door.recovers = 5, False
    with pytest.raises(st.StorageError, match="broken off"):
        numbers(doors)
    assert [door.asked.count("get 0") for door in doors] == [1, 3, 2]


def test_a_node_that_refuses_a_ticket_is_passed_over(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address, "grpc://" + DEAD]
    doors[1].refuses = True
    assert numbers(doors) == list(range(200))
    doors[0].refuses = True
    with pytest.raises(st.StorageError, match="not one of this node"):
        numbers(doors)


def test_a_replaced_file_is_named_even_if_the_planner_breaks_off(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address, doors[2].address]
    doors[0].break_after, doors[1].is_changed, doors[2].break_after = 0, True, 0
    with pytest.raises(st.StorageError, match="lake/a: the object changed"):
        numbers(doors)
    assert [door.asked for door in doors] == [["plan", "get 0"], ["get 0"], ["get 0"]]

    # A node that still has the planned version is enough.
    doors[2].break_after = None
    assert numbers(doors) == list(range(200))


def test_nodes_without_a_common_ticket_secret_cannot_go_on(doors: list[FakeDoor]) -> None:
    doors[0].break_after = 3
    for door in doors[1:]:
        door.refuses = True
    rows: list[int] = []
    with pytest.raises(st.StorageError, match="broke off.* give all nodes the same ticket_secret.* broken off"):
        for batch in st.scan("lake/a", node=[door.address for door in doors]).batches():
            rows += batch["n"].to_pylist()
    assert rows == list(range(30)), "no row twice, and none of another plan"


def test_nodes_of_two_ticket_secrets_refuse_each_others_tickets(tmp_path: Path, files: dict[str, Path]) -> None:
    bucket = Bucket("lake", str(files["parquet"].parent))
    nodes = [Node(tmp_path / f"node-{n}", [bucket]) for n in range(2)]
    try:
        planner, other = (fl.FlightClient(node.flight) for node in nodes)
        info = planner.get_flight_info(fl.FlightDescriptor.for_path("lake", "orders.parquet"))
        with pytest.raises(fl.FlightUnauthorizedError, match=FOREIGN_TICKET):
            other.do_get(info.endpoints[0].ticket).read_all()
    finally:
        for node in nodes:
            node.kill()


def test_locations_are_asked_only_with_the_transport_of_the_node(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address.replace("grpc://", "grpc+tls://")]
    assert numbers(doors) == list(range(200))
    assert doors[1].asked == []
    doors[0].locations = [doors[1].address.replace("grpc://", "grpc+tcp://")]
    assert numbers(doors) == list(range(200))
    assert doors[1].asked == ["get 0", "get 100"]


def test_a_limited_scan_is_of_one_answer(doors: list[FakeDoor]) -> None:
    doors[0].locations = [doors[1].address, doors[2].address]
    doors[1].break_after = 3
    with pytest.raises(st.StorageError, match="broken off"):
        numbers(doors, limit=50)
    doors[1].break_after = 0
    assert numbers(doors, limit=50) == list(range(50))
