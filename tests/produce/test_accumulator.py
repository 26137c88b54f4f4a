"""What goes with a producer's next append, when it is due, and the memory that is in use."""

import pytest

from kafka_on_spark.produce.accumulator import (
    RECORD_OVERHEAD_BYTES,
    Accumulator,
    held_bytes,
)
from tests.produce.sent import record, settings

NEVER_FULL = 10**9


def gathering(*records, at_ms=100, full_bytes=NEVER_FULL, **given):
    accumulator = Accumulator(settings(**given))
    for topic, each in records:
        accumulator.add(topic, each, at_ms, full_bytes)
    return accumulator


def test_an_append_is_due_linger_ms_after_its_first_record():
    accumulator = Accumulator(settings(linger_ms=50))

    changes = [accumulator.add("t", record(), at_ms, NEVER_FULL) for at_ms in (100, 120, 149)]

    assert accumulator.due_at_ms() == 150
    assert changes == [True, False, False]


def test_a_topic_with_enough_bytes_makes_the_append_due_at_once():
    held = 10 + RECORD_OVERHEAD_BYTES
    accumulator = gathering(("t", record()), ("other", record()), full_bytes=2 * held)
    before = accumulator.due_at_ms()

    is_changed = accumulator.add("t", record(), 101, 2 * held)

    assert (before, is_changed, accumulator.due_at_ms()) == (105, True, 100)


def test_a_flush_makes_what_waits_due_and_nothing_that_comes_after_it():
    accumulator = gathering(("t", record()), linger_ms=50)

    accumulator.flush()

    assert accumulator.due_at_ms() == 100
    accumulator.take()
    accumulator.add("t", record(), 200, NEVER_FULL)
    assert accumulator.due_at_ms() == 250


def test_all_topics_go_with_the_next_append_in_the_order_of_their_sends():
    a, b, c = record(b"a"), record(b"b"), record(b"c")
    accumulator = gathering(("x", a), ("y", b), ("x", c))

    assert set(accumulator.records) == {a, b, c}
    assert accumulator.take() == {"x": [a, c], "y": [b]}
    assert (list(accumulator.records), accumulator.due_at_ms()) == ([], None)


def test_memory_is_in_use_until_it_is_released():
    held = 10 + RECORD_OVERHEAD_BYTES
    accumulator = gathering(("t", record()), ("t", record()), buffer_memory=2 * held + 5)

    assert not accumulator.has_room(0)
    topics = accumulator.take()
    assert not accumulator.has_room(0)
    accumulator.release(sum(map(held_bytes, topics["t"])))

    assert accumulator.has_room(10)
    assert accumulator.used_bytes == 0


@pytest.mark.parametrize("size, fits", [(930, True), (931, False)])
def test_a_record_larger_than_the_memory_never_fits(size, fits):
    accumulator = Accumulator(settings(buffer_memory=1000))

    assert accumulator.fits(size) == fits == accumulator.has_room(size)


def test_records_expire_in_the_order_of_their_sends():
    old, new, other = record(deadline_ms=200), record(deadline_ms=300), record(deadline_ms=250)
    accumulator = gathering(("t", old), ("t", new), ("u", other))

    expired = accumulator.expire(250)

    assert expired == {"t": [old], "u": [other]}
    assert accumulator.take() == {"t": [new]}


def test_an_append_is_not_due_any_more_when_all_its_records_have_expired():
    accumulator = gathering(("t", record(deadline_ms=200)))

    accumulator.expire(200)

    assert accumulator.due_at_ms() is None
