"""Records without a key are refused by a compacted topic, before anything is appended (KIP-135)."""

import pytest

from kafka_on_spark.base.errors import InvalidRecordError

MIXED = [("k", "kept", 0), (None, "refused", 1)]


def rows(given):
    return [{"key": key, "value": value, "partition": number} for key, value, number in given]


@pytest.fixture(params=["compact", "compact,delete"])
def cluster(disks, request):
    disks.cluster.create_topic(
        "prices", partitions=2, replication_factor=1, configs={"cleanup.policy": request.param}
    )
    return disks.cluster


@pytest.mark.parametrize("acks", ["all", "1"])
def test_one_record_without_a_key_refuses_the_whole_append(cluster, acks):
    with pytest.raises(InvalidRecordError, match="has no key, and its topic is compacted"):
        cluster.append("prices", rows(MIXED), acks=acks)

    assert [each.log_end_offset for each in cluster.offsets("prices").values()] == [0, 0]


def test_records_with_keys_and_tombstones_are_appended(cluster):
    cluster.append("prices", rows([("k", "1", 0), ("k", None, 0), ("", "empty key", 1)]))

    assert [each.high_watermark for each in cluster.offsets("prices").values()] == [2, 1]
