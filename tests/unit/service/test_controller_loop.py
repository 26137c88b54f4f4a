"""The controller's loop: it answers whenever it can, renews in time, and stops when deposed."""

from itertools import pairwise

import pytest

from kafka_on_spark.controller.commands import (
    ALTER_TOPIC_CONFIGS,
    DELETE_TOPIC,
)
from kafka_on_spark.controller.lease import claim
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import (
    NotControllerError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.metadata.records import (
    ConfigRecord,
    ControllerRecord,
)
from kafka_on_spark.service.controller_loop import ProbeResult
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
