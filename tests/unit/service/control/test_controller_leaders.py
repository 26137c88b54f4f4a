"""Leaders that a controller's pass makes: they are commanded, given back, and found in logs."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.brokers.broker_changes import fence_broker
from kafka_on_spark.controller.commands.commands import DRAIN_BROKER
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.records import BrokerChangeRecord
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.service.control.leadership_commands import LeadershipCommands
from kafka_on_spark.service.probing.probes import ProbeResult
from tests.builders import digest_at, image_of, partition
from tests.unit.service.controlled import commit, pending


class Led:
    """A partition on brokers 1 to 3 that broker 1 leads, and a controller that has commands done."""

    def __init__(self, world, fails=()):
        self.world = world
        self.sent = []
        self.loop = world.loop("active")
        world.metadata().submit(
            lambda image: ControllerResult(snapshot_records(image_of(partition("1 2 3"))), None),
            timeout_ms=1000,
        )
        self.loop._run_probes = lambda orders: [
            ProbeResult(each.broker_id, 56 if each.broker_id in fails else 0, "away")
            for each in orders
        ]
        self.loop._commands = LeadershipCommands(world.clock, run_commands=self.run)

    def run(self, orders):
        partition_of = [self.world.image.partition(each.key) for each in orders]
        assert [each.partition for each in orders] == partition_of, "sent before it was committed"
        self.sent.extend((each.leader.broker_id, each.partition.leader_epoch) for each in orders)
        return []


def test_the_new_leaders_of_a_failed_broker_are_commanded_after_the_commit(world):
    led = Led(world, fails={1})

    led.loop.run(None)

    assert led.sent == [(2, 6)]


def test_what_a_request_decides_is_commanded_too(world):
    led = Led(world)
    pending(world, DRAIN_BROKER.order(broker_id=1))

    led.loop.run(None)

    assert led.sent == [(2, 6)]


def test_what_was_decided_in_vain_is_not_commanded(world):
    """Another process has it decided first: only what was committed is."""
    led = Led(world, fails={1})
    submit = led.loop._metadata.submit

    def after_another(decide, **arguments):
        def decided(image):
            result = decide(image)
            if any(isinstance(each, BrokerChangeRecord) for each in result.records) and once:
                once.clear()
                world.metadata().submit(
                    lambda newest: fence_broker(newest, BrokerId(2), "first"), timeout_ms=1000
                )
            return result

        return submit(decided, **arguments)

    once = [True]
    led.loop._metadata.submit = after_another

    led.loop.run(None)

    assert led.sent == [(3, 6)]


def led_elsewhere(share, of):
    """Return partitions that broker 1 should lead, of which 2 leads so many."""
    return [partition("1 2", leader=2 if each < share else 1) for each in range(of)]


# fmt: off
IMBALANCES = [  # limit  led by another, of  moved
    pytest.param("10",   1, 10,              0,    id="at the limit nothing moves"),
    pytest.param("10",   2, 10,              2,    id="above it all come back"),
    pytest.param("9",    1, 10,              1,    id="just above it"),
    pytest.param("100",  3, 3,               0,    id="never, at 100"),
    pytest.param("0",    1, 50,              1,    id="always, at 0"),
]
# fmt: on


@pytest.mark.parametrize("limit, share, of, moved", IMBALANCES)
def test_leaders_are_given_back_above_the_limit_of_the_imbalance(world, limit, share, of, moved):
    image = image_of(*led_elsewhere(share, of), ids="1 2")
    image = replace(image, configs={"leader.imbalance.per.broker.percentage": limit})
    commit(world, *snapshot_records(image))

    report = world.loop("active").run(None)

    assert report.leaders_moved == moved
    leaders = [each.leader for _, each in world.image.partitions()]
    assert leaders.count(2) == share - moved


def headless_image(**configs):
    """Return an image of a partition that nobody leads, and whose ISR is away."""
    one = partition("1 2 3", isr="2", leader=None, hw=10, hw_epoch=4)
    return image_of(one, ids="1 2 3", fenced="2", configs=configs)


def inspected(order, end):
    return ReplicaInspection(
        key=order.address.key,
        broker_id=order.address.broker_id,
        partition_epoch=order.partition_epoch,
        high_watermark=order.high_watermark,
        log_start_offset=0,
        log_end_offset=end,
        last_epoch=4,
        epoch_below_high_watermark=4 if end >= 10 else None,
        chain_digest=digest_at(end),
        chain_at_high_watermark=digest_at(10) if end >= 10 else None,
    )


def test_a_pass_finds_a_leader_where_no_replica_in_sync_is_left(world):
    """A replica whose inspection fails gives none; the other's log proves to have all."""
    commit(world, *snapshot_records(headless_image()))
    loop, asked = world.loop("active"), []
    loop._run_probes = lambda orders: [
        ProbeResult(each.broker_id, 56 if each.broker_id == 2 else 0) for each in orders
    ]

    def run_inspections(orders):
        asked.append(sorted(each.address.broker_id for each in orders))
        return [None if each.address.broker_id == 1 else inspected(each, 12) for each in orders]

    loop._run_inspections = run_inspections

    report = loop.run(None)

    assert asked == [[1, 3]]
    assert report.leaders_moved == 1
    assert [each.leader for _, each in world.image.partitions()] == [3]
