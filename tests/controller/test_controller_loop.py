"""The controller's loop: it answers whenever it can, renews in time, and stops when deposed."""

from itertools import pairwise

import pytest

from kafka_on_spark.base.errors import NotControllerError, UnknownTopicOrPartitionError
from kafka_on_spark.controller.commands import ALTER_TOPIC_CONFIGS, DELETE_TOPIC
from kafka_on_spark.controller.controller_loop import Chores, duration_ms
from kafka_on_spark.controller.lease import claim
from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.metadata.records import ConfigRecord, ControllerRecord
from kafka_on_spark.metadata.result import ControllerResult
from kafka_on_spark.metadata.snapshot import snapshot_records
from tests.builders import image_of, partition
from tests.controller.controlled import LEASE_MS, commit, create, pending, run


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


def test_the_lease_is_renewed_between_the_chores_of_a_pass(world):
    loop = world.loop("active")

    class Slow:
        count = 1

        def run(self, *args, **keywords):
            world.clock.advance(4000)
            return [self]

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


def test_what_another_has_decided_first_is_not_decided_again(world):
    commit(world, *snapshot_records(image_of(partition("1 2 3", isr="1 2", lost="3"))))
    loop = world.loop("active")
    submit, before = loop._metadata.submit, []

    def after_another(decide, **given):
        renews = decide(world.image).records if loop._tally.passes and not before else ()
        if renews:
            before.append(len(world.log.batches))
            commit(world, *renews)
        return submit(decide, **given)

    loop._metadata.submit = after_another

    loop.run(None)

    names = [kinds for kinds in world.kinds(before[0]) if "PartitionChangeRecord" in kinds]
    assert len(names) == 1


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


@pytest.mark.parametrize(
    "seconds, expected", [(None, None), (0, 0), (2.5, 2500), (60, 60_000)], ids=str
)
def test_how_long_to_control_is_in_seconds(seconds, expected):
    assert duration_ms(seconds) == expected
