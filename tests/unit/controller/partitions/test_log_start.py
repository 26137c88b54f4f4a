"""Where a partition's log starts: decided in the register, never above the high watermark."""

import pytest

from kafka_on_spark.controller.partitions.log_start import delete_records, raise_log_start
from kafka_on_spark.errors import (
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import PartitionKey
from tests.builders import KEY, TOPIC_ID, image_of, partition
from tests.committing import replay


def after(image, result):
    """Return where the log starts once `result` was committed."""
    return replay(image, result).partition(KEY).log_start_offset


def image(policy="delete", *, start=2, hw=8, **configs):
    return image_of(
        partition("1 2 3", hw=hw, hw_epoch=1, leo=10, start=start),
        configs={"cleanup.policy": policy, **configs},
    )


# fmt: off
DELETES = [  # before  log start after
    pytest.param(5,    5, id="in-the-middle"),
    pytest.param(8,    8, id="all-that-is-committed"),
    pytest.param(None, 8, id="all-that-is-committed-without-a-number"),
    pytest.param(2,    2, id="nothing"),
    pytest.param(1,    2, id="gone-already"),
]
# fmt: on


@pytest.mark.parametrize("before, expected", DELETES)
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_delete_records(policy, before, expected):
    result = delete_records(image(policy), KEY, before)

    assert result.response == after(image(policy), result) == expected


@pytest.mark.parametrize("before", [-1, 9, 11])
def test_records_that_are_not_committed_are_not_deleted(before):
    with pytest.raises(OffsetOutOfRangeError, match="from 0 to its high watermark 8"):
        delete_records(image(), KEY, before)


def test_compacted_topic_does_not_delete_by_offset():
    with pytest.raises(PolicyViolationError, match="'delete' is needed"):
        delete_records(image("compact"), KEY, 5)


def test_partition_that_is_gone_is_unknown():
    with pytest.raises(UnknownTopicOrPartitionError):
        delete_records(image(), PartitionKey(TOPIC_ID, 9), 5)


def test_decision_on_a_partition_that_changed_since_says_nothing():
    result = raise_log_start(image(), KEY, 5, "as asked")
    changed = image_of(partition("1 2 3", hw=8, leo=10, start=2, version=10))

    assert after(changed, result) == 2
