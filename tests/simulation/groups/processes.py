"""A process of a simulated group: a consumer, and the ports and clocks through which it sees the world.

Anything may happen at each call of a port. What the process's threads do is turns that the world gives.
"""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    FencedInstanceIdError,
    KafkaOnSparkError,
    KafkaStorageError,
    UnreleasedInstanceIdError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.consume.consuming import Consuming
from kafka_on_spark.consume.member import Listeners
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.subscription import Subscribe
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.metadata.metadata_service import CommitWait, MetadataService
from kafka_on_spark.metadata.records import Stamp

if TYPE_CHECKING:
    from tests.simulation.groups.world import World

GROUP: Final = "g"
INTERVAL_MS: Final = 500
TIMEOUT_MS: Final = 10_000
ROWS_MAX: Final = 7

_OF_LOG: Final = frozenset(
    (
        *("read_from_snapshot", "newest_snapshot", "write_snapshot", "maintain", "has_successor"),
        *("clean", "check_writable", "root_ms", "leader_uri"),
    )
)
"""What the log answers at once; the rest are heartbeats."""


class KilledError(BaseException):
    """The process is dead. No error that anybody handles."""


class Rows:
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

    def contents(self, group: str, member_ids: Any) -> Any:
        self._world.at_port(self._process)
        return self._world.heartbeats.contents(group, member_ids)

    def __getattr__(self, name: str) -> Any:
        of_log = name in _OF_LOG
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
        settings = ConsumerSettings(
            group=GROUP,
            auto_offset_reset=world.reset,
            max_poll_records=ROWS_MAX,
            enable_auto_commit=True,
            auto_commit_interval_ms=world.auto_commit_ms,
            client_rack=None,
            group_instance_id=instance_id,
        )
        self.metadata.catch_up()
        self.liveness = Liveness(
            self.metadata,
            self.ports,
            self.clock,
            group=GROUP,
            max_poll_interval_ms=60_000,
            timeout_ms=TIMEOUT_MS,
            new_id=self._new_life,
        )
        self.consuming = Consuming(
            SimpleNamespace(metadata=self.metadata, clock=self.clock, timeout_ms=TIMEOUT_MS),
            CommitWait(self.metadata, self.clock),
            settings,
            read=self._read,
            liveness=self.liveness,
            listeners=Listeners(),
        )
        self.consuming.subscribe(Subscribe(world.topics))
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
        """Do something; it may be killed meanwhile."""
        self.was_frozen = False
        try:
            work()
        except (KilledError, FencedInstanceIdError, UnreleasedInstanceIdError):
            self.is_gone = True
        except KafkaOnSparkError:
            pass  # its user is told, and goes on

    def poll(self) -> None:
        """Ask for more: what was handed out before is processed."""
        if self.in_hand is not None:
            key, rows = self.in_hand
            self.in_hand = None
            self.world.checker.processed(self, key, rows)
        rows = self.consuming.next_rows(0, ROWS_MAX)
        if rows is not None:
            key = self.consuming.fetch.order.key
            self.consuming.hand_out(rows.num_rows, Offset(rows.end))
            self.world.checker.hand_out(self, key, rows)
            self.in_hand = key, rows

    def close(self) -> None:
        """Close the consumer: what was handed out last is processed."""
        self.is_gone = True
        if self.in_hand is not None:
            self.world.checker.processed(self, *self.in_hand)
        self.consuming.end(is_failed=False)

    def take_turns(self) -> None:
        """Beat and look, as its threads do when it is time to."""
        world = self.world
        if world.now_ms >= self.beat_at_ms:
            self.do(self.liveness.beat)
            self.beat_at_ms = world.now_ms + INTERVAL_MS
        if not self.is_gone and world.now_ms >= self.look_at_ms:
            self.do(self.liveness.check)
            self.look_at_ms = world.now_ms + INTERVAL_MS
