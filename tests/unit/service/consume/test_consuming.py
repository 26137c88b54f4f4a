"""One consumer's loop over partitions in memory: elections under its hands, waits, what fails."""

import pytest

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    KafkaStorageError,
    QuorumUnavailableError,
    RequestTimedOutError,
)
from kafka_on_spark.ids import LeaderEpoch, Offset, PartitionEpoch, PartitionKey
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.group_records import RemoveGroupMemberRecord
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    HighWatermarkRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Stamp,
    TopicRecord,
)
from kafka_on_spark.query.consuming.settings import consumer_settings
from kafka_on_spark.query.subscription import Assign, Subscribe
from kafka_on_spark.service.consume.consuming import Consuming
from kafka_on_spark.service.consume.members.membership import Listeners, Member
from kafka_on_spark.service.consume.members.share_pace import SharePace
from kafka_on_spark.service.consume.members.witness import Witness
from kafka_on_spark.service.metadata.commit_wait import CommitWait
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from tests.builders import KEY, TOPIC, TOPIC_ID, digest_at, disk, partition
from tests.fakes import FakeClock, MemoryHeartbeats, MemoryMetadataLog

ONE = PartitionKey(TOPIC_ID, 1)
GROUP = "g"
TIMEOUT_MS = 10_000


class Rows:
    """Offsets of one partition, and the unclean generation that they were read in."""

    def __init__(self, generation, start, end):
        self.generation, self.start, self.end = generation, start, end

    @property
    def num_rows(self):
        return self.end - self.start

    def slice(self, offset, length):
        return Rows(self.generation, self.start + offset, self.start + offset + length)


class RoundsClock(FakeClock):
    """A clock that fails where somebody asks it again and again, and does not sleep."""

    ASKED_MAX = 200

    def __init__(self):
        super().__init__()
        self.asked = 0

    def monotonic_ms(self):
        self.asked += 1
        assert self.asked < self.ASKED_MAX, "it spins"
        return super().monotonic_ms()

    def sleep_ms(self, duration_ms):
        self.asked = 0
        super().sleep_ms(duration_ms)


