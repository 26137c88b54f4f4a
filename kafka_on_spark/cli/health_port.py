"""The port at which a serving process answers by HTTP: /healthz and /readyz, and its /metrics."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kafka_on_spark.cluster.openmetrics import OPENMETRICS, openmetrics
from kafka_on_spark.cluster.serving import ServedCluster
from kafka_on_spark.console.http_server import HttpServer, listening, shown

log = logging.getLogger(__name__)


class HealthPort:
    """A server of these pages in a thread of its own, from now on. A probe is answered by 200 if
    its answer is "yes", and else by 503; JSON says why.

    Attributes:
        port: The one that it has, where 0 was asked for.
        address: Where it answers, as a client writes it.
    """

    def __init__(self, host: str, port: int, served: ServedCluster, *, stalled_ms: int) -> None:
        """Listen.

        Raises:
            InvalidRequestError: The address can't be had.
        """

        async def healthz(request: Request) -> Response:
            return _answer(served.health(stalled_ms))

        async def readyz(request: Request) -> Response:
            return _answer(served.readiness())

        def metrics(request: Request) -> Response:  # in a thread: a disk may hang for a moment
            text = openmetrics(served.metrics(), has_process=True)
            return Response(text, headers={"Content-Type": OPENMETRICS})

        pages: list[Callable[..., Any]] = [healthz, readyz, metrics]
        app = Starlette(
            routes=[Route(f"/{page.__name__}", page) for page in pages],
            exception_handlers={Exception: _failed},
        )
        # What a client sends that is no HTTP is no line of the log.
        self._server = HttpServer(app, log_level="critical")
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
        self._socket.close()


def _answer(body: dict[str, Any]) -> Response:
    text = json.dumps(body, indent=2) + "\n"
    return Response(text, 200 if body["ok"] else 503, media_type="application/json")


def _failed(request: Request, error: Exception) -> Response:
    log.error("the page %s has failed", request.url.path, exc_info=error)
    return Response("this page has failed: the log says why\n", 500)
