"""The server: connections of clients, and the order of their answers.

One thread runs the loop, and what asks the cluster runs in others. A connection has its answers in
the order of its requests. What a client may take is bounded: connections, the bytes of a request,
and requests and bytes that wait; one that sends more is not read until there is room, and one that
sends rubbish is hung up on.
"""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.gateway.wire import Request, read_request

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 100 << 20
"""Source: socket.request.max.bytes."""

WAITING_BYTES_MAX: Final = 256 << 20
"""Of all requests that have no answer yet."""

WAITING_MAX: Final = 64
"""Requests of one connection that have no answer yet."""

CONNECTIONS_MAX: Final = 2_000
PIECE_BYTES: Final = 1 << 18
PIECE_S_MAX: Final = 30.0
"""A client that has begun a request sends so much of it within that time."""

IDLE_S_MAX: Final = 600.0
"""Source: connections.max.idle.ms."""

Answer = Callable[[Request], Awaitable[bytes | None]]
"""Answers a request by a frame, or by nothing. Runs up to its first wait in the order in which
requests of a connection came."""


class Server:
    """Takes connections at a socket until it is told to end."""

    def __init__(self, taken: socket.socket, answer: Answer) -> None:
        self._socket = taken
        self._answer = answer
        self.loop = asyncio.new_event_loop()
        self._room = WAITING_BYTES_MAX
        self._has_room = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def begin(self) -> None:
        """Take connections, in a thread of its own."""
        self._thread.start()

    def end(self, timeout_s: float) -> None:
        """Hang up, and wait until the thread has ended."""
        with suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(
            asyncio.start_server(self._connected, sock=self._socket, limit=1 << 20)
        )
        try:
            loop.run_forever()
        finally:
            server.close()
            tasks = asyncio.all_tasks(loop)
            for each in tasks:
                each.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(asyncio.sleep(0))  # sockets are closed in a turn of their own
            loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(task)
        peer = writer.get_extra_info("peername")
        answers: asyncio.Queue[tuple[asyncio.Task[bytes | None], int] | None]
        answers = asyncio.Queue(WAITING_MAX)
        sending = asyncio.create_task(self._send(writer, answers))
        try:
            while not sending.done():
                content = await self._next_frame(reader)
                if content is None:
                    break
                request = read_request(content)._replace(host=str(peer[0]) if peer else "")
                answering = asyncio.create_task(self._answer_to(request))
                await answers.put((answering, len(content)))
        except InvalidRequestError as error:
            log.warning("hangs up on %s: %s", peer, error)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError):
            log.debug("%s has hung up, or said nothing for long", peer)
        except asyncio.CancelledError:  # the gateway ends; asyncio logs a task that was cancelled
            return
        finally:
            # What was asked before is answered, if the client still listens.
            with suppress(asyncio.CancelledError):
                await answers.put(None)
                await sending
            writer.close()
            self._connections.discard(task)

    async def _next_frame(self, reader: asyncio.StreamReader) -> bytes | None:
        """Return the next request's bytes, once there is room for them; None: there is none."""
        async with asyncio.timeout(IDLE_S_MAX):
            try:
                [size] = struct.unpack(">i", await reader.readexactly(4))
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    raise
                return None
            if not 0 < size <= REQUEST_BYTES_MAX:
                raise InvalidRequestError(
                    f"a request of {size} bytes is not taken: {REQUEST_BYTES_MAX} at most"
                )
        content = bytearray()
        try:
            while (missing := size - len(content)) > 0:
                piece = min(missing, PIECE_BYTES)
                await self._take_room(piece)  # no client has room for what it only announces
                content += bytes(piece)
                async with asyncio.timeout(PIECE_S_MAX):
                    content[-piece:] = await reader.readexactly(piece)
        except BaseException:
            await self._give_back(len(content))
            raise
        return bytes(content)

    async def _take_room(self, size: int) -> None:
        async with self._has_room:
            await self._has_room.wait_for(lambda: self._room >= size)
            self._room -= size

    async def _give_back(self, size: int) -> None:
        async with self._has_room:
            self._room += size
            self._has_room.notify_all()

    async def _answer_to(self, request: Request) -> bytes | None:
        return await self._answer(request)

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        answers: "asyncio.Queue[tuple[asyncio.Task[bytes | None], int] | None]",
    ) -> None:
        """Send the answers of a connection as they come, in the order of its requests."""
        is_open = True
        while (waiting := await answers.get()) is not None:
            answering, size = waiting
            try:
                frame = await answering
                if frame is not None and is_open:
                    writer.write(frame)
                    await writer.drain()
            except OSError:
                is_open = False
            except Exception:
                log.exception("a request could not be answered: the gateway hangs up")
                is_open = False
                writer.close()
            finally:
                await self._give_back(size)
