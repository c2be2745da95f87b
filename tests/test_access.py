"""Access keys: who is authenticated, what each key may access, and where no secret may appear."""

from __future__ import annotations

import base64
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from proxy import Proxy
from servers import ORIGIN_SECRET, AccessKey, Bucket, Node, Origin, request, s3_client

ADMIN = AccessKey("admin", "s3cr3t-of-admin-77", write=True)
READER = AccessKey("reader", "s3cr3t-of-reader-88", ["lake"])
WRITER = AccessKey("writer", "s3cr3t-of-writer-99", ["pond"], write=True)


@pytest.fixture
def guarded(start: Callable[..., Node], proxy: Proxy) -> Node:
    """A node with access keys and the most verbose log."""
    buckets = [
        Bucket.of_origin(proxy.endpoint, "lake"),
        Bucket.of_origin(proxy.endpoint, "pond"),
        Bucket.of_origin(proxy.endpoint, "archive", at="lake", read_only=True),
    ]
    keys = [ADMIN, READER, WRITER]
    flags = ["--memory", "128MiB", "--log", "trace"]
    return start(buckets, *flags, keys=keys, env={"RUST_LOG": "trace"})


def client(node: Node, key: AccessKey, **more: Any) -> Any:
    return s3_client(node.endpoint, key.id, key.secret, **more)


