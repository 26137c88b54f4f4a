"""A console of one open cluster: its follower, its views, and the server that answers."""

import logging
import secrets
import threading
from typing import Final

from kafka_on_spark.cluster import Cluster
from kafka_on_spark.console.answers import Answers
from kafka_on_spark.console.application import Guard, application, names_of
from kafka_on_spark.console.following import Follower, Subscribers
from kafka_on_spark.console.http_server import GRACE_S, HttpServer, listening, shown
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.roots import is_local

log = logging.getLogger(__name__)

TOKEN_BYTES: Final = 24
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
        node = cluster._node
        subscribers = Subscribers()
        self._follower = Follower(
            node.metadata,
            node.clock,
            subscribers.publish,
            is_local=is_local(node.metadata.table),
        )
        self._socket = listening(host, port, what="the console", options="--port")
        taken: int = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        names = names_of(host, taken)
        self.address = f"http://{shown(host)}:{taken}/#token={token}"
        answers = Answers(node, self._follower.grid_view)
        self._threads = DaemonThreads(THREADS, "view")
        app = application(answers, self._follower, subscribers, self._threads)
        guarded = Guard(app, names=names, token=token)
        self._server = HttpServer(guarded, ending=subscribers.end)

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
