"""boto3 through a node: its reads and writes match the origin."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from proxy import Proxy
from servers import Bucket, Moto, Node, Origin, request, s3_client

MIB = 1 << 20


def random_bytes(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def body(s3: Any, bucket: str, key: str, **more: Any) -> bytes:
    return s3.get_object(Bucket=bucket, Key=key, **more)["Body"].read()


def refusal(call: Callable[[], Any]) -> tuple[int, str]:
    """Returns the status and code of the error that a call raises."""
    with pytest.raises(ClientError) as failed:
        call()
    answer = failed.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


@pytest.fixture(scope="module")
def large(origin: Origin) -> tuple[str, bytes]:
    """An object of several pages, the last of them partial."""
    data = random_bytes(5 * MIB + 12_345)
    origin.s3.put_object(Bucket="lake", Key="boto3/large", Body=data)
    return "boto3/large", data


# Reads


def test_a_whole_object_is_read_as_the_origin_has_it(s3: Any, large: tuple[str, bytes]) -> None:
    assert body(s3, "lake", large[0]) == large[1]


def test_a_second_read_asks_the_origin_for_nothing(node: Node, proxy: Proxy, origin: Origin, prefix: str) -> None:
    data = random_bytes(3 * MIB + 1)
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=data)
    assert body(node.s3, "lake", prefix + "a") == data
    gets, heads = node.origin_requests("lake")
    seen = proxy.count("GET"), proxy.count("HEAD")
    for _ in range(3):
        assert body(node.s3, "lake", prefix + "a") == data
        assert body(node.s3, "lake", prefix + "a", Range="bytes=1000000-2000000") == data[1_000_000:2_000_001]
        node.s3.head_object(Bucket="lake", Key=prefix + "a")
    assert node.origin_requests("lake") == (gets, heads)
    assert (proxy.count("GET"), proxy.count("HEAD")) == seen


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 8 * MIB + 5])
def test_sizes_around_a_page_come_back_whole(s3: Any, origin: Origin, prefix: str, size: int) -> None:
    data = random_bytes(size, size)
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=data)
    for _ in range(2):
        assert body(s3, "lake", prefix + "a") == data


RANGES = [
    "bytes=0-0",
    "bytes=0-",
    "bytes=1-",
    "bytes=-1",
    "bytes=-100",
    "bytes=-999999999",
    f"bytes={MIB - 1}-{MIB}",
    f"bytes={MIB}-{2 * MIB - 1}",
    f"bytes={MIB + 7}-{4 * MIB + 9}",
    f"bytes={5 * MIB + 12_344}-",
    f"bytes={5 * MIB}-999999999",
]


@pytest.mark.parametrize("wanted", RANGES)
def test_a_range_is_what_the_origin_answers(s3: Any, origin: Origin, large: tuple[str, bytes], wanted: str) -> None:
    key, data = large
    first, last = wanted.removeprefix("bytes=").split("-")
    start = int(first) if first else max(0, len(data) - int(last))
    end = min(int(last) + 1, len(data)) if first and last else len(data)
    for client in (s3, s3):
        got = client.get_object(Bucket="lake", Key=key, Range=wanted)
        assert got["Body"].read() == data[start:end]
        assert got["ContentRange"] == f"bytes {start}-{end - 1}/{len(data)}"
        assert got["ContentLength"] == end - start
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    if len(wanted) < 20 and not wanted.endswith("999999999"):
        assert body(origin.s3, "lake", key, Range=wanted) == data[start:end]


@pytest.mark.parametrize("wanted", ["bytes=6000000-", "bytes=6000000-7000000", "bytes=-0"])
def test_a_range_beyond_the_end_is_416(s3: Any, large: tuple[str, bytes], wanted: str) -> None:
    assert refusal(lambda: body(s3, "lake", large[0], Range=wanted)) == (416, "InvalidRange")


@pytest.mark.parametrize("wanted", ["bytes=5-2", "bytes=a-b", "lines=1-2", "bytes=", "bytes=0-1,5-6"])
def test_a_range_that_is_none_is_left_out_as_s3_does(s3: Any, large: tuple[str, bytes], wanted: str) -> None:
    got = s3.get_object(Bucket="lake", Key=large[0], Range=wanted)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert got["Body"].read() == large[1]


def test_many_readers_of_random_ranges_get_the_right_bytes(node: Node, large: tuple[str, bytes]) -> None:
    key, data = large

    def read(seed: int) -> bool:
        rng = random.Random(seed)
        for _ in range(20):
            start = rng.randrange(len(data))
            end = min(len(data), start + rng.randrange(1, 3 * MIB))
            if body(node.s3, "lake", key, Range=f"bytes={start}-{end - 1}") != data[start:end]:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))


def test_readers_that_come_at_once_share_one_fetch(node: Node, proxy: Proxy, origin: Origin, prefix: str) -> None:
    data = random_bytes(6 * MIB)
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=data)
    before = proxy.bytes_out
    proxy.delay_s = 0.2
    try:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: body(node.s3, "lake", prefix + "a"), range(8))) == {data}
    finally:
        proxy.delay_s = 0.0
    assert proxy.bytes_out - before <= len(data) + MIB


def test_a_body_is_streamed_in_pieces(s3: Any, large: tuple[str, bytes]) -> None:
    stream = s3.get_object(Bucket="lake", Key=large[0], Range=f"bytes=100-{3 * MIB}")["Body"]
    assert b"".join(stream.iter_chunks(10_007)) == large[1][100 : 3 * MIB + 1]


def test_download_fileobj_fetches_parts_in_threads(s3: Any, large: tuple[str, bytes]) -> None:
    got = io.BytesIO()
    s3.download_fileobj("lake", large[0], got, Config=TransferConfig(MIB, 4, multipart_chunksize=MIB))
    assert got.getvalue() == large[1]


def test_what_is_not_there_is_404(s3: Any) -> None:
    assert refusal(lambda: body(s3, "lake", "no/such/key")) == (404, "NoSuchKey")
    assert refusal(lambda: s3.head_object(Bucket="lake", Key="no/such/key"))[0] == 404
    assert refusal(lambda: body(s3, "desert", "a")) == (404, "NoSuchBucket")
    assert refusal(lambda: s3.head_bucket(Bucket="desert"))[0] == 404


# Conditions and headers


def test_conditional_reads_are_answered_as_by_s3(s3: Any, large: tuple[str, bytes]) -> None:
    key, data = large
    known = s3.head_object(Bucket="lake", Key=key)
    tag, changed = known["ETag"], known["LastModified"]
    hour = datetime.timedelta(hours=1)
    for held in (
        {"IfMatch": tag},
        {"IfNoneMatch": '"other"'},
        {"IfModifiedSince": changed - hour},
        {"IfUnmodifiedSince": changed},
        {"IfMatch": tag, "IfUnmodifiedSince": changed - hour},
    ):
        assert body(s3, "lake", key, **held) == data, held
    for failed in ({"IfMatch": '"other"'}, {"IfUnmodifiedSince": changed - hour}):
        assert refusal(lambda failed=failed: body(s3, "lake", key, **failed)) == (412, "PreconditionFailed"), failed
    for same in ({"IfNoneMatch": tag}, {"IfModifiedSince": changed}):
        assert refusal(lambda same=same: body(s3, "lake", key, **same))[0] == 304, same
        assert refusal(lambda same=same: s3.head_object(Bucket="lake", Key=key, **same))[0] == 304, same


def test_head_tells_what_the_origin_tells(s3: Any, origin: Origin, prefix: str) -> None:
    described = {
        "ContentType": "application/vnd.apache.parquet",
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="a.parquet"',
        "ContentLanguage": "en",
        "ContentEncoding": "gzip",
        "Metadata": {"owner": "me", "row-count": "17"},
    }
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=b"12345", **described)
    truth = origin.s3.head_object(Bucket="lake", Key=prefix + "a")
    for answer in (s3.head_object(Bucket="lake", Key=prefix + "a"), s3.get_object(Bucket="lake", Key=prefix + "a")):
        for name in [*described, "ETag", "ContentLength", "LastModified"]:
            assert answer[name] == truth[name], name


def test_a_response_header_can_be_asked_for(s3: Any, large: tuple[str, bytes]) -> None:
    asked = {
        "ResponseContentType": "text/x",
        "ResponseCacheControl": "no-store",
        "ResponseContentDisposition": "inline",
        "ResponseContentEncoding": "identity",
        "ResponseContentLanguage": "de",
    }
    got = s3.get_object(Bucket="lake", Key=large[0], Range="bytes=0-3", **asked)
    for name, value in asked.items():
        assert got[name.removeprefix("Response")] == value, name
    assert got["Body"].read() == large[1][:4]


# Writes


@pytest.mark.parametrize("algorithm", [None, "CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"])
def test_a_put_with_a_checksum_is_at_the_origin(s3: Any, origin: Origin, prefix: str, algorithm: str | None) -> None:
    data = random_bytes(300_001)
    chosen = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    put = s3.put_object(Bucket="lake", Key=prefix + "a", Body=data, ContentType="text/x", **chosen)
    assert body(origin.s3, "lake", prefix + "a") == body(s3, "lake", prefix + "a") == data
    truth = origin.s3.head_object(Bucket="lake", Key=prefix + "a")
    assert (put["ETag"], "text/x") == (truth["ETag"], truth["ContentType"])
    if algorithm:
        assert put[f"Checksum{algorithm}"]


def test_a_put_with_a_wrong_checksum_leaves_nothing(shelves: dict[str, Node]) -> None:
    # Not every S3 server checks all checksums; the node itself checks what it puts into a folder.
    s3 = shelves["folder"].s3
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    put = {"Bucket": "lake", "Key": "wrong", "Body": b"bytes"}
    assert refusal(lambda: s3.put_object(**put, ChecksumSHA256=wrong))[0] == 400
    assert refusal(lambda: s3.put_object(**put, ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg=="))[0] == 400
    assert refusal(lambda: body(s3, "lake", "wrong"))[0] == 404


def test_a_deletion_with_a_wrong_checksum_deletes_nothing(shelves: dict[str, Node]) -> None:
    gone = "<Delete><Object><Key>kept</Key></Object></Delete>"
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    for node in shelves.values():
        node.s3.put_object(Bucket="lake", Key="kept", Body=b"x")
        for name, value in [("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="), ("x-amz-checksum-sha256", wrong)]:
            assert request(node.endpoint, "POST", "/lake?delete", gone, {name: value}).status == 400, name
        assert request(node.endpoint, "POST", "/lake?delete", gone, {"content-md5": ""}).status == 400
        assert body(node.s3, "lake", "kept") == b"x"


def test_upload_file_sends_parts_in_threads(s3: Any, origin: Origin, prefix: str, tmp_path: Any) -> None:
    data = random_bytes(23 * MIB + 77)
    (tmp_path / "file").write_bytes(data)
    parts = TransferConfig(multipart_threshold=6 * MIB, multipart_chunksize=6 * MIB, max_concurrency=4)
    more = {"Metadata": {"owner": "me"}, "ContentType": "text/x"}
    s3.upload_file(str(tmp_path / "file"), "lake", prefix + "a", ExtraArgs=more, Config=parts)
    assert body(origin.s3, "lake", prefix + "a") == data
    assert body(s3, "lake", prefix + "a") == data
    known = s3.head_object(Bucket="lake", Key=prefix + "a")
    assert (known["Metadata"], known["ContentType"], known["ContentLength"]) == ({"owner": "me"}, "text/x", len(data))
    assert known["ETag"] == origin.s3.head_object(Bucket="lake", Key=prefix + "a")["ETag"]


def test_an_upload_that_is_aborted_leaves_nothing(s3: Any, prefix: str) -> None:
    upload = {"Bucket": "lake", "Key": prefix + "a"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    s3.upload_part(**upload, PartNumber=1, Body=b"x" * 100)
    s3.abort_multipart_upload(**upload)
    assert refusal(lambda: s3.head_object(Bucket="lake", Key=prefix + "a"))[0] == 404
    assert refusal(lambda: s3.upload_part(**upload, PartNumber=2, Body=b"x"))[0] in (403, 404)


def test_a_write_happens_only_if_its_condition_holds(s3: Any, prefix: str) -> None:
    put = {"Bucket": "lake", "Key": prefix + "a"}
    first = s3.put_object(**put, Body=b"1", IfNoneMatch="*")
    assert refusal(lambda: s3.put_object(**put, Body=b"2", IfNoneMatch="*"))[0] == 412
    s3.put_object(**put, Body=b"3", IfMatch=first["ETag"])
    assert refusal(lambda: s3.put_object(**put, Body=b"4", IfMatch=first["ETag"]))[0] == 412
    assert body(s3, "lake", prefix + "a") == b"3"


def test_a_copy_is_the_same_object(s3: Any, origin: Origin, large: tuple[str, bytes], prefix: str) -> None:
    for bucket in ("lake", "pond"):
        s3.copy_object(Bucket=bucket, Key=prefix + "a b", CopySource={"Bucket": "lake", "Key": large[0]})
        assert body(s3, bucket, prefix + "a b") == body(origin.s3, bucket, prefix + "a b") == large[1]
    replaced = {"MetadataDirective": "REPLACE", "Metadata": {"new": "1"}, "ContentType": "text/x"}
    source = {"Bucket": "lake", "Key": prefix + "a b"}
    s3.copy_object(Bucket="lake", Key=prefix + "a b", CopySource=source, **replaced)
    known = s3.head_object(Bucket="lake", Key=prefix + "a b")
    assert (known["Metadata"], known["ContentType"]) == ({"new": "1"}, "text/x")


def test_what_is_deleted_is_gone_at_once(s3: Any, origin: Origin, prefix: str) -> None:
    keys = [f"{prefix}{n} +ü" for n in range(5)]
    for key in keys:
        s3.put_object(Bucket="lake", Key=key, Body=b"x")
        assert body(s3, "lake", key) == b"x"
    s3.delete_object(Bucket="lake", Key=keys[0])
    wanted = [{"Key": key} for key in [*keys[1:], prefix + "never-there"]]
    deleted = s3.delete_objects(Bucket="lake", Delete={"Objects": wanted})
    assert {found["Key"] for found in deleted["Deleted"]} == {found["Key"] for found in wanted}
    assert "Errors" not in deleted
    for key in keys:
        assert refusal(lambda key=key: body(s3, "lake", key))[0] == 404
        assert refusal(lambda key=key: body(origin.s3, "lake", key))[0] == 404
    s3.delete_object(Bucket="lake", Key=keys[0])


# Listings

KEYS = [
    "a",
    "a b",
    "a+b",
    "a%20b",
    "a%2Fb",
    "b/c",
    "b/d/e",
    "b/d/f",
    "b-c",
    "day=2024-01-01/x.parquet",
    "day=2024-01-02/x.parquet",
    "k&r=1;2",
    "quote'\"<>",
    "ü/ключ",
    "日本/語.parquet",
    "🙂",
    "z~!*()",
]


@pytest.fixture(scope="module")
def shelves(scratch: Path, moto: Moto) -> Iterator[dict[str, Node]]:
    """Nodes over a folder and over an S3 server, each with one bucket `lake`."""
    (scratch / "shelf").mkdir()
    moto.s3.create_bucket(Bucket="shelf")
    nodes = {
        "folder": Node(scratch / "over-shelf", [Bucket("lake", str(scratch / "shelf"))]),
        "s3": Node(scratch / "over-moto", [Bucket.of_origin(moto.endpoint, "lake", at="shelf")]),
    }
    yield nodes
    for node in nodes.values():
        assert node.stop() == 0


@pytest.fixture(scope="module", params=["folder", "s3"])
def shelf(request: pytest.FixtureRequest, shelves: dict[str, Node]) -> Any:
    """boto3 against a node whose bucket contains the keys of `listed`."""
    s3 = shelves[request.param].s3
    for key in KEYS:
        s3.put_object(Bucket="lake", Key=f"listing/{key}", Body=f"listing/{key}".encode())
    return s3


@pytest.fixture(scope="module")
def listed() -> list[str]:
    return sorted((f"listing/{key}" for key in KEYS), key=str.encode)


def pages(s3: Any, operation: str = "list_objects_v2", **asked: Any) -> tuple[list[str], list[str]]:
    """Returns the keys and common prefixes of all pages."""
    keys, prefixes = [], []
    size = asked.pop("PageSize", None)
    for page in s3.get_paginator(operation).paginate(Bucket="lake", PaginationConfig={"PageSize": size}, **asked):
        keys += [found["Key"] for found in page.get("Contents", [])]
        prefixes += [found["Prefix"] for found in page.get("CommonPrefixes", [])]
        assert size is None or len(page.get("Contents", [])) + len(page.get("CommonPrefixes", [])) <= size
    return keys, prefixes


def test_every_key_can_be_read_by_its_name(shelf: Any, listed: list[str]) -> None:
    for key in listed:
        assert body(shelf, "lake", key) == key.encode()
        assert shelf.head_object(Bucket="lake", Key=key)["ContentLength"] == len(key.encode())


@pytest.mark.parametrize("size", [None, 1, 3, 1000])
@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
def test_a_listing_has_every_key_once(shelf: Any, listed: list[str], operation: str, size: int | None) -> None:
    keys, prefixes = pages(shelf, operation, Prefix="listing/", PageSize=size)
    assert (sorted(keys, key=str.encode), prefixes) == (listed, [])


@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize(
    "prefix_asked", ["listing/", "listing/b", "listing/b/", "listing/day=", "listing/ü/", "listing/no"]
)
def test_a_delimiter_rolls_up_folders(shelf: Any, listed: list[str], prefix_asked: str, size: int | None) -> None:
    rest = [key.removeprefix(prefix_asked) for key in listed if key.startswith(prefix_asked)]
    folders = {prefix_asked + key[: key.index("/") + 1] for key in rest if "/" in key}
    objects = {prefix_asked + key for key in rest if "/" not in key}
    keys, prefixes = pages(shelf, Prefix=prefix_asked, Delimiter="/", PageSize=size)
    assert (set(keys), set(prefixes)) == (objects, folders)
    assert (len(keys), len(prefixes)) == (len(objects), len(folders))


def test_a_listing_begins_after_a_key(shelf: Any, listed: list[str]) -> None:
    for after in (listed[0], listed[5], "listing/b", listed[-1]):
        keys, _ = pages(shelf, Prefix="listing/", StartAfter=after, PageSize=4)
        assert sorted(keys, key=str.encode) == [key for key in listed if key.encode() > after.encode()]


def test_a_listing_tells_size_time_and_tag(shelf: Any, listed: list[str]) -> None:
    found = shelf.list_objects_v2(Bucket="lake", Prefix="listing/")["Contents"]
    assert len(found) == len(listed)
    for entry in found:
        head = shelf.head_object(Bucket="lake", Key=entry["Key"])
        # HTTP dates have no fractions of a second.
        told = entry["Size"], entry["LastModified"].replace(microsecond=0), entry.get("ETag")
        assert told == (head["ContentLength"], head["LastModified"], head["ETag"])


def test_max_keys_0_lists_nothing_and_buckets_are_listed(s3: Any) -> None:
    empty = s3.list_objects_v2(Bucket="lake", MaxKeys=0)
    assert (empty["KeyCount"], empty["IsTruncated"], empty.get("Contents")) == (0, False, None)
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["lake", "pond", "strict"]


# Addressing styles and signed URLs


def test_a_bucket_can_be_part_of_the_host(node: Node, large: tuple[str, bytes]) -> None:
    s3 = s3_client(f"http://localhost:{node.port}", style="virtual")
    key, data = large

    # Not every resolver resolves names below localhost: the node goes by the Host header.
    host = {"host": f"lake.localhost:{node.port}"}
    assert request(node.endpoint, "GET", f"/{key}", headers=host).body == data
    listing = request(node.endpoint, "GET", "/?list-type=2&prefix=boto3%2F", headers=host).body.decode()
    assert f"<Key>{key}</Key>" in listing
    url = s3.generate_presigned_url("get_object", {"Bucket": "lake", "Key": key})
    assert url.startswith(f"http://lake.localhost:{node.port}/{key}")
    path = url.split(str(node.port), 1)[1]
    assert request(node.endpoint, "GET", path, headers=host).body == data


def fetch(url: str, method: str = "GET", data: bytes | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as failed:
        return failed.code, failed.read()


def test_a_signed_url_reads_and_writes_without_keys_too(s3: Any, prefix: str) -> None:
    where = {"Bucket": "lake", "Key": prefix + "a +ü"}
    assert fetch(s3.generate_presigned_url("put_object", where), "PUT", b"bytes")[0] == 200
    assert fetch(s3.generate_presigned_url("get_object", where)) == (200, b"bytes")


# Freshness


def test_a_strict_bucket_has_new_bytes_at_once(node: Node, origin: Origin, prefix: str) -> None:
    for n in range(5):
        data = random_bytes(2 * MIB + 3, n)
        origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=data)
        for _ in range(2):
            assert body(node.s3, "strict", prefix + "a") == data
            assert body(node.s3, "strict", prefix + "a", Range="bytes=-5") == data[-5:]


def test_a_ttl_bucket_has_new_bytes_after_its_time(
    start: Callable[..., Node], proxy: Proxy, origin: Origin, prefix: str
) -> None:
    node = start([Bucket.of_origin(proxy.endpoint, "lake", consistency="700ms")], "--memory", "128MiB")
    old, new = random_bytes(MIB + 5, 1), random_bytes(MIB + 5, 2)
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=old)
    assert body(node.s3, "lake", prefix + "a") == old
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=new)
    replaced = time.monotonic()
    while (got := body(node.s3, "lake", prefix + "a")) == old:
        assert time.monotonic() - replaced < 1.5
        time.sleep(0.05)
    assert got == new


def test_an_immutable_bucket_never_asks_again(
    start: Callable[..., Node], proxy: Proxy, origin: Origin, prefix: str
) -> None:
    node = start([Bucket.of_origin(proxy.endpoint, "lake", consistency="immutable")], "--memory", "128MiB")
    old = random_bytes(MIB + 5, 1)
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=old)
    assert body(node.s3, "lake", prefix + "a") == old
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=random_bytes(MIB + 5, 2))
    before = proxy.count()
    assert body(node.s3, "lake", prefix + "a") == old
    assert proxy.count() == before


def test_what_is_written_through_the_node_is_read_at_once(s3: Any, prefix: str) -> None:
    for n in range(10):
        data = random_bytes(MIB + 9, n)
        s3.put_object(Bucket="lake", Key=prefix + "a", Body=data)
        assert body(s3, "lake", prefix + "a") == data
        assert body(s3, "lake", prefix + "a", Range="bytes=5-9") == data[5:10]


def test_an_object_that_is_replaced_while_it_is_read_is_never_mixed(
    start: Callable[..., Node], proxy: Proxy, origin: Origin, prefix: str
) -> None:
    """A reader gets one whole version, or an error in the middle: never pages of two versions."""
    node = start([Bucket.of_origin(proxy.endpoint, "lake", consistency="strict")], "--memory", "128MiB")
    versions = [random_bytes(12 * MIB, n) for n in range(2)]
    origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=versions[0])
    whole = 0
    for n in range(6):
        stream = node.s3.get_object(Bucket="lake", Key=prefix + "a")["Body"]
        got = stream.read(MIB)
        origin.s3.put_object(Bucket="lake", Key=prefix + "a", Body=versions[(n + 1) % 2])
        try:
            got += stream.read()
            whole += 1
        except Exception:
            pass
        assert versions[n % 2].startswith(got)
    assert body(node.s3, "lake", prefix + "a") == versions[0]
