"""The life of partitions and brokers, read off the log: of one, of a topic, of all there were."""

from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerState,
    RemovePartitionRecord,
    UnregisterBrokerRecord,
)
from kafka_on_spark.observe.history import broker_history, partition_history
from tests.builders import TOPIC, TOPIC_ID
from tests.controller.lives import life


def removal(partition):
    return RemovePartitionRecord(
        topic=TOPIC, topic_id=TOPIC_ID, partition=partition, cause="shrunk"
    )


def test_a_partition_that_was_removed_ends_with_an_entry_without_replicas():
    begun = life("1 2", "2 1").at(5).commit(removal(1)).at(6).commit(removal(1))

    entries = partition_history(begun.batches)

    assert [(each.partition, each.cause) for each in entries] == [
        (0, "created"),
        (1, "created"),
        (1, "shrunk"),
    ]
    last = entries[-1]
    assert (last.leader, last.isr, last.replicas, last.leader_epoch) == (None, (), (), 0)


def test_a_deleted_topic_ends_all_its_partitions_once():
    begun = life("1 2", "2 1").at(5).delete().at(6).delete()

    entries = partition_history(begun.batches, TOPIC_ID)

    assert [each.cause for each in entries] == ["created", "created", "deleted", "deleted"]
    assert [each.partition for each in entries] == [0, 1, 0, 1]


def test_broker_events_come_in_order_and_another_rack_is_none():
    begun = life("1 2", ids="1 2 3").at(5).fail(3).at(6).come_back(3)
    rack = BrokerChangeRecord(
        broker_id=3, broker_epoch=0, broker_state=BrokerState.ACTIVE, rack="north"
    )
    begun.commit(rack).at(7).drain(3).at(8).commit(
        UnregisterBrokerRecord(broker_id=3, broker_epoch=0, cause="gone")
    )

    events = [each for each in broker_history(begun.batches) if each.broker_id == 3]

    assert [(each.state, each.is_registration) for each in events] == [
        (BrokerState.ACTIVE, True),
        (BrokerState.FENCED, False),
        (BrokerState.ACTIVE, False),
        (BrokerState.DRAINING, False),
        (None, False),
    ]
    assert [each.time.second for each in events] == [0, 5, 6, 7, 8]
    offsets = [each.metadata_offset for each in events]
    assert offsets == sorted(offsets)
