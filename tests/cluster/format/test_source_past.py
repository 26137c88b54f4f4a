"""Batches of the past on a real cluster: what a consumer saw then, or an error."""

import pytest

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    LogTruncatedError,
    UnknownTopicOrPartitionError,
)
from tests.cluster.disks import records
from tests.cluster.format.sources import batch, read


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
    disks.take_down(2)
    cluster.append("t", records(b"2"))
    offset = cluster.image.offset
    disks.take_down(1)
    disks.give_back(2)
    cluster.run_controller()
    cluster.elect_leaders("unclean", [("t", 0)])

    with pytest.raises(LogTruncatedError) as lost:
        batch(disks, asOfMetadataOffset=offset)
    assert read(batch(disks, asOfMetadataOffset=offset, failOnDataLoss="false")) == [b"0", b"1"]
    cluster.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError) as gone:
        batch(disks, asOfMetadataOffset=offset)

    assert "Partition t-0 offset was changed from 3 to 2" in str(lost.value)
    assert "Partitions t-0 have been deleted" in str(gone.value)
