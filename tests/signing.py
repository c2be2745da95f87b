"""Signed requests, byte by byte as a test writes them, where clients would repair or refuse them."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from servers import REGION, TIMEOUT, Answer


@dataclass
class Raw:
    """A request whose path is sent unchanged; keys are escaped once, and nothing is normalized."""

    method: str
    bucket: str
    key: str | None = None
    query: str = ""
    headers: dict[str, str] | None = None
    body: bytes = b""

    def path(self) -> str:
        path = f"/{self.bucket}" if self.key is None else f"/{self.bucket}/{quote(self.key, safe='/~')}"
        return f"{path}?{self.query}" if self.query else path


class Signed(S3SigV4Auth):
    """Signature Version 4 without normalization of the path."""

    def _normalize_url_path(self, path: str) -> str:
        return path


def send(endpoint: str, key: tuple[str, str], raw: Raw, hook: Callable[[AWSRequest], None] | None = None) -> Answer:
    """Sends the request, signed with an access key, and returns the answer."""
    headers = dict(raw.headers or {})
    headers.setdefault("x-amz-content-sha256", hashlib.sha256(raw.body).hexdigest())
    signed = AWSRequest(method=raw.method, url=endpoint + raw.path(), headers=headers, data=raw.body)
    Signed(Credentials(*key), "s3", REGION).add_auth(signed)
    if hook:
        hook(signed)
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=TIMEOUT)
    try:
        connection.putrequest(raw.method, raw.path(), skip_accept_encoding=True)
        for name, value in signed.headers.items():
            connection.putheader(name, value)
        if raw.body or raw.method in ("PUT", "POST"):
            connection.putheader("content-length", str(len(raw.body)))
        connection.endheaders(raw.body or None)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()
