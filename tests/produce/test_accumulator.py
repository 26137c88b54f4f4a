"""Records of a producer from their send to their answer: what is allowed, gathers, is tried, and waits."""

import asyncio
import threading
from dataclasses import replace
from threading import Condition

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    CorruptLogError,
    InvalidConfigError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RecordExpiredError,
    RequestTimedOutError,
    RootAccessDeniedError,
    RootFullError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.produce.accumulator import (
    RECORD_OVERHEAD_BYTES,
    Accumulator,
    Delivery,
    ProducerBatch,
    RecordMetadata,
    SentRecord,
    producer_settings,
)
from kafka_on_spark.produce.leader_log import PartitionBatch
from kafka_on_spark.produce.records import TopicLimits
from tests.builders import staged

TOPIC_ID = TopicId("t1")


def settings(**given):
    chosen = {
        "acks": "all",
        "linger_ms": 5,
        "batch_size": 1000,
        "buffer_memory": 10_000,
        "max_block_ms": 100,
        "delivery_timeout_ms": 1000,
        "max_in_flight": 1,
        "transactional_id": None,
    }
    return producer_settings(**{**chosen, **given})


def record(
    name=b"v",
    *,
    deadline_ms=1000,
    size_bytes=10,
    partition=None,
    timestamp_us=0,
    key=None,
    condition=None,
    topic="t",
):
    condition = condition or Condition()
    sent = SentRecord(topic, key, name, None, timestamp_us, partition, None, condition)
    sent.size_bytes, sent.deadline_ms = size_bytes, deadline_ms
    return sent


def key(partition=0):
    return PartitionKey(TOPIC_ID, partition)


def batch(*records, partition=0, sequence=7):
    return ProducerBatch(topic="t", key=key(partition), sequence=sequence, records=list(records))


def answered(partition=0, **answer):
    return PartitionBatch(key=key(partition), staged=staged("a"), holders=(), **answer)


def stands(partition=0, base_offset=0, append_time_ms=None):
    return answered(partition, base_offset=base_offset, append_time_ms=append_time_ms)


def failed(error, partition=0):
    return answered(partition, error=error)


NEVER_FULL = 10**9


def gathering(*records, at_ms=100, full_bytes=NEVER_FULL, **given):
    accumulator = Accumulator(settings(**given))
    for each in records:
        accumulator.add(each, at_ms, full_bytes)
    return accumulator


def test_an_append_is_due_linger_ms_after_its_first_record():
    accumulator = Accumulator(settings(linger_ms=50))

    changes = [accumulator.add(record(), at_ms, NEVER_FULL) for at_ms in (100, 120, 149)]

    assert accumulator.due_at_ms() == 150
    assert changes == [True, False, False]


def test_a_topic_with_enough_bytes_makes_the_append_due_at_once():
    held = 10 + RECORD_OVERHEAD_BYTES
    accumulator = gathering(record(), record(topic="other"), full_bytes=2 * held)
    before = accumulator.due_at_ms()

    is_changed = accumulator.add(record(), 101, 2 * held)

    assert (before, is_changed, accumulator.due_at_ms()) == (105, True, 100)


def test_a_flush_makes_what_waits_due_and_nothing_that_comes_after_it():
    accumulator = gathering(record(), linger_ms=50)

    accumulator.flush()

    assert accumulator.due_at_ms() == 100
    accumulator.take()
    accumulator.add(record(), 200, NEVER_FULL)
    assert accumulator.due_at_ms() == 250


def test_all_topics_go_with_the_next_append_in_the_order_of_their_sends():
    a, b, c = record(b"a", topic="x"), record(b"b", topic="y"), record(b"c", topic="x")
    accumulator = gathering(a, b, c)

    assert set(accumulator.records) == {a, b, c}
    assert accumulator.take() == {"x": [a, c], "y": [b]}
    assert (list(accumulator.records), accumulator.due_at_ms()) == ([], None)


def test_memory_is_in_use_until_it_is_released():
    held = 10 + RECORD_OVERHEAD_BYTES
    accumulator = gathering(record(), record(), buffer_memory=2 * held + 5)

    assert not accumulator.has_room(0)
    accumulator.take()
    assert not accumulator.has_room(0)
    accumulator.release(2 * held)

    assert accumulator.has_room(10)
    assert accumulator.used_bytes == 0


@pytest.mark.parametrize("size, fits", [(930, True), (931, False)])
def test_a_record_larger_than_the_memory_never_fits(size, fits):
    accumulator = Accumulator(settings(buffer_memory=1000))

    assert accumulator.fits(size) == fits == accumulator.has_room(size)


