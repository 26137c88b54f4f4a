"""Which records wait behind a partition that is tried again, and when they go on."""

from kafka_on_spark.base.errors import RecordExpiredError, RootFullError
from kafka_on_spark.produce.delivery import AppendNumber
from kafka_on_spark.produce.muted_partitions import MutedPartitions
from tests.produce.sent import RUN, key, part, record

NEXT = AppendNumber(RUN, 9)


def muting(*parts):
    muted = MutedPartitions()
    muted.mute(parts)
    return muted


def test_later_records_of_a_muted_partition_wait_and_others_go_on():
    later, other = record(), record()
    muted = muting(part(record(), partition=0))

    tried = muted.join([part(later, partition=0), part(other, partition=1)], NEXT)

    assert [(each.key, each.records) for each in tried] == [(key(1), [other])]
    assert list(muted.waiting) == [("t", [later])]
    assert (muted.keys, muted.has_released) == ({key(0)}, False)


def test_what_has_waited_goes_on_though_nothing_later_comes():
    waits = record()
    muted = muting(part(record()))
    muted.join([part(waits)], NEXT)
    muted.unmute([key()])

    [tried] = muted.join([], NEXT)

    assert (tried.topic, tried.key, tried.number, tried.records) == ("t", key(), NEXT, [waits])
    assert muted.is_empty


def test_a_partition_without_waiting_records_is_unmuted_without_a_word():
    muted = muting(part(record()))

    muted.unmute([key()])

    assert muted.is_empty


def test_what_waits_behind_an_append_expires_in_the_order_of_its_sends():
    old, new = record(deadline_ms=10), record(deadline_ms=20)
    tried = part(record(deadline_ms=5))
    tried.last_error = RootFullError("no space is left")
    muted = muting(tried)
    muted.join([part(old, new)], NEXT)

    [outcome] = muted.expire([key()], 10)

    assert (outcome.topic, outcome.partition, outcome.records) == ("t", 0, [old])
    assert isinstance(outcome.error, RecordExpiredError)
    assert "no answer yet: no space is left" in str(outcome.error)
    assert list(muted.waiting) == [("t", [new])]
    assert muted.expire([key()], 10) == []


def test_what_waits_behind_another_partition_does_not_expire_before_what_that_tries():
    waits = record(deadline_ms=10)
    muted = muting(part(record(deadline_ms=5), partition=0), part(record(), partition=1))
    muted.join([part(waits, partition=0)], NEXT)

    assert muted.expire([key(1)], 10) == []
    assert ("t", [waits]) in list(muted.waiting)
