"""A folder behind the S3 door keeps everything that a bucket does: any key, headers, tags, checksums, directory markers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servers import AccessKey, Bucket, Node, s3_client

KEY = ("folder-id", "folder-secret-77aa")
MIB = 1 << 20
ODD_KEYS = ["a//b", "../up", "/abs", "t/", "a/./b", "c\\d", "ü b+%2F", "tab\tkey", ".stylobate-marker", "x/../y"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is the bucket `lake`."""
    lake = tmp_path_factory.mktemp("folders") / "lake"
    lake.mkdir()
    return lake


@pytest.fixture(scope="module")
def node(lake: Path) -> Iterator[Node]:
    node = Node(lake.parent, [Bucket("lake", str(lake))], keys=[AccessKey(*KEY, write=True)])
    yield node
    assert node.stop() == 0


@pytest.fixture
def s3(node: Node, lake: Path) -> Iterator[Any]:
    client = s3_client(node.endpoint, *KEY)
    yield client
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="lake"):
        for found in page.get("Contents", []):
            client.delete_object(Bucket="lake", Key=found["Key"])
    assert list(lake.iterdir()) == [], "nothing is left of what was deleted"


def md5(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def refusal(call: Callable[[], Any]) -> tuple[str, int]:
    with pytest.raises(ClientError) as failed:
        call()
    answer = failed.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def keys_of(s3: Any, **options: Any) -> list[str]:
    found = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="lake", **options):
        found += [entry["Key"] for entry in page.get("Contents", [])]
        found += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
    return found


def test_all_that_a_put_says_comes_back(s3: Any) -> None:
    said = {
        "ContentType": "text/x",
        "ContentEncoding": "gzip",
        "ContentDisposition": "inline",
        "ContentLanguage": "de",
        "CacheControl": "no-store",
        "Metadata": {"who": "me"},
        "StorageClass": "STANDARD_IA",
    }
    put = s3.put_object(
        Bucket="lake", Key="a/x", Body=b"hello", Tagging="k=v&z=1", ChecksumAlgorithm="SHA256", Expires=1900000000, **said
    )
    assert put["ETag"] == md5(b"hello")

    s3.copy_object(Bucket="lake", Key="copy", CopySource="lake/a/x")
    for key in ["a/x", "copy"]:
        head = s3.head_object(Bucket="lake", Key=key, ChecksumMode="ENABLED")
        assert {name: head[name] for name in said} == said
        assert (head["ETag"], head["TagCount"], head["ChecksumSHA256"]) == (md5(b"hello"), 2, put["ChecksumSHA256"])
        assert head["Expires"].year == 2030
        tags = s3.get_object_tagging(Bucket="lake", Key=key)["TagSet"]
        assert tags == [{"Key": "k", "Value": "v"}, {"Key": "z", "Value": "1"}]
        assert s3.list_objects_v2(Bucket="lake", Prefix=key)["Contents"][0]["ETag"] == md5(b"hello")
        attributes = s3.get_object_attributes(Bucket="lake", Key=key, ObjectAttributes=["Checksum", "ObjectSize"])
        assert attributes["ObjectSize"] == 5
        assert attributes["Checksum"]["ChecksumSHA256"] == put["ChecksumSHA256"]


def test_a_copy_replaces_what_it_says_and_is_bound_by_its_condition(s3: Any) -> None:
    etag = s3.put_object(Bucket="lake", Key="a", Body=b"data", Metadata={"old": "1"}, Tagging="k=v")["ETag"]
    s3.copy_object(
        Bucket="lake",
        Key="b",
        CopySource="lake/a",
        CopySourceIfMatch=etag,
        MetadataDirective="REPLACE",
        Metadata={"new": "2"},
        ContentType="a/b",
        TaggingDirective="REPLACE",
        Tagging="n=2",
    )
    head = s3.head_object(Bucket="lake", Key="b")
    assert (head["Metadata"], head["ContentType"], head["ETag"]) == ({"new": "2"}, "a/b", etag)
    assert s3.get_object_tagging(Bucket="lake", Key="b")["TagSet"] == [{"Key": "n", "Value": "2"}]
    stale = lambda: s3.copy_object(Bucket="lake", Key="c", CopySource="lake/a", CopySourceIfMatch='"no"')
    assert refusal(stale) == ("PreconditionFailed", 412)


