"""Requests that a node forwards to an S3 origin carry no credentials of its client, do not exceed a key's rights, and
leave nothing stale. Each test that can also runs in front of a folder."""

from __future__ import annotations

import http.server
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from pyarrow import fs

from servers import ORIGIN_KEY, AccessKey, Bucket, Moto, Node, origin_options, request, s3_client, wait_for
from signing import Raw, send

OWNER = ("owner-id", "owner-secret-19c3")
TEAM = ("team-id", "team-secret-5e0f")
MIB = 1 << 20


def refusal(call: Callable[[], Any]) -> int:
    with pytest.raises(ClientError) as failed:
        call()
    return failed.value.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.fixture(scope="module")
def guarded(moto: Moto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with keys over an S3 server (`lake`, and `same`, another name of it) and over a folder (`folder`)."""
    moto.s3.create_bucket(Bucket="guarded")
    root = tmp_path_factory.mktemp("guarded")
    (root / "folder").mkdir()
    buckets = [
        Bucket.of_origin(moto.endpoint, "lake", at="guarded", consistency="1h"),
        Bucket.of_origin(moto.endpoint, "same", at="guarded", consistency="1h"),
        Bucket("folder", str(root / "folder"), consistency="1h"),
    ]
    keys = [AccessKey(*OWNER, write=True), AccessKey(*TEAM, write=True, prefixes=["team/", "shared"])]
    node = Node(root, buckets, keys=keys)
    yield node
    assert node.stop() == 0


@pytest.fixture
def owner(guarded: Node) -> Any:
    return s3_client(guarded.endpoint, *OWNER)


@pytest.fixture
def team(guarded: Node) -> Any:
    return s3_client(guarded.endpoint, *TEAM)


class Recorder(http.server.BaseHTTPRequestHandler):
    """An origin that accepts everything and records what it receives."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append((self.command, self.path, headers, body))
        if self.path.startswith("/away") and self.command == "PUT":
            self.send_response_only(307)
            self.send_header("location", "http://elsewhere.example/away")
        else:
            self.send_response_only(200)
        listing = b"<ListBucketResult></ListBucketResult>" if self.command == "GET" else b""
        self.send_header("content-length", str(len(listing)))
        self.end_headers()
        self.wfile.write(listing)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer


@pytest.fixture
def recorder() -> Iterator[str]:
    Recorder.seen.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_nothing_of_the_clients_credentials_reaches_the_origin(recorder: str, start: Callable[..., Node]) -> None:
    buckets = [Bucket(name, f"s3://{name}", origin_options(recorder)) for name in ("lake", "away")]
    node = start(buckets, keys=[AccessKey(*OWNER, write=True)])
    private = {
        "cookie": "session=1",
        "x-forwarded-for": "10.0.0.1",
        "x-amz-security-token": "client-token",
        "proxy-authorization": "Basic x",
        "connection": "x-private",
        "x-private": "1",
        "x-amz-meta-kept": "yes",
    }
    for raw in [
        Raw("PUT", "lake", "a//b", headers=private, body=b"body"),
        Raw("GET", "lake", "a//b", "versionId=1", private),
        Raw("GET", "lake", None, "list-type=2", private),
        Raw("DELETE", "lake", "a//b", headers=private),
    ]:
        assert send(node.endpoint, OWNER, raw).status == 200, raw
    signer = s3_client(node.endpoint, *OWNER, signature_version="s3v4")
    url = signer.generate_presigned_url("put_object", {"Bucket": "lake", "Key": "signed"})
    assert request(node.endpoint, "PUT", url.removeprefix(node.endpoint), b"x").status == 200

    assert len([path for _, path, _, _ in Recorder.seen if not path.startswith("/lake?list-type=2&max")]) >= 5
    for method, path, headers, _ in Recorder.seen:
        everything = f"{path} {headers}"
        for secret in [OWNER[0], "session=1", "10.0.0.1", "client-token", "Basic x", "x-private", "X-Amz-Signature"]:
            assert secret not in everything, f"{method} {path}: {secret}"
        assert f"Credential={ORIGIN_KEY}/" in headers["authorization"]
        assert headers["host"] == recorder.removeprefix("http://")
    put = next(entry for entry in Recorder.seen if entry[0] == "PUT")
    assert (put[1], put[3], put[2]["x-amz-meta-kept"]) == ("/lake/a//b", b"body", "yes")

    # The client is not redirected there either.
    away = send(node.endpoint, OWNER, Raw("PUT", "away", "x", body=b"x"))
    assert (away.status, "location" in away.headers) == (502, False)


@pytest.mark.parametrize("bucket", ["lake", "folder"])
def test_a_key_for_prefixes_reaches_nothing_else(guarded: Node, owner: Any, team: Any, bucket: str) -> None:
    for key in ("team/mine", "shared-one", "other/secret"):
        owner.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert team.get_object(Bucket=bucket, Key="team/mine")["Body"].read() == b"team/mine"
    assert [found["Key"] for found in team.list_objects_v2(Bucket=bucket, Prefix="team/")["Contents"]] == ["team/mine"]
    team.copy_object(Bucket=bucket, Key="team/copy", CopySource={"Bucket": bucket, "Key": "shared-one"})

    secret = {"Bucket": bucket, "Key": "other/secret"}
    source = {"Bucket": bucket, "Key": "other/secret"}
    for call in [
        lambda: team.get_object(**secret),
        lambda: team.head_object(**secret),
        lambda: team.put_object(**secret, Body=b"x"),
        lambda: team.delete_object(**secret),
        lambda: team.list_objects_v2(Bucket=bucket),
        lambda: team.list_objects_v2(Bucket=bucket, Prefix="other/"),
        lambda: team.list_objects_v2(Bucket=bucket, Prefix="tea"),
        lambda: team.list_multipart_uploads(Bucket=bucket),
        lambda: team.copy_object(Bucket=bucket, Key="team/stolen", CopySource=source),
        lambda: team.create_multipart_upload(**secret),
        lambda: team.get_bucket_acl(Bucket=bucket),
        lambda: team.put_bucket_policy(Bucket=bucket, Policy="{}"),
        lambda: team.delete_bucket(Bucket=bucket),
    ]:
        assert refusal(call) == 403
    url = s3_client(guarded.endpoint, *TEAM, signature_version="s3v4").generate_presigned_url("get_object", secret)
    assert request(guarded.endpoint, "GET", url.removeprefix(guarded.endpoint)).status == 403
    # The source of a copy as a parameter, in the listing of another key, and a list that hides a key.
    stolen = Raw("PUT", bucket, "team/stolen", f"X-Amz-Copy-Source=%2F{bucket}%2Fother%2Fsecret")
    assert send(guarded.endpoint, TEAM, stolen).status == 403
    climbing = Raw("GET", bucket, "team/../other/secret")
    assert send(guarded.endpoint, TEAM, climbing).status in (400, 403, 404)
    twice = Raw("GET", bucket, None, "prefix=team%2F&prefix=")
    assert send(guarded.endpoint, TEAM, twice).status == 400
    for listed in ["<Key>other/secret</Key>", "<Key>other/secret<b></b></Key>", "<Key>other/<!-- -->secret</Key>"]:
        deletion = Raw("POST", bucket, None, "delete", body=f"<Delete><Object>{listed}</Object></Delete>".encode())
        send(guarded.endpoint, TEAM, deletion)
    assert owner.get_object(**secret)["Body"].read() == b"other/secret"


def test_a_listing_renews_or_drops_what_is_known(guarded: Node, owner: Any, moto: Moto) -> None:
    """A client that plans by a listing reads the listed version, without a request to the origin."""
    key = {"Bucket": "lake", "Key": "listed/a"}
    owner.put_object(**key, Body=b"old" * 1000)
    assert owner.get_object(**key)["Body"].read() == b"old" * 1000
    before = guarded_requests(guarded)
    owner.list_objects_v2(Bucket="lake", Prefix="listed/")
    assert owner.head_object(**key)["ContentLength"] == 3000
    assert guarded_requests(guarded) == before

    moto.s3.put_object(Bucket="guarded", Key="listed/a", Body=b"newer" * 1000)
    assert owner.head_object(**key)["ContentLength"] == 3000, "within the hour that the bucket allows"
    assert owner.list_objects_v2(Bucket="lake", Prefix="listed/")["Contents"][0]["Size"] == 5000
    assert owner.head_object(**key)["ContentLength"] == 5000
    assert owner.get_object(**key)["Body"].read() == b"newer" * 1000


def guarded_requests(node: Node) -> tuple[int, int]:
    stats = node.ask("GET", "/api/stats", headers={"authorization": f"Bearer {OWNER[1]}"}).json()
    reads = next(found["reads"] for found in stats["buckets"] if found["name"] == "lake")
    return reads["origin_gets"], reads["origin_heads"]


def test_whatever_writes_an_object_drops_it_under_all_its_names(guarded: Node, owner: Any) -> None:
    key = "written/a"

    def read() -> list[bytes]:
        return [owner.get_object(Bucket=bucket, Key=key)["Body"].read() for bucket in ("lake", "same")]

    owner.put_object(Bucket="lake", Key=key, Body=b"1")
    assert read() == [b"1", b"1"]
    owner.put_object(Bucket="same", Key=key, Body=b"2")
    assert read() == [b"2", b"2"]
    owner.put_object(Bucket="lake", Key="written/b", Body=b"3")
    owner.copy_object(Bucket="lake", Key=key, CopySource={"Bucket": "same", "Key": "written/b"})
    assert read() == [b"3", b"3"]
    upload = owner.create_multipart_upload(Bucket="lake", Key=key)["UploadId"]
    part = owner.upload_part(Bucket="lake", Key=key, UploadId=upload, PartNumber=1, Body=b"4")
    assert read() == [b"3", b"3"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    owner.complete_multipart_upload(Bucket="lake", Key=key, UploadId=upload, MultipartUpload=parts)
    assert read() == [b"4", b"4"]
    owner.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": key}]})
    assert [refusal(lambda b=b: owner.head_object(Bucket=b, Key=key)) for b in ("lake", "same")] == [404, 404]


def test_versions_are_read_from_the_cache_and_dropped_with_what_changes_them(
    start: Callable[..., Node], moto: Moto
) -> None:
    moto.s3.create_bucket(Bucket="versioned")
    moto.s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    node = start([Bucket.of_origin(moto.endpoint, "versioned", consistency="1h")])
    bodies = [bytes([number]) * MIB for number in (1, 2)]
    versions = [
        node.s3.put_object(Bucket="versioned", Key="a/b", Body=body, Metadata={"n": "x"})["VersionId"] for body in bodies
    ]

    def get(version: str, **more: Any) -> Any:
        return node.s3.get_object(Bucket="versioned", Key="a/b", VersionId=version, **more)

    for _ in range(2):
        for version, body in zip(versions, bodies, strict=True):
            read = get(version)
            assert (read["VersionId"], read["Body"].read(), read["Metadata"]) == (version, body, {"n": "x"})
            assert get(version, Range="bytes=5-8")["Body"].read() == body[5:9]
            head = node.s3.head_object(Bucket="versioned", Key="a/b", VersionId=version)
            assert (head["VersionId"], head["ContentLength"]) == (version, MIB)
    asked = node.origin_requests("versioned")
    assert get(versions[0], IfNoneMatch="other")["Body"].read() == bodies[0]
    assert node.s3.get_object(Bucket="versioned", Key="a/b")["Body"].read() == bodies[1]
    after = node.origin_requests("versioned")
    assert sum(after) - sum(asked) <= 1, "the current version is known by its name, and its bytes are cached"
    assert refusal(lambda: get(versions[0], IfMatch="other")) == 412

    tags = {"TagSet": [{"Key": "k", "Value": "v"}]}
    node.s3.put_object_tagging(Bucket="versioned", Key="a/b", VersionId=versions[0], Tagging=tags)
    assert get(versions[0])["TagCount"] == 1

    marker = node.s3.delete_object(Bucket="versioned", Key="a/b")["VersionId"]
    assert get(versions[1])["Body"].read() == bodies[1]
    for version in (marker, "none"):
        direct = refusal(lambda version=version: moto.s3.get_object(Bucket="versioned", Key="a/b", VersionId=version))
        assert refusal(lambda version=version: get(version)) == direct
    node.s3.delete_object(Bucket="versioned", Key="a/b", VersionId=versions[0])
    assert refusal(lambda: get(versions[0])) == 404
    deleted = {"Objects": [{"Key": "a/b", "VersionId": versions[1]}]}
    node.s3.delete_objects(Bucket="versioned", Delete=deleted)
    assert refusal(lambda: get(versions[1])) == 404


def test_a_version_deleted_past_a_strict_node_is_gone_at_once(start: Callable[..., Node], moto: Moto) -> None:
    moto.s3.create_bucket(Bucket="strict-versions")
    enabled = {"Status": "Enabled"}
    moto.s3.put_bucket_versioning(Bucket="strict-versions", VersioningConfiguration=enabled)
    written = moto.s3.put_object(Bucket="strict-versions", Key="a", Body=b"x" * MIB)
    named = {"Bucket": "strict-versions", "Key": "a", "VersionId": written["VersionId"]}
    node = start([Bucket.of_origin(moto.endpoint, "strict-versions", consistency="strict")])

    assert node.s3.get_object(**named)["Body"].read() == b"x" * MIB
    moto.s3.delete_object(**named)
    assert refusal(lambda: node.s3.get_object(**named)) == 404


def test_copies_between_origins_keep_what_describes_an_object(owner: Any) -> None:
    described = {"ContentType": "text/x-test", "Metadata": {"owner": "me"}}
    owner.put_object(Bucket="lake", Key="described", Body=b"x" * 100, **described)
    owner.put_object(Bucket="folder", Key="plain", Body=b"y" * 100)
    owner.copy_object(Bucket="lake", Key="copied", CopySource={"Bucket": "folder", "Key": "plain"})
    assert owner.get_object(Bucket="lake", Key="copied")["Body"].read() == b"y" * 100
    owner.copy_object(
        Bucket="lake",
        Key="replaced",
        CopySource={"Bucket": "folder", "Key": "plain"},
        MetadataDirective="REPLACE",
        **described,
    )
    head = owner.head_object(Bucket="lake", Key="replaced")
    assert (head["ContentType"], head["Metadata"]) == ("text/x-test", {"owner": "me"})
    upload = owner.create_multipart_upload(Bucket="lake", Key="joined")["UploadId"]
    source = {"Bucket": "folder", "Key": "plain"}
    part = owner.upload_part_copy(
        Bucket="lake", Key="joined", UploadId=upload, PartNumber=1, CopySource=source, CopySourceRange="bytes=10-19"
    )
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]}
    owner.complete_multipart_upload(Bucket="lake", Key="joined", UploadId=upload, MultipartUpload=parts)
    assert owner.get_object(Bucket="lake", Key="joined")["Body"].read() == b"y" * 10