def refusal(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(ClientError) as failed:
        call()
    answer = failed.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def test_each_key_opens_its_own_buckets_only(guarded: Node, origin: Origin, prefix: str) -> None:
    key = prefix + "a"
    admin, reader, writer = (client(guarded, key) for key in (ADMIN, READER, WRITER))
    for bucket in ("lake", "pond"):
        admin.put_object(Bucket=bucket, Key=key, Body=b"bytes")
        # Cached data is protected like any other.
        assert admin.get_object(Bucket=bucket, Key=key)["Body"].read() == b"bytes"
    assert reader.get_object(Bucket="lake", Key=key)["Body"].read() == b"bytes"
    denied = (403, "AccessDenied")
    assert refusal(lambda: reader.get_object(Bucket="pond", Key=key)) == denied
    assert refusal(lambda: reader.list_objects_v2(Bucket="pond")) == denied
    assert refusal(lambda: writer.get_object(Bucket="lake", Key=key)) == denied
    for write in (
        lambda: reader.put_object(Bucket="lake", Key=key, Body=b"x"),
        lambda: reader.delete_object(Bucket="lake", Key=key),
        lambda: reader.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": key}]}),
        lambda: reader.create_multipart_upload(Bucket="lake", Key=key),
        lambda: reader.copy_object(Bucket="lake", Key=key + "2", CopySource={"Bucket": "lake", "Key": key}),
        lambda: writer.copy_object(Bucket="pond", Key=key + "2", CopySource={"Bucket": "lake", "Key": key}),
        lambda: admin.put_object(Bucket="archive", Key=key, Body=b"x"),
        lambda: admin.delete_object(Bucket="archive", Key=key),
    ):
        assert refusal(write) == denied
    writer.put_object(Bucket="pond", Key=key, Body=b"new")
    assert origin.s3.get_object(Bucket="pond", Key=key)["Body"].read() == b"new"
    assert origin.s3.get_object(Bucket="lake", Key=key)["Body"].read() == b"bytes"
    assert [bucket["Name"] for bucket in reader.list_buckets()["Buckets"]] == ["lake"]


def test_a_wrong_secret_an_unknown_key_and_no_key_are_refused(guarded: Node, prefix: str) -> None:
    client(guarded, ADMIN).put_object(Bucket="lake", Key=prefix + "a", Body=b"bytes")
    get = {"Bucket": "lake", "Key": prefix + "a"}
    wrong = client(guarded, AccessKey(ADMIN.id, READER.secret))
    assert refusal(lambda: wrong.get_object(**get)) == (403, "SignatureDoesNotMatch")
    assert refusal(lambda: wrong.put_object(**get, Body=b"x")) == (403, "SignatureDoesNotMatch")
    unknown = client(guarded, AccessKey("nobody", ADMIN.secret))
    assert refusal(lambda: unknown.get_object(**get)) == (403, "InvalidAccessKeyId")
    for path in (f"/lake/{prefix}a", "/lake", "/"):
        answer = request(guarded.endpoint, "GET", path)
        assert (answer.status, b"AccessDenied" in answer.body) == (403, True), path
    forged = {"authorization": "AWS4-HMAC-SHA256 nonsense"}
    assert request(guarded.endpoint, "GET", f"/lake/{prefix}a", headers=forged).status in (400, 403)


def test_a_signed_url_is_good_for_its_request_and_its_time(guarded: Node, prefix: str) -> None:
    admin = client(guarded, ADMIN, signature_version="s3v4")
    where = {"Bucket": "lake", "Key": prefix + "a b"}
    put = admin.generate_presigned_url("put_object", where, ExpiresIn=60)
    get = admin.generate_presigned_url("get_object", where, ExpiresIn=60)
    short = admin.generate_presigned_url("get_object", where, ExpiresIn=1)
    too_long = admin.generate_presigned_url("get_object", where, ExpiresIn=8 * 24 * 3600)
    made = time.monotonic()

    def path(url: str) -> str:
        return url.removeprefix(guarded.endpoint)

    assert request(guarded.endpoint, "PUT", path(put), b"bytes").status == 200
    assert urllib.request.urlopen(get, timeout=20).read() == b"bytes"
    other = get.replace("a%20b", "other")
    assert other != get
    for method, url in (("GET", other), ("DELETE", get), ("PUT", get), ("GET", get[:-1] + "?"), ("GET", too_long)):
        answer = request(guarded.endpoint, method, path(url))
        assert answer.status in (400, 403), (method, url, answer)
    time.sleep(max(0.0, made + 2.1 - time.monotonic()))
    answer = request(guarded.endpoint, "GET", path(short))
    assert (answer.status, b"AccessDenied" in answer.body) == (403, True), answer


def test_the_admin_door_asks_for_a_key_too(guarded: Node) -> None:
    def status(method: str, path: str, shown: str | None, body: Any = None) -> int:
        return guarded.ask(method, path, body, {"authorization": shown} if shown else {}).status

    basic = base64.b64encode(f"{ADMIN.id}:{ADMIN.secret}".encode()).decode()
    assert status("GET", "/healthz", None) == status("GET", "/readyz", None) == 200
    for path in ("/api/stats", "/metrics", "/"):
        assert status("GET", path, None) == status("GET", path, "Bearer wrong") == 401
        assert status("GET", path, f"Bearer {READER.secret}") == 403
        assert status("GET", path, f"Bearer {ADMIN.secret}") == status("GET", path, f"Basic {basic}") == 200
    for path in ("/api/warm", "/api/evict"):
        target = {"bucket": "lake", "prefix": "no-such-prefix/"}
        assert status("POST", path, None, target) == 401
        assert status("POST", path, f"Bearer {READER.secret}", target) == 403
        assert status("POST", path, f"Bearer {WRITER.secret}", target) == 403
        assert status("POST", path, f"Bearer {ADMIN.secret}", target) == 200


def test_no_secret_is_in_the_log_or_in_any_answer(guarded: Node, proxy: Proxy, prefix: str) -> None:
    answers = []
    for key in (ADMIN, READER, WRITER, AccessKey("admin", "wrong-s3cr3t")):
        s3 = client(guarded, key)
        for operation, more in (
            ("put_object", {"Key": prefix + "a", "Body": b"bytes"}),
            ("get_object", {"Key": prefix + "a"}),
            ("get_object", {"Key": prefix + "missing"}),
            ("list_objects_v2", {"Prefix": prefix}),
        ):
            try:
                answers.append(repr(getattr(s3, operation)(Bucket="lake", **more)))
            except ClientError as failed:
                answers.append(repr(failed.response))
    shown = {"authorization": f"Bearer {ADMIN.secret}"}
    for path in ("/api/stats", "/metrics", "/", "/readyz"):
        answers.append(guarded.ask("GET", path, headers=shown).body.decode())
    proxy.down = True
    try:
        answers.append(request(guarded.endpoint, "GET", f"/lake/{prefix}never-read").body.decode())
        answers.append(guarded.ask("POST", "/api/warm", {"bucket": "lake"}, shown).body.decode())
        answers.append(guarded.ask("GET", "/readyz").body.decode())
    finally:
        proxy.down = False
    log = guarded.log()
    assert len(log) > 10_000
    basic = base64.b64encode(f"{ADMIN.id}:{ADMIN.secret}".encode()).decode()
    for secret in (ADMIN.secret, READER.secret, WRITER.secret, ORIGIN_SECRET, basic, "wrong-s3cr3t"):
        assert secret not in log
        assert not [answer for answer in answers if secret in answer]
