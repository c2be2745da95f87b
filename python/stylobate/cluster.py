"""Where the nodes of a cluster keep what: the placement that nodes and clients compute, without asking anyone.

    >>> from stylobate import cluster
    >>> nodes = ["a=10.0.0.1:9000", "b=10.0.0.2:9000", "c=10.0.0.3:9000,2"]
    >>> cluster.home(nodes, "lake", "lineitem/part-0.parquet", offset=200 << 20)
    'c'
    >>> cluster.rank(nodes, "lake", "lineitem/part-0.parquet", offset=200 << 20)[:2]
    ['c', 'a']

A node is an entry of a list, `[id=]host:port[,weight][,draining]`, or a dictionary with `id`, `weight` and `state`, as
nodes describe each other: those that are `down` or `draining` are home of nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stylobate._stylobate import choose_by_load, rank_nodes, view_digest

__all__ = ["STRIPE_BYTES", "choose", "digest", "home", "rank"]

STRIPE_BYTES = 64 << 20
"""Bytes of a stripe: each stripe of an object has a home of its own."""


def home(nodes: Sequence[str | Mapping[str, Any]], bucket: str, key: str, offset: int = 0) -> str | None:
    """The id of the node that is home of the byte at `offset` of an object; `None` if no node is up.

    >>> from stylobate import cluster
    >>> cluster.home(["a=h:1", "b=h:2,draining"], "lake", "part-0")
    'a'
    """
    ranked = rank_nodes(entries(nodes), bucket, key, offset, 1)
    return ranked[0] if ranked else None


def rank(nodes: Sequence[str | Mapping[str, Any]], bucket: str, key: str, offset: int = 0) -> list[str]:
    """The ids of all nodes that are up, in the order in which they stand in for each other: home, deputy, others."""
    return rank_nodes(entries(nodes), bucket, key, offset, len(nodes))


def choose(in_flight: Sequence[int], total: int, nodes: int) -> int:
    """The place in rank of the node to ask next: 0, the home, unless it has more than its share to do.

    `in_flight` are the requests that the first nodes in rank have not answered yet, `total` those that no node has, and
    `nodes` is the number of nodes that are up. All of them are the caller's own.

    >>> from stylobate import cluster
    >>> cluster.choose([30, 2, 0], total=40, nodes=10)
    1
    """
    return choose_by_load(list(in_flight), total, nodes)


def digest(nodes: Sequence[str | Mapping[str, Any]]) -> str:
    """The digest of a list of nodes: lists of equal digests place everything alike."""
    return view_digest(entries(nodes))


def entries(nodes: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """The nodes as texts; a single text is a mistake."""
    if isinstance(nodes, str):
        raise TypeError(f"nodes: give a list, such as [{nodes!r}]")
    return [node if isinstance(node, str) else json.dumps(dict(node)) for node in nodes]
