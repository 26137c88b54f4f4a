"""A console of one open cluster: its follower and its server, and what that answers: the files of
the page, views as JSON, and the stream of events, for pages that know the token.

Views run in threads: some of them read tables, and none may hold up the stream. Those are daemon
threads, since one that waits for a root that hangs must not keep the process from ending.

No cookie: a browser sends those to every port of a host. The token stands in the fragment of the
address, which no server, proxy or log ever sees; the page sends it as a header.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from hmac import compare_digest
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaOnSparkError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.console.answers import Answer, Answers, Asked
from kafka_on_spark.console.following import Follower, Subscribers
from kafka_on_spark.console.http_server import GRACE_S, HttpServer, listening
from kafka_on_spark.store.deadlines import DaemonThreads

log = logging.getLogger(__name__)


def application(
    answers: Answers,
    follower: Follower,
    subscribers: Subscribers,
    threads: Executor,
) -> Starlette:
    """Return the application, which works in `threads`."""

    async def events(request: Request) -> Response:
        stream = subscribers.listen(follower.hello)
        return StreamingResponse(stream, media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/api/events", events),
            *(
                Route(f"/api/{name}", _endpoint(each, threads))
                for name, each in answers.views.items()
            ),
            Mount("/", StaticFiles(packages=[("kafka_on_spark.console", "page")], html=True)),
        ]
    )


def _endpoint(answer: Answer, threads: Executor) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        asked = dict(request.query_params)
        return await asyncio.wrap_future(threads.submit(answered, answer, asked))

    return endpoint


def _status_of(error: KafkaOnSparkError) -> int:
    if isinstance(error, UnknownTopicOrPartitionError | GroupIdNotFoundError):
        return 404
    return 400 if isinstance(error, InvalidRequestError) else 503


def answered(answer: Answer, asked: Asked) -> Response:
    """Return the response to a request: a view, or a sentence that says why there is none."""
    try:
        value, status = answer(asked), 200
    except KafkaOnSparkError as error:
        value, status = {"error": str(error)}, _status_of(error)
    except Exception:
        log.exception("a view can't be shown")
        return PlainTextResponse("this view has failed: the console's log says why\n", 500)
    # Not JSONResponse: a name may have half a character, which UTF-8 does not.
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Headers of every answer. Trusted types keep text from becoming markup."""

API: Final = "/api/"
HOST: Final = "127.0.0.1"
HTTP_PORT: Final = 80
METHODS: Final = frozenset({"GET", "HEAD"})


def names_of(port: int) -> frozenset[str]:
    """Return the names under which a browser may ask for this server. It leaves out the port that
    is HTTP's own."""
    names = {HOST, "localhost"}
    return frozenset({f"{each}:{port}" for each in names} | (names if port == HTTP_PORT else set()))


def refusal(
    method: str, path: str, headers: Headers, names: Iterable[str], token: str
) -> tuple[int, str] | None:
    """Return the status and the sentence with which a request is refused; None: it is answered.

    The page's own files hold no secret, so they need no token.
    """
    if headers.get("host", "") not in names:
        # Another name for this address is how a page from elsewhere would reach it.
        return 421, "this server has another name: open the address that the console printed"
    if method not in METHODS:
        return 405, f"the method {method} is not allowed: use GET or HEAD"
    if not path.startswith(API):
        return None
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return 403, "another page may not ask that"
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if not compare_digest(given.encode(), token.encode()):
        return 401, "the token is missing or another: open the address that the console printed"
    return None


class Guard:
    """Refuses what may not be asked, and gives every answer the headers of HEADERS."""

    def __init__(self, app: ASGIApp, *, names: frozenset[str], token: str) -> None:
        self._app = app
        self._names = names
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            raise ValueError(f"this server takes no {scope['type']}")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = refusal(
            scope["method"], scope["path"], Headers(scope=scope), self._names, self._token
        )
        app = self._app
        if refused is not None:
            status, sentence = refused
            app = PlainTextResponse(f"{sentence}\n", status)
        await app(scope, receive, send_guarded)


TOKEN_BYTES: Final = 24
THREADS: Final = 40
"""Views at work at once. One that waits for a root that hangs keeps its thread so long."""


class Console:
    """The console of `cluster` at a port of this machine; 0: at any that is free. `address` is
    where a browser finds it, with its token."""

    def __init__(self, cluster: Cluster, *, port: int = 0) -> None:
        """Listen; raise InvalidRequestError if the address can't be had."""
        node = cluster._node
        subscribers = Subscribers()
        self._follower = Follower(node.metadata, node.clock, subscribers.publish)
        self._socket = listening(HOST, port, what="the console", options="--port")
        taken: int = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        names = names_of(taken)
        self.address = f"http://{HOST}:{taken}/#token={token}"
        answers = Answers(node, self._follower.grid_view)
        self._threads = DaemonThreads(THREADS, "view")
        app = application(answers, self._follower, subscribers, self._threads)
        guarded = Guard(app, names=names, token=token)
        self._server = HttpServer(guarded, ending=partial(subscribers.publish, None))

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
