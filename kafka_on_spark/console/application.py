"""The ASGI application: the files of the page, views as JSON, and the stream of events.

Views run in threads: some of them read tables, and none may hold up the stream.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kafka_on_spark.console.answers import Answer, Answers, Stream
from kafka_on_spark.console.asked import Asked
from kafka_on_spark.console.changing import Changes
from kafka_on_spark.console.following import Follower
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
    answers: Answers, follower: Follower, subscribers: Subscribers, changes: Changes | None
) -> Starlette:
    """Return the application. `changes`: what makes changes; None: nothing does."""

    async def events(request: Request) -> Response:
        stream = subscribers.listen(lambda: follower.hello(allows_changes=changes is not None))
        return StreamingResponse(stream, media_type="text/event-stream")

    return Starlette(
        routes=[
            *page_routes(),
            Route("/api/events", events),
            *(Route(f"/api/{name}", _endpoint(each)) for name, each in answers.views.items()),
            *(Route(f"/api/{name}", _streamed(each)) for name, each in answers.streams.items()),
            *([] if changes is None else [_changing(changes)]),
        ]
    )


def page_routes() -> list[Route]:
    """Return the routes of the page's files, which are read once: nothing else can be asked for."""
    return [
        Route("/" if path == "index.html" else f"/{path}", _file(content, KINDS[ending]))
        for path, content in page_files().items()
        for ending in [path[path.rindex(".") :]]
    ]


def page_files() -> dict[str, bytes]:
    """Return the page's files by their paths."""
    root = files("kafka_on_spark.console").joinpath("page")
    found = {}
    for folder in ("", "views/"):
        for each in root.joinpath(folder).iterdir() if folder else root.iterdir():
            if each.is_file():
                found[f"{folder}{each.name}"] = each.read_bytes()
    return found


Endpoint = Callable[[Request], Awaitable[Response]]


def _file(content: bytes, kind: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return endpoint


def _endpoint(answer: Answer) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answered, answer, dict(request.query_params))

    return endpoint


def _changing(changes: Changes) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            asked = json.loads(await request.body())
        except ValueError:
            return json_response({"error": "a change is sent as JSON"}, 400)
        return json_response(await run_in_threadpool(changes.answer, asked))

    return Route("/api/changes", endpoint, methods=["POST"])


def _streamed(stream: Stream) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        lines = _lines(stream, dict(request.query_params))
        return StreamingResponse(lines, media_type="application/x-ndjson")

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
