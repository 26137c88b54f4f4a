"""A simulated group: consumers that are killed, frozen anywhere, and added, from one seed.

Each has a metadata service, clocks and ports of its own; the log and the heartbeats are shared.
Threads are turns that the world gives. A process that is frozen at a port stands still inside its
call while the others go on.
"""

import random
from collections import Counter
from typing import Any, Final

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    FencedInstanceIdError,
    KafkaOnSparkError,
    KafkaStorageError,
    UnreleasedInstanceIdError,
)
from kafka_on_spark.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    ConfigRecord,
    HighWatermarkRecord,
    OffsetCommitRecord,
    PartitionRecord,
    Stamp,
    TopicRecord,
)
from kafka_on_spark.query.consuming.settings import consumer_settings
from kafka_on_spark.query.subscription import Subscribe
from kafka_on_spark.service.consume.consuming import Consuming
from kafka_on_spark.service.consume.members.membership import Listeners, Member
from kafka_on_spark.service.consume.members.share_pace import SharePace
from kafka_on_spark.service.consume.members.witness import Witness
from kafka_on_spark.service.metadata.commit_wait import CommitWait
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from tests.builders import TOPIC, TOPIC_ID, digest_at, disk, partition
from tests.fakes import MemoryHeartbeats, MemoryMetadataLog
from tests.simulation.groups.checks import Checker

GROUP: Final = "g"
SESSION_MS: Final = 3_000
INTERVAL_MS: Final = 500
STEP_MS_MAX: Final = 200
TIMEOUT_MS: Final = 10_000
ROWS_MAX: Final = 7
NESTED_MAX: Final = 3
OLD_TOPIC_ID: Final = TopicId("f" * 32)
IDLE_MS: Final = 45_000
"""More than half of the time after which offsets expire."""


class KilledError(BaseException):
    """The process is dead. No error that anybody handles."""


class Rows:
    """Offsets of one partition."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    @property
    def num_rows(self) -> int:
        return self.end - self.start

    def slice(self, offset: int, length: int) -> "Rows":
        return Rows(self.start + offset, self.start + offset + length)


class Clocks:
    """One process's clocks: its own zero, and a wall clock that is wrong."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._zero_ms = world.rng.randrange(10_000_000)
        self._wrong_ms = world.rng.randrange(-5_000, 5_000)

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self._world.now_ms + self._wrong_ms

    def monotonic_ms(self) -> int:
        return self._zero_ms + self._world.now_ms

    def sleep_ms(self, duration_ms: float) -> None:
        self._world.now_ms += int(duration_ms) + 1


