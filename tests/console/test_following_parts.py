"""What the follower is made of: moments of the past, and the stream of events."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.console.answers import Answers
from kafka_on_spark.console.following import (
    QUEUE_MAX,
    Subscribers,
)
from tests.builders import image_of, partition


class Log:
    """Images by offset, and what was asked for."""

    def __init__(self, end):
        self.image = _image(end)
        self.asked = []

    def catch_up(self):
        return self.image

    def image_at(self, offset):
        self.asked.append(offset)
        return _image(offset)


def _image(offset):
    return replace(image_of(partition("1"), cluster_id="c"), offset=Offset(offset))


def answers_of(log):
    return Answers(SimpleNamespace(metadata=log), newest_grid=None)


def test_a_moment_is_replayed_once_and_the_newest_one_never():
    log = Log(100)
    answers = answers_of(log)

    offsets = [answers._image({"at": each}).offset for each in ("50", "10", "50")]

    assert offsets == [50, 10, 50]
    assert answers._image({}) is log.image is answers._image({"at": "100"})
    assert log.asked == [50, 10]


def test_there_is_no_moment_in_the_future():
    with pytest.raises(InvalidRequestError, match="the metadata log has offsets 0 to 100"):
        answers_of(Log(100))._image({"at": "101"})


def test_every_page_gets_every_event_and_a_slow_one_is_greeted_anew():
    async def run():
        subscribers = Subscribers()
        hellos = [b"hello", b"hello", b"how it is now"]
        quick, slow = (subscribers.listen(lambda: hellos.pop(0)) for _ in range(2))
        assert [await anext(quick), await anext(slow)] == [b"hello", b"hello"]
        got = []
        for count in range(QUEUE_MAX + 1):
            subscribers.publish(b"%d" % count)
            got.append(await anext(quick))
        late = [await anext(slow), await anext(slow)]
        subscribers.publish(None)
        ends = [[each async for each in stream] for stream in (quick, slow)]
        return got, late, ends, len(subscribers._queues)

    got, late, ends, count = asyncio.run(run())

    assert got == [b"%d" % each for each in range(QUEUE_MAX + 1)]
    assert late == [b"how it is now", b"%d" % QUEUE_MAX]
    assert ends == [[], []]
    assert count == 0


def test_what_is_published_while_a_page_is_greeted_comes_afterwards():
    async def run():
        subscribers = Subscribers()

        def hello():
            subscribers.publish(b"meanwhile")
            return b"hello"

        stream = subscribers.listen(hello)
        return [await anext(stream), await anext(stream)]

    assert asyncio.run(run()) == [b"hello", b"meanwhile"]
