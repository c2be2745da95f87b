"""Pages of other sites in Chromium: what they can read and write if a bucket's rule allows it, and what they cannot."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from chromium import Chromium, Site, Thrown
from servers import REGION, AccessKey, Bucket, Moto, Node, s3_client

KEY = AccessKey("page-id", "page-secret-2e9c", write=True)
BODY = bytes(range(256)) * 4096

# Headers that the Fetch standard lets any page read, and those that rules expose by default.
SAFE = {"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"}
EXPOSED = {"accept-ranges", "content-range", "etag", "x-amz-request-id", "x-amz-version-id"}

# One request after another; a body is text, and is returned in Base64.
ASK = """
const answers = [];
for (const [url, options] of requests) {
  const answer = await fetch(url, { cache: "no-store", ...options });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const body = btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""));
  answers.push({ status: answer.status, headers: Object.fromEntries(answer.headers), body });
}
return answers;
"""


@dataclass
class Seen:
    """A response as the page's script saw it."""

    status: int
    headers: dict[str, str]
    body: bytes


def ask_all(site: Site, *requests: tuple[str, dict[str, Any]]) -> list[Seen]:
    answers = site.run(ASK, requests=requests)
    return [Seen(seen["status"], seen["headers"], base64.b64decode(seen["body"])) for seen in answers]


def ask(site: Site, url: str, **options: Any) -> Seen:
    return ask_all(site, (url, options))[0]


def refused(site: Site, url: str, **options: Any) -> bool:
    """Returns whether the browser blocked the response from the page, or did not send the request at all."""
    with pytest.raises(Thrown) as thrown:
        ask(site, url, **options)
    return thrown.value.name == "TypeError"


@dataclass
class Lake:
    """A node with three buckets: one that pages may read, one that they may write, and one without a rule."""

    node: Node

    def url(self, bucket: str, key: str, query: str = "") -> str:
        return f"{self.node.endpoint}/{bucket}/{key}{query}"

    def put(self, bucket: str, key: str, body: bytes = BODY, **more: Any) -> str:
        """Puts an object, and returns its URL."""
        self.node.s3.put_object(Bucket=bucket, Key=key, Body=body, **more)
        return self.url(bucket, key)

    def get(self, bucket: str, key: str) -> bytes | None:
        try:
            return self.node.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError:
            return None

    def signed(self, method: str, url: str, headers: dict[str, str], body: str = "") -> dict[str, str]:
        """Returns the headers of a request signed in its headers; the browser adds the Host header."""
        request = AWSRequest(method, url, headers=headers, data=body)
        S3SigV4Auth(Credentials(KEY.id, KEY.secret), "s3", REGION).add_auth(request)
        return {name.lower(): value for name, value in request.headers.items()}

    def presigned(self, operation: str, **where: str) -> str:
        s3 = s3_client(self.node.endpoint, KEY.id, KEY.secret, signature_version="s3v4")
        return s3.generate_presigned_url(operation, where, ExpiresIn=300)


def rules(app: Site) -> dict[str, str]:
    """Returns the rules of each bucket, in TOML."""
    reading = f'[[bucket.cors]]\norigins = ["https://*.elsewhere.example", "{app.origin}"]'
    writing = [
        reading,
        'methods = ["GET", "PUT"]',
        'headers = ["authorization", "content-type", "x-amz-*"]',
        'expose = ["etag", "x-amz-meta-author"]',
    ]
    return {"reading": reading, "writing": "\n".join(writing), "closed": ""}


def buckets(kind: str, app: Site, moto: Moto, folder: Path) -> list[Bucket]:
    found = []
    for name, rule in rules(app).items():
        if kind == "s3":
            at = f"{folder.name}-{name}"
            moto.s3.create_bucket(Bucket=at)
            found.append(Bucket.of_origin(moto.endpoint, name, at=at, more=rule))
        else:
            (folder / name).mkdir(parents=True)
            found.append(Bucket(name, str(folder / name), more=rule))
    return found


@pytest.fixture(scope="module", params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, app: Site, moto: Moto, scratch: Path) -> Iterator[Lake]:
    """A node without access keys."""
    folder = scratch / f"open-{request.param}"
    node = Node(folder, buckets(request.param, app, moto, folder))
    yield Lake(node)
    assert node.stop() == 0


@pytest.fixture(scope="module", params=["folder", "s3"])
def guarded(request: pytest.FixtureRequest, app: Site, moto: Moto, scratch: Path) -> Iterator[Lake]:
    """A node with an access key."""
    folder = scratch / f"guarded-{request.param}"
    node = Node(folder, buckets(request.param, app, moto, folder), keys=[KEY])
    yield Lake(node)
    assert node.stop() == 0


