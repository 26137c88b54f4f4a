"""Traffic of some days on a small cluster: clients that come, go and die, and brokers that are away."""

import random
from collections.abc import Callable
from contextlib import suppress

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.log.worker import replica_store
from tests.cluster.disks import Disks
from tests.cluster.week.simulated_time import DAY_MS, HOUR_MS, Killed, SimulatedTime

VALUE_BYTES = 100
KEYS = 400

TOPICS = {
    "clicks": {"retention.ms": DAY_MS, "segment.ms": 6 * HOUR_MS},
    "audit": {"retention.ms": -1, "retention.bytes": 4 * 2**20},
    "prices": {"cleanup.policy": "compact"},
    "carts": {
        "cleanup.policy": "compact,delete",
        "retention.ms": DAY_MS,
        "segment.ms": 6 * HOUR_MS,
    },
    "orders": {"retention.ms": 2 * DAY_MS, "segment.ms": 12 * HOUR_MS},
}
CONFIGS = {
    "orphan.bytes.max": 100_000,
    "delivery.timeout.ms": 120_000,
    "leader.imbalance.per.broker.percentage": 10,
    "retention.ms": 7 * DAY_MS,
}


class Traffic:
    """What happens to a cluster in each step of time."""

    def __init__(
        self, disks: Disks, clock: SimulatedTime, *, step_ms: int, rows: int, bursts: int
    ) -> None:
        self.disks = disks
        self.clock = clock
        self.step_ms = step_ms
        self.rows = rows
        self.bursts = bursts
        self.deaths: list[str] = []
        self._dice = random.Random(7)
        self._steps = 0
        self._sequence = 0

    @property
    def cluster(self) -> Cluster:
        return self.disks.cluster

    def begin(self) -> None:
        for name, configs in TOPICS.items():
            partitions = 2 if name == "clicks" else 1
            self.cluster.create_topic(
                name, partitions=partitions, replication_factor=3, configs=configs
            )

    def is_time(self, every_ms: int, at_ms: int = 0) -> bool:
        """Return whether a step comes at which something happens that happens every so often."""
        passed = self._steps * self.step_ms
        return passed >= at_ms and (passed - at_ms) % every_ms < self.step_ms

    def step(self) -> None:
        """Let one step of time pass, with all that happens in it."""
        self.clock.pass_ms(self.step_ms)
        self._append_all()
        for every_ms, at_ms, act in (
            (2 * HOUR_MS, 0, self._be_read),
            (3 * HOUR_MS, HOUR_MS, self._come_and_go),
            (2 * HOUR_MS, HOUR_MS, self._die),
            (DAY_MS, 5 * HOUR_MS, self._move),
            (DAY_MS, 10 * HOUR_MS, self._lose_a_disk),
            (DAY_MS, 13 * HOUR_MS, self._have_it_back),
            (DAY_MS, 15 * HOUR_MS, self._make_and_delete_a_topic),
        ):
            if self.is_time(every_ms, at_ms):
                act()
        self.keep_going()

    def _lose_a_disk(self) -> None:
        self.disks.take_away(3)

    def _have_it_back(self) -> None:
        self.disks.give_back(3)

    def keep_going(self) -> None:
        self._steps += 1
        if self.is_time(HOUR_MS):
            self.cluster.run_controller()
        self.cluster.replicate()

    def rest(self, duration_ms: int) -> None:
        """Let time pass in which nobody writes."""
        for _ in range(max(1, duration_ms // self.step_ms)):
            self.clock.pass_ms(self.step_ms)
            self.keep_going()
        self.cluster._node.maintenance.finish()

    def _records(self, topic: str) -> list[tuple[bytes, bytes | None]]:
        return [
            (
                b"key-%d" % self._dice.randrange(KEYS),
                None
                if topic in ("prices", "carts") and self._dice.random() < 0.05
                else self._dice.randbytes(VALUE_BYTES),
            )
            for _ in range(self.rows)
        ]

    def _append_all(self) -> None:
        for topic in (*TOPICS, *["clicks"] * (self.bursts - 1)):
            records = self._records(topic)
            if topic == "orders":
                self._sequence += 1
                run = self._steps * self.step_ms // (6 * HOUR_MS)
                self.cluster.append(
                    topic, records, producer_id=f"query-{run}", sequence=self._sequence
                )
            else:
                self.cluster.append(topic, records)

    def _be_read(self) -> None:
        for topic in ("clicks", "orders"):
            ends = {
                number: each.high_watermark for number, each in self.cluster.offsets(topic).items()
            }
            group = f"group-{topic}-{self._steps // 50}"
            self.cluster.alter_group_offsets(
                group, {(topic, each): end for each, end in ends.items()}
            )

    def _other(self) -> Cluster:
        replica_store.cache_clear()
        return Cluster.open(self.disks.metadata_root)

    def _come_and_go(self) -> None:
        with self._other() as other:
            other.append("clicks", self._records("clicks"))
            other.append("prices", self._records("prices"))
            other.read("carts")
            other.replicate()

    def _die(self) -> None:
        """Have a client die at some change that it makes."""
        self.cluster._node.maintenance.finish()
        works: dict[str, Callable[[Cluster], object]] = {
            "append": lambda other: other.append("clicks", self._records("clicks")),
            "append to many": lambda other: [
                other.append(topic, self._records(topic)) for topic in TOPICS
            ],
            "maintain": lambda other: other.maintain(),
            "controller": lambda other: other.run_controller(),
            "round": lambda other: other.replicate(is_sweep=True),
            "group": lambda other: other.alter_group_offsets("dying", {("clicks", 0): 1}),
        }
        name = self._dice.choice(sorted(works))
        other = self._other()
        self.clock.kill_after = self._dice.randrange(60)
        try:
            works[name](other)
        except Killed:
            self.deaths.append(name)
        except KafkaOnSparkError as error:
            self.deaths.append(f"{name}: {error}")
        finally:
            self.clock.kill_after = 0
            with suppress(BaseException):
                other.close()
            self.clock.kill_after = None
        replica_store.cache_clear()

    def _move(self) -> None:
        image = self.cluster.image
        here = image.topic("orders").partitions[0].replicas
        there = (4, *here[1:]) if 4 not in here else tuple(each for each in (1, 2, 3))
        self.cluster.reassign({("orders", 0): list(there)})

    def _make_and_delete_a_topic(self) -> None:
        name = f"daily-{self._steps}"
        self.cluster.create_topic(name, replication_factor=3)
        self.cluster.append(name, self._records(name))
        self.cluster.delete_topic(name)
