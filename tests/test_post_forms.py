"""Uploads by HTML form, as a browser sends them: verified by the node's keys and by the form's policy, and stored as
the origin stores them. Each test that can runs in front of two S3 servers and a folder."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import html
import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError

from servers import (
    ORIGIN_KEY,
    ORIGIN_SECRET,
    REGION,
    AccessKey,
    Answer,
    Bucket,
    Moto,
    Node,
    Origin,
    VersityGw,
    request,
    s3_client,
    wait_for,
)
from test_forwarding import Recorder, recorder  # noqa: F401

OWNER = ("owner-id", "owner-secret-19c3")
READER = ("reader-id", "reader-secret-77d2")
TEAM = ("team-id", "team-secret-5e0f")
MIB = 1 << 20
FORM = "multipart/form-data"
BUCKETS = ["folder", "moto", "s3s", "below"]
PART = rb'\r\nContent-Disposition: form-data; name="([^"]*)"[^\n]*\r\n(?:Content-Type: image/gif\r\n)?\r\n(.*)\r\n'
Fields = dict[str, str] | list[tuple[str, str]]


@dataclass
class Form:
    """A form, written byte by byte."""

    fields: Fields
    file: bytes = b"bytes"
    file_name: str = "name.txt"
    more: bytes = b""
    boundary: str = "----WebKitFormBoundaryx7MA4YWxkTrZu0gW"
    end: bytes = b"\r\n"
    headers: dict[str, str] = field(default_factory=dict)

    def head(self) -> bytes:
        head = b""
        for name, value in self.fields.items() if isinstance(self.fields, dict) else self.fields:
            part = f'--{self.boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            head += part.encode()
        disposition = f'form-data; name="file"; filename="{self.file_name}"'
        part = f"--{self.boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: image/gif\r\n\r\n"
        return head + part.encode()

    def body(self) -> bytes:
        return self.head() + self.file + b"\r\n" + self.more + f"--{self.boundary}--".encode() + self.end

    def content_type(self) -> str:
        return f"{FORM}; boundary={self.boundary}"

    def send(self, node: Node, bucket: str) -> Answer:
        headers = {"content-type": self.content_type()} | self.headers
        return request(node.endpoint, "POST", f"/{bucket}", self.body(), headers)


def signed(key: tuple[str, str], policy: dict[str, Any], now: datetime.datetime | None = None) -> dict[str, str]:
    """Returns the fields that sign a policy, following the specification."""
    now = now or datetime.datetime.now(datetime.UTC)
    day = now.strftime("%Y%m%d")
    scope = f"{day}/{REGION}/s3/aws4_request"
    fields = {
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{key[0]}/{scope}",
        "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
    }
    conditions = [*policy["conditions"], *({name: value} for name, value in fields.items())]
    encoded = base64.b64encode(json.dumps(policy | {"conditions": conditions}).encode()).decode()
    secret = f"AWS4{key[1]}".encode()
    for part in [*scope.split("/"), encoded]:
        secret = hmac.digest(secret, part.encode(), "sha256")
    return fields | {"policy": encoded, "x-amz-signature": secret.hex()}


def later(**more: int) -> str:
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(**(more or {"hours": 1}))
    return until.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def allowed(bucket: str, fields: dict[str, str], key: tuple[str, str] = OWNER, *more: Any) -> dict[str, str]:
    """Returns the fields with a policy that allows exactly them, and further conditions."""
    conditions = [{"bucket": bucket}, *({name: value} for name, value in fields.items()), *more]
    return fields | signed(key, {"expiration": later(), "conditions": conditions})


def code(answer: Answer) -> tuple[int, str]:
    found = re.search(rb"<Code>(\w+)</Code>", answer.body)
    return answer.status, found[1].decode() if found else ""


def element(answer: Answer, name: str) -> str:
    found = re.search(f"<{name}>(.*)</{name}>", answer.body.decode(), re.DOTALL)
    assert found, answer
    return html.unescape(found[1])


def contents(s3: Any, bucket: str) -> dict[str, bytes]:
    """Returns all objects of a bucket."""
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def missing(s3: Any, bucket: str, key: str) -> bool:
    with pytest.raises(ClientError) as failed:
        s3.head_object(Bucket=bucket, Key=key)
    return failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


@pytest.fixture(scope="module")
def node(moto: Moto, origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with keys. `below` is a prefix of a bucket of another name, and `same` is another name of the bucket of
    `moto`."""
    root = tmp_path_factory.mktemp("forms")
    (root / "folder").mkdir()
    origin.bucket("forms")
    moto.s3.create_bucket(Bucket="forms")
    below = Bucket.of_origin(origin.endpoint, "below", at="forms/a b/below", consistency="1h")
    site = '[[bucket.cors]]\norigins = ["https://app.example"]\nmethods = ["POST"]'
    buckets = [
        Bucket("folder", str(root / "folder"), consistency="1h", more=site),
        Bucket.of_origin(moto.endpoint, "moto", at="forms", consistency="1h", more=site),
        Bucket.of_origin(moto.endpoint, "same", at="forms", consistency="1h"),
        Bucket.of_origin(origin.endpoint, "s3s", at="forms", consistency="1h"),
        below,
        Bucket("frozen", str(root / "folder"), read_only=True),
    ]
    keys = [
        AccessKey(*OWNER, write=True),
        AccessKey(*READER),
        AccessKey(*TEAM, write=True, prefixes=["team/", "shared"]),
    ]
    node = Node(root, buckets, "--domain", "localhost", keys=keys)
    yield node
    assert node.running(), node.log()[-2000:]
    assert node.stop() == 0


