"""A consumer of partitions in memory, for tests: what it reads, and what the cluster commits."""

from types import SimpleNamespace

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionEpoch, PartitionKey
from kafka_on_spark.consume.consuming import Consuming
from kafka_on_spark.consume.member import Listeners
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.subscription import Assign, Subscribe
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.membership import join, reconcile, share_out
from kafka_on_spark.groups.offsets import member_of
from kafka_on_spark.metadata.metadata_service import CommitWait, MetadataService
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    BrokerState,
    HighWatermarkRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Stamp,
    TopicRecord,
)
from tests.builders import TOPIC, TOPIC_ID, digest_at, disk, partition
from tests.fakes import FakeClock, MemoryHeartbeats, MemoryMetadataLog

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
        self.heartbeats = MemoryHeartbeats()
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
        self.settings = ConsumerSettings(
            group=GROUP,
            auto_offset_reset=auto_offset_reset,
            max_poll_records=100,
            enable_auto_commit=is_member or commits,
            auto_commit_interval_ms=600_000,
            client_rack=None,
            max_poll_interval_ms=max_poll_interval_ms,
        )
        self.liveness = Liveness(
            self.metadata,
            self.heartbeats,
            self.clock,
            group=GROUP,
            max_poll_interval_ms=max_poll_interval_ms,
            timeout_ms=TIMEOUT_MS,
            new_id=lambda: "m",
        )
        self.consuming = Consuming(
            SimpleNamespace(metadata=self.metadata, clock=self.clock, timeout_ms=TIMEOUT_MS),
            CommitWait(self.metadata, self.clock),
            self.settings,
            read=self._read,
            liveness=self.liveness if is_member else None,
            listeners=Listeners(),
        )
        numbers = tuple(range(len(ends)))
        self.consuming.subscribe(Subscribe((TOPIC,)) if is_member else Assign({TOPIC: numbers}))

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
        number = self.consuming.fetch.order.key.partition
        self.consuming.hand_out(rows.num_rows, Offset(rows.end))
        return number, rows.generation, rows.start, rows.end

    def give_all_to(self, name):
        """Have another member own all partitions: one that does not beat."""
        self.share_with(name)
        self.follow_target(name)

    def share_with(self, name):
        """Have another member join, and partitions shared out: it takes none yet."""
        self._submit(lambda image: join(image, GROUP, member_id=name, topics=[TOPIC]))
        self._submit(lambda image: share_out(image, GROUP))

    def follow_target(self, name):
        """Have another member give up what it shall not own, and take what it shall."""

        def decide(image):
            member = member_of(image, GROUP, name)
            return reconcile(image, GROUP, name, member.member_epoch, member.to_give_up)

        self._submit(decide)

    def _submit(self, decide):
        self.metadata.catch_up()
        self.metadata.submit(decide, timeout_ms=TIMEOUT_MS)

    def have_turns(self, *others, each_turn=lambda: None):
        """Let each sleep have the turns of the consumer's threads, and heartbeats of others."""
        sleep_ms, turns = self.clock.sleep_ms, [self.clock.monotonic_ms()]

        def sleep_and_take_turns(duration_ms):
            sleep_ms(duration_ms)
            if self.clock.monotonic_ms() - turns[-1] < self.liveness.interval_ms:
                return
            turns.append(self.clock.monotonic_ms())
            self.liveness.beat()
            for name in others:
                self.heartbeats.beat(GROUP, name, len(turns))
            self.liveness.check()
            each_turn()

        self.clock.sleep_ms = sleep_and_take_turns
