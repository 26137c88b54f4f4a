"""Commands to tables after an election: what they do, and that a bad one harms nothing."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.controller.brokers.broker_changes import fence_broker
from kafka_on_spark.controller.moves.preferred_leaders import elect_preferred
from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import LOST, BrokerId, LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service.control.leadership_commands import (
    COMMANDED_MAX,
    COMMANDS_AT_ONCE,
    LeadershipCommands,
    plan_command,
)
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult, fetch
from tests.builders import (
    KEY,
    NOW_MS,
    TOPIC_ID,
    address,
    disk,
    image_of,
    log,
    partition,
    text_of,
)
from tests.committing import committed
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots, MemorySegmentStore


class World:
    """Tables of partition 0 on brokers 1 to 3, and executors that do commands, or lose them."""

    def __init__(self, *logs: str, fence: int = 5) -> None:
        self.clock = FakeClock()
        self.roots = MemoryRoots({address(each).root: disk(each) for each in (1, 2, 3)})
        self.replicas = MemoryReplicaStore(self.roots)
        self.segments = MemorySegmentStore(self.roots)
        self.ordered: list[FetchOrder] = []
        self.is_losing = False
        for broker_id, text in enumerate(logs, 1):
            self.replicas.create(address(broker_id))
            self.write(broker_id, text, fence)

    def write(self, broker_id: int, text: str, fence: int) -> None:
        wanted = log(text)
        for each in wanted.batches:
            for segment in each.segments:
                self.segments.put(address(broker_id), segment)
        change = LogChange(
            operation="test",
            log_start_offset=Offset(0),
            log_end_offset=wanted.log_end_offset,
            leader_epoch=LeaderEpoch(fence),
            adds=wanted.batches,
        )
        self.replicas.open(address(broker_id)).commit(self.table(broker_id), change)

    def table(self, broker_id: int):
        return self.replicas.open(address(broker_id)).load()

    def tables(self) -> dict[int, tuple[int, str]]:
        """Return each table's fence and log."""
        states = {each: self.table(each) for each in (1, 2, 3)}
        return {each: (state.leader_epoch, text_of(state)) for each, state in states.items()}

    def run(self, orders: Sequence[FetchOrder]) -> list[FetchResult]:
        self.ordered.extend(orders)
        if self.is_losing:
            raise KafkaStorageError("the executors did not do them")
        return [self.do(order) for order in orders]

    def do(self, order: FetchOrder) -> FetchResult:
        return fetch(order, self.replicas, self.segments, self.clock)

    def commands(self) -> LeadershipCommands:
        return LeadershipCommands(self.clock, run_commands=self.run)


COMMITTED = {"hw": 1, "hw_epoch": 5, "hw_chain": log("5:a").chain_digest}


def led_by(leader: int, epoch: int, **fields) -> PartitionRegistration:
    return partition("1 2 3", leader=leader, epoch=epoch, **fields)


def decided(image: MetadataImage, decision) -> tuple[list, MetadataImage]:
    """Return the records of a decision and the image that they lead to."""
    records = list(decision(image).records)
    return records, committed(image, records, time_ms=NOW_MS)


def moved_back(image: MetadataImage) -> tuple[list, MetadataImage]:
    """Have the preferred leader, broker 1, lead again."""
    return decided(image, lambda each: elect_preferred(each, "for a test"))


def send(world: World, image: MetadataImage) -> int:
    """Send the commands of an election of preferred leaders."""
    records, after = moved_back(image)
    commands = world.commands()
    commands.note(image, records)
    return commands.send(after)


def test_a_new_leaders_table_and_the_old_ones_are_fenced_before_anybody_appends():
    world = World("5:a", "5:a", "5:a")

    assert send(world, image_of(led_by(2, 5))) == 1

    assert world.tables() == {1: (6, "5:a"), 2: (6, "5:a"), 3: (5, "5:a")}


def test_a_lost_command_costs_time_only(caplog):
    """The next fetch does all of it."""
    world = World("5:a", "5:ab", "5:a")
    world.is_losing = True

    assert send(world, image_of(led_by(2, 5))) == 0

    assert world.tables() == {1: (5, "5:a"), 2: (5, "5:ab"), 3: (5, "5:a")}
    assert "the commands of 1 partitions are lost" in caplog.text
    world.do(replace(world.ordered[0], copy_bytes_max=None))
    assert world.tables() == {1: (6, "5:a"), 2: (6, "5:a"), 3: (5, "5:a")}