@pytest.fixture
def s3(node: Node) -> Any:
    return s3_client(node.endpoint, *OWNER)


def signer(node: Node) -> Any:
    """boto3 signs forms with version 2 by default."""
    return s3_client(node.endpoint, *OWNER, signature_version="s3v4")


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_form_of_boto3_is_stored(node: Node, s3: Any, bucket: str) -> None:
    data = bytes(range(256)) * 5000
    presigned = signer(node).generate_presigned_post(bucket, "boto/${filename}")
    assert presigned["url"] == f"{node.endpoint}/{bucket}"
    answer = Form(presigned["fields"], data, "ü b.gif").send(node, bucket)
    assert (answer.status, answer.body) == (204, b"")
    got = s3.get_object(Bucket=bucket, Key="boto/ü b.gif")
    assert got["Body"].read() == data
    assert answer.headers["etag"] in (got["ETag"], None)
    assert [found["Size"] for found in s3.list_objects_v2(Bucket=bucket, Prefix="boto/")["Contents"]] == [len(data)]


@pytest.mark.parametrize("bucket", ["folder", "s3s"])
def test_what_a_form_says_of_its_object_is_kept(node: Node, s3: Any, bucket: str) -> None:
    tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v w</Value></Tag></TagSet></Tagging>"
    fields = {
        "kEy": "said",
        "Content-Type": "image/png",
        "Cache-Control": "no-store",
        "Content-Disposition": 'attachment; filename="${filename}"',
        "X-Amz-Meta-Who": "me",
    } | ({"tagging": tags} if bucket == "folder" else {})
    conditions = [["starts-with", f"${name}", ""] for name in fields]
    policy = {"expiration": later(), "conditions": [{"bucket": bucket}, *conditions]}
    assert Form(fields | signed(OWNER, policy)).send(node, bucket).status == 204
    head = s3.head_object(Bucket=bucket, Key="said")
    assert (head["ContentType"], head["Metadata"], head["ContentLength"]) == ("image/png", {"who": "me"}, 5)
    if bucket == "folder":
        assert head["CacheControl"] == "no-store"
        assert head["ContentDisposition"] == 'attachment; filename="name.txt"'
        assert head["ETag"] == f'"{hashlib.md5(b"bytes").hexdigest()}"'
        assert s3.get_object_tagging(Bucket=bucket, Key="said")["TagSet"] == [{"Key": "k", "Value": "v w"}]