class Reader:
    """A consumer of partitions in memory. `failing` are those that no replica serves; the next read
    ends with `fault` after its first row."""

    def __init__(
        self,
        *ends,
        is_member=False,
        commits=False,
        auto_offset_reset="earliest",
        max_poll_interval_ms=300_000,
    ):
        self.log, self.clock = MemoryMetadataLog(), RoundsClock()
        self.failing = set()
        self.fault = None
        self.commit(
            BrokerRecord(
                broker_id=1,
                broker_epoch=0,
                root="memory://1",
                rack=None,
                directory_id=disk(1),
                broker_state=BrokerState.ACTIVE,
            ),
            TopicRecord(topic=TOPIC, topic_id=TOPIC_ID),
            *(
                PartitionRecord(
                    topic=TOPIC,
                    topic_id=TOPIC_ID,
                    partition=number,
                    registration=partition("1", hw=end),
                )
                for number, end in enumerate(ends)
            ),
        )
        self.metadata = MetadataService(self.log, self.clock, random=lambda: 0.0)
        self.metadata.catch_up()
        self.settings = consumer_settings(
            group=GROUP,
            auto_offset_reset=auto_offset_reset,
            max_poll_records=100,
            enable_auto_commit=is_member or commits,
            auto_commit_interval_ms=600_000,
            client_rack=None,
            max_poll_interval_ms=max_poll_interval_ms,
        )
        self.consuming = Consuming(
            self.metadata,
            self.clock,
            CommitWait(self.metadata, self.clock, is_local=True),
            settings=self.settings,
            read=self._read,
            end_of=lambda rows: Offset(rows.end),
            timeout_ms=TIMEOUT_MS,
            make_member=self._member if is_member else None,
        )
        numbers = tuple(range(len(ends)))
        self.consuming.subscribe(Subscribe((TOPIC,)) if is_member else Assign({TOPIC: numbers}))

    def _member(self, hands, subscription):
        self.witness = Witness(
            self.metadata,
            MemoryHeartbeats(),
            self.clock,
            group=GROUP,
            max_poll_interval_ms=self.settings.max_poll_interval_ms,
            timeout_ms=TIMEOUT_MS,
            random=lambda: 0.5,
        )
        return Member(
            self.metadata,
            self.witness,
            self.clock,
            hands,
            Listeners(*([lambda keys: None] * 3)),
            settings=self.settings,
            subscription=subscription,
            new_id=lambda: "m",
            pace=SharePace(lambda: 0.5),
            timeout_ms=TIMEOUT_MS,
        )

    def _read(self, order):
        if order.key in self.failing:
            raise KafkaStorageError("no replica answers")
        rows = Rows(order.partition.unclean_generation, order.start_offset, order.end_offset)
        fault, self.fault = self.fault, None
        if fault is not None:
            yield rows.slice(0, 1)
            raise fault
        yield rows

    def commit(self, *records):
        stamp = Stamp(time_ms=self.clock.now_ms())
        self.log.append(records, stamp, expected_offset=self.log.end_offset)

    def registration(self, number):
        return self.metadata.catch_up().partition(PartitionKey(TOPIC_ID, number))

    def append(self, number, end, start=None):
        """Commit records up to an end, and perhaps delete those below a start."""
        known = self.registration(number)
        self.commit(
            HighWatermarkRecord(
                topic_id=TOPIC_ID,
                partition=number,
                leader_epoch=known.leader_epoch,
                partition_epoch=known.partition_epoch,
                high_watermark=Offset(end),
                high_watermark_epoch=known.leader_epoch,
                high_watermark_chain=digest_at(end),
                log_end_offset=Offset(end),
                log_start_offset=start,
            )
        )

    def elect_uncleanly(self, number, cut):
        """Cut a partition by an unclean election."""
        known = self.registration(number)
        self.commit(
            PartitionChangeRecord(
                topic_id=TOPIC_ID,
                partition=number,
                change=PartitionChange(
                    leader=known.leader,
                    high_watermark=Offset(cut),
                    high_watermark_epoch=known.leader_epoch,
                    high_watermark_chain=digest_at(cut),
                    unclean_generation=known.unclean_generation + 1,
                ),
                topic=TOPIC,
                leader_epoch=LeaderEpoch(known.leader_epoch + 1),
                partition_epoch=PartitionEpoch(known.partition_epoch + 1),
            )
        )

    def poll(self, rows_max=100, timeout_ms=0):
        """Return the partition, generation and offsets that a poll hands out, or None."""
        rows = self.consuming.next_rows(timeout_ms, rows_max)
        if rows is None:
            return None
        number = self.consuming.turn.key.partition
        self.consuming.hand_out(rows)
        return number, rows.generation, rows.start, rows.end


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
    assert reader.consuming.standing(KEY).offset == start

    assert reader.poll() == (0, 1, start, 20)


@pytest.mark.parametrize(
    "make_due",
    [
        pytest.param(lambda reader: reader.clock.advance(50), id="time"),
        pytest.param(lambda reader: reader.append(0, 20), id="a commit that this process knows"),
        pytest.param(lambda reader: reader.consuming.wake_up(), id="a wake-up"),
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

    assert reader.consuming.assignment() == [ONE]
    assert reader.poll(timeout_ms=5_000) == (1, 0, 0, 10)
    assert reader.poll() is None


def test_a_member_that_waits_for_records_for_longer_than_its_poll_interval_stays_one():
    reader = Reader(0, is_member=True, max_poll_interval_ms=2_000)
    reader.poll()
    sleep_ms = reader.clock.sleep_ms

    def sleep_and_look(duration_ms):
        sleep_ms(duration_ms)
        reader.witness.look()

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

    assert reader.consuming.saving.committed([KEY]) == {KEY: 1}
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
