"""The protocol of the programs here: steps are lines of JSON on stdin, and each is answered by a line on stdout.

A program is started as `with_CLIENT.py ENDPOINT BUCKET KEY_ID SECRET`. Its first line is the client's version. A step
is `{"do": "put", …}`, an answer `{"answer": …}` or `{"error": "…"}`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

ENDPOINT, BUCKET, KEY_ID, SECRET = sys.argv[1:5]
HOST = ENDPOINT.removeprefix("http://")
REGION = "us-east-1"
MIB = 1 << 20

# For clients that are built on the object_store crate. No retries, so that nothing passes only at the second attempt.
OBJECT_STORE_OPTIONS = {
    "aws_endpoint_url": ENDPOINT,
    "aws_access_key_id": KEY_ID,
    "aws_secret_access_key": SECRET,
    "aws_region": REGION,
    "aws_allow_http": "true",
}


def columns(first: int, count: int) -> dict[str, list[Any]]:
    """Returns the rows of a table, computed from their ids."""
    ids = list(range(first, first + count))
    return {"id": ids, "name": [f"name-{n % 7}" for n in ids], "value": [n * 0.5 for n in ids]}


def serve(version: str, *steps: Callable[..., Any]) -> None:
    """Executes steps until stdin ends. A client's own output goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    known = {step.__name__: step for step in steps}

    def answer(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    answer({"version": version})
    for line in sys.stdin:
        step = json.loads(line)
        try:
            answer({"answer": known[step.pop("do")](**step)})
        except BaseException:
            answer({"error": traceback.format_exc()})