@pytest.mark.parametrize("bucket", ["folder", "s3s", "below"])
def test_a_form_says_what_follows(node: Node, bucket: str) -> None:
    def status(fields: dict[str, str]) -> Answer:
        return Form(allowed(bucket, {"key": "a b&c"} | fields)).send(node, bucket)

    etag = f'"{hashlib.md5(b"bytes").hexdigest()}"'
    for given, expected in [("200", 200), ("204", 204), ("404", 204)]:
        answer = status({"success_action_status": given})
        assert (answer.status, answer.body) == (expected, b""), given
        # s3s-fs returns it only in the XML.
        assert answer.headers["etag"] == etag or bucket != "folder"
    answer = status({"success_action_status": "201"})
    assert answer.status == 201
    assert element(answer, "PostResponse").startswith("<Location>")
    told = [element(answer, name) for name in ("Bucket", "Key", "ETag")]
    # s3s-fs returns the ETag without quotes.
    assert told == [bucket, "a b&c", etag if bucket == "folder" else etag.strip('"')]

    page = status({"success_action_redirect": "http://page.example/done?x=1"})
    assert page.status == 303
    told = urlsplit(page.headers["location"])
    assert (told.netloc, told.path) == ("page.example", "/done")
    parameters = parse_qs(told.query)
    assert parameters.pop("etag")[0].strip('"') == etag.strip('"')
    assert parameters == {"x": ["1"], "bucket": [bucket], "key": ["a b&c"]}


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_form_that_replaces_an_object_drops_it_from_the_cache(node: Node, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="replaced", Body=b"old" * 1000)
    assert s3.get_object(Bucket=bucket, Key="replaced")["Body"].read() == b"old" * 1000
    if bucket == "moto":
        assert s3.get_object(Bucket="same", Key="replaced")["Body"].read() == b"old" * 1000
    assert Form(allowed(bucket, {"key": "replaced"}), b"newer" * 1000).send(node, bucket).status == 204
    for shown in [bucket, "same"] if bucket == "moto" else [bucket]:
        assert s3.get_object(Bucket=shown, Key="replaced")["Body"].read() == b"newer" * 1000, shown


@pytest.mark.parametrize("bucket", BUCKETS)
def test_each_condition_that_fails_refuses_the_form(node: Node, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="kept", Body=b"old")

    def refused(fields: dict[str, str], *conditions: Any, file: bytes = b"bytes", until: str | None = None) -> Any:
        policy = {"expiration": until or later(), "conditions": list(conditions)}
        return code(Form({"key": "kept"} | fields | signed(OWNER, policy), file).send(node, bucket))

    here, any_key = {"bucket": bucket}, ["starts-with", "$key", ""]
    denied = (403, "AccessDenied")
    assert refused({}, here, {"key": "other"}) == denied
    assert refused({}, here, ["starts-with", "$key", "user/"]) == denied
    assert refused({}, any_key) == denied, "no condition for the bucket"
    assert refused({}, {"bucket": "other"}, any_key) == denied
    assert refused({"bucket": "other"}, {"bucket": bucket}, any_key)[0] in (400, 403)
    assert refused({}, here, any_key, {"acl": "private"}) == denied, "a field that is missing"
    assert refused({"Content-Type": "text/html"}, here, any_key, ["starts-with", "$Content-Type", "image/"]) == denied
    assert refused({"x-amz-meta-a": "1"}, here, any_key) == denied, "a field without a condition"
    assert refused({}, here, any_key, until=later(seconds=-1)) == denied
    size = ["content-length-range", 6, 10]
    assert refused({}, here, any_key, size) == (400, "EntityTooSmall")
    assert refused({}, here, any_key, size, file=b"x" * 11) == (400, "EntityTooLarge")
    assert refused({}, here, any_key, size, file=b"x" * MIB) == (400, "EntityTooLarge")
    assert refused({}, here, ["eq", "$key"]) == (400, "InvalidPolicyDocument")
    assert refused({}, here, any_key, until="tomorrow") == (400, "InvalidPolicyDocument")
    signature = signed(OWNER, {"expiration": later(), "conditions": [here, any_key]})
    extra = Form({"key": "kept", "x-amz-meta-a": "1"} | signature).send(node, bucket)
    assert b"Extra input fields: x-amz-meta-a" in extra.body

    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"old"
    assert Form(allowed(bucket, {"key": "kept"}, OWNER, size), b"x" * 10).send(node, bucket).status == 204
    ignored = allowed(bucket, {"key": "kept"}, OWNER, size) | {"x-ignore-me": "1"}
    assert Form(ignored, b"x" * 6).send(node, bucket).status == 204
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"x" * 6


