"""A read-only file system for fsspec: objects below a URL, read through the page cache of this process."""

from __future__ import annotations

import datetime
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem, make_instance

from stylobate._stylobate import Cache, ObjectFile, ObjectStoreReader
from stylobate.errors import ConfigError, NotFoundError

__all__ = ["StylobateFileSystem"]


class StylobateFile(AbstractBufferedFile):
    """One version of an object, open for random reads.

    Reads are served from the page cache, so the file has no buffer of its own.
    """

    DEFAULT_BLOCK_SIZE = 1 << 20

    def __init__(self, fs: StylobateFileSystem, path: str, object: ObjectFile, **options: Any) -> None:
        self.object = object
        options.setdefault("cache_type", "none")
        super().__init__(fs, path, mode="rb", size=object.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.object.read(start, end)


class StylobateFileSystem(AbstractFileSystem):
    """A read-only file system below a folder or URL, for pandas, Dask, pyarrow and other users of fsspec.

    Paths are relative to `root`, a folder or a URL. Repeated reads are served from the page cache of `cache`. Default:
    `default_cache()`. As a URL: `stylobate://trips.parquet`, with `root` among the storage options.

    With `nodes`, the S3 addresses of storage nodes (`["10.0.0.1:9000", "10.0.0.2:9000"]`), each range is requested
    directly from its home node, and from another node if that one fails or is slow. `root` is then `s3://bucket` or a
    prefix below it; without a root, paths begin with the bucket. A few nodes of the cluster are enough: they return the
    list of all nodes. Nodes are reached over plain HTTP unless `storage_options` has `allow_http=False`.

    >>> import pandas, stylobate as st
    >>> files = st.StylobateFileSystem(".")
    >>> files.ls("", detail=False)
    ['network', 'social', 'trips.parquet']
    >>> with files.open("trips.parquet") as file:
    ...     len(pandas.read_parquet(file))
    5
    >>> len(pandas.read_parquet("stylobate://trips.parquet", storage_options={"root": "."}))
    5
    """

    protocol = "stylobate"
    root_marker = ""
    # Instances of the same URL are cheap, and may have different caches.
    cachable = False

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        nodes: Sequence[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        cache: Cache | None = None,
        url: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        # Some functions of fsspec have an argument `url` of their own, and cannot pass another one: hence `root`.
        root = url if root is None else root
        if root is None and nodes is None:
            raise ConfigError("root: give the folder or URL that paths are relative to")
        if isinstance(nodes, str):
            raise TypeError(f"nodes: give a list, such as [{nodes!r}]")
        super().__init__(**options)
        self.nodes = None if nodes is None else list(nodes)
        self.url = "s3://" if root is None else os.fspath(root)
        options_of_store = None if storage_options is None else dict(storage_options)
        self._connect = partial(
            ObjectStoreReader, nodes=self.nodes, storage_options=options_of_store, cache=cache
        )
        # By the prefix of keys: the bucket, if paths begin with it; otherwise empty.
        self._readers: dict[str, ObjectStoreReader] = {}
        if root is not None:
            self._readers[""] = self._connect(self.url)
        elif not self.nodes:
            raise ConfigError("nodes: give one or more")

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cache: an unpickled file system reads through the default cache of its process.
        options = {name: value for name, value in self.storage_options.items() if name != "cache"}
        return make_instance, (type(self), self.storage_args, options)

    @property
    def fsid(self) -> str:
        return f"stylobate:{self.url}" + (f" through {', '.join(self.nodes)}" if self.nodes else "")

    def _at(self, path: str) -> tuple[ObjectStoreReader, str, str]:
        """Returns the reader for a path, the key within it, and the prefix of its keys."""
        if reader := self._readers.get(""):
            return reader, path, ""
        bucket, _, key = path.partition("/")
        if not bucket:
            raise ConfigError("name a bucket: without a root, paths begin with one")
        reader = self._readers.get(bucket)
        if reader is None:
            reader = self._readers.setdefault(bucket, self._connect(f"s3://{bucket}"))
        return reader, key, f"{bucket}/"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        stripped = super()._strip_protocol(path)
        return [one.strip("/") for one in stripped] if isinstance(stripped, list) else stripped.strip("/")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns the name, size, type, ETag and modification time of a file, or the name and type of a folder."""
        path = self._strip_protocol(path)
        reader, key, before = self._at(path)
        if key:
            try:
                return file_info(reader.head(key), before)
            except NotFoundError:
                pass
        objects, folders = reader.list(f"{key}/" if key else "")
        if objects or folders or not key:
            return folder_info(path)
        raise NotFoundError(f"{path}: no such file or folder below {self.url}")

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Lists the files and folders in a folder, or the file itself."""
        path = self._strip_protocol(path)
        reader, key, before = self._at(path)
        objects, folders = reader.list(f"{key}/" if key else "")
        entries = [folder_info(before + folder.rstrip("/")) for folder in folders] + [
            file_info(meta, before) for meta in objects
        ]
        if not entries:
            info = self.info(path)
            entries = [info] if info["type"] == "file" else []
        entries.sort(key=lambda entry: entry["name"])
        return entries if detail else [entry["name"] for entry in entries]

    def modified(self, path: str) -> datetime.datetime:
        """Returns the modification time of the file."""
        return self.info(path)["mtime"]

    def ukey(self, path: str) -> str:
        """Returns a key that changes when the file changes."""
        info = self.info(path)
        return str(info.get("etag") or (info.get("mtime"), info["size"]))

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> StylobateFile:
        if mode != "rb":
            raise NotImplementedError(f"mode {mode!r}: this file system reads only")
        for unknown in ("autocommit", "cache_options"):
            if options.get(unknown) in (None, True):
                options.pop(unknown, None)
        return StylobateFile(
            self, path, self._opened(path), block_size=block_size or "default", **options
        )

    def _opened(self, path: str) -> ObjectFile:
        reader, key, _ = self._at(path)
        return reader.open(key)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Reads a file or a range of it. Negative positions count from the end."""
        file = self._opened(self._strip_protocol(path))
        return file.read(*within(file.size, start, end))

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: int | None | Sequence[int | None],
        ends: int | None | Sequence[int | None],
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Reads several ranges of files. Ranges of the same file are read together."""
        begin = [starts] * len(paths) if starts is None or isinstance(starts, int) else list(starts)
        end = [ends] * len(paths) if ends is None or isinstance(ends, int) else list(ends)
        if not len(paths) == len(begin) == len(end):
            raise ValueError("paths, starts and ends must be as many")
        wanted: dict[str, list[int]] = defaultdict(list)
        for at, path in enumerate(paths):
            wanted[self._strip_protocol(path)].append(at)
        found: list[Any] = [b""] * len(paths)
        for path, places in wanted.items():
            parts: list[Any]
            try:
                file = self._opened(path)
                parts = file.read_ranges([within(file.size, begin[at], end[at]) for at in places])
            except Exception as error:
                if on_error != "return":
                    raise
                parts = [error] * len(places)
            for at, part in zip(places, parts, strict=True):
                found[at] = part
        return found


def within(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns the range of the slice from `start` to `end` of `size` bytes."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def file_info(meta: Mapping[str, Any], before: str) -> dict[str, Any]:
    """Returns the fsspec entry of a file, whose name is prefixed with `before`."""
    changed = datetime.datetime.fromtimestamp(meta["modified"], datetime.timezone.utc)
    return {
        "name": before + meta["path"],
        "size": meta["size"],
        "type": "file",
        "mtime": changed,
        "etag": meta["etag"],
        "version": meta["version"],
    }


def folder_info(path: str) -> dict[str, Any]:
    """Returns the fsspec entry of a folder."""
    return {"name": path, "size": 0, "type": "directory"}