def test_tags_are_replaced_and_deleted(s3: Any) -> None:
    s3.put_object(Bucket="lake", Key="a", Body=b"data")
    assert s3.get_object_tagging(Bucket="lake", Key="a")["TagSet"] == []
    s3.put_object_tagging(Bucket="lake", Key="a", Tagging={"TagSet": [{"Key": "x", "Value": "y z"}]})
    assert s3.get_object_tagging(Bucket="lake", Key="a")["TagSet"] == [{"Key": "x", "Value": "y z"}]
    assert s3.head_object(Bucket="lake", Key="a")["TagCount"] == 1
    s3.delete_object_tagging(Bucket="lake", Key="a")
    assert s3.get_object_tagging(Bucket="lake", Key="a")["TagSet"] == []
    assert s3.get_object(Bucket="lake", Key="a")["ETag"] == md5(b"data")
    twice = {"TagSet": [{"Key": "x", "Value": "1"}, {"Key": "x", "Value": "2"}]}
    assert refusal(lambda: s3.put_object_tagging(Bucket="lake", Key="a", Tagging=twice)) == ("InvalidTag", 400)


def test_keys_of_all_kinds_are_put_listed_read_copied_and_deleted(s3: Any) -> None:
    for key in ODD_KEYS:
        s3.put_object(Bucket="lake", Key=key, Body=key.encode())
    assert keys_of(s3) == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert s3.get_object(Bucket="lake", Key=key)["Body"].read() == key.encode()
        s3.copy_object(Bucket="lake", Key=f"copies/{key}", CopySource={"Bucket": "lake", "Key": key})
        assert s3.head_object(Bucket="lake", Key=f"copies/{key}")["ETag"] == md5(key.encode())
    assert keys_of(s3, Prefix="a/", Delimiter="/") == ["a/./", "a//"]
    answer = s3.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": key} for key in ODD_KEYS]})
    assert "Errors" not in answer
    assert all(key.startswith("copies/") for key in keys_of(s3))


def test_a_marker_is_a_key_and_a_directory_goes_with_its_last_key(s3: Any, lake: Path) -> None:
    s3.put_object(Bucket="lake", Key="t/", Body=b"")
    assert s3.head_object(Bucket="lake", Key="t/")["ContentLength"] == 0
    assert refusal(lambda: s3.head_object(Bucket="lake", Key="t")) == ("404", 404)
    assert keys_of(s3, Delimiter="/") == ["t/"]

    s3.put_object(Bucket="lake", Key="t/u/a", Body=b"x")
    assert keys_of(s3, Prefix="t/", Delimiter="/") == ["t/", "t/u/"]
    s3.delete_object(Bucket="lake", Key="t/u/a")
    assert keys_of(s3, Prefix="t/", Delimiter="/") == ["t/"]
    s3.delete_object(Bucket="lake", Key="t/")
    assert not (lake / "t").exists()

    (lake / "empty").mkdir()
    assert keys_of(s3, Delimiter="/") == ["empty/"]
    (lake / "empty").rmdir()


def test_an_upload_in_parts_has_the_etag_of_its_parts(s3: Any) -> None:
    parts = [os.urandom(5 * MIB), b"tail"]
    begun = s3.create_multipart_upload(Bucket="lake", Key="m/p", Metadata={"q": "r"}, Tagging="t=1")["UploadId"]
    sent = [
        s3.upload_part(Bucket="lake", Key="m/p", UploadId=begun, PartNumber=number, Body=part)["ETag"]
        for number, part in enumerate(parts, 1)
    ]
    assert sent == [md5(part) for part in parts]
    listed = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(sent, 1)]}
    complete = lambda **more: s3.complete_multipart_upload(
        Bucket="lake", Key="m/p", UploadId=begun, MultipartUpload=listed, **more
    )
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    expected = f'"{hashlib.md5(digests).hexdigest()}-2"'

    wrong = {"ChecksumCRC64NVME": "AAAAAAAAAAA=", "ChecksumType": "FULL_OBJECT"}
    assert refusal(lambda: complete(**wrong)) == ("BadDigest", 400)
    assert keys_of(s3) == []
    assert complete()["ETag"] == expected
    assert complete()["ETag"] == expected, "a request that is sent again has the same answer"
    head = s3.head_object(Bucket="lake", Key="m/p")
    assert (head["ETag"], head["Metadata"], head["TagCount"]) == (expected, {"q": "r"}, 1)
    assert s3.get_object(Bucket="lake", Key="m/p")["Body"].read() == b"".join(parts)