@pytest.mark.parametrize("bucket", ["folder", "moto"])
def test_a_form_is_signed_by_one_who_may_write(node: Node, s3: Any, bucket: str) -> None:
    form = allowed(bucket, {"key": "unsigned"})
    for fields, expected in [
        ({"key": "unsigned"}, (403, "AccessDenied")),
        ({"key": "unsigned", "policy": form["policy"]}, (403, "AccessDenied")),
        (form | {"x-amz-signature": "0" * 64}, (403, "SignatureDoesNotMatch")),
        (form | {"x-amz-signature": ""}, (403, "SignatureDoesNotMatch")),
        ({name: value for name, value in form.items() if name != "x-amz-signature"}, (400, "InvalidArgument")),
        (allowed(bucket, {"key": "unsigned"}, (OWNER[0], "guess")), (403, "SignatureDoesNotMatch")),
        (allowed(bucket, {"key": "unsigned"}, ("nobody", OWNER[1])), (403, "InvalidAccessKeyId")),
        (allowed(bucket, {"key": "unsigned"}, READER), (403, "AccessDenied")),
        (
            {"key": "unsigned", "AWSAccessKeyId": OWNER[0], "policy": form["policy"], "signature": "x"},
            (400, "InvalidRequest"),
        ),
    ]:
        answer = Form(fields).send(node, bucket)
        assert code(answer) == expected, (fields, answer.body)
        assert OWNER[1].encode() not in answer.body
    assert b"AWS4-HMAC-SHA256" in Form({"AWSAccessKeyId": "a", "signature": "x"}).send(node, bucket).body
    assert code(Form(allowed("frozen", {"key": "unsigned"})).send(node, "frozen")) == (403, "AccessDenied")
    assert code(Form(allowed("absent", {"key": "unsigned"})).send(node, "absent")) == (404, "NoSuchBucket")
    assert code(Form({"key": "a"}).send(node, "absent")) == (403, "AccessDenied")
    assert missing(s3, bucket, "unsigned")

    line = next(line for line in reversed(node.log().splitlines()) if READER[0] in line)
    for told in ["request refused", "PostObject", bucket, "unsigned", "AccessDenied"]:
        assert told in line, (told, line)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_key_for_prefixes_uploads_nowhere_else(node: Node, s3: Any, bucket: str) -> None:
    before = contents(s3, bucket)
    s3.put_object(Bucket=bucket, Key="other/secret", Body=b"old")
    policy = {"expiration": later(), "conditions": [{"bucket": bucket}, ["starts-with", "$key", ""]]}

    def upload(key: str, file_name: str = "f", **more: Any) -> Answer:
        return Form({"key": key} | signed(TEAM, policy), b"new", file_name, **more).send(node, bucket)

    assert upload("team/${filename}").status == 204
    for key, file_name in [
        ("other/secret", "f"),
        ("${filename}", "other/secret"),
        ("tea", "f"),
        ("team/../other/secret", "f"),
        ("team/${filename}/other/secret", ".."),
        ("team/${filename}", ".."),
        ("team\\..\\other\\secret", "f"),
        ("${filename}", "${filename}"),
    ]:
        answer = upload(key, file_name)
        assert answer.status in (400, 403), (key, file_name, answer)
    # A second key: as a field, after the file, in the file's bytes, and with other boundaries.
    second = b'--%s\r\nContent-Disposition: form-data; name="key"\r\n\r\nother/secret\r\n'
    fields = [("key", "team/second"), *signed(TEAM, policy).items()]
    form = Form([*fields, ("Key", "other/secret")], b"new")
    assert code(form.send(node, bucket)) == (400, "InvalidArgument")
    for more in [
        {"more": second % form.boundary.encode()},
        {"file": b"new\n" + second.replace(b"\r\n", b"\n") % form.boundary.encode()},
        {"file": b"new\r\n" + second % b"stylobate"},
        {"headers": {"content-type": f"{form.content_type()}; boundary=stylobate"}},
        {"headers": {"x-amz-copy-source": f"/{bucket}/other/secret"}},
        {"headers": {"x-amz-acl": "public-read"}},
    ]:
        Form(fields, **({"file": b"new"} | more)).send(node, bucket)
        assert s3.get_object(Bucket=bucket, Key="other/secret")["Body"].read() == b"old", more
    copy = allowed(bucket, {"key": "team/copy", "x-amz-copy-source": f"/{bucket}/other/secret"}, TEAM)
    assert code(Form(copy).send(node, bucket)) == (400, "InvalidArgument")
    ours = {"team/f", "team/second"}
    after = contents(s3, bucket)
    assert {key: after[key] for key in after if key not in ours} == before | {"other/secret": b"old"}