def test_a_page_reads_a_range_and_what_tells_of_it(lake: Lake, app: Site, prefix: str) -> None:
    url = lake.put("reading", prefix + "a b.bin", Metadata={"author": "me"})
    etag = lake.node.s3.head_object(Bucket="reading", Key=prefix + "a b.bin")["ETag"]
    # Once from the origin, and once from the cache.
    for _ in range(2):
        head, part = ask_all(app, (url, {"method": "HEAD"}), (url, {"headers": {"range": "bytes=1000-2999"}}))
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(BODY))
        assert (part.status, part.body) == (206, BODY[1000:3000])
        assert part.headers["content-range"] == f"bytes 1000-2999/{len(BODY)}"
        assert part.headers["content-length"] == "2000"
        for seen in (head, part):
            assert seen.headers["etag"] == etag
            assert seen.headers["accept-ranges"] == "bytes"
            assert seen.headers["last-modified"]
            assert seen.headers.keys() <= SAFE | EXPOSED


def test_a_page_may_ask_with_conditions(lake: Lake, app: Site, prefix: str) -> None:
    """A header such as If-Match makes the browser send a preflight request."""
    url = lake.put("reading", prefix + "a")
    etag = ask(app, url, method="HEAD").headers["etag"]
    part = {"range": "bytes=-8"}
    same, other, known = ask_all(
        app,
        (url, {"headers": part | {"if-match": etag}}),
        (url, {"headers": part | {"if-match": '"other"'}}),
        (url, {"headers": {"if-none-match": etag}}),
    )
    assert (same.status, same.body) == (206, BODY[-8:])
    assert (other.status, known.status) == (412, 304)


def test_a_page_sees_why_it_got_no_bytes(lake: Lake, app: Site, prefix: str) -> None:
    url = lake.put("reading", prefix + "a")
    missing, beyond = ask_all(app, (url + "x", {}), (url, {"headers": {"range": "bytes=9999999-"}}))
    assert (missing.status, b"NoSuchKey" in missing.body) == (404, True)
    assert (beyond.status, b"InvalidRange" in beyond.body) == (416, True)
    assert ask(app, url + "x", method="HEAD").status == 404


def test_a_page_lists_a_bucket(lake: Lake, app: Site, prefix: str) -> None:
    lake.put("reading", prefix + "a")
    lake.put("reading", prefix + "b")
    listing = ask(app, f"{lake.node.endpoint}/reading?list-type=2&prefix={prefix}")
    assert listing.status == 200
    assert [f"<Key>{prefix}{key}</Key>".encode() in listing.body for key in "abc"] == [True, True, False]


def test_pages_that_no_rule_names_read_nothing(lake: Lake, app: Site, stranger: Site, neighbour: Site, prefix: str) -> None:
    url = lake.put("reading", prefix + "a")
    closed = lake.put("closed", prefix + "a")
    assert ask(app, url).status == 200
    for site, at in [(stranger, url), (neighbour, url), (app, closed)]:
        assert refused(site, at)
        assert refused(site, at, method="HEAD")
        assert refused(site, at, headers={"range": "bytes=0-9"})
        assert refused(site, at, headers={"if-match": "x"})
        assert refused(site, f"{lake.node.admin}/api/stats")


def test_pages_that_no_rule_names_change_nothing(lake: Lake, stranger: Site, prefix: str) -> None:
    """A browser sends a form or plain text without a preflight: the page cannot read the response, but the node must
    not execute the request."""
    for bucket in ("reading", "writing", "closed"):
        lake.put(bucket, prefix + "a")
        listed = f"<Delete><Object><Key>{prefix}a</Key></Object></Delete>"
        silently = {"mode": "no-cors", "method": "POST"}
        ask_all(
            stranger,
            (f"{lake.node.endpoint}/{bucket}?delete", silently | {"body": listed}),
            (lake.url(bucket, prefix + "b", "?uploads"), silently),
            (f"{lake.node.admin}/api/evict", silently | {"body": f'{{"bucket": "{bucket}"}}'}),
        )
        assert refused(stranger, lake.url(bucket, prefix + "a"), method="DELETE")
        assert refused(stranger, lake.url(bucket, prefix + "c"), method="PUT", body="x")
        keys = lake.node.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
        assert [found["Key"] for found in keys] == [prefix + "a"]
        assert "Uploads" not in lake.node.s3.list_multipart_uploads(Bucket=bucket)


def test_a_name_that_leads_to_the_node_is_refused(lake: Lake, app: Site, browser: Chromium, prefix: str) -> None:
    """A page can make a name of its own resolve to the node's address (DNS rebinding): the node checks the name."""
    url = lake.put("reading", prefix + "a")
    assert ask(app, url).status == 200
    disguised = url.replace("127.0.0.1", "app.example")
    assert ask(app, disguised).status == 403


