"""The controller's loop: it answers whenever it can, renews in time, and stops when deposed."""

from dataclasses import replace
from itertools import pairwise

import pytest

from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.commands import (
    ALTER_TOPIC_CONFIGS,
    DELETE_TOPIC,
    DRAIN_BROKER,
)
from kafka_on_spark.controller.lease import claim
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import (
    NotControllerError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    ConfigRecord,
    ControllerRecord,
)
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.service.leadership_commands import LeadershipCommands
from kafka_on_spark.service.probes import ProbeResult
from tests.builders import image_of, partition
from tests.unit.service.controlled import LEASE_MS, World, create, pending, run


@pytest.fixture
def world():
    return World()


def test_the_loop_answers_between_passes(world):
    """The heartbeat interval is two seconds; who asks waits for a poll, not for a pass."""
    asked = []

    def ask():
        if not asked and world.clock.monotonic_ms() > 100:
            asked.append(pending(world, create("orders")))
            asked.append(world.clock.monotonic_ms())
        elif asked and len(asked) == 2 and not world.image.requests:
            asked.append(world.clock.monotonic_ms())

    world.clock.on_sleep = ask

    world.loop("active").run(5_000)

    assert world.image.topic_ids.keys() == {"orders"}
    assert asked[2] - asked[1] <= 400


def test_the_loop_answers_while_it_probes_a_root_that_fails(world):
    loop = world.loop("active")
    loop._run_probes = lambda orders: [ProbeResult(each.broker_id, 56, "away") for each in orders]
    world.while_waiting(lambda: pending(world, ALTER, asked_by="me"))
    run(world.process("me"), create("orders"))

    loop.run(None)

    names = [type(record).__name__ for batch in world.log.batches for record in batch.records]
    assert names.index("AdminResultRecord") < names.index("BrokerChangeRecord")
    assert world.image.topic("orders").configs == {"retention.ms": "5"}


ALTER = ALTER_TOPIC_CONFIGS.order(name="orders", configs={"retention.ms": 5})


def test_a_pass_that_lasts_longer_than_the_lease_renews_it_meanwhile(world):
    """Probing until the session is over (9 s) must not look like death (10 s)."""
    metadata = world.metadata()
    metadata.submit(
        lambda image: ControllerResult(
            [
                ConfigRecord(
                    topic_id=None, config_name="broker.session.timeout.ms", config_value="60000"
                )
            ],
            None,
        ),
        timeout_ms=1000,
    )
    loop = world.loop("active")
    loop._run_probes = lambda orders: [ProbeResult(each.broker_id, 56, "away") for each in orders]

    loop.run(None)

    signs = [
        batch.stamp.time_ms
        for batch in world.log.batches
        if isinstance(batch.records[0], ControllerRecord)
    ]
    assert max(later - earlier for earlier, later in pairwise(signs)) < LEASE_MS


def test_a_standby_waits_for_the_lease_and_goes_on_from_there(world):
    dead = world.controller("dead")
    pending(world, create("orders"))

    report = world.loop("standby").run(1_000)

    assert report.passes >= 1
    assert world.image.controller.controller_epoch == dead.epoch + 1
    assert world.image.topic_ids.keys() == {"orders"}


def test_a_standby_of_a_controller_that_lives_stops_after_its_time(world):
    active = world.controller()
    world.clock.on_sleep = lambda: active.attend(world.draws)

    with pytest.raises(NotControllerError, match="active controls the cluster in epoch 0"):
        world.loop("standby").run(1_000)

    assert world.image.controller.controller_id == "active"


def test_a_frozen_controller_that_wakes_up_stops_and_has_committed_nothing(world):
    loop = world.loop("frozen")
    thaws = []

    def freeze():
        world.clock.on_sleep = lambda: None
        world.clock.advance(60_000)
        run(world.process("me"), create("orders"))
        thaws.append(world.log.end_offset)

    world.clock.on_sleep = freeze

    with pytest.raises(NotControllerError):
        loop.run(30_000)

    assert world.log.end_offset == thaws[0]


def test_a_claim_of_a_lease_that_moved_is_none(world):
    stale = world.image.controller
    world.controller()
    assert claim(world.image, "late", "why", seen=stale).response is None
    with pytest.raises(UnknownTopicOrPartitionError):
        run(world.process("me"), DELETE_TOPIC.order(name="nothing"))


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


def test_nobody_is_commanded_where_no_leadership_has_begun(world):
    led = Led(world)

    led.loop.run(None)

    assert led.sent == []


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


def commit(world, *records):
    world.metadata().submit(lambda image: ControllerResult(records, None), timeout_ms=1000)


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


def test_leaderships_of_a_broker_that_is_away_are_not_given_back(world):
    image = image_of(*led_elsewhere(2, 2), ids="1 2", fenced="1")
    image = replace(image, configs={"leader.imbalance.per.broker.percentage": "0"})
    commit(world, *snapshot_records(image))
    loop = world.loop("active")
    loop._run_probes = lambda orders: [
        ProbeResult(each.broker_id, 56 if each.broker_id == 1 else 0) for each in orders
    ]

    assert loop.run(None).leaders_moved == 0