def test_small_parts_are_refused(s3: Any) -> None:
    begun = s3.create_multipart_upload(Bucket="lake", Key="m")["UploadId"]
    part = lambda number: s3.upload_part(Bucket="lake", Key="m", UploadId=begun, PartNumber=number, Body=b"x")
    listed = {"Parts": [{"PartNumber": number, "ETag": part(number)["ETag"]} for number in [1, 2]]}
    complete = lambda: s3.complete_multipart_upload(Bucket="lake", Key="m", UploadId=begun, MultipartUpload=listed)
    assert refusal(complete) == ("EntityTooSmall", 400)
    s3.abort_multipart_upload(Bucket="lake", Key="m", UploadId=begun)


@pytest.mark.parametrize("size", [4, 40 * MIB])
def test_writes_and_deletions_depend_on_the_object(s3: Any, size: int) -> None:
    body = os.urandom(size)
    put = lambda **condition: s3.put_object(Bucket="lake", Key="a", Body=body, **condition)
    assert refusal(lambda: put(IfMatch="*")) == ("NoSuchKey", 404)
    etag = put(IfNoneMatch="*")["ETag"]
    assert etag == md5(body)
    failed = ("PreconditionFailed", 412)
    assert refusal(lambda: put(IfNoneMatch="*")) == failed
    assert refusal(lambda: put(IfMatch='"other"')) == failed
    put(IfMatch=etag)
    assert refusal(lambda: s3.delete_object(Bucket="lake", Key="a", IfMatch='"other"')) == failed
    s3.delete_object(Bucket="lake", Key="a", IfMatch=etag)
    assert keys_of(s3) == []


def test_what_sdks_ask_by_themselves_is_answered(s3: Any) -> None:
    s3.put_object(Bucket="lake", Key="a", Body=b"x")
    none = {
        "encryption": "ServerSideEncryptionConfigurationNotFoundError",
        "policy": "NoSuchBucketPolicy",
        "policy_status": "NoSuchBucketPolicy",
        "lifecycle_configuration": "NoSuchLifecycleConfiguration",
        "cors": "NoSuchCORSConfiguration",
        "tagging": "NoSuchTagSet",
        "website": "NoSuchWebsiteConfiguration",
        "replication": "ReplicationConfigurationNotFoundError",
        "ownership_controls": "OwnershipControlsNotFoundError",
    }
    for question, code in none.items():
        assert refusal(lambda: getattr(s3, f"get_bucket_{question}")(Bucket="lake")) == (code, 404)
    for question in ["acl", "logging", "versioning", "location", "request_payment", "accelerate_configuration"]:
        getattr(s3, f"get_bucket_{question}")(Bucket="lake")
    assert refusal(lambda: s3.get_object_lock_configuration(Bucket="lake"))[1] == 404
    assert refusal(lambda: s3.get_public_access_block(Bucket="lake"))[1] == 404
    assert s3.get_object_acl(Bucket="lake", Key="a")["Grants"][0]["Permission"] == "FULL_CONTROL"

    versions = s3.list_object_versions(Bucket="lake")["Versions"]
    assert [(found["Key"], found["VersionId"], found["IsLatest"]) for found in versions] == [("a", "null", True)]
    assert s3.get_object(Bucket="lake", Key="a", VersionId="null")["Body"].read() == b"x"


def test_links_out_of_the_folder_are_no_objects(s3: Any, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (lake / "in").mkdir()
    (lake / "in" / "file").write_text("inside")
    (lake / "in" / "out").symlink_to(tmp_path / "secret")
    (lake / "in" / "near").symlink_to("file")
    os.mkfifo(lake / "in" / "pipe")

    assert keys_of(s3) == ["in/file", "in/near"]
    assert s3.get_object(Bucket="lake", Key="in/near")["Body"].read() == b"inside"
    for key in ["in/out", "in/pipe"]:
        assert refusal(lambda: s3.get_object(Bucket="lake", Key=key)) == ("NoSuchKey", 404)
    for name in ["out", "near", "pipe", "file"]:
        (lake / "in" / name).unlink()
    (lake / "in").rmdir()


def test_a_file_that_is_written_in_place_is_seen_even_if_its_time_is_put_back(s3: Any, lake: Path) -> None:
    file = lake / "a"
    s3.put_object(Bucket="lake", Key="a", Body=b"before")
    times = file.stat()
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns - 10_000_000_000))
    old = file.stat()
    assert s3.get_object(Bucket="lake", Key="a")["Body"].read() == b"before"
    with file.open("r+b") as open_file:
        open_file.write(b"after!")
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))

    keys_of(s3)
    assert s3.get_object(Bucket="lake", Key="a")["Body"].read() == b"after!"
