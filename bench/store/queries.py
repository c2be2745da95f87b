"""The four queries of `make bench-store` over the graph store, and how its data is loaded: also an example to read.

`IC02` to `IC09` ask for what a person's friends wrote, who liked what the person wrote, what was replied to it, and
what friends of friends wrote: the 20 newest each, with names, texts and dates.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import stylobate as st

NEWEST = 20


class Network:
    """A social network in a graph store, as one of its versions has it."""

    def __init__(self, url: str) -> None:
        self.store = st.GraphStore.open(url)
        self.snapshot = self.store.snapshot()

    def ic02(self, person: str) -> pa.Table:
        """The newest posts of those whom the person knows."""
        return (
            self.snapshot.start("Person", keys=[person])
            .out("KNOWS", "Person")
            .in_("HAS_CREATOR", "Post", columns=["creationDate"])
            .top(NEWEST, by="creationDate")
            .select(["Person.firstName", "Person.lastName", "content", "creationDate"])
            .to_arrow()
        )

    def ic07(self, person: str) -> pa.Table:
        """Who liked the person's posts last."""
        return (
            self.snapshot.start("Person", keys=[person])
            .in_("HAS_CREATOR", "Post")
            .in_("LIKES", "Person", columns=["creationDate"])
            .top(NEWEST, by="LIKES.creationDate")
            .select(["Person.firstName", "Person.lastName", "LIKES.creationDate", "content"])
            .to_arrow()
        )

    def ic08(self, person: str) -> pa.Table:
        """The newest replies to the person's posts."""
        return (
            self.snapshot.start("Person", keys=[person])
            .in_("HAS_CREATOR", "Post")
            .in_("REPLY_OF", "Comment", columns=["creationDate"])
            .top(NEWEST, by="creationDate")
            .select(["Comment.content", "creationDate", "Post.content"])
            .to_arrow()
        )

    def ic09(self, person: str) -> pa.Table:
        """The newest posts of those whom they know whom the person knows."""
        return (
            self.snapshot.start("Person", keys=[person])
            .out("KNOWS", "Person")
            .out("KNOWS", "Person")
            .in_("HAS_CREATOR", "Post", columns=["creationDate"])
            .top(NEWEST, by="creationDate")
            .select(["Person.firstName", "Person.lastName", "content", "creationDate"])
            .to_arrow()
        )


def load(url: str, data: Path) -> None:
    """Loads the tables that `stylobate generate snb` made, one for each pair of vertex types."""
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
    st.GraphStore.load(
        url,
        vertices={name: {"data": data / f"{table}.parquet", "key": "id"} for name, table in vertices.items()},
        edges={name: {"data": data / f"{table}.parquet", "by": "key"} for name, table in edges.items()},
    )
