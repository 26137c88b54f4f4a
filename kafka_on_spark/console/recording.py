"""The console as a page that needs no server: for notebooks, and for a file that is sent.

The page is the console's own. Only the module that asks the server is another one: it answers from
what was recorded in the page. What was not recorded, as records, upkeep and audits, says so where
it would stand.
"""

import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from html import escape
from itertools import islice
from typing import Any, Final

from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.console.answers import Answers, past_grid
from kafka_on_spark.console.page_files import recorded_files
from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.inspect.page import Page
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.moments import time_of
from kafka_on_spark.query.offsets.group_offsets import groups_of
from kafka_on_spark.spark.wiring.services import Services

VIEWS: Final = ("grid", "timeline", "brokers", "groups", "moves", "voters", "what-if")
"""The views that a recording may begin with; it has all of them."""

ANSWERS_MAX: Final = 1000
"""Answers of one recording, of which each costs its cluster some work."""

BYTES_MAX: Final = 8 * 2**20
"""Bytes of JSON of a recording, but for the newest grid and the last answer: a notebook keeps them
with each cell that shows one."""

MOMENTS_MAX: Final = 100
"""Past moments that a recording has, at most; their grids take half of its bytes."""

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' data:"
# The address of a frame of a notebook is no base for its own links, which begin with "#".
_BASE: Final = (
    'if (location.protocol === "about:")'
    ' document.head.append(Object.assign(document.createElement("base"), { href: "about:srcdoc" }))'
)
_IMPORTED: Final = re.compile(r'(?<=from ")\.{1,2}/[^"]+(?=")')
_Asked = dict[str, str]


def console_page(cluster: Cluster, view: str = "grid") -> Page:
    """Return the console of a cluster as it is now: a page that a notebook shows inline, and that
    can be saved.

    It has the grid and the newest past moments of it, timelines, topics, brokers, groups, moves,
    voters, and what if one broker died; of large clusters as much of that as BYTES_MAX holds.

    Args:
        view: Which view it begins with, one of VIEWS.

    Raises:
        InvalidRequestError: There is no such view, or the cluster is one as of a moment.
        KafkaStorageError: The metadata root does not answer.
        ClusterClosedError: The cluster is closed.
    """
    if view not in VIEWS:
        raise InvalidRequestError(f"view can't be {view!r}: give one of {', '.join(VIEWS)}")
    services = cluster._services
    if not isinstance(services, Services):
        raise InvalidRequestError(
            "the console of a cluster as of a moment can't be recorded: open the cluster without"
            " as_of, and choose the moment on the page"
        )
    image = services.metadata.catch_up()
    grid = past_grid(image)
    answers = Answers(cluster, services, lambda: grid)
    return Page(_html(_recording(answers, image, services.clock.now_ms()), view))


def _recording(answers: Answers, image: MetadataImage, now_ms: int) -> dict[str, Any]:
    grid = _answer(answers, "grid", {})
    size = len(_json(grid))
    moments = _answer(answers, "moments", {})
    shown = min(MOMENTS_MAX, BYTES_MAX // 2 // size)
    past = _with_fewer_moments(moments, shown)
    recorded = [["grid", {}, grid], ["moments", {}, moments]]
    left = BYTES_MAX
    for name, asked in islice(_requests(image, past), ANSWERS_MAX):
        answer = _answer(answers, name, asked)
        recorded.append([name, asked, answer])
        left -= len(_json(answer))
        if left < 0:
            break
    said = f"this page was recorded at {time_of(now_ms):%Y-%m-%d %H:%M:%S} UTC"
    hello = {"offset": image.offset, "trouble": said, "rates": {}, "changes": False}
    return {"hello": hello, "answers": recorded}


def _with_fewer_moments(moments: dict[str, Any], count: int) -> list[int]:
    """Have the bar of moments end where the recording does; return the offsets of those left."""
    view = moments.get("view")
    if view is None:
        return []
    left_out = max(0, len(view["moments"]) - count)
    view["moments"] = view["moments"][left_out:]
    view["olderCount"] += left_out
    return [end for end, *_ in view["moments"]]


def _requests(image: MetadataImage, past: list[int]) -> Iterator[tuple[str, _Asked]]:
    """Yield what the page may ask for, what people look at first before the rest."""
    topics = sorted(topic.name for topic in image.topics.values())
    groups = sorted({*groups_of(image), *image.consumer_groups})
    for name in ("timeline", "brokers", "groups", "moves", "voters"):
        yield name, {}
    # Oldest first: each image is made from the one before.
    yield from (("grid", {"at": str(offset)}) for offset in past)
    yield from (("what-if", {"brokers": str(broker_id)}) for broker_id in sorted(image.brokers))
    yield from (("topic", {"name": name}) for name in topics)
    yield from (("group", {"name": name}) for name in groups)
    yield from (("timeline", {"topic": name}) for name in topics)
    for name in topics:
        for number in sorted(image.topic(name).partitions):
            yield "timeline", {"topic": name, "partition": str(number)}


def _answer(answers: Answers, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {"view": answers.views[name](asked)}
    except KafkaOnSparkError as error:  # as the page of a server shows it
        return {"error": str(error)}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _html(recording: Mapping[str, Any], view: str) -> str:
    files = {path: content.decode() for path, content in recorded_files().items()}
    index = files["index.html"]
    modules = {
        _module(path): f"data:text/javascript;base64,{_encoded(_bare(path, source))}"
        for path, source in files.items()
        if path.endswith(".js")
    }
    # No text of users ends an element: "<" is written as JSON writes any character.
    data = _json(recording).replace("<", "\\u003c")
    return "\n".join(
        [
            f'<!doctype html><html lang="en" data-view="{escape(view)}"><head>',
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><title>kafka-on-spark</title>',
            f"<style>{files['style.css']}</style><script>{_BASE}</script>",
            f'<script type="application/json" id="recording">{data}</script>',
            f'<script type="importmap">{_json({"imports": modules})}</script>',
            f'<script type="module">import "{_module("main.js")}";</script></head>',
            index[index.index("<body>") :],
        ]
    )


def _module(path: str) -> str:
    return f"console/{path}"


def _bare(path: str, source: str) -> str:
    """Return a module that imports others by names: an address of data has no neighbours."""
    folder = posixpath.dirname(path)
    return _IMPORTED.sub(
        lambda found: _module(posixpath.normpath(posixpath.join(folder, found[0]))), source
    )


def _encoded(source: str) -> str:
    return b64encode(source.encode()).decode()