@pytest.mark.parametrize("bucket", BUCKETS)
def test_what_is_no_form_is_refused(node: Node, s3: Any, bucket: str) -> None:
    fields = allowed(bucket, {"key": "malformed"})
    form = Form(fields, b"x" * 100_000)
    body = form.body()
    malformed = (400, "MalformedPOSTRequest")

    def send(content: bytes, content_type: str | None = None) -> tuple[int, str]:
        headers = {"content-type": content_type or form.content_type()}
        return code(request(node.endpoint, "POST", f"/{bucket}", content, headers))

    for end in [0, 1, 5, 60, len(form.head()), len(body) - 50, len(body) - 4, len(body) - 3]:
        assert send(body[:end]) == malformed, end
    for content_type in [
        FORM,
        f"{FORM}; boundary=",
        f"{FORM}; boundary=other",
        f"{FORM}; boundary={'x' * 300}",
        f'{FORM}; boundary="',
    ]:
        assert send(body, content_type) == malformed, content_type
    assert send(body, "text/plain") == (403, "AccessDenied"), "a request of another kind, without a signature"
    no_file = Form(fields).head().rsplit(b"--" + form.boundary.encode(), 1)[0] + f"--{form.boundary}--\r\n".encode()
    assert send(no_file) == (400, "InvalidArgument")
    no_key = {name: value for name, value in fields.items() if name != "key"}
    assert send(Form(no_key).body())[0] in (400, 403)
    large = allowed(bucket, {"key": "malformed", "x-amz-meta-a": "v" * 21_000})
    assert code(Form(large).send(node, bucket)) == (400, "MaxPostPreDataLengthExceededError")
    to_key = request(node.endpoint, "POST", f"/{bucket}/malformed", body, {"content-type": form.content_type()})
    assert code(to_key) == (403, "AccessDenied"), "a form goes to a bucket"
    assert missing(s3, bucket, "malformed")


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_form_may_end_as_it_likes(node: Node, s3: Any, bucket: str) -> None:
    submit = b'--%s\r\nContent-Disposition: form-data; name="submit"\r\n\r\nUpload to Amazon S3\r\n'
    fields = allowed(bucket, {"key": "ended"})
    for number, more in enumerate(
        [
            {"more": submit % b"B", "boundary": "B"},
            {"more": submit % b"B" * 500, "boundary": "B"},
            {"boundary": "--dashes and spaces", "headers": {"content-type": f'{FORM}; boundary="--dashes and spaces"'}},
            {"end": b"\r\nan epilogue"},
            {"end": b""},
            {"file": b"\r\n--B\r\r\n-" * 1000, "boundary": "B-"},
            {"file": b""},
        ]
    ):
        form = Form(fields, **({"file": b"bytes %d" % number} | more))
        answer = form.send(node, bucket)
        assert answer.status == 204, (more, answer)
        assert s3.get_object(Bucket=bucket, Key="ended")["Body"].read() == form.file, more


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_client_that_goes_away_leaves_nothing(node: Node, s3: Any, bucket: str) -> None:
    form = Form(allowed(bucket, {"key": "gone"}), b"x" * MIB)
    body = form.body()

    def in_flight() -> int:
        return node.stats()["requests"]["in_flight"]

    for end in [200, len(form.head()) + 1000, len(body) - 60, len(body) - 4]:
        with socket.create_connection(("127.0.0.1", node.port)) as connection:
            head = f"POST /{bucket} HTTP/1.1\r\nhost: x\r\ncontent-type: {form.content_type()}\r\n"
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:end])
            wait_for("the request to begin", lambda: in_flight() == 1, timeout=30)
        wait_for("the request to end", lambda: in_flight() == 0, timeout=30)
    assert Form(allowed(bucket, {"key": "came"})).send(node, bucket).status == 204
    assert missing(s3, bucket, "gone")
    if bucket == "folder":
        uploads = node.log_path.parent / "folder" / ".stylobate-uploads"
        wait_for("the uploads to be gone", lambda: not uploads.exists())