class PortsOf:
    """The log and the heartbeats as one process has them: anything may happen at each call."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._world = process.world
        self.can_beat = True

    def append(self, records: Any, stamp: Stamp, *, expected_offset: Offset) -> Any:
        world = self._world
        world.at_port(self._process)
        is_unknown = world.happens(world.unknown)
        if is_unknown and world.rng.random() < 0.5:
            raise CommitOutcomeUnknownError("it never arrives")
        batch = world.log.append(records, stamp, expected_offset=expected_offset)
        world.checker.check_batch(self._process, batch)
        world.at_port(self._process)
        if is_unknown:
            raise CommitOutcomeUnknownError("its answer is lost")
        return batch

    def read(self, **range_: Any) -> Any:
        self._world.at_port(self._process)
        return self._world.log.read(**range_)

    def beat(self, group: str, member_id: str, count: int) -> None:
        self._world.at_port(self._process)
        if not self.can_beat:
            raise KafkaStorageError("the metadata root takes no heartbeats")
        self._world.heartbeats.beat(group, member_id, count)
        self._world.checker.beaten_at_ms[member_id] = self._world.awake_ms

    def listen(self, group: str, member_ids: Any) -> Any:
        self._world.at_port(self._process)
        return self._world.heartbeats.listen(group, member_ids)

    def __getattr__(self, name: str) -> Any:
        of_log = name in ("newest_snapshot", "write_snapshot", "maintain", "has_next", "clean")
        return getattr(self._world.log if of_log else self._world.heartbeats, name)


class Process:
    """A process with one consumer, which its user polls."""

    def __init__(self, world: "World", name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.is_frozen = False
        self.was_frozen = False
        self.is_gone = False
        self.in_hand: tuple[PartitionKey, Rows] | None = None
        self.told: list[str] = []
        self.clock = Clocks(world)
        self.ports = PortsOf(self)
        self.metadata = MetadataService(self.ports, self.clock, random=lambda: 0.0)
        self.lives = 0
        settings = consumer_settings(
            group=GROUP,
            auto_offset_reset=world.reset,
            max_poll_records=ROWS_MAX,
            enable_auto_commit=True,
            auto_commit_interval_ms=world.auto_commit_ms,
            client_rack=None,
            group_instance_id=instance_id,
        )
        self.metadata.catch_up()
        self.witness = Witness(
            self.metadata,
            self.ports,
            self.clock,
            group=GROUP,
            max_poll_interval_ms=60_000,
            timeout_ms=TIMEOUT_MS,
            random=world.rng.random,
        )
        self.consuming = Consuming(
            self.metadata,
            self.clock,
            CommitWait(self.metadata, self.clock, is_local=True),
            settings=settings,
            read=self._read,
            end_of=lambda rows: Offset(rows.end),
            timeout_ms=TIMEOUT_MS,
            make_member=lambda hands, subscription: Member(
                self.metadata,
                self.witness,
                self.clock,
                hands,
                Listeners(assigned=lambda _: None, revoked=lambda _: None, lost=lambda _: None),
                settings=settings,
                subscription=subscription,
                new_id=self._new_life,
                pace=SharePace(world.rng.random),
                timeout_ms=TIMEOUT_MS,
            ),
        )
        self.consuming.subscribe(Subscribe((TOPIC,)))
        self.beat_at_ms = self.look_at_ms = world.now_ms + INTERVAL_MS

    def _new_life(self) -> str:
        self.lives += 1
        return f"{self.name}-{self.lives}"

    @property
    def member_id(self) -> str:
        """Its newest life."""
        return f"{self.name}-{self.lives}"

    def _read(self, order: Any) -> Any:
        self.world.at_port(self)
        for start in range(order.start_offset, order.end_offset, 5):
            yield Rows(start, min(start + 5, order.end_offset))

    # What it does

    def do(self, work: Any) -> None:
        """Do something; it may be killed meanwhile, and a failure is told or tried again."""
        self.was_frozen = False
        try:
            work()
        except KilledError:
            self.is_gone = True
            self.world.met["killed"] += 1
        except (FencedInstanceIdError, UnreleasedInstanceIdError):
            self.is_gone = True
            self.world.met["static place taken"] += 1
        except KafkaOnSparkError as error:
            self.world.met[f"told of {type(error).__name__}"] += 1

    def poll(self) -> None:
        """Ask for more: what was handed out before is processed."""
        if self.in_hand is not None:
            key, rows = self.in_hand
            self.in_hand = None
            self.world.checker.processed(self, key, rows)
        rows = self.consuming.next_rows(0, ROWS_MAX)
        if rows is not None:
            key = self.consuming.turn.key
            self.consuming.hand_out(rows)
            self.world.checker.hand_out(self, key, rows)
            self.in_hand = key, rows

    def close(self) -> None:
        """Close the consumer: what was handed out last is processed."""
        self.is_gone = True
        self.world.met["closed"] += 1
        if self.in_hand is not None:
            self.world.checker.processed(self, *self.in_hand)
        self.consuming.end(is_failed=False)

    def take_turns(self) -> None:
        """Beat and look, as its threads do when it is time to."""
        world = self.world
        if world.now_ms >= self.beat_at_ms:
            self.do(self.witness.beat)
            self.beat_at_ms = world.now_ms + INTERVAL_MS
        if not self.is_gone and world.now_ms >= self.look_at_ms:
            self.do(self.witness.look)
            self.look_at_ms = world.now_ms + INTERVAL_MS


class World:
    """A topic, its group, and all that happens to both."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.met: Counter[str] = Counter()
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
        """For how long the world was awake."""
        return self.now_ms - self.asleep_ms

    def happens(self, rate: float) -> bool:
        """Return whether something happens now."""
        return not self._is_calm and self.rng.random() < rate

    def at_port(self, process: Process) -> None:
        """A process is at a port: it may be killed there, or frozen."""
        if self.happens(self.kill):
            raise KilledError
        if self._nested < NESTED_MAX and self.happens(self.freeze):
            duration_ms = self.rng.choice([300, 2_000, 3_500, 8_000])
            self.met["frozen beyond a session" if duration_ms > SESSION_MS else "frozen"] += 1
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
        draw = self.rng.random()
        if self.rng.random() < 0.003:
            # The machine that all run on sleeps: nobody beats, and nobody could.
            self.now_ms += 8_000
            self.asleep_ms += 8_000
            self.met["all slept"] += 1
        if draw < 0.3:
            self._append()
        elif draw < 0.31 and len(self.topic.partitions) < 9:
            self.checker.add_partition(len(self.topic.partitions))
            self._commit(self._new_partition(len(self.topic.partitions)))
            self.met["partition added"] += 1
        elif draw < 0.34 and self._count < 14:
            self.add()
        elif draw < 0.345 and (free := self._free()):
            process = self.rng.choice(free)
            process.do(process.close)
        elif draw < 0.36 and (free := self._free()):
            process = self.rng.choice(free)
            process.ports.can_beat = not process.ports.can_beat
            self.met["heartbeats refused"] += 1

    def _free(self) -> list[Process]:
        return [each for each in self.processes if not (each.is_gone or each.is_frozen)]

    @property
    def topic(self) -> Any:
        return self.checker.image.topics[TOPIC_ID]

    def add(self) -> None:
        """Start a process; some are static members, which come again."""
        self._count += 1
        instance_id = self.rng.choice([None, None, "one", "two"])
        try:
            self.processes.append(Process(self, f"p{self._count}", instance_id))
        except KilledError:
            self.met["killed at its start"] += 1

    def _append(self) -> None:
        number = self.rng.choice(list(self.topic.partitions))
        known = self.topic.partitions[number]
        end = Offset(known.high_watermark + self.rng.randint(1, 9))
        self._commit(
            HighWatermarkRecord(
                topic_id=TOPIC_ID,
                partition=number,
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


def run_seed(seed: int) -> Counter[str]:
    """Run one seed; return what it met."""
    world = World(seed)
    world.story()
    return world.met
