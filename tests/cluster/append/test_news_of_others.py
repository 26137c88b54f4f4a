"""An append goes by what other processes have decided before it, though it is planned by what its own
process knew."""

import pytest

from kafka_on_spark.base.errors import MessageTooLargeError, UnknownTopicOrPartitionError
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.produce import append
from tests.cluster.disks import values_of

SMALL, LARGE = [(b"k", b"small")], [(b"k", b"l" * 2000)]


def made_anew(other, topic):
    other.delete_topic(topic)
    other.create_topic(topic, partitions=1, replication_factor=1)


# fmt: off
CASES = [  # before                        what the other process does                                                        the records, and what becomes of them
    pytest.param({},                             lambda other, topic: other.add_partitions(topic, to=8),                                    SMALL, {0}, id="a topic gets partitions"),
    pytest.param({},                             made_anew,                                                                              SMALL, {0}, id="a topic is made anew"),
    pytest.param({},                             lambda other, topic: other.delete_topic(topic),                                         SMALL, UnknownTopicOrPartitionError, id="a topic is deleted"),
    pytest.param({},                             lambda other, topic: other.alter_topic_configs(topic, {"max.message.bytes": 1000}),     LARGE, MessageTooLargeError, id="records are too large from now on"),
    pytest.param({"max.message.bytes": 1000},    lambda other, topic: other.alter_topic_configs(topic, {"max.message.bytes": 5000}),     LARGE, {0}, id="records were too large until now"),
]
# fmt: on


def noted(steps, name, function):
    def call(*given):
        steps.append(name)
        return function(*given)

    return call


@pytest.mark.parametrize("configs, decide, records, expected", CASES)
def test_an_append_goes_by_what_others_have_decided(disks, configs, decide, records, expected):
    cluster, other = disks.cluster, disks.open()
    cluster.create_topic("t", partitions=1, replication_factor=1, configs=configs)
    decide(other, "t")

    if isinstance(expected, type):
        with pytest.raises(expected):
            cluster.append("t", records)
    else:
        found = cluster.append("t", records)
        assert len(found.partitions) == 1
        assert {each.base_offset for each in found.partitions.values()} == expected
        assert values_of(other, "t") == [value for _, value in records]


def test_an_append_to_a_topic_that_another_process_has_just_made_is_no_error(disks):
    other = disks.open()
    other.create_topic("t", partitions=1, replication_factor=1)

    assert disks.cluster.append("t", SMALL).record_count == 1


def test_records_are_split_as_the_topic_is_when_they_are_appended(disks):
    cluster, other = disks.cluster, disks.open()
    cluster.create_topic("t", partitions=1, replication_factor=1)
    other.add_partitions("t", to=4)

    found = cluster.append("t", [(str(each).encode(), b"v") for each in range(40)])

    assert sorted(found.partitions) == [0, 1, 2, 3]


def test_records_of_an_iterator_are_all_there_if_they_are_staged_again(disks):
    cluster, other = disks.cluster, disks.open()
    cluster.create_topic("t", partitions=1, replication_factor=1)
    other.add_partitions("t", to=2)

    assert cluster.append("t", iter(SMALL * 3)).record_count == 3


def test_a_process_that_knows_little_of_late_reads_the_metadata_before_it_writes(
    disks, monkeypatch
):
    cluster = disks.cluster
    cluster.create_topic("t", partitions=1, replication_factor=1)
    steps = []
    monkeypatch.setattr(MetadataService, "is_old", True)
    for owner, name in [(MetadataService, "catch_up"), (append, "plan_append")]:
        monkeypatch.setattr(owner, name, noted(steps, name, getattr(owner, name)))

    cluster.append("t", SMALL)

    assert steps[:2] == ["catch_up", "plan_append"]
