"""The ASGI application: the files of the page, views as JSON, and the stream of events.

Views run in threads: some of them read tables, and none may hold up the stream. Those are daemon
threads, since one that waits for a root that hangs must not keep the process from ending.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaOnSparkError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.console.answers import Answer, Answers, Asked
from kafka_on_spark.console.following import Follower
from kafka_on_spark.console.streaming import Subscribers

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
    threads: Executor,
) -> Starlette:
    """Return the application, which works in `threads`."""

    async def events(request: Request) -> Response:
        stream = subscribers.listen(follower.hello)
        return StreamingResponse(stream, media_type="text/event-stream")

    return Starlette(
        routes=[
            *page_routes(),
            Route("/api/events", events),
            *(
                Route(f"/api/{name}", _endpoint(each, threads))
                for name, each in answers.views.items()
            ),
        ]
    )


def page_files() -> dict[str, bytes]:
    """Return the files of the page by their paths."""
    page = files("kafka_on_spark.console").joinpath("page")
    return {
        f"{folder}{each.name}": each.read_bytes()
        for folder in ("", "views/")
        for each in page.joinpath(folder).iterdir()
        if each.is_file()
    }


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