@pytest.mark.parametrize("bucket", ["folder", "moto", "s3s"])
def test_a_large_file_is_not_held(node: Node, s3: Any, bucket: str) -> None:
    """Uploads a file of 200 MiB, of which the node buffers only a part."""
    size = 200 * MIB
    form = Form(allowed(bucket, {"key": "large"}))
    head, end = form.head(), f"\r\n--{form.boundary}--\r\n".encode()
    piece = hashlib.sha256(b"large").digest() * (MIB // 32)
    before = node.memory("VmRSS")
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)
    connection.putrequest("POST", f"/{bucket}")
    connection.putheader("content-type", form.content_type())
    connection.putheader("content-length", str(len(head) + size + len(end)))
    connection.endheaders(head)
    for _ in range(size // MIB):
        connection.send(piece)
    connection.send(end)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (204, b"")
    connection.close()
    # A folder's upload may buffer up to its share of the memory; a forwarded form buffers what is in transit.
    assert node.memory("VmRSS") - before < (128 if bucket == "folder" else 64) * MIB
    assert s3.head_object(Bucket=bucket, Key="large")["ContentLength"] == size
    tail = s3.get_object(Bucket=bucket, Key="large", Range=f"bytes={size - 2 * MIB}-")["Body"].read()
    assert tail == piece * 2
    s3.delete_object(Bucket=bucket, Key="large")


@pytest.mark.parametrize("bucket", ["folder", "moto"])
def test_a_body_of_unknown_length_is_what_the_origin_makes_of_it(node: Node, s3: Any, bucket: str) -> None:
    form = Form(allowed(bucket, {"key": "chunked"}), b"x" * 100_000)
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=20)
    headers = {"content-type": form.content_type(), "transfer-encoding": "chunked"}
    body = form.body()
    pieces = (body[at : at + 7777] for at in range(0, len(body), 7777))
    connection.request("POST", f"/{bucket}", pieces, headers, encode_chunked=True)
    status = connection.getresponse().status
    connection.close()
    assert status == (204 if bucket == "folder" else 411)
    if bucket == "folder":
        assert s3.get_object(Bucket=bucket, Key="chunked")["Body"].read() == form.file
    else:
        assert missing(s3, bucket, "chunked")


def test_a_bucket_in_the_host_takes_forms(node: Node, s3: Any) -> None:
    form = Form(allowed("folder", {"key": "hosted"}))
    headers = {"content-type": form.content_type(), "host": f"folder.localhost:{node.port}"}
    assert request(node.endpoint, "POST", "/", form.body(), headers).status == 204
    assert s3.get_object(Bucket="folder", Key="hosted")["Body"].read() == b"bytes"


@pytest.mark.parametrize("bucket", ["folder", "moto"])
def test_a_page_of_an_allowed_site_reads_the_answer(node: Node, bucket: str) -> None:
    for key, status in [(OWNER, 204), (READER, 403)]:
        form = allowed(bucket, {"key": "paged"}, key)
        answer = Form(form, headers={"origin": "https://app.example"}).send(node, bucket)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, "https://app.example")
        other = Form(form, headers={"origin": "https://other.example"}).send(node, bucket)
        assert (other.status, other.headers["access-control-allow-origin"]) == (status, None)
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    assert request(node.endpoint, "OPTIONS", f"/{bucket}", headers=asked).status == 200


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.parametrize("bucket", BUCKETS)
def test_curl_sends_a_form(node: Node, s3: Any, bucket: str, tmp_path: Path) -> None:
    """With "Expect: 100-continue" for the larger one."""
    for name, size in [("small", 10), ("large", 3 * MIB)]:
        file = tmp_path / f"{name} ü.bin"
        file.write_bytes(name.encode() * size)
        presigned = signer(node).generate_presigned_post(
            bucket, "curl/${filename}", {"acl": "private"}, [{"acl": "private"}]
        )
        fields = [argument for pair in presigned["fields"].items() for argument in ("-F", "=".join(pair))]
        command = ["curl", "-sS", "-m", "20", "-w", "%{http_code}", *fields, "-F", f"file=@{file}", presigned["url"]]
        done = subprocess.run(command, capture_output=True, check=True)
        assert done.stdout == b"204", done
        assert s3.get_object(Bucket=bucket, Key=f"curl/{file.name}")["Body"].read() == file.read_bytes()


