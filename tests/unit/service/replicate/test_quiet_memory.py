"""What is remembered of partitions in which nothing happens, and what of an image ends that."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from kafka_on_spark.config import Settings
from kafka_on_spark.controller.pace.quiet import TableMark
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicId
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    ConfigRecord,
    ControllerRecord,
    MetadataBatch,
    RemoveTopicRecord,
    Stamp,
)
from kafka_on_spark.service.replicate import quiet_partitions
from kafka_on_spark.service.replicate.quiet_partitions import QuietPartitions
from tests.builders import TOPIC_ID, image_of, partition
from tests.fakes import FakeClock

KEY = PartitionKey(TOPIC_ID, 0)
MARK = TableMark(1, ("file",))
SETTINGS = Settings(({"replica.verify.interval.ms": "1000"},))


class Quiet:
    """A partition that was read by an image, and the addresses that looks at it ask for."""

    def __init__(self, replicas="1 2 3"):
        self.asked = []
        self.image = image_of(partition(replicas), partition("1 2 3"))
        self.quiet = QuietPartitions(FakeClock(), self._marks)
        self.quiet.learn(self.image, self.look(), [KEY])

    def _marks(self, orders):
        self.asked.extend(orders)
        assert all(len(each.known) in (0, len(each.addresses)) for each in orders)
        return [(MARK,) * len(order.addresses) for order in orders]

    def replay(self, *records):
        stamp = Stamp(time_ms=1)
        batch = MetadataBatch(base_offset=self.image.offset, stamp=stamp, records=records)
        self.image = self.image.replay(batch)

    def look(self):
        return self.quiet.look(self.image, [KEY], SETTINGS)


def config(name, value, topic_id=None):
    return ConfigRecord(topic_id=topic_id, config_name=name, config_value=value)


def changed(image, number, **fields):
    key = PartitionKey(TOPIC_ID, number)
    return change_record(image, key, image.partition(key), PartitionChange(**fields), "why")


def test_the_addresses_of_what_has_not_changed_are_made_once(monkeypatch):
    quiet = Quiet()
    made = []
    monkeypatch.setattr(quiet_partitions, "address_of", lambda *given: made.append(given))
    lease = ControllerRecord(controller_id="a", controller_epoch=0, cause="renewed")
    quiet.replay(lease, changed(quiet.image, 1, leader=BrokerId(2)))

    assert quiet.look().quiet == {KEY}

    assert made == []
    assert quiet.asked[1].addresses == quiet.asked[0].addresses


def test_the_addresses_are_made_once_more_after_a_change_of_brokers_or_of_any_setting(monkeypatch):
    quiet = Quiet()
    quiet.replay(config("min.insync.replicas", "2"))
    brokers = MappingProxyType(dict(quiet.image.brokers))  # one was fenced, and unfenced
    quiet.image = replace(quiet.image, brokers=brokers)
    made = []
    made_as_usual = quiet_partitions.address_of

    def address_of(*given):
        made.append(given)
        return made_as_usual(*given)

    monkeypatch.setattr(quiet_partitions, "address_of", address_of)

    found = [quiet.look().quiet for _ in range(3)]

    assert found == [{KEY}] * 3
    assert len(made) == 3  # one for each replica, by the first of these looks


@pytest.mark.parametrize("before, now", [("1 2 3", "1 2"), ("1 2", "1 2 3")])
def test_a_partition_with_more_or_fewer_replicas_is_read_again(before, now):
    quiet = Quiet(before)
    quiet.image = image_of(partition(now), partition("1 2 3"))

    assert quiet.look().quiet == set()
    assert [len(each.addresses) for each in quiet.asked] == [len(before.split()), len(now.split())]


def test_a_partition_with_another_leader_is_read_again():
    quiet = Quiet()
    quiet.replay(changed(quiet.image, 0, leader=BrokerId(2)))

    assert quiet.look().quiet == set()
    assert len(quiet.asked) == 2


@pytest.mark.parametrize("topic_id", [None, TOPIC_ID], ids=["the cluster's", "the topic's"])
def test_a_setting_that_is_part_of_an_address_has_its_partition_read_again(topic_id):
    quiet = Quiet()
    quiet.replay(config("flush.messages", "10", topic_id))

    assert quiet.look().quiet == set()
    assert not quiet.asked[1].addresses[0].is_flushed


def test_a_replica_whose_broker_has_gone_is_not_looked_at():
    quiet = Quiet()
    broker = quiet.image.brokers[BrokerId(3)]
    gone = replace(broker, state=BrokerState.FENCED)
    brokers = MappingProxyType({**quiet.image.brokers, BrokerId(3): gone})
    quiet.image = replace(quiet.image, brokers=brokers)

    assert quiet.look().quiet == set()
    assert len(quiet.asked) == 1


def test_a_deleted_partition_is_not_looked_at():
    quiet = Quiet()
    quiet.replay(RemoveTopicRecord(topic_id=TopicId(TOPIC_ID)))

    assert quiet.look().quiet == set()
    assert len(quiet.asked) == 1
