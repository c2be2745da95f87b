"""The Flight door: pyarrow.flight compared with pyarrow.parquet on the same files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.flight as fl
import pyarrow.parquet as pq
import pytest

import parquet_data
from servers import ORIGIN_SECRET, AccessKey, Bucket, Node, Origin, wait_for

MIB = 1 << 20
ADMIN = AccessKey("admin", "s3cr3t-of-admin-77", write=True, token="t0ken-of-admin-11")
READER = AccessKey("reader", "s3cr3t-of-reader-88", ["lake"], token="t0ken-of-reader-22")


def settle(path: Path) -> None:
    """Backdates a file: a recent one counts as one that may still change."""
    os.utime(path, (time.time() - 3600,) * 2)


@pytest.fixture(scope="module")
def files(origin: Origin, table: pa.Table) -> Path:
    """The folder of the bucket `lake` that these tests read: a file, a folder and partitions."""
    folder = origin.bucket("lake") / "flight"
    parquet_data.write(table, folder / "mixed.parquet")
    half = table.num_rows // 2
    parquet_data.write(table.slice(0, half), folder / "parts/1.parquet")
    parquet_data.write(table.slice(half), folder / "parts/2.parquet")
    for year in (2023, 2024):
        parquet_data.write(table.slice(year, 1_000).select(["id", "name"]), folder / f"years/year={year}/a.parquet")
    for path in folder.rglob("*.parquet"):
        settle(path)
    return folder


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[fl.FlightClient]:
    with fl.connect(node.flight) as connected:
        yield connected


def command(path: str, **more: Any) -> fl.FlightDescriptor:
    return fl.FlightDescriptor.for_command(json.dumps({"version": 1, "path": path} | more))


def shown(key: AccessKey | str) -> fl.FlightCallOptions:
    token = key if isinstance(key, str) else key.token or key.secret
    return fl.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())])


def fetch(client: fl.FlightClient, descriptor: fl.FlightDescriptor, *options: Any) -> pa.Table:
    """Fetches all endpoints of a flight, one after another."""
    info = client.get_flight_info(descriptor, *options)
    tables = [client.do_get(endpoint.ticket, *options).read_all() for endpoint in info.endpoints]
    assert all(found.schema == info.schema for found in tables)
    return pa.concat_tables(tables)


def plain(table: pa.Table) -> pa.Table:
    """Returns the table without dictionaries, and with pyarrow's names for list items and the like."""
    columns = [
        pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def assert_same(got: pa.Table, expected: pa.Table) -> None:
    got = plain(got).replace_schema_metadata(None)
    expected = plain(expected).replace_schema_metadata(None)
    assert got.column_names == expected.column_names
    assert got.num_rows == expected.num_rows
    for name in expected.column_names:
        assert got[name].cast(expected[name].type).combine_chunks().equals(expected[name].combine_chunks()), name


def active(node: Node) -> int:
    return node.stats()["flight"]["active_streams"]


def test_a_file_arrives_as_it_is(client: fl.FlightClient, files: Path, node: Node) -> None:
    expected = pq.read_table(files / "mixed.parquet")
    info = client.get_flight_info(command("lake/flight/mixed.parquet"))
    assert info.ordered
    assert info.total_records == expected.num_rows
    assert 1 < len(info.endpoints) <= 64
    assert all(endpoint.expiration_time is not None and not endpoint.locations for endpoint in info.endpoints)
    assert client.get_schema(command("lake/flight/mixed.parquet")).schema == info.schema
    assert_same(fetch(client, command("lake/flight/mixed.parquet")), expected)
    wait_for("the streams to end", lambda: active(node) == 0)


def test_endpoints_are_read_at_the_same_time_and_in_any_order(client: fl.FlightClient, files: Path) -> None:
    info = client.get_flight_info(command("lake/flight/mixed.parquet"))
    with ThreadPoolExecutor(8) as pool:
        reads = [pool.submit(lambda e=e: client.do_get(e.ticket).read_all()) for e in reversed(info.endpoints)]
        tables = [read.result() for read in reversed(reads)]
    assert_same(pa.concat_tables(tables), pq.read_table(files / "mixed.parquet"))


@pytest.mark.parametrize("columns", [["id"], ["name", "id"], ["tags", "price", "when"], ["half_null", "flag", "ratio"]])
def test_columns_are_those_asked_for_in_their_order(client: fl.FlightClient, files: Path, columns: list[str]) -> None:
    got = fetch(client, command("lake/flight/mixed.parquet", columns=columns))
    assert_same(got, pq.read_table(files / "mixed.parquet", columns=columns).select(columns))


@pytest.mark.parametrize(
    ("sql", "expression"),
    [
        ("small < 24", pc.field("small") < 24),
        ("name = 'name-07' AND flag", (pc.field("name") == "name-07") & pc.field("flag")),
        ("name IN ('name-01', 'name-02') OR half_null IS NULL",
         pc.field("name").isin(["name-01", "name-02"]) | pc.field("half_null").is_null()),
        ("NOT (half_null >= 10)", ~(pc.field("half_null") >= 10)),
        ("id >= 100000 AND id < 100010", (pc.field("id") >= 100_000) & (pc.field("id") < 100_010)),
        ("id < 0", pc.field("id") < 0),
        ("price <= 0.25", pc.field("price") <= pc.scalar(0.25).cast(pa.decimal128(12, 2))),
    ],
)  # fmt: skip
def test_filters_keep_the_rows_that_pyarrow_keeps(
    client: fl.FlightClient, files: Path, sql: str, expression: pc.Expression
) -> None:
    descriptor = command("lake/flight/mixed.parquet", where=sql, columns=["id", "name", "price", "tags"])
    assert client.get_flight_info(descriptor).total_records == -1
    expected = ds.dataset(files / "mixed.parquet").to_table(["id", "name", "price", "tags"], filter=expression)
    assert_same(fetch(client, descriptor), expected)


def test_dictionaries_are_as_asked_for_and_sent_once(client: fl.FlightClient, files: Path) -> None:
    def types(dictionary: Any) -> dict[str, bool]:
        schema = client.get_flight_info(command("lake/flight/mixed.parquet", dictionary=dictionary)).schema
        return {field.name: pa.types.is_dictionary(field.type) for field in schema}

    assert types("auto")["name"] and not types("auto")["comment"]
    assert types(True)["name"] and types(True)["comment"]
    assert not any(types(False).values())
    assert types(["comment"]) == {name: name == "comment" for name in types(False)}
    expected = pq.read_table(files / "mixed.parquet")
    for dictionary in ("auto", True, False, ["name", "comment"]):
        assert_same(fetch(client, command("lake/flight/mixed.parquet", dictionary=dictionary)), expected)
    # Forty thousand rows per row group, in batches of a thousand: one-byte codes, and few dictionaries.
    few = command("lake/flight/mixed.parquet", columns=["name"], dictionary=True, batch_rows=1_000, limit=1 << 40)
    (endpoint,) = client.get_flight_info(few).endpoints
    chunks = list(client.do_get(endpoint.ticket))
    assert len(chunks) >= expected.num_rows // 1_000
    assert all(chunk.data.num_rows <= 1_000 for chunk in chunks)


@pytest.mark.parametrize("limit", [0, 1, 999, 50_000, 10**9])
def test_a_limit_is_kept_in_one_endpoint(client: fl.FlightClient, files: Path, limit: int) -> None:
    expected = pq.read_table(files / "mixed.parquet").slice(0, limit)
    descriptor = command("lake/flight/mixed.parquet", limit=limit)
    info = client.get_flight_info(descriptor)
    assert (len(info.endpoints), info.total_records) == (1, expected.num_rows)
    assert_same(fetch(client, descriptor), expected)
    filtered = fetch(client, command("lake/flight/mixed.parquet", limit=limit, where="small < 24"))
    whole = ds.dataset(files / "mixed.parquet").to_table(filter=pc.field("small") < 24)
    assert_same(filtered, whole.slice(0, limit))


def test_folders_patterns_and_partitions(client: fl.FlightClient, files: Path, table: pa.Table) -> None:
    expected = pq.read_table(files / "mixed.parquet")
    for descriptor in (
        command("lake/flight/parts"),
        command("lake/flight/parts/"),
        command("lake/flight/parts/?.parquet"),
        fl.FlightDescriptor.for_path("lake", "flight", "parts"),
    ):
        assert_same(fetch(client, descriptor), expected)
    years = fetch(client, command("lake/flight/years"))
    assert sorted(set(pc.cast(plain(years)["year"], pa.string()).to_pylist())) == ["2023", "2024"]
    assert years.num_rows == 2_000


def test_flights_are_listed(client: fl.FlightClient, files: Path) -> None:
    def paths(criteria: bytes = b"") -> set[str]:
        return {b"/".join(info.descriptor.path).decode() for info in client.list_flights(criteria)}

    assert "lake/flight" in paths()
    within = {"lake/flight/mixed.parquet", "lake/flight/parts", "lake/flight/years"}
    assert paths(b'{"path": "lake/flight/"}') == within
    for info in client.list_flights(b'{"path": "lake/flight/"}'):
        assert client.get_flight_info(info.descriptor).total_records > 0


def test_actions(client: fl.FlightClient, files: Path, node: Node) -> None:
    assert {action.type for action in client.list_actions()} == {
        "warm",
        "evict",
        "stats",
        "cluster",
        "healthcheck",
        "CreatePreparedStatement",
        "ClosePreparedStatement",
    }

    def act(name: str, body: Any = None) -> Any:
        action = fl.Action(name, b"" if body is None else json.dumps(body).encode())
        (answer,) = client.do_action(action)
        return json.loads(answer.body.to_pybytes())

    assert act("healthcheck") == {"status": "ok"}
    warmed = act("warm", {"path": "lake/flight/parts/"})
    assert (warmed["objects"], warmed["failed"]) == (2, 0)
    assert act("stats")["columns"].keys() == node.stats()["columns"].keys()
    assert act("evict", {"path": "lake/flight/parts/"}) == {"objects": 2}
    with pytest.raises(pa.ArrowInvalid):
        act("evict", {"path": "lake/../x"})


def test_errors_say_what_to_correct(client: fl.FlightClient, files: Path, origin: Origin) -> None:
    for descriptor, error, said in (
        (command("lake/flight/none.parquet"), KeyError, "none.parquet"),
        (command("desert/a.parquet"), KeyError, "no such bucket"),
        (command("lake/flight/mixed.parquet", columns=["nope"]), pa.ArrowInvalid, "nope"),
        (command("lake/flight/mixed.parquet", where="id <"), pa.ArrowInvalid, "filter"),
        (command("lake/flight/mixed.parquet", colums=[]), pa.ArrowInvalid, "colums"),
        (command("lake/../pond"), pa.ArrowInvalid, "path"),
        (fl.FlightDescriptor.for_command(b"{"), pa.ArrowInvalid, "command"),
        (fl.FlightDescriptor.for_command(b"\xff\x00" * 40_000), pa.ArrowInvalid, "command"),
    ):
        with pytest.raises(error) as failed:
            client.get_flight_info(descriptor)
        assert said in str(failed.value)
        assert str(origin.root) not in str(failed.value) and origin.endpoint not in str(failed.value)


def test_bad_tickets_are_refused(client: fl.FlightClient, files: Path) -> None:
    (good, *_) = client.get_flight_info(command("lake/flight/mixed.parquet")).endpoints
    ticket = bytearray(good.ticket.ticket)
    ticket[-5] ^= 1
    for bad in (b"", b"x", bytes(ticket), good.ticket.ticket[:-1], os.urandom(5_000), bytes(40)):
        with pytest.raises((pa.ArrowInvalid, fl.FlightUnauthorizedError)):
            client.do_get(fl.Ticket(bad)).read_all()
    assert client.do_get(good.ticket).read_all().num_rows > 0


def test_tickets_expire(start: Callable[..., Node], origin: Origin, files: Path) -> None:
    node = start([Bucket.of_origin(origin.endpoint, "lake")], "--memory", "128MiB", "--ticket-lifetime", "1s")
    with fl.connect(node.flight) as client:
        endpoint = client.get_flight_info(command("lake/flight/mixed.parquet")).endpoints[0]
        time.sleep(1.1)
        with pytest.raises(fl.FlightUnauthorizedError, match="expired"):
            client.do_get(endpoint.ticket).read_all()


def test_nodes_with_one_secret_share_tickets(start: Callable[..., Node], origin: Origin, files: Path) -> None:
    def node(secret: str) -> Node:
        buckets = [Bucket.of_origin(origin.endpoint, "lake")]
        return start(buckets, "--memory", "128MiB", env={"STYLOBATE_TICKET_SECRET": secret})

    first, second, stranger = node("a-secret-of-both-nodes"), node("a-secret-of-both-nodes"), node("another-secret-16")
    clients = [fl.connect(node.flight) for node in (first, second, stranger)]
    info = clients[0].get_flight_info(command("lake/flight/mixed.parquet"))
    # Endpoints have no location: any node may serve them.
    tables = [clients[n % 2].do_get(endpoint.ticket).read_all() for n, endpoint in enumerate(info.endpoints)]
    assert_same(pa.concat_tables(tables), pq.read_table(files / "mixed.parquet"))
    with pytest.raises(fl.FlightUnauthorizedError):
        clients[2].do_get(info.endpoints[0].ticket).read_all()
    for client in clients:
        client.close()


def test_tokens_open_their_buckets_and_are_never_told(
    start: Callable[..., Node], origin: Origin, files: Path, table: pa.Table
) -> None:
    parquet_data.write(table.slice(0, 10), origin.bucket("pond") / "flight/p.parquet")
    buckets = [Bucket.of_origin(origin.endpoint, name) for name in ("lake", "pond")]
    flags = ["--memory", "128MiB", "--log", "trace"]
    node = start(buckets, *flags, keys=[ADMIN, READER], env={"RUST_LOG": "trace"})
    lake, pond = command("lake/flight/parts/1.parquet"), command("pond/flight/p.parquet")
    with fl.connect(node.flight) as client:
        assert fetch(client, lake, shown(READER)).num_rows > 0
        assert fetch(client, pond, shown(ADMIN)).num_rows == 10
        said = []
        for descriptor, options in ((pond, shown(READER)), (command("desert/x"), shown(READER))):
            with pytest.raises(fl.FlightUnauthorizedError) as failed:
                client.get_flight_info(descriptor, options)
            said.append(str(failed.value))
        for options in ([], [shown("wrong-t0ken")], [shown(ADMIN.secret)], [shown("")]):
            with pytest.raises(fl.FlightUnauthenticatedError) as failed:
                client.get_flight_info(lake, *options)
            said.append(str(failed.value))
        ticket = client.get_flight_info(lake, shown(ADMIN)).endpoints[0].ticket
        for options in ([shown(READER)], []):
            with pytest.raises((fl.FlightUnauthorizedError, fl.FlightUnauthenticatedError)) as failed:
                client.do_get(ticket, *options).read_all()
            said.append(str(failed.value))
        for action in ("warm", "evict", "stats"):
            with pytest.raises(fl.FlightUnauthorizedError):
                list(client.do_action((action, b'{"path": "lake/flight/parts"}'), shown(READER)))
            assert list(client.do_action((action, b'{"path": "lake/flight/parts"}'), shown(ADMIN)))
        listed = {info.descriptor.path[0] for info in client.list_flights(b"", shown(READER))}
        assert listed == {b"lake"}
    log = node.log()
    assert len(log) > 10_000
    for secret in (ADMIN.secret, READER.secret, ADMIN.token, READER.token, ORIGIN_SECRET, "wrong-t0ken"):
        assert secret not in log
        assert not [text for text in said if secret in text]


def test_a_slow_client_holds_the_scan_back(start: Callable[..., Node], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    text = pa.array([f"{n:01024}" for n in range(4_096)])
    lake.mkdir()
    with pq.ParquetWriter(lake / "long.parquet", pa.schema([("text", pa.string())]), use_dictionary=False) as writer:
        for _ in range(64):
            writer.write_table(pa.table({"text": text}))
    settle(lake / "long.parquet")
    node = start([Bucket("lake", str(lake))], "--memory", "1GiB")
    with fl.connect(node.flight) as client:
        (endpoint,) = client.get_flight_info(command("lake/long.parquet", limit=1 << 40)).endpoints
        reader = client.do_get(endpoint.ticket)
        assert reader.read_chunk().data.num_rows > 0

        def done() -> tuple[int, int]:
            stats = node.stats()
            columns = stats["columns"]
            return columns["decoded_chunks"] + columns["streamed_units"], stats["flight"]["bytes"]

        before = None
        while (now := done()) != before:
            before = now
            time.sleep(0.7)
        chunks, sent = now
        print(f"{chunks} of 64 row groups decoded and {sent >> 20} of 256 MiB sent while the client waits")
        assert active(node) == 1
        assert chunks <= 24
        assert sent <= 64 * MIB
        assert node.memory("VmRSS") < 400 * MIB
        rows = sum(chunk.data.num_rows for chunk in reader)
        assert rows > 60 * 4_096
    wait_for("the stream to end", lambda: active(node) == 0)


def test_a_client_that_goes_away_ends_its_scan(node: Node, files: Path) -> None:
    def one_chunk_and_away(cancel: bool) -> None:
        with fl.connect(node.flight) as client:
            descriptor = command("lake/flight/mixed.parquet", limit=1 << 40, batch_rows=100)
            (endpoint,) = client.get_flight_info(descriptor).endpoints
            reader = client.do_get(endpoint.ticket)
            assert reader.read_chunk().data.num_rows > 0
            if cancel:
                reader.cancel()

    for cancel in (True, False):
        before = node.stats()["flight"]["methods"]["DoGet"].get("CANCELLED", 0)
        one_chunk_and_away(cancel)
        wait_for("the stream to end", lambda: active(node) == 0)
        assert node.stats()["flight"]["methods"]["DoGet"]["CANCELLED"] == before + 1


def test_the_counters_are_in_the_statistics_and_the_metrics(node: Node, client: fl.FlightClient, files: Path) -> None:
    rows = fetch(client, command("lake/flight/mixed.parquet")).num_rows
    stats = node.stats()
    assert stats["flight"]["rows"] >= rows
    assert stats["columns"]["capacity"] > 0
    metrics = node.ask("GET", "/metrics").body.decode()
    for name in (
        'stylobate_flight_calls_total{method="DoGet",code="OK"}',
        "stylobate_flight_rows_total",
        "stylobate_flight_bytes_total",
        "stylobate_flight_active_streams 0",
        "stylobate_column_decoded_chunks_total",
        "stylobate_column_capacity_bytes",
    ):
        assert name in metrics, name


def test_scans_stay_within_the_budget(start: Callable[..., Node], origin: Origin, table: pa.Table) -> None:
    """Decodes much more than the budget: the part that is kept stays within the one configured limit."""
    budget = 64 * MIB
    folder = origin.bucket("lake") / "flight-budget"
    for n in range(12):
        parquet_data.write(table, folder / f"{n}.parquet")
        settle(folder / f"{n}.parquet")
    node = start([Bucket.of_origin(origin.endpoint, "lake")], "--memory", f"{budget // MIB}MiB")
    with fl.connect(node.flight) as client, ThreadPoolExecutor(4) as pool:
        info = client.get_flight_info(command("lake/flight-budget", dictionary=False))
        counts = pool.map(lambda e: sum(c.data.num_rows for c in client.do_get(e.ticket)), info.endpoints)
        assert sum(counts) == 12 * table.num_rows == info.total_records
    stats = node.stats()
    columns, pages = stats["columns"], stats["cache"]
    print(f"peak {node.memory('VmHWM') >> 20} MiB with a budget of {budget >> 20} MiB; {columns}")
    assert columns["bytes"] + pages["memory_used"] <= stats["memory"]["used"] <= stats["memory"]["capacity"] == budget
    assert columns["working_bytes"] == 0