def test_a_node_without_keys_takes_forms_without_a_signature(
    start: Callable[..., Node],
    moto: Moto,
    tmp_path: Path,
) -> None:
    (tmp_path / "lake").mkdir()
    moto.s3.create_bucket(Bucket="open-forms")
    buckets = [Bucket("folder", str(tmp_path / "lake")), Bucket.of_origin(moto.endpoint, "moto", at="open-forms")]
    node = start(buckets)
    for bucket in ("folder", "moto"):
        fields = {"key": "open/${filename}", "Content-Type": "text/x"}
        assert Form(fields).send(node, bucket).status == 204
        assert node.s3.get_object(Bucket=bucket, Key="open/name.txt")["Body"].read() == b"bytes"
        # A policy applies regardless of who signed the form.
        any_key = ("any", "any")
        assert Form(allowed(bucket, {"key": "signed"}, any_key)).send(node, bucket).status == 204
        small = allowed(bucket, {"key": "too-large"}, any_key, ["content-length-range", 0, 4])
        assert code(Form(small).send(node, bucket)) == (400, "EntityTooLarge")
        policy = json.dumps({"expiration": later(), "conditions": [{"bucket": bucket}, {"key": "v2"}]})
        version_2 = {"AWSAccessKeyId": "a", "signature": "x", "policy": base64.b64encode(policy.encode()).decode()}
        assert Form({"key": "v2"} | version_2).send(node, bucket).status == 204
        # A page of another site, in a browser on this machine, is not allowed.
        for page in ("http://evil.example", "null"):
            stolen = Form({"key": "stolen"}, headers={"origin": page}).send(node, bucket)
            assert code(stolen) == (403, "AccessDenied")
        listed = {found["Key"] for found in node.s3.list_objects_v2(Bucket=bucket)["Contents"]}
        assert listed == {"open/name.txt", "signed", "v2"}
    assert not list((tmp_path / "lake").rglob("*too-large*"))


def test_nothing_of_the_clients_credentials_reaches_the_origin(
    recorder: str,  # noqa: F811
    start: Callable[..., Node],
) -> None:
    options = {"endpoint": recorder, "region": REGION, "allow_http": "true"}
    options |= {"access_key_id": ORIGIN_KEY, "secret_access_key": ORIGIN_SECRET, "token": "origin-session"}
    options |= {"aws_server_side_encryption": "AES256"}
    node = start([Bucket("lake", "s3://real/below", options)], keys=[AccessKey(*OWNER, write=True)])
    private = {
        "cookie": "session=1",
        "x-forwarded-for": "10.0.0.1",
        "authorization": "Basic x",
        "x-amz-security-token": "client-header-token",
        "x-amz-meta-unverified": "1",
    }
    fields = {
        "key": "a//b/${filename}",
        "acl": "private",
        "x-amz-meta-kept": "ü",
        "success_action_redirect": "http://page.example/",
        "x-amz-security-token": "client-token",
    }
    conditions = [{"bucket": "lake"}, *(["starts-with", f"${name}", ""] for name in fields)]
    form = fields | signed(OWNER, {"expiration": later(), "conditions": conditions}) | {"x-ignore-me": "ignored"}
    assert Form(form, b"bytes", headers=private).send(node, "lake").status == 200

    [(_, path, headers, body)] = [seen for seen in Recorder.seen if seen[0] == "POST"]
    assert (path, headers["host"]) == ("/real", recorder.removeprefix("http://"))
    everything = f"{headers} {body!r}"
    secrets = [OWNER[0], form["x-amz-signature"], "session=1", "10.0.0.1", "client-", "Basic x"]
    for secret in [*secrets, "unverified", "ignored"]:
        assert secret not in everything, secret
    boundary = headers["content-type"].split("boundary=")[1].encode()
    parts = body.split(b"--" + boundary)
    sent = dict(re.fullmatch(PART, part, re.DOTALL).groups() for part in parts[1:-1])
    assert (sent[b"key"], sent[b"bucket"], sent[b"file"]) == (b"below/a//b/name.txt", b"real", b"bytes")
    assert (sent[b"acl"], sent[b"x-amz-meta-kept"].decode()) == (b"private", "ü")
    assert sent[b"success_action_redirect"] == b"http://page.example/"
    assert sent[b"x-amz-server-side-encryption"] == b"AES256"
    assert sent[b"x-amz-security-token"] == b"origin-session"
    assert sent[b"x-amz-credential"].startswith(ORIGIN_KEY.encode())
    policy = json.loads(base64.b64decode(sent[b"policy"]))
    told = {"bucket"} | {condition[1].removeprefix("$") for condition in policy["conditions"][1:]}
    assert told == {name.decode() for name in sent} - {"file", "policy", "x-amz-signature"}
    again = signed((ORIGIN_KEY, ORIGIN_SECRET), {"expiration": later(), "conditions": []})
    assert sent[b"x-amz-credential"].decode() == again["x-amz-credential"]


