"""The same queries as text, and loading of the same data into Kùzu, Ladybug and NamiDB. Each is imported where it is
used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

POSTS_OF = "<-[:HAS_CREATOR]-(post:Post)"
POSTS = "RETURN {0}.firstName, {0}.lastName, post.content AS content, post.creationDate AS at ORDER BY at DESC LIMIT 20"
QUERIES = {
    "IC02": f"-[:KNOWS]->(friend:Person){POSTS_OF} " + POSTS.format("friend"),
    "IC07": f"{POSTS_OF}<-[like:LIKES]-(fan:Person) RETURN fan.firstName, fan.lastName, like.creationDate AS at, "
            "post.content ORDER BY at DESC LIMIT 20",
    "IC08": f"{POSTS_OF}<-[:REPLY_OF]-(reply:Comment) RETURN reply.content, reply.creationDate AS at, post.content "
            "ORDER BY at DESC LIMIT 20",
    # NamiDB returns wrong rows if the middle vertex has no name.
    "IC09": f"-[:KNOWS]->(between:Person)-[:KNOWS]->(friend:Person){POSTS_OF} " + POSTS.format("friend"),
}  # fmt: skip
VERTICES = {"Person": "persons", "Post": "posts", "Comment": "comments"}
EDGES = [
    ("KNOWS", "Person", "Person", "knows"),
    ("HAS_CREATOR", "Post", "Person", "post_has_creator"),
    ("HAS_CREATOR", "Comment", "Person", "comment_has_creator"),
    ("LIKES", "Person", "Post", "likes_post"),
    ("LIKES", "Person", "Comment", "likes_comment"),
    ("REPLY_OF", "Comment", "Post", "reply_of_post"),
    ("REPLY_OF", "Comment", "Comment", "reply_of_comment"),
]
Rows = list[tuple[Any, ...]]


class Kuzu:
    """Kùzu, or its fork Ladybug, which has the same API; queries as text, or prepared."""

    def __init__(self, module: Any, folder: Path, prepared: bool) -> None:
        self.connection = module.Connection(module.Database(str(folder / "graph")))
        self.prepared = prepared

    def query(self, name: str) -> Callable[[str], Any]:
        """Returns a function that runs the query for one person, up to an answer that the engine holds in full."""
        if not self.prepared:
            return lambda person: self.connection.execute(f"MATCH (p:Person {{id: '{person}'}}){QUERIES[name]}")
        statement = self.connection.prepare(f"MATCH (p:Person {{id: $id}}){QUERIES[name]}")
        return lambda person: self.connection.execute(statement, {"id": person})

    @staticmethod
    def rows(answer: Any) -> Rows:
        return [tuple(row) for row in answer.get_all()]

    @staticmethod
    def load(module: Any, folder: Path, data: Path) -> None:
        database = module.Database(str(folder / "graph"))
        connection = module.Connection(database)
        message = "(id STRING PRIMARY KEY, content STRING, creationDate INT64, length INT64)"
        for statement in [
            "CREATE NODE TABLE Person(id STRING PRIMARY KEY, firstName STRING, lastName STRING, age INT64, "
            "creationDate INT64)",
            f"CREATE NODE TABLE Post{message}",
            f"CREATE NODE TABLE Comment{message}",
            "CREATE REL TABLE KNOWS(FROM Person TO Person, since INT64)",
            "CREATE REL TABLE HAS_CREATOR(FROM Post TO Person, FROM Comment TO Person)",
            "CREATE REL TABLE LIKES(FROM Person TO Post, FROM Person TO Comment, creationDate INT64)",
            "CREATE REL TABLE REPLY_OF(FROM Comment TO Post, FROM Comment TO Comment)",
        ]:
            connection.execute(statement)
        for label, table in VERTICES.items():
            connection.execute(f"COPY {label} FROM '{data / table}.parquet'")
        for name, source, destination, table in EDGES:
            ends = "" if name == "KNOWS" else f" (FROM='{source}', TO='{destination}')"
            connection.execute(f"COPY {name} FROM '{data / table}.parquet'{ends}")
        connection.close()
        database.close()


class Nami:
    """NamiDB, with its edge caches and adjacency lists enabled. Of parallel edges it keeps the last.

    A person is looked up by a unique property, or by NamiDB's element id: which is faster depends on the query.
    """

    def __init__(self, folder: Path, by_element: bool) -> None:
        self.client = self.open(folder)
        self.by_element = by_element

    @staticmethod
    def open(folder: Path) -> Any:
        os.environ["NAMIDB_ADJACENCY"] = "1"
        import namidb

        return namidb.Client(f"file://{folder.absolute()}?ns=social")

    def query(self, name: str) -> Callable[[str], Any]:
        if not self.by_element:
            return lambda person: self.client.cypher(f"MATCH (p:Person {{id: '{person}'}}){QUERIES[name]}")
        pattern, _, rest = QUERIES[name].partition(" RETURN ")
        return lambda person: self.client.cypher(
            f"MATCH (p:Person){pattern} WHERE elementId(p) = '{UUID(person)}' RETURN {rest}"
        )

    @staticmethod
    def rows(answer: Any) -> Rows:
        return [tuple(row[column] for column in answer.columns) for row in answer.rows()]

    @staticmethod
    def prepare(folder: Path, data: Path) -> None:
        """Writes ids as 16 bytes, which its loader requires; not timed."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        def binary(column: pa.ChunkedArray) -> pa.Array:
            return pa.array([bytes.fromhex(id) for id in column.to_pylist()], pa.binary(16))

        folder.mkdir(parents=True)
        tables = [*VERTICES.values(), *(table for *_, table in EDGES)]
        for name in tables:
            table = pq.read_table(data / f"{name}.parquet")
            for at, field in enumerate(table.schema):
                if pa.types.is_dictionary(field.type):
                    table = table.set_column(at, field.name, table[field.name].cast(pa.string()))
            if "id" in table.column_names:
                table = table.append_column("node_id", binary(table["id"]))
            else:
                table = table.set_column(0, "src", binary(table["src"])).set_column(1, "dst", binary(table["dst"]))
            pq.write_table(table, folder / f"{name}.parquet")

    @staticmethod
    def load(folder: Path, prepared: Path) -> None:
        client = Nami.open(folder)
        for label in VERTICES:
            client.cypher(f"CREATE CONSTRAINT FOR (v:{label}) REQUIRE v.id IS UNIQUE")
        for label, table in VERTICES.items():
            client.load_parquet_nodes(label, str(prepared / f"{table}.parquet"))
        for name, _, _, table in EDGES:
            client.load_parquet_edges(name, str(prepared / f"{table}.parquet"))
        client.commit()
        client.flush()