def test_a_leader_that_can_not_prove_its_log_is_not_fenced_and_nothing_is_decided(caplog):
    """I2: it lacks what is committed. The next append or fetch calls it lost."""
    world = World("", "5:ab", "5:ab")

    assert send(world, image_of(led_by(2, 5, hw=2, hw_epoch=5))) == 0

    assert world.tables() == {1: (5, ""), 2: (5, "5:ab"), 3: (5, "5:ab")}
    assert "the log does not have all committed records" in caplog.text


def test_a_command_of_a_deleted_topic_is_not_sent():
    world = World("5:a", "5:a", "5:a")
    image = image_of(led_by(2, 5))
    records, after = moved_back(image)
    commands = world.commands()
    commands.note(image, records)

    assert commands.send(replace(after, topics={}, topic_ids={})) == 0

    assert world.ordered == []


LED = {6: (2, 1), 7: (3, 2), 8: (1, 3)}
"""By epoch: who leads, and who led before."""


def command_at(epoch: int) -> FetchOrder:
    leader, deposed = LED[epoch]
    order = plan_command(image_of(led_by(leader, epoch, **COMMITTED)), KEY, BrokerId(deposed))
    assert order is not None
    return order


def test_commands_that_are_lost_repeated_or_late_never_harm():
    """Every sequence of up to four commands out of three elections', in any order.

    I13: no fence goes back. I14: nothing committed is cut. I5: no record is above its fence. And
    the newest leadership's fetches make all logs alike, whatever came before (I1, I4).
    """
    sequences = [each for count in range(5) for each in product(LED, repeat=count)]
    assert len(sequences) == 1 + 3 + 9 + 27 + 81
    for sequence in sequences:
        world = World("5:abc", "5:ab", "5:a")
        for epoch in sequence:
            before = world.tables()
            world.do(command_at(epoch))
            for broker_id, (fence, text) in world.tables().items():
                assert before[broker_id][0] <= fence <= max(sequence), sequence
                assert text.startswith("5:a"), sequence
        newest = image_of(led_by(1, 8, **COMMITTED))
        for follower in (2, 3):
            order = plan_command(newest, KEY, BrokerId(follower))
            assert order is not None
            world.do(replace(order, copy_bytes_max=None))
        logs = world.tables()
        assert logs[1] == logs[2] == logs[3], sequence
        assert logs[1][0] == 8


def test_a_failover_of_many_partitions_is_commanded_up_to_a_bound():
    world = World()
    image = image_of(*[partition("1 2 3") for _ in range(4 * COMMANDED_MAX)])
    records, after = decided(image, lambda each: fence_broker(each, BrokerId(1), "for a test"))
    commands = world.commands()
    world.is_losing = True
    assert len(records) == 4 * COMMANDED_MAX + 1

    commands.note(image, records)
    commands.send(after)

    assert [order.key for order in world.ordered] == [
        PartitionKey(TOPIC_ID, number) for number in range(COMMANDED_MAX)
    ]
    assert {order.leader.broker_id for order in world.ordered} == {2}
    assert {order.follower for order in world.ordered} == {None}, "who was fenced is not asked"


def test_commands_that_take_too_long_are_left_to_the_next_append():
    """A controller that does not come to renew its lease is taken for dead."""
    world = World()
    image = image_of(*[partition("1 2 3", leader=2) for _ in range(COMMANDED_MAX)])
    records, after = moved_back(image)
    seen = []

    def hang(orders: Sequence[FetchOrder]) -> list[FetchResult]:
        seen.append(len(orders))
        world.clock.advance(60_000)
        return []

    commands = LeadershipCommands(world.clock, run_commands=hang)
    commands.note(image, records)
    commands.send(after)
    commands.send(after)

    assert seen == [COMMANDS_AT_ONCE]


# fmt: off
TOLD = [
    # deposed, registration,                                        who is told
    (2,    led_by(1, 6),                                            (1, 2)),
    (1,    led_by(1, 6),                                            (1, None)),
    (None, led_by(1, 6),                                            (1, None)),
    (2,    partition("1 3", leader=1),                              (1, None)),
    (2,    partition("1 2", isr="1", leader=1, unmade="2"),         (1, None)),
    (2,    partition("1 2", isr="1", leader=1, lost="2"),           (1, None)),
    (2,    partition("1 2", isr="1", leader=None),                  None),
    (2,    partition("1 2", leader=1, unmade="1 2"),                None),
]
# fmt: on


@pytest.mark.parametrize("deposed, registration, told", TOLD)
def test_which_replicas_are_sent_commands(deposed, registration, told):
    order = plan_command(image_of(registration), KEY, deposed)

    found = order and (order.leader.broker_id, order.follower and order.follower.broker_id)

    assert found == told
    assert LOST not in [order and order.leader.directory_id]
