"""A scan that a storage node does: asked for through its Flight door, and read as it comes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from stylobate import _optional as optional
from stylobate._stylobate import Column, Expr, table_command
from stylobate.errors import (
    ColumnNotFoundError,
    ConfigError,
    FilterError,
    NotFoundError,
    StorageError,
    StylobateError,
)
from stylobate.scan import plain_dictionary

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import flight

    from stylobate.filters import Filter
    from stylobate.scan import Dictionary, Path

__all__ = ["FlightScan"]

VERSION = 1


class FlightScan:
    """The work behind `stylobate.Scan` where a node reads the files."""

    def __init__(
        self,
        node: str,
        paths: list[Path],
        columns: Sequence[str] | None,
        filter: Filter | None,
        dictionary: Dictionary,
        strings: str | None,
        limit: int | None,
        batch_rows: int | None,
        table: dict[str, Any],
        token: str | None,
    ) -> None:
        self._flight = optional.pyarrow_flight("a scan by a node")
        self._node = node
        self._token = token
        if len(paths) != 1:
            raise ConfigError("a scan by a node is of one path: give a folder or a pattern")
        if isinstance(filter, Column):
            filter = filter == True  # noqa: E712
        self._limit = limit
        self._command = {
            "version": VERSION,
            "path": os.fspath(paths[0]),
            "columns": None if columns is None else list(columns),
            "where": repr(filter) if isinstance(filter, Expr) else filter,
            "dictionary": plain_dictionary(dictionary),
            "strings": strings,
            "limit": limit,
            "batch_rows": batch_rows,
            **json.loads(table_command(table)),
        }
        with self._client() as client:
            self.schema = self._plan(client, self._command).schema

    def count(self) -> int:
        # Without columns there are none to be dictionaries.
        command = {**self._command, "columns": [], "dictionary": None}
        return sum(batch.num_rows for batch in self._batches(command))

    def collect(self) -> pyarrow.Table:
        return optional.pyarrow("to_arrow").Table.from_batches(self.batches(), schema=self.schema)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        return self._batches(self._command)

    def _batches(self, command: dict[str, Any]) -> Iterator[pyarrow.RecordBatch]:
        """The batches of all endpoints, in order. A limit holds for each of them, and here for all."""
        left = self._limit
        with self._client() as client:
            for endpoint in self._plan(client, command).endpoints:
                reader = self._told(partial(client.do_get, endpoint.ticket, self._options()))
                while left is None or left > 0:
                    try:
                        batch = self._told(reader.read_chunk).data
                    except StopIteration:
                        break
                    if batch is not None:
                        batch = batch.slice(0, left)
                        left = None if left is None else left - batch.num_rows
                        yield batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        pyarrow = optional.pyarrow("a scan by a node")
        reader = pyarrow.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    @contextmanager
    def _client(self) -> Iterator[flight.FlightClient]:
        client = self._told(lambda: self._flight.FlightClient(self._node))
        try:
            yield client
        finally:
            client.close()

    def _options(self) -> flight.FlightCallOptions:
        headers = [(b"authorization", f"Bearer {self._token}".encode())] if self._token else []
        return self._flight.FlightCallOptions(headers=headers)

    def _plan(self, client: flight.FlightClient, command: dict[str, Any]) -> flight.FlightInfo:
        said = {key: value for key, value in command.items() if value is not None}
        descriptor = self._flight.FlightDescriptor.for_command(json.dumps(said).encode())
        return self._told(partial(client.get_flight_info, descriptor, self._options()))

    def _told(self, call: Callable[[], Any]) -> Any:
        """What the call gives; errors of the node as this package's."""
        pyarrow = optional.pyarrow("a scan by a node")
        try:
            return call()
        except KeyError as error:
            # pyarrow's class for what a server says is not there.
            raise NotFoundError(said(error)) from error
        except pyarrow.ArrowInvalid as error:
            raise invalid(said(error)) from error
        except (pyarrow.ArrowException, OSError) as error:
            raise StorageError(said(error)) from error


def said(error: BaseException) -> str:
    """The server's words, out of those that pyarrow adds."""
    text = str(error.args[0]) if error.args else str(error)
    _, _, words = text.rpartition(", with message: ")
    return re.split(r"\. (?:gRPC client debug context|Client context|Detail): ", words, maxsplit=1)[0]


def invalid(words: str) -> StylobateError:
    """The error for what a node cannot understand or read."""
    if words.startswith("filter: "):
        return FilterError(words)
    if words.startswith("no column "):
        return ColumnNotFoundError(words)
    return ConfigError(words)
