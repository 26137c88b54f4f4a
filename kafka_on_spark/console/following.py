"""The one follower of the metadata log for all pages: a thread that tells them what changed, by
server-sent events.

Many commits in a moment are one event, so that a busy cluster costs a page what it can show.
"""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from kafka_on_spark.base.errors import ClusterClosedError, KafkaOnSparkError
from kafka_on_spark.base.ids import Clock
from kafka_on_spark.console.grid import LiveGrid, concerns, figures_view
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import CommitWait, MetadataService

log = logging.getLogger(__name__)

TICK_MS: Final = 1000
"""Without a commit, so often it looks whether the root answers."""

GATHER_S: Final = 0.25
"""Commits within that time are one event."""

RETRY_S: Final = 1.0
AWAY: Final = "the metadata root does not answer, and is waited for"
ROWS_MAX: Final = 2000
"""With more changed rows a page loads all of them."""

Publish = Callable[[bytes], None]


class Follower:
    """Follows the log from `begin` to `end`."""

    def __init__(self, metadata: MetadataService, clock: Clock, publish: Publish) -> None:
        self._metadata = metadata
        self._publish = publish
        self._wait = CommitWait(metadata, clock)
        self._lock = threading.Lock()
        self._live = LiveGrid()
        self._seen = metadata.catch_up()
        self._live.take(self._seen)
        self._trouble: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self, within_s: float) -> None:
        """End the thread. One that waits for a root for longer ends with its process."""
        self._ended.set()
        self._thread.join(within_s)

    def hello(self) -> bytes:
        """Return the first event of a page: where the log ends, what is wrong, and how
        long there may be no other."""
        said = {
            "offset": self._seen.offset,
            "trouble": self._trouble,
            "silenceMs": SILENCE_MS,
        }
        return encode_event("hello", said)

    def grid_view(self) -> dict[str, Any]:
        with self._lock:
            return self._live.view()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except ClusterClosedError:
                return
            except KafkaOnSparkError as error:
                self._say_trouble(str(error))
                self._ended.wait(RETRY_S)
            except Exception:
                log.exception("the log is not followed any more")
                self._say_trouble("the console has failed: its own log says why")
                return

    def _follow(self) -> None:
        while not self._ended.is_set():
            image = self._wait.wait(self._seen.offset, TICK_MS, self._ended.is_set)
            self._say_trouble(AWAY if self._wait.is_away else None)
            if image.offset != self._seen.offset:
                self._tell(image)
                self._ended.wait(GATHER_S)

    def _tell(self, image: MetadataImage) -> None:
        before = self._seen
        with self._lock:
            rows = self._live.take(image)
            figures = figures_view(self._live.grid)
            self._seen = image
        is_whole = rows is None or len(rows) > ROWS_MAX
        event = {
            "before": before.offset,
            "whole": is_whole,
            "rows": [] if is_whole else rows,
            "concerns": concerns(before, image),
            **figures,
        }
        self._publish(encode_event("commit", event))

    def _say_trouble(self, sentence: str | None) -> None:
        if sentence != self._trouble:
            self._trouble = sentence
            self._publish(encode_event("trouble", {"sentence": sentence}))


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

    def publish(self, event: bytes | None) -> None:
        """Send an event to every page; None ends every stream."""
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
