"""Records that are deleted for their age and size, while clocks are wrong and leaders change."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import NO_CHAIN
from kafka_on_spark.controller.log_start import RetentionReport, retain
from kafka_on_spark.log.retention import limits_of
from kafka_on_spark.log.retention import retained as kept_of
from kafka_on_spark.metadata.records import ConfigRecord
from tests.simulation.mutants.retention_mutants import OTHER_LEADER
from tests.simulation.mutants.stage import KEY, Stage
from tests.simulation.world.scheduler import Violation

NOW_MS = 10**9


@pytest.fixture
def stage():
    """Two old records are committed, and the retention of their topic is a second."""
    made = Stage()
    made.checker.true_now_ms = lambda: NOW_MS
    made.committed(10, 11)
    made.metadata(
        ConfigRecord(topic_id=KEY.topic_id, config_name="retention.ms", config_value="1000")
    )
    return made


def look_at(stage):
    """Return what a task sees of the leader's log now."""
    partition, limits = stage.partition, limits_of(stage.disks.image.settings(KEY.topic_id))
    found = kept_of(
        stage.table(partition.leader).state,
        limits,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        now_ms=NOW_MS,
    )
    return RetentionReport(
        key=KEY,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        log_start_offset=partition.log_start_offset,
        limits=limits,
        now_ms=NOW_MS,
        found=found,
    )


def elect_uncleanly(stage):
    """Have 2 lead with nothing, and new records in the places of the old ones."""
    stage.change(
        leader=2,
        isr=frozenset({2, 3}),
        high_watermark=0,
        high_watermark_epoch=-1,
        high_watermark_chain=NO_CHAIN,
        unclean_generation=1,
    )
    for broker_id in (2, 3):
        stage.adopt(broker_id, 1, cut=0)
    for base in (0, 1):
        made = stage.batch(12 + base, base, epoch=1)
        time_us = NOW_MS * 1000
        segment = replace(made.segments[0], timestamp_min_us=time_us, timestamp_max_us=time_us)
        young = replace(made, appended_at_ms=NOW_MS, segments=(segment,))
        stage.add(2, young, "append")
        stage.add(3, young)
    stage.high_watermark(2, epoch=1)


def test_what_was_seen_of_a_log_that_an_unclean_election_replaced_deletes_nothing(stage):
    old = look_at(stage)
    elect_uncleanly(stage)

    assert old.found.log_start_offset == 2
    assert retain(stage.disks.image, [old]).records == []


def test_without_that_rule_young_records_go_and_it_is_seen(stage):
    old = look_at(stage)
    elect_uncleanly(stage)

    with OTHER_LEADER.alive():
        records = retain(stage.disks.image, [old]).records
    with pytest.raises(Violation, match="I16"):
        stage.metadata(*records)


def test_old_records_of_the_leader_of_now_may_go(stage):
    stage.metadata(*retain(stage.disks.image, [look_at(stage)]).records)

    assert stage.partition.log_start_offset == 2
