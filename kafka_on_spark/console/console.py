"""A console of one open cluster: its follower, its views, and the server that answers."""

import logging
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.console.answers import Answers
from kafka_on_spark.console.application import application
from kafka_on_spark.console.following import Follower
from kafka_on_spark.console.guard import Guard, names_of
from kafka_on_spark.console.streaming import Subscribers
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.roots.roots import is_local

log = logging.getLogger(__name__)

TOKEN_BYTES: Final = 24
GRACE_S: Final = 1
"""Answers under way have so long when the console ends, and the thread that follows the log;
streams are ended at once."""

THREADS: Final = 40
"""Views at work at once. One that waits for a root that hangs keeps its thread so long."""


class Console:
    """The console of `cluster` at a port of this machine; 0: at any that is free.

    Attributes:
        address: Where a browser finds it, with its token.
    """

    def __init__(self, cluster: Cluster, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen.

        Raises:
            InvalidRequestError: The address can't be had.
        """
        services = cluster._services
        assert isinstance(services, Services), "the newest moment is followed"
        self._subscribers = Subscribers()
        self._follower = Follower(
            services.metadata,
            services.clock,
            self._subscribers.publish,
            is_local=is_local(services.table),
        )
        self._socket = _listening(host, port)
        taken: int = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        names = names_of(host, taken)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{taken}/#token={token}"
        answers = Answers(services, self._follower.grid_view)
        self._threads = DaemonThreads(THREADS, "view")
        app = application(answers, self._follower, self._subscribers, self._threads)
        guarded = Guard(app, names=names, token=token)
        self._server = _Server(
            self._subscribers,
            uvicorn.Config(
                guarded,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            ),
        )

    def run(self) -> None:
        """Answer until `end`."""
        self._follower.begin()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._follower.end(GRACE_S)
            self._socket.close()

    def end(self) -> None:
        """Have `run` return. Any thread may call it, and the handler of a signal."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """A server that leaves signals to its process, and ends streams before it waits for answers."""

    def __init__(self, subscribers: Subscribers, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._subscribers = subscribers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all answers."""
        self._subscribers.end()
        await super().shutdown(sockets)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidRequestError(
            f"the console can't be had at {host}:{port} ({error}): give another --port"
        ) from None
    return listening


class ConsoleThread:
    """A console that answers in a thread of this process, for tests and notebooks."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._thread = threading.Thread(target=console.run, name="console server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self.console.end()
        self._thread.join()
