"""What the cluster of `jobs/failures.py` lives through, step by step, in plain Python."""

import time
from collections.abc import Callable
from pathlib import Path

from kafka_on_spark import Cluster, Record

RACKS = {1: "north", 2: "north", 3: "south", 4: "south", 5: "west"}
SETTINGS = {
    "broker.session.timeout.ms": 200,
    # Leaders move back by request, where one can see it.
    "leader.imbalance.per.broker.percentage": 100,
}
# Said and not drawn, so that the same partitions go through the same each time.
FLIGHTS = {0: [1, 3, 5], 1: [2, 4, 1], 2: [3, 5, 2], 3: [4, 1, 3], 4: [5, 2, 4], 5: [1, 4, 5]}
ALERTS = {0: [4, 5], 1: [5, 1]}
PAUSE_S = 0.2
"""Between steps, so that they stand apart on a line of seconds."""


class Life:
    """A cluster on folders below one, and its disks."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.cluster = Cluster.create(
            folder / "metadata",
            brokers={broker_id: self._disk(broker_id) for broker_id in RACKS},
            racks=RACKS,
            configs=SETTINGS,
        )

    def _disk(self, broker_id: int) -> Path:
        return self._folder / f"broker-{broker_id}"

    def step(self, what: str) -> None:
        """Say what comes, a moment after what was."""
        time.sleep(PAUSE_S)
        self._say(what)

    def append(self, topic: str, count: int, acks: str = "all") -> None:
        """Append records under keys of their own."""
        numbers = range(self._count, self._count + count)
        self._count += count
        self.cluster.append(
            topic, [Record(f"key {each}", f"{each}") for each in numbers], acks=acks
        )

    def lose(self, *broker_ids: int) -> None:
        """Take disks away and let the controller find out."""
        for broker_id in broker_ids:
            self._disk(broker_id).rename(self._folder / f"lost-{broker_id}")
        self.cluster.run_controller()

    def give_back(self, *broker_ids: int) -> None:
        """Give disks back; their replicas have not caught up yet."""
        for broker_id in broker_ids:
            (self._folder / f"lost-{broker_id}").rename(self._disk(broker_id))
        self.cluster.run_controller()

    def catch_up(self) -> None:
        """Let replicas catch up, and leaders be whom one prefers."""
        time.sleep(PAUSE_S)
        self.cluster.replicate()
        self.cluster.elect_leaders()


def live(folder: Path, say: Callable[[str], None] = lambda what: None) -> Cluster:
    """Make a cluster below `folder` that goes through it all; return it, open.

    At the end broker 4 is away, broker 2 not in sync and a replica on its way to broker 3, so that
    there is something to see now.
    """
    life = Life(folder, say)
    begin(life)
    lose_one(life)
    lose_all_in_sync(life)
    end_in_trouble(life)
    return life.cluster


def begin(life: Life) -> None:
    """Make two topics."""
    life.step("two topics, and the first records")
    configs = {"min.insync.replicas": 2}
    life.cluster.create_topic("flights", replica_assignment=FLIGHTS, configs=configs)
    life.cluster.create_topic("alerts", replica_assignment=ALERTS)
    life.append("flights", 600)
    life.append("alerts", 20)


def lose_one(life: Life) -> None:
    """Lose a disk that others stand in for."""
    life.step("broker 1 loses its disk; appends go on")
    life.lose(1)
    life.append("flights", 300)
    life.step("it gets it back, catches up, and leads again")
    life.give_back(1)
    life.catch_up()


def lose_all_in_sync(life: Life) -> None:
    """Lose the disks of all that are in sync, one after the other."""
    life.step("broker 5 goes, so that one replica of the alerts goes on alone; then that goes")
    life.lose(5)
    life.append("alerts", 30)
    life.lose(4)
    life.step("broker 5 is back, but lacks alerts: partition 0 waits for broker 4")
    life.give_back(5)
    life.catch_up()
    life.append("flights", 200)
    life.step("broker 4 is back, and nothing is lost")
    life.give_back(4)
    life.catch_up()
    life.append("alerts", 10)


def end_in_trouble(life: Life) -> None:
    """Leave something to be seen."""
    life.step("records that only leaders have yet (acks=1), and broker 4 goes once more")
    life.append("flights", 60, acks="1")
    life.lose(4)
    life.step("broker 2 goes, too; it is back now, and has not caught up yet")
    life.lose(2)
    life.give_back(2)
    life.step("a replica of the alerts is to move from broker 5 to 3, which has no copy yet")
    life.cluster.reassign({("alerts", 1): [3, 1]})
