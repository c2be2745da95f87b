"""A TCP load balancer, as commonly placed in front of clusters: `balancer.py HOST:PORT...` prints its own port.

New connections go to the backends in turn, skipping those that do not accept them. A backend that fails two connections
in a row is down: its connections are closed, since their clients' packets may be lost.
"""

from __future__ import annotations

import asyncio
import sys

CHECK_EVERY_S = 0.3
CONNECT_TIMEOUT_S = 0.5
MAX_MISSES = 2
PIECE = 1 << 18


class Backend:
    """A server that accepts connections."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        self.is_up = True
        self.writers: set[asyncio.StreamWriter] = set()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.wait_for(asyncio.open_connection(self.host, self.port), CONNECT_TIMEOUT_S)

    async def keep_checking(self) -> None:
        misses = 0
        while True:
            try:
                _, writer = await self.connect()
                writer.close()
                misses = 0
            except (OSError, TimeoutError, asyncio.TimeoutError):
                misses += 1
            self.is_up = misses < MAX_MISSES
            if not self.is_up:
                for writer in list(self.writers):
                    writer.transport.abort()
            await asyncio.sleep(CHECK_EVERY_S)


class Balancer:
    """Hands each connection to the next backend that is up."""

    def __init__(self, backends: list[Backend]) -> None:
        self.backends = backends
        self.turn = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for backend in self._in_turn():
            try:
                upstream = await backend.connect()
            except (OSError, TimeoutError, asyncio.TimeoutError):
                continue
            backend.writers.update((writer, upstream[1]))
            try:
                await _relay((reader, writer), upstream)
            finally:
                backend.writers.difference_update((writer, upstream[1]))
            return
        writer.close()

    def _in_turn(self) -> list[Backend]:
        """Returns all backends that are up, starting with the next one, and then the others."""
        self.turn += 1
        first = self.turn % len(self.backends)
        turned = self.backends[first:] + self.backends[:first]
        return sorted(turned, key=lambda backend: not backend.is_up)


async def _relay(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Forwards bytes in both directions until either side closes the connection."""
    ways = [asyncio.ensure_future(_pump(client[0], server[1])), asyncio.ensure_future(_pump(server[0], client[1]))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for writer in (client[1], server[1]):
        writer.close()
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # Either side disconnected.


async def main() -> None:
    balancer = Balancer([Backend(address) for address in sys.argv[1:]])
    checks = [asyncio.ensure_future(backend.keep_checking()) for backend in balancer.backends]
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0, limit=PIECE)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.gather(server.serve_forever(), *checks)


if __name__ == "__main__":
    asyncio.run(main())
