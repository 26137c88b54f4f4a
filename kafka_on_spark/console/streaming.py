"""Server-sent events: from the one thread that follows the log to the loops that write to pages."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

QUEUE_MAX: Final = 64
"""Events that wait for one page. A page that is slower is greeted anew: it sees what it missed."""

KEEP_ALIVE_S: Final = 15.0
"""A comment so often: a page that is gone is noticed, and a proxy does not end the answer."""

SILENCE_MS: Final = round(3 * KEEP_ALIVE_S * 1000)
"""A page that hears nothing for so long takes its stream for cut off: no end of a connection tells
that a tunnel is gone."""


def encode_event(name: str, data: Any) -> bytes:
    """Return an event as the stream has it: JSON has no line breaks of its own."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


LAGGING: Final = b"lagging"
"""In the queue of a page: events were dropped."""


class Subscribers:
    """All pages that listen. `publish` is for any thread; the rest for the server's loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[asyncio.Queue[bytes | None], asyncio.AbstractEventLoop] = {}

    def publish(self, event: bytes) -> None:
        """Send an event to every page."""
        self._send(event)

    def end(self) -> None:
        """End every stream."""
        self._send(None)

    def _send(self, event: bytes | None) -> None:
        with self._lock:
            for queue, loop in self._queues.items():
                loop.call_soon_threadsafe(_put, queue, event)

    async def listen(self, hello: Callable[[], bytes]) -> AsyncIterator[bytes]:
        """Yield what `hello` says and the events since, for as long as the page listens. `hello` is
        asked once the page listens: what is published meanwhile is not missed. It is asked again in
        place of events that were dropped."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE_MAX)
        with self._lock:
            self._queues[queue] = asyncio.get_running_loop()
        try:
            yield hello()
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield b":\n\n"
                    continue
                if event is None:
                    return
                yield hello() if event is LAGGING else event
        finally:
            with self._lock:
                del self._queues[queue]


def _put(queue: asyncio.Queue[bytes | None], event: bytes | None) -> None:
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(LAGGING)
    queue.put_nowait(event)
