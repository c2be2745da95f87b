"""Scans by storage nodes over Arrow Flight: one node plans the scan, and each part is read from the nodes that hold it.
"""

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

    ClientOf = Callable[[str], flight.FlightClient]

__all__ = ["FlightScan"]

VERSION = 1
FOREIGN_TICKET = "ticket: not one of this node"
"""Message of a node that receives a ticket signed with another secret."""
CHANGED = "the object changed"
"""Message of a node that finds a file replaced since the scan was planned."""


class FlightScan:
    """Implementation of `stylobate.Scan` for files that one or more nodes read."""

    def __init__(
        self,
        node: str | Sequence[str],
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
        self._nodes = [node] if isinstance(node, str) else list(node)
        self._token = token
        # Addresses that failed to answer, which are tried last.
        self._failed: set[str] = set()
        if not self._nodes:
            raise ConfigError("node: give one or more")
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
        with self._clients() as client_of:
            self.schema = self._plan(client_of, self._command)[1].schema

    def count(self) -> int:
        # The names in `dictionary` would not be among the columns.
        command = {**self._command, "columns": [], "dictionary": None}
        return sum(batch.num_rows for batch in self._batches(command))

    def collect(self) -> pyarrow.Table:
        return optional.pyarrow("to_arrow").Table.from_batches(self.batches(), schema=self.schema)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        return self._batches(self._command)

    def _batches(self, command: dict[str, Any]) -> Iterator[pyarrow.RecordBatch]:
        """Yields the batches of all endpoints, in order.

        Nodes apply a limit to each endpoint separately; it is applied to the whole here.
        """
        left = self._limit
        with self._clients() as client_of:
            planner, planned = self._plan(client_of, command)
            for endpoint in planned.endpoints:
                if left is not None and left <= 0:
                    return
                for batch in self._endpoint(client_of, endpoint, planner):
                    batch = batch.slice(0, left)
                    left = None if left is None else left - batch.num_rows
                    yield batch
                    if left is not None and left <= 0:
                        return

    def _endpoint(
        self, client_of: ClientOf, endpoint: flight.FlightEndpoint, planner: str
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields the batches of an endpoint.

        If a node fails, another one resumes after the rows that arrived: nodes that share a ticket secret return the
        rows of a ticket in the same order. A node without the secret cannot resume, and might split the scan in another
        way, so that is an error. Nodes that failed are asked again once others have returned rows: while a long scan
        runs, every node may be restarted.
        """
        sources = self._sources(endpoint, planner)
        failed: list[str] = []
        done = 0
        refusal: StylobateError | None = None
        changed: StylobateError | None = None
        is_foreign = False
        while True:
            source = sources.pop(0)
            before = done
            try:
                for batch in self._stream(client_of(source), endpoint.ticket, done):
                    done += batch.num_rows
                    yield batch
                return
            except StylobateError as error:
                # The node that issued the ticket returns the most specific error.
                if source == planner:
                    refusal = error
                    if not self._is_failure(error):
                        raise
                is_foreign |= FOREIGN_TICKET in str(error)
                if CHANGED in str(error):
                    changed = error
                self._failed.add(source)
                if done > before:
                    sources += failed
                    failed.clear()
                failed.append(source)
                # The next node may read a newer version of the file if the scan has a limit, but not otherwise.
                if not sources or (done and self._limit is not None):
                    if is_foreign:
                        raise StorageError(
                            f"{planner} broke off, and other nodes do not take its tickets: give all nodes the same "
                            f"ticket_secret, so that they can go on: {refusal or error}"
                        ) from (refusal or error)
                    # If a file was replaced, a new scan succeeds, whichever node broke off.
                    raise changed or refusal or error

    def _stream(
        self, client: flight.FlightClient, ticket: flight.Ticket, skipped: int
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields the batches of a ticket, without the first `skipped` rows."""
        reader = self._converting_errors(partial(client.do_get, ticket, self._options()))
        while True:
            try:
                batch = self._converting_errors(reader.read_chunk).data
            except StopIteration:
                return
            if batch is None:
                continue
            dropped = min(skipped, batch.num_rows)
            skipped -= dropped
            if not dropped or dropped < batch.num_rows:
                yield batch.slice(dropped)

    def _sources(self, endpoint: flight.FlightEndpoint, planner: str) -> list[str]:
        """Returns the nodes to ask for an endpoint, in order: the ones it names, the planner, then all others."""
        named = [location.uri.decode() for location in endpoint.locations]
        # Never send a token that was given for a TLS address in plaintext.
        named = [uri for uri in named if scheme(uri) == scheme(planner)]
        sources = list(dict.fromkeys([*named, planner, *self._nodes]))
        return sorted(sources, key=lambda source: source in self._failed)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        pyarrow = optional.pyarrow("a scan by a node")
        reader = pyarrow.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    @contextmanager
    def _clients(self) -> Iterator[ClientOf]:
        """Yields a function that returns the client of an address, and closes all clients on exit."""
        clients: dict[str, flight.FlightClient] = {}

        def client_of(address: str) -> flight.FlightClient:
            if address not in clients:
                clients[address] = self._converting_errors(lambda: self._flight.FlightClient(address))
            return clients[address]

        try:
            yield client_of
        finally:
            for client in clients.values():
                client.close()

    def _options(self) -> flight.FlightCallOptions:
        headers = [(b"authorization", f"Bearer {self._token}".encode())] if self._token else []
        return self._flight.FlightCallOptions(headers=headers, read_options=self._read_options())

    def _read_options(self) -> Any:
        """Returns read options that align buffers as their types require.

        Buffers in gRPC messages may be unaligned, which some Arrow consumers reject. Older versions of pyarrow cannot
        align them.
        """
        ipc = optional.pyarrow("a scan by a node").ipc
        alignment = getattr(ipc, "Alignment", None)
        return ipc.IpcReadOptions(ensure_alignment=alignment.DataTypeSpecific) if alignment else None

    def _plan(self, client_of: ClientOf, command: dict[str, Any]) -> tuple[str, flight.FlightInfo]:
        """Returns the first node that answers, in list order, and its plan for the command."""
        said = {key: value for key, value in command.items() if value is not None}
        descriptor = self._flight.FlightDescriptor.for_command(json.dumps(said).encode())
        nodes = sorted(self._nodes, key=lambda node: node in self._failed)
        while True:
            node = nodes.pop(0)
            try:
                client = client_of(node)
                return node, self._converting_errors(partial(client.get_flight_info, descriptor, self._options()))
            except StorageError as error:
                self._failed.add(node)
                if not nodes or not self._is_failure(error):
                    raise

    def _is_failure(self, error: StylobateError) -> bool:
        """Returns whether the node failed to answer, as opposed to rejecting the request."""
        flight = self._flight
        failures = (
            flight.FlightUnavailableError,
            flight.FlightTimedOutError,
            flight.FlightInternalError,
            flight.FlightCancelledError,
        )
        return isinstance(error.__cause__, failures)

    def _converting_errors(self, call: Callable[[], Any]) -> Any:
        """Runs a call, and converts errors of the node to exceptions of this package."""
        pyarrow = optional.pyarrow("a scan by a node")
        try:
            return call()
        except KeyError as error:
            # pyarrow raises KeyError if the server returns NOT_FOUND.
            raise NotFoundError(said(error)) from error
        except pyarrow.ArrowInvalid as error:
            raise invalid(said(error)) from error
        except (pyarrow.ArrowException, OSError) as error:
            raise StorageError(said(error)) from error


def scheme(uri: str) -> str:
    """Returns the scheme of a URI; `grpc+tcp` is the same as `grpc`."""
    return uri.partition("://")[0].removesuffix("+tcp")


def said(error: BaseException) -> str:
    """Returns the server's message without the text that pyarrow adds."""
    text = str(error.args[0]) if error.args else str(error)
    _, _, words = text.rpartition(", with message: ")
    return re.split(r"\. (?:gRPC client debug context|Client context|Detail): ", words, maxsplit=1)[0]


def invalid(words: str) -> StylobateError:
    """Returns the exception for a request that a node cannot parse or read."""
    if words.startswith("filter: "):
        return FilterError(words)
    if words.startswith("no column "):
        return ColumnNotFoundError(words)
    return ConfigError(words)
