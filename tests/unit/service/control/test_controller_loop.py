"""The controller's loop: it answers whenever it can, renews in time, and stops when deposed."""

from dataclasses import replace
from itertools import pairwise

import pytest

from kafka_on_spark.controller.brokers.broker_changes import fence_broker
from kafka_on_spark.controller.commands.commands import (
    ALTER_TOPIC_CONFIGS,
    DELETE_TOPIC,
    DRAIN_BROKER,
)
from kafka_on_spark.controller.commands.lease import claim
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import NotControllerError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.records import BrokerChangeRecord, ConfigRecord, ControllerRecord
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.service.control.chores import Chores
from kafka_on_spark.service.control.controller_loop import duration_ms
from kafka_on_spark.service.control.leadership_commands import LeadershipCommands
from kafka_on_spark.service.control.lease_watch import LeaseWatch
from kafka_on_spark.service.probing.probes import ProbeResult
from tests.builders import digest_at, image_of, partition
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


def renewals_of(world):
    """Return when the lease was renewed, by the clock of the commits."""
    return [
        batch.stamp.time_ms
        for batch in world.log.batches
        if any(
            isinstance(each, ControllerRecord) and each.cause == "renewed" for each in batch.records
        )
    ]


def test_the_lease_is_renewed_between_the_parts_of_a_share_of_upkeep(world):
    """Each takes four seconds, a large file's merge, and the lease lasts for ten."""
    loop = world.loop("active")
    waits = []

    def maintain(*, after_part):
        for _ in range(10):
            world.clock.advance(4000)
            after_part()
            waits.append(watch.is_over(world.image))

    watch = LeaseWatch(world.clock)
    loop._chores = Chores(maintain=maintain)

    loop.run(None)

    assert len(renewals_of(world)) == 10
    assert not any(waits)


def test_the_lease_is_renewed_between_the_chores_of_a_pass(world):
    loop = world.loop("active")

    class Slow:
        deleted_records = 1

        def run(self, *args, **keywords):
            world.clock.advance(4000)
            return self

    loop._chores = Chores(
        retention=Slow(), expiry=Slow(), compaction=Slow(), clean=lambda check: Slow().run() and 2
    )

    report = loop.run(None)

    assert len(renewals_of(world)) == 4
    assert (report.records_deleted, report.tables_removed) == (1, 2)


def test_a_share_of_upkeep_ends_where_another_controller_has_claimed(world):
    loop, done = world.loop("active"), []

    def maintain(*, after_part):
        for number in range(3):
            world.clock.advance(2 * LEASE_MS)
            if number == 1:
                other = world.metadata()
                other.catch_up()
                other.submit(
                    lambda image: claim(image, "other", "", seen=image.controller), timeout_ms=1000
                )
            done.append(number)
            after_part()

    loop._chores = Chores(maintain=maintain)

    with pytest.raises(NotControllerError):
        loop.run(None)

    assert done == [0, 1]


def test_parts_that_take_no_time_cost_no_look_at_the_log(world):
    loop = world.loop("active")
    served = []
    serve = loop._serve_requests
    loop._serve_requests = lambda: served.append(1) or serve()

    def maintain(*, after_part):
        for _ in range(100):
            after_part()

    loop._chores = Chores(maintain=maintain)

    loop.run(None)

    assert len(served) == 2


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
    world.clock.on_sleep = lambda: active.serve_requests(world.id_source)

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


@pytest.mark.parametrize(
    "seconds, expected", [(None, None), (0, 0), (2.5, 2500), (60, 60_000)], ids=str
)
def test_how_long_to_control_is_in_seconds(seconds, expected):
    assert duration_ms(seconds) == expected


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


def test_a_pass_inspects_no_log_where_all_have_leaders(world):
    commit(world, *snapshot_records(image_of(partition("1 2"), ids="1 2")))
    loop = world.loop("active")

    def run_inspections(orders):
        raise AssertionError(orders)

    loop._run_inspections = run_inspections

    assert loop.run(None).passes == 1
