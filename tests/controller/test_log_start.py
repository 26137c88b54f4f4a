"""Where a partition's log starts: decided in the register, never above the high watermark."""

import pytest

from kafka_on_spark.base.errors import UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.log_start import delete_records
from tests.builders import TOPIC_ID, image_of, partition


def image(policy="delete", *, start=2, hw=8, **configs):
    return image_of(
        partition("1 2 3", hw=hw, hw_epoch=1, leo=10, start=start),
        configs={"cleanup.policy": policy, **configs},
    )


def test_partition_that_is_gone_is_unknown():
    with pytest.raises(UnknownTopicOrPartitionError):
        delete_records(image(), PartitionKey(TOPIC_ID, 9), 5)
