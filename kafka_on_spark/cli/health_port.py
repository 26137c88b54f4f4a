"""The port at which a serving process answers by HTTP: /healthz and /readyz, and its /metrics."""

import json
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kafka_on_spark.console.http_server import HttpServer, listening, shown
from kafka_on_spark.console.serving import ServedCluster
from kafka_on_spark.observe.openmetrics import OPENMETRICS, openmetrics

log = logging.getLogger(__name__)


def answer_probes(host: str, port: int, served: ServedCluster) -> str:
    """Answer requests for these pages in a thread of its own, as long as the process lives; return
    the address, as a client writes it. A probe is answered by 200 if its answer is "yes", and else
    by 503; JSON says why.

    Raises:
        InvalidRequestError: The address can't be had.
    """

    async def healthz(request: Request) -> Response:
        return _answer(served.health())

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
    taken = listening(host, port, what="the health port", options="--health-port or --health-host")
    # The log is not for clients that send something else than HTTP.
    server = HttpServer(app, log_level="critical")
    run = partial(server.run, sockets=[taken])
    threading.Thread(target=run, name="health", daemon=True).start()
    return f"http://{shown(host)}:{taken.getsockname()[1]}"


def _answer(body: dict[str, Any]) -> Response:
    text = json.dumps(body, indent=2) + "\n"
    return Response(text, 200 if body["ok"] else 503, media_type="application/json")


def _failed(request: Request, error: Exception) -> Response:
    log.error("the page %s has failed", request.url.path, exc_info=error)
    return Response("this page has failed: the log says why\n", 500)