def test_records_expire_in_the_order_of_their_sends():
    old, new = record(deadline_ms=200), record(deadline_ms=300)
    other = record(deadline_ms=250, topic="u")
    accumulator = gathering(old, new, other)

    expired = accumulator.expire(250)

    assert [each.records for each in expired] == [[old], [other]]
    assert accumulator.take() == {"t": [new]}


def test_an_append_is_not_due_any_more_when_all_its_records_have_expired():
    accumulator = gathering(record(deadline_ms=200))

    accumulator.expire(200)

    assert accumulator.due_at_ms() is None


def delivery_of(*partitions):
    return Delivery([batch(*records, partition=each) for each, records in enumerate(partitions)])


def outcomes_of(delivery, *answers):
    for each in answers:
        delivery.answer(each)
    return delivery.take_outcomes()[0]


def expired_of(delivery, now_ms):
    delivery.expire(now_ms)
    return delivery.take_outcomes()[0]


# fmt: off
ERRORS = [
    pytest.param(NotEnoughReplicasError("few"),            True,  False, id="too few replicas"),
    pytest.param(KafkaStorageError("away"),                True,  False, id="root away"),
    pytest.param(RootAccessDeniedError("read-only"),       True,  False, id="root denies"),
    pytest.param(NotEnoughReplicasAfterAppendError("few"), True,  True,  id="too few afterwards"),
    pytest.param(RequestTimedOutError("late"),             True,  True,  id="time was up"),
    pytest.param(CommitOutcomeUnknownError("perhaps"),     True,  True,  id="unknown commit"),
    pytest.param(UnknownTopicOrPartitionError("gone"),     False, False, id="deleted"),
    pytest.param(CorruptLogError("bad"),                   False, False, id="damage"),
]
# fmt: on


@pytest.mark.parametrize("error, is_tried_again, may_be_appended", ERRORS)
def test_what_passes_is_tried_again_and_what_does_not_fails_the_records(
    error, is_tried_again, may_be_appended
):
    delivery = delivery_of([record()])

    outcomes = outcomes_of(delivery, failed(error))

    assert bool(delivery.batches) == is_tried_again
    assert [each.error for each in outcomes] == ([] if is_tried_again else [error])
    if is_tried_again:
        assert delivery.batches[key()].may_be_appended == may_be_appended


def test_a_refusal_after_a_try_of_unknown_outcome_says_so():
    delivery = delivery_of([record()])
    errors = [RequestTimedOutError("late"), UnknownTopicOrPartitionError("gone")]

    [outcome] = outcomes_of(delivery, *map(failed, errors))

    assert isinstance(outcome.error, UnknownTopicOrPartitionError)
    assert outcome.error.context["may_be_committed"]


def test_an_error_that_says_already_that_the_append_may_be_committed_is_told_as_it_is():
    error = ProducerFencedError("a newer run; an earlier try may stand", may_be_committed=True)
    delivery = delivery_of([record()])
    [outcome] = outcomes_of(delivery, failed(RequestTimedOutError("late")), failed(error))

    assert outcome.error is error


def test_a_retry_leaves_out_what_expired_while_nothing_can_have_been_appended():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    delivery = delivery_of([old, new])
    delivery.answer(failed(NotEnoughReplicasError("few")))

    [outcome] = expired_of(delivery, 10)

    assert outcome.records == [old]
    assert isinstance(outcome.error, RecordExpiredError)
    assert delivery.batches[key()].records == [new]


def test_a_retry_of_unknown_outcome_brings_the_same_records_though_some_have_expired():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    delivery = delivery_of([old, new])
    delivery.answer(failed(RequestTimedOutError("late")))

    [outcome] = expired_of(delivery, 10)

    assert outcome.records == [old]
    assert isinstance(outcome.error, RequestTimedOutError)
    assert delivery.batches[key()].records == [old, new]
    assert expired_of(delivery, 10) == []


LIMITS = TopicLimits(
    name="t",
    partition_count=2,
    record_bytes_max=100,
    before_max_ms=None,
    after_max_ms=None,
    needs_key=False,
)


def test_records_that_their_topic_does_not_allow_are_left_out_of_the_next_try():
    small, large, alone = record(), record(size_bytes=101), record(size_bytes=101)
    delivery = delivery_of([small, large], [alone])

    delivery.leave_out({TOPIC_ID: LIMITS}, 0)
    outcomes, answered = delivery.take_outcomes()

    assert [(each.partition, each.records) for each in outcomes] == [(0, [large]), (1, [alone])]
    assert {type(each.error) for each in outcomes} == {MessageTooLargeError}
    assert [(each, found.records) for each, found in delivery.batches.items()] == [
        (key(0), [small])
    ]
    assert [each.key for each in answered] == [key(1)]


