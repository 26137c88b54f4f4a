"""One consumer's loop over partitions in memory: elections under its hands, waits, what fails."""

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    KafkaStorageError,
    QuorumUnavailableError,
    RequestTimedOutError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.subscription import Assign
from kafka_on_spark.metadata.records import RemoveGroupMemberRecord
from tests.builders import KEY, TOPIC, TOPIC_ID
from tests.groups.readers import TIMEOUT_MS, Reader

ONE = PartitionKey(TOPIC_ID, 1)


@pytest.mark.parametrize("cut", [3, 7])
def test_what_was_read_before_an_unclean_election_is_void_once_the_position_is_known_to_be_after_it(
    cut,
):
    """The position did not move where the cut was above it, and what stands there is other."""
    reader = Reader(10)
    assert reader.poll(5) == (0, 0, 0, 5)
    reader.elect_uncleanly(0, cut)
    reader.append(0, 20)
    reader.metadata.catch_up()

    start = min(cut, 5)
    assert reader.consuming.position(KEY).offset == start

    assert reader.poll() == (0, 1, start, 20)


@pytest.mark.parametrize(
    "make_due",
    [
        pytest.param(lambda reader: reader.clock.advance(50), id="time"),
        pytest.param(lambda reader: reader.append(0, 20), id="a commit that this process knows"),
        pytest.param(lambda reader: setattr(reader.consuming, "is_woken", True), id="a wake-up"),
    ],
)
def test_between_two_records_of_a_turn_a_member_does_nothing_until_something_is_due(make_due):
    reader = Reader(10, is_member=True)
    while reader.poll(5) is None:
        reader.clock.sleep_ms(20)
    reader.consuming.go_on()
    assert not reader.consuming.is_due()

    make_due(reader)
    reader.metadata.catch_up()

    assert reader.consuming.is_due()


@pytest.mark.parametrize("commits", [False, True])
def test_between_two_records_of_a_turn_who_is_no_member_has_nothing_to_do_but_to_commit(commits):
    reader = Reader(10, commits=commits)
    assert reader.poll(5) == (0, 0, 0, 5)
    reader.append(0, 20)
    reader.metadata.catch_up()
    reader.clock.advance(599_999)
    assert not reader.consuming.is_due()

    reader.clock.advance(1)

    assert reader.consuming.is_due() is commits


def test_a_member_in_the_middle_of_a_turn_waits_while_the_metadata_root_is_away():
    reader = Reader(10, is_member=True)
    while (found := reader.poll(5)) is None:
        reader.clock.sleep_ms(20)
    assert found == (0, 0, 0, 5)
    reader.append(0, 20)
    reader.metadata.catch_up()
    reader.log.is_offline = True
    reader.clock.advance(60_000)  # it may have been fenced: it can't know

    reader.clock.slept_ms.clear()
    assert reader.poll(timeout_ms=2_000) is None
    assert len(reader.clock.slept_ms) <= 100, "as seldom as an idle consumer looks"

    reader.log.is_offline = False
    assert reader.poll(timeout_ms=5_000) == (0, 0, 5, 10)


def test_a_member_that_can_not_leave_reads_what_is_assigned_to_it_then_and_nothing_else():
    """It read all partitions of its group's topics, beside the members that have them."""
    reader = Reader(10, 10, is_member=True)
    reader.consuming.assignment()
    reader.log.is_offline = True
    with pytest.raises(KafkaStorageError):
        reader.consuming.subscribe(Assign({TOPIC: (1,)}))

    reader.log.is_offline = False

    assert list(reader.consuming.assignment()) == [ONE]
    assert reader.poll(timeout_ms=5_000) == (1, 0, 0, 10)
    assert reader.poll() is None


def test_a_member_that_waits_for_records_for_longer_than_its_poll_interval_stays_one():
    reader = Reader(0, is_member=True, max_poll_interval_ms=2_000)
    reader.poll()
    sleep_ms = reader.clock.sleep_ms

    def sleep_and_look(duration_ms):
        sleep_ms(duration_ms)
        reader.liveness.check()

    reader.clock.sleep_ms = sleep_and_look
    assert reader.poll(timeout_ms=20_000) is None

    records = [each for batch in reader.log.batches for each in batch.records]
    assert not [each for each in records if isinstance(each, RemoveGroupMemberRecord)]


@pytest.mark.parametrize("fault", [MemoryError(), TimeoutError("an alarm"), KeyboardInterrupt()])
def test_a_read_that_is_broken_off_goes_on_behind_what_was_handed_out(fault):
    """Its source had ended by that, which passed for the end of the turn: the rest was skipped."""
    reader = Reader(10, commits=True)
    reader.fault = fault
    assert reader.poll() == (0, 0, 0, 1)
    with pytest.raises(type(fault)):
        reader.poll()

    reader.consuming.commit()

    assert reader.consuming.committed([KEY]) == {KEY: 1}
    assert reader.poll() == (0, 0, 1, 10)


@pytest.mark.parametrize(
    "kind", [QuorumUnavailableError, RequestTimedOutError, CommitOutcomeUnknownError]
)
def test_a_read_that_waits_for_a_compaction_is_tried_again_while_the_quorum_is_away(kind):
    reader = Reader(10)
    reader.fault = kind("the compaction can't be committed")
    assert reader.poll() == (0, 0, 0, 1)

    assert reader.poll(timeout_ms=2_000) == (0, 0, 1, 10)


# fmt: off
NO_MORE = {  # why a partition that no replica serves is not tried any more, with the position behind all
    "paused":           lambda reader: reader.consuming.pause({KEY}),
    "sought past":      lambda reader: reader.consuming.seek(KEY, 10),
    "records deleted":  lambda reader: reader.append(0, 10, start=10),
}
# fmt: on


@pytest.mark.parametrize("why", NO_MORE)
def test_a_partition_that_failed_and_has_nothing_to_try_keeps_nobody_awake(why):
    reader = Reader(10, auto_offset_reset="latest")
    reader.consuming.seek(KEY, 0)
    reader.failing.add(KEY)
    assert reader.poll() is None

    NO_MORE[why](reader)
    reader.poll(timeout_ms=2 * TIMEOUT_MS)
    reader.clock.slept_ms.clear()

    assert reader.poll(timeout_ms=1_000) is None
    assert len(reader.clock.slept_ms) <= 50, "as seldom as an idle consumer looks"


def test_a_partition_that_was_paused_for_long_has_all_of_its_time_when_it_is_read_again():
    reader = Reader(10, 10)
    reader.failing.add(KEY)
    assert reader.poll() == (1, 0, 0, 10)
    reader.consuming.pause({KEY})
    reader.clock.advance(TIMEOUT_MS)

    reader.consuming.resume({KEY})
    assert reader.poll(timeout_ms=TIMEOUT_MS - 2_000) is None
    with pytest.raises(KafkaStorageError):
        reader.poll(timeout_ms=4_000)
