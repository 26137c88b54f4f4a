"""What a process counts: commits by outcome, decisions as they are replayed, in bounded memory."""

import pytest

from kafka_on_spark.base.errors import NO_ERROR, KafkaOnSparkError
from kafka_on_spark.controller.probes import ProbeResult, count_probes
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.metadata_service import MetadataService, count_decisions
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Stamp,
    TopicRecord,
)
from kafka_on_spark.store.counts import (
    COMMIT_MS,
    COMMITS,
    OTHERS,
    PROBE_MS,
    Counts,
    FigureName,
)
from tests.builders import TOPIC, TOPIC_ID, digest_at, image_of, partition
from tests.fakes import FakeClock, Fault, MemoryMetadataLog


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def counts(clock):
    return Counts(clock.monotonic_ms)


def found(counts):
    return {(each.name, *each.labels.values()): each.value for each in counts.metrics()}


def topic(name):
    return lambda image: ControllerResult([TopicRecord(topic=name, topic_id=f"id of {name}")], None)


@pytest.mark.parametrize(
    "fault, outcomes",
    [
        (None, {"committed": 1}),
        (Fault.CONFLICT, {"conflict": 1, "committed": 1}),
        (Fault.LOST_ANSWER, {"unknown": 1}),
        (Fault.OFFLINE, {"failed": 1}),
    ],
)
def test_each_commit_is_counted_by_its_outcome_and_timed(clock, counts, fault, outcomes):
    log = MemoryMetadataLog()
    log.faults.extend([] if fault is None else [fault])
    service = MetadataService(log, clock, random=lambda: 0.0, counts=counts)

    try:
        service.submit(topic("orders"), timeout_ms=1000)
        is_committed = True
    except KafkaOnSparkError:
        is_committed = False

    assert is_committed == ("committed" in outcomes)
    counted = {
        each.labels["outcome"]: each.value for each in counts.metrics() if each.name == COMMITS.name
    }
    assert counted == outcomes
    [times] = [each for each in counts.metrics() if each.name == COMMIT_MS.name]
    assert times.value == sum(outcomes.values())


def changed(topic_id=TOPIC_ID, isr=None, **fields):
    if isr is not None:
        fields["isr"] = frozenset(map(int, isr.split()))
    return PartitionChangeRecord(
        topic_id=topic_id,
        partition=0,
        change=PartitionChange(**fields),
        topic=TOPIC,
        leader_epoch=6,
        partition_epoch=10,
    )


def raised(hw):
    return HighWatermarkRecord(
        topic_id=TOPIC_ID,
        partition=0,
        leader_epoch=5,
        partition_epoch=9,
        high_watermark=hw,
        high_watermark_epoch=5,
        high_watermark_chain=digest_at(hw),
        log_end_offset=hw,
    )


def decided(image, *decisions):
    """Return batches of a record each, which continue an image."""
    return [
        MetadataBatch(base_offset=image.offset + number, stamp=Stamp(time_ms=1), records=(each,))
        for number, each in enumerate(decisions)
    ]


@pytest.mark.parametrize(
    "decisions, counted",
    [
        ([changed(isr="1 2")], {("IsrShrinks",): 1}),
        ([changed(isr="1 2"), changed(isr="1 2 3")], {("IsrShrinks",): 1, ("IsrExpands",): 1}),
        ([changed(isr="2 3", leader=2)], {("IsrShrinks",): 1, ("LeaderElections",): 1}),
        (
            [changed(leader=2, unclean_generation=1)],
            {("LeaderElections",): 1, ("UncleanLeaderElections",): 1},
        ),
        ([changed(leader=None)], {}),
        ([changed(leader=1)], {}),
        ([changed(throttle_bytes_per_s=7)], {}),
        ([raised(3), raised(10)], {("MessagesIn", TOPIC): 10}),
    ],
)
def test_decisions_are_counted_by_partition(counts, decisions, counted):
    before = image_of(partition("1 2 3"))

    for batch in decided(before, *decisions):
        after = before.replay(batch)
        count_decisions(counts, before, [batch], after)
        before = after

    assert found(counts) == counted


def test_what_was_counted_of_topics_and_brokers_goes_with_them(counts, clock):
    for topic in (TOPIC, "gone", OTHERS):
        counts.add(FigureName("BrokerTopicMetrics", "BytesIn"), 2, topic=topic)
    count_probes(counts, [ProbeResult(1, NO_ERROR), ProbeResult(4, 56, "away")])
    with counts.timed(PROBE_MS, broker=4):
        clock.advance(1)

    counts.keep_only([TOPIC], [1, 2, 3])

    assert found(counts) == {("BytesIn", TOPIC): 2, ("BytesIn", OTHERS): 2, ("failures", "1"): 0}