def test_a_delivery_may_have_batches_of_several_appends():
    delivery = Delivery([batch(record()), batch(record(), partition=1, sequence=8)])

    numbers = {each: found.sequence for each, found in delivery.batches.items()}
    assert numbers == {key(0): 7, key(1): 8}


def test_each_partition_is_told_once_to_have_its_answer():
    delivery = delivery_of([record()], [record(deadline_ms=10)], [record()])
    delivery.answer(stands(0))
    delivery.expire(10)

    assert [each.key for each in delivery.take_outcomes()[1]] == [key(0), key(1)]
    assert delivery.take_outcomes() == ([], [])


def test_what_is_given_up_fails_with_the_error_but_for_what_has_an_answer():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    delivery = delivery_of([old, new])
    delivery.answer(failed(RequestTimedOutError("late")))
    delivery.expire(10)
    error = ZeroDivisionError("a bug")

    delivery.give_up(list(delivery.batches.values()), error)

    [_, outcome] = delivery.take_outcomes()[0]
    assert (outcome.records, outcome.error) == ([new], error)
    assert delivery.batches == {}


def test_an_error_for_what_is_settled_already_changes_nothing():
    delivery = delivery_of([record()])
    batches = list(delivery.batches.values())
    outcomes_of(delivery, stands())

    delivery.fail(batches, CorruptLogError("bad"), may_be_appended=True)

    assert delivery.take_outcomes() == ([], [])


def test_a_duplicate_that_retention_has_removed_has_no_offset():
    delivery = delivery_of([record()])

    [outcome] = outcomes_of(delivery, stands(base_offset=None))

    assert (outcome.base_offset, outcome.error) == (None, None)


def test_what_waits_behind_an_append_expires_in_the_order_of_its_sends():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    tried = batch(record())
    tried.last_error, tried.behind = RootFullError("no space is left"), [old, new]
    delivery = Delivery([tried])

    [outcome] = expired_of(delivery, 10)

    assert (outcome.partition, outcome.records) == (0, [old])
    assert isinstance(outcome.error, RecordExpiredError)
    assert "no answer yet: no space is left" in str(outcome.error)
    assert tried.behind == [new]
    assert expired_of(delivery, 10) == []


def test_what_is_tried_expires_before_what_waits_behind_it():
    first, waits = record(deadline_ms=5), record(deadline_ms=10)
    tried = batch(first)
    tried.behind = [waits]

    assert [each.records for each in expired_of(Delivery([tried]), 10)] == [[first], [waits]]


BOUNDS = TopicLimits(
    name="t",
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
    sent = record(size_bytes=size, partition=partition, timestamp_us=timestamp_ms * 1000)

    why = sent.refusal(BOUNDS, NOW_MS)

    assert why is None if kind is None else isinstance(why, kind)


def test_a_compacted_topic_refuses_the_records_without_a_key_only():
    compacted, moment = replace(BOUNDS, needs_key=True), NOW_MS * 1000
    keyed, keyless = record(key=b"", timestamp_us=moment), record(timestamp_us=moment)

    assert keyed.refusal(compacted, NOW_MS) is None
    assert isinstance(keyless.refusal(compacted, NOW_MS), InvalidRecordError)


def test_metadata_has_the_timestamp_as_a_moment():
    assert RecordMetadata("t", 0, 5, 1_500_000).timestamp.isoformat() == (
        "1970-01-01T00:00:01.500000+00:00"
    )
    assert RecordMetadata("t", 0, None, None).timestamp is None


def futures(count=3):
    condition = threading.Condition()
    return [record(condition=condition) for _ in range(count)]


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


# fmt: off
REFUSED = [
    ({"max_in_flight": 5},                              InvalidConfigError,       "sequences count appends"),
    ({"max_in_flight": 0},                              InvalidConfigError,       "give 1"),
    ({"transactional_id": "mine"},                      InvalidConfigError,       "no transactions yet"),
    ({"acks": 0},                                       InvalidConfigError,       "futures are answers"),
    ({"acks": 2},                                       InvalidRequiredAcksError, "'all', 1 or 0"),
    ({"linger_ms": -1},                                 InvalidConfigError,       "0 or more"),
    ({"buffer_memory": 0},                              InvalidConfigError,       "1 or more"),
    ({"linger_ms": 1.5},                                InvalidRequestError,      "whole number"),
    ({"delivery_timeout_ms": 10, "linger_ms": 11},      InvalidConfigError,       "would expire"),
]
# fmt: on


@pytest.mark.parametrize("given, kind, said", REFUSED)
def test_a_setting_that_can_not_hold_is_refused_with_its_reason(given, kind, said):
    with pytest.raises(kind, match=said):
        settings(**given)
