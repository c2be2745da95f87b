"""A read-only file system for fsspec: objects under a URL, read through the page cache of this process."""

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
    """One version of an object, opened for reading anywhere in it.

    Bytes come from the page cache, so none are kept here besides.
    """

    DEFAULT_BLOCK_SIZE = 1 << 20

    def __init__(self, fs: StylobateFileSystem, path: str, object: ObjectFile, **options: Any) -> None:
        self.object = object
        options.setdefault("cache_type", "none")
        super().__init__(fs, path, mode="rb", size=object.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.object.read(start, end)


class StylobateFileSystem(AbstractFileSystem):
    """Files below a folder or URL, for pandas, Dask, pyarrow and whatever else takes a file system of fsspec.

    Paths are relative to `root`, a folder or a URL. What is read again comes from the pages of `cache`, by default those
    of `default_cache()`. Nothing can be written. As a URL: `stylobate://trips.parquet`, with `root` among the options.

    With `nodes`, the S3 addresses of storage nodes (`["10.0.0.1:9000", "10.0.0.2:9000"]`), each byte is asked of the node
    that keeps it, without a hop from node to node, and of another one if that fails or is slow. `root` is then
    `s3://bucket` or below, or left out: then paths begin with the bucket. Some of the nodes of a cluster are enough; the
    list of all comes from them. They are reached by plain HTTP unless `storage_options` has `allow_http=False`.

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
    # Two of the same URL are cheap, and may have different caches.
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
        # Functions of fsspec have an argument of the name `url` themselves, so that only some can pass it on.
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
        # By what comes before the keys: the bucket, if paths begin with it.
        self._readers: dict[str, ObjectStoreReader] = {}
        if root is not None:
            self._readers[""] = self._connect(self.url)
        elif not self.nodes:
            raise ConfigError("nodes: give one or more")

    def __reduce__(self) -> tuple[Any, ...]:
        # Without its cache: elsewhere it reads through the default one of that process.
        options = {name: value for name, value in self.storage_options.items() if name != "cache"}
        return make_instance, (type(self), self.storage_args, options)

    @property
    def fsid(self) -> str:
        return f"stylobate:{self.url}" + (f" through {', '.join(self.nodes)}" if self.nodes else "")

    def _at(self, path: str) -> tuple[ObjectStoreReader, str, str]:
        """The reader of a path, the key in it, and what comes before keys."""
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
        """Name, size, type, ETag and time of change of a file, or name and type of a folder."""
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
        """The files and folders in a folder, or the file itself."""
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
        """When the file was changed last."""
        return self.info(path)["mtime"]

    def ukey(self, path: str) -> str:
        """What changes when the file does."""
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
        """The bytes of a file, or of a part of it; negative positions count from its end."""
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
        """The bytes of several parts of files. Those of one file are read together."""
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
    """The part of so many bytes that a slice from `start` to `end` is."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def file_info(meta: Mapping[str, Any], before: str) -> dict[str, Any]:
    """What fsspec wants to know of a file, whose name continues `before`."""
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
    """What fsspec wants to know of a folder."""
    return {"name": path, "size": 0, "type": "directory"}