def test_an_origin_that_points_elsewhere_sends_nobody_there(start: Callable[..., Node]) -> None:
    """If the form names no page, a 303 is not returned; if it does, that page is."""

    class Away(Recorder):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            listing = b"" if self.command == "POST" else b"<ListBucketResult></ListBucketResult>"
            self.send_response_only(200 if listing else 303)
            self.send_header("location", "http://elsewhere.example/?etag=%22e%22")
            self.send_header("content-length", str(len(listing)))
            self.end_headers()
            self.wfile.write(listing)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Away)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    node = start([Bucket.of_origin(f"http://127.0.0.1:{server.server_address[1]}", "lake")])
    answer = Form({"key": "a"}).send(node, "lake")
    assert (answer.status, "location" in answer.headers) == (502, False)
    answer = Form({"key": "a", "redirect": "http://page.example/"}).send(node, "lake")
    assert (answer.status, answer.headers["location"]) == (303, "http://page.example/?bucket=lake&key=a&etag=%22e%22")
    server.shutdown()
    server.server_close()


def test_an_origin_that_checks_policies_takes_ours(start: Callable[..., Node], versitygw: VersityGw) -> None:
    """versitygw checks policies as Amazon does, and requires every field to be named."""
    direct = s3_client(versitygw.endpoint, ORIGIN_KEY, ORIGIN_SECRET)
    direct.create_bucket(Bucket="checked")
    buckets = [
        Bucket.of_origin(versitygw.endpoint, "lake", at="checked"),
        Bucket.of_origin(versitygw.endpoint, "below", at="checked/below"),
    ]
    node = start(buckets, keys=[AccessKey(*OWNER, write=True)])
    for bucket, prefix in [("lake", ""), ("below", "below/")]:
        fields = {
            "key": "a b/${filename}",
            "Content-Type": "image/png, image/gif",
            "Cache-Control": "no-store",
            "x-amz-meta-who": "me",
            "tagging": "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
            "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(b"bytes").digest()).decode(),
            "success_action_status": "201",
        }
        conditions = [{"bucket": bucket}, *(["starts-with", f"${name}", ""] for name in fields)]
        conditions[2] = ["starts-with", "$content-type", "image/"]
        policy = {"expiration": later(), "conditions": conditions}
        form = fields | signed(OWNER, policy)
        answer = Form(form).send(node, bucket)
        assert answer.status == 201, answer
        if bucket == "below":
            assert [element(answer, name) for name in ("Bucket", "Key")] == [bucket, "a b/name.txt"]
        head = direct.head_object(Bucket="checked", Key=f"{prefix}a b/name.txt", ChecksumMode="ENABLED")
        assert (head["ContentType"], head["CacheControl"]) == ("image/png, image/gif", "no-store")
        assert (head["Metadata"], head["ChecksumSHA256"]) == ({"who": "me"}, fields["x-amz-checksum-sha256"])
        tags = direct.get_object_tagging(Bucket="checked", Key=f"{prefix}a b/name.txt")["TagSet"]
        assert tags == [{"Key": "k", "Value": "v"}]
        wrong = Form(form, b"other").send(node, bucket)
        assert wrong.status == 400, wrong
        page = allowed(bucket, {"key": "paged", "success_action_redirect": "http://page.example/"})
        location = urlsplit(Form(page).send(node, bucket).headers["location"])
        told = parse_qs(location.query)
        assert (told["bucket"], told["key"], len(told["etag"])) == ([bucket], ["paged"], 1)
        submit = b'--B\r\nContent-Disposition: form-data; name="submit"\r\n\r\nUpload to Amazon S3\r\n'
        more = {"more": submit, "boundary": "B"}
        assert Form(allowed(bucket, {"key": "submitted"}), b"x" * MIB, **more).send(node, bucket).status == 204
        assert direct.get_object(Bucket="checked", Key=f"{prefix}submitted")["Body"].read() == b"x" * MIB
