"""Batches of the past on a real cluster: what a consumer saw then, or an error."""

import pytest

from kafka_on_spark.errors import (
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from tests.cluster.disks import records
from tests.cluster.format.sources import batch, read, values


def test_the_past_is_read_as_a_consumer_saw_it_then(disks):
    cluster = disks.cluster
    cluster.append("t", records(b"0"))
    cluster.append("t", records(b"not committed yet"), acks=0)
    offset, time_ms = cluster.image.offset, cluster.image.time_ms
    cluster.replicate()
    cluster.create_topic("later")

    assert read(batch(disks)) == [b"0", b"not committed yet"]
    assert read(batch(disks, asOfMetadataOffset=offset)) == [b"0"]
    assert read(batch(disks, asOfMetadataOffset=offset, startingOffsets='{"t":{"0":1}}')) == []
    assert read(batch(disks, asOfTimestamp=time_ms + 10**9)) == [b"0", b"not committed yet"]
    with pytest.raises(UnknownTopicOrPartitionError):
        batch(disks, subscribe="later", asOfMetadataOffset=offset)
    with pytest.raises(
        InvalidRequestError, match="option 'asOfTimestamp' can't be 1: the cluster was made at"
    ):
        batch(disks, asOfTimestamp=1)


def test_a_past_whose_records_are_gone_or_others_is_told(disks):
    cluster = disks.cluster
    cluster.append("t", records(b"0", b"1"))
    disks.take_away(2)
    assert disks.fenced_in_time() == (2,)
    cluster.append("t", records(b"2"))
    offset = cluster.image.offset
    disks.take_away(1)
    disks.give_back(2)
    assert disks.fenced_in_time() == (1,)
    cluster.elect_leaders("unclean", [("t", 0)])

    with pytest.raises(LogTruncatedError) as lost:
        batch(disks, asOfMetadataOffset=offset)
    assert read(batch(disks, asOfMetadataOffset=offset, failOnDataLoss="false")) == [b"0", b"1"]
    cluster.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError) as gone:
        batch(disks, asOfMetadataOffset=offset)

    assert "Partition t-0 offset was changed from 3 to 2" in str(lost.value)
    assert "Partitions t-0 have been deleted" in str(gone.value)


def test_a_past_of_a_partition_that_was_removed_and_added_again_is_told(disks):
    """The records of now have the offsets of those of then."""
    cluster = disks.cluster
    cluster.add_partitions("t", to=2, replica_assignment={1: [1, 2]})
    many = [(bytes([number]), b"then") for number in range(16)]
    cluster.append("t", many)
    offset = cluster.image.offset
    cluster.remove_partitions("t", to=1, records="drop")
    cluster.add_partitions("t", to=2, replica_assignment={1: [1, 2]})
    cluster.append("t", many)

    with pytest.raises(LogTruncatedError, match=r"t-1 offset was changed .* added again"):
        batch(disks, asOfMetadataOffset=offset)


def compacted(disks):
    """Make a topic that is compacted above an earlier moment; return that moment."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    configs |= {"segment.ms": "1", "min.insync.replicas": "1"}
    disks.cluster.create_topic("prices", replica_assignment={0: [1, 2]}, configs=configs)
    disks.cluster.append("prices", [(b"a", b"1"), (b"b", b"1")])
    offset = disks.cluster.image.offset
    disks.cluster.append("prices", [(b"a", b"2")])
    return offset


def test_a_past_whose_values_are_compacted_away_is_refused(disks):
    """It had two keys: without its value of the first one it would seem to have one."""
    offset = compacted(disks)
    past = {"subscribe": "prices", "asOfMetadataOffset": offset}
    assert read(batch(disks, **past)) == [b"1", b"1"]
    planned = batch(disks, **past, minPartitions=2)
    tasks = planned.partitions()
    disks.cluster.maintain()

    for more in ({}, {"failOnDataLoss": "false"}):
        with pytest.raises(OffsetOutOfRangeError, match=r"it is compacted below 3.*later moment"):
            batch(disks, **past, **more)
    with pytest.raises(OffsetOutOfRangeError, match="it is compacted below 3"):
        values(planned, tasks)
    assert read(batch(disks, subscribe="prices")) == [b"1", b"2"]
