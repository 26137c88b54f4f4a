"""What a topic allows of a record, and how its future behaves among Python's own."""

import asyncio
import threading
from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    RecordExpiredError,
)
from kafka_on_spark.produce.sent_record import (
    RecordMetadata,
    SentFuture,
    TopicLimits,
    refused,
)
from tests.produce.sent import TOPIC_ID, record

LIMITS = TopicLimits(
    topic_id=TOPIC_ID,
    partition_count=3,
    record_bytes_max=100,
    before_max_ms=1000,
    after_max_ms=500,
    needs_key=False,
)
NOW_MS = 10_000

# fmt: off
RECORDS = [
    pytest.param(100,    0, 10_000, None,                 id="as large as allowed"),
    pytest.param(101,    0, 10_000, MessageTooLargeError,  id="too large"),
    pytest.param(1,      2, 10_000, None,                 id="last partition"),
    pytest.param(1,      3, 10_000, InvalidRecordError,    id="no such partition"),
    pytest.param(1,     -1, 10_000, InvalidRecordError,    id="negative partition"),
    pytest.param(1,   None, 10_000, None,                 id="partition by key"),
    pytest.param(1,      0,  9_000, None,                 id="as old as allowed"),
    pytest.param(1,      0,  8_999, InvalidTimestampError, id="too old"),
    pytest.param(1,      0, 10_500, None,                 id="as new as allowed"),
    pytest.param(1,      0, 10_501, InvalidTimestampError, id="too new"),
]
# fmt: on


@pytest.mark.parametrize("size, partition, timestamp_ms, kind", RECORDS)
def test_a_topic_allows_a_record_or_says_why_not(size, partition, timestamp_ms, kind):
    why = LIMITS.refusal(size, partition, timestamp_ms * 1000, NOW_MS, has_key=False)

    assert why is None if kind is None else isinstance(why, kind)


def test_a_compacted_topic_refuses_the_records_without_a_key_only():
    compacted, moment = replace(LIMITS, needs_key=True), NOW_MS * 1000
    keyed, keyless = record(key=b"", timestamp_us=moment), record(timestamp_us=moment)

    [(found, why)] = refused(compacted, [keyed, keyless], NOW_MS)

    assert found is keyless
    assert isinstance(why, InvalidRecordError)


def test_metadata_has_the_timestamp_as_a_moment():
    assert RecordMetadata("t", 0, 5, 1_500_000).timestamp.isoformat() == (
        "1970-01-01T00:00:01.500000+00:00"
    )
    assert RecordMetadata("t", 0, None, None).timestamp is None


def futures(count=3):
    condition = threading.Condition()
    return [SentFuture(condition) for _ in range(count)]


def test_a_future_gives_its_own_result_though_others_of_the_append_end_first():
    first, second, third = futures()
    got = []
    thread = threading.Thread(target=lambda: got.append(third.result(30)))
    thread.start()

    first.set_result(1)
    second.set_exception(RecordExpiredError("late"))
    third.set_result(3)

    thread.join()
    assert got == [3]
    assert (first.result(), first.exception()) == (1, None)
    with pytest.raises(RecordExpiredError):
        second.result()


def test_asyncio_awaits_a_future():
    async def awaited():
        first, *_ = futures()
        threading.Timer(0.01, lambda: first.set_result(1)).start()
        return await asyncio.wrap_future(first)

    assert asyncio.run(awaited()) == 1


def test_callbacks_of_a_future_run_once_before_and_after_its_end():
    first, *_ = futures()
    seen = []
    first.add_done_callback(lambda each: seen.append(("before", each.result())))

    first.set_result(1)
    first.add_done_callback(lambda each: seen.append(("after", each.result())))

    assert seen == [("before", 1), ("after", 1)]
