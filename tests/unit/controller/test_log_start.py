"""Deleting records decides where the log starts (KIP-107)."""

import pytest

from kafka_on_spark.controller.log_start import delete_records
from kafka_on_spark.errors import (
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from tests.builders import KEY, TOPIC_ID, image_of, partition

IMAGE = image_of(partition("1 2", hw=10, hw_epoch=5, start=3))


@pytest.mark.parametrize("before, start", [(4, 4), (10, 10), (-1, 10), (3, None), (0, None)])
def test_the_log_starts_where_it_is_asked_to_and_never_goes_back(before, start):
    record = delete_records(IMAGE, KEY, Offset(before))

    assert (None if record is None else record.log_start_offset) == start
    assert record is None or record.high_watermark is None


@pytest.mark.parametrize("before", [11, -2])
def test_only_committed_records_can_be_deleted(before):
    with pytest.raises(OffsetOutOfRangeError, match="from 0 to the high watermark 10"):
        delete_records(IMAGE, KEY, Offset(before))


def test_a_topic_that_keeps_the_last_of_each_key_deletes_nothing_by_offset():
    image = image_of(partition("1 2", hw=10), configs={"cleanup.policy": "compact"})

    with pytest.raises(PolicyViolationError, match="compact"):
        delete_records(image, KEY, Offset(5))


def test_an_unknown_partition_is_told():
    with pytest.raises(UnknownTopicOrPartitionError):
        delete_records(IMAGE, PartitionKey(TOPIC_ID, 9), Offset(5))
