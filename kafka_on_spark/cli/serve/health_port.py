"""The port at which a serving process answers by HTTP: /healthz and /readyz, and its /metrics."""

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kafka_on_spark.console.http_server import HttpServer, listening, shown
from kafka_on_spark.service.serve.health import Answer
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads

log = logging.getLogger(__name__)

THREADS: Final = 4
"""Answers of /metrics at work at once. Probes need none: a disk that hangs holds up no probe."""


class HealthPort:
    """A server of these pages in a thread of its own, from now on. A probe is answered by 200 if
    its answer is "yes", and else by 503; JSON says why.

    Attributes:
        port: The one that it has, where 0 was asked for.
        address: Where it answers, as a client writes it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        healthz: Callable[[], Answer],
        readyz: Callable[[], Answer],
        metrics: Callable[[], str],
        metrics_type: str,
    ) -> None:
        """Listen.

        Raises:
            InvalidRequestError: The address can't be had.
        """
        self._threads = DaemonThreads(THREADS, "metrics")

        async def figures() -> Response:
            text = await asyncio.wrap_future(self._threads.submit(metrics))
            return Response(text, headers={"Content-Type": metrics_type})

        routes = [
            Route("/healthz", _page(_probe(healthz))),
            Route("/readyz", _page(_probe(readyz))),
            Route("/metrics", _page(figures)),
        ]
        # What a client sends that is no HTTP is no line of the log.
        self._server = HttpServer(Starlette(routes=routes), log_level="critical")
        self._socket = listening(
            host, port, what="the health port", options="--health-port or --health-host"
        )
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{shown(host)}:{self.port}"
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def close(self, within_s: float) -> None:
        """Answer nothing more; wait for so long until that is so."""
        self._server.should_exit = True
        self._thread.join(max(within_s, 0))
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._socket.close()


def _probe(ask: Callable[[], Answer]) -> Callable[[], Awaitable[Response]]:
    async def page() -> Response:
        answer = ask()
        body = json.dumps({"ok": answer.is_well, **answer.body}, indent=2) + "\n"
        return Response(body, 200 if answer.is_well else 503, media_type="application/json")

    return page


def _page(answer: Callable[[], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return a page whose failure is an answer, too, and a line of this program's log."""

    async def page(request: Request) -> Response:
        try:
            response = await answer()
        except Exception:
            log.exception("the page %s has failed", request.url.path)
            response = Response("this page has failed: the log says why\n", 500)
        response.headers["Cache-Control"] = "no-store"
        return response

    return page
