"""A new leader epoch where too many files may be named by appends of the last one."""

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.upkeep_round import raise_epochs_over_orphans
from tests.builders import TOPIC_ID, image_of, partition

KEY = PartitionKey(TOPIC_ID, 0)


def seen(size_bytes, *, broker_id=1, epoch=5):
    return KEY, broker_id, epoch, size_bytes


def decided(*orphans, **fields):
    image = image_of(partition("1 2 3", **fields), configs={"orphan.bytes.max": "100"})
    return raise_epochs_over_orphans(image, orphans)


def test_the_same_leader_begins_a_new_epoch():
    result = decided(seen(101, broker_id=2))

    [record] = result.records
    assert result.response == [KEY]
    assert (record.change.leader, record.leader_epoch, record.partition_epoch) == (1, 6, 10)
    assert record.cause == (
        "broker 2: 101 bytes of files of epoch 5 that no log names, more than orphan.bytes.max 100"
    )


@pytest.mark.parametrize(
    "orphans",
    [
        pytest.param([], id="nothing-was-seen"),
        pytest.param([seen(100)], id="not-too-many"),
        pytest.param([seen(60), seen(60, broker_id=2)], id="of-two-replicas-together"),
        pytest.param([seen(101, epoch=4)], id="seen-under-an-older-epoch"),
    ],
)
def test_the_epoch_stays(orphans):
    assert not decided(*orphans).records


def test_a_partition_without_a_leader_waits_for_its_election():
    assert not decided(seen(101), leader=None, isr="").records
