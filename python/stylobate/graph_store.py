"""`GraphStore`: a versioned, mutable graph in a folder or a bucket."""

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
from stylobate.store_results import Compacted, GcReport, Loaded, LogEntry, Verification, log_entry
from stylobate.store_snapshot import Snapshot
from stylobate.store_writer import StoreWriter

__all__ = ["GraphStore"]

Prewarm = Mapping[Any, "Sequence[str] | None"]


class GraphStore:
    """A mutable graph in a folder or below a prefix of a bucket.

    It consists of immutable files, and a log whose records list the files of each version. Created by
    `GraphStore.create`, opened by `GraphStore.open`. Any number of processes may read a store; one process writes, the
    last one that requested a writer.

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
        """Creates an empty store.

        Args:
            url: Folder, or prefix in an object store that supports conditional puts (create if absent): `s3://`,
                `gs://`, `az://`.
            schema: Types of the graph. `"vertices"` maps each vertex type to its `key`, a property of type `int32`,
                `int64` or `string`, and its `properties` by name and type, including the key. `"edges"` maps each
                `(source, edge, destination)` to its properties by name and type. Types are `bool`, `int32`, `int64`,
                `float`, `double`, `string`, `date`, `timestamp` (in milliseconds), and `list<…>` of numbers or of
                strings. Default: no types; `load` creates them from the data.
            cache: Cache of decoded columns. Default: `default_cache()`.
            inline_limit: Maximum total bytes of the batches of a commit that are stored inline in its log record.
                Default: 64 KiB.
            vertex_chunk_size: Vertices per chunk. Default: 65,536.
            edge_chunk_size: Edges per chunk. Default: 65,536.
            memory: Memory limit of a load or a compaction in bytes. Default: 1 GiB.
            durability: `"fsync"`: a commit to a folder returns when it survives a power loss; `"none"`: without waiting
                for that. Default: `"fsync"`.
            temporary_folder: Folder for sorting data that does not fit into memory. Default: the system's.
            storage_options: Options of the store, such as `region`, `endpoint` or `access_key_id`.

        Raises:
            AlreadyExistsError: A store already exists at `url`.
            SchemaError: The schema is invalid.
            UnsupportedError: GraphAr cannot represent a type or a name, such as `list<date>`.
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
        """Opens the latest version of a store, with one list and one read request.

        Args:
            url: Folder or prefix of the store.
            prewarm: Types to load into the cache in the background: a list of vertex and edge types, or a dictionary of
                types and columns (None: all columns). The offsets of all edge types are loaded first; True loads only
                them. Default: nothing.
            prewarm_limit: Maximum bytes in memory, at which prewarming stops. Default: 1 GiB.

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
        """The latest known version."""
        return self._local.snapshot().version

    def refresh(self) -> Snapshot:
        """Looks for newer versions, and returns the latest one. The cache stays valid."""
        return Snapshot(self._local.refresh())

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Returns a version that is still retained. Default: the latest known one.

        Raises:
            NotFoundError: The version is not retained.
        """
        return Snapshot(self._local.snapshot(version))

    def log(self) -> list[LogEntry]:
        """Returns the log entries of the retained versions, oldest first.

        >>> import stylobate as st
        >>> [entry.operation for entry in st.GraphStore.open("network").log()]
        ['create', 'writer', 'write']
        """
        return [log_entry(entry) for entry in self._local.log()]

    def writer(self) -> StoreWriter:
        """Becomes the writer, and fences the previous one. This takes one commit.

        Raises:
            ConflictError: Other processes kept committing at the same time.
        """
        return StoreWriter(self._local.writer())

    def load(
        self,
        vertices: Mapping[str, Any] | None = None,
        edges: Mapping[tuple[str, str, str], Any] | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Loaded:
        """Bulk-loads vertices and edges as one version. Becomes the writer.

        Data of any size is sorted on disk if it does not fit into the memory of the store's options. Types that do not
        exist yet are created from the columns of their data, in a version before the load.

        Args:
            vertices: Data by vertex type, or a dictionary of `data` and options: `key`, the key column of a new type;
                `delimiter` of a CSV file.
            edges: Data by `(source, edge, destination)`, or a dictionary of `data` and options: `source` and
                `destination`, the columns of the endpoints (default: `"src"` and `"dst"`); `by`, what they hold:
                `"key"` or `"index"`; `delimiter` of a CSV file.
            progress: Function that is called with the rows read so far, and at the end also with the bytes written. An
                exception in it ends the load, except at the end.

        Data is any Arrow data, a scan, or the path of a Parquet, ORC, CSV, JSON or Arrow IPC file. Types of new
        properties are inferred from all values of CSV and JSON files, by the rules of `scan_csv`.

        Raises:
            InvalidDataError: A key already exists, an endpoint does not exist, or a value does not fit. Nothing was
                loaded.

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
        """Merges the deltas of commits into bases, type by type.

        By default, a type is compacted if its added, deleted or changed rows exceed `share` of its base (default: 0.2);
        with `force`, if it has any. Readers are not blocked, and neither is the writer, unless its commits keep winning
        the race for the next version: then it pauses for up to 3 seconds. If other commits or compactions still win the
        race, raises `ConflictError`.

        >>> import stylobate as st
        >>> store = st.GraphStore.open("network")
        >>> [done.type for done in store.compact(force=True)]
        ['Person', 'Person_KNOWS_Person']
        """
        names = None if types is None else [edge_name(type) for type in types]
        return [Compacted(*done) for done in self._local.compact(names, share, force)]

    def gc(
        self, older_than: timedelta | float | None = None, *, even_young: bool = False, dry_run: bool = False
    ) -> GcReport:
        """Removes old versions, and files that no version references.

        The latest version and the snapshots that this store object holds are always retained. Snapshots in other
        processes are safe until their version has been superseded for `older_than`.

        Args:
            older_than: Minimum age of removed versions, as a timedelta or in seconds; at least one hour. Default: 7
                days.
            even_young: Whether to allow an age of less than one hour. No process may write, load or compact at the same
                time. Default: False.
            dry_run: Whether to only report what would be removed. Default: False.
        """
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        return GcReport(*self._local.gc(seconds, even_young, dry_run))

    def prewarm(
        self, types: Sequence[Edge] | Prewarm = (), *, limit: int | str | None = None
    ) -> tuple[int, bool]:
        """Loads types into the cache, as `open` does, and waits for it.

        Returns the bytes loaded, and whether the limit was reached.
        """
        warmed = self._local.prewarm(wanted(types), limit, True)
        assert warmed is not None
        return warmed

    def verify(self) -> Verification:
        """Reads the whole latest known version, and reports its flaws.

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
        """Writes the latest known version as a graph in the GraphAr format; see `Snapshot.export_graphar`."""
        return self.snapshot().export_graphar(path, name, overwrite=overwrite, storage_options=storage_options)

    def stats(self) -> dict[str, Any]:
        """Returns statistics of the latest known version and of the caches.

        Counts are by type. `"memory"` holds the memory use of the store by kind, with hit and decode counts; `"cache"`
        the statistics of the cache, which may be shared.

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
    """Returns the `repr` of a store, without credentials."""
    return re.sub(r"://[^/@\s]*@", "://", f"GraphStore({str(url)!r})")


def wanted(types: Sequence[Edge] | Prewarm) -> list[tuple[str, list[str] | None]]:
    """Converts types and their columns for the extension."""
    if isinstance(types, str):
        raise TypeError(f"types: give a list, such as [{types!r}]")
    if isinstance(types, Mapping):
        return [
            (edge_name(type), None if columns is None else column_names(columns)) for type, columns in types.items()
        ]
    return [(edge_name(type), None) for type in types]
