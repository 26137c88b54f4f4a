"""Moves of partition 0, step by step, without a store."""

from itertools import count

from kafka_on_spark.controller.reassignment import advance_reassignments, start_reassignments
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import PartitionChangeRecord
from tests.builders import KEY, TOPIC, TOPIC_ID, brokers
from tests.committing import committed, replay


def only(image):
    return image.topics[TOPIC_ID].partitions[0]


def start(image, *target, key=KEY):
    numbers = count(1)
    return start_reassignments(
        image, {key: target}, new_uuid=lambda: f"new{next(numbers)}", cause="by a test"
    )


def changed(image, **fields):
    """Return the image after somebody else's change: who has caught up, who lags."""
    epochs = only(image).epochs_after(PartitionChange(**fields))
    record = PartitionChangeRecord(
        topic_id=TOPIC_ID, partition=0, change=PartitionChange(**fields), topic=TOPIC,
        leader_epoch=epochs[0], partition_epoch=epochs[1],
    )  # fmt: skip
    return committed(image, [record])


def in_sync(image, text):
    return changed(image, isr=frozenset(brokers(text)))


def finished(image):
    for _ in range(4):
        result = advance_reassignments(image)
        if not result.records:
            return image
        image = replay(image, result)
    raise AssertionError("a reassignment goes on and on")
