"""A simulated group: consumers that are killed, frozen anywhere, and added, from one seed.

Each has a metadata service, clocks and ports of its own; the log and the heartbeats are shared.
Threads are turns that the world gives. A process that is frozen at a port stands still inside its
call while the others go on.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.controller.topics import create_topic
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    BrokerState,
    ConfigRecord,
    HighWatermarkRecord,
    OffsetCommitRecord,
    PartitionRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
)
from tests.builders import TOPIC, TOPIC_ID, digest_at, disk, partition
from tests.fakes import MemoryHeartbeats, MemoryMetadataLog
from tests.simulation.groups.checks import LATER, Checker
from tests.simulation.groups.processes import GROUP, INTERVAL_MS, KilledError, Process

SESSION_MS: Final = 3_000
STEP_MS_MAX: Final = 200
NESTED_MAX: Final = 3
OLD_TOPIC_ID: Final = TopicId("f" * 32)
LATER_PARTITIONS: Final = 2
IDLE_MS: Final = 45_000
"""More than half of the time after which offsets expire."""


class World:
    """A topic, its group, and all that happens to both."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._creates_at_ms = random.Random(seed).choice([None, None, 1_000, 9_000])
        self.topics = (TOPIC,) if self._creates_at_ms is None else (TOPIC, LATER)
        self.now_ms = 0
        self.asleep_ms = 0
        self.reset = self.rng.choice(["earliest", "latest"])
        self.auto_commit_ms = self.rng.choice([0, 800, 8_000])
        self.log = MemoryMetadataLog()
        self.heartbeats = MemoryHeartbeats()
        self.checker = Checker(self, GROUP, SESSION_MS)
        self.processes: list[Process] = []
        self.kill, self.freeze, self.unknown = (self.rng.choice(rates) for rates in RATES)
        self._nested = 0
        self._count = 0
        self._is_calm = False
        count = self.rng.randint(1, 6)
        configs = {
            "group.consumer.session.timeout.ms": SESSION_MS,
            "group.consumer.heartbeat.interval.ms": INTERVAL_MS,
            "offsets.retention.minutes": 1,
        }
        self._commit(
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
                ConfigRecord(topic_id=None, config_name=name, config_value=str(value))
                for name, value in configs.items()
            ),
            *(self._new_partition(number) for number in range(count)),
            *(self._empty_topic() if LATER in self.topics else ()),
            # What it has read once, and reads no more: nobody saves that again.
            TopicRecord(topic="old", topic_id=OLD_TOPIC_ID),
            PartitionRecord(
                topic="old", topic_id=OLD_TOPIC_ID, partition=0, registration=partition("1", hw=9)
            ),
            OffsetCommitRecord(
                group=GROUP,
                topic_id=OLD_TOPIC_ID,
                partition=0,
                offset=Offset(5),
                leader_epoch=None,
            ),
        )

    def _empty_topic(self) -> Iterator[Any]:
        """Yield what makes the topic that will be deleted and created anew."""
        topic_id = TopicId("d" * 32)
        yield TopicRecord(topic=LATER, topic_id=topic_id)
        yield PartitionRecord(
            topic=LATER, topic_id=topic_id, partition=0, registration=partition("1", hw=0)
        )

    def _new_partition(self, number: int) -> PartitionRecord:
        registration = partition("1", hw=self.rng.randrange(20))
        return PartitionRecord(
            topic=TOPIC, topic_id=TOPIC_ID, partition=number, registration=registration
        )

    def _commit(self, *records: Any) -> None:
        stamp = Stamp(time_ms=1_700_000_000_000 + self.now_ms)
        batch = self.log.append(records, stamp, expected_offset=self.log.end_offset)
        self.checker.check_batch(None, batch)

    @property
    def awake_ms(self) -> int:
        return self.now_ms - self.asleep_ms

    def happens(self, rate: float) -> bool:
        return not self._is_calm and self.rng.random() < rate

    def at_port(self, process: Process) -> None:
        """A process is at a port: it may be killed there, or frozen."""
        if self.happens(self.kill):
            raise KilledError
        if self._nested < NESTED_MAX and self.happens(self.freeze):
            duration_ms = self.rng.choice([300, 2_000, 3_500, 8_000])
            process.is_frozen = process.was_frozen = True
            self._nested += 1
            self.run(duration_ms)
            self._nested -= 1
            process.is_frozen = False

    def run(self, duration_ms: int) -> None:
        """Let time pass, and all that can do something."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += self.rng.randint(1, STEP_MS_MAX)
            for process in [each for each in self.processes if not each.is_gone]:
                if not process.is_frozen:
                    process.take_turns()
                if not (process.is_frozen or process.is_gone) and self.rng.random() < 0.6:
                    process.do(process.poll)
            if not self._is_calm:
                self._happen()

    def _happen(self) -> None:
        """Something happens outside of any process, or nothing."""
        if self._creates_at_ms is not None and self.now_ms >= self._creates_at_ms:
            self._creates_at_ms = None
            self._create_anew()
        draw = self.rng.random()
        if self.rng.random() < 0.003:
            # The machine that all run on sleeps: nobody beats, and nobody could.
            self.now_ms += 8_000
            self.asleep_ms += 8_000
        if draw < 0.3:
            self._append()
        elif draw < 0.31 and len(self.topic.partitions) < 9:
            self.checker.add_partition(len(self.topic.partitions))
            self._commit(self._new_partition(len(self.topic.partitions)))
        elif draw < 0.34 and self._count < 14:
            self.add()
        elif draw < 0.345 and (free := self._free()):
            process = self.rng.choice(free)
            process.do(process.close)
        elif draw < 0.36 and (free := self._free()):
            process = self.rng.choice(free)
            process.ports.can_beat = not process.ports.can_beat

    def _free(self) -> list[Process]:
        return [each for each in self.processes if not (each.is_gone or each.is_frozen)]

    @property
    def topic(self) -> Any:
        return self.checker.image.topics[TOPIC_ID]

    def add(self) -> None:
        """Start a process; some are static members, which come again."""
        self._count += 1
        instance_id = self.rng.choice([None, None, "one", "two"])
        with suppress(KilledError):
            self.processes.append(Process(self, f"p{self._count}", instance_id))

    def _create_anew(self) -> None:
        """Delete a topic that members read and create it anew; append to it before anybody can take
        its partitions."""
        self._commit(RemoveTopicRecord(topic_id=self.checker.image.topic_ids[LATER]))
        decided = create_topic(
            self.checker.image,
            LATER,
            partition_count=LATER_PARTITIONS,
            replication_factor=1,
            replica_assignment=None,
            configs={},
            new_uuid=lambda: "e" * 32,
            random_below=lambda bound: 0,
            cause="it comes",
        )
        self.checker.create_topic(TopicId(decided.response), LATER_PARTITIONS)
        self._commit(
            *(
                replace(each, registration=partition("1", hw=0))
                if isinstance(each, PartitionRecord)
                else each
                for each in decided.records
            )
        )
        for key in self.checker.read_keys():
            if key.topic_id == decided.response:
                self._append(key)

    def _append(self, key: PartitionKey | None = None) -> None:
        key = key or self.rng.choice(self.checker.read_keys())
        known = self.checker.image.partition(key)
        assert known is not None
        end = Offset(known.high_watermark + self.rng.randint(1, 9))
        self._commit(
            HighWatermarkRecord(
                topic_id=key.topic_id,
                partition=key.partition,
                leader_epoch=known.leader_epoch,
                partition_epoch=known.partition_epoch,
                high_watermark=end,
                high_watermark_epoch=known.leader_epoch,
                high_watermark_chain=digest_at(end),
                log_end_offset=end,
            )
        )

    def story(self) -> None:
        """Let a storm pass, then let all calm down; check that all was processed."""
        for _ in range(self.rng.randint(1, 4)):
            self.add()
        self.run(25_000)
        self._is_calm = True
        for process in self.processes:
            process.ports.can_beat = True
        self.processes.append(Process(self, "last", None))
        self.run(30_000)
        left = [each for each in self.processes if not each.is_gone]
        self.checker.check_end(left)
        self._rest(IDLE_MS)
        for process in left:
            process.do(process.close)

    def _rest(self, duration_ms: int) -> None:
        """Let time pass in which nothing is appended, and members beat and look."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += SESSION_MS // 2
            for process in [each for each in self.processes if not each.is_gone]:
                process.take_turns()


RATES: Final = ([0, 0.0005, 0.002], [0, 0.002, 0.01], [0, 0.01, 0.05])
"""Of being killed, of being frozen, and of an unknown outcome, at a call of a port."""


def run_seed(seed: int) -> None:
    World(seed).story()
