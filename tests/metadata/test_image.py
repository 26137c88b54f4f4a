"""Replay: what each record type does to an image, and that a snapshot rebuilds it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata import records as kinds
from kafka_on_spark.metadata.image import (
    ControllerLease,
    GroupOffset,
    MetadataImage,
    snapshot_records,
)
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import BrokerState, MetadataBatch, RefusedWrite, Stamp
from tests.builders import KEY, TOPIC, TOPIC_ID, broker, digest_at, disk, image_of, partition

STAMP = Stamp(time_ms=77)
OTHER_ID = "2" * 32
FENCED, ACTIVE = BrokerState.FENCED, BrokerState.ACTIVE
FULL = RefusedWrite(900_000, ("a", "b"))


def batch(image, *records, stamp=STAMP):
    return MetadataBatch(base_offset=image.offset, stamp=stamp, records=records)


def replay(image, *records):
    return image.replay(batch(image, *records))


def high_watermark(hw, *, leo=9, epoch=5, version=9, hw_epoch=5, start=None, key=KEY):
    return kinds.HighWatermarkRecord(
        topic_id=key.topic_id, partition=key.partition, leader_epoch=epoch, partition_epoch=version,
        high_watermark=hw, high_watermark_epoch=hw_epoch,
        high_watermark_chain=None if hw is None else digest_at(hw),
        log_end_offset=leo, log_start_offset=start,
    )  # fmt: skip


def change(key=KEY, **fields):
    return kinds.PartitionChangeRecord(
        topic_id=key.topic_id, partition=key.partition, change=PartitionChange(**fields),
        topic=TOPIC, leader_epoch=0, partition_epoch=0,
    )  # fmt: skip


def broker_record(broker_id, *, epoch=0, state=ACTIVE, root=None):
    return kinds.BrokerRecord(
        broker_id=broker_id, broker_epoch=epoch, root=root or f"memory://{broker_id}", rack=None,
        directory_id=disk(broker_id), broker_state=state,
    )  # fmt: skip


def config(name, value, topic_id=None):
    return kinds.ConfigRecord(topic_id=topic_id, config_name=name, config_value=value)


def request(text):
    return kinds.AdminRequestRecord(request=text)


def offset_commit(offset, topic_id=TOPIC_ID):
    return kinds.OffsetCommitRecord(
        group="g", topic_id=topic_id, partition=0, offset=offset, leader_epoch=None
    )


BEFORE = image_of(partition("1 2 3", hw=4, hw_epoch=3, leo=6))
ONE = BEFORE.topics[TOPIC_ID].partitions[0]
GONE = PartitionKey(OTHER_ID, 0)
SAVED = {("g", KEY): GroupOffset(offset=5, leader_epoch=None)}


def removed(number):
    return kinds.RemovePartitionRecord(topic=TOPIC, topic_id=TOPIC_ID, partition=number)


def with_removed():
    topic = BEFORE.topics[TOPIC_ID]
    return {"topics": {TOPIC_ID: replace(topic, partitions={}, first_partition_count=0)}}


def with_partition(changed, number=0):
    topic = BEFORE.topics[TOPIC_ID]
    partitions = {**topic.partitions, number: changed}
    return {"topics": {TOPIC_ID: replace(topic, partitions=partitions)}}


# fmt: off
CASES = [  # record                                              fields that differ afterwards
    pytest.param([kinds.ClusterRecord(cluster_id="c")],          {"cluster_id": "c"},                                          id="cluster"),
    pytest.param([kinds.VotersRecord(voters=("1:d:/a",)), kinds.VotersRecord(voters=("2:d:/b",))], {"registered_voters": ("1:d:/a", "2:d:/b")}, id="voters, former ones too"),
    pytest.param([kinds.ControllerRecord(controller_id="x", controller_epoch=2)], {"controller": ControllerLease(controller_id="x", controller_epoch=2, offset=101)}, id="claim"),
    pytest.param([kinds.ControllerRecord(controller_id="x", controller_epoch=2, is_resignation=True)], {"controller": ControllerLease(controller_id=None, controller_epoch=2, offset=101)}, id="resignation-keeps-the-epoch"),
    pytest.param([broker_record(4)],                             {"brokers": {**BEFORE.brokers, 4: broker(4)}},                id="broker-registers"),
    pytest.param([broker_record(1, epoch=1, root="r")],          {"brokers": {**BEFORE.brokers, 1: replace(broker(1), broker_epoch=1, root="r")}}, id="broker-registers-another-disk"),
    pytest.param([kinds.BrokerChangeRecord(broker_id=2, broker_epoch=0, broker_state=FENCED)], {"brokers": {**BEFORE.brokers, 2: replace(broker(2, state=FENCED), fenced_since_ms=77)}}, id="broker-is-fenced"),
    pytest.param([kinds.BrokerChangeRecord(broker_id=2, broker_epoch=0, broker_state=BrokerState.ACTIVE, refused=FULL)], {"brokers": {**BEFORE.brokers, 2: replace(broker(2), refused=FULL)}}, id="root-refuses-a-write"),
    pytest.param([kinds.BrokerChangeRecord(broker_id=2, broker_epoch=0, broker_state=each, refused=refused) for each, refused in ((FENCED, FULL), (BrokerState.ACTIVE, None))], {}, id="root-takes-writes-again"),
    pytest.param([kinds.BrokerChangeRecord(broker_id=2, broker_epoch=1, broker_state=FENCED)], {},                             id="change-of-another-incarnation-is-ignored"),
    pytest.param([kinds.BrokerChangeRecord(broker_id=9, broker_epoch=0, broker_state=FENCED)], {},                             id="change-of-an-unknown-broker-is-ignored"),
    pytest.param([kinds.UnregisterBrokerRecord(broker_id=3, broker_epoch=4)], {"brokers": {1: broker(1), 2: broker(2)}, "past_brokers": {3: 4}}, id="broker-is-unregistered"),
    pytest.param([kinds.UnregisterBrokerRecord(broker_id=3, broker_epoch=4), broker_record(3, epoch=5)], {"brokers": {1: broker(1), 2: broker(2), 3: replace(broker(3), broker_epoch=5)}}, id="and-comes-again"),
    pytest.param([kinds.LeaderChangeRecord(leader=1, directory_id="d")], {},                                                   id="leader-of-the-quorum-changes"),
    pytest.param([removed(0)],                                   with_removed(),                                               id="partition-removed"),
    pytest.param([offset_commit(5), removed(0)],                 with_removed(),                                               id="group-offsets-go-with-their-partition"),
    pytest.param([removed(7)],                                   {},                                                           id="unknown-partition-removed"),
    pytest.param([removed(0), change(leader=2)],                 with_removed(),                                               id="late-change-of-a-removed-partition"),
    pytest.param([kinds.RemoveTopicRecord(topic_id=TOPIC_ID)],   {"topics": {}, "topic_ids": {}},                              id="topic-removed"),
    pytest.param([kinds.RemoveTopicRecord(topic_id=OTHER_ID)],   {},                                                           id="unknown-topic-removed"),
    pytest.param([kinds.PartitionRecord(topic=TOPIC, topic_id=TOPIC_ID, partition=1, registration=partition("2"))], with_partition(partition("2"), 1), id="partition-added"),
    pytest.param([kinds.PartitionRecord(topic=TOPIC, topic_id=OTHER_ID, partition=1, registration=partition("2"))], {},                     id="partition-of-an-unknown-topic"),
    pytest.param([change(leader=2)],                             with_partition(ONE.merge(PartitionChange(leader=2))),         id="partition-changes"),
    pytest.param([change(leader=2), change(isr=frozenset({2}))], with_partition(replace(ONE, leader=2, isr=frozenset({2}), leader_epoch=6, partition_epoch=11)), id="partition-changes-twice"),
    pytest.param([change(GONE, leader=2)],                       {},                                                           id="change-of-an-unknown-topic"),
    pytest.param([change(PartitionKey(TOPIC_ID, 7), leader=2)],  {},                                                           id="change-of-an-unknown-partition"),
    # High watermarks: valid only if nothing changed since their author inspected the replicas.
    pytest.param([high_watermark(8)],                            with_partition(replace(ONE, high_watermark=8, high_watermark_epoch=5, high_watermark_chain=digest_at(8), log_end_offset=9)), id="high-watermark-moves"),
    pytest.param([high_watermark(None, hw_epoch=None)],          with_partition(replace(ONE, log_end_offset=9)),               id="only-the-log-end"),
    pytest.param([high_watermark(3)],                            with_partition(replace(ONE, log_end_offset=9)),               id="high-watermark-never-falls"),
    pytest.param([high_watermark(4, hw_epoch=9)],                with_partition(replace(ONE, log_end_offset=9)),               id="equal-keeps-its-epoch"),
    pytest.param([high_watermark(8, epoch=4)],                   {},                                                           id="high-watermark-of-an-older-leadership"),
    pytest.param([high_watermark(8, version=8)],                 {},                                                           id="high-watermark-decided-on-an-older-isr"),
    pytest.param([change(isr=frozenset({1})), high_watermark(8)], with_partition(ONE.merge(PartitionChange(isr=frozenset({1})))), id="isr-changed-just-before"),
    pytest.param([high_watermark(8, start=2)],                   with_partition(replace(ONE, high_watermark=8, high_watermark_epoch=5, high_watermark_chain=digest_at(8), log_end_offset=9, log_start_offset=2)), id="log-start-moves"),
    pytest.param([high_watermark(8, key=GONE)],                  {},                                                           id="high-watermark-of-an-unknown-topic"),
    pytest.param([config("min.insync.replicas", "2")],           {"configs": {"min.insync.replicas": "2"}},                    id="cluster-setting"),
    pytest.param([config("a", "2"), config("a", None)],          {},                                                           id="setting-removed"),
    pytest.param([config("a", "2", TOPIC_ID)],                   {"topics": {TOPIC_ID: replace(BEFORE.topics[TOPIC_ID], configs={"a": "2"})}}, id="topic-setting"),
    pytest.param([config("a", "2", OTHER_ID)],                   {},                                                           id="setting-of-an-unknown-topic"),
    pytest.param([config("a", "2", TOPIC_ID), change(leader=2), config("b", "3", TOPIC_ID)], {"topics": {TOPIC_ID: replace(BEFORE.topics[TOPIC_ID], configs={"a": "2", "b": "3"}, partitions={0: ONE.merge(PartitionChange(leader=2))})}}, id="settings-and-partitions-together"),
    pytest.param([kinds.ProducerRecord(producer_id="p", producer_epoch=3)], {"producers": {"p": 3}},                           id="producer-run"),
    pytest.param([offset_commit(5)],                             {"group_offsets": SAVED},                                     id="group-offset"),
    pytest.param([offset_commit(9), offset_commit(5)],           {"group_offsets": SAVED},                                     id="group-may-go-back"),
    pytest.param([offset_commit(5), offset_commit(None)],        {"group_offsets": {}},                                        id="group-offset-is-removed"),
    pytest.param([offset_commit(None)],                          {},                                                           id="unknown-group-offset-is-removed"),
    pytest.param([offset_commit(5, OTHER_ID)],                   {},                                                           id="group-offset-of-an-unknown-topic"),
    pytest.param([offset_commit(5), kinds.RemoveTopicRecord(topic_id=TOPIC_ID)], {"topics": {}, "topic_ids": {}},              id="group-offsets-go-with-their-topic"),
    pytest.param([request("a"), request("b")],                   {"requests": (request("a"), request("b"))},                   id="requests-wait-in-order"),
    pytest.param([request("a"), request("b"), kinds.AdminResultRecord(request="a", result="ok")], {"requests": (request("b"),)}, id="answered-request-waits-no-more"),
]
# fmt: on


@pytest.mark.parametrize("records, changed", CASES)
def test_replay(records, changed):
    after = replay(BEFORE, *records)

    # The lease notes the end of its batch, so that a renewal is a sign of life.
    expected = replace(BEFORE, offset=100 + len(records), time_ms=77, **changed)
    assert after == expected


def test_late_removal_of_a_namesake_leaves_the_new_topic_its_name():
    created = replay(BEFORE, kinds.TopicRecord(topic=TOPIC, topic_id=OTHER_ID))

    after = replay(created, kinds.RemoveTopicRecord(topic_id=TOPIC_ID))

    assert after.topic(TOPIC).topic_id == OTHER_ID


def test_batch_must_continue_the_image():
    with pytest.raises(AssertionError):
        BEFORE.replay(MetadataBatch(base_offset=99, stamp=STAMP, records=(request("a"),)))


def assert_snapshot_rebuilds(image):
    records = tuple(snapshot_records(image))
    start = MetadataImage(offset=image.offset - len(records))
    again = start.replay(
        MetadataBatch(base_offset=start.offset, stamp=Stamp(time_ms=image.time_ms), records=records)
    )
    # The lease's place is where it was seen last, which a snapshot does not keep.
    if image.controller is not None:
        again = replace(again, controller=replace(again.controller, offset=image.controller.offset))
    assert again == image


# Without those that only some other record before them makes possible.
FREE = [
    record
    for case in CASES
    for record in case.values[0]
    if not isinstance(record, kinds.PartitionChangeRecord) or record.change.leader == 2
]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(FREE), max_size=25))
def test_snapshot_after_any_records_rebuilds_the_image(records):
    image = BEFORE
    for record in records:
        image = replay(image, record)

    assert_snapshot_rebuilds(image)