def test_a_page_writes_what_a_rule_allows(lake: Lake, app: Site, prefix: str) -> None:
    url = lake.url("writing", prefix + "a")
    headers = {"content-type": "text/csv", "x-amz-meta-author": "page"}
    written = ask(app, url, method="PUT", body="a,b\n1,2\n", headers=headers)
    assert (written.status, bool(written.headers["etag"])) == (200, True)
    assert lake.get("writing", prefix + "a") == b"a,b\n1,2\n"
    found = lake.node.s3.head_object(Bucket="writing", Key=prefix + "a")
    assert (found["ContentType"], found["Metadata"]) == ("text/csv", {"author": "page"})
    seen = ask(app, url)
    assert (seen.body, seen.headers["x-amz-meta-author"]) == (b"a,b\n1,2\n", "page")
    assert "accept-ranges" not in seen.headers

    assert refused(app, url, method="DELETE")
    assert refused(app, lake.url("writing", prefix + "b"), method="PUT", body="x", headers={"x-other": "1"})
    assert refused(app, lake.url("reading", prefix + "b"), method="PUT", body="x")
    assert lake.get("writing", prefix + "a") == b"a,b\n1,2\n"
    assert lake.get("writing", prefix + "b") is None
    assert lake.get("reading", prefix + "b") is None


def test_a_page_reads_and_writes_with_a_signature(guarded: Lake, app: Site, stranger: Site, prefix: str) -> None:
    url = guarded.url("writing", prefix + "a")
    put = guarded.signed("PUT", url, {"content-type": "text/csv", "x-amz-meta-author": "page"}, "a,b\n")
    assert ask(app, url, method="PUT", body="a,b\n", headers=put).status == 200
    assert guarded.get("writing", prefix + "a") == b"a,b\n"
    get = guarded.signed("GET", url, {})
    assert ask(app, url, headers=get).body == b"a,b\n"
    forged = get | {"authorization": get["authorization"][:-4] + "0000"}
    seen = ask(app, url, headers=forged)
    assert (seen.status, b"SignatureDoesNotMatch" in seen.body) == (403, True)
    assert refused(stranger, url, headers=get)
    assert refused(stranger, url, method="PUT", body="x", headers=put)
    assert guarded.get("writing", prefix + "a") == b"a,b\n"


def test_a_page_follows_a_signed_url(guarded: Lake, app: Site, stranger: Site, prefix: str) -> None:
    plain = guarded.put("writing", prefix + "a")
    where = {"Bucket": "writing", "Key": prefix + "a"}
    get = guarded.presigned("get_object", **where)
    head = guarded.presigned("head_object", **where)
    part = ask(app, get, headers={"range": "bytes=512-767"})
    assert (part.status, part.body) == (206, bytes(range(256)))
    # HEAD is not among the methods of the rule.
    assert refused(app, head, method="HEAD")
    put = guarded.presigned("put_object", **where)
    assert ask(app, put, method="PUT", body="new").status == 200
    assert ask(app, get).body == b"new"

    other, unsigned = ask_all(app, (get.replace("/a?", "/b?"), {}), (plain, {}))
    assert (other.status, b"SignatureDoesNotMatch" in other.body) == (403, True)
    assert (unsigned.status, b"AccessDenied" in unsigned.body) == (403, True)
    listing = guarded.presigned("list_objects_v2", Bucket="writing", Prefix=prefix)
    assert f"<Key>{prefix}a</Key>".encode() in ask(app, listing).body
    for url in (get, listing, guarded.presigned("get_object_tagging", **where)):
        assert refused(stranger, url)
    assert refused(stranger, put, method="PUT", body="old")
    assert guarded.get("writing", prefix + "a") == b"new"


@pytest.mark.parametrize("first", ["an image", "a page without a rule", "a page with a rule"])
def test_an_answer_that_the_browser_keeps_is_for_its_own_page(
    guarded: Lake, app: Site, neighbour: Site, first: str, prefix: str
) -> None:
    """Origins of one site share the browser's cache, and so do images, which need no rule, and scripts."""
    guarded.put("writing", prefix + "a", b"bytes", CacheControl="max-age=3600")
    url = guarded.presigned("get_object", Bucket="writing", Key=prefix + "a")
    if first == "an image":
        ask(app, url, cache="default", mode="no-cors")
    elif first == "a page without a rule":
        assert refused(neighbour, url, cache="default")
    assert ask(app, url, cache="default").body == b"bytes"
    assert refused(neighbour, url, cache="default")
    assert ask(app, url, cache="default").body == b"bytes"
