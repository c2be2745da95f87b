"""A TCP relay that delays answers: `late_door.py PORT MS` relays to the port of a server on this machine and prints its
own port. A number on standard input sets a new delay in milliseconds. Exits at end of input."""

import asyncio
import sys

PIECE = 256 * 1024
# Maximum number of delayed pieces per connection.
MAX_WAITING = 64


class LateDoor:
    """A TCP relay that forwards each piece of an answer `delay` seconds after it arrived."""

    def __init__(self, upstream, delay):
        self.upstream, self.delay = upstream, delay

    async def serve(self, reader, writer):
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:
            writer.close()
            return
        ways = [asyncio.ensure_future(_pass_on(reader, upstream[1])),
                asyncio.ensure_future(self._pass_on_late(upstream[0], writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for end in (writer, upstream[1]):
            end.close()

    async def _pass_on_late(self, reader, writer):
        waiting = asyncio.Queue(MAX_WAITING)
        receiving = asyncio.ensure_future(self._receive(reader, waiting))
        loop = asyncio.get_running_loop()
        try:
            while (item := await waiting.get()) is not None:
                due, piece = item
                await asyncio.sleep(max(0.0, due - loop.time()))
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass  # The client disconnected.
        finally:
            receiving.cancel()

    async def _receive(self, reader, waiting):
        loop = asyncio.get_running_loop()
        try:
            while piece := await reader.read(PIECE):
                await waiting.put((loop.time() + self.delay, piece))
        except OSError:
            pass  # The server disconnected.
        await waiting.put(None)


async def _pass_on(reader, writer):
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # Either side disconnected.


async def main(upstream, delay_ms):
    door = LateDoor(upstream, delay_ms / 1000)
    server = await asyncio.start_server(door.serve, "127.0.0.1", 0, limit=PIECE)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        door.delay = float(line) / 1000


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
