"""Signs URLs with AWS Signature Version 4, as `aws s3 presign` does."""

import hashlib
import hmac
import time
from urllib.parse import quote

REGION = "us-east-1"
LIFETIME_SECONDS = 24 * 3600


class Signer:
    """Signs for one host with one key. The signing time is fixed, so that equal requests have equal URLs."""

    def __init__(self, host, access_key, secret_key):
        self.host = host
        self.stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        day = self.stamp[:8]
        self.scope = f"{day}/{REGION}/s3/aws4_request"
        self.credential = f"{access_key}/{self.scope}"
        key = f"AWS4{secret_key}".encode()
        for part in (day, REGION, "s3", "aws4_request"):
            key = _hmac(key, part)
        self.key = key

    def presign(self, method, path, headers=None, query=None):
        """Returns the path with a query that signs the method, the path, `query`, the host and `headers`."""
        signed = {"host": self.host} | {name.lower(): value for name, value in (headers or {}).items()}
        names = ";".join(sorted(signed))
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted([
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", self.credential),
            ("X-Amz-Date", self.stamp),
            ("X-Amz-Expires", str(LIFETIME_SECONDS)),
            ("X-Amz-SignedHeaders", names),
            *(query or {}).items(),
        ]))
        canonical = "\n".join([
            method, quote(path), query,
            *(f"{name}:{signed[name]}" for name in sorted(signed)), "",
            names, "UNSIGNED-PAYLOAD",
        ])
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.stamp}\n{self.scope}\n{digest}"
        return f"{quote(path)}?{query}&X-Amz-Signature={_hmac(self.key, text).hex()}"


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
