"""The four queries of `make bench-store` over the graph store, and the loading of its data: also an example to read.

They return what a person's friends wrote, who liked what the person wrote, the replies to it, and what friends of
friends wrote: the 20 newest each, with names, texts and dates. Each starts at the person and follows edges; properties
of rows not among the final 20 are never read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import stylobate as st

NEWEST = 20
POSTS = ["friend.firstName", "friend.lastName", "content", "creationDate"]


def ic02(person: st.Traversal) -> st.Traversal:
    """The newest posts of the people whom the person knows."""
    posts = person.out("KNOWS", "Person", name="friend").in_("HAS_CREATOR", "Post")
    return posts.top(NEWEST, by="creationDate").select(POSTS)


def ic07(person: st.Traversal) -> st.Traversal:
    """The latest likes of the person's posts: `creationDate` is that of the edge."""
    likes = person.in_("HAS_CREATOR", "Post").in_("LIKES", "Person", columns=["creationDate"], name="fan")
    columns = ["fan.firstName", "fan.lastName", "creationDate", "Post.content"]
    return likes.top(NEWEST, by="creationDate").select(columns)


def ic08(person: st.Traversal) -> st.Traversal:
    """The newest replies to the person's posts."""
    replies = person.in_("HAS_CREATOR", "Post").in_("REPLY_OF", "Comment")
    return replies.top(NEWEST, by="creationDate").select(["content", "creationDate", "Post.content"])


def ic09(person: st.Traversal) -> st.Traversal:
    """The newest posts of friends of friends."""
    friends = person.out("KNOWS", "Person").out("KNOWS", "Person", name="friend")
    return friends.in_("HAS_CREATOR", "Post").top(NEWEST, by="creationDate").select(POSTS)


QUERIES: dict[str, Callable[[st.Traversal], st.Traversal]] = {"IC02": ic02, "IC07": ic07, "IC08": ic08, "IC09": ic09}


class Network:
    """A social network in a graph store, at its newest version."""

    def __init__(self, url: Path, prepared: bool, cache: st.Cache | None = None) -> None:
        self.store = st.GraphStore.open(url, cache=cache)
        self.snapshot = self.store.snapshot()
        self.prepared = prepared

    def query(self, name: str) -> Callable[[str], pa.Table]:
        """Returns a function that runs the query for one person: built each time, or prepared once."""
        hops = QUERIES[name]
        if not self.prepared:
            return lambda person: hops(self.snapshot.start("Person", keys=[person])).to_arrow()
        traversal = hops(self.snapshot.start("Person")).prepare()
        return lambda person: traversal(keys=[person])

    @staticmethod
    def rows(answer: pa.Table) -> list[tuple[Any, ...]]:
        """Returns an answer as Python tuples."""
        return list(zip(*(column.to_pylist() for column in answer.columns)))


def load(url: Path, data: Path) -> None:
    """Loads the tables that `stylobate generate snb` wrote, one for each pair of vertex types."""
    vertices = {"Person": "persons", "Post": "posts", "Comment": "comments"}
    edges = {
        ("Person", "KNOWS", "Person"): "knows",
        ("Post", "HAS_CREATOR", "Person"): "post_has_creator",
        ("Comment", "HAS_CREATOR", "Person"): "comment_has_creator",
        ("Person", "LIKES", "Post"): "likes_post",
        ("Person", "LIKES", "Comment"): "likes_comment",
        ("Comment", "REPLY_OF", "Post"): "reply_of_post",
        ("Comment", "REPLY_OF", "Comment"): "reply_of_comment",
    }
    st.GraphStore.create(url).load(
        vertices={name: {"data": data / f"{table}.parquet", "key": "id"} for name, table in vertices.items()},
        edges={name: {"data": data / f"{table}.parquet", "by": "key"} for name, table in edges.items()},
    )
