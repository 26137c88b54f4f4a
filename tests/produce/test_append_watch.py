"""When a waiting append decides: after a session in which a broker failed, and nobody else does."""

import logging

import pytest

from kafka_on_spark.base.errors import NO_ERROR
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionEpoch
from kafka_on_spark.controller.lease import claim, renew, resign
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import HighWatermarkRecord
from kafka_on_spark.produce.append_watch import AppendWatch, Wait
from tests.builders import KEY, brokers, partition
from tests.produce.waiting_appends import (
    AWAY,
    DENIED,
    ENOUGH_MS,
    SESSION_MS,
    World,
)


def test_a_partition_without_a_leader_waits_for_no_session():
    world = World(partition("1 2 3", leader=None))

    assert world.wait(60_000) < 1000
    assert (world.partition.leader, world.partition.isr) == (1, {1, 2, 3})


def test_a_frozen_process_begins_the_session_again():
    world = World()
    world.codes[1] = AWAY
    world.wait(8000)
    world.clock.advance(60_000)

    assert world.wait(60_000) >= SESSION_MS


def raised(world, offset):
    """Return the record by which another process raises the high watermark."""
    now = world.partition
    return HighWatermarkRecord(
        topic_id=KEY.topic_id,
        partition=0,
        leader_epoch=LeaderEpoch(now.leader_epoch),
        partition_epoch=PartitionEpoch(now.partition_epoch),
        high_watermark=Offset(offset),
        high_watermark_epoch=LeaderEpoch(5),
        high_watermark_chain=None,
        log_end_offset=Offset(offset),
    )


def test_while_others_reach_the_broker_this_process_is_the_one_that_does_not():
    world = World()
    world.codes[1] = AWAY
    offsets = iter(range(1, 10_000))

    assert world.wait(60_000, lambda: world.commit(raised(world, next(offsets)))) is None
    assert world.wait(60_000) >= SESSION_MS


def test_no_permission_counts_for_nothing_and_is_told_at_once(caplog):
    world = World()
    world.codes = {1: DENIED, 2: NO_ERROR, 3: NO_ERROR}

    with caplog.at_level(logging.WARNING):
        world.wait(1)
        assert len(caplog.records) == 1
        assert world.wait(60_000) is None

    assert "broker 1 can't be written to by process 7 on host" in caplog.text
    assert "process 7 on host may not write to broker 1" in world.watch.why(KEY)


def test_the_replicas_that_stay_in_the_isr_must_answer():
    """The network of this process is bad."""
    world = World()
    world.codes = {1: AWAY, 2: AWAY, 3: AWAY}

    assert world.wait(60_000) is None
    assert "0 left" in world.watch.why(KEY)


def test_a_live_controller_decides_and_nobody_else():
    world = World()
    world.codes[1] = AWAY
    epoch = world.decide(lambda image: claim(image, "alive", "why", seen=image.controller))

    assert world.wait(60_000, lambda: world.decide(lambda now: renew(now, "alive", epoch))) is None
    assert "alive controls the cluster, and decides" in world.watch.why(KEY)


def test_the_lease_of_a_dead_controller_is_watched_beside_the_probes():
    world = World(configs={"controller.lease.ms": "10000"})
    world.codes[1] = AWAY
    world.decide(lambda image: claim(image, "dead", "why", seen=image.controller))

    assert 10_000 <= world.wait(60_000) <= ENOUGH_MS


def test_an_append_that_another_claim_overtook_is_tried_before_it_claims():
    world = World()
    world.codes[1] = AWAY
    world.wait(SESSION_MS - 1000)
    submit, tried = world.metadata.submit, []

    def overtaken(decide, **arguments):
        world.metadata.submit = submit
        epoch = world.decide(lambda image: claim(image, "faster", "why", seen=image.controller))
        world.decide(lambda image: resign(image, "faster", epoch))
        response = submit(decide, **arguments)
        tried.append(world.has_decided)
        return response

    world.metadata.submit = overtaken

    assert world.wait(60_000) is not None
    assert tried == [False]


@pytest.mark.parametrize(
    "options", [{"is_allowed": False}, {"configs": {"auto.controller": "false"}}]
)
def test_cluster_and_call_may_forbid_it(options):
    world = World(**options)
    world.codes[1] = AWAY

    assert world.wait(60_000) is None
    assert "auto.controller=false" in world.watch.why(KEY)


def test_a_history_that_is_read_slowly_keeps_no_decision_from_coming(monkeypatch):
    world = World()
    world.codes[1] = AWAY
    whole = MetadataService.image_at

    def slowly(self, *arguments):
        world.clock.advance(SESSION_MS)
        return whole(self, *arguments)

    monkeypatch.setattr(MetadataService, "image_at", slowly)

    assert world.wait(10 * SESSION_MS) <= 4 * SESSION_MS
    assert world.partition.isr == {2, 3}


def test_an_isr_keeps_a_member_that_another_process_has_readmitted():
    world = World()
    world.codes[1] = AWAY
    world.wait(60_000)
    change = PartitionChange(isr=frozenset(brokers("1 2 3")))
    world.commit(change_record(world.image, KEY, world.partition, change, "caught up"))
    later = AppendWatch(world.watch._ports)
    world.watch, claims = later, len(world.log.batches)

    waited_ms = 0
    while len(world.log.batches) == claims and waited_ms < 200_000:
        tried = world.metadata.catch_up().partition(KEY)
        later.update([Wait(key=KEY, partition=tried, error="it does not answer")])
        if waited_ms == 60_000:
            assert "another process has readmitted broker 1 to the ISR" in later.why(KEY)
            assert "so the fault is of process 7 on host" in later.why(KEY)
        world.clock.sleep_ms(100)
        waited_ms += 100

    assert 10 * SESSION_MS <= waited_ms <= 11 * SESSION_MS + 3000
