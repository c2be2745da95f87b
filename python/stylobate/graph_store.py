"""`GraphStore`: a graph in a folder or a bucket that can be changed, version by version."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from stylobate import _html
from stylobate._stylobate import Cache, LocalGraphStore
from stylobate.graph_write import WrittenGraph
from stylobate.scan import Path, column_names
from stylobate.store_data import Edge, Schema, edge_name, schema_lists
from stylobate.store_results import Collected, Compacted, Loaded, LogEntry, Verification, log_entry
from stylobate.store_snapshot import Snapshot
from stylobate.store_writer import StoreWriter

__all__ = ["GraphStore"]

Prewarm = Mapping[Any, "Sequence[str] | None"]


class GraphStore:
    """A graph in a folder or a prefix of a bucket that can be changed: immutable files, and a log that says of which
    files each version is made. Made by `GraphStore.create`, opened by `GraphStore.open`.

    Any number of processes may read it; one writes, the one that asked for a writer last.

    >>> import stylobate as st
    >>> store = st.GraphStore.create(
    ...     "friends",
    ...     {
    ...         "vertices": {"Person": {"key": "id", "properties": {"id": "int64", "name": "string"}}},
    ...         "edges": {("Person", "KNOWS", "Person"): {"since": "date"}},
    ...     },
    ... )
    >>> with store.writer() as writer:
    ...     people = writer.add_vertices("Person", {"id": [7, 9], "name": ["Al", "Bo"]})
    ...     edges = writer.add_edges("KNOWS", {"src": [7], "dst": [9]})
    >>> snapshot = store.snapshot()
    >>> snapshot.start("Person", keys=[7]).out("KNOWS").select(["name"]).to_arrow().to_pydict()
    {'name': ['Bo']}
    """

    def __init__(self, local: LocalGraphStore, shown: str) -> None:
        self._local = local
        self._shown = shown

    @classmethod
    def create(
        cls,
        url: Path,
        schema: Schema | None = None,
        *,
        cache: Cache | None = None,
        inline_limit: int | str | None = None,
        vertex_chunk_size: int | None = None,
        edge_chunk_size: int | None = None,
        memory: int | str | None = None,
        durability: Literal["fsync", "none"] = "fsync",
        temporary_folder: Path | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> GraphStore:
        """Makes a store without vertices.

        Args:
            url: A folder, or a prefix of an object store that can put an object only where there is none: `s3://`,
                `gs://`, `az://`.
            schema: `"vertices"`: by type the `key`, a property of type `int32`, `int64` or `string`, and the
                `properties` with their types, the key among them; `"edges"`: by types `(source, edge, destination)`
                the properties with their types. Types are `bool`, `int32`, `int64`, `float`, `double`, `string`,
                `date`, `timestamp` (of whole milliseconds) and `list<…>`. Without a schema there are no types yet:
                `load` makes them after data.
            cache: What to keep and find decoded columns in. Default: the one of `default_cache`.
            inline_limit: Batches of a commit ride in the log up to so many bytes together. Default: 64 KiB.
            vertex_chunk_size: Vertices of a chunk. Default: 65,536.
            edge_chunk_size: Edges of a chunk. Default: 65,536.
            memory: What a load or a compaction may take. Default: 1 GiB.
            durability: `"none"` does not wait until a commit to a folder would survive a loss of power.
            temporary_folder: Where is sorted what does not fit into the memory. Default: the system's.
            storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`.

        Raises:
            AlreadyExistsError: There is a store.
            SchemaError: The schema cannot be as it is.
        """
        given: dict[str, Any] = {"inline_limit": inline_limit, "vertex_chunk_size": vertex_chunk_size}
        given |= {"edge_chunk_size": edge_chunk_size, "memory": memory, "temporary_folder": temporary_folder}
        given = {name: value for name, value in given.items() if value is not None}
        options = None if storage_options is None else dict(storage_options)
        vertices, edges = schema_lists(schema)
        local = LocalGraphStore.create(url, vertices, edges, given | {"durability": durability}, cache, options)
        return cls(local, shown(url))

    @classmethod
    def open(
        cls,
        url: Path,
        *,
        cache: Cache | None = None,
        prewarm: bool | Sequence[Edge] | Prewarm | None = None,
        prewarm_limit: int | str | None = None,
        inline_limit: int | str | None = None,
        vertex_chunk_size: int | None = None,
        edge_chunk_size: int | None = None,
        memory: int | str | None = None,
        durability: Literal["fsync", "none"] = "fsync",
        temporary_folder: Path | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> GraphStore:
        """Opens the newest version of a store: a listing and a read.

        Args:
            url: Where it is.
            prewarm: What is brought into the cache in the background: types of vertices and edges, or by type the
                columns (all where that is None); the offsets of all edges come first, and alone with True.
            prewarm_limit: It ends when so many bytes are in memory. Default: 1 GiB.

        The other arguments are those of `create`.

        Raises:
            NotFoundError: There is no store, or no type that `prewarm` names.
            ColumnNotFoundError: `prewarm` names a property that its type does not have.
        """
        given: dict[str, Any] = {"inline_limit": inline_limit, "vertex_chunk_size": vertex_chunk_size}
        given |= {"edge_chunk_size": edge_chunk_size, "memory": memory, "temporary_folder": temporary_folder}
        given = {name: value for name, value in given.items() if value is not None}
        options = None if storage_options is None else dict(storage_options)
        store = cls(LocalGraphStore.open(url, given | {"durability": durability}, cache, options), shown(url))
        if prewarm is not None and prewarm is not False:
            store._local.prewarm(wanted(() if prewarm is True else prewarm), prewarm_limit, False)
        return store

    @property
    def version(self) -> int:
        """The newest version that is known here."""
        return self._local.snapshot().version

    def refresh(self) -> Snapshot:
        """Looks for newer versions, and returns the newest. What is cached stays."""
        return Snapshot(self._local.refresh())

    def snapshot(self, version: int | None = None) -> Snapshot:
        """A version: the newest that is known here, or another one that is still kept.

        Raises:
            NotFoundError: The version is not kept.
        """
        return Snapshot(self._local.snapshot(version))

    def log(self) -> list[LogEntry]:
        """What the log says of the versions that are kept, oldest first.

        >>> import stylobate as st
        >>> [entry.operation for entry in st.GraphStore.open("network").log()]
        ['create', 'writer', 'write']
        """
        return [log_entry(entry) for entry in self._local.log()]

    def writer(self) -> StoreWriter:
        """Becomes the writer: whoever was it is fenced from now on. One commit.

        Raises:
            ConflictError: Others keep committing meanwhile.
        """
        return StoreWriter(self._local.writer())

    def load(
        self,
        vertices: Mapping[str, Any] | None = None,
        edges: Mapping[tuple[str, str, str], Any] | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Loaded:
        """Loads vertices and edges as one version, however many they are: sorted on disk where they do not fit into
        the memory of the store's options. It becomes the writer to do so.

        Types that are not there yet are made after the columns of their data, in a version of their own before.

        Args:
            vertices: By type, data, or a dictionary: `data`; `key`, the column of the key, for a new type;
                `delimiter` of a CSV file.
            edges: By types `(source, edge, destination)`, data, or a dictionary: `data`; `source` and `destination`,
                the columns with the ends (`"src"` and `"dst"`); `by`, what these are: `"key"` or `"index"`;
                `delimiter`.
            progress: Is called with the rows that came, and when it is done with the bytes too; what it raises before
                ends the load.

        Data is whatever gives Arrow data, a scan, or a path of Parquet, ORC, CSV, JSON or Arrow IPC files. All values
        of CSV and JSON are looked at to find the types of new properties, as `scan_csv` does.

        Raises:
            InvalidDataError: A key is there already, an end is not there, or a value does not fit. Nothing was loaded.

        >>> import stylobate as st
        >>> store = st.GraphStore.create("friends")
        >>> loaded = store.load(
        ...     vertices={"Person": {"data": {"id": [7, 9], "name": ["Al", "Bo"]}, "key": "id"}},
        ...     edges={("Person", "KNOWS", "Person"): {"src": [9], "dst": [7], "since": [2001]}},
        ... )
        >>> loaded.vertices, loaded.edges
        (2, 1)
        """
        return self.writer().load(vertices, edges, progress=progress)

    def compact(
        self, types: Sequence[Edge] | None = None, *, share: float | None = None, force: bool = False
    ) -> list[Compacted]:
        """Makes bases of what commits left behind, type by type: where rows that were added, deleted or changed are
        more than a share (0.2) of a base, or with `force` wherever there are any. Readers and the writer go on
        meanwhile.

        >>> import stylobate as st
        >>> store = st.GraphStore.open("network")
        >>> [done.type for done in store.compact(force=True)]
        ['Person', 'Person_KNOWS_Person']
        """
        names = None if types is None else [edge_name(type) for type in types]
        return [Compacted(*done) for done in self._local.compact(names, share, force)]

    def gc(
        self, older_than: timedelta | float | None = None, *, even_young: bool = False, dry_run: bool = False
    ) -> Collected:
        """Removes versions that are old, and files that no version needs. The newest version stays, and what
        snapshots of this store hold; snapshots in other processes are safe while they are younger than the age.

        Args:
            older_than: What is younger stays: a time, or seconds. Default: 7 days. Less than an hour is an hour.
            even_young: Even where that is less than an hour. Nobody may write, load or compact meanwhile.
            dry_run: Only says what would be removed.
        """
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        return Collected(*self._local.gc(seconds, even_young, dry_run))

    def prewarm(
        self, types: Sequence[Edge] | Prewarm = (), *, limit: int | str | None = None
    ) -> tuple[int, bool]:
        """Brings types into the cache, as `open` does, and waits for it. Returns the bytes, and whether it ended at
        the limit."""
        warmed = self._local.prewarm(wanted(types), limit, True)
        assert warmed is not None
        return warmed

    def verify(self) -> Verification:
        """Reads all that the newest known version is made of, and says what is wrong with it.

        >>> import stylobate as st
        >>> st.GraphStore.open("network").verify().flaws
        []
        """
        return self.snapshot().verify()

    def export_graphar(
        self,
        path: Path,
        name: str,
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> WrittenGraph:
        """Writes the newest known version as a graph in the GraphAr format; see `Snapshot.export_graphar`."""
        return self.snapshot().export_graphar(path, name, overwrite=overwrite, storage_options=storage_options)

    def stats(self) -> dict[str, Any]:
        """What there is in the newest known version, by type; under `"memory"` what is in memory of the store, by
        kind, and how often it was found and decoded; and under `"cache"` what the cache holds and did, which others
        may share.

        >>> import stylobate as st
        >>> stats = st.GraphStore.open("network").stats()
        >>> stats["version"], stats["vertices"], stats["edges"]
        (2, {'Person': 3}, {('Person', 'KNOWS', 'Person'): 3})
        """
        snapshot = self.snapshot()
        schema = snapshot.schema
        return {
            "version": snapshot.version,
            "epoch": snapshot.entry.epoch,
            "vertices": {type: snapshot.vertex_count(type) for type in schema["vertices"]},
            "edges": {edge: snapshot.edge_count(edge) for edge in schema["edges"]},
            "memory": self._local.stats(),
            "cache": self._local.cache_stats(),
        }

    def _repr_html_(self) -> str:
        return _html.store_html(self.snapshot(), self._shown)

    def __repr__(self) -> str:
        return self._shown


def shown(url: Path) -> str:
    """How a store is shown, without credentials."""
    return re.sub(r"://[^/@\s]*@", "://", f"GraphStore({str(url)!r})")


def wanted(types: Sequence[Edge] | Prewarm) -> list[tuple[str, list[str] | None]]:
    """Types and their columns as Rust takes them."""
    if isinstance(types, str):
        raise TypeError(f"types: give a list, such as [{types!r}]")
    if isinstance(types, Mapping):
        return [
            (edge_name(type), None if columns is None else column_names(columns)) for type, columns in types.items()
        ]
    return [(edge_name(type), None) for type in types]