@pytest.mark.parametrize("bucket", ["lake", "folder"])
def test_pyarrow_writes_and_reads_through_the_cache(guarded: Node, bucket: str) -> None:
    """pyarrow's writer sends aws-chunked bodies of unknown length, and its reader headers that others do not."""
    store = fs.S3FileSystem(
        access_key=OWNER[0], secret_key=OWNER[1], endpoint_override=guarded.endpoint, region="us-east-1"
    )
    table = pa.table({"a": range(300_000), "b": [str(n % 77) for n in range(300_000)]})
    pq.write_table(table, f"{bucket}/arrow/t.parquet", filesystem=store)
    assert pq.read_table(f"{bucket}/arrow/t.parquet", filesystem=store).equals(table)
    with store.open_output_stream(f"{bucket}/arrow/large") as stream:
        for _ in range(12):
            stream.write(b"x" * MIB)
    assert store.get_file_info(f"{bucket}/arrow/large").size == 12 * MIB
    if bucket == "lake":
        before = guarded_requests(guarded)
        assert pq.read_table("lake/arrow/t.parquet", filesystem=store).equals(table)
        assert guarded_requests(guarded) == before, "the second read came from the cache"


@pytest.mark.parametrize("bucket", ["lake", "folder"])
def test_a_download_that_goes_on_is_never_of_two_versions(guarded: Node, owner: Any, bucket: str) -> None:
    old = owner.put_object(Bucket=bucket, Key="resumed", Body=b"old" * 10)["ETag"]
    changed = owner.head_object(Bucket=bucket, Key="resumed")["LastModified"].strftime("%a, %d %b %Y %H:%M:%S GMT")

    def resume(if_range: str) -> tuple[int, bytes]:
        raw = Raw("GET", bucket, "resumed", headers={"range": "bytes=3-5", "if-range": if_range})
        answer = send(guarded.endpoint, OWNER, raw)
        return answer.status, answer.body

    assert resume(old) == (206, b"old")
    assert resume(changed) == (206, b"old")
    owner.put_object(Bucket=bucket, Key="resumed", Body=b"newer" * 10)
    assert resume(old) == (200, b"newer" * 10)
    assert resume("Sat, 01 Jan 2000 00:00:00 GMT") == (200, b"newer" * 10)


