"""Where a partition's log starts: decided in the register, never above the high watermark."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.partitions.log_start import (
    apply_retention,
    delete_records,
    low_watermark,
    raise_log_start,
)
from kafka_on_spark.errors import (
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.records import MetadataBatch, Stamp
from tests.builders import KEY, NOW_MS, TOPIC_ID, image_of, log, partition


def after(image, result):
    """Return where the log starts once `result` was committed."""
    if result.records:
        stamp = Stamp(time_ms=NOW_MS)
        batch = MetadataBatch(base_offset=image.offset, stamp=stamp, records=tuple(result.records))
        image = image.replay(batch)
    return image.partition(KEY).log_start_offset


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
    result = raise_log_start(image(), KEY, 5)
    changed = image_of(partition("1 2 3", hw=8, leo=10, start=2, version=10))

    assert after(changed, result) == 2


# fmt: off
RETENTION = [  # policy  retention.ms  retention.bytes  high watermark  log start after
    # Batches of 3, 3 and 4 records of 100 bytes each, the first one a day old.
    pytest.param("delete",  -1,     -1,   10, 0,  id="for-ever"),
    pytest.param("delete",  3600000, -1,  10, 3,  id="by-time"),
    pytest.param("delete",  3600000, -1,  2,  0,  id="not-above-the-high-watermark"),
    pytest.param("delete",  -1,     700,  10, 3,  id="by-size-what-is-left-is-enough"),
    pytest.param("delete",  -1,     701,  10, 0,  id="by-size-what-is-left-is-too-little"),
    pytest.param("delete",  -1,     0,    10, 10, id="everything"),
    pytest.param("delete",  -1,     0,    7,  6,  id="everything-that-is-wholly-committed"),
    pytest.param("compact", 1,      0,    10, 0,  id="a-compacted-topic-keeps-all"),
]
# fmt: on


@pytest.mark.parametrize("policy, retention_ms, retention_bytes, hw, expected", RETENTION)
def test_retention(policy, retention_ms, retention_bytes, hw, expected):
    configs = {"retention.ms": str(retention_ms), "retention.bytes": str(retention_bytes)}
    before = image(policy, start=0, hw=hw, **configs)
    leader = log("1:aaa 1:bbb 1:cccc")
    old = leader.batches[0].segments[0].timestamp_max_us // 1000 + 86_400_000
    aged = [leader.batches[0]]

    result = apply_retention(before, KEY, younger(leader, aged), now_ms=old)

    assert result.response == after(before, result) == expected


def younger(state, aged):
    """Return a log whose batches, but for `aged`, are a day younger."""

    def day_later(batch):
        if batch in aged:
            return batch
        later = tuple(
            replace(each, timestamp_max_us=each.timestamp_max_us + 86_400_000_000)
            for each in batch.segments
        )
        return replace(batch, segments=later)

    return replace(state, batches=tuple(day_later(each) for each in state.batches))


# fmt: off
LOW = [  # log starts     fenced  low watermark
    pytest.param({1: 5, 2: 5, 3: 5}, "",  5, id="all-have-applied-it"),
    pytest.param({1: 5, 2: 0, 3: 5}, "",  0, id="one-has-not"),
    pytest.param({1: 5, 2: 0, 3: 5}, "2", 5, id="one-that-is-not-live-does-not-count"),
    pytest.param({1: 5, 3: 5},       "",  0, id="one-that-was-not-seen-has-what-it-had"),
]
# fmt: on


@pytest.mark.parametrize("starts, fenced, expected", LOW)
def test_low_watermark(starts, fenced, expected):
    registered = partition("1 2 3", hw=8, start=5)

    assert low_watermark(image_of(registered, fenced=fenced), registered, starts) == expected
