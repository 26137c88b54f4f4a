"""The ASGI application: the files of the page, views as JSON, and the stream of events.

Views run in threads: some of them read tables, and none may hold up the stream. Those are daemon
threads, since one that waits for a root that hangs must not keep the process from ending.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kafka_on_spark.console.answers import Answer, Answers, Stream
from kafka_on_spark.console.asked import Asked
from kafka_on_spark.console.changing import Changes
from kafka_on_spark.console.following import Follower
from kafka_on_spark.console.page_files import page_files
from kafka_on_spark.console.streaming import Subscribers
from kafka_on_spark.errors import (
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaOnSparkError,
    UnknownTopicOrPartitionError,
)

log = logging.getLogger(__name__)

KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as JSON."""
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


def application(
    answers: Answers,
    follower: Follower,
    subscribers: Subscribers,
    changes: Changes | None,
    threads: Executor,
) -> Starlette:
    """Return the application, which works in `threads`. `changes`: what makes changes; None:
    nothing does."""

    async def events(request: Request) -> Response:
        stream = subscribers.listen(lambda: follower.hello(allows_changes=changes is not None))
        return StreamingResponse(stream, media_type="text/event-stream")

    return Starlette(
        routes=[
            *page_routes(),
            Route("/api/events", events),
            *(
                Route(f"/api/{name}", _endpoint(each, threads))
                for name, each in answers.views.items()
            ),
            *(
                Route(f"/api/{name}", _streamed(each, threads))
                for name, each in answers.streams.items()
            ),
            *([] if changes is None else [_changing(changes, threads)]),
        ]
    )


def page_routes() -> list[Route]:
    """Return the routes of the page's files, which are read once: nothing else can be asked for."""
    return [
        Route("/" if path == "index.html" else f"/{path}", _file(content, KINDS[ending]))
        for path, content in page_files().items()
        for ending in [path[path.rindex(".") :]]
    ]


Endpoint = Callable[[Request], Awaitable[Response]]


def _file(content: bytes, kind: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return endpoint


def _endpoint(answer: Answer, threads: Executor) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        asked = dict(request.query_params)
        return await asyncio.wrap_future(threads.submit(answered, answer, asked))

    return endpoint


def _changing(changes: Changes, threads: Executor) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            return json_response({"error": "a change is sent as JSON"}, 400)
        made = await asyncio.wrap_future(threads.submit(changes.answer, asked))
        return json_response(made)

    return Route("/api/changes", endpoint, methods=["POST"])


def _streamed(stream: Stream, threads: Executor) -> Endpoint:
    async def lines(asked: Asked) -> AsyncIterator[bytes]:
        made = _lines(stream, asked)
        while line := await asyncio.wrap_future(threads.submit(next, made, b"")):
            yield line

    async def endpoint(request: Request) -> Response:
        asked = dict(request.query_params)
        return StreamingResponse(lines(asked), media_type="application/x-ndjson")

    return endpoint


def _lines(stream: Stream, asked: Asked) -> Iterator[bytes]:
    """Yield a line of JSON for each value; an error is the last line, since an answer has begun."""
    try:
        for value in stream(asked):
            yield json.dumps(value, separators=(",", ":")).encode() + b"\n"
    except KafkaOnSparkError as error:
        yield json.dumps({"error": str(error)}).encode() + b"\n"


def answered(answer: Answer, asked: Asked) -> Response:
    """Return the response to a request: a view, or a sentence that says why there is none."""
    try:
        return json_response(answer(asked))
    except (UnknownTopicOrPartitionError, GroupIdNotFoundError) as error:
        return json_response({"error": str(error)}, 404)
    except InvalidRequestError as error:
        return json_response({"error": str(error)}, 400)
    except KafkaOnSparkError as error:
        return json_response({"error": str(error)}, 503)
    except Exception:
        log.exception("a view can't be shown")
        return PlainTextResponse("this view has failed: the console's log says why\n", 500)