@pytest.mark.parametrize("bucket", ["lake", "folder"])
def test_a_client_that_waits_to_send_nothing_is_told_to_go_on(guarded: Node, bucket: str) -> None:
    """aws-cli expects "100 Continue" for an empty file too, and waited a minute for it."""
    answer = send(guarded.endpoint, OWNER, Raw("PUT", bucket, "empty", headers={"expect": "100-continue"}))
    assert (answer.status, answer.headers["connection"]) == (200, "close")


def test_a_node_without_keys_answers_to_local_names_only(start: Callable[..., Node], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a").write_bytes(b"x")
    node = start([Bucket("lake", str(tmp_path / "lake"))], "--domain", "s3.example.com")
    for host in ("localhost", "127.0.0.1", "[::1]:9000", "lake.s3.example.com"):
        path = "/a" if host.startswith("lake") else "/lake/a"
        assert request(node.endpoint, "GET", path, headers={"host": host}).status == 200, host
    for headers in ({"host": "evil.example"}, {"host": "localhost", "origin": "http://evil.example"}):
        for door, path in [(node.endpoint, "/lake/a"), (node.admin, "/api/stats"), (node.admin, "/healthz")]:
            assert request(door, "GET", path, headers=headers).status == 403, (headers, path)
    evict = request(node.admin, "POST", "/api/evict", "{}", {"content-type": "text/plain"})
    assert evict.status == 415


def test_a_page_of_an_allowed_site_reads_and_others_do_not(start: Callable[..., Node], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a").write_bytes(b"0123456789")
    site = "https://app.example"
    bucket = Bucket("lake", str(tmp_path / "lake"), more=f'[[bucket.cors]]\norigins = ["{site}"]')
    node = start([bucket, Bucket("other", str(tmp_path))])
    asked = {"access-control-request-method": "GET", "access-control-request-headers": "range"}
    for path, origin, status in [
        ("/lake/a", site, 200),
        ("/lake/a", "https://evil.example", 403),
        ("/other/lake/a", site, 403),
    ]:
        question = request(node.endpoint, "OPTIONS", path, headers=asked | {"origin": origin})
        answer = request(node.endpoint, "GET", path, headers={"origin": origin, "range": "bytes=1-2"})
        assert (question.status, answer.status) == (status, 206 if status == 200 else 403), (path, origin)
        assert question.headers["access-control-allow-origin"] == (site if status == 200 else None)
    answer = request(node.endpoint, "GET", "/lake/a", headers={"origin": site})
    assert (answer.headers["access-control-allow-origin"], answer.body) == (site, b"0123456789")
    assert "etag" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in request(node.endpoint, "GET", "/lake/a").headers


@pytest.mark.parametrize("bucket", ["ruled", "closed"])
def test_what_an_origin_lets_pages_read_is_up_to_the_node(
    start: Callable[..., Node], moto: Moto, bucket: str
) -> None:
    """The origin allows any page: the node's rules apply to forwarded requests too."""
    moto.s3.create_bucket(Bucket=f"pages-{bucket}")
    moto.s3.put_object(Bucket=f"pages-{bucket}", Key="a", Body=b"x")
    site = "https://app.example"
    rule = f'[[bucket.cors]]\norigins = ["{site}"]' if bucket == "ruled" else ""
    node = start([Bucket.of_origin(moto.endpoint, bucket, at=f"pages-{bucket}", more=rule)])
    for path in ("/a", "?list-type=2", "/a?tagging", "/missing"):
        for page in ("http://localhost:5000", None, site):
            answer = request(node.endpoint, "GET", f"/{bucket}{path}", headers={"origin": page} if page else {})
            told = {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}
            if page == site and bucket == "ruled":
                assert told.pop("access-control-allow-origin") == site, path
                assert "etag" in told.pop("access-control-expose-headers"), path
            assert told == {}, (path, page)


def test_answers_differ_by_page_where_a_rule_tells_pages_apart(start: Callable[..., Node], tmp_path: Path) -> None:
    """A cache between must not serve the answer for one page, or for none, to another."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a").write_bytes(b"x")
    ruled = Bucket("lake", str(tmp_path / "lake"), more='[[bucket.cors]]\norigins = ["https://app.example"]')
    node = start([ruled, Bucket("closed", str(tmp_path / "lake"))])
    for page in ("https://app.example", "http://localhost:5000", None):
        headers = {"origin": page} if page else {}
        for method in ("GET", "HEAD"):
            assert request(node.endpoint, method, "/lake/a", headers=headers).headers["vary"] == "Origin", page
    assert "vary" not in request(node.endpoint, "GET", "/closed/a").headers


@pytest.mark.parametrize("bucket", ["lake", "folder"])
def test_a_refused_head_tells_no_length(guarded: Node, owner: Any, bucket: str) -> None:
    """DuckDB-Wasm takes the length of any HEAD response as the length of the object: it would truncate the object."""
    owner.put_object(Bucket=bucket, Key="measured", Body=b"x" * 5000)
    signing = s3_client(guarded.endpoint, *OWNER, signature_version="s3v4")
    url = signing.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "measured"})
    answers = [
        request(guarded.endpoint, "HEAD", url.removeprefix(guarded.endpoint)),
        request(guarded.endpoint, "HEAD", f"/{bucket}/measured"),
        send(guarded.endpoint, OWNER, Raw("HEAD", bucket, "missing")),
    ]
    assert [answer.status for answer in answers] == [403, 403, 404]
    assert [answer.headers["content-length"] for answer in answers] == [None] * 3


def test_a_folder_has_no_prefix_without_a_key(guarded: Node, owner: Any) -> None:
    owner.put_object(Bucket="folder", Key="_temporary/0/task/part", Body=b"x")
    owner.put_object(Bucket="folder", Key="_temporary/kept", Body=b"x")
    owner.delete_object(Bucket="folder", Key="_temporary/0/task/part")

    def listed() -> tuple[list[str], list[str]]:
        found = owner.list_objects_v2(Bucket="folder", Prefix="_temporary/", Delimiter="/")
        keys = [entry["Key"] for entry in found.get("Contents", [])]
        return keys, [entry["Prefix"] for entry in found.get("CommonPrefixes", [])]

    assert listed() == (["_temporary/kept"], [])
    owner.delete_objects(Bucket="folder", Delete={"Objects": [{"Key": "_temporary/kept"}]})
    assert listed() == ([], [])
    upload = owner.create_multipart_upload(Bucket="folder", Key="up")["UploadId"]
    owner.abort_multipart_upload(Bucket="folder", Key="up", UploadId=upload)
    assert not (guarded.log_path.parent / "folder" / ".stylobate-uploads").exists()


def test_a_refused_request_is_a_line_of_the_log(guarded: Node, team: Any) -> None:
    assert refusal(lambda: team.get_object(Bucket="lake", Key="other/logged")) == 403
    line = next(line for line in guarded.log().splitlines() if "other/logged" in line)
    for told in ["request refused", "GetObject", "lake", TEAM[0], "127.0.0.1", "AccessDenied"]:
        assert told in line, (told, line)
    assert TEAM[1] not in guarded.log()


def test_sighup_ends_no_node(start: Callable[..., Node], tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    node = start([Bucket("lake", str(tmp_path / "lake"))])
    node.process.send_signal(signal.SIGHUP)
    wait_for("the line of the log", lambda: "SIGHUP" in node.log())
    assert request(node.endpoint, "GET", "/lake?list-type=2").status == 200
