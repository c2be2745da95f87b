"""Placement of objects on the nodes of a cluster, as nodes and clients compute it, without any request.

    >>> from stylobate import cluster
    >>> nodes = ["a=10.0.0.1:9000", "b=10.0.0.2:9000", "c=10.0.0.3:9000,2"]
    >>> cluster.home(nodes, "lake", "lineitem/part-0.parquet", offset=200 << 20)
    'c'
    >>> cluster.rank(nodes, "lake", "lineitem/part-0.parquet", offset=200 << 20)[:2]
    ['c', 'a']

A node is an entry of a node list, `[id=]host:port[,weight][,draining]`, or a dictionary with `id`, `weight` and
`state`, as in the node's own description. A node that is `down` or `draining` is never a home.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stylobate._stylobate import choose_by_load, rank_nodes, view_digest

__all__ = ["STRIPE_BYTES", "choose", "digest", "home", "rank"]

STRIPE_BYTES = 64 << 20
"""Size of a stripe in bytes. Each stripe of an object has its own home."""


def home(nodes: Sequence[str | Mapping[str, Any]], bucket: str, key: str, offset: int = 0) -> str | None:
    """Returns the id of the home node of the byte at `offset` of an object; None if no node is up.

    >>> from stylobate import cluster
    >>> cluster.home(["a=h:1", "b=h:2,draining"], "lake", "part-0")
    'a'
    """
    ranked = rank_nodes(entries(nodes), bucket, key, offset, 1)
    return ranked[0] if ranked else None


def rank(nodes: Sequence[str | Mapping[str, Any]], bucket: str, key: str, offset: int = 0) -> list[str]:
    """Returns the ids of all nodes that are up, in failover order: the home, its deputy, then the others."""
    return rank_nodes(entries(nodes), bucket, key, offset, len(nodes))


def choose(in_flight: Sequence[int], total: int, nodes: int) -> int:
    """Returns the position in rank of the node to ask next: 0, the home, unless it is overloaded.

    Args:
        in_flight: Requests in flight to the first nodes in rank.
        total: Requests in flight to all nodes.
        nodes: Number of nodes that are up.

    Only the caller's own requests count.

    >>> from stylobate import cluster
    >>> cluster.choose([30, 2, 0], total=40, nodes=10)
    1
    """
    return choose_by_load(list(in_flight), total, nodes)


def digest(nodes: Sequence[str | Mapping[str, Any]]) -> str:
    """Returns the digest of a node list. Lists with the same digest have the same placement."""
    return view_digest(entries(nodes))


def entries(nodes: Sequence[str | Mapping[str, Any]]) -> list[str]:
    """Returns the nodes as strings. Raises TypeError for a single string."""
    if isinstance(nodes, str):
        raise TypeError(f"nodes: give a list, such as [{nodes!r}]")
    return [node if isinstance(node, str) else json.dumps(dict(node)) for node in nodes]
