"""What becomes of one append's records: answers, tries again, and deadlines."""

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordExpiredError,
    RequestTimedOutError,
    RootAccessDeniedError,
    RootFullError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.produce.delivery import (
    SILENT_MS,
    Delivery,
)
from kafka_on_spark.produce.sent_record import TopicLimits
from tests.produce.sent import (
    RUN,
    TOPIC_ID,
    failed,
    key,
    part,
    record,
    stands,
)


def delivery_of(*partitions):
    return Delivery([part(*records, partition=each) for each, records in enumerate(partitions)])


def test_it_is_said_once_after_two_seconds_why_records_have_no_answer_and_for_how_long():
    delivery = delivery_of([record(deadline_ms=10_000)], [record(deadline_ms=30_000)])
    silent = delivery.slow_word(0), delivery.try_ms(0)
    delivery.answer([failed(RootFullError("no space is left"), 1)])

    words = [delivery.slow_word(each) for each in (SILENT_MS - 1, SILENT_MS, 5000)]

    assert silent == (None, 10_000)
    assert words == [None, "t-1 (and 1 more): tries for 28 s more: no space is left", None]
    assert delivery.try_ms(5000) == 5000


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

    outcomes = delivery.answer([failed(error)])

    assert bool(delivery.parts) == is_tried_again
    assert [each.error for each in outcomes] == ([] if is_tried_again else [error])
    if is_tried_again:
        assert delivery.parts[0].may_be_appended == may_be_appended


def test_a_refusal_after_a_try_of_unknown_outcome_says_so():
    delivery = delivery_of([record()])
    delivery.answer([failed(RequestTimedOutError("late"))])

    [outcome] = delivery.answer([failed(UnknownTopicOrPartitionError("gone"))])

    assert isinstance(outcome.error, UnknownTopicOrPartitionError)
    assert outcome.error.context["may_be_committed"]


def test_an_error_that_says_already_that_the_append_may_be_committed_is_told_as_it_is():
    error = ProducerFencedError("a newer run; an earlier try may stand", may_be_committed=True)
    delivery = delivery_of([record()])
    delivery.answer([failed(RequestTimedOutError("late"))])

    [outcome] = delivery.answer([failed(error)])

    assert outcome.error is error


def test_a_retry_leaves_out_what_expired_while_nothing_can_have_been_appended():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    delivery = delivery_of([old, new])
    delivery.answer([failed(NotEnoughReplicasError("few"))])

    [outcome] = delivery.expire(10)

    assert outcome.records == [old]
    assert isinstance(outcome.error, RecordExpiredError)
    assert delivery.parts[0].records == [new]


def test_a_retry_of_unknown_outcome_brings_the_same_records_though_some_have_expired():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    delivery = delivery_of([old, new])
    delivery.answer([failed(RequestTimedOutError("late"))])

    [outcome] = delivery.expire(10)

    assert outcome.records == [old]
    assert isinstance(outcome.error, RequestTimedOutError)
    assert delivery.parts[0].records == [old, new]
    assert delivery.expire(10) == []


LIMITS = TopicLimits(
    topic_id=TOPIC_ID,
    partition_count=2,
    record_bytes_max=100,
    before_max_ms=None,
    after_max_ms=None,
    needs_key=False,
)


def test_records_that_their_topic_does_not_allow_are_left_out_of_the_next_try():
    small, large, alone = record(), record(size_bytes=101), record(size_bytes=101)
    delivery = delivery_of([small, large], [alone])

    outcomes = delivery.leave_out(delivery.refusals({TOPIC_ID: LIMITS}, 0))

    assert [(each.partition, each.records) for each in outcomes] == [(0, [large]), (1, [alone])]
    assert {type(each.error) for each in outcomes} == {MessageTooLargeError}
    assert [(each.key, each.records) for each in delivery.parts] == [(key(0), [small])]


def test_an_answer_about_the_producer_itself_ends_its_run():
    for error in (OutOfOrderSequenceError("late"), ProducerFencedError("newer")):
        delivery = delivery_of([record()])

        assert len(delivery.answer([failed(error)])) == 1
        assert delivery.lost_runs == {RUN}


def test_a_delivery_may_have_parts_of_several_appends():
    delivery = Delivery([part(record()), part(record(), partition=1, sequence=8)])

    assert [(each.key, each.number.sequence) for each in delivery.parts] == [
        (key(0), 7),
        (key(1), 8),
    ]
    assert delivery.keys == {key(0), key(1)}


def test_each_partition_is_told_once_to_have_its_answer():
    delivery = delivery_of([record()], [record(deadline_ms=10)], [record()])
    delivery.answer([stands(0)])
    delivery.expire(10)

    assert delivery.take_answered() == {key(0), key(1)}
    assert delivery.take_answered() == set()


def test_what_is_given_up_fails_with_the_error_but_for_what_has_an_answer():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    delivery = delivery_of([old, new])
    delivery.answer([failed(RequestTimedOutError("late"))])
    delivery.expire(10)
    error = ZeroDivisionError("a bug")

    [outcome] = delivery.give_up(error)

    assert (outcome.records, outcome.error) == ([new], error)
    assert delivery.parts == []


def test_an_error_for_what_is_settled_already_changes_nothing():
    delivery = delivery_of([record()])
    parts = delivery.parts
    delivery.answer([stands()])

    assert delivery.fail(parts, CorruptLogError("bad"), may_be_appended=True) == []


def test_a_duplicate_that_retention_has_removed_has_no_offset():
    delivery = delivery_of([record()])

    [outcome] = delivery.answer([stands(base_offset=None)])

    assert (outcome.base_offset, outcome.error) == (None, None)
