"""Make a cluster with a history of failures: ./spark-submit.sh tests/rigs/failures.py DIR

Five brokers in three racks lose disks and get them back, a partition waits for its last in-sync
replica, leaders move away and back. The notebook `jobs/notebooks/isr_history.ipynb` shows how to
inspect such a history; `--pictures` writes its pictures.
"""

import argparse
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

from kafka_on_spark import Cluster, KafkaOnSparkError, Record
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe.pictures import grid_picture, timeline_picture

COMMAND = "./spark-submit.sh tests/rigs/failures.py"
RACKS = {1: "north", 2: "north", 3: "south", 4: "south", 5: "west"}
SETTINGS = {
    "broker.session.timeout.ms": 200,
    # Leaders move back by request only, so that the history shows it.
    "leader.imbalance.per.broker.percentage": 100,
}
# Given, not placed by the cluster: each run has the same history.
FLIGHTS = {0: [1, 3, 5], 1: [2, 4, 1], 2: [3, 5, 2], 3: [4, 1, 3], 4: [5, 2, 4], 5: [1, 4, 5]}
ALERTS = {0: [4, 5], 1: [5, 1]}
PAUSE_S = 0.2
"""Between steps, so that a picture in seconds shows them apart."""
PASSES_MAX = 10
"""On a machine that does other work a pass may probe a root too seldom to say whether it fails."""


class FailingCluster:
    """A cluster on folders below one, whose disks can be taken away and given back."""

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
        """Announce the next step, after a pause."""
        time.sleep(PAUSE_S)  # steps at one moment would be one line in a timeline
        self._say(what)

    def append(self, topic: str, count: int, acks: str = "all") -> None:
        numbers = range(self._count, self._count + count)
        self._count += count
        self.cluster.append(
            topic, [Record(f"key {each}", f"{each}") for each in numbers], acks=acks
        )

    def lose(self, *broker_ids: int) -> None:
        """Take disks away, and run the controller, which fences their brokers."""
        for broker_id in broker_ids:
            self._disk(broker_id).rename(self._folder / f"lost-{broker_id}")
        self._control_until(BrokerState.FENCED, broker_ids)

    def give_back(self, *broker_ids: int) -> None:
        """Give disks back, and run the controller; their replicas have not caught up yet."""
        for broker_id in broker_ids:
            (self._folder / f"lost-{broker_id}").rename(self._disk(broker_id))
        self._control_until(BrokerState.ACTIVE, broker_ids)

    def _control_until(self, state: BrokerState, broker_ids: Collection[int]) -> None:
        """Run passes of the controller until brokers are in a state: one, as a rule."""
        for _ in range(PASSES_MAX):
            self.cluster.run_controller()
            brokers = self.cluster.image.brokers
            if all(brokers[BrokerId(each)].state is state for each in broker_ids):
                break

    def catch_up(self) -> None:
        time.sleep(PAUSE_S)  # as between two steps
        self.cluster.replicate()
        self.cluster.elect_leaders()


def live(folder: Path, say: Callable[[str], None] = lambda what: None) -> Cluster:
    """Make a cluster below `folder` and lead it through all failures; return it, open.

    At the end broker 4 is away, broker 2 is out of sync and a replica is on its way to broker 3:
    the pictures of now show each of these.
    """
    failing = FailingCluster(folder, say)
    create_topics(failing)
    lose_one_disk(failing)
    lose_all_in_sync(failing)
    end_in_trouble(failing)
    return failing.cluster


def create_topics(failing: FailingCluster) -> None:
    failing.step("two topics, and the first records")
    configs = {"min.insync.replicas": 2}
    failing.cluster.create_topic("flights", replica_assignment=FLIGHTS, configs=configs)
    failing.cluster.create_topic("alerts", replica_assignment=ALERTS)
    failing.append("flights", 600)
    failing.append("alerts", 20)


def lose_one_disk(failing: FailingCluster) -> None:
    """Lose a disk whose partitions have other replicas in sync."""
    failing.step("broker 1 loses its disk; appends go on")
    failing.lose(1)
    failing.append("flights", 300)
    failing.step("broker 1 gets it back, catches up, and leads again")
    failing.give_back(1)
    failing.catch_up()


def lose_all_in_sync(failing: FailingCluster) -> None:
    """Lose the disks of all in-sync replicas of a partition, one after the other."""
    failing.step("broker 5 goes, so alerts have one replica left; then that one goes, too")
    failing.lose(5)
    failing.append("alerts", 30)
    failing.lose(4)
    failing.step("broker 5 is back, but lacks alerts: partition 0 waits for broker 4")
    failing.give_back(5)
    failing.catch_up()
    failing.append("flights", 200)
    failing.step("broker 4 is back, and nothing is lost")
    failing.give_back(4)
    failing.catch_up()
    failing.append("alerts", 10)


def end_in_trouble(failing: FailingCluster) -> None:
    """Leave one broker away, one out of sync and one replica on its way."""
    failing.step("only leaders have the newest records (acks=1), and broker 4 goes once more")
    failing.append("flights", 60, acks="1")
    failing.lose(4)
    failing.step("broker 2 goes, too; it is back now, and has not caught up yet")
    failing.lose(2)
    failing.give_back(2)
    failing.step("a replica of the alerts is to move from broker 5 to 3, which has no copy yet")
    failing.cluster.reassign({("alerts", 1): [3, 1]})


def draw(cluster: Cluster, folder: Path) -> None:
    """Write timeline.png and grid.png to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    entries, events = cluster.history(), cluster.broker_history()
    timeline_picture(entries, events=events).save(folder / "timeline.png")
    grid_picture(cluster.image).save(folder / "grid.png")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("folder", type=Path, help="a new or an empty folder")
    parser.add_argument("--pictures", type=Path, help="folder to write the pictures to")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Make the cluster; return the exit code."""
    given = parse(arguments)
    if given.folder.exists() and any(given.folder.iterdir()):
        print(f"{COMMAND}: {given.folder} is not empty: name another folder", file=sys.stderr)
        return 1
    try:
        with live(given.folder, say=print) as cluster:
            if given.pictures is not None:
                draw(cluster, given.pictures)
    except (KafkaOnSparkError, ImportError) as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return 1
    print(f'Cluster.open("{cluster.root}") opens it.')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
